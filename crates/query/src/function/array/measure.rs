//! What an array amounts to.

use std::cmp::Ordering;

use model::Result;

use crate::function::Call;
use crate::value::{Number, Type, Value, compare};

/// The elements, where all of them are numbers.
fn numbers(call: &Call<'_>, value: &Value<'_>) -> Result<Option<Vec<f64>>> {
    let mut numbers = Vec::new();
    for element in value.elements().into_iter().flatten() {
        call.budget.spend(1)?;
        let Some(number) = element.as_f64() else { return Ok(None) };
        numbers.push(number);
    }
    Ok(Some(numbers))
}

pub(super) fn length<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(elements) = arguments[0].elements() else { return Ok(Value::Undefined) };
    let count = elements.count();
    call.budget.spend(count as u64 / 8)?;
    Ok(Value::int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Integers add up exactly for as long as they fit.
pub(super) fn sum<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(numbers) = numbers(call, &arguments[0])? else { return Ok(Value::Undefined) };
    let mut exact = Some(0_i64);
    for element in arguments[0].elements().into_iter().flatten() {
        let Value::Number(Number::Int(value)) = element else {
            exact = None;
            break;
        };
        exact = exact.and_then(|sum| sum.checked_add(value));
    }
    Ok(exact.map_or_else(|| Value::number(numbers.iter().sum()), Value::int))
}

pub(super) fn average<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match numbers(call, &arguments[0])? {
        Some(numbers) if !numbers.is_empty() => {
            Value::number(numbers.iter().sum::<f64>() / numbers.len() as f64)
        }
        _ => Value::Undefined,
    })
}

pub(super) fn median<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(mut numbers) = numbers(call, &arguments[0])? else { return Ok(Value::Undefined) };
    if numbers.is_empty() {
        return Ok(Value::Undefined);
    }
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    Ok(Value::number(if numbers.len() % 2 == 1 {
        numbers[middle]
    } else {
        // Halved first: the sum of two large numbers may be too large.
        numbers[middle - 1] / 2.0 + numbers[middle] / 2.0
    }))
}

pub(super) fn min<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    extreme(call, &arguments[0], Ordering::Less)
}

pub(super) fn max<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    extreme(call, &arguments[0], Ordering::Greater)
}

fn extreme<'a>(call: &Call<'_>, array: &Value<'a>, wins: Ordering) -> Result<Value<'a>> {
    let mut best = Value::Undefined;
    for element in array.elements().into_iter().flatten() {
        call.budget.spend(1)?;
        if matches!(element.kind(), Type::Array | Type::Object) {
            return Ok(Value::Undefined);
        }
        if best.is_undefined() || compare(&element, &best) == wins {
            best = element;
        }
    }
    Ok(best)
}
