//! A small map by place, kept in the order in which places came.
//!
//! Most decisions look at a handful of keys, which are found by comparing; a batch of a hundred
//! operations looks at many hundreds, which are found by their hash.

use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use kv::{Keyspace, Op};
use smallvec::SmallVec;

/// A key in one of the keyspaces.
pub(crate) type Place = (Keyspace, Bytes);

/// Up to here comparing is cheaper than hashing.
const FEW: usize = 16;

/// Values by place.
#[derive(Debug)]
pub(crate) struct Places<V> {
    /// A decision about one item looks at one place.
    entries: SmallVec<[(Place, V); 1]>,
    /// Where all entries are, once they are more than a few.
    index: HashTable<usize>,
    hasher: RandomState,
}

impl<V> Default for Places<V> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<V> Places<V> {
    pub fn with_capacity(entries: usize) -> Self {
        let entries = SmallVec::with_capacity(entries);
        Self { entries, index: HashTable::new(), hasher: RandomState::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, place: &Place) -> Option<&V> {
        self.find(place).map(|at| &self.entries[at].1)
    }

    fn find(&self, place: &Place) -> Option<usize> {
        if self.entries.len() > FEW {
            let hash = self.hasher.hash_one(place);
            return self.index.find(hash, |at| self.entries[*at].0 == *place).copied();
        }
        // Keys differ most at their ends, and their lengths tell many apart.
        self.entries
            .iter()
            .rposition(|((keyspace, key), _)| *keyspace == place.0 && *key == place.1)
    }

    /// Sets a value; returns the one that was there.
    pub fn set(&mut self, place: Place, value: V) -> Option<V> {
        let Self { entries, index, hasher } = self;
        if entries.len() > FEW {
            let hash = |at: &usize| hasher.hash_one(&entries[*at].0);
            let same = |at: &usize| entries[*at].0 == place;
            match index.entry(hasher.hash_one(&place), same, hash) {
                Entry::Occupied(found) => {
                    return Some(std::mem::replace(&mut entries[*found.get()].1, value));
                }
                Entry::Vacant(room) => drop(room.insert(entries.len())),
            }
        } else if let Some(at) = self.find(&place) {
            return Some(std::mem::replace(&mut self.entries[at].1, value));
        }
        self.entries.push((place, value));
        if self.entries.len() == FEW + 1 {
            self.index_all();
        }
        None
    }

    fn index_all(&mut self) {
        let Self { entries, index, hasher } = self;
        let hash = |at: &usize| hasher.hash_one(&entries[*at].0);
        index.clear();
        for at in 0..entries.len() {
            index.insert_unique(hash(&at), at, hash);
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Places and values, in the order in which they came.
    pub fn entries(&self) -> impl Iterator<Item = &(Place, V)> {
        self.entries.iter()
    }

    /// The places, in the order in which they came.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.entries.iter().map(|(place, _)| place)
    }

    pub fn into_places(self) -> impl Iterator<Item = Place> {
        self.entries.into_iter().map(|(place, _)| place)
    }
}

/// What is to become of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    Put(Bytes),
    Delete {
        /// It was put exactly once.
        once: bool,
    },
}

impl Places<Write> {
    /// Adds a write; a later one of the same key takes the place of the earlier, which it returns.
    pub fn write(&mut self, place: Place, write: Write) -> Option<Write> {
        // A key that is removed at most once was not there before it was put in this very batch.
        let put = |places: &Self| matches!(places.get(&place), Some(Write::Put(_)));
        let once = write == Write::Delete { once: true };
        let write = if once && put(self) { Write::Delete { once: false } } else { write };
        self.set(place, write)
    }

    /// Goes back to when there were so many, and undoes what was replaced since.
    pub fn go_back(&mut self, len: usize, replaced: Vec<(Place, Write)>) {
        let Self { entries, index, hasher } = self;
        for (at, (place, _)) in entries.iter().enumerate().skip(len) {
            if let Ok(found) = index.find_entry(hasher.hash_one(place), |i| *i == at) {
                found.remove();
            }
        }
        entries.truncate(len);
        for (place, write) in replaced.into_iter().rev() {
            self.set(place, write);
        }
    }

    pub fn into_ops(self) -> Vec<Op> {
        let op = |((keyspace, key), write)| match write {
            Write::Put(value) => Op::Put(keyspace, key, value),
            Write::Delete { once: false } => Op::Delete(keyspace, key),
            Write::Delete { once: true } => Op::DeleteOnce(keyspace, key),
        };
        // Both are of one size, so this takes no memory.
        self.entries.into_vec().into_iter().map(op).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETE: Write = Write::Delete { once: false };

    #[test]
    fn a_write_is_as_large_as_an_operation() {
        assert_eq!(size_of::<(Place, Write)>(), size_of::<Op>());
    }

    fn place(n: usize) -> Place {
        (Keyspace::Docs, Bytes::copy_from_slice(&n.to_be_bytes()))
    }

    #[test]
    fn few_and_many_are_found_alike() {
        for many in [1, FEW, FEW + 1, 10 * FEW] {
            let mut places = Places::default();
            for n in 0..many {
                assert_eq!(places.set(place(n), n), None);
            }
            for n in 0..many {
                assert_eq!(places.set(place(n), 2 * n), Some(n));
            }
            assert!((0..many).all(|n| places.get(&place(n)) == Some(&(2 * n))), "{many}");
            assert_eq!(places.get(&place(many)), None);
            assert_eq!(places.get(&(Keyspace::Feed, place(0).1)), None);
            let order: Vec<Place> = places.into_places().collect();
            assert_eq!(order, (0..many).map(place).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_was_tried_can_be_undone() {
        for many in [2, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            let mut writes = Places::default();
            for n in 0..many {
                writes.write(place(n), DELETE);
            }
            let before = writes.len();
            let put = || Write::Put(Bytes::from_static(b"v"));
            let mut replaced = Vec::new();
            for n in (1..many + 5).chain([1]) {
                if let Some(old) = writes.write(place(n), put()) {
                    replaced.push((place(n), old));
                }
            }
            writes.go_back(before, replaced);
            assert!((0..many).all(|n| writes.get(&place(n)) == Some(&DELETE)), "{many}");
            assert_eq!(writes.get(&place(many + 1)), None);
            writes.write(place(many + 1), put());
            assert_eq!(writes.get(&place(many + 1)), Some(&put()));
            assert_eq!(writes.into_ops().len(), many + 1);
        }
    }

    #[test]
    fn the_last_write_of_a_key_counts() {
        let mut writes = Places::default();
        let value = Bytes::from_static(b"v");
        writes.write(place(0), DELETE);
        writes.write(place(0), Write::Put(value.clone()));
        writes.write(place(1), Write::Put(value.clone()));
        writes.write(place(1), Write::Delete { once: true });
        writes.write(place(2), Write::Delete { once: true });
        let (Keyspace::Docs, zero) = place(0) else { unreachable!("it is one of these") };
        assert_eq!(
            writes.into_ops(),
            [
                Op::Put(Keyspace::Docs, zero, value),
                Op::Delete(Keyspace::Docs, place(1).1),
                Op::DeleteOnce(Keyspace::Docs, place(2).1),
            ]
        );
    }
}
