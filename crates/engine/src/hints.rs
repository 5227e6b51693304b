//! Where the newest versions of items were found last: guesses that spare queries a look at `Docs`.
//!
//! A guess is checked before it counts. `Feed` has the newest version of each item, once: a row of it
//! that is under the guessed key, and of the item, is the item's newest version in that view. So
//! guesses need no care when items change, and may be lost at any time.

use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use foldhash::fast::RandomState;

use crate::keys::{FEED_KEY_BYTES, Row};

const SHARDS: usize = 16;
/// Guesses of a shard: at first, and at most. All of them take 32 MB.
const GUESSES: usize = 64;
const GUESSES_MAX: usize = (1 << 20) / SHARDS;
/// Places where a guess may stand, next to each other.
const WAYS: usize = 2;

/// A guess: the key of a version in `Feed`, and how long its body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guess {
    key: [u8; FEED_KEY_BYTES],
    pub body_bytes: u32,
}

impl Guess {
    pub fn feed_key(&self) -> Bytes {
        Bytes::copy_from_slice(&self.key)
    }
}

/// A bounded table of guesses, which forgets what does not fit.
pub(crate) struct Hints {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
}

/// The hash of an item's partition and key, and its guess; a hash of zero is an empty place.
type Entry = (u64, Guess);

#[derive(Default)]
struct Shard {
    entries: Vec<Entry>,
    /// Guesses that gave way since the table last grew.
    lost: usize,
}

const NONE: Entry = (0, Guess { key: [0; FEED_KEY_BYTES], body_bytes: 0 });

impl Hints {
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::default() }
    }

    /// Where the newest version of an item may be.
    pub fn get(&self, partition: u32, item: &Bytes) -> Option<Guess> {
        let hash = self.hash(partition, item);
        let shard = self.shard(hash);
        let at = shard.place(hash)?;
        let mut ways = shard.entries[at..at + WAYS].iter();
        ways.find(|(known, _)| *known == hash).map(|(_, guess)| *guess)
    }

    /// Remembers where the newest version of an item was.
    pub fn put(&self, partition: u32, item: &Bytes, row: &Row) {
        let Some(key) = row.etag.0.first_chunk() else { return };
        let hash = self.hash(partition, item);
        self.shard(hash).put((hash, Guess { key: *key, body_bytes: row.body_bytes }));
    }

    fn hash(&self, partition: u32, item: &Bytes) -> u64 {
        self.hasher.hash_one((partition, item)).max(1)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Where the guesses of a hash begin.
    fn place(&self, hash: u64) -> Option<usize> {
        let sets = self.entries.len() / WAYS;
        (sets > 0).then(|| hash as usize % sets * WAYS)
    }

    fn put(&mut self, entry: Entry) {
        if self.entries.is_empty() || (self.lost > self.entries.len() / 4 && self.can_grow()) {
            self.grow();
        }
        let Some(at) = self.place(entry.0) else { return };
        let ways = &mut self.entries[at..at + WAYS];
        let same = ways.iter().position(|(known, _)| *known == entry.0 || *known == 0);
        if same.is_none() {
            // The newest stands first, the older one of the two goes.
            ways.rotate_right(1);
            self.lost += 1;
        }
        self.entries[at + same.unwrap_or(0)] = entry;
    }

    fn can_grow(&self) -> bool {
        self.entries.len() < GUESSES_MAX
    }

    fn grow(&mut self) {
        let size = (self.entries.len() * 2).clamp(GUESSES, GUESSES_MAX);
        let old = std::mem::replace(&mut self.entries, vec![NONE; size]);
        for entry in old.into_iter().filter(|(hash, _)| *hash != 0) {
            self.put(entry);
        }
        self.lost = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::token::Etag;

    fn row(lsn: u64) -> Row {
        let etag = Etag::new(lsn, 1, 0, 0);
        Row { etag, ts: 0, ttl: 0, body_bytes: 3, ordinal: 0, unique: vec![] }
    }

    fn item(n: u64) -> Bytes {
        Bytes::copy_from_slice(&n.to_be_bytes())
    }

    #[test]
    fn the_last_place_of_an_item_is_remembered() {
        let hints = Hints::new();
        assert_eq!(hints.get(1, &item(1)), None);
        for lsn in [4, 9] {
            hints.put(1, &item(1), &row(lsn));
            let guess = hints.get(1, &item(1)).unwrap();
            assert_eq!(guess.feed_key(), row(lsn).feed_key());
        }
        assert_eq!((hints.get(2, &item(1)), hints.get(1, &item(2))), (None, None));
    }

    #[test]
    fn memory_is_bounded_and_what_is_here_is_right() {
        let hints = Hints::new();
        let count = 3 * (GUESSES_MAX * SHARDS) as u64;
        for n in 0..count {
            hints.put(1, &item(n), &row(n));
        }
        let held: usize =
            hints.shards.iter().map(|shard| shard.lock().unwrap().entries.len()).sum();
        assert_eq!(held, GUESSES_MAX * SHARDS);
        let mut known = 0;
        for n in (0..count).rev().take(100_000) {
            if let Some(guess) = hints.get(1, &item(n)) {
                assert_eq!(guess.feed_key(), row(n).feed_key());
                known += 1;
            }
        }
        assert!(known > 90_000, "the newest are here: {known}");
    }
}
