//! How much a reader has still to read: counted from the blocks of the feed, not from its rows.

use std::ops::Bound;

use kv::{Keyspace, Scan, View};
use model::Result;
use model::token::Position;

use super::Part;
use super::position::check_covered;
use super::stream::{Kind, first_after};
use crate::Container;
use crate::api::{RangeLag, Scope, storage};
use crate::keys;
use crate::partition::head_of;

/// Rows counted at once.
const CHUNK_ROWS: usize = 1_000;

impl Container {
    /// What a reader at a position has still to read, range by range. Items past their time that
    /// are not yet purged count; a scope within a range counts as the whole range.
    pub async fn lag(&self, scope: &Scope, position: &Position) -> Result<Vec<RangeLag>> {
        self.check_alive()?;
        let spans = self.spans_of(scope)?;
        // A position that cannot be read from has nothing left to read, or everything: both wrong.
        check_covered(position, spans.iter().map(|span| &span.keys))?;
        let mut lags = Vec::new();
        for span in spans {
            let pieces = position.within(&span.keys);
            for (keys, lsn) in &pieces {
                Part::new(span.partition.clone(), keys.clone(), *lsn).check()?;
            }
            let position_lsn = pieces.iter().map(|(_, lsn)| *lsn).min().unwrap_or(0);
            let (lsn, view) = span.partition.view();
            let oldest = first_after(&*view, Kind::Live, position_lsn, lsn).await?;
            let oldest = oldest.map(|row| Kind::Live.ts_ms(&row.stored)).transpose()?;
            lags.push(RangeLag {
                range: span.partition.range.clone(),
                lsn,
                position_lsn,
                items: count_after(&*view, position_lsn).await?,
                oldest_unread_ts_ms: oldest,
                age_ms: oldest.map_or(0, |ts_ms| self.env.now_ms().saturating_sub(ts_ms)),
            });
        }
        Ok(lags)
    }
}

/// Rows of `Feed` after an LSN: those of its own block one by one, the others by their blocks, of which the
/// last is counted in the head.
async fn count_after(view: &dyn View, lsn: u64) -> Result<u64> {
    let (_, block_end) = keys::block_span(&keys::block_key(lsn))?;
    let mut items = 0;
    let mut scan = Scan {
        keyspace: Keyspace::Feed,
        from: Bound::Included(keys::feed_start(lsn + 1)),
        to: Bound::Excluded(keys::feed_start(block_end + 1)),
        reverse: false,
        rows: CHUNK_ROWS,
        bytes: usize::MAX,
        keys_only: true,
    };
    loop {
        let chunk = view.scan(scan.clone()).await.map_err(storage)?;
        items += chunk.rows.len() as u64;
        match chunk.resume {
            Some(resume) => scan.from = Bound::Excluded(resume),
            None => break,
        }
    }
    scan = Scan {
        keyspace: Keyspace::Index,
        from: Bound::Included(keys::block_key(block_end + 1)),
        to: Bound::Excluded(keys::BLOCKS_END),
        keys_only: false,
        ..scan
    };
    loop {
        let chunk = view.scan(scan.clone()).await.map_err(storage)?;
        for (_, count) in &chunk.rows {
            items += u64::from(keys::decode_count(count)?);
        }
        match chunk.resume {
            Some(resume) => scan.from = Bound::Excluded(resume),
            None => break,
        }
    }
    let head = head_of(view).await?;
    if head.lsn > block_end {
        items += u64::from(head.block_rows);
    }
    Ok(items)
}
