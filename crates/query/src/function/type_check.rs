//! What type a value has: always true or false, false for undefined.

use model::Result;

use super::{Call, Function, Param, Run, date};
use crate::value::{Type, Value};

const fn is(
    name: &'static str,
    run: for<'a> fn(&Call<'_>, &[Value<'a>]) -> Result<Value<'a>>,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> Function {
    Function {
        name,
        aliases: &[],
        params: &[Param::Any],
        optional: 0,
        repeats: false,
        sees_all: true,
        stable: true,
        run: Run::Scalar(run),
        doc,
        example,
    }
}

pub(super) const TABLE: &[Function] = &[
    is(
        "IS_ARRAY",
        |_, v| kind(v, &[Type::Array]),
        "Whether it is an array.",
        ("IS_ARRAY([])", "true"),
    ),
    is(
        "IS_BOOL",
        |_, v| kind(v, &[Type::Bool]),
        "Whether it is a boolean.",
        ("IS_BOOL(1)", "false"),
    )
    .also(&["IS_BOOLEAN"]),
    is(
        "IS_DATETIME",
        |_, v| Ok(v[0].as_str().is_some_and(date::is_date_time).into()),
        "Whether it is a string that spells a date, or a date and time.",
        ("IS_DATETIME('2024-02-29T00:00:00Z')", "true"),
    ),
    is(
        "IS_DEFINED",
        |_, v| Ok(v[0].is_defined().into()),
        "Whether it is there at all.",
        ("IS_DEFINED(undefined)", "false"),
    ),
    is(
        "IS_FINITE_NUMBER",
        |_, v| Ok(v[0].as_f64().is_some_and(f64::is_finite).into()),
        "Whether it is a number, and finite.",
        ("IS_FINITE_NUMBER(1/0)", "false"),
    ),
    is(
        "IS_INTEGER",
        |_, v| Ok(v[0].as_int().is_some().into()),
        "Whether it is a number without fraction, within 64 bits.",
        ("IS_INTEGER(2.0)", "true"),
    ),
    is("IS_NULL", |_, v| kind(v, &[Type::Null]), "Whether it is null.", ("IS_NULL(null)", "true")),
    is(
        "IS_NUMBER",
        |_, v| kind(v, &[Type::Number]),
        "Whether it is a number.",
        ("IS_NUMBER('1')", "false"),
    ),
    is(
        "IS_OBJECT",
        |_, v| kind(v, &[Type::Object]),
        "Whether it is an object.",
        ("IS_OBJECT({})", "true"),
    ),
    is(
        "IS_PRIMITIVE",
        |_, v| kind(v, &[Type::Null, Type::Bool, Type::Number, Type::String]),
        "Whether it is null, a boolean, a number or a string.",
        ("IS_PRIMITIVE([1])", "false"),
    ),
    is(
        "IS_STRING",
        |_, v| kind(v, &[Type::String]),
        "Whether it is a string.",
        ("IS_STRING('a')", "true"),
    ),
];

fn kind<'a>(arguments: &[Value<'a>], kinds: &[Type]) -> Result<Value<'a>> {
    Ok(kinds.contains(&arguments[0].kind()).into())
}
