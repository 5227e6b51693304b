//! From an operation to its answer. No arm knows about stored state: the engine does.

mod batch;
mod changes;
mod feed;
mod item;
mod layout;
mod operate;
mod resource;
mod script;

use std::sync::Arc;

use bytes::Bytes;
use engine::Container;
use model::{Error, Fault, Result};

use crate::Server;
use crate::auth::Principal;
use crate::path::Path;
use crate::reply::Reply;
use crate::request::Headers;
use crate::route::Operation;

/// A request that may be served.
pub struct Call<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// What is asked for.
    pub operation: Operation,
    /// The path.
    pub path: &'a Path<'a>,
    /// The headers.
    pub headers: Headers<'a>,
    /// The body, as text.
    pub body: Bytes,
    /// Who asks.
    pub principal: Principal,
    /// The host and port by which the client has found us.
    pub host: &'a str,
    /// Whether it came by TLS.
    pub secure: bool,
}

impl Call<'_> {
    /// The container that the path leads through, if it is the one the client has in mind.
    fn container(&self) -> Result<Arc<Container>> {
        let (engine, path) = (&self.server.engine, self.path);
        let container = match path.container_link().and_then(|link| engine.container_by_link(link))
        {
            Some(container) => container,
            None => engine.container(path.name(0), path.name(1))?,
        };
        self.headers.check_intended_rid(container.rid())?;
        Ok(container)
    }
}

/// Does what is asked for. Rare operations are boxed: the future of every request is moved
/// about with room for the largest arm.
pub async fn handle(call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::Ready => Ok(operate::ready()),
        Operation::Metrics => Ok(operate::metrics(call)),
        Operation::Certificate => operate::certificate(call),
        Operation::Account => Ok(operate::account(call)),
        Operation::Create(kind) => Box::pin(resource::create(call, kind, false)).await,
        Operation::Upsert(kind) => Box::pin(resource::create(call, kind, true)).await,
        Operation::List(kind) => resource::list(call, kind),
        Operation::Query(kind) => resource::query(call, kind),
        Operation::Read(kind) => resource::read(call, kind),
        Operation::Replace(_) => Box::pin(resource::replace(call)).await,
        Operation::Delete(_) => Box::pin(resource::delete(call)).await,
        Operation::ReadRanges => feed::ranges(call),
        Operation::CreateItem => item::create(call).await,
        Operation::UpsertItem => item::upsert(call).await,
        Operation::ReadItem => item::read(call).await,
        Operation::ReplaceItem => item::replace(call).await,
        Operation::DeleteItem => item::delete(call).await,
        Operation::PatchItem => Box::pin(item::patch(call)).await,
        Operation::Batch => Box::pin(batch::execute(call)).await,
        Operation::DeleteKey => Box::pin(batch::delete_key(call)).await,
        Operation::Execute => Box::pin(script::execute(call)).await,
        Operation::ReadItems => feed::read(call).await,
        Operation::ReadChanges => Box::pin(changes::read(call)).await,
        Operation::SplitRange => Box::pin(layout::split(call)).await,
        Operation::MergeRanges => Box::pin(layout::merge(call)).await,
        Operation::ReadLag => Box::pin(changes::lag(call)).await,
        Operation::QueryItems => Box::pin(feed::query(call)).await,
        Operation::QueryPlan => feed::plan(call),
        Operation::ListConflicts => feed::conflicts(call),
        Operation::MissingConflict => Err(Error::new(Fault::NotFound, "there is no such conflict")),
        Operation::Refuse(what) => refuse(what),
    }
}

/// A 5xx would make clients try again; this will not get better by trying.
fn refuse(what: &str) -> Result<Reply> {
    Err(Error::bad_request(format!("{what} is not supported by this version of the server")))
}
