//! Keys of items that a lookup finds, in the order of keys, each once.
//!
//! Entries with one value are in the order of keys already, so they are read as they are needed.
//! Those of a range are not: their keys are gathered and sorted, up to a limit.

use std::collections::HashMap;

use bytes::Bytes;
use model::Result;

use super::Metrics;
use crate::limits;
use crate::plan::Lookup;
use crate::source::{Chunk, Entry, Scan, Source};

/// What has been gathered for the lookups of one page.
#[derive(Default)]
pub(crate) struct KeyReader {
    gathered: HashMap<String, Vec<Bytes>>,
    /// Whether more keys than allowed would have to be gathered; then nothing it says counts.
    pub overflowed: bool,
}

const SCAN_ENTRIES: usize = 1_000;

impl KeyReader {
    /// The next keys after one.
    pub(crate) async fn next<S: Source>(
        &mut self,
        source: &S,
        lookup: &Lookup,
        after: Option<&Bytes>,
        limit: usize,
        metrics: &mut Metrics,
    ) -> Result<Chunk<Bytes>> {
        match lookup {
            Lookup::Scan(scan) => self.scan(source, scan, after, limit, metrics).await,
            Lookup::Any(all) => {
                let mut chunks = Vec::with_capacity(all.len());
                for lookup in all {
                    // Lookups nest no deeper than the plan allows, so neither do these futures.
                    let next = Box::pin(self.next(source, lookup, after, limit, metrics));
                    chunks.push(next.await?);
                }
                Ok(union(chunks, limit))
            }
            Lookup::All(all) => self.intersection(source, all, after, limit, metrics).await,
        }
    }

    async fn scan<S: Source>(
        &mut self,
        source: &S,
        scan: &Scan,
        after: Option<&Bytes>,
        limit: usize,
        metrics: &mut Metrics,
    ) -> Result<Chunk<Bytes>> {
        if let Some(value) = scan.single_value() {
            let after = after.map(|item| Entry { value, item: item.clone() });
            let chunk = source.scan(scan, after.as_ref(), limit).await?;
            metrics.entries += chunk.rows.len() as u64;
            let rows = chunk.rows.into_iter().map(|entry| entry.item).collect();
            return Ok(Chunk { rows, more: chunk.more });
        }
        let name = format!("{scan:?}");
        if !self.gathered.contains_key(&name) {
            let keys = gather(source, scan, metrics).await?;
            self.overflowed |= keys.is_none();
            self.gathered.insert(name.clone(), keys.unwrap_or_default());
        }
        let keys = &self.gathered[&name];
        let from = after.map_or(0, |after| keys.partition_point(|key| key <= after));
        let rows: Vec<Bytes> = keys[from..].iter().take(limit).cloned().collect();
        let more = from + rows.len() < keys.len();
        Ok(Chunk { rows, more })
    }

    /// Keys of the first lookup that all others have too.
    async fn intersection<S: Source>(
        &mut self,
        source: &S,
        all: &[Lookup],
        after: Option<&Bytes>,
        limit: usize,
        metrics: &mut Metrics,
    ) -> Result<Chunk<Bytes>> {
        let Some((first, others)) = all.split_first() else {
            return Ok(Chunk { rows: Vec::new(), more: false });
        };
        let mut after = after.cloned();
        // Long stretches without a common key are passed here, a few chunks at a time.
        for _ in 0..TURNS {
            let chunk = Box::pin(self.next(source, first, after.as_ref(), limit, metrics)).await?;
            let Some(last) = chunk.rows.last().cloned() else {
                return Ok(Chunk { rows: Vec::new(), more: false });
            };
            let mut rows = chunk.rows;
            for other in others {
                let kept = self.among(source, other, &rows, after.as_ref(), metrics);
                rows = Box::pin(kept).await?;
            }
            if !rows.is_empty() || !chunk.more {
                // The caller goes on after the last key: it must be the last one looked at.
                let more = chunk.more;
                if more && rows.last() != Some(&last) {
                    rows.push(last);
                }
                return Ok(Chunk { rows, more });
            }
            after = Some(last);
        }
        Ok(Chunk { rows: after.into_iter().collect(), more: true })
    }

    /// Those of some sorted keys that a lookup finds too.
    async fn among<S: Source>(
        &mut self,
        source: &S,
        lookup: &Lookup,
        keys: &[Bytes],
        after: Option<&Bytes>,
        metrics: &mut Metrics,
    ) -> Result<Vec<Bytes>> {
        let Some(last) = keys.last() else { return Ok(Vec::new()) };
        let mut after = after.cloned();
        let mut kept = Vec::new();
        loop {
            let chunk = self.next(source, lookup, after.as_ref(), SCAN_ENTRIES, metrics).await?;
            kept.extend(chunk.rows.iter().filter(|key| keys.binary_search(key).is_ok()).cloned());
            match chunk.rows.last() {
                Some(reached) if chunk.more && reached < last => after = Some(reached.clone()),
                _ => return Ok(kept),
            }
        }
    }
}

const TURNS: usize = 16;

/// All keys of a scan, sorted, each once; none where they are too many.
async fn gather<S: Source>(
    source: &S,
    scan: &Scan,
    metrics: &mut Metrics,
) -> Result<Option<Vec<Bytes>>> {
    let mut keys = Vec::new();
    let mut after: Option<Entry> = None;
    loop {
        let chunk = source.scan(scan, after.as_ref(), SCAN_ENTRIES).await?;
        metrics.entries += chunk.rows.len() as u64;
        after = chunk.rows.last().cloned();
        keys.extend(chunk.rows.into_iter().map(|entry| entry.item));
        if keys.len() > limits::INDEX_KEYS {
            return Ok(None);
        }
        if !chunk.more || after.is_none() {
            break;
        }
        source.breathe().await?;
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(Some(keys))
}

/// Sorted chunks as one, each key once.
fn union(chunks: Vec<Chunk<Bytes>>, limit: usize) -> Chunk<Bytes> {
    // Beyond the end of a chunk that has more, nothing is known.
    let ends = chunks.iter().filter(|chunk| chunk.more).filter_map(|chunk| chunk.rows.last());
    let end = ends.min().cloned();
    let mut more = end.is_some();
    let mut rows: Vec<Bytes> = chunks.into_iter().flat_map(|chunk| chunk.rows).collect();
    rows.sort_unstable();
    rows.dedup();
    if let Some(end) = end {
        rows.truncate(rows.partition_point(|key| *key <= end));
    }
    if rows.len() > limit {
        rows.truncate(limit);
        more = true;
    }
    Chunk { rows, more }
}
