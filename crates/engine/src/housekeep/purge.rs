//! Removes items whose time is over. They have been invisible since; now they are deleted.
//!
//! Items with a time to live of their own stand in `Index` in the order in which they expire.
//! The others expire in the order in which they were written, so the feed is their index. In the
//! feed of merged partitions an item may stand behind one that expires later, and waits for it.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Keyspace, Scan, View};
use model::Result;
use model::item::Item;

use super::{BATCH_BYTES, BATCH_ITEMS, BATCHES, Chores};
use crate::Container;
use crate::api::storage;
use crate::changes::stream::{Kind, Merged};
use crate::commit::Place;
use crate::item::seconds;
use crate::keys::{self, Change, Row, Slot};
use crate::partition::Partition;
use crate::remove::{Identity, remove_item};

/// An item that looks expired.
struct Candidate {
    identity: Identity,
    /// The version of it that does, as its key in `Feed`.
    version: Bytes,
}

impl Container {
    /// Purges items with a time to live of their own; true when there are more.
    pub(super) async fn purge_own(
        &self,
        partition: &Arc<Partition>,
        chores: &mut Chores,
    ) -> Result<bool> {
        if self.definition().default_ttl.is_none() {
            return Ok(false);
        }
        for _ in 0..BATCHES {
            let (_, view) = partition.view();
            let from = chores.expired.clone().max(keys::EXPIRIES);
            let scan = Scan {
                keyspace: Keyspace::Index,
                from: Bound::Included(from),
                // Items of the current second are still alive.
                to: Bound::Excluded(keys::expiry_key(self.env.now_seconds(), b"")),
                reverse: false,
                rows: BATCH_ITEMS,
                bytes: usize::MAX,
                keys_only: true,
            };
            let chunk = view.scan(scan).await.map_err(storage)?;
            let (mut candidates, mut bytes, mut last) = (Vec::new(), 0, None);
            for (key, _) in &chunk.rows {
                let item_key = keys::expiring_item(key)?;
                let stored = view.get(Keyspace::Docs, &item_key).await.map_err(storage)?;
                let row = Slot::item(stored.as_ref())?.ok_or_else(|| keys::corrupt("an expiry"))?;
                candidates.push(self.candidate(&*view, item_key, &row).await?);
                bytes += row.body_bytes as usize;
                last = Some(key);
                if bytes >= BATCH_BYTES {
                    break;
                }
            }
            let Some(last) = last else { return Ok(chunk.resume.is_some()) };
            self.purge(partition, &candidates).await?;
            // What is written from now on expires later than what was found expired.
            chores.expired = last.clone();
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// Purges items on the container's default; true when there are more.
    pub(super) async fn purge_default(
        &self,
        partition: &Arc<Partition>,
        chores: &mut Chores,
    ) -> Result<bool> {
        let default_ttl = self.definition().default_ttl;
        if chores.default_ttl != default_ttl {
            (chores.default_ttl, chores.default_lsn) = (default_ttl, 0);
        }
        let Some(default) = default_ttl.and_then(|ttl| u32::try_from(ttl).ok()) else {
            return Ok(false);
        };
        for _ in 0..BATCHES {
            let (complete, view) = partition.view();
            let now = self.env.now_seconds();
            let mut rows = Merged::new(&[Kind::Live], chores.default_lsn, complete);
            let (mut candidates, mut bytes, mut reached) = (Vec::new(), 0, chores.default_lsn);
            let mut examined = 0;
            let ended = loop {
                let Some(row) = rows.next(&*view, BATCH_ITEMS).await? else { break true };
                let full = candidates.len() >= BATCH_ITEMS
                    || bytes >= BATCH_BYTES
                    || examined >= 10 * BATCH_ITEMS;
                // Rows of one commit stay together, or the cursor would pass some of them.
                if full && row.lsn != reached {
                    break false;
                }
                let change = Change::decode(&row.stored)?;
                if now <= seconds(change.ts_ms).saturating_add(default) {
                    break true;
                }
                reached = row.lsn;
                examined += 1;
                if change.ttl == 0 {
                    bytes += change.body.len();
                    candidates.push(self.identified(change.item_key, row.place, &change.body)?);
                }
            };
            if !candidates.is_empty() {
                self.purge(partition, &candidates).await?;
            }
            chores.default_lsn = reached;
            if ended {
                return Ok(false);
            }
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// Deletes what is still expired when it is decided.
    async fn purge(&self, partition: &Arc<Partition>, candidates: &[Candidate]) -> Result<()> {
        let mut places: Vec<Place> = Vec::with_capacity(2 * candidates.len());
        for candidate in candidates {
            places.push((Keyspace::Docs, candidate.identity.item_key.clone()));
            places.push((Keyspace::Index, keys::block_key(keys::lsn_of(&candidate.version)?)));
        }
        places.sort_unstable();
        places.dedup();
        let decided = partition.commit(self.env.now_ms(), &places, |draft| {
            let now = seconds(draft.head.ts_ms);
            let default_ttl = self.definition().default_ttl;
            for Candidate { identity, version } in candidates {
                let stored = draft.get(&(Keyspace::Docs, identity.item_key.clone()))?;
                let row = Slot::item(stored.as_ref())?;
                let row =
                    row.filter(|row| row.feed_key() == *version && row.expired(default_ttl, now));
                if let Some(row) = row {
                    remove_item(draft, identity, &row, true)?;
                }
            }
            Ok(())
        });
        decided.await
    }

    async fn candidate(&self, view: &dyn View, item_key: Bytes, row: &Row) -> Result<Candidate> {
        let stored = view.get(Keyspace::Feed, &row.feed_key()).await.map_err(storage)?;
        let body = crate::item::body_of(row, &item_key, stored.as_ref())?;
        self.identified(item_key, row.feed_key(), &body)
    }

    /// An item as its own body names it.
    fn identified(&self, item_key: Bytes, version: Bytes, body: &[u8]) -> Result<Candidate> {
        let item = Item::parse(body)?;
        let key = self.definition().partition_key.extract(&item.document)?;
        let id = Bytes::copy_from_slice(item.id.as_bytes());
        Ok(Candidate { identity: Identity { item_key, id, key: key.to_header().into() }, version })
    }
}
