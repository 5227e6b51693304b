//! Upper and lower case: one character for one character, whatever the language.

use std::borrow::Cow;

use model::Result;

use crate::function::Call;
use crate::value::Value;

/// A text such that two which differ by case alone become the same.
pub(in crate::function) fn fold(text: &str) -> Cow<'_, str> {
    map(text, |c| single(c, c.to_lowercase()))
}

pub(super) fn lower<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    mapped(call, arguments, |c| single(c, c.to_lowercase()))
}

pub(super) fn upper<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    mapped(call, arguments, |c| single(c, c.to_uppercase()))
}

fn mapped<'a>(
    call: &Call<'_>,
    arguments: &[Value<'a>],
    change: fn(char) -> char,
) -> Result<Value<'a>> {
    let Value::String(text) = &arguments[0] else { return Ok(Value::Undefined) };
    call.budget.build(text.len())?;
    Ok(match map(text, change) {
        Cow::Borrowed(_) => arguments[0].clone(),
        Cow::Owned(text) => Value::text(text),
    })
}

fn map(text: &str, change: fn(char) -> char) -> Cow<'_, str> {
    match text.find(|c| change(c) != c) {
        None => Cow::Borrowed(text),
        Some(at) => {
            let (same, rest) = text.split_at(at);
            Cow::Owned(same.chars().chain(rest.chars().map(change)).collect())
        }
    }
}

/// What has no counterpart of one character stays, as in the invariant culture of .NET.
fn single(original: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(mapped), None) => mapped,
        _ => original,
    }
}
