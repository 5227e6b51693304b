//! What is in a string, and where.

use model::Result;

use super::case::fold;
use super::unit;
use crate::function::Call;
use crate::value::Value;

/// Whether a text and another fit together; the third argument says whether case counts.
fn test<'a>(
    call: &Call<'_>,
    arguments: &[Value<'a>],
    holds: fn(&str, &str) -> bool,
) -> Result<Value<'a>> {
    let ignore_case = arguments.get(2).is_some_and(Value::is_true);
    fits(call, &arguments[0], &arguments[1], ignore_case, holds).map(Value::from)
}

fn fits(
    call: &Call<'_>,
    text: &Value<'_>,
    part: &Value<'_>,
    ignore_case: bool,
    holds: fn(&str, &str) -> bool,
) -> Result<Option<bool>> {
    let (Some(text), Some(part)) = (text.as_str(), part.as_str()) else { return Ok(None) };
    call.budget.spend((text.len() + part.len()) as u64 / 64)?;
    Ok(Some(if ignore_case { holds(&fold(text), &fold(part)) } else { holds(text, part) }))
}

pub(super) fn contains<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    test(call, arguments, |text, part| text.contains(part))
}

pub(super) fn starts_with<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    test(call, arguments, |text, part| text.starts_with(part))
}

pub(super) fn ends_with<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    test(call, arguments, |text, part| text.ends_with(part))
}

pub(super) fn equals<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    test(call, arguments, |text, part| text == part)
}

pub(super) fn contains_all_ci<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    contains_many(call, arguments, true, false)
}

pub(super) fn contains_all_cs<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    contains_many(call, arguments, false, false)
}

pub(super) fn contains_any_ci<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    contains_many(call, arguments, true, true)
}

pub(super) fn contains_any_cs<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    contains_many(call, arguments, false, true)
}

/// `AND` (decided by false) or `OR` (decided by true) over all parts; what is no text is unknown.
fn contains_many<'a>(
    call: &Call<'_>,
    arguments: &[Value<'a>],
    ignore_case: bool,
    decisive: bool,
) -> Result<Value<'a>> {
    let mut unknown = false;
    for part in &arguments[1..] {
        match fits(call, &arguments[0], part, ignore_case, |text, part| text.contains(part))? {
            Some(holds) if holds == decisive => return Ok(Value::Bool(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Undefined } else { Value::Bool(!decisive) })
}

pub(super) fn length<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(text) = arguments[0].as_str() else { return Ok(Value::Undefined) };
    call.budget.spend(text.len() as u64 / 64)?;
    Ok(place(unit::count(text)))
}

pub(super) fn index_of<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(text), Some(part)) = (arguments[0].as_str(), arguments[1].as_str()) else {
        return Ok(Value::Undefined);
    };
    call.budget.spend(text.len() as u64 / 64)?;
    let from = arguments.get(2).and_then(Value::as_int).unwrap_or(0).max(0);
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    if from > unit::count(text) {
        return Ok(Value::int(-1));
    }
    let from = unit::byte_at_or_after(text, from);
    let found = text[from..].find(part).map(|at| unit::count(&text[..from + at]));
    Ok(found.map_or(Value::int(-1), place))
}

/// The place up to which is searched is the last that a match may cover.
pub(super) fn last_index_of<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(text), Some(part)) = (arguments[0].as_str(), arguments[1].as_str()) else {
        return Ok(Value::Undefined);
    };
    call.budget.spend(text.len() as u64 / 64)?;
    let to = match arguments.get(2).and_then(Value::as_int) {
        None => text.len(),
        Some(last) => match usize::try_from(last) {
            Ok(last) => unit::byte_at_or_before(text, last.saturating_add(1)),
            Err(_) => return Ok(Value::int(-1)),
        },
    };
    let found = text[..to].rfind(part).map(|at| unit::count(&text[..at]));
    Ok(found.map_or(Value::int(-1), place))
}

fn place(units: usize) -> Value<'static> {
    Value::int(i64::try_from(units).unwrap_or(i64::MAX))
}
