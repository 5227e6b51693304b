//! The change feed: a page at once, a page when there is one, or page after page as events.

use std::sync::Arc;

use engine::{Answer, ChangesPage, ChangesRead, ChangesStart, Container};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG};
use model::token::{Position, Session};
use model::{Error, Result, charge};

use super::Call;
use super::item::{answered, read_charge};
use crate::push::{Events, Flow};
use crate::reply::Reply;
use crate::request::QueryBody;
use crate::request::changes::{ChangesRequest, Delivery};
use crate::wire::changes::Written;
use crate::{ahead, header, wire};

/// Empty pages that are read on behalf of a client before it is asked to come back for more:
/// some clients take an empty page for the end.
const EMPTY_PAGES_MAX: usize = 64;

pub async fn read(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let mut wanted = call.headers.changes()?;
    if call.headers.is_query()? {
        let query = QueryBody::parse(&call.body)?;
        let link = super::script::container_link(call);
        let functions = call.server.engine.query_functions(&link, &query.text)?;
        let filter = container.changes_filter(&query.text, &query.parameters, functions)?;
        wanted.filter = Some(filter);
    }
    let session = call.headers.session()?;
    let level = call.headers.consistency(call.server.options.consistency)?;
    if wanted.delivery == Delivery::Events {
        let mut answer =
            read_on(&container, &wanted, wanted.read.clone(), session.as_ref()).await?;
        answer.charge = read_charge(answer.charge, level);
        return Ok(events(call, container, wanted, answer));
    }
    let mut answer = next(call, &container, &wanted, session.as_ref()).await?;
    answer.charge = read_charge(answer.charge, level);
    let mut reply = answered(&container, answer, one);
    if let Delivery::Within(wait) = wanted.delivery {
        reply.set_shown(&header::PREFERENCE_APPLIED, &format_args!("wait={}", wait.as_secs()));
    }
    Ok(reply)
}

/// A page; if nothing has changed, only its position.
fn one(page: Written) -> Reply {
    let mut reply = match page.body {
        Some(body) => Reply::json(StatusCode::OK, body),
        None => Reply::empty(StatusCode::NOT_MODIFIED),
    };
    reply.set_number(&header::ITEM_COUNT, page.changes as u64);
    reply.set_shown(&ETAG, &page.position);
    reply
}

/// The next page, at once or when there is one, and a look at the one behind it.
async fn next(
    call: &Call<'_>,
    container: &Arc<Container>,
    wanted: &ChangesRequest,
    session: Option<&Session>,
) -> Result<Answer<Written>> {
    let written = |page| Written::new(container, wanted.form, page);
    if wanted.filter.is_some() {
        return Ok(wait(call, container, wanted, session).await?.map(written));
    }
    let request = ahead::Request { read: &wanted.read, form: wanted.form, session };
    let waits = matches!(wanted.delivery, Delivery::Within(_));
    if let Some(answer) = call.server.ahead.take(call.server, container, &request).await
        && answer.result.as_ref().is_ok_and(|page| page.changes > 0 || !waits)
    {
        return Ok(answer);
    }
    let answer = wait(call, container, wanted, session).await?;
    if let Ok(page) = &answer.result {
        ahead::read(call.server, container, &request, page);
    }
    Ok(answer.map(written))
}

/// The next page, if need be behind some empty ones.
async fn read_on(
    container: &Container,
    wanted: &ChangesRequest,
    mut read: ChangesRead,
    session: Option<&Session>,
) -> Result<Answer<ChangesPage>> {
    let filter = wanted.filter.as_ref();
    let mut answer = container.read_changes_where(&read, filter, session).await?;
    for _ in 1..EMPTY_PAGES_MAX {
        match &answer.result {
            Ok(page) if page.changes.is_empty() && page.more => {
                read.start = ChangesStart::After(page.position.clone());
            }
            _ => break,
        }
        answer = container.read_changes_where(&read, filter, session).await?;
    }
    Ok(answer)
}

/// The next page; where that may be waited for, as soon as it has changes. What there was when the
/// time was up, or when the server is told to stop, if it never has.
async fn wait(
    call: &Call<'_>,
    container: &Container,
    wanted: &ChangesRequest,
    session: Option<&Session>,
) -> Result<Answer<ChangesPage>> {
    let first = read_on(container, wanted, wanted.read.clone(), session).await?;
    let (Delivery::Within(limit), Ok(page)) = (wanted.delivery, &first.result) else {
        return Ok(first);
    };
    if !page.changes.is_empty() {
        return Ok(first);
    }
    // From a position and not from "now", which would be another moment each time.
    let start = ChangesStart::After(page.position.clone());
    let read = ChangesRead { start, ..wanted.read.clone() };
    tokio::select! {
        waited = tokio::time::timeout(limit, container.await_changes(&read, wanted.filter.as_ref(), session)) => {
            match waited {
                Ok(answer) => answer,
                Err(_) => read_on(container, wanted, read, session).await,
            }
        }
        () = call.server.stopped() => Ok(first),
    }
}

/// Page after page, beginning with the one that is there. Whatever is wrong with the request has
/// shown by now, so that it is refused as any other.
fn events(
    call: &Call<'_>,
    container: Arc<Container>,
    wanted: ChangesRequest,
    answer: Answer<ChangesPage>,
) -> Reply {
    let server = call.server.clone();
    answered(&container.clone(), answer, |page| {
        let mut reply = Reply::text(StatusCode::OK, "text/event-stream", "");
        reply.set_text(&CACHE_CONTROL, "no-cache");
        reply.flow = Some(Box::new(Flow::new(Events::new(server, container, wanted, page))));
        reply
    })
}

pub async fn lag(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let position = call.headers.position().map_err(|error| {
        Error::bad_request(format!("{}; a lag is measured from a position", error.message))
    })?;
    let scope = call.headers.scope()?;
    let ranges = container.lag(&scope, &position.unwrap_or(Position::Lsn(0))).await?;
    let mut reply = Reply::json(StatusCode::OK, wire::changes::lag(&ranges).to_string());
    reply.set_container(&container);
    reply.set_charge(charge::metadata());
    Ok(reply)
}
