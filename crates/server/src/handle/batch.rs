//! Several items in one request: batches, bulk, and all items of a partition key.

use hyper::StatusCode;
use model::{Error, Result};

use super::Call;
use super::item::answered;
use crate::reply::Reply;
use crate::{header, request, wire};

/// An atomic batch, or a bulk request: headers tell which.
pub async fn execute(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let headers = call.headers;
    headers.refuse_triggers()?;
    headers.consistency(call.server.options.consistency)?;
    let (key, session) = (headers.partition_key()?, headers.session()?);
    let minimal = headers.wants_minimal()?;
    let operations = request::batch::operations(&call.body, key.as_ref())?;
    let answer = if headers.flag(&header::BATCH_ATOMIC)? {
        if headers.flag(&header::BATCH_GO_ON)? {
            return Err(Error::bad_request("an atomic batch does not go on after an error"));
        }
        container.execute_batch(key, &operations, session.as_ref()).await?
    } else {
        let range = headers.text(&header::RANGE_ID)?.filter(|text| !text.is_empty());
        let go_on = headers.flag(&header::BATCH_GO_ON)?;
        container.execute_bulk(range, operations, go_on, session.as_ref()).await?
    };
    Ok(answered(&container, answer, |results| {
        Reply::json(wire::batch::status(&results), wire::batch::results(&results, minimal))
    }))
}

pub async fn delete_key(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let answer = container.delete_key(call.headers.partition_key()?).await?;
    Ok(answered(&container, answer, |()| Reply::empty(StatusCode::OK)))
}
