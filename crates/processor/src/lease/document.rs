//! Lease documents as version 3 of the .NET library writes and reads them.
//!
//! Member by member in its order, so that a lease that passes through us comes out byte for byte
//! as it went in, apart from what was meant to change.

use serde_json::{Map, Value, json};

use super::{Kind, Lease, Mode};
use crate::span::Span;

/// Why a document is not taken for a lease of this family.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Written by the Java library in its own format.
    #[error(
        "lease document '{0}' was written by the Java library; families cannot be mixed under one prefix: import its leases first (astrarium processor leases import), or use another lease prefix"
    )]
    Java(String),
    /// Not a lease at all, or damaged.
    #[error("lease document '{id}' cannot be read: {why}")]
    Corrupt {
        /// Its id.
        id: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Reads a lease. The document's own `_etag` is believed only where the answer had none.
pub fn read(body: &Map<String, Value>, etag: Option<&str>) -> Result<Lease, Unreadable> {
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = text("id").unwrap_or_default();
    let corrupt = |why: &str| Unreadable::Corrupt { id: id.clone(), why: why.to_owned() };
    if body.contains_key("feedRange") && !body.contains_key("FeedRange") {
        return Err(Unreadable::Java(id));
    }
    let partition_id = text("PartitionId");
    let token = text("LeaseToken")
        .or_else(|| partition_id.clone())
        .ok_or_else(|| corrupt("it has neither LeaseToken nor PartitionId"))?;
    let kind = match body.get("version").map(Value::as_i64) {
        None | Some(Some(0)) => Kind::Range,
        Some(Some(1)) => Kind::Span,
        _ => return Err(corrupt("its version is neither 0 nor 1")),
    };
    let span = match body.get("FeedRange") {
        None | Some(Value::Null) => None,
        Some(range) => Some(read_span(range).ok_or_else(|| corrupt("its FeedRange is no range"))?),
    };
    let span = match (kind, span) {
        (Kind::Span, None) => {
            Some(Span::of_token(&token).ok_or_else(|| corrupt("its LeaseToken is no range"))?)
        }
        (_, span) => span,
    };
    let mode = match text("Mode") {
        None => None,
        Some(mode) => Some(Mode::parse(&mode).ok_or_else(|| corrupt("its Mode is unknown"))?),
    };
    let properties = match body.get("properties") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(properties)) => properties.clone(),
        Some(_) => return Err(corrupt("its properties are no object")),
    };
    Ok(Lease {
        partition_key: text("partitionKey"),
        token,
        from_v2: partition_id.is_some(),
        kind,
        span,
        owner: text("Owner").filter(|owner| !owner.is_empty()),
        continuation: text("ContinuationToken").filter(|token| !token.is_empty()),
        properties,
        timestamp: text("timestamp"),
        ts: body.get("_ts").and_then(Value::as_i64).unwrap_or(0),
        mode,
        etag: etag.map(str::to_owned).or_else(|| text("_etag")).unwrap_or_default(),
        id,
    })
}

fn read_span(range: &Value) -> Option<Span> {
    let range = range.get("Range")?;
    let bound = |name| range.get(name).and_then(Value::as_str);
    Span::new(bound("min")?, bound("max")?)
}

/// The document of a lease, its members in the order of .NET.
pub fn write(lease: &Lease) -> Map<String, Value> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    put("id", lease.id.clone().into());
    if let Some(key) = &lease.partition_key {
        put("partitionKey", key.clone().into());
    }
    put("version", if lease.kind == Kind::Range { 0.into() } else { 1.into() });
    put("_etag", if lease.etag.is_empty() { Value::Null } else { lease.etag.clone().into() });
    put("LeaseToken", lease.token.clone().into());
    if lease.from_v2 {
        put("PartitionId", lease.token.clone().into());
    }
    if let Some(span) = &lease.span {
        put("FeedRange", json!({"Range": {"min": span.min, "max": span.max}}));
    }
    put("Owner", lease.owner.clone().into());
    put("ContinuationToken", lease.continuation.clone().into());
    put("properties", Value::Object(lease.properties.clone()));
    put("timestamp", lease.timestamp.clone().into());
    put("_ts", lease.ts.into());
    if let Some(mode) = lease.mode {
        put("Mode", mode.text().into());
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).expect("an object")
    }

    fn check_unchanged(text: &str) {
        let lease = read(&object(text), None).expect("a lease");
        assert_eq!(serde_json::to_string(&write(&lease)).expect("text"), text);
    }

    const RANGE: &str = r#"{"id":"billinglocalhost_RxJdAA==_RxJdAKlvqtU=..0","version":0,"_etag":"\"00000000-0000-0000-0000-000000000001\"","LeaseToken":"0","FeedRange":{"Range":{"min":"","max":"FF"}},"Owner":"host-1","ContinuationToken":"\"1526353662\"","properties":{"mine":"kept"},"timestamp":"2023-11-14T22:13:20.1234567Z","_ts":1700000000,"Mode":"Incremental Feed"}"#;
    const SPAN: &str = r#"{"id":"billinglocalhost_RxJdAA==_RxJdAKlvqtU=..-05C1DFFFFFFFFC","partitionKey":"billinglocalhost_RxJdAA==_RxJdAKlvqtU=..-05C1DFFFFFFFFC","version":1,"_etag":"\"e\"","LeaseToken":"-05C1DFFFFFFFFC","FeedRange":{"Range":{"min":"","max":"05C1DFFFFFFFFC"}},"Owner":null,"ContinuationToken":null,"properties":{},"timestamp":null,"_ts":0,"Mode":"Full-Fidelity Feed"}"#;

    #[test]
    fn dotnet_v3_leases_pass_byte_for_byte() {
        check_unchanged(RANGE);
        check_unchanged(SPAN);
    }

    #[test]
    fn v2_partitionid_kept() {
        let v2 = r#"{"id":"P..3","_etag":"\"e\"","PartitionId":"3","Owner":null,"ContinuationToken":"\"7\"","properties":{},"timestamp":"2019-06-24T00:00:00Z","_ts":5}"#;
        let lease = read(&object(v2), None).expect("a lease");
        assert_eq!(
            (lease.token.as_str(), lease.kind, lease.span.clone()),
            ("3", Kind::Range, None)
        );
        let written = write(&lease);
        assert_eq!(written["PartitionId"], "3");
        assert_eq!(written["LeaseToken"], "3");
    }

    #[test]
    fn java_leases_are_refused_by_name() {
        let java = r#"{"id":"P..-FF","LeaseToken":"-FF","ContinuationToken":"eyJWIjoxfQ==","Owner":"h","version":1,"feedRange":{"Range":{"min":"","max":"FF"}}}"#;
        assert_eq!(read(&object(java), None), Err(Unreadable::Java("P..-FF".into())));
    }

    #[test]
    fn damaged_leases_say_what_is_wrong() {
        for (text, why) in [
            (r#"{"id":"x"}"#, "neither LeaseToken"),
            (r#"{"id":"x","LeaseToken":"0","version":7}"#, "version"),
            (
                r#"{"id":"x","LeaseToken":"0","FeedRange":{"Range":{"min":"9","max":"1"}}}"#,
                "FeedRange",
            ),
            (r#"{"id":"x","LeaseToken":"0-","version":1}"#, "LeaseToken is no range"),
            (r#"{"id":"x","LeaseToken":"0","Mode":"Sideways"}"#, "Mode"),
            (r#"{"id":"x","LeaseToken":"0","properties":3}"#, "properties"),
        ] {
            let wrong = read(&object(text), None).expect_err(text).to_string();
            assert!(wrong.contains(why), "{wrong}");
        }
    }
}
