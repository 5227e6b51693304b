//! Arrays made from others, and what is taken from them.

use std::borrow::Cow;

use model::Result;

use crate::function::Call;
use crate::value::Value;

pub(super) fn concat<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let mut all = Vec::new();
    for array in arguments {
        let Some(elements) = array.elements() else { return Ok(Value::Undefined) };
        all.extend(elements);
        call.budget.build(all.len() * size_of::<Value<'_>>())?;
    }
    Ok(Value::array(all))
}

pub(super) fn slice<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(elements), Some(start)) = (arguments[0].elements(), arguments[1].as_int()) else {
        return Ok(Value::Undefined);
    };
    let length = elements.count();
    call.budget.build(length * size_of::<Value<'_>>())?;
    let start = if start < 0 {
        length.saturating_sub(usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(start).unwrap_or(usize::MAX)
    };
    let most = match arguments.get(2).and_then(Value::as_int) {
        Some(most) => usize::try_from(most.max(0)).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let elements = arguments[0].elements().into_iter().flatten();
    Ok(Value::array(elements.skip(start).take(most).collect()))
}

pub(super) fn choose<'a>(_: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let place = arguments[0].as_int().filter(|place| *place >= 1);
    let place = place.and_then(|place| usize::try_from(place).ok());
    Ok(place.and_then(|place| arguments.get(place)).cloned().unwrap_or_default())
}

pub(super) fn from_object<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(members) = arguments[0].members() else { return Ok(Value::Undefined) };
    let called = |at: usize, usual: &'static str| match arguments.get(at) {
        Some(Value::String(name)) => name.clone(),
        _ => Cow::Borrowed(usual),
    };
    let (name_name, value_name) = (called(1, "k"), called(2, "v"));
    let mut all = Vec::new();
    for (name, value) in members {
        call.budget.spend(1)?;
        let pair = vec![(name_name.clone(), Value::String(name)), (value_name.clone(), value)];
        all.push(Value::object(pair));
    }
    call.budget.build(all.len() * (name_name.len() + value_name.len() + 4 * size_of::<Value>()))?;
    Ok(Value::array(all))
}
