//! Carries out a change of indexing policy in the background, item by item in the order of keys.
//!
//! Each step is a commit like any other: the rows of some items become those of the current
//! policy, and the cursor moves past them in the same batch. What is written meanwhile has the
//! right rows already. Once the cursor has passed all items, the older policies are forgotten.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Keyspace, Scan};
use model::Result;

use super::Indexing;
use crate::Container;
use crate::api::storage;
use crate::commit::Place;
use crate::keys::Slot;
use crate::partition::Partition;

/// Items of one commit.
const BATCH_ITEMS: usize = 100;
/// A commit ends once it has this many bytes of bodies.
const BATCH_BYTES: usize = 1 << 20;
/// Commits of a partition in one round.
const BATCHES: usize = 20;

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Moved,
    Finished,
    /// The policy has changed again, or what was to be read is still on its way.
    Again,
}

impl Container {
    /// Takes an index change some steps further; true when there is more to do.
    pub(crate) async fn build_index(&self, partition: &Arc<Partition>) -> Result<bool> {
        for _ in 0..BATCHES {
            let indexing = partition.writer().indexing().clone();
            if !indexing.is_building() {
                return Ok(false);
            }
            match self.build_step(partition, &indexing).await? {
                Step::Finished => return Ok(false),
                Step::Again => return Ok(true),
                Step::Moved => tokio::task::yield_now().await,
            }
        }
        Ok(true)
    }

    async fn build_step(&self, partition: &Arc<Partition>, indexing: &Indexing) -> Result<Step> {
        let (_, view) = partition.view();
        let from = match indexing.cursor.is_empty() {
            true => Bound::Unbounded,
            false => Bound::Excluded(indexing.cursor.clone()),
        };
        let scan = Scan {
            keyspace: Keyspace::Docs,
            from,
            to: Bound::Unbounded,
            reverse: false,
            rows: BATCH_ITEMS,
            bytes: usize::MAX,
            keys_only: false,
        };
        let chunk = view.scan(scan).await.map_err(storage)?;
        let (mut items, mut bytes, mut cursor) = (Vec::new(), 0, chunk.resume.clone());
        for (key, stored) in &chunk.rows {
            cursor = Some(key.clone());
            if let Some(row) = Slot::item(Some(stored))? {
                items.push(key.clone());
                bytes += row.body_bytes as usize;
            }
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        self.rebuild(partition, indexing, &items, cursor).await
    }

    async fn rebuild(
        &self,
        partition: &Arc<Partition>,
        indexing: &Indexing,
        items: &[Bytes],
        cursor: Option<Bytes>,
    ) -> Result<Step> {
        let places: Vec<Place> = items.iter().map(|key| (Keyspace::Docs, key.clone())).collect();
        let decided = partition.commit(self.env.now_ms(), &places, |draft| {
            let Some(now) = draft.indexing() else { return Ok(Step::Again) };
            if !Arc::ptr_eq(&now.current, &indexing.current) || now.cursor != indexing.cursor {
                return Ok(Step::Again);
            }
            for key in items {
                let stored = draft.get(&(Keyspace::Docs, key.clone()))?;
                let Some(row) = Slot::item(stored.as_ref())? else { continue };
                match draft.get(&(Keyspace::Feed, row.feed_key()))? {
                    Some(stored) => draft.rebuild(stored),
                    // Written before bodies were kept for us, and not in the view yet.
                    None => return Ok(Step::Again),
                }
            }
            draft.built_up_to(cursor.clone());
            Ok(if cursor.is_some() { Step::Moved } else { Step::Finished })
        });
        decided.await
    }

    /// How much of the items is indexed by the current policy, in percent.
    pub fn index_progress(&self) -> u8 {
        let partitions = self.partitions();
        let shares = partitions.iter().map(|partition| partition.index_share());
        let mean = shares.sum::<f64>() / partitions.len() as f64;
        // Not whole before it is.
        if mean >= 1.0 { 100 } else { ((mean * 100.0) as u8).min(99) }
    }
}

impl Partition {
    /// How much of it is indexed, by the place of the cursor in its span.
    fn index_share(&self) -> f64 {
        let indexing = self.writer().indexing().clone();
        if !indexing.is_building() {
            return 1.0;
        }
        let place = |bytes: &[u8]| {
            let mut first = [0; 8];
            let length = bytes.len().min(8);
            first[..length].copy_from_slice(&bytes[..length]);
            u64::from_be_bytes(first) as f64
        };
        // The first two bits of a hash are clear.
        let end = match self.span.max == model::epk::Epk::max() {
            true => (1_u64 << 62) as f64,
            false => place(self.span.max.significant()),
        };
        let begin = place(self.span.min.significant());
        ((place(&indexing.cursor) - begin) / (end - begin)).clamp(0.0, 0.99)
    }
}
