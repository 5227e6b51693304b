//! Numbers. Computed in doubles, as documents' numbers compare; integers of 64 bits apart.

use model::Result;

use super::{Call, Function, Param};
use crate::value::{Number, Value};

mod integer;

type Scalar = for<'a> fn(&Call<'_>, &[Value<'a>]) -> Result<Value<'a>>;

const fn one(
    name: &'static str,
    run: Scalar,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> Function {
    Function::scalar(name, &[Param::Number], run, doc, example)
}

const fn two_integers(
    name: &'static str,
    run: Scalar,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> Function {
    Function::scalar(name, &[Param::Integer, Param::Integer], run, doc, example)
}

pub(super) const TABLE: &[Function] = &[
    one("ABS", |_, v| abs(v), "The number without its sign.", ("ABS(-1.5)", "1.5")),
    one("ACOS", |_, v| real(v, f64::acos), "The angle, in radians, of a cosine.", ("ACOS(1)", "0")),
    one("ASIN", |_, v| real(v, f64::asin), "The angle, in radians, of a sine.", ("ASIN(0)", "0")),
    one(
        "ATAN",
        |_, v| real(v, f64::atan),
        "The angle, in radians, of a tangent.",
        ("ATAN(0)", "0"),
    ),
    Function::scalar(
        "ATN2",
        &[Param::Number, Param::Number],
        |_, v| two_reals(v, f64::atan2),
        "The angle, in radians, of the point whose y comes first and whose x second.",
        ("ATN2(0, 1)", "0"),
    ),
    one(
        "CEILING",
        |_, v| whole(v, f64::ceil),
        "The smallest whole number that is not below.",
        ("CEILING(1.2)", "2"),
    ),
    one("COS", |_, v| real(v, f64::cos), "The cosine of an angle in radians.", ("COS(0)", "1")),
    one(
        "COT",
        |_, v| real(v, |x| 1.0 / x.tan()),
        "The cotangent of an angle in radians.",
        ("COT(1.5707963267948966)", "6.123233995736766e-17"),
    ),
    one(
        "DEGREES",
        |_, v| real(v, |x| 180.0 / std::f64::consts::PI * x),
        "An angle in degrees, from radians.",
        ("DEGREES(PI())", "180"),
    ),
    one("EXP", |_, v| real(v, f64::exp), "The exponential.", ("EXP(0)", "1")),
    one(
        "FLOOR",
        |_, v| whole(v, f64::floor),
        "The largest whole number that is not above.",
        ("FLOOR(-1.2)", "-2"),
    ),
    two_integers(
        "INTADD",
        |_, v| integer::compute(v, i64::wrapping_add),
        "The sum of two integers of 64 bits; it wraps around.",
        ("INTADD(9223372036854775806, 1)", "9223372036854775807"),
    ),
    two_integers(
        "INTBITAND",
        |_, v| integer::compute(v, |a, b| a & b),
        "The bits that both integers have.",
        ("INTBITAND(12, 10)", "8"),
    )
    .also(&["INTBITWISEAND"]),
    two_integers(
        "INTBITLEFTSHIFT",
        |_, v| integer::shift(v, |a, n| a << n),
        "The bits moved to the left by 0 to 63 places.",
        ("INTBITLEFTSHIFT(3, 40)", "3298534883328"),
    )
    .also(&["INTBITWISELEFTSHIFT"]),
    Function::scalar(
        "INTBITNOT",
        &[Param::Integer],
        |_, v| Ok(v[0].as_int().map_or(Value::Undefined, |a| Value::int(!a))),
        "The bits that the integer does not have.",
        ("INTBITNOT(5)", "-6"),
    )
    .also(&["INTBITWISENOT"]),
    two_integers(
        "INTBITOR",
        |_, v| integer::compute(v, |a, b| a | b),
        "The bits that either integer has.",
        ("INTBITOR(12, 10)", "14"),
    )
    .also(&["INTBITWISEOR"]),
    two_integers(
        "INTBITRIGHTSHIFT",
        |_, v| integer::shift(v, |a, n| a >> n),
        "The bits moved to the right by 0 to 63 places; the sign stays.",
        ("INTBITRIGHTSHIFT(-16, 2)", "-4"),
    )
    .also(&["INTBITWISERIGHTSHIFT"]),
    two_integers(
        "INTBITXOR",
        |_, v| integer::compute(v, |a, b| a ^ b),
        "The bits that exactly one of the integers has.",
        ("INTBITXOR(12, 10)", "6"),
    )
    .also(&["INTBITWISEXOR"]),
    two_integers(
        "INTDIV",
        |_, v| integer::divide(v, i64::wrapping_div),
        "The quotient without its fraction; undefined for a divisor of 0.",
        ("INTDIV(-7, 2)", "-3"),
    ),
    two_integers(
        "INTMOD",
        |_, v| integer::divide(v, i64::wrapping_rem),
        "What a division leaves, with the sign of the dividend; undefined for a divisor of 0.",
        ("INTMOD(-7, 2)", "-1"),
    ),
    two_integers(
        "INTMUL",
        |_, v| integer::compute(v, i64::wrapping_mul),
        "The product of two integers of 64 bits; it wraps around.",
        ("INTMUL(3037000500, 3)", "9111001500"),
    ),
    two_integers(
        "INTSUB",
        |_, v| integer::compute(v, i64::wrapping_sub),
        "The difference of two integers of 64 bits; it wraps around.",
        ("INTSUB(5, 8)", "-3"),
    ),
    Function::scalar(
        "LOG",
        &[Param::Number, Param::Number],
        |_, v| log(v),
        "The logarithm, natural or to the base that is given.",
        ("LOG(8, 2)", "3"),
    )
    .optional(1),
    one("LOG10", |_, v| real(v, f64::log10), "The logarithm to base 10.", ("LOG10(1000)", "3")),
    Function::scalar(
        "NUMBERBIN",
        &[Param::Number, Param::Number],
        |_, v| number_bin(v),
        "The largest multiple of the size (or of 1) that is not above.",
        ("NUMBERBIN(37.5, 10)", "30"),
    )
    .optional(1),
    Function::scalar(
        "PI",
        &[],
        |_, _| Ok(Value::number(std::f64::consts::PI)),
        "The ratio of a circle's circumference to its diameter.",
        ("PI()", "3.141592653589793"),
    ),
    Function::scalar(
        "POWER",
        &[Param::Number, Param::Number],
        |_, v| two_reals(v, f64::powf),
        "The first number to the power of the second.",
        ("POWER(2, 10)", "1024"),
    ),
    one(
        "RADIANS",
        |_, v| real(v, |x| std::f64::consts::PI * x / 180.0),
        "An angle in radians, from degrees.",
        ("RADIANS(180)", "3.141592653589793"),
    ),
    Function::scalar(
        "RAND",
        &[],
        |call, _| Ok(Value::number(call.world.random())),
        "A number by chance, from 0 up to, and without, 1.",
        ("FLOOR(RAND())", "0"),
    )
    .unstable(),
    one(
        "ROUND",
        |_, v| whole(v, f64::round),
        "The nearest whole number; halves go away from 0.",
        ("ROUND(-2.5)", "-3"),
    ),
    one("SIGN", |_, v| sign(v), "-1, 0 or 1, as the number's sign is.", ("SIGN(-7)", "-1")),
    one("SIN", |_, v| real(v, f64::sin), "The sine of an angle in radians.", ("SIN(0)", "0")),
    one("SQRT", |_, v| real(v, f64::sqrt), "The square root.", ("SQRT(9)", "3")),
    one("SQUARE", |_, v| real(v, |x| x * x), "The number times itself.", ("SQUARE(1.5)", "2.25")),
    one("TAN", |_, v| real(v, f64::tan), "The tangent of an angle in radians.", ("TAN(0)", "0")),
    one(
        "TRUNC",
        |_, v| whole(v, f64::trunc),
        "The number without its fraction.",
        ("TRUNC(-1.9)", "-1"),
    ),
];

fn real<'a>(arguments: &[Value<'a>], compute: fn(f64) -> f64) -> Result<Value<'a>> {
    Ok(arguments[0].as_f64().map_or(Value::Undefined, |x| plain(compute(x))))
}

fn two_reals<'a>(arguments: &[Value<'a>], compute: fn(f64, f64) -> f64) -> Result<Value<'a>> {
    let (Some(x), Some(y)) = (arguments[0].as_f64(), arguments[1].as_f64()) else {
        return Ok(Value::Undefined);
    };
    Ok(plain(compute(x, y)))
}

/// What is whole already stays as exact as it is.
fn whole<'a>(arguments: &[Value<'a>], compute: fn(f64) -> f64) -> Result<Value<'a>> {
    match &arguments[0] {
        Value::Number(Number::Int(value)) => Ok(Value::int(*value)),
        _ => real(arguments, compute),
    }
}

fn abs<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match &arguments[0] {
        Value::Number(Number::Int(value)) if *value != i64::MIN => Ok(Value::int(value.abs())),
        _ => real(arguments, f64::abs),
    }
}

fn sign<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    real(arguments, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() })
}

fn log<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(x) = arguments[0].as_f64() else { return Ok(Value::Undefined) };
    Ok(plain(match arguments.get(1).map(Value::as_f64) {
        None => x.ln(),
        Some(Some(base)) => log_to_base(x, base),
        Some(None) => return Ok(Value::Undefined),
    }))
}

/// The two bases with a logarithm of their own have exact answers for their powers.
fn log_to_base(x: f64, base: f64) -> f64 {
    if base == 10.0 {
        x.log10()
    } else if base == 2.0 {
        x.log2()
    } else {
        x.ln() / base.ln()
    }
}

fn number_bin<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let size = arguments.get(1).map_or(Some(1.0), Value::as_f64);
    Ok(match (arguments[0].as_f64(), size) {
        (Some(x), Some(size)) if size != 0.0 => plain((x / size).floor() * size),
        _ => Value::Undefined,
    })
}

/// A computed number; there is one zero.
fn plain(value: f64) -> Value<'static> {
    Value::number(if value == 0.0 { 0.0 } else { value })
}
