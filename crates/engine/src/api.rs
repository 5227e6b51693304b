//! What callers say to the engine, and what they get back.

use std::sync::Arc;

use bytes::Bytes;
use model::epk::EpkRange;
use model::partition_key::PartitionKey;
use model::throughput::Throughput;
use model::token::{Etag, Match, Position};
use model::{Error, Result};
use serde_json::{Map, Value};

use crate::Kind;

/// How a request names a resource: from the account down, each step by name or by rid.
/// Empty is the account itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link(pub Vec<(Kind, String)>);

impl Link {
    /// The link one step up, with the last step.
    pub fn split_last(&self) -> Option<(Link, Kind, &str)> {
        let ((kind, name), above) = self.0.split_last()?;
        Some((Link(above.to_vec()), *kind, name))
    }
}

/// A resource of the account: anything but items.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub id: String,
    /// Its resource id.
    pub rid: String,
    /// Resource id of what it belongs to; empty for databases and offers.
    pub owner: String,
    /// `dbs/<rid>/…/`, ending in a slash.
    pub self_link: String,
    /// Its version.
    pub etag: Etag,
    /// When it was last changed, in seconds since 1970.
    pub ts: u32,
    /// What the user said of it, completed with defaults; `id` included, system properties not.
    pub body: Map<String, Value>,
}

/// What a create may bring beside the body.
#[derive(Debug, Clone, Default)]
pub struct CreateOptions {
    /// Provisioned throughput, for databases and containers.
    pub throughput: Option<Throughput>,
    /// Replace what has the same id.
    pub upsert: bool,
}

/// What a create gave.
#[derive(Debug, Clone)]
pub struct Created {
    /// The resource as it is now.
    pub resource: Arc<Resource>,
    /// False where an upsert replaced.
    pub created: bool,
}

/// Which way an offer changes its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// From manual throughput to autoscale.
    ToAutoscale,
    /// From autoscale to manual throughput.
    ToManual,
}

/// What a replace may bring beside the body.
#[derive(Debug, Clone, Default)]
pub struct ReplaceOptions {
    /// Etag conditions.
    pub conditions: Conditions,
    /// For offers only.
    pub migration: Option<Migration>,
}

/// Etag conditions of a request.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Go on only if the current etag is this one.
    pub if_match: Option<Match>,
    /// Go on only if the current etag is not this one.
    pub if_none_match: Option<Match>,
}

/// How much of a list is wanted, and from where.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Most entries; `None` leaves it to us.
    pub items: Option<usize>,
    /// The continuation of the page before.
    pub continuation: Option<String>,
}

/// A page of resources.
#[derive(Debug, Clone)]
pub struct ResourcePage {
    /// Resource id of the owner; empty for the account.
    pub owner: String,
    /// The resources, oldest first.
    pub resources: Vec<Arc<Resource>>,
    /// Present when there is more.
    pub continuation: Option<String>,
}

/// Where in the order of its partition a request was served.
#[derive(Debug, Clone)]
pub struct At {
    /// Id of the partition key range.
    pub range: Arc<str>,
    /// The newest LSN that the answer takes into account.
    pub lsn: u64,
    /// The LSN of the item itself, where there is one.
    pub item_lsn: Option<u64>,
}

/// The answer of a partition: position and charge come with refusals too.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// Where it was served.
    pub at: At,
    /// Request units.
    pub charge: f64,
    /// How long to wait before trying again, when throttled.
    pub retry_after_ms: Option<u64>,
    /// What was asked for.
    pub result: Result<T>,
}

impl<T> Answer<T> {
    /// The same answer with another payload.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Answer<U> {
        let Self { at, charge, retry_after_ms, result } = self;
        Answer { at, charge, retry_after_ms, result: result.map(f) }
    }
}

/// An item as a write left it, or a read found it.
#[derive(Debug, Clone)]
pub struct ItemWrite {
    /// The whole item with its system properties; empty after a delete.
    pub body: Bytes,
    /// Its etag.
    pub etag: Etag,
    /// True when it did not exist before.
    pub created: bool,
}

/// Which part of a container a request is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Scope {
    /// All of it.
    Everything,
    /// One partition key range, by id.
    Range(String),
    /// One partition key, or all that begin with it (hierarchical keys).
    Key(PartitionKey),
    /// A part of the key space.
    Epk(EpkRange),
}

/// A page of items.
#[derive(Debug, Clone)]
pub struct ItemPage {
    /// Whole items, as stored.
    pub bodies: Vec<Bytes>,
    /// Present when there is more.
    pub continuation: Option<String>,
}

/// A query over the items of a container.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// Which part of the container.
    pub scope: &'a Scope,
    /// The text.
    pub text: &'a str,
    /// Names, with their `@`, and values.
    pub parameters: &'a [(String, Value)],
    /// The user-defined functions that it may call.
    pub functions: Option<crate::QueryFunctions>,
}

/// A page of a query's answer.
#[derive(Debug, Clone)]
pub struct QueryPage {
    /// The rows, as JSON.
    pub rows: Vec<Bytes>,
    /// Present when there is more.
    pub continuation: Option<String>,
    /// What it took.
    pub metrics: QueryMetrics,
    /// How long it took.
    pub took_ms: u64,
}

/// What a page of a query's answer took.
#[derive(Debug, Clone, Default)]
pub struct QueryMetrics {
    /// Documents read.
    pub documents: u64,
    /// Their bytes.
    pub document_bytes: u64,
    /// Entries read from indexes.
    pub entries: u64,
    /// Documents that passed the filter.
    pub kept: u64,
    /// Bytes of the rows.
    pub output_bytes: u64,
    /// What tells how, to those who ask.
    pub(crate) took: query::Metrics,
}

impl QueryMetrics {
    /// What was read, for people.
    pub fn plan(&self) -> String {
        self.took.plan()
    }

    /// The indexes that were read.
    pub fn indexes(&self) -> Vec<UsedIndex> {
        crate::select::used_indexes(&self.took)
    }
}

/// An index that a query has read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedIndex {
    /// `/a/?`, or for a composite index `/a ASC, /b DESC`.
    pub name: String,
    /// Whether values were looked up or followed in order, and not all of a type walked through.
    pub is_narrow: bool,
}

/// A request for the next changes.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangesRead {
    /// Which part of the container.
    pub scope: Scope,
    /// From where.
    pub start: ChangesStart,
    /// Which changes.
    pub mode: ChangesMode,
    /// Most changes, save that a transaction is never cut; `None` leaves it to us.
    pub items: Option<usize>,
}

/// What a read of a container's latest versions depends on: as long as it stays the same, so does
/// what is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesMark(pub(crate) Vec<(u32, u64)>);

/// Which changes a reader gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangesMode {
    /// Each item once, at its newest change.
    Latest {
        /// And each item that was deleted, once, while that is remembered.
        deletes: bool,
    },
    /// Every version and every delete, while the container's policy keeps them.
    AllVersions,
}

/// Where a reader of changes begins.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangesStart {
    /// With the oldest change there is; of all versions, the oldest that is kept.
    Beginning,
    /// With what is changed from now on.
    Now,
    /// With the first change at or after a time, in milliseconds since 1970.
    Since(u64),
    /// After the last page.
    After(Position),
}

/// A page of changes.
#[derive(Debug, Clone)]
pub struct ChangesPage {
    /// The changes, in commit order per partition.
    pub changes: Vec<Changed>,
    /// Where to go on. Moves even when there is nothing to return.
    pub position: Position,
    /// The page ended before what there is to read did. It may be empty all the same: a reader
    /// of little that lies among much is shown that little page by page.
    pub more: bool,
}

/// An item that was changed.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The item as the change left it; empty for a delete.
    pub body: Bytes,
    /// The commit that changed it.
    pub lsn: u64,
    /// When, in milliseconds since 1970.
    pub ts_ms: u64,
    /// What happened: for deletes, and always when all versions are read.
    pub detail: Option<Box<Detail>>,
}

/// What a change did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The item is new.
    Create,
    /// The item has a new version.
    Replace,
    /// The item is gone.
    Delete,
}

/// More of a change than its body says.
#[derive(Debug, Clone)]
pub struct Detail {
    /// What it did.
    pub operation: Operation,
    /// The item was deleted because its time to live was over.
    pub expired: bool,
    /// The commit of the version that was replaced or deleted.
    pub previous_lsn: Option<u64>,
    /// Id of a deleted item.
    pub id: Option<String>,
    /// Partition key of a deleted item, as a JSON array.
    pub key: Option<String>,
    /// The version that was replaced or deleted, where the container's policy keeps it.
    pub previous: Option<Bytes>,
}

/// What a reader has still to read of a range.
#[derive(Debug, Clone)]
pub struct RangeLag {
    /// Id of the partition key range.
    pub range: Arc<str>,
    /// Its newest LSN.
    pub lsn: u64,
    /// How far the reader has come.
    pub position_lsn: u64,
    /// Items of the whole range whose newest change is after the position.
    pub items: u64,
    /// When the oldest of these changes was made, in milliseconds since 1970.
    pub oldest_unread_ts_ms: Option<u64>,
    /// How long ago that was; 0 when there is nothing to read.
    pub age_ms: u64,
}

/// A partition key range, as clients see partitions.
#[derive(Debug, Clone)]
pub struct Range {
    /// Its id, a decimal number.
    pub id: Arc<str>,
    /// Its resource id.
    pub rid: String,
    /// What it covers.
    pub span: EpkRange,
    /// The ranges it came from.
    pub parents: Vec<String>,
    /// Share of the container's throughput.
    pub throughput_fraction: f64,
}

/// All ranges of a container.
#[derive(Debug, Clone)]
pub struct Ranges {
    /// Changes whenever the ranges do.
    pub etag: Etag,
    /// From the lowest to the highest.
    pub ranges: Vec<Range>,
}

/// The storage's complaints, as the caller should hear them.
pub(crate) fn storage(error: kv::Error) -> Error {
    use model::Fault;
    match error {
        kv::Error::Busy => {
            Error::new(Fault::TooManyRequests, "too many writes are waiting; try again shortly")
        }
        kv::Error::TooLarge(what) => Error::new(Fault::TooLarge, what),
        kv::Error::Fenced | kv::Error::Closed => Error::new(Fault::Unavailable, error.to_string()),
        kv::Error::Poisoned(_) | kv::Error::Io(_) | kv::Error::Refused(_) => {
            tracing::error!(%error, "storage");
            Error::new(Fault::Unavailable, error.to_string())
        }
        kv::Error::Corrupt(_) => {
            tracing::error!(%error, "storage");
            Error::new(Fault::Internal, error.to_string())
        }
    }
}
