//! Values as queries see them: their order across types, and what makes two of them the same.
//!
//! The order of `ORDER BY` is undefined, null, false, true, numbers, strings, arrays, objects; texts
//! compare by their UTF-16 units. Numbers are the same whatever their spelling, and the members of
//! an object have no order.

use std::cmp::Ordering;

use crate::json::{Json, quoted};

/// The order of two values; `None` is a value that is missing.
pub fn compare(a: Option<&Json>, b: Option<&Json>) -> Ordering {
    match (a, b) {
        (Some(Json::Bool(a)), Some(Json::Bool(b))) => a.cmp(b),
        (Some(Json::Number(a)), Some(Json::Number(b))) => number(a).total_cmp(&number(b)),
        (Some(Json::Text(a)), Some(Json::Text(b))) => a.encode_utf16().cmp(b.encode_utf16()),
        _ => kind(a).cmp(&kind(b)),
    }
}

fn kind(value: Option<&Json>) -> u8 {
    match value {
        None => 0,
        Some(Json::Null) => 1,
        Some(Json::Bool(_)) => 2,
        Some(Json::Number(_)) => 3,
        Some(Json::Text(_)) => 4,
        Some(Json::Array(_)) => 5,
        Some(Json::Object(_)) => 6,
    }
}

/// Whether the order between values of this kind is said by the language.
pub fn is_ordered(value: Option<&Json>) -> bool {
    kind(value) < kind(Some(&Json::Array(Vec::new())))
}

/// The number that a spelling stands for.
pub fn number(spelled: &str) -> f64 {
    // Both zeros are one value.
    spelled.parse::<f64>().unwrap_or(f64::NAN) + 0.0
}

/// One spelling for all spellings of a value.
pub fn canonical(value: &Json) -> String {
    match value {
        Json::Number(spelled) => format!("{:?}", number(spelled)),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Json::Object(members) => {
            let mut members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{}:{}", quoted(name), canonical(value)))
                .collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

/// The canonical spellings of rows, sorted: two lists that have the same rows have the same.
pub fn as_set(rows: &[Json]) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(canonical).collect();
    rows.sort();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_texts_have_an_order() {
        let texts =
            ["null", "false", "true", "-1", "2.0", "10", "\"\"", "\"a\"", "\"😀\"", "\"\u{FFFF}\""];
        let all: Vec<Json> = texts.iter().map(|text| Json::parse(text).expect("JSON")).collect();
        assert!(all.is_sorted_by(|a, b| compare(Some(a), Some(b)).is_lt()));
        assert!(compare(None, Some(&Json::Null)).is_lt());
    }

    #[test]
    fn spellings_of_a_value_are_one() {
        let one = |text: &str| canonical(&Json::parse(text).expect("JSON"));
        assert_eq!(one(r#"{"b":1.0,"a":[-0]}"#), one(r#"{"a":[0],"b":1}"#));
        assert_ne!(one("[1,2]"), one("[2,1]"));
    }
}
