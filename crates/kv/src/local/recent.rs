//! What is newer than the tree: the rows of the last groups, in memory.
//!
//! Every row keeps the versions that some view may still see; a view names the *state* it was
//! published with and sees the newest version that is not younger. So the one writer puts rows
//! in while readers read, and what they see does not change.
//!
//! Invariants:
//! - One writer (the applier), states only grow.
//! - A key that is absent here may be present beneath, in an older layer or in the tree. A
//!   removed key stays here as [`Value::Gone`], unless nothing is beneath and no view can see
//!   what was removed: then nothing of it is left, however often it was written.
//! - Rows of `Terms` come by the group, and stand in [`Runs`].

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use super::runs::{Run, Runs};
use super::tree::Pointer;
use crate::Keyspace;

/// What a row costs beside its key and value, about.
const ROW_BYTES: usize = 112;

/// The number of a published state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct State(pub u64);

/// A row's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Put(Bytes),
    Point(Pointer),
    Gone,
}

impl Value {
    fn bytes(&self) -> usize {
        match self {
            Self::Put(value) => value.len(),
            Self::Point(_) | Self::Gone => 0,
        }
    }
}

/// A key's versions.
#[derive(Debug)]
struct Versions {
    since: State,
    value: Value,
    /// Newest first.
    older: Vec<(State, Value)>,
    /// Nothing was beneath when the key came here.
    fresh: bool,
    /// The key has not been removed since it came here.
    only_put: bool,
}

impl Versions {
    fn at(&self, state: State) -> Option<&Value> {
        if self.since <= state {
            return Some(&self.value);
        }
        self.older.iter().find(|(since, _)| *since <= state).map(|(_, value)| value)
    }

    /// Sets the newest version, and drops those that no view from `oldest` on can see. Returns
    /// the bytes of values that went.
    fn set(&mut self, value: Value, state: State, oldest: State) -> usize {
        self.only_put &= value != Value::Gone;
        let before = std::mem::replace(&mut self.value, value);
        if self.since == state {
            return before.bytes();
        }
        let before_since = std::mem::replace(&mut self.since, state);
        let mut successor = before_since;
        let seen = self.older.iter().take_while(|(since, _)| {
            let kept = successor > oldest;
            successor = *since;
            kept
        });
        let seen = seen.count();
        let gone = self.older.drain(seen..).map(|(_, value)| value.bytes()).sum();
        self.older.insert(0, (before_since, before));
        gone
    }
}

/// A key with its first bytes at hand: most comparisons end there, without a look elsewhere.
#[derive(Debug)]
struct RowKey {
    head: u128,
    bytes: Bytes,
}

/// What rows are looked up by: a key that is not owned compares as an owned one.
trait Key {
    fn head(&self) -> u128;
    fn bytes(&self) -> &[u8];
}

impl Key for RowKey {
    fn head(&self) -> u128 {
        self.head
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Key for (u128, &[u8]) {
    fn head(&self) -> u128 {
        self.0
    }

    fn bytes(&self) -> &[u8] {
        self.1
    }
}

impl<'a> Borrow<dyn Key + 'a> for RowKey {
    fn borrow(&self) -> &(dyn Key + 'a) {
        self
    }
}

impl Ord for dyn Key + '_ {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.head().cmp(&other.head()).then_with(|| self.bytes().cmp(other.bytes()))
    }
}

impl PartialOrd for dyn Key + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Key + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for dyn Key + '_ {}

impl Ord for RowKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.head.cmp(&other.head).then_with(|| self.bytes.cmp(&other.bytes))
    }
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RowKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for RowKey {}

/// The first bytes of a key as a number that orders as they do. A shorter key is filled up with
/// zeros; one that is equal so far is told from it by all of its bytes.
pub(crate) fn head(key: &[u8]) -> u128 {
    match key.first_chunk() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut first = [0; 16];
            first[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(first)
        }
    }
}

fn as_key<'a>(key: &'a (u128, &'a [u8])) -> &'a (dyn Key + 'a) {
    key
}

type Rows = BTreeMap<RowKey, Versions>;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    spaces: [RwLock<Rows>; 5],
    terms: RwLock<Runs>,
    bytes: AtomicUsize,
}

impl Recent {
    /// Memory taken, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Whether it has no row of a keyspace.
    pub(crate) fn is_empty_space(&self, keyspace: Keyspace) -> bool {
        match keyspace {
            Keyspace::Terms => self.terms().is_empty(),
            _ => self.read(keyspace).is_empty(),
        }
    }

    /// Adds the terms of a group of commits.
    pub(crate) fn add_terms(&self, run: Run, oldest: State) {
        let before = self.terms();
        let after = before.with(run, oldest);
        let (added, gone) = (after.memory(), before.memory());
        *self.terms.write().unwrap_or_else(PoisonError::into_inner) = after;
        self.count(added, gone);
    }

    fn terms(&self) -> Runs {
        self.terms.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The value of a key as a state has it; `None` sends the reader to the layers beneath.
    pub(crate) fn get(&self, keyspace: Keyspace, key: &[u8], state: State) -> Option<Value> {
        if keyspace == Keyspace::Terms {
            return self.terms().get(key, state);
        }
        self.read(keyspace).get(&(head(key), key) as &dyn Key)?.at(state).cloned()
    }

    /// Sets a key. `fresh` says that no layer beneath has it.
    pub(crate) fn put(
        &self,
        keyspace: Keyspace,
        key: Bytes,
        value: Value,
        fresh: bool,
        (state, oldest): (State, State),
    ) {
        let (key_bytes, value_bytes) = (key.len(), value.bytes());
        let key = RowKey { head: head(&key), bytes: key };
        let (added, gone) = match self.write(keyspace).entry(key) {
            Entry::Vacant(entry) => {
                let only_put = value != Value::Gone;
                entry.insert(Versions { since: state, value, older: Vec::new(), fresh, only_put });
                (key_bytes + value_bytes + ROW_BYTES, 0)
            }
            Entry::Occupied(mut entry) => (value_bytes, entry.get_mut().set(value, state, oldest)),
        };
        self.count(added, gone);
    }

    /// Removes a key; `once` says that it was put exactly once since it was last absent. Returns
    /// whether the row may be buried when every view sees it gone.
    pub(crate) fn remove(
        &self,
        keyspace: Keyspace,
        key: Bytes,
        once: bool,
        (state, oldest): (State, State),
    ) -> bool {
        let mut rows = self.write(keyspace);
        if let Some(versions) = rows.get_mut(&(head(&key), &key[..]) as &dyn Key) {
            // Put once and here: nothing can be beneath.
            let alone = versions.fresh || (once && versions.only_put);
            let gone = versions.set(Value::Gone, state, oldest);
            self.count(0, gone);
            return alone;
        }
        drop(rows);
        self.put(keyspace, key, Value::Gone, false, (state, oldest));
        false
    }

    /// Takes out a row that has been gone since a state which every view has reached.
    pub(crate) fn bury(&self, keyspace: Keyspace, key: &[u8], since: State) {
        let mut rows = self.write(keyspace);
        let dead = |row: &Versions| row.value == Value::Gone && row.since == since;
        let place = (head(key), key);
        if rows.get(&place as &dyn Key).is_some_and(dead) {
            let older = rows.remove(&place as &dyn Key).map_or(Vec::new(), |row| row.older);
            let values: usize = older.iter().map(|(_, value)| value.bytes()).sum();
            self.count(0, key.len() + ROW_BYTES + values);
        }
    }

    /// Gathers up to `most` rows of a range. Returns where to go on if there may be more.
    pub(crate) fn range(
        &self,
        keyspace: Keyspace,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        state: State,
        most: usize,
        out: &mut Vec<(Bytes, Value)>,
    ) -> Option<Bytes> {
        if keyspace == Keyspace::Terms {
            return self.terms().range(range, reverse, state, most, out);
        }
        let rows = self.read(keyspace);
        let mut seen = 0;
        let mut take = |(key, versions): (&RowKey, &Versions)| {
            if let Some(value) = versions.at(state) {
                out.push((key.bytes.clone(), value.clone()));
            }
            seen += 1;
            (seen == most).then(|| key.bytes.clone())
        };
        let (from, to) = (range.0.map(|key| (head(key), key)), range.1.map(|key| (head(key), key)));
        let (from, to) = (from.as_ref().map(as_key), to.as_ref().map(as_key));
        let mut iter = rows.range::<dyn Key + '_, _>((from, to));
        if reverse { iter.rev().find_map(take) } else { iter.find_map(&mut take) }
    }

    /// Hands the newest version of every row of a keyspace to `each`, in the order of keys. Only
    /// for a layer that nobody writes any more.
    pub(crate) fn each<E>(
        &self,
        keyspace: Keyspace,
        mut each: impl FnMut(&Bytes, &Value) -> Result<(), E>,
    ) -> Result<(), E> {
        if keyspace == Keyspace::Terms {
            return self.terms().each(each);
        }
        let rows = self.read(keyspace);
        rows.iter().try_for_each(|(key, versions)| each(&key.bytes, &versions.value))
    }

    fn count(&self, added: usize, gone: usize) {
        // Only the one writer counts.
        let bytes = (self.bytes() + added).saturating_sub(gone);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    fn read(&self, keyspace: Keyspace) -> RwLockReadGuard<'_, Rows> {
        self.spaces[keyspace as usize].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, keyspace: Keyspace) -> RwLockWriteGuard<'_, Rows> {
        self.spaces[keyspace as usize].write().unwrap_or_else(PoisonError::into_inner)
    }
}
