//! From texts to values and back, by JSON's own rules.

use std::borrow::Cow;

use model::Result;
use model::json::{self, Kind};

use crate::function::Call;
use crate::limits;
use crate::value::{Number, Type, Value};

/// The value of a kind that the text spells, with nothing but whitespace around it.
fn spelled<'a>(call: &Call<'_>, arguments: &[Value<'a>], kind: Kind) -> Result<Value<'a>> {
    let Value::String(text) = &arguments[0] else { return Ok(Value::Undefined) };
    call.budget.spend(text.len() as u64 / 64)?;
    let of_kind = |raw: &&[u8]| json::kind(raw) == kind;
    Ok(match text {
        Cow::Borrowed(text) => json::check(text.as_bytes())
            .ok()
            .filter(of_kind)
            .map_or(Value::Undefined, Value::from_raw),
        Cow::Owned(text) => {
            call.budget.build(text.len())?;
            let raw = json::check(text.as_bytes()).ok().filter(of_kind);
            raw.map_or(Value::Undefined, |raw| Value::from_raw(raw).into_owned())
        }
    })
}

pub(super) fn to_array<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    spelled(call, arguments, Kind::Array)
}

pub(super) fn to_object<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    spelled(call, arguments, Kind::Object)
}

pub(super) fn to_boolean<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    spelled(call, arguments, Kind::Bool)
}

pub(super) fn to_null<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    spelled(call, arguments, Kind::Null)
}

pub(super) fn to_number<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match spelled(call, arguments, Kind::Number)? {
        Value::Number(number) => computed(&number),
        _ => Value::Undefined,
    })
}

/// A number without the spelling of its document.
fn computed(number: &Number<'_>) -> Value<'static> {
    match number {
        Number::Int(value) => Value::int(*value),
        other => Value::number(other.as_f64()),
    }
}

pub(super) fn to_string<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match &arguments[0] {
        Value::String(_) => Ok(arguments[0].clone()),
        Value::Number(number) if !number.as_f64().is_finite() => {
            Ok(Value::text(not_finite(number.as_f64())))
        }
        value => {
            let mut out = Vec::new();
            compact_into(call, value, &mut out, 0)?;
            call.budget.build(out.len())?;
            Ok(String::from_utf8(out).map_or(Value::Undefined, Value::text))
        }
    }
}

fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// JSON without whitespace and with numbers as we spell them, whatever the document did.
fn compact_into(call: &Call<'_>, value: &Value<'_>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    if depth > limits::BUILT_DEPTH {
        return Err(crate::error::too_much("levels of one value", limits::BUILT_DEPTH));
    }
    call.budget.spend(1)?;
    if out.len() > limits::VALUE_BYTES {
        return call.budget.build(out.len());
    }
    match value.kind() {
        Type::Array => {
            out.push(b'[');
            for element in value.elements().into_iter().flatten() {
                separate(out, b'[');
                compact_into(call, &element, out, depth + 1)?;
            }
            out.push(b']');
        }
        Type::Object => {
            out.push(b'{');
            for (name, member) in value.members().into_iter().flatten() {
                separate(out, b'{');
                json::escape_into(out, &name);
                out.push(b':');
                compact_into(call, &member, out, depth + 1)?;
            }
            out.push(b'}');
        }
        _ => {
            let written = match value {
                Value::Number(number) => computed(number).write_into(out),
                other => other.write_into(out),
            };
            if !written {
                // Only numbers within arrays and objects come here without a spelling in JSON.
                out.extend_from_slice(b"null");
            }
        }
    }
    Ok(())
}

fn separate(out: &mut Vec<u8>, open: u8) {
    if out.last() != Some(&open) {
        out.push(b',');
    }
}
