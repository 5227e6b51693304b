//! Ordered bytes, kept: the storage trait, and the adapters that implement it.
//!
//! Above this line live documents, LSNs and etags; below it there are only keys and values.
//! A *partition* is the unit of ownership: exactly one [`Owner`] writes it, and an owner
//! that has been succeeded can never succeed again. Submission is ordered and immediate,
//! durability is awaited on the [`Ticket`]; readers use the [`View`] that is published
//! after each commit, so they never see what a crash could take back.
//!
//! Five guarantees, stated by [`suite`] and passed by every adapter:
//!
//! 1. A batch is atomic over keyspaces, in memory and after a crash.
//! 2. Batches become durable and visible in the order of submission; what is recovered is a
//!    prefix of that order which holds every acknowledged batch.
//! 3. A view never changes, and never shows a batch that is not durable.
//! 4. After another owner has opened a partition, no ticket of the old one succeeds.
//! 5. Keys are scanned in byte order, forward and backward.
//!
//! Nothing here assumes that a read is free or local: every read is a future, scans come in
//! chunks, and a chunk may end early when its work budget is spent.

mod crash;
mod local;
mod memory;
#[doc(hidden)]
pub mod suite;
mod versions;

pub use crash::Crashing;
pub use local::{Durability, Faults, Local, LocalOptions, open_local};
pub use memory::open_memory;

use std::future::Future;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::watch;

/// A future of this crate. Local adapters know most answers at once.
#[must_use = "nothing is done before it is awaited"]
pub enum Pending<'a, T> {
    /// The answer is known; nothing once it was given.
    Ready(Option<Result<T>>),
    /// It takes its time.
    Later(Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>),
}

impl<'a, T> Pending<'a, T> {
    /// An answer that is known.
    pub fn ready(answer: Result<T>) -> Self {
        Self::Ready(Some(answer))
    }

    /// An answer that takes its time.
    pub fn later(answer: impl Future<Output = Result<T>> + Send + 'a) -> Self {
        Self::Later(Box::pin(answer))
    }
}

/// No part of it is pinned in place: what takes its time is pinned where its box points to.
impl<T> Unpin for Pending<'_, T> {}

impl<T> Future for Pending<'_, T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        match self.get_mut() {
            Self::Ready(answer) => {
                Poll::Ready(answer.take().expect("it is polled until it is ready"))
            }
            Self::Later(answer) => answer.as_mut().poll(cx),
        }
    }
}

/// Is told what has become durable; see [`Owner::submit_then`].
pub trait Follow: Send + Sync {
    /// Batches are durable and published, and their tickets have been answered. These are the notes
    /// that came with them, in their order. Called by whoever makes batches durable, so it must be short.
    fn durable(&self, notes: &[Note]);
}

/// What a follower is told of a batch. Its meaning is the follower's own.
#[derive(Debug, Clone, Default)]
pub struct Note {
    /// Something with an order.
    pub number: u64,
    /// What it is about.
    pub marks: SmallVec<[u64; 1]>,
}

/// What follows a batch: who is told, and what.
pub type Then<'a> = (&'a Arc<dyn Follow>, Note);

/// Result of a storage call.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, as far as the caller can act on it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Stored bytes are not what was written. Says what and where.
    #[error("corrupt data: {0}")]
    Corrupt(String),
    /// The operating system or the remote store refused.
    #[error("storage failed: {0}")]
    Io(String),
    /// A sync failed before; nothing is acknowledged any more until a restart.
    #[error("storage is read-only since a write failed: {0}")]
    Poisoned(String),
    /// Another owner has opened this partition. Final.
    #[error("another owner has opened this partition")]
    Fenced,
    /// Too much is waiting to be written; try again shortly.
    #[error("too many writes are waiting")]
    Busy,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The directory is held by another process, or has a format this build does not know.
    #[error("{0}")]
    Refused(String),
    /// The key, value or batch exceeds [`Limits`].
    #[error("{0}")]
    TooLarge(String),
}

/// The fixed set of ordered maps that every partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Keyspace {
    /// One small row per item: where its body is, and what a write must know of it.
    Docs = 0,
    /// Bodies by LSN, one per live item: the latest-version feed.
    Feed = 1,
    /// Every version by LSN, for containers that keep them: the all-versions feed.
    Log = 2,
    /// Small rows in the order of something else than items: expiries, tombstones, unique keys,
    /// counts.
    Index = 3,
    /// Everything else: heads, definitions, bookkeeping.
    Meta = 4,
    /// Rows of secondary indexes: many, short, alike, and only ever scanned.
    Terms = 5,
}

impl Keyspace {
    /// All keyspaces, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Docs, Self::Feed, Self::Log, Self::Index, Self::Meta, Self::Terms];
}

/// One change inside a batch. Later operations of a batch win over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// Sets a key.
    Put(Keyspace, Bytes, Bytes),
    /// Removes a key, which may have been put any number of times.
    Delete(Keyspace, Bytes),
    /// Removes a key that was put exactly once since it last was absent: cheaper in an LSM.
    DeleteOnce(Keyspace, Bytes),
}

/// Names a partition within a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u64);

/// Grows each time a partition is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// The place of a batch in the order of a store. Strictly grows with submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CommitNo(pub u64);

/// On what condition a partition is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Take it from whoever has it.
    Take,
    /// Take it only if nobody has since the epoch given; otherwise [`Error::Fenced`].
    Expect(Epoch),
}

/// What an adapter can hold, and what it costs.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest key.
    pub key_bytes: usize,
    /// Longest value.
    pub value_bytes: usize,
    /// Largest batch, keys and values added up.
    pub batch_bytes: usize,
}

impl Limits {
    /// Refuses a batch that cannot be stored.
    fn check(&self, batch: &[Op]) -> Result<()> {
        let mut total = 0;
        for op in batch {
            let (key, value) = match op {
                Op::Put(_, key, value) => (key.len(), value.len()),
                Op::Delete(_, key) | Op::DeleteOnce(_, key) => (key.len(), 0),
            };
            within("a key", key, self.key_bytes)?;
            within("a value", value, self.value_bytes)?;
            total += key + value;
        }
        within("a batch", total, self.batch_bytes)
    }
}

fn within(what: &str, bytes: usize, most: usize) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    Err(Error::TooLarge(format!("{what} of {bytes} bytes; the most is {most}")))
}

/// All partitions of a process.
pub trait Stores: Send + Sync {
    /// Opens a partition for writing, creating it if need be, and fences its former owner.
    fn open_owner(&self, partition: PartitionId, claim: Claim) -> Pending<'_, Arc<dyn Owner>>;

    /// Removes everything a partition holds, in bounded steps. The partition must have no
    /// living owner that writes; its owner is fenced. Safe to repeat after a crash.
    fn destroy(&self, partition: PartitionId) -> Pending<'_, ()>;

    /// What can be stored.
    fn limits(&self) -> Limits;

    /// Waits until everything submitted is durable, then stops. Later calls fail with `Closed`.
    fn close(&self) -> Pending<'_, ()>;

    /// A few figures for people and metrics: name, value.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// The right to write one partition.
pub trait Owner: Send + Sync {
    /// The epoch of this ownership.
    fn epoch(&self) -> Epoch;

    /// Takes the next place in the order. Never waits for I/O; [`Error::Busy`] is back-pressure.
    fn submit(&self, batch: Vec<Op>) -> Result<Ticket> {
        self.submit_then(batch, None)
    }

    /// The same, with a follower that is told once the batch is durable, whether or not anybody holds
    /// the ticket. Not if it fails.
    fn submit_then(&self, batch: Vec<Op>, then: Option<Then<'_>>) -> Result<Ticket>;

    /// The newest durable state.
    fn published(&self) -> Arc<dyn View>;

    /// A commit in whose state a key is known to have no value, and which [`Owner::published`] has, where
    /// that is known at once. Nothing is said of a key otherwise.
    fn lacks(&self, _keyspace: Keyspace, _key: &[u8]) -> Option<CommitNo> {
        None
    }

    /// Rises when a batch of this partition has become durable and is in [`Owner::published`].
    fn durable(&self) -> watch::Receiver<CommitNo>;

    /// Allows keys of the keyspace below the bound to be dropped. Reads below it are undefined.
    fn trim(&self, keyspace: Keyspace, below: Bytes) -> Result<()>;
}

/// A state that does not change.
pub trait View: Send + Sync {
    /// The last commit that this view contains.
    fn commit(&self) -> CommitNo;

    /// The value of a key.
    fn get<'a>(&'a self, keyspace: Keyspace, key: &'a [u8]) -> Pending<'a, Option<Bytes>>;

    /// The values of several keys, in their order.
    fn get_many<'a>(
        &'a self,
        keyspace: Keyspace,
        keys: &'a [Bytes],
    ) -> Pending<'a, Vec<Option<Bytes>>>;

    /// The next rows of a range. A chunk holds no resources once returned.
    fn scan(&self, scan: Scan) -> Pending<'_, Chunk>;
}

/// A request for the next rows of a range.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Where to look.
    pub keyspace: Keyspace,
    /// Lower bound.
    pub from: Bound<Bytes>,
    /// Upper bound.
    pub to: Bound<Bytes>,
    /// From the upper bound downward.
    pub reverse: bool,
    /// Most rows to return; at least 1.
    pub rows: usize,
    /// Stop once this many bytes of keys and values are gathered; at least one row is returned.
    pub bytes: usize,
    /// Leave the values out.
    pub keys_only: bool,
}

/// A run of rows.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    /// Keys and values, in scan order.
    pub rows: Vec<(Bytes, Bytes)>,
    /// Present when the range may hold more: pass it as the new exclusive bound (`from` when
    /// forward, `to` when reverse). Rows may be empty even so, when the work budget was spent.
    pub resume: Option<Bytes>,
}

/// A submitted batch.
#[derive(Debug)]
pub struct Ticket {
    no: CommitNo,
    done: tokio::sync::oneshot::Receiver<Result<()>>,
}

impl Ticket {
    /// A ticket, and what answers it. A ticket whose other end is dropped says [`Error::Closed`].
    fn new(no: CommitNo) -> (Self, tokio::sync::oneshot::Sender<Result<()>>) {
        let (sender, done) = tokio::sync::oneshot::channel();
        (Self { no, done }, sender)
    }

    /// The batch's place in the order.
    pub fn no(&self) -> CommitNo {
        self.no
    }

    /// Waits until the batch is durable and published.
    pub async fn durable(self) -> Result<()> {
        self.done.await.unwrap_or(Err(Error::Closed))
    }
}
