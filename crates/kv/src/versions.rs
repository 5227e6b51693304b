//! Rows in memory with their versions: the ground of the adapters that have no disk.
//!
//! Invariants:
//! - A view reads at a commit, and every version it can reach stays until it is dropped.
//! - Versions that no view can reach are dropped a few at a time, as new ones are written.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::{Chunk, CommitNo, Keyspace, Op, PartitionId, Pending, Result, Scan, View};

/// Old versions that are looked at for each one written.
const SWEEP: usize = 2;

/// A key's history, oldest first. `None` is a deletion.
type History = Vec<(CommitNo, Option<Bytes>)>;
type Place = (PartitionId, Keyspace);

/// All rows of a store.
#[derive(Default)]
pub(crate) struct Versions {
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    last: CommitNo,
    spaces: BTreeMap<Place, BTreeMap<Bytes, History>>,
    /// How many views read at each commit.
    views: BTreeMap<CommitNo, usize>,
    /// Keys that have a version too many since the commit given.
    stale: VecDeque<(CommitNo, Place, Bytes)>,
}

impl Versions {
    /// Applies a batch. Commits come in order.
    pub(crate) fn apply(&self, partition: PartitionId, no: CommitNo, batch: &[Op]) {
        let mut kept = self.write();
        kept.last = no;
        for op in batch {
            match op {
                Op::Put(space, key, value) => {
                    kept.set((partition, *space), key, no, Some(Bytes::copy_from_slice(value)));
                }
                Op::Delete(space, key) | Op::DeleteOnce(space, key) => {
                    kept.set((partition, *space), key, no, None);
                }
            }
        }
        kept.sweep(batch.len() * SWEEP);
    }

    /// What deletes the rows of a partition below a bound; all rows without one.
    pub(crate) fn deletes(
        &self,
        partition: PartitionId,
        space: Keyspace,
        below: Option<Bytes>,
    ) -> Vec<Op> {
        let kept = self.read();
        let Some(rows) = kept.spaces.get(&(partition, space)) else { return Vec::new() };
        let to = below.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = rows.range((Bound::Unbounded, to)).map(|(key, _)| key.clone());
        keys.map(|key| Op::Delete(space, key)).collect()
    }

    /// The newest state.
    pub(crate) fn view(self: &Arc<Self>, partition: PartitionId) -> VersionsView {
        let mut kept = self.write();
        let commit = kept.last;
        *kept.views.entry(commit).or_default() += 1;
        VersionsView { versions: self.clone(), commit, partition }
    }

    fn read(&self) -> RwLockReadGuard<'_, Kept> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Kept> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn set(&mut self, place: Place, key: &Bytes, no: CommitNo, value: Option<Bytes>) {
        let rows = self.spaces.entry(place).or_default();
        let key = Bytes::copy_from_slice(key);
        let history = rows.entry(key.clone()).or_default();
        match history.last_mut() {
            Some(last) if last.0 == no => last.1 = value,
            _ => history.push((no, value)),
        }
        if history.len() > 1 || history.last().is_some_and(|last| last.1.is_none()) {
            self.stale.push_back((no, place, key));
        }
    }

    /// Drops what no view can reach, for the next few keys that have something to drop.
    fn sweep(&mut self, keys: usize) {
        let oldest = self.views.keys().next().copied().unwrap_or(self.last);
        for _ in 0..keys {
            if self.stale.front().is_none_or(|(no, _, _)| *no > oldest) {
                return;
            }
            let Some((_, place, key)) = self.stale.pop_front() else { return };
            let Some(rows) = self.spaces.get_mut(&place) else { continue };
            let Some(history) = rows.get_mut(&key) else { continue };
            let reachable = history.iter().rposition(|(no, _)| *no <= oldest).unwrap_or(0);
            history.drain(..reachable);
            if history.len() == 1 && history[0].1.is_none() && history[0].0 <= oldest {
                rows.remove(&key);
            }
        }
    }
}

/// See [`View`].
pub(crate) struct VersionsView {
    versions: Arc<Versions>,
    commit: CommitNo,
    partition: PartitionId,
}

impl VersionsView {
    pub(crate) fn value(&self, keyspace: Keyspace, key: &[u8]) -> Option<Bytes> {
        let kept = self.versions.read();
        self.at(kept.spaces.get(&(self.partition, keyspace))?.get(key)?)
    }

    fn at(&self, history: &History) -> Option<Bytes> {
        history.iter().rev().find(|(no, _)| *no <= self.commit)?.1.clone()
    }

    fn chunk(&self, scan: &Scan) -> Chunk {
        let mut chunk = Chunk::default();
        let kept = self.versions.read();
        let Some(rows) = kept.spaces.get(&(self.partition, scan.keyspace)) else { return chunk };
        if is_empty(&scan.from, &scan.to) {
            return chunk;
        }
        let range = rows.range((scan.from.clone(), scan.to.clone()));
        let rows: Box<dyn Iterator<Item = _>> =
            if scan.reverse { Box::new(range.rev()) } else { Box::new(range) };
        let mut bytes = 0;
        for (key, history) in rows {
            let Some(value) = self.at(history) else { continue };
            let value = if scan.keys_only { Bytes::new() } else { value };
            bytes += key.len() + value.len();
            chunk.rows.push((key.clone(), value));
            if chunk.rows.len() >= scan.rows || bytes >= scan.bytes {
                chunk.resume = Some(key.clone());
                break;
            }
        }
        chunk
    }
}

impl View for VersionsView {
    fn commit(&self) -> CommitNo {
        self.commit
    }

    fn get<'a>(&'a self, keyspace: Keyspace, key: &'a [u8]) -> Pending<'a, Option<Bytes>> {
        Pending::ready(Ok(self.value(keyspace, key)))
    }

    fn get_many<'a>(
        &'a self,
        keyspace: Keyspace,
        keys: &'a [Bytes],
    ) -> Pending<'a, Vec<Option<Bytes>>> {
        let values = keys.iter().map(|key| self.value(keyspace, key)).collect();
        Pending::ready(Result::Ok(values))
    }

    fn scan(&self, scan: Scan) -> Pending<'_, Chunk> {
        Pending::ready(Ok(self.chunk(&scan)))
    }
}

impl Drop for VersionsView {
    fn drop(&mut self) {
        let mut kept = self.versions.write();
        if let Some(count) = kept.views.get_mut(&self.commit) {
            *count -= 1;
            if *count == 0 {
                kept.views.remove(&self.commit);
            }
        }
    }
}

/// Whether no key can lie between two bounds. A map panics on such a range.
fn is_empty(from: &Bound<Bytes>, to: &Bound<Bytes>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
        _ => false,
    }
}
