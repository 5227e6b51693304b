//! Cuts off history that is too old or too large.
//!
//! The floor moves first, durably; then what is below it may go. A reader below the floor is
//! refused, so nobody ever reads a log with a hole in it.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Keyspace, Scan, View};
use model::Result;

use super::{BATCH_ITEMS, BATCHES, Chores};
use crate::Container;
use crate::api::storage;
use crate::changes::stream::{Kind, before, first_after, newest_ts};
use crate::commit::Place;
use crate::history::Floor;
use crate::keys::{self, Slot};
use crate::partition::Partition;
use crate::version::Version;

const MINUTE_MS: u64 = 60_000;
/// Blocks of the log that are looked at in a round.
const ROUND_BLOCKS: usize = 1_000;

/// Blocks of the log below a new floor, and what they hold.
#[derive(Default)]
struct Cut {
    keys: Vec<Bytes>,
    bytes: u64,
}

impl Container {
    /// Cuts the log to what the policy keeps; true when there is more to cut.
    pub(super) async fn trim_log(
        &self,
        partition: &Arc<Partition>,
        chores: &mut Chores,
    ) -> Result<bool> {
        let (head, history) = (partition.head(), partition.history());
        if head.log_bytes == 0 && (!history.logs || chores.trimmed >= history.log.lsn) {
            return Ok(false);
        }
        let (complete, view) = partition.view();
        let floor = match history.logs {
            true => self.log_floor(partition, &*view, history.log, complete).await?,
            false => Floor { lsn: complete, ts_ms: history.log.ts_ms },
        };
        if floor.lsn <= chores.trimmed {
            return Ok(false);
        }
        let (cut, more) = blocks_below(&*view, floor.lsn).await?;
        let floor = partition
            .commit(self.env.now_ms(), &[], |draft| {
                let mut floor = floor;
                draft.head.log_bytes = draft.head.log_bytes.saturating_sub(cut.bytes);
                if !draft.history.logs {
                    // Nothing is added any more, so all of it goes.
                    floor = Floor { lsn: draft.lsn, ts_ms: draft.head.ts_ms };
                    let rest = std::mem::take(&mut draft.head.log_block_bytes);
                    draft.head.log_bytes = draft.head.log_bytes.saturating_sub(rest);
                }
                if floor.lsn > draft.history.log.lsn {
                    draft.history.log = floor;
                }
                for key in &cut.keys {
                    // Sizes that were copied have been put many times.
                    draft.delete(Keyspace::Index, key.clone());
                }
                Ok(floor)
            })
            .await?;
        partition.owner.trim(Keyspace::Log, keys::feed_start(floor.lsn + 1)).map_err(storage)?;
        if !more {
            chores.trimmed = floor.lsn;
        }
        Ok(more)
    }

    /// From where on the log is to be kept.
    async fn log_floor(
        &self,
        partition: &Arc<Partition>,
        view: &dyn View,
        floor: Floor,
        complete: u64,
    ) -> Result<Floor> {
        let policy = self.definition().change_feed;
        let age_ms = u64::from(policy.retention_minutes) * MINUTE_MS;
        let oldest_ms = self.env.now_ms().saturating_sub(age_ms);
        let mut lsn = floor.lsn;
        let first = first_after(view, Kind::Logged, floor.lsn, complete).await?;
        if let Some(first) = first
            && Kind::Logged.ts_ms(&first.stored)? < oldest_ms
        {
            let kinds = &[Kind::Logged];
            lsn = before(view, kinds, floor.lsn, complete, partition.seam, oldest_ms).await?;
        }
        if let Some(most) = policy.retention_bytes {
            let share = most / self.partitions().len() as u64;
            let excess = partition.head().log_bytes.saturating_sub(share);
            lsn = lsn.max(below_bytes(view, excess).await?);
        }
        if lsn == floor.lsn {
            return Ok(floor);
        }
        let newest = newest_ts(view, Kind::Logged, floor.lsn, lsn, partition.seam).await?;
        Ok(Floor { lsn, ts_ms: floor.ts_ms.max(newest.unwrap_or(0)) })
    }

    /// Forgets deletes that are older than the policy remembers; true when there are more.
    pub(super) async fn forget_deletes(
        &self,
        partition: &Arc<Partition>,
        chores: &mut Chores,
    ) -> Result<bool> {
        for _ in 0..BATCHES {
            let (_, view) = partition.view();
            let minutes = u64::from(self.definition().change_feed.tombstone_minutes);
            let oldest_ms = match minutes {
                0 => u64::MAX,
                minutes => self.env.now_ms().saturating_sub(minutes * MINUTE_MS),
            };
            let scan = Scan {
                keyspace: Keyspace::Index,
                from: Bound::Included(chores.tombstones.clone().max(keys::TOMBSTONES.0)),
                to: Bound::Excluded(keys::TOMBSTONES.1),
                reverse: false,
                rows: BATCH_ITEMS,
                bytes: usize::MAX,
                keys_only: false,
            };
            let chunk = view.scan(scan).await.map_err(storage)?;
            let mut old = Vec::new();
            for (key, stored) in &chunk.rows {
                let version = Version::decode(stored)?;
                if version.ts_ms >= oldest_ms {
                    break;
                }
                old.push((key.clone(), version));
            }
            let Some((last, _)) = old.last() else { return Ok(false) };
            self.forget(partition, &old).await?;
            chores.tombstones = last.clone();
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    async fn forget(&self, partition: &Arc<Partition>, old: &[(Bytes, Version)]) -> Result<()> {
        let mut places: Vec<Place> = Vec::with_capacity(2 * old.len());
        for (key, version) in old {
            places.push((Keyspace::Index, key.clone()));
            places.push((Keyspace::Docs, version.item_key.clone()));
        }
        let decided = partition.commit(self.env.now_ms(), &places, |draft| {
            for (key, version) in old {
                let lsn = keys::lsn_of(&key[1..])?;
                if lsn > draft.history.deletes.lsn {
                    // Where partitions were merged, times go back and forth: of what lies below,
                    // deleted or not, nothing is newer than the seam.
                    let seam = partition.seam.filter(|seam| lsn <= seam.lsn);
                    let ts_ms = seam.map_or(version.ts_ms, |seam| seam.ts_ms);
                    draft.history.deletes = Floor { lsn, ts_ms };
                }
                let slot = draft.get(&(Keyspace::Docs, version.item_key.clone()))?;
                let slot = slot.as_ref().map(Slot::decode).transpose()?;
                // Whoever brought the item back has removed what the delete left.
                if let Some(Slot::Deleted(etag)) = slot
                    && keys::tombstone_key(etag) == *key
                {
                    draft.delete_once(Keyspace::Index, key.clone());
                    draft.delete(Keyspace::Docs, version.item_key.clone());
                }
            }
            Ok(())
        });
        decided.await
    }
}

/// The end of the oldest blocks of the log that hold so many bytes, or more.
async fn below_bytes(view: &dyn View, mut excess: u64) -> Result<u64> {
    let mut lsn = 0;
    if excess == 0 {
        return Ok(lsn);
    }
    for (key, size) in log_blocks(view).await?.0 {
        lsn = keys::block_span(&key)?.1;
        excess = excess.saturating_sub(keys::decode_size(&size)?);
        if excess == 0 {
            break;
        }
    }
    Ok(lsn)
}

/// The blocks of the log that are wholly below a floor, and whether there are more.
async fn blocks_below(view: &dyn View, floor: u64) -> Result<(Cut, bool)> {
    let (blocks, more) = log_blocks(view).await?;
    let mut cut = Cut::default();
    for (key, size) in blocks {
        if keys::block_span(&key)?.1 > floor {
            return Ok((cut, false));
        }
        cut.bytes += keys::decode_size(&size)?;
        cut.keys.push(key);
    }
    Ok((cut, more))
}

async fn log_blocks(view: &dyn View) -> Result<(Vec<(Bytes, Bytes)>, bool)> {
    let scan = Scan {
        keyspace: Keyspace::Index,
        from: Bound::Included(keys::LOG_BLOCKS.0),
        to: Bound::Excluded(keys::LOG_BLOCKS.1),
        reverse: false,
        rows: ROUND_BLOCKS,
        bytes: usize::MAX,
        keys_only: false,
    };
    let chunk = view.scan(scan).await.map_err(storage)?;
    Ok((chunk.rows, chunk.resume.is_some()))
}
