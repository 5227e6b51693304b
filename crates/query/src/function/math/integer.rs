//! Integers of 64 bits, in two's complement.

use model::Result;

use crate::value::Value;

fn pair(arguments: &[Value<'_>]) -> Option<(i64, i64)> {
    Some((arguments[0].as_int()?, arguments[1].as_int()?))
}

/// Any two integers.
pub(super) fn compute<'a>(
    arguments: &[Value<'a>],
    compute: fn(i64, i64) -> i64,
) -> Result<Value<'a>> {
    Ok(pair(arguments).map_or(Value::Undefined, |(a, b)| Value::int(compute(a, b))))
}

/// A dividend and a divisor, which may not be 0.
pub(super) fn divide<'a>(
    arguments: &[Value<'a>],
    compute: fn(i64, i64) -> i64,
) -> Result<Value<'a>> {
    let sound = pair(arguments).filter(|(_, divisor)| *divisor != 0);
    Ok(sound.map_or(Value::Undefined, |(a, b)| Value::int(compute(a, b))))
}

/// Bits and a number of places, of which there are 64.
pub(super) fn shift<'a>(
    arguments: &[Value<'a>],
    compute: fn(i64, u32) -> i64,
) -> Result<Value<'a>> {
    let sound = pair(arguments).and_then(|(a, n)| {
        let places = u32::try_from(n).ok().filter(|places| *places < i64::BITS)?;
        Some(compute(a, places))
    });
    Ok(sound.map_or(Value::Undefined, Value::int))
}
