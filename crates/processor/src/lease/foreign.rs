//! Leases of other libraries, turned into ours.
//!
//! Version 2 of .NET needs no import: its documents are read as they are. The Java library has two
//! formats. The older one names ranges by id and has the members of .NET under other document ids;
//! the newer one wraps its position in base64.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::{Map, Value};

use super::{Kind, Lease, Mode, document, extra};
use crate::names::Names;
use crate::span::Span;

/// Longest base64 position that is looked into.
const STATE_BYTES_MAX: usize = 64 * 1024;

/// Turns any lease document into one of ours, under our ids. Ownership is not taken along: an
/// import happens while nobody runs.
pub fn import(body: &Map<String, Value>, names: &Names) -> Result<Lease, String> {
    let mut lease = if body.contains_key("feedRange") {
        java_span(body)?
    } else {
        document::read(body, None).map_err(|wrong| wrong.to_string())?
    };
    lease.owner = None;
    lease.etag = String::new();
    lease.id = names.lease(&lease.token);
    lease.partition_key = None;
    Ok(lease)
}

fn java_span(body: &Map<String, Value>) -> Result<Lease, String> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let id = text("id").unwrap_or_default();
    let range = body.get("feedRange").and_then(|feed| feed.get("Range"));
    let bound = |name| range.and_then(|range| range.get(name)).and_then(Value::as_str);
    let span = match (bound("min"), bound("max")) {
        (Some(min), Some(max)) => Span::new(min, max),
        _ => None,
    };
    let span = span.ok_or_else(|| format!("lease document '{id}': its feedRange is no range"))?;
    let mut lease = Lease {
        timestamp: text("timestamp").map(str::to_owned),
        mode: Some(Mode::Latest),
        ..Lease::new(id.to_owned(), &span.token(), Kind::Span, Some(span))
    };
    if let Some(state) = text("ContinuationToken").filter(|state| !state.is_empty()) {
        read_state(state, &mut lease).map_err(|why| format!("lease document '{id}': {why}"))?;
    }
    Ok(lease)
}

/// The position in the base64 text: an etag if it has one, else where it began.
fn read_state(text: &str, lease: &mut Lease) -> Result<(), String> {
    if text.len() > STATE_BYTES_MAX {
        return Err("its ContinuationToken is too long".into());
    }
    let bytes = URL_SAFE.decode(text).or_else(|_| STANDARD.decode(text));
    let bytes = bytes.map_err(|_| "its ContinuationToken is not base64")?;
    let state: Value =
        serde_json::from_slice(&bytes).map_err(|_| "its ContinuationToken holds no JSON")?;
    if state.get("Mode").and_then(Value::as_str) == Some("FULL_FIDELITY") {
        lease.mode = Some(Mode::AllVersions);
    }
    let parts = state.pointer("/Continuation/Continuation").and_then(Value::as_array);
    match parts.map(Vec::as_slice) {
        Some([part]) => {
            lease.continuation = part.get("token").and_then(Value::as_str).map(str::to_owned);
        }
        Some([_, _, ..]) => return Err("its ContinuationToken spans several ranges".into()),
        _ => {}
    }
    if lease.continuation.is_some() {
        return Ok(());
    }
    let start = state.get("StartFrom");
    match start.and_then(|start| start.get("Type")).and_then(Value::as_str) {
        Some("BEGINNING") => lease.set(extra::START, "beginning"),
        Some("POINT_IN_TIME") => {
            let at = start.and_then(|start| start.get("PointInTimeMs")).and_then(Value::as_u64);
            let at = at.ok_or("its starting time is no number")?;
            let at = crate::position::Start::Time(std::time::Duration::from_millis(at));
            lease.set(extra::START, at);
        }
        // What "now" was is not written anywhere; whoever takes the lease pins it anew.
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::Start;

    fn names() -> Names {
        Names::new("p", "account.example", "dbrid", "collrid")
    }

    fn java(state: &str) -> Map<String, Value> {
        let state = URL_SAFE.encode(state);
        let text = format!(
            r#"{{"id":"J..-FF","_etag":"\"e\"","LeaseToken":"-FF","ContinuationToken":"{state}","timestamp":"2023-11-14T22:13:20Z[UTC]","Owner":"jvm","version":1,"feedRange":{{"Range":{{"min":"","max":"FF"}}}}}}"#
        );
        serde_json::from_str(&text).expect("an object")
    }

    #[test]
    fn java_import_keeps_positions() {
        let body = java(
            r#"{"V":1,"Rid":"r","Mode":"INCREMENTAL","StartFrom":{"Type":"NOW"},"Continuation":{"V":1,"Rid":"r","Continuation":[{"token":"\"42\"","range":{"min":"","max":"FF"}}]}}"#,
        );
        let lease = import(&body, &names()).expect("a lease");
        assert_eq!(lease.position(), Some(Start::After("\"42\"".into())));
        assert_eq!(lease.id, "paccount.example_dbrid_collrid..-FF");
        assert_eq!((lease.owner, lease.mode), (None, Some(Mode::Latest)));

        let begun = java(r#"{"V":1,"Mode":"FULL_FIDELITY","StartFrom":{"Type":"BEGINNING"}}"#);
        let lease = import(&begun, &names()).expect("a lease");
        assert_eq!(
            (lease.position(), lease.mode),
            (Some(Start::Beginning), Some(Mode::AllVersions))
        );
    }

    #[test]
    fn java_leases_by_range_are_those_of_dotnet_under_another_id() {
        let body = r#"{"id":"pnames_db_coll..3","LeaseToken":"3","ContinuationToken":"\"9\"","Owner":"jvm"}"#;
        let lease = import(&serde_json::from_str(body).expect("json"), &names()).expect("a lease");
        assert_eq!(lease.id, "paccount.example_dbrid_collrid..3");
        assert_eq!(lease.position(), Some(Start::After("\"9\"".into())));
    }

    #[test]
    fn what_cannot_be_imported_says_why() {
        let mut torn = java("{}");
        torn.insert("ContinuationToken".into(), "%%%".into());
        assert!(import(&torn, &names()).expect_err("torn").contains("base64"));
        torn.insert("ContinuationToken".into(), URL_SAFE.encode("nothing").into());
        assert!(import(&torn, &names()).expect_err("torn").contains("JSON"));
        torn.insert("feedRange".into(), Value::Null);
        assert!(import(&torn, &names()).expect_err("torn").contains("feedRange"));
    }
}
