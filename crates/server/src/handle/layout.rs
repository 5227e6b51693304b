//! How a container is cut into partition key ranges, for whoever administers it. Ours: the
//! service does this by itself, and so do we when throughput or size ask for it.

use model::{Error, Fault, Result};
use serde_json::{Map, Value};

use super::{Call, feed};
use crate::auth::Principal;
use crate::reply::Reply;

/// `{"range": "0"}`: cuts a range in two, each with about half of its items.
pub async fn split(call: &Call<'_>) -> Result<Reply> {
    let body = begin(call)?;
    let range = body.get("range").and_then(Value::as_str);
    let range =
        range.ok_or_else(|| Error::bad_request("say which range to split: {\"range\": \"0\"}"))?;
    call.server.engine.split(&call.path.link(), range).await?;
    feed::ranges(call)
}

/// `{"ranges": ["1", "2"]}`: makes one range of several that lie beside each other.
pub async fn merge(call: &Call<'_>) -> Result<Reply> {
    let body = begin(call)?;
    let ranges = body.get("ranges").and_then(Value::as_array);
    let ranges: Option<Vec<&str>> =
        ranges.and_then(|ranges| ranges.iter().map(Value::as_str).collect());
    let ranges = ranges.ok_or_else(|| {
        Error::bad_request("say which ranges to merge: {\"ranges\": [\"1\", \"2\"]}")
    })?;
    call.server.engine.merge(&call.path.link(), &ranges).await?;
    feed::ranges(call)
}

fn begin(call: &Call<'_>) -> Result<Map<String, Value>> {
    if call.principal != Principal::Owner {
        return Err(Error::new(
            Fault::Forbidden,
            "only the account's key may change the layout of a container",
        ));
    }
    model::json::object(&call.body)
}
