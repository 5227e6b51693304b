//! What a resource token lets its holder do.

use engine::{Engine, Kind, Resource};
use model::partition_key::PartitionKey;
use model::{Error, Fault, Result};
use serde_json::Value;

use super::Claim;
use super::token::Token;
use crate::path::{Path, kind_of};
use crate::route::{Access, Operation};

/// Refuses what the token's permission does not cover.
pub fn check(claim: &Claim<'_>, engine: &Engine, token: &Token) -> Result<()> {
    let permission = engine
        .by_rid(&token.rid)
        .filter(|found| found.kind == Kind::Permission && found.etag.to_string() == token.etag)
        .ok_or_else(|| forbidden("the permission of this token was deleted or changed"))?;
    if claim.operation == Operation::Account {
        return Ok(());
    }
    let text = |name: &str| permission.body.get(name).and_then(Value::as_str).unwrap_or("");
    if claim.operation.access() == Access::Write
        && !text("permissionMode").eq_ignore_ascii_case("All")
    {
        return Err(forbidden("the permission of this token only allows to read"));
    }
    if !may_be_granted(claim.operation) {
        return Err(forbidden("this needs a key: no resource token allows it"));
    }
    let granted = Path::parse(text("resource")).ok().and_then(|path| place(engine, &path));
    let granted =
        granted.ok_or_else(|| forbidden("what the permission was for does not exist any more"))?;
    let wanted = place(engine, claim.path).unwrap_or_default();
    let covered = wanted.starts_with(&granted)
        || (is_on_the_way(claim.operation) && granted.starts_with(&wanted));
    if wanted.is_empty() || !covered {
        return Err(forbidden("the permission of this token is for another resource"));
    }
    check_partition_key(claim, &permission)
}

/// Users, permissions and throughput are administered with a key only.
fn may_be_granted(operation: Operation) -> bool {
    match operation {
        Operation::Create(kind)
        | Operation::Upsert(kind)
        | Operation::List(kind)
        | Operation::Query(kind)
        | Operation::Read(kind)
        | Operation::Replace(kind)
        | Operation::Delete(kind) => !matches!(kind, Kind::User | Kind::Permission | Kind::Offer),
        _ => true,
    }
}

/// Clients read the container and its ranges before they can find anything in it.
fn is_on_the_way(operation: Operation) -> bool {
    matches!(operation, Operation::Read(Kind::Container) | Operation::ReadRanges)
}

/// A path as the rids of its steps, whichever way it names them; items, which only their
/// container knows, by name. `None` where a step does not exist.
fn place(engine: &Engine, path: &Path<'_>) -> Option<Vec<String>> {
    let mut place = Vec::new();
    let mut link = engine::Link::default();
    for [word, name] in path.segments().as_chunks::<2>().0 {
        match kind_of(word) {
            Some(kind) => {
                link.0.push((kind, name.to_string()));
                place.push(engine.read(&link).ok()?.rid.clone());
            }
            None => place.push(format!("{word}/{name}")),
        }
    }
    Some(place)
}

fn check_partition_key(claim: &Claim<'_>, permission: &Resource) -> Result<()> {
    let touches_items = matches!(
        claim.operation,
        Operation::CreateItem
            | Operation::UpsertItem
            | Operation::ReadItem
            | Operation::ReplaceItem
            | Operation::DeleteItem
            | Operation::PatchItem
            | Operation::Batch
            | Operation::DeleteKey
            | Operation::Execute
            | Operation::ReadItems
            | Operation::ReadChanges
            | Operation::ReadLag
            | Operation::QueryItems
            | Operation::Refuse(_)
    );
    let granted = permission.body.get("resourcePartitionKey").filter(|key| !key.is_null());
    let (true, Some(granted)) = (touches_items, granted) else { return Ok(()) };
    let granted = PartitionKey::parse_header(&granted.to_string())?;
    if claim.headers.partition_key()? == Some(granted) {
        return Ok(());
    }
    Err(forbidden("the permission of this token is for another partition key"))
}

fn forbidden(message: &str) -> Error {
    Error::new(Fault::Forbidden, message)
}
