//! Parts of a string. What is cut from a document's text stays a slice of it.

use std::borrow::Cow;
use std::ops::Range;

use model::Result;

use super::unit;
use crate::function::Call;
use crate::value::Value;

/// A part of a text, by its bytes, which must lie between characters.
pub(super) fn slice<'a>(text: &Cow<'a, str>, part: Range<usize>) -> Value<'a> {
    match text {
        Cow::Borrowed(text) => {
            text.get(part).map_or(Value::Undefined, |part| Value::String(Cow::Borrowed(part)))
        }
        Cow::Owned(text) => text.get(part).map_or(Value::Undefined, Value::text),
    }
}

fn string<'v, 'a>(value: &'v Value<'a>) -> Option<&'v Cow<'a, str>> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// A number of units; what is below 0 is none.
fn units(value: &Value<'_>) -> Option<usize> {
    value.as_int().map(|n| usize::try_from(n.max(0)).unwrap_or(usize::MAX))
}

pub(super) fn left<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(text), Some(count)) = (string(&arguments[0]), units(&arguments[1])) else {
        return Ok(Value::Undefined);
    };
    call.budget.spend(text.len() as u64 / 64)?;
    Ok(slice(text, 0..unit::byte_at_or_before(text, count)))
}

pub(super) fn right<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(text), Some(count)) = (string(&arguments[0]), units(&arguments[1])) else {
        return Ok(Value::Undefined);
    };
    call.budget.spend(text.len() as u64 / 64)?;
    let skipped = unit::count(text).saturating_sub(count);
    Ok(slice(text, unit::byte_at_or_after(text, skipped)..text.len()))
}

pub(super) fn substring<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(text), Some(start)) = (string(&arguments[0]), arguments[1].as_int()) else {
        return Ok(Value::Undefined);
    };
    call.budget.spend(text.len() as u64 / 64)?;
    let length = match arguments.get(2) {
        Some(length) => units(length).unwrap_or(0),
        None => usize::MAX,
    };
    let Ok(start) = usize::try_from(start) else { return Ok(slice(text, 0..0)) };
    let from = unit::byte_at_or_after(text, start);
    let to = unit::byte_at_or_before(text, start.saturating_add(length));
    Ok(slice(text, from..to.max(from)))
}

pub(super) fn before_first<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    parted(call, arguments, |text, mark| text.find(mark).map(|at| 0..at))
}

pub(super) fn after_first<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    parted(call, arguments, |text, mark| text.find(mark).map(|at| at + mark.len()..text.len()))
}

pub(super) fn before_last<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    parted(call, arguments, |text, mark| text.rfind(mark).map(|at| 0..at))
}

pub(super) fn after_last<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    parted(call, arguments, |text, mark| text.rfind(mark).map(|at| at + mark.len()..text.len()))
}

/// A part of a text beside a mark; where the mark is not there, neither is the part.
fn parted<'a>(
    call: &Call<'_>,
    arguments: &[Value<'a>],
    part: fn(&str, &str) -> Option<Range<usize>>,
) -> Result<Value<'a>> {
    let (Some(text), Some(mark)) = (string(&arguments[0]), arguments[1].as_str()) else {
        return Ok(Value::Undefined);
    };
    call.budget.spend(text.len() as u64 / 64)?;
    Ok(part(text, mark).map_or(Value::Undefined, |part| slice(text, part)))
}

pub(super) fn trim<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    trimmed(call, arguments, true, true)
}

pub(super) fn trim_left<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    trimmed(call, arguments, true, false)
}

pub(super) fn trim_right<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    trimmed(call, arguments, false, true)
}

fn trimmed<'a>(
    call: &Call<'_>,
    arguments: &[Value<'a>],
    left: bool,
    right: bool,
) -> Result<Value<'a>> {
    let Some(text) = string(&arguments[0]) else { return Ok(Value::Undefined) };
    let set = arguments.get(1).and_then(Value::as_str);
    let goes = |c: char| set.map_or_else(|| c.is_whitespace(), |set| set.contains(c));
    let from = if left { text.len() - text.trim_start_matches(goes).len() } else { 0 };
    let to = if right { text.trim_end_matches(goes).len() } else { text.len() };
    let gone = (from + text.len() - to) as u64;
    call.budget.spend(gone * (1 + set.map_or(0, str::len) as u64 / 64))?;
    Ok(slice(text, from..to.max(from)))
}
