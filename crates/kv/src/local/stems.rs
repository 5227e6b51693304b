//! Few rows of one stem, read only from the tables that may have some.
//!
//! The first bytes of an index row say which index it is of and which value: its *stem*. Whoever
//! looks a value up wants the rows of one stem. Layers that were flushed lately are tables of their
//! own, all over the key space, and each of them would have to be looked into. So a layer leaves
//! behind a filter of its stems when it is flushed, and tables whose filter does not know a stem are
//! passed by.
//!
//! Filters are in memory alone, and a table without one is looked into: after a restart that is every
//! table, and those that compaction makes have none. A filter never belongs to a table with other
//! rows than those it was made from: tables keep their number for as long as they live.
//!
//! The parts of fjall that know its tables are public but not documented; the version is pinned.

use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use fjall::{AbstractTree, Slice};
use foldhash::HashMap;

use super::filter::{self, Filter};
use super::recent::Value;
use super::tree::failed;
use crate::Result;

/// Partition, kind, path, and the beginning of a value: all of a number, eight bytes of a text.
const STEM_BYTES: usize = 8 + 1 + 8 + 1 + 8;
/// Who wants more rows than these would gain nothing.
pub(crate) const FEW_ROWS: usize = 256;
/// Layers whose filters are kept, the newest ones.
const FILTERS_MAX: usize = 32;

type Range = (Bound<Bytes>, Bound<Bytes>);

/// The filters of a keyspace's tables, by the number of the table.
#[derive(Default)]
pub(crate) struct Stems {
    filters: ArcSwap<HashMap<u64, Arc<Filter>>>,
}

impl Stems {
    /// Says which stems the tables have that came after the one given. Only for who flushes.
    pub(crate) fn know(&self, space: &fjall::Keyspace, after: u64, filter: Filter) {
        let filter = Arc::new(filter);
        let old = self.filters.load();
        let mut filters = HashMap::default();
        for table in space.tree.current_version().iter_tables() {
            // What compaction makes has no number of its own in the order of what came in.
            if table.global_seqno() > after {
                filters.insert(table.id(), filter.clone());
            } else if let Some(known) = old.get(&table.id()) {
                filters.insert(table.id(), known.clone());
            }
        }
        let mut tables: Vec<u64> = filters.keys().copied().collect();
        tables.sort_unstable_by(|a, b| b.cmp(a));
        tables.iter().skip(FILTERS_MAX).for_each(|table| drop(filters.remove(table)));
        self.filters.store(Arc::new(filters));
    }

    /// The tables of a keyspace as they are now, with what is known of them.
    pub(crate) fn tables(&self, space: &fjall::Keyspace) -> Tables {
        let version = space.tree.current_version();
        let filters = self.filters.load_full();
        let open = move |range: &Range, stem: u64, seqno: u64| {
            let mut tables = Vec::new();
            for run in version.iter_levels().flat_map(|level| level.iter()) {
                let Some((first, last)) = run.range_overlap_indexes(range) else { continue };
                for table in &run[first..=last] {
                    if filters.get(&table.id()).is_some_and(|filter| !filter.may_have(stem)) {
                        continue;
                    }
                    // Where rows end is seen when they do: to look for it costs as much again.
                    let from = range.0.clone().map(Slice::from);
                    let rows = table.range((from, Bound::Unbounded)).map(|row| {
                        let row = row.map_err(|error| failed(&error.into()))?;
                        let (gone, seqno) = (row.is_tombstone(), row.key.seqno);
                        let (key, value) = (row.key.user_key.into(), row.value.into());
                        Ok(TableRow { key, seqno, gone, value })
                    });
                    let visible = move |row: &Result<TableRow>| {
                        row.as_ref().map_or(true, |row| row.seqno < seqno)
                    };
                    let rows: TableRows = Box::new(rows.filter(visible));
                    tables.push(rows.peekable());
                }
            }
            tables
        };
        Tables { open: Box::new(open) }
    }
}

type TableRows = Box<dyn Iterator<Item = Result<TableRow>> + Send>;

/// Opens the tables that may have rows of a range and its stem, as a sequence number sees them.
type Open = dyn Fn(&Range, u64, u64) -> Vec<Peekable<TableRows>> + Send + Sync;

/// The tables of a keyspace at some time. Fjall's type for them has no name outside.
pub(crate) struct Tables {
    open: Box<Open>,
}

impl Tables {
    /// The rows of a range, where it has one stem, as a snapshot has them that was taken when these
    /// were the tables: what it does not see may have gone from other ones.
    pub(crate) fn rows(&self, snapshot: &fjall::Snapshot, range: &Range) -> Option<StemRows> {
        let bounds = (range.0.as_ref().map(|key| &key[..]), range.1.as_ref().map(|key| &key[..]));
        let tables = (self.open)(range, stem_of(bounds)?, snapshot.seqno());
        Some(StemRows { tables, end: range.1.clone() })
    }
}

/// The table that came in last.
pub(crate) fn newest(space: &fjall::Keyspace) -> u64 {
    let version = space.tree.current_version();
    version.iter_tables().map(|table| table.global_seqno()).max().unwrap_or(0)
}

/// The hash of the stem that all keys in a range have, if they have one.
pub(crate) fn stem_of((from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> Option<u64> {
    let (Bound::Included(from) | Bound::Excluded(from)) = from else { return None };
    let stem = from.get(..STEM_BYTES)?;
    let one = match to {
        Bound::Included(to) => to.starts_with(stem),
        Bound::Excluded(to) => to.starts_with(stem) || is_next(stem, to),
        Bound::Unbounded => false,
    };
    one.then(|| filter::hash(stem))
}

/// Whether a key is the first one behind all that begin with a stem.
fn is_next(stem: &[u8], key: &[u8]) -> bool {
    let kept = stem.iter().rposition(|byte| *byte != u8::MAX).map_or(0, |last| last + 1);
    let Some((last, before)) = stem[..kept].split_last() else { return false };
    key.len() == kept && key.starts_with(before) && key[kept - 1] == last + 1
}

/// Stems, as they are come by.
#[derive(Default)]
pub(crate) struct Gathered {
    last: Option<[u8; STEM_BYTES]>,
    hashes: Vec<u64>,
}

impl Gathered {
    /// Takes the stem of the next key, in the order of keys.
    pub(crate) fn add(&mut self, key: &[u8]) {
        // A shorter key is in no range that has a stem.
        let Some(stem) = key.first_chunk() else { return };
        if self.last.as_ref() != Some(stem) {
            self.hashes.push(filter::hash(stem));
            self.last = Some(*stem);
        }
    }

    pub(crate) fn filter(self) -> Filter {
        let filter = Filter::new(self.hashes.len());
        self.hashes.iter().for_each(|hash| filter.add(*hash));
        filter
    }
}

/// A version of a row, as a table has it.
struct TableRow {
    key: Bytes,
    seqno: u64,
    gone: bool,
    value: Bytes,
}

/// The rows of a few tables in one order.
pub(crate) struct StemRows {
    tables: Vec<Peekable<TableRows>>,
    end: Bound<Bytes>,
}

impl StemRows {
    /// The next row; of one that was removed, that it is gone.
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, Value)>> {
        let mut first: Option<(usize, &TableRow)> = None;
        for (n, table) in self.tables.iter_mut().enumerate() {
            match table.peek() {
                None => {}
                Some(Ok(row)) => {
                    let newer = |best: &TableRow| {
                        row.key < best.key || (row.key == best.key && row.seqno > best.seqno)
                    };
                    if first.is_none_or(|(_, best)| newer(best)) {
                        first = Some((n, row));
                    }
                }
                Some(Err(error)) => return Err(error.clone()),
            }
        }
        let Some((n, _)) = first else { return Ok(None) };
        let Some(row) = self.tables[n].next().transpose()? else { return Ok(None) };
        let over = match &self.end {
            Bound::Included(end) => row.key > *end,
            Bound::Excluded(end) => row.key >= *end,
            Bound::Unbounded => false,
        };
        if over {
            self.tables.clear();
            return Ok(None);
        }
        // The newest version says what the row is; the others are passed over.
        for table in &mut self.tables {
            while table
                .next_if(|other| other.as_ref().is_ok_and(|other| other.key == row.key))
                .is_some()
            {}
        }
        Ok(Some((row.key, if row.gone { Value::Gone } else { Value::Put(row.value) })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_stem_where_all_its_keys_begin_with_it() {
        let stem = [7_u8; STEM_BYTES];
        let mut next = stem;
        next[STEM_BYTES - 1] += 1;
        let longer = [&stem[..], b"x"].concat();
        let has = |from: Bound<&[u8]>, to: Bound<&[u8]>| stem_of((from, to)).is_some();
        assert!(has(Bound::Included(&stem), Bound::Excluded(&next)));
        assert!(has(Bound::Excluded(&longer), Bound::Excluded(&next)));
        assert!(has(Bound::Included(&stem), Bound::Excluded(&longer)));
        assert!(has(Bound::Included(&longer), Bound::Included(&longer)));
        assert!(!has(Bound::Included(&stem), Bound::Included(&next)));
        assert!(!has(Bound::Included(&stem), Bound::Unbounded));
        assert!(!has(Bound::Included(&stem[1..]), Bound::Excluded(&next)));
        let beyond = [&next[..], b"x"].concat();
        assert!(!has(Bound::Included(&stem), Bound::Excluded(&beyond)));
    }

    #[test]
    fn what_follows_a_stem_is_found_beyond_its_highest_bytes() {
        assert!(is_next(&[1, 2], &[1, 3]));
        assert!(is_next(&[1, 255], &[2]));
        assert!(!is_next(&[1, 255], &[2, 0]));
        assert!(!is_next(&[255, 255], &[]));
        assert!(!is_next(&[1, 2], &[1, 4]));
    }
}
