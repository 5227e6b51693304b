//! What waits to be written: the one place where the order of a store is made.
//!
//! Invariants:
//! - A commit number is given and an entry queued under one lock, so the two orders agree.
//! - Epochs change under the same lock: behind a claim there is no entry of an older owner.
//! - Bytes count until they are published, so a slow disk is felt as [`Error::Busy`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use super::format::{Body, RECORD_HEADER_BYTES, RecordKind};
use crate::{Claim, CommitNo, Epoch, Error, PartitionId, Result, Then, Ticket};

/// Most bytes that are written and synced at once.
const GROUP_BYTES: usize = 16 << 20;

/// A partition that is or was open.
pub(crate) struct Partition {
    pub id: PartitionId,
    epoch: AtomicU64,
    pub durable: watch::Sender<CommitNo>,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, epoch: Epoch) -> Self {
        Self { id, epoch: AtomicU64::new(epoch.0), durable: watch::Sender::new(CommitNo(0)) }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }
}

/// A batch on its way.
pub(crate) struct Entry {
    pub no: CommitNo,
    pub kind: RecordKind,
    pub partition: Arc<Partition>,
    pub epoch: Epoch,
    pub body: Body,
    /// Of the body, which the journal takes.
    pub body_bytes: usize,
    pub done: oneshot::Sender<Result<()>>,
    pub then: Then,
}

impl Entry {
    pub(crate) fn bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.body_bytes
    }
}

/// The queue between owners and the committer.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    bytes: AtomicUsize,
    bytes_max: usize,
}

struct Waiting {
    entries: VecDeque<Entry>,
    last: CommitNo,
    idle: bool,
    shut: Option<Error>,
}

impl Queue {
    pub(crate) fn new(last: CommitNo, bytes_max: usize) -> Self {
        let waiting = Waiting { entries: VecDeque::new(), last, idle: false, shut: None };
        Self {
            waiting: Mutex::new(waiting),
            arrived: Condvar::new(),
            bytes: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// Queues a batch of an owner.
    pub(crate) fn submit(
        &self,
        partition: &Arc<Partition>,
        epoch: Epoch,
        body: Body,
        then: Then,
    ) -> Result<Ticket> {
        let mut waiting = self.waiting();
        if let Some(error) = &waiting.shut {
            return Err(error.clone());
        }
        if partition.epoch() != epoch {
            return Err(Error::Fenced);
        }
        let queued = self.bytes.load(Ordering::Acquire);
        let bytes = RECORD_HEADER_BYTES + body.bytes.len();
        // A batch larger than the bound alone may still pass when nothing else waits.
        if queued > 0 && queued + bytes > self.bytes_max {
            return Err(Error::Busy);
        }
        Ok(self.push(&mut waiting, RecordKind::Batch, partition, epoch, (body, then)))
    }

    /// Makes a new owner. What the old one has queued fails; what is being written already
    /// comes before the claim, and is acknowledged before it.
    pub(crate) fn claim(
        &self,
        partition: &Arc<Partition>,
        claim: Claim,
    ) -> Result<(Epoch, Ticket)> {
        let mut waiting = self.waiting();
        if let Some(error) = &waiting.shut {
            return Err(error.clone());
        }
        let now = partition.epoch();
        if let Claim::Expect(expected) = claim
            && expected != now
        {
            return Err(Error::Fenced);
        }
        let epoch = Epoch(now.0 + 1);
        partition.epoch.store(epoch.0, Ordering::Release);
        let (kept, fenced): (VecDeque<_>, VecDeque<_>) =
            waiting.entries.drain(..).partition(|entry| entry.partition.id != partition.id);
        waiting.entries = kept;
        let nothing = (Body::empty(), Box::new(|| {}) as Then);
        let ticket = self.push(&mut waiting, RecordKind::Claim, partition, epoch, nothing);
        drop(waiting);
        self.refuse(fenced, &Error::Fenced);
        Ok((epoch, ticket))
    }

    /// Waits for entries and takes a group of them. `None` once shut and empty.
    pub(crate) fn take(&self) -> Option<Vec<Entry>> {
        let mut waiting = self.waiting();
        while waiting.entries.is_empty() {
            if waiting.shut.is_some() {
                return None;
            }
            waiting.idle = true;
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle = false;
        }
        let mut bytes = 0;
        let fitting = waiting.entries.iter().take_while(|entry| {
            let first = bytes == 0;
            bytes += entry.bytes();
            first || bytes <= GROUP_BYTES
        });
        let count = fitting.count();
        Some(waiting.entries.drain(..count).collect())
    }

    /// Bytes that are not published yet.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Gives back the room that an entry took.
    pub(crate) fn free(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Takes nothing more; what is queued is still written.
    pub(crate) fn close(&self) {
        self.waiting().shut.get_or_insert(Error::Closed);
        self.arrived.notify_all();
    }

    /// Takes nothing more, and fails what is queued.
    pub(crate) fn poison(&self, error: &Error) {
        let mut waiting = self.waiting();
        waiting.shut = Some(error.clone());
        let entries = std::mem::take(&mut waiting.entries);
        drop(waiting);
        self.arrived.notify_all();
        self.refuse(entries, error);
    }

    fn push(
        &self,
        waiting: &mut Waiting,
        kind: RecordKind,
        partition: &Arc<Partition>,
        epoch: Epoch,
        (body, then): (Body, Then),
    ) -> Ticket {
        let no = CommitNo(waiting.last.0 + 1);
        waiting.last = no;
        let (ticket, done) = Ticket::new(no);
        let (partition, body_bytes) = (partition.clone(), body.bytes.len());
        let entry = Entry { no, kind, partition, epoch, body, body_bytes, done, then };
        self.bytes.fetch_add(entry.bytes(), Ordering::AcqRel);
        waiting.entries.push_back(entry);
        if waiting.idle {
            self.arrived.notify_one();
        }
        ticket
    }

    fn refuse(&self, entries: VecDeque<Entry>, error: &Error) {
        for entry in entries {
            self.free(entry.bytes());
            // The receiver may have gone; nobody is then left to tell.
            let _ = entry.done.send(Err(error.clone()));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
