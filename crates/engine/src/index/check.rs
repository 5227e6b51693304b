//! Compares index rows with the items they are of.

use std::collections::BTreeSet;
use std::ops::Bound;

use bytes::Bytes;
use kv::{Keyspace, Scan, View};
use model::Result;

use super::terms;
use crate::Container;
use crate::api::storage;
use crate::item::body_of;
use crate::keys::Slot;
use crate::partition::Partition;

impl Container {
    /// What is wrong with the indexes, a line each: rows that are missing, and rows that no item
    /// has. Reads everything, so it is for tests and for people who doubt; nothing is said of
    /// partitions in which a change of policy is still being carried out.
    #[doc(hidden)]
    pub async fn index_faults(&self) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for partition in self.partitions().iter() {
            faults.extend(self.partition_faults(partition).await?);
        }
        Ok(faults)
    }

    async fn partition_faults(&self, partition: &Partition) -> Result<Vec<String>> {
        let indexing = partition.writer().indexing().clone();
        if indexing.is_building() {
            return Ok(Vec::new());
        }
        let (_, view) = partition.view();
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let rows = all(&*view, Keyspace::Terms, everything.clone()).await?;
        let mut found: BTreeSet<(Bytes, Bytes)> = rows.into_iter().collect();
        let mut faults = Vec::new();
        for (item_key, stored) in all(&*view, Keyspace::Docs, everything).await? {
            let Some(row) = Slot::item(Some(&stored))? else { continue };
            let stored = view.get(Keyspace::Feed, &row.feed_key()).await.map_err(storage)?;
            let body = body_of(&row, &item_key, stored.as_ref())?;
            for row in terms::rows(&indexing.current, &item_key, &body)? {
                if !found.remove(&row) {
                    faults.push(format!("range {}: missing {:?}", partition.range, row.0));
                }
            }
        }
        let extra = |(key, _)| format!("range {}: nobody has {key:?}", partition.range);
        faults.extend(found.into_iter().map(extra));
        Ok(faults)
    }
}

async fn all(
    view: &dyn View,
    keyspace: Keyspace,
    (mut from, to): (Bound<Bytes>, Bound<Bytes>),
) -> Result<Vec<(Bytes, Bytes)>> {
    let mut rows = Vec::new();
    loop {
        let scan = Scan {
            keyspace,
            from,
            to: to.clone(),
            reverse: false,
            rows: 1_000,
            bytes: usize::MAX,
            keys_only: false,
        };
        let chunk = view.scan(scan).await.map_err(storage)?;
        rows.extend(chunk.rows);
        match chunk.resume {
            Some(resume) => from = Bound::Excluded(resume),
            None => return Ok(rows),
        }
    }
}
