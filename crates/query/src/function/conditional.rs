//! `IIF`.

use model::Result;

use super::{Call, Function, Param};
use crate::value::Value;

pub(super) const TABLE: &[Function] = &[Function::scalar(
    "IIF",
    &[Param::Any, Param::Any, Param::Any],
    iif,
    "The second argument where the first is exactly true, otherwise the third.",
    ("IIF(1 < 2, 'yes', 'no')", "\"yes\""),
)
.seeing_all()];

fn iif<'a>(_: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let chosen = match &arguments[0] {
        Value::Undefined => return Ok(Value::Undefined),
        Value::Bool(true) => 1,
        _ => 2,
    };
    Ok(arguments[chosen].clone())
}
