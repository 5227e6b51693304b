//! How many entries each value of an index has: counted as rows stand, by all cores that have nothing
//! else to do.
//!
//! The rows are cut into pieces by their keys. Whoever asks counts piece after piece; tasks beside it
//! do the same as far as the runtime finds a thread for them, and give way to others after each
//! chunk, as every query does.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use kv::View;
use model::Result;
use query::source::Tally;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use super::entries::Lookup;
use super::{Part, Snapshot, index_rows};
use crate::api::storage;
use crate::index::key::RowKey;
use crate::keys;

/// Rows read at once.
const CHUNK_ROWS: usize = 2_048;
/// Values told apart; an index with more of them is not worth it, nor one whose values have few
/// entries each.
const VALUES_MAX: usize = 4_096;
const ENTRIES_MIN: usize = 16;
/// Pieces that the rows of a part are cut into, and tasks beside the one that asks.
const PIECES: u64 = 16;
const HELPERS_MAX: usize = 3;

type Rows = (Bound<Bytes>, Bound<Bytes>);
type Counts = HashMap<Bytes, Tally, foldhash::fast::RandomState>;

impl Snapshot<'_> {
    /// The values of an index with their entries, in no order; none where rows do not tell, or where
    /// there are too many of them.
    pub(super) async fn tallies(&self, lookup: &Lookup) -> Result<Option<Vec<Tally>>> {
        let settled = self.parts.iter().all(|part| part.whole && self.all_alive(part));
        if !settled || !lookup.counts() {
            return Ok(None);
        }
        let mut all = Counts::default();
        for part in &self.parts {
            let Some(counts) = self.part_tallies(part, lookup).await? else { return Ok(None) };
            merge(&mut all, counts);
            if all.len() > VALUES_MAX {
                return Ok(None);
            }
        }
        Ok(Some(all.into_values().collect()))
    }

    async fn part_tallies(&self, part: &Part, lookup: &Lookup) -> Result<Option<Counts>> {
        let (from, to) = lookup.rows(part, None);
        let mut work = Work {
            view: part.view.clone(),
            lookup: lookup.clone(),
            pieces: Vec::new(),
            next: AtomicUsize::new(0),
        };
        let mut counts = Counts::default();
        let Some(resume) = work.chunk((from, to.clone()), &mut counts).await? else {
            return Ok(None);
        };
        let Some(resume) = resume else { return Ok(Some(counts)) };
        let entries: u64 = counts.values().map(|tally| tally.entries).sum();
        if counts.len() * ENTRIES_MIN > entries as usize {
            return Ok(None);
        }
        let last = kv::Scan { reverse: true, ..index_rows(resume.clone(), to.clone(), 1) };
        let last = part.view.scan(last).await.map_err(storage)?.rows.pop();
        work.pieces = pieces(resume, last.map(|(key, _)| key), to);
        let work = Arc::new(work);
        let helpers = Helpers::start(&work);
        let own = work.run().await?;
        for found in std::iter::once(Ok(own)).chain(helpers.finish().await) {
            match found? {
                Some(found) => merge(&mut counts, found),
                None => return Ok(None),
            }
        }
        self.container.check_alive()?;
        Ok(Some(counts))
    }
}

fn merge(all: &mut Counts, more: Counts) {
    for (value, tally) in more {
        let entries = tally.entries;
        let known = all.entry(value).or_insert(Tally { entries: 0, ..tally });
        known.entries += entries;
    }
}

/// Stretches of keys, as even as first and last tell.
fn pieces(from: Bound<Bytes>, last: Option<Bytes>, to: Bound<Bytes>) -> Vec<Rows> {
    let (Bound::Excluded(first), Some(last)) = (&from, last) else { return vec![(from, to)] };
    let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
    let (low, high) = (place(&first[common..]), place(&last[common..]));
    let mut pieces = Vec::new();
    let mut begin = from.clone();
    for step in 1..PIECES {
        let at = low + high.saturating_sub(low) / PIECES * step;
        if at > low {
            let cut = Bytes::from([&first[..common], &at.to_be_bytes()].concat());
            pieces.push((begin, Bound::Excluded(cut.clone())));
            begin = Bound::Included(cut);
        }
    }
    pieces.push((begin, to));
    pieces
}

/// The first eight bytes as a number.
fn place(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = bytes.len().min(first.len());
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first)
}

/// What is to be counted, by as many as come.
struct Work {
    view: Arc<dyn View>,
    lookup: Lookup,
    pieces: Vec<Rows>,
    next: AtomicUsize,
}

impl Work {
    /// Counts pieces until there are none; nothing where rows do not tell.
    async fn run(&self) -> Result<Option<Counts>> {
        let mut counts = Counts::default();
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let mut rows = piece.clone();
            loop {
                let Some(resume) = self.chunk(rows.clone(), &mut counts).await? else {
                    return Ok(None);
                };
                if counts.len() > VALUES_MAX {
                    return Ok(None);
                }
                tokio::task::yield_now().await;
                let Some(resume) = resume else { break };
                rows.0 = resume;
            }
        }
        Ok(Some(counts))
    }

    /// Counts the first rows: where the others begin; nothing where rows do not tell.
    async fn chunk(&self, rows: Rows, counts: &mut Counts) -> Result<Option<Option<Bound<Bytes>>>> {
        let scan = index_rows(rows.0, rows.1, CHUNK_ROWS);
        let chunk = self.view.scan(scan).await.map_err(storage)?;
        let mut rest = &chunk.rows[..];
        while let Some((key, _)) = rest.first() {
            let row = RowKey::read(key).ok_or_else(|| keys::corrupt("an index row"))?;
            if self.lookup.alike(key, &row).is_some() {
                return Ok(None);
            }
            // No value is the beginning of another.
            let same = rest.iter().take_while(|(other, _)| other.starts_with(&key[..row.item_at]));
            let entries = same.count();
            let (value, item) = (key.slice(row.values_at..row.item_at), key.slice(row.item_at..));
            counts.entry(value.clone()).or_insert(Tally { value, item, entries: 0 }).entries +=
                entries as u64;
            rest = &rest[entries..];
        }
        Ok(Some(chunk.resume.map(Bound::Excluded)))
    }
}

/// Tasks that count beside the one that asks, and end with it.
struct Helpers(Vec<JoinHandle<Result<Option<Counts>>>>);

impl Helpers {
    fn start(work: &Arc<Work>) -> Self {
        let threads = Handle::try_current()
            .ok()
            .filter(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
            .map_or(1, |handle| handle.metrics().num_workers());
        let count = (threads - 1).min(HELPERS_MAX).min(work.pieces.len() - 1);
        let helper = |_| {
            let work = work.clone();
            tokio::spawn(async move { work.run().await })
        };
        Self((0..count).map(helper).collect())
    }

    async fn finish(mut self) -> Vec<Result<Option<Counts>>> {
        let mut found = Vec::new();
        for helper in &mut self.0 {
            found.push(helper.await.unwrap_or_else(|_| Err(keys::corrupt("the rows of an index"))));
        }
        found
    }
}

/// A query that is dropped counts no further.
impl Drop for Helpers {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(bytes)
    }

    #[test]
    fn pieces_leave_nothing_out_and_nothing_twice() {
        let ends = [
            (&b"aa0"[..], &b"aa9zzzzzzzz"[..]),
            (b"aa", b"ab"),
            (b"a", b"a\0"),
            (b"", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
        ];
        for (first, last) in ends {
            let (from, to) = (Bound::Excluded(key(first)), Bound::Unbounded);
            let pieces = pieces(from.clone(), Some(key(last)), to.clone());
            assert!(pieces.len() <= PIECES as usize);
            assert_eq!(pieces[0].0, from);
            assert_eq!(pieces[pieces.len() - 1].1, to);
            for pair in pieces.windows(2) {
                let (Bound::Excluded(end), Bound::Included(begin)) = (&pair[0].1, &pair[1].0)
                else {
                    panic!("{pair:?}");
                };
                assert_eq!(end, begin);
                assert!(&end[..] > first, "{pair:?}");
            }
        }
    }
}
