//! Items that were read lately, so that reading them again touches no storage.
//!
//! Invariant: an entry is what the newest view holds, and no later write of its item has been
//! submitted. A write takes its item out *before* it is submitted and leaves its commit number
//! as a barrier; a reader may put in only what it read from a view behind that barrier. So a
//! hit is never older than what any other reader has seen, and never newer than what is durable.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use foldhash::HashMap;
use foldhash::fast::RandomState;
use kv::CommitNo;

use crate::hints::Hints;
use crate::keys::Row;

const SHARDS: usize = 64;
/// What an entry costs beside its body, roughly.
const ENTRY_BYTES: usize = 256;
/// The share of guesses in all of it.
const HINTS_SHARE: usize = 3;
/// Bodies above this share of a shard are not worth the many that would have to go.
const BODY_SHARE: usize = 8;

/// Which item: the number of its partition and its key there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub u32, pub Bytes);

/// An item that is about to be written: the number of its shard.
#[must_use]
pub(crate) struct Forgotten(usize);

/// An item as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Cached {
    pub row: Row,
    pub body: Bytes,
}

/// A bounded map of items.
pub(crate) struct Cache {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    shard_bytes: usize,
    /// For queries, which read too many items to remember them whole.
    pub hints: Hints,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Entries in the order in which they are considered for leaving.
    queue: VecDeque<Key>,
    bytes: usize,
    /// Writes that have been announced but not submitted.
    pending: usize,
    /// Views before this commit may lack a write of some item of this shard.
    barrier: CommitNo,
}

struct Entry {
    cached: Cached,
    /// Read since it was last considered for leaving.
    read: bool,
}

impl Cache {
    /// A cache that holds about so many bytes.
    pub fn new(bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (hasher, hints) = (RandomState::default(), Hints::new(bytes / HINTS_SHARE));
        let bytes = bytes - bytes / HINTS_SHARE;
        Self { shards, hasher, shard_bytes: bytes / SHARDS, hints }
    }

    /// An item, if it is here.
    pub fn get(&self, key: &Key) -> Option<Cached> {
        let mut shard = self.shard(key);
        let entry = shard.entries.get_mut(key)?;
        entry.read = true;
        Some(entry.cached.clone())
    }

    /// Remembers an item that was read from the view of a commit.
    pub fn put(&self, key: Key, cached: Cached, view: CommitNo) {
        let bytes = cost(&key, &cached);
        if bytes > self.shard_bytes / BODY_SHARE {
            return;
        }
        let mut shard = self.shard(&key);
        if shard.pending > 0 || view < shard.barrier {
            return;
        }
        shard.remove(&key);
        shard.bytes += bytes;
        shard.queue.push_back(key.clone());
        shard.entries.insert(key, Entry { cached, read: false });
        while shard.bytes > self.shard_bytes {
            shard.evict();
        }
    }

    /// Forgets an item that is about to be written, and keeps its shard from remembering
    /// anything until [`Cache::written`].
    pub fn forget(&self, key: &Key) -> Forgotten {
        let number = self.shard_of(key);
        let mut shard = self.numbered(number);
        shard.remove(key);
        shard.pending += 1;
        Forgotten(number)
    }

    /// The write has this place in the order; `None` if it was not submitted after all.
    pub fn written(&self, item: Forgotten, no: Option<CommitNo>) {
        let mut shard = self.numbered(item.0);
        shard.pending -= 1;
        shard.barrier = shard.barrier.max(no.unwrap_or_default());
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        self.numbered(self.shard_of(key))
    }

    fn shard_of(&self, key: &Key) -> usize {
        self.hasher.hash_one(key) as usize % SHARDS
    }

    fn numbered(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn remove(&mut self, key: &Key) {
        if self.entries.is_empty() {
            return;
        }
        // Its place in the queue stays, and is passed over when its turn comes.
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= cost(key, &entry.cached);
        }
        if self.queue.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            self.queue.retain(|key| entries.contains_key(key));
        }
    }

    /// Lets the first go that was not read since its last turn.
    fn evict(&mut self) {
        let Some(key) = self.queue.pop_front() else { return self.bytes = 0 };
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if std::mem::take(&mut entry.read) {
            return self.queue.push_back(key);
        }
        if let Some(entry) = self.entries.remove(&key) {
            self.bytes -= cost(&key, &entry.cached);
        }
    }
}

fn cost(key: &Key, cached: &Cached) -> usize {
    ENTRY_BYTES + key.1.len() + cached.body.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::token::Etag;

    fn key(n: u64) -> Key {
        Key(1, Bytes::copy_from_slice(&n.to_be_bytes()))
    }

    fn cached(lsn: u64) -> Cached {
        let row = Row {
            etag: Etag::new(lsn, 1, 0, 0),
            ts: 0,
            ttl: 0,
            body_bytes: 3,
            ordinal: 0,
            unique: vec![],
        };
        Cached { row, body: Bytes::from_static(b"{ }") }
    }

    fn lsn(cache: &Cache, n: u64) -> Option<u64> {
        cache.get(&key(n)).map(|cached| cached.row.etag.lsn())
    }

    #[test]
    fn what_was_read_before_a_write_is_not_remembered_after_it() {
        let cache = Cache::new(1 << 20);
        cache.put(key(1), cached(4), CommitNo(4));
        assert_eq!(lsn(&cache, 1), Some(4));
        let forgotten = cache.forget(&key(1));
        assert_eq!(lsn(&cache, 1), None);
        // The write is announced: nobody knows yet which view will have it.
        cache.put(key(1), cached(4), CommitNo(4));
        assert_eq!(lsn(&cache, 1), None);
        cache.written(forgotten, Some(CommitNo(5)));
        cache.put(key(1), cached(4), CommitNo(4));
        assert_eq!(lsn(&cache, 1), None);
        cache.put(key(1), cached(5), CommitNo(5));
        assert_eq!(lsn(&cache, 1), Some(5));
    }

    #[test]
    fn a_write_that_was_not_submitted_leaves_no_barrier() {
        let cache = Cache::new(1 << 20);
        let forgotten = cache.forget(&key(1));
        cache.written(forgotten, None);
        cache.put(key(1), cached(4), CommitNo(4));
        assert_eq!(lsn(&cache, 1), Some(4));
    }

    #[test]
    fn memory_is_bounded_and_what_is_read_stays_longer() {
        let cache = Cache::new(SHARDS * 4096);
        for n in 0..10_000 {
            cache.put(key(n), cached(n), CommitNo(n));
            assert!(lsn(&cache, 0).is_some(), "read all the time, it stays; {n}");
        }
        let held: usize = cache.shards.iter().map(|shard| shard.lock().unwrap().bytes).sum();
        assert!(held <= SHARDS * 4096);
        let queued: usize =
            cache.shards.iter().map(|shard| shard.lock().unwrap().queue.len()).sum();
        assert!(queued < 10_000);
    }
}
