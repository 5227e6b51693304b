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

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use super::rows::{Key, RowKey, Rows, Versions, as_key, head, in_order};
use super::runs::{Run, Runs};
use super::tree::Pointer;
use super::view::is_pointed;
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
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Put(value) => value.len(),
            Self::Point(_) | Self::Gone => 0,
        }
    }
}

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Recent {
    spaces: [RwLock<Rows>; 5],
    terms: RwLock<Runs>,
    bytes: AtomicUsize,
    /// Which rows somebody has gone through.
    scanned: [AtomicBool; 5],
}

impl Default for Recent {
    fn default() -> Self {
        Self::with(|_| Rows::loose())
    }
}

impl Recent {
    /// The layer that comes after this one: rows that somebody goes through are kept in order from the
    /// start.
    pub(crate) fn next(&self) -> Self {
        Self::with(|space| match self.scanned[space as usize].load(Ordering::Relaxed) {
            true => Rows::ordered(),
            false => Rows::loose(),
        })
    }

    fn with(rows: impl Fn(Keyspace) -> Rows) -> Self {
        let rows = |space: Keyspace| match is_pointed(space) {
            // They come in order, and are read in order.
            true => Rows::ordered(),
            false => rows(space),
        };
        let [docs, feed, log, index, meta, _] = Keyspace::ALL;
        Self {
            spaces: [docs, feed, log, index, meta].map(|space| RwLock::new(rows(space))),
            terms: RwLock::default(),
            bytes: AtomicUsize::new(0),
            scanned: [const { AtomicBool::new(false) }; 5],
        }
    }

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
        self.read(keyspace).get(key)?.at(state).cloned()
    }

    /// Sets a key. `fresh` says that no layer beneath has it.
    pub(crate) fn put(
        &self,
        keyspace: Keyspace,
        key: Bytes,
        value: Value,
        fresh: bool,
        now: (State, State),
    ) {
        let (key_bytes, value_bytes) = (key.len(), value.bytes());
        match self.write(keyspace).set(key, value, fresh, now) {
            None => self.count(key_bytes + value_bytes + ROW_BYTES, 0),
            Some(gone) => self.count(value_bytes, gone),
        }
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
        if let Some(versions) = rows.get_mut(&key) {
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
        if rows.get(key).is_some_and(dead) {
            let older = rows.remove(key).map_or(Vec::new(), |row| row.older);
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
        if rows.is_empty() {
            return None;
        }
        self.scanned[keyspace as usize].store(true, Ordering::Relaxed);
        let rows = if rows.in_order().is_some() { rows } else { self.put_in_order(keyspace, rows) };
        let rows = rows.in_order()?;
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

    /// Hands the newest version of every row of a keyspace to `each`, in the order of keys.
    pub(crate) fn each<E>(
        &self,
        keyspace: Keyspace,
        mut each: impl FnMut(&Bytes, &Value) -> Result<(), E>,
    ) -> Result<(), E> {
        if keyspace == Keyspace::Terms {
            return self.terms().each(each);
        }
        // Taken out first: who wants to put them in order, and all behind, would wait for the disk.
        let rows = self.read(keyspace).newest();
        in_order(&rows, |n| each(&rows[n].0.bytes, &rows[n].1))
    }

    /// Puts rows in order, for who reads them.
    fn put_in_order<'a>(
        &'a self,
        keyspace: Keyspace,
        loose: RwLockReadGuard<'a, Rows>,
    ) -> RwLockReadGuard<'a, Rows> {
        let order = loose.order();
        drop(loose);
        if let Some(order) = order {
            self.write(keyspace).put_in_order(order);
        }
        self.read(keyspace)
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
