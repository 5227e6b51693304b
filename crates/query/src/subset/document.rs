//! Comparing a property of an item with a scalar: same type and same value, or not equal.
//!
//! Numbers are doubles, however they are spelled. A path that leads nowhere is undefined and
//! equals nothing, not even null.

use model::json::{self, Kind};
use serde_json::Value;

/// Compares within JSON text, without building the item.
pub(crate) fn equals(document: &[u8], path: &[String], expected: &Value) -> bool {
    let Some(raw) = json::at_path(document, path) else { return false };
    match (json::kind(raw), expected) {
        (Kind::Null, Value::Null) => true,
        (Kind::Bool, Value::Bool(expected)) => (raw == b"true") == *expected,
        (Kind::Number, Value::Number(expected)) => {
            json::number(raw).is_some_and(|number| Some(number) == expected.as_f64())
        }
        (Kind::String, Value::String(expected)) => {
            json::unescape(raw).is_some_and(|text| text == expected.as_str())
        }
        _ => false,
    }
}

/// Compares within a built value.
pub(crate) fn value_equals(document: &Value, path: &[String], expected: &Value) -> bool {
    let found = path.iter().try_fold(document, |value, name| value.as_object()?.get(name));
    match (found, expected) {
        (Some(Value::Number(number)), Value::Number(expected)) => {
            number.as_f64().is_some_and(|number| Some(number) == expected.as_f64())
        }
        (Some(found), expected) => found == expected,
        (None, _) => false,
    }
}
