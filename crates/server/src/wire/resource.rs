//! Resources, and lists of them, as clients read them.

use bytes::Bytes;
use engine::{Kind, Resource, ResourcePage};
use serde_json::{Map, Value};

use crate::reply;

/// A resource with its system properties; permissions with a token, if there is one.
pub fn object(resource: &Resource, token: Option<String>) -> Map<String, Value> {
    let mut object = resource.body.clone();
    let mut add = |name: &str, value: Value| object.insert(name.to_owned(), value);
    add("_rid", resource.rid.as_str().into());
    add("_self", resource.self_link.as_str().into());
    add("_etag", resource.etag.to_string().into());
    add("_ts", resource.ts.into());
    for (name, path) in children(resource.kind) {
        add(name, (*path).into());
    }
    if let Some(token) = token {
        add("_token", token.into());
    }
    object
}

/// A page of resources.
pub fn list(kind: Kind, page: &ResourcePage, token: impl Fn(&Resource) -> Option<String>) -> Bytes {
    let text = |resource: &Resource| {
        Bytes::from(Value::Object(object(resource, token(resource))).to_string())
    };
    let entries: Vec<Bytes> = page.resources.iter().map(|resource| text(resource)).collect();
    reply::list(&page.owner, list_name(kind), &entries)
}

/// Where the feeds below a resource are, relative to it.
fn children(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Database => &[("_colls", "colls/"), ("_users", "users/")],
        Kind::Container => &[
            ("_docs", "docs/"),
            ("_sprocs", "sprocs/"),
            ("_triggers", "triggers/"),
            ("_udfs", "udfs/"),
            ("_conflicts", "conflicts/"),
        ],
        Kind::User => &[("_permissions", "permissions/")],
        _ => &[],
    }
}

/// The member of a list that holds its entries.
fn list_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Database => "Databases",
        Kind::Container => "DocumentCollections",
        Kind::User => "Users",
        Kind::Permission => "Permissions",
        Kind::Offer => "Offers",
        Kind::StoredProcedure => "StoredProcedures",
        Kind::Trigger => "Triggers",
        Kind::UserDefinedFunction => "UserDefinedFunctions",
        Kind::ClientEncryptionKey => "ClientEncryptionKeys",
    }
}
