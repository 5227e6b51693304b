//! The nearest vectors.
//!
//! Few vectors are all looked at. Of many, a flat or quantised index looks at all too; the
//! approximate one at those on the nearest sides ([`crate::index::vector`]), until it has seen a
//! share of them.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Bound;

use bytes::Bytes;
use kv::Scan;
use model::Result;
use model::policy::VectorIndex;
use query::source::{Entry, IndexPath, PathStep};

use super::{Part, Snapshot, index_rows};
use crate::api::storage;
use crate::index::key::{self, PathId, RowKey};
use crate::index::vector::{self, Metric, PLANES};
use crate::keys;

/// Up to so many vectors are all looked at.
const FEW: u64 = 10_000;
/// One in so many is looked at otherwise, and at least this often the number asked for.
const SHARE: u64 = 8;
const OVERSAMPLE: u64 = 50;
/// Vectors of one side, about, by which the number of bits is chosen: the fewer, the better are the
/// sides chosen, and the more of them have to be read.
const SIDE_VECTORS: u64 = 4;
/// Most that are returned.
const COUNT_MAX: usize = 50_000;
/// Rows read at once.
const CHUNK_ROWS: usize = 512;

/// A vector that was looked at. The farthest is the greatest.
#[derive(Debug, PartialEq)]
struct Candidate {
    distance: f32,
    item: Bytes,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then_with(|| self.item.cmp(&other.item))
    }
}

/// A search under way.
struct Search<'a> {
    snapshot: &'a Snapshot<'a>,
    head: Vec<u8>,
    metric: Metric,
    vector: &'a [f32],
    keep: usize,
    nearest: BinaryHeap<Candidate>,
    seen: u64,
}

impl Snapshot<'_> {
    fn vector_index(&self, path: &IndexPath) -> Option<&VectorIndex> {
        let names: Option<Vec<&str>> = path
            .0
            .iter()
            .map(|step| match step {
                PathStep::Member(name) => Some(name.as_str()),
                PathStep::Elements => None,
            })
            .collect();
        let names = names?;
        let index = self.definition.index_rules.vectors.iter().find(|one| one.names == names)?;
        self.all_rules(|rules| rules.vectors.contains(index)).then_some(index)
    }

    pub(super) async fn nearest_items(
        &self,
        path: &IndexPath,
        vector: &[f64],
        count: usize,
    ) -> Result<Option<Vec<Bytes>>> {
        let Some(index) = self.vector_index(path) else { return Ok(None) };
        if vector.len() != index.dimensions {
            return Ok(None);
        }
        let vector: Vec<f32> = vector.iter().map(|number| *number as f32).collect();
        let mut head = Vec::new();
        key::put_head(key::VECTOR, PathId::of_names(&index.names), &mut head);
        let mut search = Search {
            snapshot: self,
            head,
            metric: Metric::named(&index.distance),
            vector: &vector,
            // What is kept is rounded: the caller looks closer at a few more.
            keep: count.saturating_mul(2).saturating_add(16).min(COUNT_MAX),
            nearest: BinaryHeap::new(),
            seen: 0,
        };
        for part in &self.parts {
            search.seen = 0;
            if index.kind == "diskANN" && part.whole && part.items_held > FEW {
                search.sides(part, count as u64).await?;
            } else {
                search.stretch(part, 0, u16::MAX).await?;
            }
        }
        let nearest = search.nearest.into_sorted_vec();
        Ok(Some(nearest.into_iter().map(|candidate| candidate.item).collect()))
    }
}

impl Search<'_> {
    /// Looks at the nearest sides until enough has been seen.
    async fn sides(&mut self, part: &Part, count: u64) -> Result<()> {
        let bits = (part.items_held / SIDE_VECTORS).max(2).ilog2().min(PLANES);
        let enough = (part.items_held / SHARE).max(count.saturating_mul(OVERSAMPLE));
        for side in nearest_sides(self.vector, bits) {
            let first = side << (PLANES - bits);
            let last = first | (u16::MAX.checked_shr(bits).unwrap_or(0));
            self.stretch(part, first, last).await?;
            if self.seen >= enough {
                break;
            }
        }
        Ok(())
    }

    async fn stretch(&mut self, part: &Part, first: u16, last: u16) -> Result<()> {
        let mut from =
            Bound::Included(Bytes::from([&self.head[..], &first.to_be_bytes()].concat()));
        let (_, to) = key::beginning([&self.head[..], &last.to_be_bytes()].concat());
        let mut vector = Vec::with_capacity(self.vector.len());
        loop {
            let scan = Scan { keys_only: false, ..index_rows(from, to.clone(), CHUNK_ROWS) };
            let chunk = part.view.scan(scan).await.map_err(storage)?;
            self.seen += chunk.rows.len() as u64;
            let mut candidates = Vec::new();
            for (row_key, stored) in &chunk.rows {
                let row = RowKey::read(row_key).ok_or_else(|| keys::corrupt("an index row"))?;
                let item = row_key.slice(row.item_at..);
                if !part.holds(&item) {
                    continue;
                }
                if !vector::decode(stored, &mut vector) {
                    return Err(keys::corrupt("a vector"));
                }
                let distance = self.metric.distance(self.vector, &vector);
                candidates.push(Candidate { distance, item });
            }
            self.add_all(part, candidates).await?;
            match chunk.resume {
                Some(resume) => from = Bound::Excluded(resume),
                None => return Ok(()),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Keeps those that are near enough, of items that are there.
    async fn add_all(&mut self, part: &Part, mut candidates: Vec<Candidate>) -> Result<()> {
        let full = self.nearest.len() >= self.keep;
        if let (Some(farthest), true) = (self.nearest.peek(), full) {
            candidates.retain(|candidate| candidate < farthest);
        }
        let entry = |one: &Candidate| Entry { value: Bytes::new(), item: one.item.clone() };
        let entries = candidates.iter().map(entry).collect();
        // What is left of them is in the same order.
        let mut alive = self.snapshot.alive(part, entries).await?.into_iter().peekable();
        for candidate in candidates {
            if alive.next_if(|entry| entry.item == candidate.item).is_some() {
                self.nearest.push(candidate);
            }
        }
        while self.nearest.len() > self.keep {
            self.nearest.pop();
        }
        Ok(())
    }
}

/// All sides of so many bits, those that a vector would lie on if it were a little different first.
fn nearest_sides(vector: &[f32], bits: u32) -> Vec<u16> {
    let margins = vector::margins(vector);
    let own = vector::side(vector) >> (PLANES - bits);
    let cost = |side: u16| {
        let other = side ^ own;
        let crossed = (0..bits).filter(|bit| other >> (bits - 1 - bit) & 1 == 1);
        crossed.map(|bit| margins[bit as usize].powi(2)).sum::<f32>()
    };
    let last = u16::try_from((1_u32 << bits) - 1).unwrap_or(u16::MAX);
    let mut sides: Vec<(f32, u16)> = (0..=last).map(|side| (cost(side), side)).collect();
    sides.sort_by(|a, b| a.0.total_cmp(&b.0));
    sides.into_iter().map(|(_, side)| side).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand vectors in clumps, as embeddings are: of the ten nearest, nearly all are on the
    /// sides that a search looks at.
    #[test]
    fn a_share_of_the_vectors_has_nearly_all_of_the_nearest() {
        let mut seed = 5_u64;
        let mut number = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut vector = |around: &[f32], by: f32| -> Vec<f32> {
            around.iter().map(|centre| centre + by * number()).collect()
        };
        let clumps: Vec<Vec<f32>> = (0..100).map(|_| vector(&[0.0; 48], 1.0)).collect();
        let all: Vec<Vec<f32>> = (0..10_000).map(|n| vector(&clumps[n % 100], 0.4)).collect();
        let bits = (all.len() as u64 / SIDE_VECTORS).ilog2();
        let enough = all.len() / SHARE as usize;
        let sides: Vec<u16> = all.iter().map(|one| vector::side(one) >> (PLANES - bits)).collect();
        let (mut found, mut asked) = (0, 0);
        for n in 0..20 {
            let query = vector(&clumps[n * 3], 0.4);
            let far = all.iter().map(|one| Metric::Cosine.distance(&query, one));
            let mut order: Vec<(f32, u16)> = far.zip(sides.iter().copied()).collect();
            order.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (mut looked_at, mut seen) = (std::collections::HashSet::new(), 0);
            for side in nearest_sides(&query, bits) {
                looked_at.insert(side);
                seen += sides.iter().filter(|one| **one == side).count();
                if seen >= enough {
                    break;
                }
            }
            found += order[..10].iter().filter(|(_, side)| looked_at.contains(side)).count();
            asked += 10;
        }
        assert!(found * 100 >= asked * 95, "{found} of {asked}");
    }

    #[test]
    fn the_own_side_is_the_nearest_and_every_side_comes_once() {
        let vector: Vec<f32> = (0..40).map(|n| ((n * 37 % 11) as f32) - 5.0).collect();
        for bits in [1, 5, 16] {
            let mut sides = nearest_sides(&vector, bits);
            assert_eq!(sides[0], vector::side(&vector) >> (PLANES - bits));
            sides.sort_unstable();
            sides.dedup();
            assert_eq!(sides.len(), 1 << bits);
        }
    }
}
