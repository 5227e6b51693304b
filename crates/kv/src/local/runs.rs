//! Rows of [`crate::Keyspace::Terms`] that are newer than the tree: sorted runs, in memory.
//!
//! An item brings many of these rows at once, to as many places, and nobody looks one of them up.
//! A map would pay for each of them by itself; a run pays for a group of commits together. The
//! rows of a group are sorted into a run, and as soon as there are a few runs of about one size
//! they are merged into one of the next: a row is copied a handful of times in all, and a reader
//! has a handful of runs to look into.
//!
//! Invariants:
//! - A run never changes. Who reads holds the runs, and needs no lock.
//! - Keys stand in byte order; versions of one key, the newest first. Of two runs that hold the
//!   same key the later one has the newer versions.
//! - A version is dropped only when a newer one of the same key is seen by every view.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::filter::Filter;
use super::recent::{State, Value};
use super::stems;
use crate::PartitionId;

/// Runs of one size that are merged into one of the next.
const RUNS_OF_A_SIZE: usize = 4;
/// Runs with more rows stay as they are: whoever merges them holds up commits.
const MERGED_ROWS_MAX: usize = 64 << 10;
/// Runs with fewer rows are looked through as quickly as asked.
const FILTERED_ROWS: usize = 256;
/// Rows that are hashed in the time that one lookup takes.
const ROWS_PER_LOOKUP: usize = 16;
/// Where the partition ends in a key.
const PARTITION_BYTES: usize = 8;

/// A version of a row, by its place among the bytes of its run.
#[derive(Debug, Clone, Copy)]
struct Version {
    at: u32,
    value_bytes: u32,
    key_bytes: u16,
    gone: bool,
    since: State,
}

/// What a version costs beside its bytes.
const VERSION_BYTES: usize = size_of::<Version>();

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Run {
    bytes: Bytes,
    versions: Vec<Version>,
    /// How often a value was looked up here.
    lookups: AtomicUsize,
    /// Which stems it has, once that pays.
    filter: OnceLock<Filter>,
}

impl Run {
    fn new(bytes: Vec<u8>, versions: Vec<Version>) -> Self {
        Self { bytes: Bytes::from(bytes), versions, ..Self::default() }
    }

    /// Whether it may have rows of a stem. What a filter costs to make, it saves again by so many
    /// lookups; a run that is merged before has had none.
    fn may_have(&self, stem: u64) -> bool {
        if let Some(filter) = self.filter.get() {
            return filter.may_have(stem);
        }
        let lookups = self.lookups.fetch_add(1, Relaxed);
        if self.versions.len() < FILTERED_ROWS || lookups < self.versions.len() / ROWS_PER_LOOKUP {
            return true;
        }
        let filter = self.filter.get_or_init(|| {
            let mut stems = stems::Gathered::default();
            self.versions.iter().for_each(|version| stems.add(self.key(version)));
            stems.filter()
        });
        filter.may_have(stem)
    }

    fn key(&self, version: &Version) -> &[u8] {
        let at = version.at as usize;
        &self.bytes[at..at + usize::from(version.key_bytes)]
    }

    fn owned_key(&self, version: &Version) -> Bytes {
        let at = version.at as usize;
        self.bytes.slice(at..at + usize::from(version.key_bytes))
    }

    fn value(&self, version: &Version) -> Value {
        if version.gone {
            return Value::Gone;
        }
        if version.value_bytes == 0 {
            return Value::Put(Bytes::new());
        }
        let at = version.at as usize + usize::from(version.key_bytes);
        Value::Put(self.bytes.slice(at..at + version.value_bytes as usize))
    }

    /// Memory taken.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.versions.len() * VERSION_BYTES
    }

    /// The versions whose keys lie in a range, by their numbers.
    fn within(&self, (from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> (usize, usize) {
        let first = match from {
            Bound::Included(bound) => self.versions.partition_point(|v| self.key(v) < bound),
            Bound::Excluded(bound) => self.versions.partition_point(|v| self.key(v) <= bound),
            Bound::Unbounded => 0,
        };
        let end = match to {
            Bound::Included(bound) => self.run_from(first, |key| key <= bound),
            Bound::Excluded(bound) => self.run_from(first, |key| key < bound),
            Bound::Unbounded => self.versions.len(),
        };
        (first, end)
    }

    /// Where those end that are within, from a version on. Few are asked for most of the time, so
    /// it is looked for nearby, and further and further away.
    fn run_from(&self, first: usize, within: impl Fn(&[u8]) -> bool) -> usize {
        let holds = |version: &Version| within(self.key(version));
        let (mut known, mut step) = (first, 1);
        while self.versions.get(known + step - 1).is_some_and(holds) {
            known += step;
            step *= 2;
        }
        let end = (known + step - 1).min(self.versions.len());
        known + self.versions[known..end].partition_point(holds)
    }
}

/// Rows of a group of commits, as they come.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    partition: u64,
    /// The first bytes behind the partition: most comparisons end there.
    head: u128,
    at: u32,
    value_bytes: u32,
    key_bytes: u16,
    gone: bool,
}

impl Gathered {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row; its key may share bytes with the last one that was added. `None` if that is
    /// not possible, or too much for a run.
    pub(crate) fn add(
        &mut self,
        partition: PartitionId,
        (before, own, after): (usize, &[u8], usize),
        value: Option<&[u8]>,
    ) -> Option<()> {
        let last = self.rows.last().map_or(0..0, |row| {
            let at = row.at as usize;
            at + PARTITION_BYTES..at + usize::from(row.key_bytes)
        });
        (before + after <= last.len()).then_some(())?;
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&partition.0.to_be_bytes());
        self.bytes.extend_from_within(last.start..last.start + before);
        self.bytes.extend_from_slice(own);
        self.bytes.extend_from_within(last.end - after..last.end);
        let row = Row {
            partition: partition.0,
            head: super::rows::head(&self.bytes[at + PARTITION_BYTES..]),
            at: u32::try_from(at).ok()?,
            value_bytes: u32::try_from(value.map_or(0, <[u8]>::len)).ok()?,
            key_bytes: u16::try_from(self.bytes.len() - at).ok()?,
            gone: value.is_none(),
        };
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.rows.push(row);
        Some(())
    }

    /// The rows in order. Of those with one key the last one counts.
    pub(crate) fn into_run(self, since: State) -> Run {
        let Self { bytes, mut rows } = self;
        let key = |row: &Row| {
            let at = row.at as usize;
            &bytes[at..at + usize::from(row.key_bytes)]
        };
        rows.sort_unstable_by(|a, b| {
            let order = (a.partition, a.head).cmp(&(b.partition, b.head));
            order.then_with(|| key(a).cmp(key(b))).then_with(|| b.at.cmp(&a.at))
        });
        rows.dedup_by(|later, first| key(later) == key(first));
        let version = |row: &Row| Version {
            at: row.at,
            value_bytes: row.value_bytes,
            key_bytes: row.key_bytes,
            gone: row.gone,
            since,
        };
        let versions = rows.iter().map(version).collect();
        Run::new(bytes, versions)
    }
}

/// The runs of a layer, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs(Arc<[Arc<Run>]>);

impl Runs {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn memory(&self) -> usize {
        self.0.iter().map(|run| run.memory()).sum()
    }

    /// With one more, and those merged that have become too many.
    pub(crate) fn with(&self, run: Run, oldest: State) -> Self {
        let mut runs: Vec<Arc<Run>> = self.0.to_vec();
        runs.push(Arc::new(run));
        while let Some(first) = runs.len().checked_sub(RUNS_OF_A_SIZE)
            && alike(&runs[first..])
        {
            let merged = merge(&runs[first..], oldest);
            runs.truncate(first);
            runs.push(Arc::new(merged));
        }
        Self(runs.into())
    }

    /// Gathers up to `most` rows of a range as a state has them. Returns where to go on if there
    /// may be more.
    pub(crate) fn range(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        state: State,
        most: usize,
        out: &mut Vec<(Bytes, Value)>,
    ) -> Option<Bytes> {
        let mut walk = Walk::over(&self.0, range, reverse);
        let mut found = Vec::new();
        let mut seen = 0;
        while let Some((run, version)) = walk.next(&mut found) {
            let key = run.owned_key(version);
            let visible = found.iter().filter(|(_, version)| version.since <= state);
            if let Some((run, version)) = visible.max_by_key(|(_, version)| version.since) {
                out.push((key.clone(), run.value(version)));
            }
            seen += 1;
            if seen == most {
                return Some(key);
            }
        }
        None
    }

    /// The newest version of a key that a state has.
    pub(crate) fn get(&self, key: &[u8], state: State) -> Option<Value> {
        let mut rows = Vec::new();
        self.range((Bound::Included(key), Bound::Included(key)), false, state, 1, &mut rows);
        rows.pop().map(|(_, value)| value)
    }

    /// Hands the newest version of every row to `each`, in the order of keys.
    pub(crate) fn each<E>(
        &self,
        mut each: impl FnMut(&Bytes, &Value) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut walk = Walk::over(&self.0, (Bound::Unbounded, Bound::Unbounded), false);
        let mut found = Vec::new();
        while walk.next(&mut found).is_some() {
            let newest = found.iter().max_by_key(|(_, version)| version.since);
            if let Some((run, version)) = newest {
                each(&run.owned_key(version), &run.value(version))?;
            }
        }
        Ok(())
    }
}

/// Whether runs are of about one size, and may be merged.
fn alike(runs: &[Arc<Run>]) -> bool {
    let size = |run: &Arc<Run>| run.versions.len().max(1).ilog(RUNS_OF_A_SIZE);
    let rows: usize = runs.iter().map(|run| run.versions.len()).sum();
    rows <= MERGED_ROWS_MAX && runs.iter().all(|run| size(run) <= size(&runs[runs.len() - 1]))
}

fn merge(runs: &[Arc<Run>], oldest: State) -> Run {
    let mut bytes = Vec::with_capacity(runs.iter().map(|run| run.bytes.len()).sum());
    let mut versions = Vec::with_capacity(runs.iter().map(|run| run.versions.len()).sum());
    let mut walk = Walk::over(runs, (Bound::Unbounded, Bound::Unbounded), false);
    let mut found = Vec::new();
    while walk.next(&mut found).is_some() {
        found.sort_unstable_by_key(|(_, version)| std::cmp::Reverse(version.since));
        let mut newer: Option<State> = None;
        for (run, version) in &found {
            // Once every view sees a newer one, nobody sees this or any before it.
            if newer.is_some_and(|newer| newer <= oldest) {
                break;
            }
            let at = version.at as usize;
            let len = usize::from(version.key_bytes) + version.value_bytes as usize;
            versions.push(Version { at: bytes.len() as u32, ..**version });
            bytes.extend_from_slice(&run.bytes[at..at + len]);
            newer = Some(version.since);
        }
    }
    Run::new(bytes, versions)
}

/// A walk over several runs at once, key by key.
struct Walk<'a> {
    cursors: BinaryHeap<Cursor<'a>>,
}

struct Cursor<'a> {
    run: &'a Run,
    next: &'a Version,
    rest: &'a [Version],
    reverse: bool,
}

impl<'a> Walk<'a> {
    fn over(runs: &'a [Arc<Run>], range: (Bound<&[u8]>, Bound<&[u8]>), reverse: bool) -> Self {
        let stem = stems::stem_of(range);
        let runs = runs.iter().filter(|run| stem.is_none_or(|stem| run.may_have(stem)));
        let cursors = runs.filter_map(|run| {
            let (first, end) = run.within(range);
            Cursor::new(run, &run.versions[first..end], reverse)
        });
        Self { cursors: cursors.collect() }
    }

    /// Gathers all versions of the next key. Returns one of them.
    fn next(&mut self, found: &mut Vec<(&'a Run, &'a Version)>) -> Option<(&'a Run, &'a Version)> {
        found.clear();
        let first = self.take()?;
        found.push(first);
        let key = first.0.key(first.1);
        while self.cursors.peek().is_some_and(|cursor| cursor.run.key(cursor.next) == key) {
            found.extend(self.take());
        }
        Some(first)
    }

    fn take(&mut self) -> Option<(&'a Run, &'a Version)> {
        let mut first = self.cursors.peek_mut()?;
        let taken = (first.run, first.next);
        match Cursor::new(first.run, first.rest, first.reverse) {
            Some(next) => *first = next,
            None => drop(PeekMut::pop(first)),
        }
        Some(taken)
    }
}

impl<'a> Cursor<'a> {
    fn new(run: &'a Run, versions: &'a [Version], reverse: bool) -> Option<Self> {
        let (next, rest) = if reverse { versions.split_last()? } else { versions.split_first()? };
        Some(Self { run, next, rest, reverse })
    }
}

impl Ord for Cursor<'_> {
    /// The heap gives its greatest first: that is the one whose turn it is.
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.run.key(self.next).cmp(other.run.key(other.next));
        if self.reverse { order } else { order.reverse() }
    }
}

impl PartialOrd for Cursor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Cursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Cursor<'_> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The rows that a state has, by a map.
    type Model = BTreeMap<Vec<u8>, Vec<(State, Option<Vec<u8>>)>>;

    fn key(n: u64) -> Vec<u8> {
        [&7u64.to_be_bytes()[..], format!("key {n:03}").as_bytes()].concat()
    }

    fn seen(model: &Model, state: State) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let at = |versions: &Vec<(State, Option<Vec<u8>>)>| {
            versions.iter().rev().find(|(since, _)| *since <= state).map(|(_, value)| value.clone())
        };
        model.iter().filter_map(|(key, versions)| Some((key.clone(), at(versions)?))).collect()
    }

    fn read(
        runs: &Runs,
        state: State,
        reverse: bool,
        most: usize,
    ) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut out = Vec::new();
        let (mut from, mut to) = (Bound::Unbounded, Bound::Unbounded);
        loop {
            let mut rows = Vec::new();
            let bounds: (Bound<Bytes>, Bound<Bytes>) = (from.clone(), to.clone());
            let range =
                (bounds.0.as_ref().map(|key| &key[..]), bounds.1.as_ref().map(|key| &key[..]));
            let resume = runs.range(range, reverse, state, most, &mut rows);
            out.extend(rows.into_iter().map(|(key, value)| {
                let value = match value {
                    Value::Put(value) => Some(value.to_vec()),
                    Value::Gone => None,
                    Value::Point(_) => panic!("no pointers here"),
                };
                (key.to_vec(), value)
            }));
            match resume {
                None => return out,
                Some(key) if reverse => to = Bound::Excluded(key),
                Some(key) => from = Bound::Excluded(key),
            }
        }
    }

    /// Groups of random rows, with views that stay for a while, beside a map.
    #[test]
    fn every_view_sees_its_own_state() {
        for seed in 0..40u64 {
            let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut roll = |below: u64| {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                dice % below
            };
            let (mut runs, mut model) = (Runs::default(), Model::new());
            let mut oldest = 0;
            for state in 1..60u64 {
                let mut gathered = Gathered::default();
                for _ in 0..=roll(30) {
                    let key = key(roll(120));
                    let value = (roll(4) > 0).then(|| vec![b'v'; roll(3) as usize]);
                    let own = (0, &key[PARTITION_BYTES..], 0);
                    gathered.add(PartitionId(7), own, value.as_deref()).unwrap();
                    let versions = model.entry(key).or_default();
                    versions.retain(|(since, _)| since.0 != state);
                    versions.push((State(state), value));
                }
                runs = runs.with(gathered.into_run(State(state)), State(oldest));
                oldest = oldest.max(state.saturating_sub(roll(12)));
                for view in oldest..=state {
                    let wanted = seen(&model, State(view));
                    let most = 1 + roll(9) as usize;
                    assert_eq!(read(&runs, State(view), false, most), wanted, "seed {seed}");
                    let back: Vec<_> = wanted.into_iter().rev().collect();
                    assert_eq!(read(&runs, State(view), true, most), back, "seed {seed}");
                }
            }
            assert!(runs.0.len() < 16, "seed {seed}: {} runs", runs.0.len());
        }
    }

    #[test]
    fn keys_share_what_they_have_in_common() {
        let mut gathered = Gathered::default();
        gathered.add(PartitionId(1), (0, b"path-b item", 0), Some(b"")).unwrap();
        gathered.add(PartitionId(1), (5, b"a", 5), Some(b"v")).unwrap();
        assert_eq!(gathered.add(PartitionId(1), (7, b"", 5), None), None, "too much is shared");
        let runs = Runs::default().with(gathered.into_run(State(1)), State(0));
        let rows = read(&runs, State(1), false, 10);
        let key = |text: &[u8]| [&1u64.to_be_bytes()[..], text].concat();
        assert_eq!(rows[0], (key(b"path-a item"), Some(b"v".to_vec())));
        assert_eq!(rows[1], (key(b"path-b item"), Some(Vec::new())));
    }

    #[test]
    fn what_no_view_sees_is_dropped() {
        let mut runs = Runs::default();
        for state in 1..=256 {
            let mut gathered = Gathered::default();
            gathered.add(PartitionId(1), (0, b"key", 0), Some(b"value")).unwrap();
            runs = runs.with(gathered.into_run(State(state)), State(state));
        }
        let versions: usize = runs.0.iter().map(|run| run.versions.len()).sum();
        assert!(versions < 16, "{versions} versions");
    }
}
