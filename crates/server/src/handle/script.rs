//! Stored procedures, and what scripts log.

use engine::{Kind, Link};
use hyper::StatusCode;
use model::Result;

use super::Call;
use super::item::answered;
use crate::header;
use crate::path::percent_encoded;
use crate::reply::Reply;

pub async fn execute(call: &Call<'_>) -> Result<Reply> {
    let container = call.container()?;
    let log = call.headers.flag(&header::SCRIPT_LOGGING)?;
    let mut link = container_link(call);
    link.0.push((Kind::StoredProcedure, call.path.name(2).to_owned()));
    let key = call.headers.partition_key()?;
    let done = call.server.engine.execute(&link, key, &call.body, log).await?;
    let mut reply = answered(&container, done.answer, |body| Reply::json(StatusCode::OK, body));
    set_log(&mut reply, log, &done.log);
    Ok(reply)
}

/// The container that the path leads through.
pub fn container_link(call: &Call<'_>) -> Link {
    let name = |n: usize| call.path.name(n).to_owned();
    Link(vec![(Kind::Database, name(0)), (Kind::Container, name(1))])
}

/// Adds what was logged, if that was asked for; with refusals too.
pub fn set_log(reply: &mut Reply, asked: bool, log: &str) {
    if asked {
        reply.set_text(&header::SCRIPT_LOG, percent_encoded(log));
    }
}
