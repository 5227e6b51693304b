//! Items, one at a time.

use std::borrow::Cow;
use std::sync::Arc;

use engine::{Answer, Container, ItemWrite, TriggeredWrite, WriteVerb};
use hyper::StatusCode;
use model::partition_key::PartitionKey;
use model::rid::ItemRid;
use model::{Result, charge};

use super::Call;
use crate::consistency::Consistency;
use crate::header;
use crate::reply::Reply;
use crate::wire;

pub async fn create(call: &Call<'_>) -> Result<Reply> {
    let (container, write) = begin(call)?;
    if let Some(triggers) = write.triggers {
        return Box::pin(triggered(call, &container, WriteVerb::Create, None, write, triggers))
            .await;
    }
    let answer = container.create_item(write.key, call.body.clone(), &write.conditions).await?;
    Ok(written(&container, answer, write.minimal))
}

pub async fn upsert(call: &Call<'_>) -> Result<Reply> {
    let (container, write) = begin(call)?;
    if let Some(triggers) = write.triggers {
        return Box::pin(triggered(call, &container, WriteVerb::Upsert, None, write, triggers))
            .await;
    }
    let answer = container.upsert_item(write.key, call.body.clone(), &write.conditions).await?;
    Ok(written(&container, answer, write.minimal))
}

pub async fn replace(call: &Call<'_>) -> Result<Reply> {
    let (container, write) = begin(call)?;
    let id = item_id(call, &container, write.key.as_ref()).await?;
    if let Some(triggers) = write.triggers {
        let id = Some(id.into_owned());
        return Box::pin(triggered(call, &container, WriteVerb::Replace, id, write, triggers))
            .await;
    }
    let body = call.body.clone();
    let answer = container.replace_item(&id, write.key, body, &write.conditions).await?;
    Ok(written(&container, answer, write.minimal))
}

pub async fn patch(call: &Call<'_>) -> Result<Reply> {
    call.headers.refuse_triggers()?;
    let (container, write) = begin(call)?;
    let id = item_id(call, &container, write.key.as_ref()).await?;
    let answer = container.patch_item(&id, write.key, &call.body, &write.conditions).await?;
    Ok(written(&container, answer, write.minimal))
}

pub async fn delete(call: &Call<'_>) -> Result<Reply> {
    let (container, write) = begin(call)?;
    let id = item_id(call, &container, write.key.as_ref()).await?;
    if let Some(triggers) = write.triggers {
        let id = Some(id.into_owned());
        return Box::pin(triggered(call, &container, WriteVerb::Delete, id, write, triggers)).await;
    }
    let answer = container.delete_item(&id, write.key, &write.conditions).await?;
    Ok(answered(&container, answer, |_| Reply::empty(StatusCode::NO_CONTENT)))
}

pub async fn read(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let level = call.headers.consistency(call.server.options.consistency)?;
    let (session, seen) = (call.headers.session()?, call.headers.if_none_match()?);
    let key = call.headers.partition_key()?;
    let id = item_id(call, &container, key.as_ref()).await?;
    let mut answer = container.read_item(&id, key, session.as_ref()).await?;
    answer.charge = read_charge(answer.charge, level);
    Ok(answered(&container, answer, |item| {
        let mut reply = match seen {
            Some(seen) if seen.matches(Some(item.etag)) => Reply::empty(StatusCode::NOT_MODIFIED),
            _ => Reply::json(StatusCode::OK, item.body),
        };
        reply.set_etag(&item.etag);
        reply
    }))
}

/// The id that a path names. A path goes by rids from end to end or not at all: an item's rid
/// counts as one only below its container's.
async fn item_id<'a>(
    call: &'a Call<'_>,
    container: &Container,
    key: Option<&PartitionKey>,
) -> Result<Cow<'a, str>> {
    let name = call.path.name(2);
    if call.path.name(1) == container.rid()
        && let Some(rid) = ItemRid::parse(name)
        && let Some(key) = key
        && let Some(id) = container.id_of(rid, key).await?
    {
        return Ok(id.into());
    }
    Ok(name.into())
}

/// What the level of a read makes of its charge.
pub fn read_charge(charge: f64, level: Consistency) -> f64 {
    if level.asks_two_replicas() { charge::doubled(charge) } else { charge }
}

/// The answer of a partition; position and charge go with refusals too.
pub fn answered<T>(container: &Container, answer: Answer<T>, ok: impl FnOnce(T) -> Reply) -> Reply {
    let Answer { at, charge, retry_after_ms, result } = answer;
    let mut reply = match result {
        Ok(payload) => ok(payload),
        Err(error) => wire::error::reply(&error),
    };
    reply.set_container(container);
    reply.set_position(&at);
    reply.set_charge(charge);
    if let Some(wait) = retry_after_ms {
        reply.set_number(&header::RETRY_AFTER_MS, wait);
    }
    reply
}

/// What every write of an item brings.
struct Write<'a> {
    key: Option<PartitionKey>,
    conditions: engine::Conditions,
    minimal: bool,
    triggers: Option<Triggers<'a>>,
}

/// The triggers around a write.
type Triggers<'a> = (Option<&'a str>, Option<&'a str>);

fn begin<'a>(call: &Call<'a>) -> Result<(Arc<Container>, Write<'a>)> {
    let container = call.container()?;
    let triggers = call.headers.triggers()?;
    // Writes cost the same at every level, but a level that does not exist is refused.
    call.headers.consistency(call.server.options.consistency)?;
    let write = Write {
        key: call.headers.partition_key()?,
        conditions: call.headers.conditions()?,
        minimal: call.headers.wants_minimal()?,
        triggers: Some(triggers).filter(|triggers| *triggers != (None, None)),
    };
    Ok((container, write))
}

/// A write with triggers around it.
async fn triggered(
    call: &Call<'_>,
    container: &Arc<Container>,
    verb: WriteVerb,
    id: Option<String>,
    write: Write<'_>,
    (before, after): Triggers<'_>,
) -> Result<Reply> {
    let log = call.headers.flag(&header::SCRIPT_LOGGING)?;
    let triggered = TriggeredWrite {
        verb,
        id,
        body: call.body.clone(),
        conditions: write.conditions,
        before: before.map(str::to_owned),
        after: after.map(str::to_owned),
        log,
    };
    let link = super::script::container_link(call);
    let engine = &call.server.engine;
    let done = engine.write_with_triggers(container, &link, write.key, triggered).await?;
    let mut reply = match verb {
        WriteVerb::Delete => {
            answered(container, done.answer, |_| Reply::empty(StatusCode::NO_CONTENT))
        }
        _ => written(container, done.answer, write.minimal),
    };
    super::script::set_log(&mut reply, log, &done.log);
    Ok(reply)
}

fn written(container: &Container, answer: Answer<ItemWrite>, minimal: bool) -> Reply {
    answered(container, answer, |item| {
        let status = if item.created { StatusCode::CREATED } else { StatusCode::OK };
        let mut reply = match minimal {
            true => Reply::empty(status),
            false => Reply::json(status, item.body),
        };
        reply.set_etag(&item.etag);
        reply
    })
}
