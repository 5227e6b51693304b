//! Reading the members of a policy, with errors that name them. Null counts as absent.

use serde_json::{Map, Value};

use crate::{Error, Result};

/// The object under a key.
pub(super) fn object<'a>(
    parent: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Map<String, Value>>> {
    match parent.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(Error::bad_request(format!("{key} must be an object"))),
    }
}

/// The array under a key; empty if absent.
pub(super) fn array<'a>(parent: &'a Map<String, Value>, key: &str) -> Result<&'a [Value]> {
    match parent.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(array)) => Ok(array),
        Some(_) => Err(Error::bad_request(format!("{key} must be an array"))),
    }
}

/// The objects of the array under a key; empty if absent.
pub(super) fn objects<'a>(
    parent: &'a Map<String, Value>,
    key: &str,
) -> Result<Vec<&'a Map<String, Value>>> {
    array(parent, key)?
        .iter()
        .map(|entry| {
            entry.as_object().ok_or_else(|| {
                Error::bad_request(format!("every entry of {key} must be an object"))
            })
        })
        .collect()
}

/// The string under a key.
pub(super) fn string<'a>(parent: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>> {
    match parent.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(string)) => Ok(Some(string)),
        Some(_) => Err(Error::bad_request(format!("{key} must be a string"))),
    }
}

/// The string under a key, which must be there and not empty; `owner` is for the message.
pub(super) fn required<'a>(
    parent: &'a Map<String, Value>,
    key: &str,
    owner: &str,
) -> Result<&'a str> {
    string(parent, key)?
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Error::bad_request(format!("every entry of {owner} needs a {key}")))
}

/// One word of a list in the spelling of the list; clients differ in case.
pub(super) fn one_of(
    parent: &Map<String, Value>,
    key: &str,
    words: &[&'static str],
    default: &'static str,
) -> Result<&'static str> {
    let Some(text) = string(parent, key)? else { return Ok(default) };
    words.iter().find(|word| word.eq_ignore_ascii_case(text)).copied().ok_or_else(|| {
        Error::bad_request(format!("{key} must be one of {}, not '{text}'", words.join(", ")))
    })
}

/// The whole number under a key, within bounds.
pub(super) fn number(
    parent: &Map<String, Value>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>> {
    let Some(value) = parent.get(key).filter(|v| !v.is_null()) else { return Ok(None) };
    value.as_u64().filter(|number| bounds.contains(number)).map(Some).ok_or_else(|| {
        let (low, high) = (bounds.start(), bounds.end());
        Error::bad_request(format!(
            "{key} must be a whole number from {low} to {high}, not {value}"
        ))
    })
}

/// Refuses more than `limit` of what is named.
pub(super) fn at_most(count: usize, limit: usize, what: &str) -> Result<()> {
    if count > limit {
        return Err(Error::bad_request(format!("at most {limit} {what}, not {count}")));
    }
    Ok(())
}
