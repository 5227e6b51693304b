//! Operators on values: undefined in, or a wrong type, and undefined comes out.

use std::cmp::Ordering;

use model::Result;

use crate::ast::{BinaryOp, UnaryOp};
use crate::value::{Type, Value, compare, equal};
use crate::world::Budget;

pub(super) fn unary<'a>(operator: UnaryOp, value: &Value<'a>) -> Value<'a> {
    if operator == UnaryOp::Not {
        return value.as_bool().map(|value| !value).into();
    }
    let Some(number) = value.as_f64() else { return Value::Undefined };
    match operator {
        UnaryOp::Plus => value.clone(),
        // The largest negative integer has no positive one, and is a double then.
        UnaryOp::Minus => match value.as_int().filter(|int| *int != 0).and_then(i64::checked_neg) {
            Some(int) => Value::int(int),
            None => Value::number(-number),
        },
        _ => Value::int(i64::from(!to_int32(number))),
    }
}

pub(super) fn binary<'a>(
    operator: BinaryOp,
    left: Value<'a>,
    right: Value<'a>,
    budget: &Budget,
) -> Result<Value<'a>> {
    if left.is_undefined() || right.is_undefined() {
        return Ok(Value::Undefined);
    }
    Ok(match operator {
        BinaryOp::Equal => equal(&left, &right).into(),
        BinaryOp::NotEqual => (!equal(&left, &right)).into(),
        BinaryOp::Less => ordered(&left, &right).map(Ordering::is_lt).into(),
        BinaryOp::LessOrEqual => ordered(&left, &right).map(Ordering::is_le).into(),
        BinaryOp::Greater => ordered(&left, &right).map(Ordering::is_gt).into(),
        BinaryOp::GreaterOrEqual => ordered(&left, &right).map(Ordering::is_ge).into(),
        BinaryOp::Concat => match (left.as_str(), right.as_str()) {
            (Some(a), Some(b)) => {
                budget.build(a.len() + b.len())?;
                Value::text(format!("{a}{b}"))
            }
            _ => Value::Undefined,
        },
        _ => match (left.as_f64(), right.as_f64()) {
            (Some(a), Some(b)) => arithmetic(operator, a, b),
            _ => Value::Undefined,
        },
    })
}

/// The order of two values of one primitive type.
pub(super) fn ordered(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    let kind = left.kind();
    let comparable = matches!(kind, Type::Null | Type::Bool | Type::Number | Type::String);
    if !comparable || kind != right.kind() {
        return None;
    }
    match (left.as_f64(), right.as_f64()) {
        (Some(a), Some(b)) => a.partial_cmp(&b),
        _ => Some(compare(left, right)),
    }
}

fn arithmetic<'a>(operator: BinaryOp, a: f64, b: f64) -> Value<'a> {
    // Shifts count within 32 bits, as in JavaScript.
    let shift = to_int32(b) as u32 & 31;
    match operator {
        BinaryOp::Add => Value::number(a + b),
        BinaryOp::Subtract => Value::number(a - b),
        BinaryOp::Multiply => Value::number(a * b),
        BinaryOp::Divide => Value::number(a / b),
        BinaryOp::Remainder => Value::number(a % b),
        BinaryOp::BitAnd => Value::int(i64::from(to_int32(a) & to_int32(b))),
        BinaryOp::BitOr => Value::int(i64::from(to_int32(a) | to_int32(b))),
        BinaryOp::BitXor => Value::int(i64::from(to_int32(a) ^ to_int32(b))),
        BinaryOp::ShiftLeft => Value::int(i64::from(to_int32(a) << shift)),
        BinaryOp::ShiftRight => Value::int(i64::from(to_int32(a) >> shift)),
        BinaryOp::ShiftRightZero => Value::int(i64::from(to_int32(a) as u32 >> shift)),
        _ => Value::Undefined,
    }
}

/// The low 32 bits of the whole part; 0 for what is not finite.
fn to_int32(value: f64) -> i32 {
    const MODULUS: f64 = 4_294_967_296.0;
    if !value.is_finite() {
        return 0;
    }
    value.trunc().rem_euclid(MODULUS) as u32 as i32
}
