//! All documents in the order in which they were written, which is how their bodies lie on disk.
//!
//! Whoever reads everything and asks for no order is spared a look at `Docs` and one at `Feed` for
//! each item: `Feed` has the newest version of each item, once, and its rows are read one behind
//! the other.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use kv::{Keyspace, Scan};
use model::Result;
use query::source::{Document, Heap};

use super::{Part, Snapshot};
use crate::api::storage;
use crate::keys::{self, Change};

/// Bytes of bodies read at once: about what the caches of a core hold.
const HEAP_BYTES: usize = 512 << 10;
/// With more commits than so many for each item, `Feed` is mostly the traces of versions that were
/// replaced, and the order of keys is read sooner.
const COMMITS_PER_ITEM: u64 = 8;
/// Commits that do not matter.
const COMMITS_MIN: u64 = 10_000;

impl Snapshot<'_> {
    /// The next documents after a place: the number of a part, and a key in it.
    pub(super) async fn heap_chunk(&self, from: Option<&Bytes>, limit: usize) -> Result<Heap> {
        let (mut at, mut after) = match from {
            Some(place) => read_place(place)?,
            None => (0, None),
        };
        while let Some(part) = self.parts.get(at) {
            let (rows, next) = match part.reads_feed() {
                true => self.written(part, after, limit).await?,
                false => self.in_order(part, after, limit).await?,
            };
            (at, after) = if next.is_some() { (at, next) } else { (at + 1, None) };
            if !rows.is_empty() {
                let next = (at < self.parts.len()).then(|| place(at, after.as_ref()));
                return Ok(Heap { rows, next });
            }
            tokio::task::yield_now().await;
        }
        Ok(Heap { rows: Vec::new(), next: None })
    }

    async fn written(
        &self,
        part: &Part,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<(Vec<Document>, Option<Bytes>)> {
        let scan = Scan {
            keyspace: Keyspace::Feed,
            from: after.map_or(Bound::Unbounded, Bound::Excluded),
            to: Bound::Unbounded,
            reverse: false,
            rows: limit,
            bytes: HEAP_BYTES,
            keys_only: false,
        };
        let chunk = part.view.scan(scan).await.map_err(storage)?;
        let mut rows = Vec::with_capacity(chunk.rows.len());
        for (key, stored) in &chunk.rows {
            let change = Change::decode(stored)?;
            let expired = change.expired(self.definition.default_ttl, self.now_seconds);
            if !expired && !part.doomed.hides(&change.item_key, keys::lsn_of(key)?) {
                rows.push(Document { key: change.item_key, body: change.body });
            }
        }
        Ok((rows, chunk.resume))
    }

    async fn in_order(
        &self,
        part: &Part,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<(Vec<Document>, Option<Bytes>)> {
        let chunk = self.part_documents(part, after.as_ref(), limit).await?;
        let last = chunk.rows.last().map(|document| document.key.clone());
        Ok((chunk.rows, last.filter(|_| chunk.more)))
    }
}

impl Part {
    /// Whether everything in the part is read sooner in the order of writes.
    fn reads_feed(&self) -> bool {
        let commits = self.items_held.saturating_mul(COMMITS_PER_ITEM).max(COMMITS_MIN);
        self.whole && self.head_lsn <= commits
    }
}

fn place(at: usize, after: Option<&Bytes>) -> Bytes {
    let mut place = BytesMut::new();
    place.put_u64(at as u64);
    place.put_slice(after.map_or(&[], |key| &key[..]));
    place.freeze()
}

fn read_place(place: &Bytes) -> Result<(usize, Option<Bytes>)> {
    let at = place.first_chunk().ok_or_else(|| keys::corrupt("a place among documents"))?;
    let after = Some(place.slice(8..)).filter(|key| !key.is_empty());
    Ok((usize::try_from(u64::from_be_bytes(*at)).unwrap_or(usize::MAX), after))
}
