//! The committer: one group after the other, from the queue to the disk to the readers.
//!
//! One thread does it all: write, sync, apply, publish, acknowledge. Meanwhile the next group
//! fills, and the busier the machine is the larger it gets, so that a sync is shared by more.
//! Two threads that overlap the sync of one group with the application of the last make smaller
//! groups, more syncs and more switches, and are slower as soon as the processors are busy.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::apply::Applier;
use super::flush::Flusher;
use super::journal::Journal;
use super::queue::{Entry, Group, Queue};
use crate::{Error, Result};

/// What follows once a group is durable.
pub(crate) struct Finish {
    pub queue: Arc<Queue>,
    pub applier: Arc<Mutex<Applier>>,
    pub flusher: Arc<Flusher>,
    /// Called with each group applied.
    pub applied: Box<dyn Fn() + Send + Sync>,
    pub groups: AtomicU64,
    pub commits: AtomicU64,
}

impl Finish {
    pub(crate) fn new(
        queue: Arc<Queue>,
        applier: Arc<Mutex<Applier>>,
        flusher: Arc<Flusher>,
        applied: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (groups, commits) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { queue, applier, flusher, applied, groups, commits }
    }

    /// Goes on with a group that was written, or was not.
    fn finish(&self, group: &mut Group, applied: Result<()>) {
        match applied {
            Ok(()) => self.acknowledge(group),
            Err(error) => self.poison(&error, &mut group.entries),
        }
        if let Err(error) = self.flusher.look() {
            self.poison(&error, &mut Vec::new());
        }
        (self.applied)();
    }

    fn acknowledge(&self, group: &mut Group) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.commits.fetch_add(group.entries.len() as u64, Ordering::Relaxed);
        self.queue.free(group.entries.iter().map(Entry::bytes).sum());
        group.acknowledge();
    }

    /// After this nothing is acknowledged any more: what the disk holds is not known.
    fn poison(&self, error: &Error, entries: &mut Vec<Entry>) {
        tracing::error!(%error, "a write failed; the store is read-only until it is opened again");
        let error = Error::Poisoned(error.to_string());
        self.queue.poison(&error);
        self.queue.refuse(std::mem::take(entries), &error);
    }
}

/// Starts the committer.
pub(crate) fn spawn(journal: Journal, finish: Arc<Finish>) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("kv-commit".into());
    thread.spawn(move || write_groups(journal, &finish))
}

fn write_groups(mut journal: Journal, finish: &Finish) {
    let mut group = Group::default();
    while finish.queue.take(&mut group) {
        let applied = match journal.append(&mut group) {
            Ok((segment, records)) => lock(&finish.applier).apply(&segment, &records),
            Err(error) => Err(Error::Io(error.to_string())),
        };
        finish.finish(&mut group, applied);
        group.clear();
    }
    if let Err(error) = journal.close() {
        tracing::warn!(%error, "the journal could not be cut to its end");
    }
}

pub(crate) fn lock(applier: &Mutex<Applier>) -> MutexGuard<'_, Applier> {
    applier.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An I/O error in the words of this crate.
pub(crate) fn io_failed(what: &std::path::Path, error: &io::Error) -> Error {
    Error::Io(format!("{}: {error}", what.display()))
}

/// Shorthand for the many calls that touch one path.
pub(crate) fn at_path<T>(path: &std::path::Path, outcome: io::Result<T>) -> Result<T> {
    outcome.map_err(|error| io_failed(path, &error))
}
