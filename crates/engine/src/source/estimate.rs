//! How much a scan would give: counted where it is little, estimated from the rows themselves
//! where it is much.
//!
//! Rows of one value stand in the order of item keys, which begin with a hash: how far the first
//! few have come through the key space tells how many there are. Rows of a stretch of values are
//! taken to be spread evenly between its first and its last.

use std::ops::Bound;

use bytes::Bytes;
use kv::Scan;
use model::Result;
use model::epk::Epk;

use super::entries::Lookup;
use super::{Part, Snapshot, index_rows};
use crate::api::storage;
use crate::index::key::RowKey;
use crate::keys;

/// Rows that are counted before the rest is estimated.
const PROBE_ROWS: usize = 128;
/// Rows counted at once.
const COUNT_ROWS: usize = 8_192;

impl Snapshot<'_> {
    pub(super) fn items_estimate(&self) -> u64 {
        self.parts.iter().map(|part| part.items).sum()
    }

    pub(super) async fn entries_estimate(&self, lookup: &Lookup) -> Result<u64> {
        let mut sum = 0;
        for part in &self.parts {
            sum += self.part_estimate(part, lookup).await?;
        }
        Ok(sum)
    }

    async fn part_estimate(&self, part: &Part, lookup: &Lookup) -> Result<u64> {
        self.rows_estimate(part, lookup.rows(part, None), lookup.is_exact()).await
    }

    /// About how many rows lie between bounds; those of one value are in the order of items.
    pub(super) async fn rows_estimate(
        &self,
        part: &Part,
        bounds: (Bound<Bytes>, Bound<Bytes>),
        one_value: bool,
    ) -> Result<u64> {
        let (probe, complete) = rows(part, &bounds, PROBE_ROWS, false).await?;
        let (Some(first), Some(last), true) =
            (probe.first(), probe.last(), probe.len() == PROBE_ROWS)
        else {
            let count = probe.len() as u64;
            if complete {
                self.keep(part, &bounds, probe);
            }
            return Ok(count);
        };
        let share = if one_value {
            let place = |key: &Bytes| {
                let row = RowKey::read(key).ok_or_else(|| keys::corrupt("an index row"))?;
                Ok::<_, model::Error>(place(&key[row.item_at..]))
            };
            let begin = place_of(&part.span.keys.min, 0.0);
            let end = place_of(&part.span.keys.max, (1_u64 << 62) as f64);
            (place(last)? - begin) / (end - begin)
        } else {
            let Some(end) = rows(part, &bounds, 1, true).await?.0.pop() else { return Ok(0) };
            let common = first.iter().zip(end.iter()).take_while(|(a, b)| a == b).count();
            let at = |key: &Bytes| place(key.get(common..).unwrap_or_default());
            (at(last) - at(first)) / (at(&end) - at(first))
        };
        let estimate = PROBE_ROWS as f64 / share.clamp(1e-9, 1.0);
        Ok((estimate as u64).clamp(PROBE_ROWS as u64, part.items_held.max(PROBE_ROWS as u64)))
    }

    /// How many entries there are, where rows can be counted as they stand.
    pub(super) async fn entries_count(&self, lookup: &Lookup) -> Result<Option<u64>> {
        let scoped = self.parts.iter().all(|part| part.whole) || lookup.is_exact();
        let settled = self.parts.iter().all(|part| self.all_alive(part));
        if !settled || !scoped || !lookup.counts() {
            return Ok(None);
        }
        let mut count = 0;
        for part in &self.parts {
            let (mut from, to) = lookup.rows(part, None);
            loop {
                let scan = scan(from, to.clone(), COUNT_ROWS, false);
                let chunk = part.view.scan(scan).await.map_err(storage)?;
                count += chunk.rows.len() as u64;
                match chunk.resume {
                    Some(resume) => from = Bound::Excluded(resume),
                    None => break,
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(Some(count))
    }
}

impl Part {
    /// About how many items are in a part that is not a whole partition: counted where they are
    /// few. Where they are many, half of the partition: an index is then worth a look.
    pub(super) async fn probe_items(&mut self) -> Result<()> {
        if self.whole {
            return Ok(());
        }
        let from = Bound::Included(Bytes::copy_from_slice(self.span.keys.min.significant()));
        let probe = Scan { keys_only: true, ..self.span.scan(from, PROBE_ROWS) };
        let found = self.view.scan(probe).await.map_err(storage)?;
        self.items = match found.resume {
            None => found.rows.len() as u64,
            Some(_) => (self.items_held / 2).max(PROBE_ROWS as u64),
        };
        Ok(())
    }
}

/// The first rows between bounds, and whether they are all.
async fn rows(
    part: &Part,
    bounds: &(Bound<Bytes>, Bound<Bytes>),
    rows: usize,
    reverse: bool,
) -> Result<(Vec<Bytes>, bool)> {
    let scan = scan(bounds.0.clone(), bounds.1.clone(), rows, reverse);
    let chunk = part.view.scan(scan).await.map_err(storage)?;
    Ok((chunk.rows.into_iter().map(|(key, _)| key).collect(), chunk.resume.is_none()))
}

fn scan(from: Bound<Bytes>, to: Bound<Bytes>, rows: usize, reverse: bool) -> Scan {
    Scan { reverse, ..index_rows(from, to, rows) }
}

/// The first eight bytes as a number.
fn place(bytes: &[u8]) -> f64 {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first) as f64
}

fn place_of(epk: &Epk, end: f64) -> f64 {
    if *epk == Epk::max() { end } else { place(epk.significant()) }
}
