//! What waits to be written: the one place where the order of a store is made.
//!
//! Invariants:
//! - A commit number is given and an entry queued under one lock, so the two orders agree.
//! - Epochs change under the same lock: behind a claim there is no entry of an older owner.
//! - Bytes count until they are published, so a slow disk is felt as [`Error::Busy`].

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::{oneshot, watch};

use super::format::{RECORD_HEADER_BYTES, RecordKind, push_ops};
use crate::{Claim, CommitNo, Epoch, Error, Follow, Note, Op, PartitionId, Result, Then, Ticket};

/// Most bytes that are written and synced at once.
const GROUP_BYTES: usize = 16 << 20;
/// A body of this size is not worth a copy.
const ALONE_BYTES: usize = 16 << 10;
/// Memory kept for the next group.
const BUFFER_KEPT_BYTES: usize = 4 << 20;
const ENTRIES_KEPT: usize = 1024;

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
    /// The number of its source within the group.
    source: u32,
    pub epoch: Epoch,
    pub body_bytes: usize,
    pub body_crc: u32,
    /// The body, where it is not in the buffer of its group.
    pub alone: Option<Bytes>,
    pub done: oneshot::Sender<Result<()>>,
    /// For whoever follows.
    pub note: Note,
}

impl Entry {
    pub(crate) fn bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.body_bytes
    }

    /// What it takes in the buffer of its group.
    pub(crate) fn buffered(&self) -> usize {
        if self.alone.is_some() { RECORD_HEADER_BYTES } else { self.bytes() }
    }
}

/// Where batches come from.
#[derive(Clone)]
pub(crate) struct Source {
    pub partition: Arc<Partition>,
    pub follower: Option<Arc<dyn Follow>>,
}

impl Source {
    fn is(&self, partition: &Arc<Partition>, follower: Option<&Arc<dyn Follow>>) -> bool {
        let followed = match (&self.follower, follower) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        followed && Arc::ptr_eq(&self.partition, partition)
    }
}

/// Batches that are written together.
#[derive(Default)]
pub(crate) struct Group {
    pub entries: Vec<Entry>,
    /// For each of them room for its header, and its body unless that stands alone.
    pub buffer: Vec<u8>,
    /// Where the entries come from. Held once for many of them: to count who holds one costs every writer.
    sources: Vec<Source>,
    /// Of entries that were acknowledged.
    notes: Vec<Note>,
}

/// How many of a group's sources are looked through for the one of a new entry.
const SOURCES_SOUGHT: usize = 8;

impl Group {
    /// What an entry is of.
    pub(crate) fn partition(&self, entry: &Entry) -> &Arc<Partition> {
        &self.sources[entry.source as usize].partition
    }

    /// The number of a source within the group, from now on at the latest.
    fn number_of(&mut self, partition: &Arc<Partition>, follower: Option<&Arc<dyn Follow>>) -> u32 {
        let from = self.sources.len().saturating_sub(SOURCES_SOUGHT);
        let known = self.sources[from..].iter().position(|known| known.is(partition, follower));
        let number = known.map_or(self.sources.len(), |known| from + known);
        if known.is_none() {
            let (partition, follower) = (partition.clone(), follower.cloned());
            self.sources.push(Source { partition, follower });
        }
        number as u32
    }

    /// The entries, each with the place of its header in the buffer.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let mut at = 0;
        self.entries.iter().map(move |entry| {
            let header = at;
            at += entry.buffered();
            (header, entry)
        })
    }

    /// The body of an entry.
    pub(crate) fn body<'a>(&'a self, header: usize, entry: &'a Entry) -> &'a [u8] {
        match &entry.alone {
            Some(body) => body,
            None => &self.buffer[header + RECORD_HEADER_BYTES..][..entry.body_bytes],
        }
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(Entry::buffered).sum()
    }

    /// Lets go of the sources before those that its entries come from.
    fn forget_sources(&mut self) {
        let all = self.sources.len() as u32;
        let first = self.entries.iter().map(|entry| entry.source).min().unwrap_or(all);
        self.sources.drain(..first as usize);
        self.entries.iter_mut().for_each(|entry| entry.source -= first);
    }

    /// Takes out the entries of a partition.
    fn take_out(&mut self, partition: PartitionId) -> Vec<Entry> {
        let mut taken = Vec::new();
        let Self { entries, buffer, sources, notes } = std::mem::take(self);
        (self.sources, self.notes) = (sources, notes);
        let mut rest = &buffer[..];
        for entry in entries {
            let (own, others) = rest.split_at(entry.buffered());
            rest = others;
            if self.partition(&entry).id == partition {
                taken.push(entry);
            } else {
                self.entries.push(entry);
                self.buffer.extend_from_slice(own);
            }
        }
        self.forget_sources();
        taken
    }

    /// Says that all of it is durable and published.
    pub(crate) fn acknowledge(&mut self) {
        let Self { entries, sources, notes, .. } = self;
        let runs = entries.chunk_by(|one, next| one.source == next.source);
        let runs: SmallVec<[_; 8]> = runs
            .map(|run| {
                let source = &sources[run[0].source as usize];
                source.partition.durable.send_replace(run[run.len() - 1].no);
                (source, run.len())
            })
            .collect();
        for entry in entries.drain(..) {
            // Nobody has to wait for a ticket.
            let _ = entry.done.send(Ok(()));
            notes.push(entry.note);
        }
        let mut notes = &notes[..];
        for (source, entries) in runs {
            let (own, others) = notes.split_at(entries);
            notes = others;
            if let Some(follower) = &source.follower {
                follower.durable(own);
            }
        }
    }

    /// Makes room for the next ones.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(ENTRIES_KEPT);
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES);
        self.sources.clear();
        self.sources.shrink_to(ENTRIES_KEPT);
        self.notes.clear();
        self.notes.shrink_to(ENTRIES_KEPT);
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
    group: Group,
    last: CommitNo,
    idle: bool,
    shut: Option<Error>,
}

thread_local! {
    /// Where a body is put together, before the queue is held for as long as it takes to copy it.
    static BODY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Queue {
    pub(crate) fn new(last: CommitNo, bytes_max: usize) -> Self {
        let waiting = Waiting { group: Group::default(), last, idle: false, shut: None };
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
        ops: &[Op],
        then: Option<Then<'_>>,
    ) -> Result<Ticket> {
        BODY.with_borrow_mut(|body| {
            body.clear();
            push_ops(body, ops);
            let crc = crc32fast::hash(body);
            let mut waiting = self.waiting();
            if let Some(error) = &waiting.shut {
                return Err(error.clone());
            }
            if partition.epoch() != epoch {
                return Err(Error::Fenced);
            }
            let queued = self.bytes.load(Ordering::Acquire);
            let bytes = RECORD_HEADER_BYTES + body.len();
            // A batch larger than the bound alone may still pass when nothing else waits.
            if queued > 0 && queued + bytes > self.bytes_max {
                return Err(Error::Busy);
            }
            Ok(self.push(&mut waiting, RecordKind::Batch, (partition, epoch), (body, crc), then))
        })
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
        let fenced = waiting.group.take_out(partition.id);
        let nothing = &mut Vec::new();
        let crc = crc32fast::hash(nothing);
        let ticket =
            self.push(&mut waiting, RecordKind::Claim, (partition, epoch), (nothing, crc), None);
        drop(waiting);
        self.refuse(fenced, &Error::Fenced);
        Ok((epoch, ticket))
    }

    /// Waits for entries and takes some of them, into a group that has none. False once shut and empty.
    pub(crate) fn take(&self, group: &mut Group) -> bool {
        let mut waiting = self.waiting();
        while waiting.group.entries.is_empty() {
            if waiting.shut.is_some() {
                return false;
            }
            waiting.idle = true;
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle = false;
        }
        let mut bytes = 0;
        let fitting = waiting.group.entries.iter().take_while(|entry| {
            let first = bytes == 0;
            bytes += entry.bytes();
            first || bytes <= GROUP_BYTES
        });
        let count = fitting.count();
        let Waiting { group: all, .. } = &mut *waiting;
        if count == all.entries.len() {
            std::mem::swap(all, group);
        } else {
            group.sources.extend_from_slice(&all.sources);
            group.entries.extend(all.entries.drain(..count));
            group.buffer.extend(all.buffer.drain(..group.bytes()));
            all.forget_sources();
        }
        true
    }

    /// Bytes that are not published yet.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Gives back the room that entries took.
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
        let entries = std::mem::take(&mut waiting.group).entries;
        drop(waiting);
        self.arrived.notify_all();
        self.refuse(entries, error);
    }

    fn push(
        &self,
        waiting: &mut Waiting,
        kind: RecordKind,
        (partition, epoch): (&Arc<Partition>, Epoch),
        (body, body_crc): (&mut Vec<u8>, u32),
        then: Option<Then<'_>>,
    ) -> Ticket {
        let no = CommitNo(waiting.last.0 + 1);
        waiting.last = no;
        let (ticket, done) = Ticket::new(no);
        let body_bytes = body.len();
        let (follower, note) = then.unzip();
        let source = waiting.group.number_of(partition, follower);
        let note = note.unwrap_or_default();
        let Group { entries, buffer, .. } = &mut waiting.group;
        buffer.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        let alone = match body_bytes {
            ..ALONE_BYTES => {
                buffer.extend_from_slice(body);
                None
            }
            _ => Some(Bytes::from(std::mem::take(body))),
        };
        let entry = Entry { no, kind, source, epoch, body_bytes, body_crc, alone, done, note };
        self.bytes.fetch_add(entry.bytes(), Ordering::AcqRel);
        entries.push(entry);
        if waiting.idle {
            self.arrived.notify_one();
        }
        ticket
    }

    /// Fails entries that are not going to be published.
    pub(crate) fn refuse(&self, entries: Vec<Entry>, error: &Error) {
        self.free(entries.iter().map(Entry::bytes).sum());
        for entry in entries {
            // The receiver may have gone; nobody is then left to tell.
            let _ = entry.done.send(Err(error.clone()));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keyspace;

    #[test]
    fn entries_are_of_their_partitions_however_many_there_are() {
        for count in [1, SOURCES_SOUGHT as u64, 3 * SOURCES_SOUGHT as u64] {
            let queue = Queue::new(CommitNo(0), usize::MAX);
            let partition = |n| Arc::new(Partition::new(PartitionId(n), Epoch(1)));
            let partitions: Vec<_> = (0..count).map(partition).collect();
            let submit = |partition: &Arc<Partition>, value: &str| {
                let value = Bytes::copy_from_slice(value.as_bytes());
                let ops = [Op::Put(Keyspace::Meta, Bytes::from_static(b"k"), value)];
                queue.submit(partition, partition.epoch(), &ops, None).unwrap()
            };
            let mut tickets = Vec::new();
            for n in 0..5 * count {
                let id = n * 7 % count;
                tickets.push(submit(&partitions[id as usize], &format!("for {id}")));
            }
            // What the old owner of the first has queued is taken out, and the others stay what they are.
            queue.claim(&partitions[0], Claim::Take).unwrap();
            tickets.push(submit(&partitions[0], "for 0"));
            let mut group = Group::default();
            assert!(queue.take(&mut group));
            assert_eq!(group.entries.len() as u64, 5 * (count - 1) + 2);
            for (header, entry) in group.placed().filter(|(_, entry)| entry.body_bytes > 0) {
                let of = format!("for {}", group.partition(entry).id.0);
                assert!(group.body(header, entry).ends_with(of.as_bytes()), "{of}");
            }
            assert!(group.sources.len() as u64 <= 6 * count + 2);
            group.clear();
            assert!(group.sources.is_empty());
        }
    }

    #[test]
    fn a_backlog_that_lasts_holds_no_more_partitions_than_it_has_entries() {
        let queue = Queue::new(CommitNo(0), usize::MAX);
        let partition = |n| Arc::new(Partition::new(PartitionId(n), Epoch(1)));
        let partitions: Vec<_> = (0..3 * SOURCES_SOUGHT as u64).map(partition).collect();
        let value = Bytes::from(vec![7; GROUP_BYTES / 10]);
        let mut rotating = partitions.iter().cycle();
        let mut group = Group::default();
        for _ in 0..30 {
            for partition in rotating.by_ref().take(15) {
                let put = Op::Put(Keyspace::Meta, Bytes::from_static(b"k"), value.clone());
                queue.submit(partition, Epoch(1), &[put], None).unwrap();
            }
            assert!(queue.take(&mut group));
            let last = group.entries.iter().map(|entry| group.partition(entry).id.0);
            let first = (group.entries[0].no.0 - 1) % partitions.len() as u64;
            assert!(last.eq((first..).map(|n| n % 24).take(group.entries.len())));
            group.clear();
            let waiting = queue.waiting();
            let Group { entries, sources, .. } = &waiting.group;
            assert!(sources.len() <= entries.len() + SOURCES_SOUGHT);
        }
    }
}
