//! Removes the items of partition keys that were deleted as a whole.
//!
//! They have been gone for everybody since; here their rows go, in small commits like any other
//! delete, and readers of all versions and of deletes are told of each. What was written after
//! the delete has a higher LSN and stays.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Keyspace, Scan, View};
use model::Result;

use super::{BATCH_BYTES, BATCH_ITEMS, BATCHES, Chores};
use crate::Container;
use crate::api::storage;
use crate::commit::Place;
use crate::doomed::Sentence;
use crate::keys::{self, Row, Slot};
use crate::partition::Partition;
use crate::remove::{Identity, remove_item};

impl Container {
    /// Carries out a part of the first delete that is under way; true when there is more to do.
    pub(super) async fn reap(
        &self,
        partition: &Arc<Partition>,
        chores: &mut Chores,
    ) -> Result<bool> {
        for _ in 0..BATCHES {
            // A view that has the sentence has every item that it is about.
            let (_, view, doomed) = partition.look().await?;
            let Some((prefix, sentence)) = doomed.first() else { return Ok(false) };
            // A key that is doomed again has items again where the search has been already.
            let (lsn, from) = &chores.reaped;
            let from = if *lsn == sentence.lsn { from.clone() } else { prefix.clone() };
            let (rows, reached) = found(&*view, prefix, sentence, from).await?;
            if !rows.is_empty() {
                self.remove_doomed(partition, prefix, sentence, &rows).await?;
            }
            match reached {
                Some(reached) => chores.reaped = (sentence.lsn, reached),
                None => partition.absolve(self.env.now_ms(), prefix, sentence).await?,
            }
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    async fn remove_doomed(
        &self,
        partition: &Arc<Partition>,
        prefix: &Bytes,
        sentence: &Sentence,
        rows: &[(Bytes, Row)],
    ) -> Result<()> {
        let mut places: Vec<Place> = Vec::with_capacity(2 * rows.len());
        for (item_key, row) in rows {
            places.push((Keyspace::Docs, item_key.clone()));
            places.push((Keyspace::Index, keys::block_key(row.etag.lsn())));
        }
        places.sort_unstable();
        places.dedup();
        let decided = partition.commit(self.env.now_ms(), &places, |draft| {
            for (item_key, _) in rows {
                let stored = draft.get(&(Keyspace::Docs, item_key.clone()))?;
                let row = Slot::item(stored.as_ref())?;
                if let Some(row) = row.filter(|row| row.etag.lsn() <= sentence.lsn) {
                    let identity = Identity {
                        item_key: item_key.clone(),
                        id: item_key.slice(prefix.len()..),
                        key: sentence.key.clone(),
                    };
                    remove_item(draft, &identity, &row, false)?;
                }
            }
            Ok(())
        });
        decided.await
    }
}

/// Some items of a doomed key, and how far was looked; `None` at the end.
async fn found(
    view: &dyn View,
    prefix: &Bytes,
    sentence: &Sentence,
    from: Bytes,
) -> Result<(Vec<(Bytes, Row)>, Option<Bytes>)> {
    let scan = Scan {
        keyspace: Keyspace::Docs,
        from: Bound::Included(from),
        to: Bound::Unbounded,
        reverse: false,
        rows: BATCH_ITEMS,
        bytes: usize::MAX,
        keys_only: false,
    };
    let chunk = view.scan(scan).await.map_err(storage)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for (item_key, stored) in &chunk.rows {
        if !item_key.starts_with(prefix) {
            return Ok((rows, None));
        }
        if bytes >= BATCH_BYTES {
            return Ok((rows, Some(item_key.clone())));
        }
        let row = Slot::item(Some(stored))?;
        if let Some(row) = row.filter(|row| row.etag.lsn() <= sentence.lsn) {
            bytes += row.body_bytes as usize;
            rows.push((item_key.clone(), row));
        }
    }
    // Looked at again, the last one is seen to be gone; nothing lies between it and the next.
    let reached = chunk.resume.filter(|resume| resume.starts_with(prefix));
    Ok((rows, reached))
}
