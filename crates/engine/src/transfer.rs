//! Copies the rows of partitions to those that will own their keys.
//!
//! Rows are read a chunk at a time, each from the newest view, while writers go on; what they touch
//! is noted ([`crate::gate`]) and copied again. Since every copy is from a view at least as new as
//! the one before, and whatever is written after a copy is noted, the rows are the same once the
//! writers stand still and the last notes have been worked off.
//!
//! What is counted (items, bytes, blocks of the feed and of the log) is counted as it is copied,
//! against what the new partition already has.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Claim, Keyspace, Op, Owner, PartitionId, Scan, Stores, View};
use model::Result;

use crate::api::storage;
use crate::cache::Cache;
use crate::catalog::PartitionRecord;
use crate::commit::Place;
use crate::cut;
use crate::gate;
use crate::history::History;
use crate::index::{self, Indexing};
use crate::keys::{self, Change, Head, Row, Seam, Slot};
use crate::partition::Partition;
use crate::pieces::Piece;
use crate::version::Version;

/// Most rows of one batch.
const BATCH_ROWS: usize = 1_000;
/// A batch ends once it has this many bytes.
const BATCH_BYTES: usize = 1 << 20;
/// Notes that may pile up before they are worked off in between.
const TOUCHED_MAX: usize = 200_000;

/// Partitions in the making.
pub(crate) struct Transfer {
    children: Vec<Child>,
}

/// One that is being filled.
struct Child {
    record: PartitionRecord,
    owner: Arc<dyn Owner>,
    head: Head,
}

/// A row to be: what a place holds.
type Copy = (Place, Option<Bytes>);

impl Transfer {
    /// Opens new partitions.
    pub async fn open(stores: &dyn Stores, records: Vec<PartitionRecord>) -> Result<Self> {
        let mut children = Vec::with_capacity(records.len());
        for record in records {
            let id = PartitionId(u64::from(record.number));
            let owner = stores.open_owner(id, Claim::Take).await.map_err(storage)?;
            children.push(Child { record, owner, head: Head::default() });
        }
        Ok(Self { children })
    }

    /// Copies all rows of some partitions, while their writers go on.
    pub async fn copy(&mut self, parents: &[Arc<Partition>]) -> Result<()> {
        // From here on, views have all that was written before notes were taken.
        self.catch_up(parents).await?;
        for parent in parents {
            self.copy_one(parent, parents).await?;
        }
        Ok(())
    }

    async fn copy_one(&mut self, from: &Partition, all: &[Arc<Partition>]) -> Result<()> {
        // What is newer than this is noted, so the copy need not run after the writers.
        let tail = Bound::Excluded(keys::feed_start(from.head().lsn + 1));
        let logged = Bound::Included(keys::feed_start(from.history().log.lsn + 1));
        let run = |from, to| (Bound::Included(from), Bound::Excluded(to));
        for (keyspace, run) in [
            (Keyspace::Feed, (Bound::Unbounded, tail.clone())),
            (Keyspace::Log, (logged, tail)),
            (Keyspace::Index, run(keys::TOMBSTONES.0, keys::TOMBSTONES.1)),
            (Keyspace::Terms, (Bound::Unbounded, Bound::Unbounded)),
            // Expiries and unique keys lie beside each other.
            (Keyspace::Index, run(keys::EXPIRIES, keys::LOG_BLOCKS.0)),
            (Keyspace::Index, run(keys::DOOMED.0, keys::DOOMED.1)),
            (Keyspace::Docs, (Bound::Unbounded, Bound::Unbounded)),
        ] {
            self.copy_run(from, all, keyspace, run).await?;
        }
        Ok(())
    }

    async fn copy_run(
        &mut self,
        partition: &Partition,
        all: &[Arc<Partition>],
        keyspace: Keyspace,
        (mut from, to): (Bound<Bytes>, Bound<Bytes>),
    ) -> Result<()> {
        loop {
            let scan = Scan {
                keyspace,
                from,
                to: to.clone(),
                reverse: false,
                rows: BATCH_ROWS,
                bytes: BATCH_BYTES,
                keys_only: false,
            };
            let chunk = partition.owner.published().scan(scan).await.map_err(storage)?;
            let rows = chunk.rows.into_iter();
            self.write(rows.map(|(key, value)| ((keyspace, key), Some(value))).collect()).await?;
            if all.iter().any(|one| one.touched() > TOUCHED_MAX) {
                self.catch_up(all).await?;
            }
            match chunk.resume {
                Some(resume) => from = Bound::Excluded(resume),
                None => return Ok(()),
            }
        }
    }

    /// Copies again what was touched.
    pub async fn catch_up(&mut self, parents: &[Arc<Partition>]) -> Result<()> {
        for parent in parents {
            self.catch_up_one(parent).await?;
        }
        Ok(())
    }

    async fn catch_up_one(&mut self, from: &Partition) -> Result<()> {
        let (touched, view) = from.take_touched().await?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for place in touched {
            let value = view.get(place.0, &place.1).await.map_err(storage)?;
            bytes += place.1.len() + value.as_ref().map_or(0, Bytes::len);
            rows.push((place, value));
            if rows.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
                self.write(std::mem::take(&mut rows)).await?;
                bytes = 0;
            }
        }
        self.write(rows).await
    }

    /// Writes rows to the partitions they belong to, all at once.
    async fn write(&mut self, rows: Vec<Copy>) -> Result<()> {
        let mut shares: Vec<Vec<Copy>> = self.children.iter().map(|_| Vec::new()).collect();
        for (place, value) in rows {
            let Some(value) = value else {
                // A key alone does not say whose it was: it goes wherever it is.
                shares.iter_mut().for_each(|share| share.push((place.clone(), None)));
                continue;
            };
            let item_key = item_key(&place, &value)?;
            let holds = |child: &Child| cut::holds(&child.record.span, &item_key);
            let child = self.children.iter().position(holds);
            let child = child.ok_or_else(|| keys::corrupt("a row outside of its partition"))?;
            shares[child].push((place, Some(value)));
        }
        let mut tickets = Vec::new();
        for (child, share) in self.children.iter_mut().zip(shares) {
            let batch = child.batch(share).await?;
            if !batch.is_empty() {
                tickets.push(gate::submit(&*child.owner, batch).await?);
            }
        }
        for ticket in tickets {
            ticket.durable().await.map_err(storage)?;
        }
        Ok(())
    }

    /// Writes the heads, and opens the partitions. The writers of those they came from stand still.
    pub async fn finish(
        self,
        parents: &[Arc<Partition>],
        cache: &Arc<Cache>,
    ) -> Result<Vec<Arc<Partition>>> {
        let heads = || parents.iter().map(|parent| parent.head());
        let lsn = heads().map(|head| head.lsn).max().unwrap_or(0);
        let ts_ms = heads().map(|head| head.ts_ms).max().unwrap_or(0);
        let seam = match parents {
            [parent] => parent.seam,
            _ => Some(Seam { lsn, ts_ms }),
        };
        let histories = parents.iter().map(|parent| parent.history());
        let history = histories.reduce(History::joined).unwrap_or_default();
        let pieces =
            |parent: &Arc<Partition>| Piece::of(&parent.span, &parent.pieces, &parent.history());
        let pieces: Vec<Piece> = parents.iter().flat_map(pieces).collect();
        let indexings = parents.iter().map(|parent| parent.writer().indexing().clone());
        let indexing = indexings.reduce(|all, one| all.joined(&one));
        let indexing = indexing.unwrap_or_else(Indexing::unknown).joined_anew().encode();
        let mut tickets = Vec::new();
        for child in &self.children {
            // Rids say in which partition an item was made, so its own numbers begin anew.
            let mut head = Head { lsn, ts_ms, ordinal: 0, ..child.head };
            let pieces = Piece::within(&pieces, &child.record.span);
            let history = history.over(&pieces).encode();
            let mut batch = vec![Op::Put(Keyspace::Meta, keys::HISTORY, history)];
            batch.push(Op::Put(Keyspace::Meta, keys::INDEXING, indexing.clone()));
            // The block of the newest commit is counted in the head until it is past.
            let view = child.owner.published();
            let (rows, bytes) = (keys::block_key(lsn), keys::log_block_key(lsn));
            head.block_rows = block(&*view, &rows).await?;
            head.log_block_bytes = log_block(&*view, &bytes).await?;
            batch.extend([rows, bytes].map(|key| Op::Delete(Keyspace::Index, key)));
            batch.push(Op::Put(Keyspace::Meta, keys::HEAD, head.encode()));
            if pieces.len() > 1 {
                batch.push(Op::Put(Keyspace::Meta, keys::PIECES, Piece::encode(&pieces)));
            }
            batch.extend(seam.map(|seam| Op::Put(Keyspace::Meta, keys::SEAM, seam.encode())));
            tickets.push(gate::submit(&*child.owner, batch).await?);
        }
        for ticket in tickets {
            ticket.durable().await.map_err(storage)?;
        }
        let mut partitions = Vec::with_capacity(self.children.len());
        for Child { record, owner, .. } in self.children {
            let PartitionRecord { number, range, span, parents } = record;
            let range = Arc::from(range);
            partitions
                .push(Partition::over(owner, cache.clone(), number, range, span, parents).await?);
        }
        Ok(partitions)
    }
}

impl Child {
    /// What makes the rows so, and the counts true.
    async fn batch(&mut self, rows: Vec<Copy>) -> Result<Vec<Op>> {
        let view = self.owner.published();
        let mut batch = Vec::with_capacity(rows.len());
        let mut blocks: BTreeMap<Bytes, i32> = BTreeMap::new();
        let mut log_blocks: BTreeMap<Bytes, i64> = BTreeMap::new();
        for ((keyspace, key), new) in rows {
            let old = view.get(keyspace, &key).await.map_err(storage)?;
            if old == new {
                // Also keeps rows of the feed put only once, which is how they are removed.
                continue;
            }
            match keyspace {
                Keyspace::Docs => self.count(old.as_ref(), new.as_ref())?,
                Keyspace::Feed => {
                    let change = i32::from(new.is_some()) - i32::from(old.is_some());
                    *blocks.entry(keys::block_key(keys::lsn_of(&key)?)).or_default() += change;
                }
                Keyspace::Log => {
                    let change = logged(&key, new.as_ref()) - logged(&key, old.as_ref());
                    *log_blocks.entry(keys::log_block_key(keys::lsn_of(&key)?)).or_default() +=
                        change;
                }
                Keyspace::Index | Keyspace::Terms | Keyspace::Meta => {}
            }
            batch.push(match new {
                Some(value) => Op::Put(keyspace, key, value),
                None => Op::Delete(keyspace, key),
            });
        }
        for (key, change) in blocks {
            batch.push(count_block(&*view, key, change).await?);
        }
        for (key, change) in log_blocks {
            self.head.log_bytes = self.head.log_bytes.saturating_add_signed(change);
            batch.push(count_log_block(&*view, key, change).await?);
        }
        Ok(batch)
    }

    fn count(&mut self, old: Option<&Bytes>, new: Option<&Bytes>) -> Result<()> {
        if let Some(Row { body_bytes, .. }) = Slot::item(old)? {
            self.head.items -= 1;
            self.head.bytes -= u64::from(body_bytes);
        }
        if let Some(Row { body_bytes, .. }) = Slot::item(new)? {
            self.head.items += 1;
            self.head.bytes += u64::from(body_bytes);
        }
        Ok(())
    }
}

async fn block(view: &dyn View, key: &Bytes) -> Result<u32> {
    let stored = view.get(Keyspace::Index, key).await.map_err(storage)?;
    Ok(stored.map(|stored| keys::decode_count(&stored)).transpose()?.unwrap_or(0))
}

async fn count_block(view: &dyn View, key: Bytes, change: i32) -> Result<Op> {
    Ok(match block(view, &key).await?.saturating_add_signed(change) {
        0 => Op::Delete(Keyspace::Index, key),
        count => Op::Put(Keyspace::Index, key, keys::encode_count(count)),
    })
}

/// What a row of the log counts for in its block.
fn logged(key: &Bytes, value: Option<&Bytes>) -> i64 {
    value.map_or(0, |value| (key.len() + value.len()) as i64)
}

async fn log_block(view: &dyn View, key: &Bytes) -> Result<u64> {
    let stored = view.get(Keyspace::Index, key).await.map_err(storage)?;
    Ok(stored.map(|stored| keys::decode_size(&stored)).transpose()?.unwrap_or(0))
}

async fn count_log_block(view: &dyn View, key: Bytes, change: i64) -> Result<Op> {
    Ok(match log_block(view, &key).await?.saturating_add_signed(change) {
        0 => Op::Delete(Keyspace::Index, key),
        size => Op::Put(Keyspace::Index, key, keys::encode_size(size)),
    })
}

/// The item that a row belongs to.
fn item_key((keyspace, key): &Place, value: &Bytes) -> Result<Bytes> {
    match (keyspace, key.first()) {
        (Keyspace::Docs, _) => Ok(key.clone()),
        (Keyspace::Feed, _) => Ok(Change::decode(value)?.item_key),
        (Keyspace::Log, _) | (Keyspace::Index, Some(b'd')) => Ok(Version::decode(value)?.item_key),
        (Keyspace::Index, Some(b't')) => keys::expiring_item(key),
        (Keyspace::Index, Some(b'u')) => Ok(value.clone()),
        (Keyspace::Index, Some(b'x')) => Ok(keys::doomed_prefix(key)),
        (Keyspace::Terms, _) => index::item_of(key).ok_or_else(|| keys::corrupt("an index row")),
        // A row that nobody has said how to copy must not be lost in silence.
        (Keyspace::Index | Keyspace::Meta, _) => Err(keys::corrupt("a row to copy")),
    }
}
