//! Whether an array has an element.

use model::Result;

use crate::function::Call;
use crate::value::{Type, Value, equal};

pub(super) fn contains<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let partial = match arguments.get(2) {
        None | Some(Value::Undefined) => false,
        Some(Value::Bool(partial)) => *partial,
        Some(_) => return Ok(Value::Undefined),
    };
    has(call, &arguments[0], &arguments[1], partial).map(Value::from)
}

pub(super) fn contains_all<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    has_many(call, arguments, false)
}

pub(super) fn contains_any<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    has_many(call, arguments, true)
}

/// `AND` (decided by false) or `OR` (decided by true) over all elements asked for.
fn has_many<'a>(call: &Call<'_>, arguments: &[Value<'a>], decisive: bool) -> Result<Value<'a>> {
    let mut unknown = false;
    for element in &arguments[1..] {
        match has(call, &arguments[0], element, false)? {
            Some(holds) if holds == decisive => return Ok(Value::Bool(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Undefined } else { Value::Bool(!decisive) })
}

/// Unknown where there is no array or nothing to look for.
fn has(
    call: &Call<'_>,
    array: &Value<'_>,
    sought: &Value<'_>,
    partial: bool,
) -> Result<Option<bool>> {
    let Some(elements) = array.elements() else { return Ok(None) };
    if sought.is_undefined() {
        return Ok(None);
    }
    let partial = partial && sought.kind() == Type::Object;
    for element in elements {
        call.budget.spend(1)?;
        if if partial { has_part(&element, sought) } else { equal(&element, sought) } {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

/// Whether an element has every member of an object.
fn has_part(element: &Value<'_>, part: &Value<'_>) -> bool {
    let mut members = part.members().into_iter().flatten();
    element.kind() == Type::Object
        && members.all(|(name, value)| equal(&element.member(&name), &value))
}
