//! What an item says about itself.

use model::Result;
use model::rid::ItemRid;

use super::{Call, Function, Param};
use crate::value::Value;

pub(super) const TABLE: &[Function] = &[Function::scalar(
    "DOCUMENTID",
    &[Param::Object],
    document_id,
    "The number of the item within its partition, which is also in its `_rid`.",
    ("DOCUMENTID({})", ""),
)];

fn document_id<'a>(_: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let rid = arguments[0].member("_rid");
    let ordinal = rid.as_str().and_then(ItemRid::parse).map(|rid| rid.ordinal);
    Ok(ordinal.and_then(|n| i64::try_from(n).ok()).map_or(Value::Undefined, Value::int))
}
