//! One change, as bytes, with what the processor has to know of it.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A change of an item.
#[derive(Debug, Clone)]
pub struct Change {
    raw: Bytes,
    facts: Facts,
    key: String,
}

#[derive(Debug, Clone, Copy, Default)]
struct Facts {
    lsn: u64,
    at: i64,
    is_delete: bool,
}

#[derive(Deserialize)]
struct Bare {
    #[serde(rename = "_lsn")]
    lsn: u64,
    #[serde(rename = "_ts", default)]
    at: i64,
}

#[derive(Deserialize)]
struct Envelope {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    lsn: u64,
    #[serde(default)]
    crts: i64,
    operation_type: Option<String>,
}

impl Change {
    /// Reads the little that has to be known. `key_paths` says where the partition key is; empty
    /// if nobody will ask for it.
    pub fn new(raw: Bytes, key_paths: &[String]) -> Self {
        let facts = facts(&raw);
        let key = if key_paths.is_empty() { String::new() } else { key(&raw, key_paths) };
        Self { raw, facts, key }
    }

    /// The change as the service sent it: the item with `_lsn`, or an envelope with `current`,
    /// `previous` and `metadata`.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The change as a type. What does not fit is an error for the error policy; the bytes stay.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.raw)
    }

    /// The number of its commit.
    pub fn lsn(&self) -> u64 {
        self.facts.lsn
    }

    /// When it was made, in seconds since 1970.
    pub fn at(&self) -> i64 {
        self.facts.at
    }

    /// Whether the item was deleted by it.
    pub fn is_delete(&self) -> bool {
        self.facts.is_delete
    }

    /// The value of its partition key, a JSON list; empty where lanes and parking are not used.
    pub fn key(&self) -> &str {
        &self.key
    }
}

fn facts(raw: &[u8]) -> Facts {
    if let Some(facts) = facts_at_end(raw) {
        return facts;
    }
    if let Ok(bare) = serde_json::from_slice::<Bare>(raw) {
        return Facts { lsn: bare.lsn, at: bare.at, is_delete: false };
    }
    match serde_json::from_slice::<Envelope>(raw) {
        Ok(Envelope { metadata }) => Facts {
            lsn: metadata.lsn,
            at: metadata.crts,
            is_delete: metadata.operation_type.as_deref() == Some("delete"),
        },
        Err(_) => Facts::default(),
    }
}

/// What servers write at the end of each item, `,"_ts":7,"_lsn":9}`, without reading the rest. No
/// string can end like that, since its quote would follow; and a member right before the last brace
/// is one of the item itself. Anything else is read in full.
fn facts_at_end(raw: &[u8]) -> Option<Facts> {
    let (rest, lsn) = number_at_end(raw.trim_ascii_end().strip_suffix(b"}")?)?;
    let (rest, at) = number_at_end(rest.strip_suffix(br#","_lsn":"#)?)?;
    rest.ends_with(br#","_ts":"#).then_some(())?;
    Some(Facts { lsn, at: i64::try_from(at).ok()?, is_delete: false })
}

fn number_at_end(text: &[u8]) -> Option<(&[u8], u64)> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, digits) = text.split_at(text.len() - digits);
    Some((rest, std::str::from_utf8(digits).ok()?.parse().ok()?))
}

/// The key values as a JSON list; what the item does not have is an empty object, as on the wire.
fn key(raw: &[u8], paths: &[String]) -> String {
    let Ok(change) = serde_json::from_slice::<Value>(raw) else { return String::new() };
    let is_bare = change.get("_lsn").is_some();
    let item =
        if is_bare { Some(&change) } else { change.get("current").filter(|v| v.is_object()) };
    let named = change.pointer("/metadata/partitionKey");
    let value = |path: &String| {
        let path = path.trim_start_matches('/');
        let value = match item {
            Some(item) => {
                path.split('/').try_fold(item, |value, part| value.get(part.trim_matches('"')))
            }
            None => named.and_then(|named| named.get(path)),
        };
        value.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()))
    };
    Value::Array(paths.iter().map(value).collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, paths: &[&str], expected: &str) {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let change = Change::new(Bytes::copy_from_slice(text.as_bytes()), &paths);
        let found =
            format!("{} {} {} {}", change.lsn(), change.at(), change.is_delete(), change.key());
        assert_eq!(found, expected);
    }

    #[test]
    fn items_and_envelopes_tell_what_they_are() {
        check(r#"{"id":"1","pk":"a","_ts":9,"_lsn":4}"#, &["/pk"], r#"4 9 false ["a"]"#);
        check(
            r#"{"current":{"id":"1","a":{"b":2}},"metadata":{"lsn":5,"crts":8}}"#,
            &["/a/b", "/c"],
            "5 8 false [2,{}]",
        );
        check(
            r#"{"metadata":{"lsn":6,"crts":7,"operationType":"delete","id":"1","partitionKey":{"pk":"a"}}}"#,
            &["/pk"],
            r#"6 7 true ["a"]"#,
        );
        // Other orders, spaces, and texts that look like what is looked for.
        check(r#"{"_lsn":4,"id":"1","_ts":9}"#, &[], "4 9 false ");
        check("{\"id\":\"1\", \"_ts\": 9, \"_lsn\": 4 }\n", &[], "4 9 false ");
        check(r#"{"_lsn":4,"_ts":9,"a":{"b":1,"_ts":7,"_lsn":8}}"#, &[], "4 9 false ");
        check(r#"{"_lsn":4,"_ts":9,"a":",\"_ts\":7,\"_lsn\":8}"}"#, &[], "4 9 false ");
        check(r#"{"_ts":9,"_lsn":4,",\"_ts":7,",\"_lsn":8}"#, &[], "4 9 false ");
        check(r#"{"id":"1","_ts":9,"_lsn":18446744073709551616}"#, &[], "0 0 false ");
        check(r#"{"id":"1","metadata":"mine","_lsn":4}"#, &[], "4 0 false ");
        check("[]", &["/pk"], "0 0 false [{}]");
        check("nonsense", &["/pk"], "0 0 false ");
    }
}
