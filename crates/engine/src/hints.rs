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
/// Guesses of a shard at first.
const GUESSES: usize = 64;
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
    /// Guesses of a shard at most.
    most: usize,
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
    /// A table that takes no more than so many bytes.
    pub fn new(bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let most = bytes / SHARDS / size_of::<Entry>();
        // Halved until it is what a table has that has grown by doubling.
        let most = most.checked_ilog2().map_or(0, |bits| 1 << bits);
        Self { shards, hasher: RandomState::default(), most: most.max(GUESSES) }
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
        let guess = Guess { key: *key, body_bytes: row.body_bytes };
        self.shard(hash).put((hash, guess), self.most);
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

    fn put(&mut self, entry: Entry, most: usize) {
        let size = self.entries.len();
        if size == 0 || (size < most && self.lost > size / 4) {
            self.grow(most);
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

    fn grow(&mut self, most: usize) {
        let size = (self.entries.len() * 2).clamp(GUESSES, most);
        let old = std::mem::replace(&mut self.entries, vec![NONE; size]);
        for entry in old.into_iter().filter(|(hash, _)| *hash != 0) {
            self.put(entry, size);
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
        let hints = Hints::new(1 << 20);
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
        let hints = Hints::new(1 << 20);
        let most = (1 << 20) / size_of::<Entry>();
        let count = 3 * most as u64;
        for n in 0..count {
            hints.put(1, &item(n), &row(n));
        }
        let held: usize =
            hints.shards.iter().map(|shard| shard.lock().unwrap().entries.len()).sum();
        assert!(most / 2 < held && held <= most, "{held} of {most}");
        let mut known = 0;
        for n in (0..count).rev().take(most / 8) {
            if let Some(guess) = hints.get(1, &item(n)) {
                assert_eq!(guess.feed_key(), row(n).feed_key());
                known += 1;
            }
        }
        assert!(known > most / 10, "the newest are here: {known} of {}", most / 8);
    }
}
