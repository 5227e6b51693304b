//! Strings made from strings. What they take is counted before it is built.

use model::Result;

use super::{cut, unit};
use crate::function::Call;
use crate::limits;
use crate::value::Value;

pub(super) fn concat<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(parts) = arguments.iter().map(Value::as_str).collect::<Option<Vec<_>>>() else {
        return Ok(Value::Undefined);
    };
    call.budget.build(parts.iter().map(|part| part.len()).sum())?;
    Ok(Value::text(parts.concat()))
}

pub(super) fn replace<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let texts = (arguments[0].as_str(), arguments[1].as_str(), arguments[2].as_str());
    let (Some(text), Some(old), Some(new)) = texts else { return Ok(Value::Undefined) };
    if old.is_empty() {
        return Ok(Value::Undefined);
    }
    call.budget.spend(text.len() as u64 / 64)?;
    let places = text.matches(old).count();
    if places == 0 {
        return Ok(arguments[0].clone());
    }
    let bytes = text.len() - places * old.len();
    call.budget.build(bytes.saturating_add(places.saturating_mul(new.len())))?;
    Ok(Value::text(text.replace(old, new)))
}

pub(super) fn replicate<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(text), Some(times)) = (arguments[0].as_str(), arguments[1].as_f64()) else {
        return Ok(Value::Undefined);
    };
    if !times.is_finite() || times < 0.0 {
        return Ok(Value::Undefined);
    }
    let length = unit::count(text) as f64 * times.trunc();
    if length > limits::REPLICATED_UNITS as f64 {
        return Ok(Value::Undefined);
    }
    // An empty text stays empty however often it is repeated.
    let times = if text.is_empty() { 0 } else { times as usize };
    call.budget.build(text.len() * times)?;
    Ok(Value::text(text.repeat(times)))
}

pub(super) fn reverse<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(text) = arguments[0].as_str() else { return Ok(Value::Undefined) };
    call.budget.build(text.len())?;
    Ok(Value::text(text.chars().rev().collect::<String>()))
}

pub(super) fn join<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(elements), Some(between)) = (arguments[0].elements(), arguments[1].as_str()) else {
        return Ok(Value::Undefined);
    };
    // Counted first, so that nothing too large is begun.
    let mut bytes = 0_usize;
    for element in elements {
        let Some(text) = element.as_str() else { return Ok(Value::Undefined) };
        bytes = bytes.saturating_add(text.len()).saturating_add(between.len());
        call.budget.spend(1)?;
    }
    call.budget.build(bytes)?;
    let mut out = String::with_capacity(bytes);
    for (at, element) in arguments[0].elements().into_iter().flatten().enumerate() {
        out.push_str(if at == 0 { "" } else { between });
        out.push_str(element.as_str().unwrap_or_default());
    }
    Ok(Value::text(out))
}

pub(super) fn split<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Value::String(text), Some(between)) = (&arguments[0], arguments[1].as_str()) else {
        return Ok(Value::Undefined);
    };
    if between.is_empty() {
        return Ok(Value::array(vec![arguments[0].clone()]));
    }
    call.budget.spend(text.len() as u64 / 64)?;
    let ends: Vec<usize> = text.match_indices(between).map(|(at, _)| at).collect();
    call.budget.build(text.len() + (ends.len() + 1) * size_of::<Value<'_>>())?;
    let mut pieces = Vec::with_capacity(ends.len() + 1);
    let mut start = 0;
    for end in ends {
        pieces.push(cut::slice(text, start..end));
        start = end + between.len();
    }
    pieces.push(cut::slice(text, start..text.len()));
    Ok(Value::array(pieces))
}
