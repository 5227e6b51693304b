//! What the body of a resource must be, by kind.

use model::policy::ContainerDefinition;
use model::{Error, Fault, Result, item};
use serde_json::{Map, Value};

use crate::Kind;
use crate::api::Resource;

const TRIGGER_TYPES: &[&str] = &["Pre", "Post"];
const TRIGGER_OPERATIONS: &[&str] = &["All", "Create", "Update", "Replace", "Upsert", "Delete"];
const PERMISSION_MODES: &[&str] = &["All", "Read"];

/// Checks the body of a new resource and completes it. Client values of system properties go.
pub(crate) fn accept(kind: Kind, mut body: Map<String, Value>) -> Result<Map<String, Value>> {
    body.retain(|name, _| !name.starts_with('_'));
    item::check_resource_id(&id_of(&body)?)?;
    match kind {
        Kind::Database | Kind::User => body.retain(|name, _| name == "id"),
        Kind::Container => return Ok(ContainerDefinition::create(&body)?.to_json().clone()),
        Kind::Permission => accept_permission(&mut body)?,
        Kind::StoredProcedure | Kind::UserDefinedFunction => check_script(&body)?,
        Kind::Trigger => {
            check_script(&body)?;
            one_of(&mut body, "triggerType", TRIGGER_TYPES)?;
            one_of(&mut body, "triggerOperation", TRIGGER_OPERATIONS)?;
        }
        Kind::ClientEncryptionKey => {}
        Kind::Offer => {
            return Err(Error::new(
                Fault::MethodNotAllowed,
                "an offer comes with its database or container",
            ));
        }
    }
    Ok(body)
}

/// The id that a body gives itself.
pub(crate) fn id_of(body: &Map<String, Value>) -> Result<String> {
    match body.get("id") {
        Some(Value::String(id)) => Ok(id.clone()),
        Some(_) => Err(Error::bad_request("the id must be a string")),
        None => Err(Error::bad_request(
            "one of the required properties - 'id' - is missing from the body",
        )),
    }
}

/// A resource as queries see it.
pub(crate) fn as_document(resource: &Resource) -> Value {
    let mut document = resource.body.clone();
    document.insert("_rid".into(), resource.rid.as_str().into());
    document.insert("_self".into(), resource.self_link.as_str().into());
    document.insert("_etag".into(), resource.etag.to_string().into());
    document.insert("_ts".into(), resource.ts.into());
    Value::Object(document)
}

fn check_script(body: &Map<String, Value>) -> Result<()> {
    match body.get("body") {
        Some(Value::String(_)) => Ok(()),
        _ => Err(Error::bad_request(
            "the property 'body' must be a string with the script's JavaScript",
        )),
    }
}

fn accept_permission(body: &mut Map<String, Value>) -> Result<()> {
    one_of(body, "permissionMode", PERMISSION_MODES)?;
    match body.get("resource") {
        Some(Value::String(resource)) if !resource.trim_matches('/').is_empty() => {}
        _ => {
            return Err(Error::bad_request(
                "the property 'resource' must be the link of the resource that the permission is for",
            ));
        }
    }
    match body.get("resourcePartitionKey") {
        None | Some(Value::Array(_)) => Ok(()),
        Some(Value::Null) => {
            body.remove("resourcePartitionKey");
            Ok(())
        }
        // A lone value is the key of a container with one level.
        Some(lone) => {
            let key = Value::Array(vec![lone.clone()]);
            body.insert("resourcePartitionKey".into(), key);
            Ok(())
        }
    }
}

/// The property must be one of some words, in any case; it is kept in the spelling given here.
fn one_of(body: &mut Map<String, Value>, name: &str, words: &[&str]) -> Result<()> {
    let given = body.get(name).and_then(Value::as_str).unwrap_or_default();
    match words.iter().find(|word| word.eq_ignore_ascii_case(given)) {
        Some(word) => {
            body.insert(name.into(), (*word).into());
            Ok(())
        }
        None => Err(Error::bad_request(format!(
            "the property '{name}' must be one of {}",
            words.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(kind: Kind, body: Value, expected: Result<Value>) {
        let Value::Object(body) = body else { panic!("a body is an object") };
        let accepted = accept(kind, body).map(Value::Object);
        match (accepted, expected) {
            (Ok(accepted), Ok(expected)) => assert_eq!(accepted, expected),
            (Err(error), Err(expected)) => {
                assert!(error.message.contains(&expected.message), "{error}")
            }
            (accepted, expected) => panic!("{accepted:?} instead of {expected:?}"),
        }
    }

    fn refused(message: &str) -> Result<Value> {
        Err(Error::bad_request(message))
    }

    #[test]
    fn bodies_are_checked_by_kind() {
        check(Kind::Database, json!({"id": "a", "_rid": "x", "x": 1}), Ok(json!({"id": "a"})));
        check(Kind::Database, json!({}), refused("'id'"));
        check(Kind::Database, json!({"id": 5}), refused("must be a string"));
        check(Kind::User, json!({"id": "u/1"}), refused("id"));
        check(Kind::StoredProcedure, json!({"id": "s"}), refused("'body'"));
        check(
            Kind::Trigger,
            json!({"id": "t", "body": "f", "triggerType": "pre", "triggerOperation": "all"}),
            Ok(json!({"id": "t", "body": "f", "triggerType": "Pre", "triggerOperation": "All"})),
        );
        check(
            Kind::Trigger,
            json!({"id": "t", "body": "f", "triggerType": "during", "triggerOperation": "All"}),
            refused("one of Pre, Post"),
        );
        check(
            Kind::Permission,
            json!({"id": "p", "permissionMode": "read", "resource": "dbs/a/colls/b", "resourcePartitionKey": "k"}),
            Ok(
                json!({"id": "p", "permissionMode": "Read", "resource": "dbs/a/colls/b", "resourcePartitionKey": ["k"]}),
            ),
        );
        check(Kind::Permission, json!({"id": "p", "permissionMode": "All"}), refused("'resource'"));
    }
}
