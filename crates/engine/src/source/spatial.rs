//! Entries of spatial indexes: items whose geometries may touch a box.

use std::ops::Bound;

use bytes::Bytes;
use kv::Scan;
use model::Result;
use query::source::{Bounds, Chunk, Entry, IndexPath};

use super::{Part, Snapshot, index_rows, steps};
use crate::api::storage;
use crate::index::geo::{Area, Frame};
use crate::index::key::{self, PathId, RowKey};
use crate::keys;

/// Rows read at once.
const CHUNK_ROWS: usize = 1_024;

impl Snapshot<'_> {
    /// What a spatial index cuts into cells, where one covers the path in all views.
    pub(super) fn spatial_frame(&self, path: &IndexPath) -> Option<Frame> {
        let steps = steps(path);
        let index = self.definition.index_rules.spatial_at(&steps)?;
        let frame = Frame::of(index);
        let same = |other: &model::policy::SpatialIndex| Frame::of(other) == frame;
        self.all_rules(|rules| rules.spatial_at(&steps).is_some_and(same)).then_some(frame)
    }

    /// About how many entries a box has: counted where they are few.
    pub(super) async fn places_estimate(&self, path: &IndexPath, bounds: &Bounds) -> Result<u64> {
        const FEW: usize = 200;
        let found = self.places(path, bounds, None, FEW).await?;
        if !found.more {
            return Ok(found.rows.len() as u64);
        }
        // How far the first of them have come through the cells of the box.
        let Some(frame) = self.spatial_frame(path) else { return Ok(0) };
        let Bounds { west, south, east, north } = *bounds;
        let stretches = frame.search(Area { west, south, east, north });
        let last = found.rows.last().and_then(|entry| entry.value.first_chunk().copied());
        let last = u64::from_be_bytes(last.unwrap_or_default());
        let size = |(from, to): &(u64, u64)| (to - from + 1) as f64;
        let whole: f64 = stretches.iter().map(size).sum();
        let passed: f64 = stretches
            .iter()
            .filter(|(from, _)| *from <= last)
            .map(|(from, to)| size(&(*from, (*to).min(last))))
            .sum();
        Ok((FEW as f64 * whole / passed.max(1.0)) as u64)
    }

    /// Entries in the order of cells, each item once.
    pub(super) async fn places(
        &self,
        path: &IndexPath,
        bounds: &Bounds,
        after: Option<&Entry>,
        limit: usize,
    ) -> Result<Chunk<Entry>> {
        let Some(frame) = self.spatial_frame(path) else {
            return Ok(Chunk { rows: Vec::new(), more: false });
        };
        let Bounds { west, south, east, north } = *bounds;
        let stretches = frame.search(Area { west, south, east, north });
        let mut head = Vec::new();
        key::put_head(key::SPATIAL, PathId::of(&steps(path)), &mut head);
        let mut chunks = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            chunks.push(self.part_places(part, &head, &stretches, after, limit).await?);
        }
        Ok(query::source::merge(chunks, limit, |a, b| a < b))
    }

    async fn part_places(
        &self,
        part: &Part,
        head: &[u8],
        stretches: &[(u64, u64)],
        after: Option<&Entry>,
        limit: usize,
    ) -> Result<Chunk<Entry>> {
        let mut rows = Vec::new();
        for (first, last) in stretches {
            let to = [head, &last.to_be_bytes()].concat();
            let (_, to) = key::beginning(to);
            let mut from = Bound::Included(Bytes::from([head, &first.to_be_bytes()].concat()));
            if let Some(after) = after {
                let passed = Bytes::from([head, &after.value, &after.item].concat());
                if matches!(&from, Bound::Included(from) if *from <= passed) {
                    from = Bound::Excluded(passed);
                }
            }
            loop {
                let scan = Scan {
                    keys_only: false,
                    ..index_rows(from, to.clone(), (limit - rows.len()).clamp(1, CHUNK_ROWS))
                };
                let chunk = part.view.scan(scan).await.map_err(storage)?;
                let mut found = Vec::with_capacity(chunk.rows.len());
                for (row_key, cells) in &chunk.rows {
                    let entry = entry(row_key)?;
                    if part.holds(&entry.item) && comes_first(&entry, cells, stretches) {
                        found.push(entry);
                    }
                }
                rows.extend(self.alive(part, found).await?);
                if rows.len() >= limit {
                    return Ok(Chunk { rows, more: true });
                }
                match chunk.resume {
                    Some(resume) => from = Bound::Excluded(resume),
                    None => break,
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(Chunk { rows, more: false })
    }
}

fn entry(row_key: &Bytes) -> Result<Entry> {
    let row = RowKey::read(row_key).ok_or_else(|| keys::corrupt("an index row"))?;
    Ok(Entry {
        value: row_key.slice(row.values_at..row.item_at),
        item: row_key.slice(row.item_at..),
    })
}

/// Whether no other cell of the item that the search meets comes before this one.
fn comes_first(entry: &Entry, cells: &[u8], stretches: &[(u64, u64)]) -> bool {
    let (cells, _) = cells.as_chunks::<8>();
    let mut before = cells.iter().filter(|cell| cell[..] < entry.value[..]);
    !before.any(|cell| {
        let cell = u64::from_be_bytes(*cell);
        let at = stretches.partition_point(|(_, last)| *last < cell);
        stretches.get(at).is_some_and(|(first, _)| *first <= cell)
    })
}
