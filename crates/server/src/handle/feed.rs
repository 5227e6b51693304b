//! Lists that belong to a container: its ranges, its items, queries over them.

use engine::{Answer, Container, ItemPage, Page, Query, QueryPage, Scope};
use hyper::StatusCode;
use model::token::Session;
use model::{Result, charge};

use super::Call;
use super::item::{answered, read_charge};
use crate::consistency::Consistency;
use crate::reply::{self, Reply};
use crate::request::QueryBody;
use crate::wire::query::IndexForm;
use crate::{header, wire};

/// Clients read this in a loop that only a 304 ends.
pub fn ranges(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let ranges = container.ranges();
    let seen = call.headers.if_none_match()?;
    let mut reply = match seen.is_some_and(|seen| seen.matches(Some(ranges.etag))) {
        true => Reply::empty(StatusCode::NOT_MODIFIED),
        false => {
            let body = wire::range::list(&container, &ranges).to_string();
            let mut reply = Reply::json(StatusCode::OK, body);
            reply.set_number(&header::ITEM_COUNT, ranges.ranges.len() as u64);
            reply
        }
    };
    reply.set_etag(&ranges.etag);
    reply.set_container(&container);
    reply.set_charge(charge::metadata());
    Ok(reply)
}

pub async fn read(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let wanted = Wanted::of(call)?;
    let answer = container.read_items(&wanted.scope, &wanted.page, wanted.session.as_ref()).await?;
    Ok(items(&container, answer, wanted.level))
}

pub async fn query(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let query = QueryBody::parse(&call.body)?;
    let wanted = Wanted::of(call)?;
    let link = super::script::container_link(call);
    let functions = call.server.engine.query_functions(&link, &query.text)?;
    let QueryBody { text, parameters } = &query;
    let asked = Query { scope: &wanted.scope, text, parameters, functions };
    let answer = container.query_items(&asked, &wanted.page, wanted.session.as_ref()).await?;
    let mut told = Told::of(call)?;
    if told.indexes.is_some() {
        told.lacking = container.query_advice(&asked).await?;
    }
    Ok(rows(&container, answer, wanted.level, &told))
}

/// What the client wants to know of how its query was answered.
struct Told {
    /// How the rows are found, and not the rows.
    explain: bool,
    metrics: bool,
    indexes: Option<IndexForm>,
    /// Indexes that would have been used if they were there.
    lacking: Vec<String>,
}

impl Told {
    fn of(call: &Call<'_>) -> Result<Self> {
        let headers = call.headers;
        let indexes = if headers.flag(&header::INDEX_METRICS_TEXT_WANTED)? {
            Some(IndexForm::Text)
        } else {
            headers.flag(&header::INDEX_METRICS_WANTED)?.then_some(IndexForm::Base64)
        };
        Ok(Self {
            explain: headers.flag(&header::EXPLAIN)?,
            metrics: headers.flag(&header::QUERY_METRICS_WANTED)?,
            indexes,
            lacking: Vec::new(),
        })
    }
}

/// The plan of a query that we can run.
pub fn plan(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let query = QueryBody::parse(&call.body)?;
    // A client that says nothing can do nothing but ask.
    let features = call.headers.text(&header::SUPPORTED_FEATURES)?.unwrap_or_default();
    let plan = container.query_plan(&query.text, &query.parameters, features)?;
    let mut reply = Reply::json(StatusCode::OK, plan.to_string());
    reply.set_container(&container);
    reply.set_charge(charge::metadata());
    Ok(reply)
}

pub fn conflicts(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let body = reply::list(container.rid(), "Conflicts", &[]);
    let mut reply = Reply::json(StatusCode::OK, body);
    reply.set_number(&header::ITEM_COUNT, 0);
    reply.set_container(&container);
    reply.set_charge(charge::metadata());
    Ok(reply)
}

/// What every read of several items says.
struct Wanted {
    scope: Scope,
    page: Page,
    session: Option<Session>,
    level: Consistency,
}

impl Wanted {
    fn of(call: &Call<'_>) -> Result<Self> {
        let headers = call.headers;
        Ok(Self {
            scope: headers.scope()?,
            page: headers.page()?,
            session: headers.session()?,
            level: headers.consistency(call.server.options.consistency)?,
        })
    }
}

fn rows(
    container: &Container,
    mut answer: Answer<QueryPage>,
    level: Consistency,
    told: &Told,
) -> Reply {
    answer.charge = read_charge(answer.charge, level);
    answered(container, answer, |page| {
        if told.explain {
            return Reply::json(StatusCode::OK, wire::query::explained(&page).to_string());
        }
        let body = reply::list(container.rid(), "Documents", &page.rows);
        let mut reply = Reply::json(StatusCode::OK, body);
        reply.set_number(&header::ITEM_COUNT, page.rows.len() as u64);
        if let Some(continuation) = &page.continuation {
            reply.set_text(&header::CONTINUATION, continuation);
        }
        if told.metrics {
            reply.set_text(&header::QUERY_METRICS, wire::query::metrics(&page));
        }
        if let Some(form) = told.indexes.filter(|_| !page.rows.is_empty()) {
            reply
                .set_text(&header::INDEX_METRICS, wire::query::indexes(&page, &told.lacking, form));
        }
        reply
    })
}

fn items(container: &Container, mut answer: Answer<ItemPage>, level: Consistency) -> Reply {
    answer.charge = read_charge(answer.charge, level);
    answered(container, answer, |page| {
        let body = reply::list(container.rid(), "Documents", &page.bodies);
        let mut reply = Reply::json(StatusCode::OK, body);
        reply.set_number(&header::ITEM_COUNT, page.bodies.len() as u64);
        if let Some(continuation) = &page.continuation {
            reply.set_text(&header::CONTINUATION, continuation);
        }
        reply
    })
}
