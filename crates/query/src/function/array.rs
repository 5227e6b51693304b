//! Arrays and sets.

use model::Result;

use super::{Call, Function, Param};
use crate::value::{Value, equal};

pub(super) const TABLE: &[Function] = &[Function::scalar(
    "ARRAY_CONTAINS",
    &[Param::Array, Param::Any, Param::Any],
    |call, v| {
        if v[0].elements().is_none() || v[1].is_undefined() {
            return Ok(Value::Undefined);
        }
        let partial = v.get(2).is_some_and(Value::is_true);
        contains(call, &v[0], &v[1], partial).map(Value::from)
    },
    "Whether an element equals the value; with `true`, whether an object has all its members.",
    ("ARRAY_CONTAINS([1, {'a': 1, 'b': 2}], {'a': 1}, true)", "true"),
)
.optional(1)
.seeing_all()];

/// Whether an array has a value; with `partial`, an object with at least its members.
fn contains(call: &Call<'_>, array: &Value<'_>, value: &Value<'_>, partial: bool) -> Result<bool> {
    for element in array.elements().into_iter().flatten() {
        call.budget.spend(1)?;
        if equal(&element, value) || (partial && has_members(&element, value)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_members(element: &Value<'_>, wanted: &Value<'_>) -> bool {
    let (Some(mut wanted), Some(_)) = (wanted.members(), element.members()) else { return false };
    wanted.all(|(name, value)| equal(&element.member(&name), &value))
}
