//! Which keys of `Docs` there may be: that a new one is new is seen without a look at any row.
//!
//! Every create asks whether its item exists, and mostly it does not. To find nothing takes longer
//! than to find something: through all layers, and through every table whose keys lie around it. So
//! keys are taken into filters as they are applied, and what no filter knows is nowhere.
//!
//! Filters are in memory alone, and bounded. A store that is opened, and one whose filters are full,
//! begins with empty ones, which answer nothing until all keys that there are have been gone through
//! ([`Survey`]): behind everything else, a few at a time. Where there are more keys than fit, nobody
//! is answered, and rows are looked for as ever.
//!
//! Invariants:
//! - A key is taken in before a state is published that has it.
//! - Keys are never taken out: of a key that was removed it is said that it may be there.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use fjall::Readable;

use super::apply::{Published, partition_of};
use super::filter::{self, Filter};
use super::tree::{Tree, failed};
use super::view::PARTITION_BYTES;
use crate::{Keyspace, PartitionId, Result};

/// How many keys each filter is for. Another one is begun when the last is full: a small store
/// takes little, 26 million keys 39 MB.
const ROOMS: [usize; 6] = [1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 23, 1 << 23];

/// Who adds fewer keys than these has no use for it, and is spared the pass over those that there are.
const SURVEY_KEYS: usize = 1024;

/// Keys that are gone through at once.
const STEP_KEYS: usize = 4096;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    filters: [OnceLock<Filter>; ROOMS.len()],
    /// How many keys were taken in.
    count: AtomicUsize,
    /// All keys that there are have been taken in.
    complete: AtomicBool,
    /// Nothing more can be taken in.
    full: AtomicBool,
}

impl Keys {
    /// Takes a key in. More than one thread may.
    pub(crate) fn add(&self, partition: PartitionId, key: &[u8]) {
        let hash = hash(partition, key);
        if self.is_full() || self.knows(hash) {
            return;
        }
        let mut count = self.count.fetch_add(1, Ordering::Relaxed);
        for (filter, room) in self.filters.iter().zip(ROOMS) {
            if count < room {
                return filter.get_or_init(|| Filter::new(room)).add(hash);
            }
            count -= room;
        }
        self.full.store(true, Ordering::Release);
    }

    /// Takes in the key of a row, which begins with its partition.
    fn add_row(&self, key: &[u8]) -> Result<()> {
        self.add(partition_of(key)?, &key[PARTITION_BYTES..]);
        Ok(())
    }

    /// Whether a key is nowhere in any state that was published before now.
    pub(crate) fn lack(&self, partition: PartitionId, key: &[u8]) -> bool {
        self.is_complete() && !self.is_full() && !self.knows(hash(partition, key))
    }

    fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// How many keys it tells from others.
    pub(crate) fn told(&self) -> usize {
        let tells = self.is_complete() && !self.is_full();
        if tells { self.count.load(Ordering::Relaxed) } else { 0 }
    }

    /// What to go on with once these are full: others, which may have room since keys were removed; or
    /// such as stay full, where it has been seen that there are more keys than fit.
    pub(crate) fn successors(&self) -> Option<Self> {
        let complete = self.is_complete();
        let used = self.filters[0].get().is_some();
        (self.is_full() && used).then(|| Self { full: (!complete).into(), ..Self::default() })
    }

    fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Makes the next filters before the last one is full: whoever adds keys is in a hurry.
    fn make_room(&self) {
        if self.is_full() {
            return;
        }
        let mut before = 0;
        for (filter, room) in self.filters.iter().zip(ROOMS) {
            if self.count.load(Ordering::Relaxed) < before {
                return;
            }
            filter.get_or_init(|| Filter::new(room));
            before += room / 4 * 3;
        }
    }

    fn knows(&self, hash: u64) -> bool {
        self.filters.iter().map_while(OnceLock::get).any(|filter| filter.may_have(hash))
    }
}

fn hash(partition: PartitionId, key: &[u8]) -> u64 {
    filter::hash(key) ^ partition.0.wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Goes through all keys that there are.
pub(crate) struct Survey {
    pub tree: Arc<Tree>,
    pub published: Arc<ArcSwap<Published>>,
    /// For whom, and up to where it has come.
    under_way: Option<(Arc<Keys>, Bound<Bytes>)>,
    /// Some keys cannot be read.
    given_up: bool,
}

impl Survey {
    pub(crate) fn new(tree: Arc<Tree>, published: Arc<ArcSwap<Published>>) -> Self {
        Self { tree, published, under_way: None, given_up: false }
    }

    /// Whether there is something to do. Asked from time to time.
    pub(crate) fn is_due(&self) -> bool {
        let keys = &self.published.load().keys;
        if keys.count.load(Ordering::Relaxed) < SURVEY_KEYS {
            return false;
        }
        keys.make_room();
        !self.given_up && !keys.is_full() && !keys.is_complete()
    }

    /// Takes the next keys in; whether there are more.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let stepped = self.try_step();
        self.given_up |= stepped.is_err();
        stepped
    }

    fn try_step(&mut self) -> Result<bool> {
        // Keys that came after the filters did are in them already. So each step may look at a newer
        // state than the one before, and none is kept from being let go.
        let published = self.published.load_full();
        let begun = self.under_way.take().filter(|(keys, _)| Arc::ptr_eq(keys, &published.keys));
        let (keys, from) = match begun {
            Some(begun) => begun,
            None => {
                // Layers first, as they stand: a scan would have them put in order.
                for layer in published.layers.iter() {
                    layer.each(Keyspace::Docs, |key, _| published.keys.add_row(key))?;
                }
                (published.keys.clone(), Bound::Unbounded)
            }
        };
        let docs = self.tree.space(Keyspace::Docs);
        let mut rows = published.base.snapshot.range(docs, (from, Bound::Unbounded));
        let mut last = None;
        for _ in 0..STEP_KEYS {
            let Some(row) = rows.next() else {
                keys.complete.store(true, Ordering::Release);
                return Ok(false);
            };
            let key: Bytes = row.key().map_err(|error| failed(&error))?.into();
            keys.add_row(&key)?;
            last = Some(key);
        }
        let more = !keys.is_full();
        self.under_way = last.filter(|_| more).map(|key| (keys, Bound::Excluded(key)));
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PartitionId = PartitionId(1);

    fn key(n: usize) -> [u8; 8] {
        n.to_be_bytes()
    }

    #[test]
    fn nothing_is_said_before_all_keys_are_known() {
        let keys = Keys::default();
        keys.add(ONE, &key(1));
        assert!(!keys.lack(ONE, &key(2)));
        keys.complete.store(true, Ordering::Release);
        assert!(keys.lack(ONE, &key(2)));
        assert!(!keys.lack(ONE, &key(1)));
        assert!(keys.lack(PartitionId(2), &key(1)));
    }

    #[test]
    fn filters_follow_one_another() {
        let keys = Keys { complete: AtomicBool::new(true), ..Keys::default() };
        let many = ROOMS[0] + 1_000;
        (0..many).for_each(|n| keys.add(ONE, &key(n)));
        assert!(keys.filters[1].get().is_some() && keys.filters[2].get().is_none());
        assert!((0..many).all(|n| !keys.lack(ONE, &key(n))));
        let wrong = (many..2 * many).filter(|n| !keys.lack(ONE, &key(*n))).count();
        assert!(wrong < many / 20, "{wrong} of {many}");
        let count = keys.count.load(Ordering::Relaxed);
        (0..many).for_each(|n| keys.add(ONE, &key(n)));
        assert_eq!(keys.count.load(Ordering::Relaxed), count, "those that are known take no room");
    }

    #[test]
    fn full_ones_say_nothing() {
        let keys = Keys { complete: AtomicBool::new(true), ..Keys::default() };
        keys.add(ONE, &key(0));
        assert!(keys.successors().is_none(), "there is room");
        keys.count.store(ROOMS.iter().sum(), Ordering::Relaxed);
        assert!(keys.lack(ONE, &key(1)));
        keys.add(ONE, &key(1));
        assert!(keys.is_full() && !keys.lack(ONE, &key(1)) && !keys.lack(ONE, &key(2)));
        assert!(keys.successors().is_some_and(|next| !next.is_full()));
        keys.complete.store(false, Ordering::Release);
        let last = keys.successors().unwrap();
        assert!(last.is_full() && last.successors().is_none());
    }
}
