//! The committer: one group after the other, from the queue to the disk to the readers.
//!
//! Two steps overlap: while a group is brought into the tree and acknowledged, the next one is
//! already being written and synced. When nobody else waits the committer does both itself,
//! which saves a lone writer one switch of threads.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::apply::Applier;
use super::journal::Journal;
use super::queue::{Entry, Queue};
use super::segment::{Placed, Segment};
use crate::{Error, Result};

/// Groups that may be durable without being published. More would only add latency.
const AHEAD_MAX: usize = 2;

/// A durable group.
struct Group {
    segment: Arc<Segment>,
    placed: Vec<Placed>,
    entries: Vec<Entry>,
}

/// The second step, shared by both threads.
pub(crate) struct Finish {
    pub queue: Arc<Queue>,
    pub applier: Arc<Mutex<Applier>>,
    /// Called with each group applied.
    pub applied: Box<dyn Fn() + Send + Sync>,
    pub groups: AtomicU64,
    pub commits: AtomicU64,
    ahead: AtomicUsize,
}

impl Finish {
    pub(crate) fn new(
        queue: Arc<Queue>,
        applier: Arc<Mutex<Applier>>,
        applied: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            queue,
            applier,
            applied,
            groups: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            ahead: AtomicUsize::new(0),
        }
    }

    fn finish(&self, group: Group) {
        let applied = lock(&self.applier).apply(&group.segment, &group.placed);
        match applied {
            Ok(()) => self.acknowledge(group.entries),
            Err(error) => self.poison(&error, group.entries),
        }
        (self.applied)();
    }

    fn acknowledge(&self, entries: Vec<Entry>) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.commits.fetch_add(entries.len() as u64, Ordering::Relaxed);
        for (i, entry) in entries.iter().enumerate() {
            let next = entries.get(i + 1);
            if next.is_none_or(|next| next.partition.id != entry.partition.id) {
                entry.partition.durable.send_replace(entry.no);
            }
        }
        for entry in entries {
            self.queue.free(entry.bytes());
            // Nobody has to wait for a ticket.
            let _ = entry.done.send(Ok(()));
        }
    }

    /// After this nothing is acknowledged any more: what the disk holds is not known.
    fn poison(&self, error: &Error, entries: Vec<Entry>) {
        tracing::error!(%error, "a write failed; the store is read-only until it is opened again");
        let error = Error::Poisoned(error.to_string());
        self.queue.poison(&error);
        for entry in entries {
            self.queue.free(entry.bytes());
            let _ = entry.done.send(Err(error.clone()));
        }
    }
}

/// Starts the committer and its second half.
pub(crate) fn spawn(journal: Journal, finish: Arc<Finish>) -> io::Result<Vec<JoinHandle<()>>> {
    let (lane, groups) = sync_channel(AHEAD_MAX);
    let second = finish.clone();
    let named = |name: &str| std::thread::Builder::new().name(name.into());
    Ok(vec![
        named("kv-commit").spawn(move || write_groups(journal, &finish, &lane))?,
        named("kv-apply").spawn(move || finish_groups(&second, &groups))?,
    ])
}

fn write_groups(mut journal: Journal, finish: &Finish, lane: &SyncSender<Group>) {
    while let Some(entries) = finish.queue.take() {
        match journal.append(&entries) {
            Ok((segment, placed)) => hand_on(finish, lane, Group { segment, placed, entries }),
            Err(error) => finish.poison(&Error::Io(error.to_string()), entries),
        }
    }
    if let Err(error) = journal.close() {
        tracing::warn!(%error, "the journal could not be cut to its end");
    }
}

fn hand_on(finish: &Finish, lane: &SyncSender<Group>, group: Group) {
    // Order is kept: nothing is ahead, and this thread is the only one that adds to it.
    if finish.ahead.load(Ordering::Acquire) == 0 && finish.queue.is_empty() {
        return finish.finish(group);
    }
    finish.ahead.fetch_add(1, Ordering::AcqRel);
    if let Err(unsent) = lane.send(group) {
        finish.ahead.fetch_sub(1, Ordering::AcqRel);
        finish.finish(unsent.0);
    }
}

fn finish_groups(finish: &Finish, groups: &Receiver<Group>) {
    while let Ok(group) = groups.recv() {
        finish.finish(group);
        finish.ahead.fetch_sub(1, Ordering::AcqRel);
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
