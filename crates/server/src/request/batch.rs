//! The body of a batch or bulk request.
//!
//! Two forms exist: JSON, and the binary rows of one SDK. [`operations`] tells them apart by the
//! first byte, so a decoder for the second has its place; until there is one it is refused.

use std::sync::Arc;

use bytes::Bytes;
use engine::{BatchKind, BatchOperation, Conditions};
use model::json::{self, Kind, Layout, Listed};
use model::partition_key::PartitionKey;
use model::token::Match;
use model::{Error, Fault, Result, limits};

/// What a body of binary rows (HybridRow) begins with.
const HYBRID_ROW: u8 = 0x81;

/// The operations that a body asks for. `key` is that of all of them, where the request has one.
pub fn operations(body: &Bytes, key: Option<&PartitionKey>) -> Result<Vec<BatchOperation>> {
    if body.first() == Some(&HYBRID_ROW) {
        return Err(Error::bad_request(
            "a batch in HybridRow form is not supported by this version of the server: send JSON",
        ));
    }
    if body.len() > limits::BATCH_BYTES {
        return Err(Error::new(
            Fault::TooLarge,
            format!("the batch has {} bytes, the limit is {}", body.len(), limits::BATCH_BYTES),
        ));
    }
    // The engine says how many are too many; reading one more is enough for it to do so.
    let Some(list) = json::check_list(body, limits::BATCH_OPERATIONS + 1)? else {
        return Err(Error::bad_request("the body of a batch must be an array of operations"));
    };
    let key = key.cloned().map(Arc::new);
    let operations = list.into_iter().enumerate();
    let one = |(n, one)| operation(body, one, key.as_ref()).map_err(|error| numbered(n, error));
    operations.map(one).collect()
}

fn operation(
    body: &Bytes,
    listed: Listed<'_>,
    key: Option<&Arc<PartitionKey>>,
) -> Result<BatchOperation> {
    let mut found = Members::of(listed);
    let layout = found.take_layout("resourceBody");
    let member = |name: &str| found.get(name).filter(|raw| json::kind(raw) != Kind::Null);
    let text = |name: &str| match member(name) {
        None => Ok(None),
        Some(raw) => json::unescape(raw)
            .map(Some)
            .ok_or_else(|| Error::bad_request(format!("'{name}' must be a text"))),
    };
    let kind = match text("operationType")?.as_deref() {
        Some("Create") => BatchKind::Create,
        Some("Upsert") => BatchKind::Upsert,
        Some("Read") => BatchKind::Read,
        Some("Replace") => BatchKind::Replace,
        Some("Patch") => BatchKind::Patch,
        Some("Delete") => BatchKind::Delete,
        other => {
            let shown: String = other.unwrap_or_default().chars().take(32).collect();
            return Err(Error::bad_request(format!(
                "'operationType' is '{shown}': there are Create, Upsert, Read, Replace, Patch and Delete"
            )));
        }
    };
    // A request that names a key is about that key alone, whatever its operations say.
    let key = match (key, text("partitionKey")?) {
        (Some(key), _) => Some(key.clone()),
        (None, Some(text)) => Some(Arc::new(PartitionKey::parse_header(&text)?)),
        (None, None) => None,
    };
    Ok(BatchOperation {
        kind,
        id: text("id")?.map(|id| id.into_owned()),
        body: member("resourceBody").map(|raw| body.slice_ref(raw)).unwrap_or_default(),
        layout,
        conditions: Conditions {
            if_match: text("ifMatch")?.map(|text| Match::parse(&text)),
            if_none_match: text("ifNoneMatch")?.map(|text| Match::parse(&text)),
        },
        key,
    })
}

/// The members that operations have.
const NAMES: [&str; 6] =
    ["operationType", "id", "resourceBody", "partitionKey", "ifMatch", "ifNoneMatch"];

struct Members<'a>([Option<(&'a [u8], Option<Layout>)>; NAMES.len()]);

impl<'a> Members<'a> {
    /// Of equal names the last one counts.
    fn of(listed: Listed<'a>) -> Self {
        let mut found = [const { None }; NAMES.len()];
        for (key, value, layout) in listed.members {
            if let Some(at) = NAMES.iter().position(|name| json::key_is(key, name)) {
                found[at] = Some((value, layout));
            }
        }
        Self(found)
    }

    fn get(&self, name: &str) -> Option<&'a [u8]> {
        let at = NAMES.iter().position(|known| *known == name)?;
        self.0[at].as_ref().map(|(value, _)| *value)
    }

    fn take_layout(&mut self, name: &str) -> Option<Layout> {
        let at = NAMES.iter().position(|known| *known == name)?;
        self.0[at].as_mut().and_then(|(_, layout)| layout.take())
    }
}

/// Says which operation is meant, counted from 0 as the SDKs count results.
fn numbered(n: usize, error: Error) -> Error {
    Error { message: format!("operation {n} of the batch: {}", error.message), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<BatchOperation>> {
        operations(&Bytes::copy_from_slice(body.as_bytes()), None)
    }

    #[test]
    fn operations_are_read() {
        let list = read(
            r#" [ {"operationType":"Create","resourceBody":{ "id" : "1" }},
               {"operationType":"Delete","id":"a\u00e9","ifMatch":"\"x\"","partitionKey":"[\"p\"]","resourceBody":null} ] "#,
        )
        .unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(
            (list[0].kind, &list[0].body[..]),
            (BatchKind::Create, &br#"{ "id" : "1" }"#[..])
        );
        assert!(list[0].key.is_none() && list[0].id.is_none());
        assert_eq!((list[1].kind, list[1].id.as_deref()), (BatchKind::Delete, Some("aé")));
        assert!(list[1].body.is_empty() && list[1].conditions.if_match.is_some());
        assert_eq!(list[1].key.as_ref().unwrap().to_header(), "[\"p\"]");
    }

    #[test]
    fn the_key_of_the_request_wins() {
        let key = PartitionKey::parse_header("[1]").unwrap();
        let body =
            Bytes::from_static(br#"[{"operationType":"Read","id":"1","partitionKey":"[2]"}]"#);
        assert_eq!(operations(&body, Some(&key)).unwrap()[0].key.as_deref(), Some(&key));
    }

    #[test]
    fn what_is_not_a_batch_is_refused() {
        for body in [
            "",
            "{}",
            "5",
            "[5]",
            "[{}]",
            r#"[{"operationType":"Execute"}]"#,
            r#"[{"operationType":5}]"#,
            r#"[{"operationType":"Read","id":5}]"#,
            r#"[{"operationType":"Read","id":"1","partitionKey":"["}]"#,
            "\u{81}",
        ] {
            assert_eq!(read(body).unwrap_err().fault, Fault::BadRequest, "{body}");
        }
        let rows = operations(&Bytes::from_static(&[0x81, 0, 0]), None).unwrap_err();
        assert!(rows.message.contains("HybridRow"));
        let large = format!("[\"{}\"]", "x".repeat(limits::BATCH_BYTES));
        assert_eq!(read(&large).unwrap_err().fault, Fault::TooLarge);
        let many = format!("[{}]", vec![r#"{"operationType":"Read"}"#; 500].join(","));
        assert_eq!(read(&many).unwrap().len(), 101);
    }
}
