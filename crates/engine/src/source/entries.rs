//! Entries of range and composite indexes, partition by partition.
//!
//! Rows give entries as they stand, except those of long texts: the rows of all texts that begin
//! alike are taken together, their items are read, and the entries put in order.

use std::ops::Bound;

use bytes::Bytes;
use kv::Scan;
use model::json::{Cursor, Kind};
use model::{Error, Fault, Result};
use query::source::{Chunk, Entry, KeyRange};
use query::value::{Value, sort_key_into};

use super::bounds::Columns;
use super::{Part, Snapshot, index_rows};
use crate::api::storage;
use crate::cut;
use crate::index::key::{self, RowKey, cut_at, value_bytes};
use crate::keys;

/// Rows read at once.
const CHUNK_ROWS: usize = 4_096;
/// Most items whose texts begin alike that one scan puts in order.
const ALIKE_MAX: usize = 100_000;
/// Bytes of their sort keys.
const ALIKE_BYTES: usize = 64 << 20;

/// One step of a path to indexed values.
#[derive(Debug, Clone)]
pub(super) enum Hop {
    Member(String),
    Elements,
}

/// An index to be scanned.
#[derive(Debug, Clone)]
pub(super) struct Lookup {
    /// What its rows begin with.
    pub head: Vec<u8>,
    pub columns: Columns,
    /// Where the values of its columns are in items.
    pub paths: Vec<Vec<Hop>>,
    pub range: KeyRange,
    pub reverse: bool,
}

impl Lookup {
    /// Whether one entry stands before another.
    pub fn before(&self, a: &Entry, b: &Entry) -> bool {
        if self.reverse { b < a } else { a < b }
    }

    /// Whether it looks for one row of values that index rows can tell from all others.
    pub fn is_exact(&self) -> bool {
        self.columns.exact(&self.head, &self.range).is_some()
    }

    /// Whether the rows within its bounds are exactly its entries.
    pub fn counts(&self) -> bool {
        self.columns.is_tight(&self.range)
    }

    /// Bounds of the rows to look at, in a part and after an entry.
    pub fn rows(&self, part: &Part, after: Option<&Entry>) -> (Bound<Bytes>, Bound<Bytes>) {
        let (mut from, mut to) = self.columns.rows(&self.head, &self.range);
        if let (Some(exact), false) = (self.columns.exact(&self.head, &self.range), part.whole) {
            let min = [&exact[..], part.span.keys.min.significant()].concat();
            from = Bound::Included(min.into());
            if !part.span.is_last() {
                let max = [&exact[..], part.span.keys.max.significant()].concat();
                to = Bound::Excluded(max.into());
            }
        }
        let Some(after) = after else { return (from, to) };
        let point = KeyRange::exactly(after.value.clone());
        let bound = match self.columns.exact(&self.head, &point) {
            Some(values) => Bound::Excluded(Bytes::from([&values[..], &after.item].concat())),
            // Somewhere among texts that begin alike: they are all read again.
            None => {
                let (from, to) = self.columns.rows(&self.head, &point);
                if self.reverse { to } else { from }
            }
        };
        if self.reverse { (from, lower(to, bound)) } else { (higher(from, bound), to) }
    }

    /// Whether an entry is asked for.
    fn wants(&self, entry: &Entry, after: Option<&Entry>) -> bool {
        self.range.contains(&entry.value) && after.is_none_or(|after| self.before(after, entry))
    }

    /// Where the first value ends that was cut, if one was: what rows of texts that begin alike
    /// have in common.
    pub fn alike(&self, key: &[u8], row: &RowKey) -> Option<usize> {
        let mut at = row.values_at;
        for mask in &self.columns.masks {
            let length = match &self.columns.masks[..] {
                [_] => row.item_at - row.values_at,
                _ => value_bytes(key.get(at..)?, *mask)?,
            };
            if let Some(kept) = cut_at(&key[at..at + length], *mask) {
                return Some(at + kept);
            }
            at += length;
        }
        None
    }
}

fn higher(a: Bound<Bytes>, b: Bound<Bytes>) -> Bound<Bytes> {
    KeyRange { from: a, to: Bound::Unbounded }
        .intersect(&KeyRange { from: b, to: Bound::Unbounded })
        .from
}

fn lower(a: Bound<Bytes>, b: Bound<Bytes>) -> Bound<Bytes> {
    KeyRange { from: Bound::Unbounded, to: a }
        .intersect(&KeyRange { from: Bound::Unbounded, to: b })
        .to
}

impl Snapshot<'_> {
    /// Entries of one part after the one given, in the order of the scan: at least one where there
    /// are more.
    pub(super) async fn entries(
        &self,
        part: &Part,
        lookup: &Lookup,
        after: Option<&Entry>,
        limit: usize,
    ) -> Result<Chunk<Entry>> {
        let (mut from, mut to) = lookup.rows(part, after);
        let mut rows: Vec<Entry> = Vec::new();
        let mut known = self.kept(part, &lookup.rows(part, None));
        loop {
            let (row_keys, resume) = match known.take() {
                Some(mut kept) => {
                    if lookup.reverse {
                        kept.reverse();
                    }
                    (kept, None)
                }
                None => {
                    let most = (limit - rows.len()).clamp(1, CHUNK_ROWS);
                    let scan = Scan {
                        reverse: lookup.reverse,
                        ..index_rows(from.clone(), to.clone(), most)
                    };
                    let chunk = part.view.scan(scan).await.map_err(storage)?;
                    (chunk.rows.into_iter().map(|(key, _)| key).collect(), chunk.resume)
                }
            };
            let mut next = resume.map_or(Bound::Unbounded, Bound::Excluded);
            let mut found: Vec<Entry> = Vec::with_capacity(row_keys.len());
            for row_key in &row_keys {
                let row = RowKey::read(row_key).ok_or_else(|| keys::corrupt("an index row"))?;
                if let Some(end) = lookup.alike(row_key, &row) {
                    let run = key::beginning(row_key[..end].to_vec());
                    // A text of just the length at which others are cut stands before them, and is of the run.
                    let seen = found.last().or(rows.last()).cloned();
                    let mut alike = self.alike(part, lookup, &run).await?;
                    alike.retain(|one| seen.as_ref().is_none_or(|seen| lookup.before(seen, one)));
                    found.extend(alike);
                    // Behind the run, which may be longer than the chunk.
                    next = turned(if lookup.reverse { run.0 } else { run.1 });
                    break;
                }
                found.push(Entry {
                    value: row_key.slice(row.values_at..row.item_at),
                    item: row_key.slice(row.item_at..),
                });
            }
            found.retain(|entry| lookup.wants(entry, after) && part.holds(&entry.item));
            rows.extend(self.alive(part, found).await?);
            let ended = next == Bound::Unbounded;
            if ended || rows.len() >= limit {
                let more = !ended || rows.len() > limit;
                rows.truncate(limit);
                return Ok(Chunk { rows, more });
            }
            *(if lookup.reverse { &mut to } else { &mut from }) = next;
            tokio::task::yield_now().await;
        }
    }

    /// The entries of all texts that begin alike, in order.
    async fn alike(
        &self,
        part: &Part,
        lookup: &Lookup,
        run: &(Bound<Bytes>, Bound<Bytes>),
    ) -> Result<Vec<Entry>> {
        let (mut entries, mut bytes, mut from) = (Vec::new(), 0, run.0.clone());
        loop {
            let scan = index_rows(from, run.1.clone(), CHUNK_ROWS);
            let chunk = part.view.scan(scan).await.map_err(storage)?;
            for (key, _) in &chunk.rows {
                let row = RowKey::read(key).ok_or_else(|| keys::corrupt("an index row"))?;
                let item = key.slice(row.item_at..);
                if !part.holds(&item) {
                    continue;
                }
                let Some(body) = self.body(part, &item).await? else { continue };
                let body = part.indexing.current.with_computed(body)?;
                for value in lookup.values(&body) {
                    bytes += value.len();
                    entries.push(Entry { value: value.into(), item: item.clone() });
                }
                if entries.len() > ALIKE_MAX || bytes > ALIKE_BYTES {
                    return Err(Error::new(
                        Fault::BadRequest,
                        format!(
                            "more than {ALIKE_MAX} items have texts that begin alike, which the \
                             index cannot put in order: narrow the query down"
                        ),
                    ));
                }
            }
            match chunk.resume {
                Some(resume) => from = Bound::Excluded(resume),
                None => break,
            }
            tokio::task::yield_now().await;
        }
        let prefix = match &run.0 {
            Bound::Included(key) => key.slice(lookup.head.len()..),
            _ => Bytes::new(),
        };
        // Items have other values at the path too.
        entries.retain(|entry| entry.value.starts_with(&prefix));
        entries.sort_unstable();
        entries.dedup();
        if lookup.reverse {
            entries.reverse();
        }
        Ok(entries)
    }
}

impl Lookup {
    /// The sort keys of an item's values, columns one behind the other.
    fn values(&self, body: &[u8]) -> Vec<Vec<u8>> {
        if let ([mask], [path]) = (&self.columns.masks[..], &self.paths[..]) {
            let mut found = Vec::new();
            find(Cursor::new(body), path, &mut |raw| {
                let mut key = Vec::new();
                sort_key_into(&Value::from_raw(raw), &mut key);
                key.iter_mut().for_each(|byte| *byte ^= mask);
                found.push(key);
            });
            return found;
        }
        let mut all = Vec::new();
        for (mask, path) in self.columns.masks.iter().zip(&self.paths) {
            let mut raw = None;
            find(Cursor::new(body), path, &mut |found| raw = Some(found));
            let from = all.len();
            sort_key_into(&raw.map_or(Value::Undefined, Value::from_raw), &mut all);
            all[from..].iter_mut().for_each(|byte| *byte ^= mask);
        }
        vec![all]
    }
}

/// The values that a path leads to.
fn find<'a>(cursor: Cursor<'a>, path: &[Hop], found: &mut dyn FnMut(&'a [u8])) {
    let mut cursor = cursor;
    match (path.split_first(), cursor.kind()) {
        (None, _) => found(cursor.take()),
        (Some((Hop::Member(name), rest)), Kind::Object) => {
            // Of equal names the last one counts.
            let mut last = None;
            cursor.enter();
            while let Some(raw) = cursor.member() {
                if model::json::unescape(raw).is_some_and(|known| known == *name) {
                    last = Some(cursor.clone());
                }
                cursor.take();
            }
            if let Some(value) = last {
                find(value, rest, found);
            }
        }
        (Some((Hop::Elements, rest)), Kind::Array) => {
            cursor.enter();
            while cursor.element() {
                find(cursor.clone(), rest, found);
                cursor.take();
            }
        }
        _ => {}
    }
}

/// The bound of a run, as the bound of what lies on its other side.
fn turned(bound: Bound<Bytes>) -> Bound<Bytes> {
    match bound {
        Bound::Included(key) => Bound::Excluded(key),
        Bound::Excluded(key) => Bound::Included(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

impl Part {
    /// Whether an item is in the scope.
    pub(super) fn holds(&self, item: &[u8]) -> bool {
        self.whole || cut::holds(&self.span.keys, item)
    }
}
