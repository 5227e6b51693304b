//! Partition keys whose items are deleted all at once.
//!
//! A row in `Index` says that every item of a partition key up to an LSN is gone. From the commit
//! that puts it on, decisions take such items for deleted; from its acknowledgement on, readers do.
//! The items are removed in the background, and then the row.
//!
//! Invariants:
//! - What is gone in a view is what the rows of that view say, so a view is one moment in this too.
//!   Readers look for such rows only when there may be some ([`Partition::doomed_in`]).
//! - An LSN tells the items of before from those of after, in children and merged partitions too:
//!   LSNs go with the rows and only grow.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{BufMut, Bytes, BytesMut};
use kv::{Keyspace, Scan, View};
use model::partition_key::PartitionKey;
use model::{Error, Fault, Result, charge, limits};

use crate::Container;
use crate::api::{Answer, storage};
use crate::commit::Draft;
use crate::keys;
use crate::partition::Partition;

/// Rows read at once when a partition is opened.
const CHUNK_ROWS: usize = 1_000;

/// The doomed keys of a partition, by what all their items begin with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doomed(BTreeMap<Bytes, Sentence>);

/// What is known of a doomed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// Items up to this LSN are gone.
    pub lsn: u64,
    /// The partition key as a JSON array.
    pub key: Bytes,
}

impl Sentence {
    fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(8 + self.key.len());
        out.put_u64(self.lsn);
        out.put_slice(&self.key);
        out.freeze()
    }

    fn decode(stored: &Bytes) -> Result<Self> {
        let lsn = stored.first_chunk().ok_or_else(|| keys::corrupt("a delete by key"))?;
        Ok(Self { lsn: u64::from_be_bytes(*lsn), key: stored.slice(8..) })
    }
}

impl Doomed {
    /// Reads the doomed keys of a partition.
    pub async fn read(view: &dyn View) -> Result<Self> {
        let mut doomed = Self::default();
        let mut from = Bound::Included(keys::DOOMED.0);
        loop {
            let scan = Scan {
                keyspace: Keyspace::Index,
                from,
                to: Bound::Excluded(keys::DOOMED.1),
                reverse: false,
                rows: CHUNK_ROWS,
                bytes: usize::MAX,
                keys_only: false,
            };
            let chunk = view.scan(scan).await.map_err(storage)?;
            for (key, stored) in &chunk.rows {
                doomed.0.insert(keys::doomed_prefix(key), Sentence::decode(stored)?);
            }
            match chunk.resume {
                Some(resume) => from = Bound::Excluded(resume),
                None => return Ok(doomed),
            }
        }
    }

    /// Whether an item that was written under this LSN is gone.
    pub fn hides(&self, item_key: &[u8], lsn: u64) -> bool {
        // No prefix begins with another, so the nearest one below is the only one that can fit.
        if self.0.is_empty() {
            return false;
        }
        let below = (Bound::Unbounded, Bound::Included(item_key));
        let nearest = self.0.range::<[u8], _>(below).next_back();
        nearest
            .is_some_and(|(prefix, sentence)| lsn <= sentence.lsn && item_key.starts_with(prefix))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The first that is to be carried out.
    pub fn first(&self) -> Option<(&Bytes, &Sentence)> {
        self.0.first_key_value()
    }

    fn with(&self, prefix: &Bytes, sentence: &Sentence) -> Self {
        let mut doomed = self.clone();
        doomed.0.insert(prefix.clone(), sentence.clone());
        doomed
    }

    fn without(&self, prefix: &Bytes) -> Self {
        let mut doomed = self.clone();
        doomed.0.remove(prefix);
        doomed
    }
}

impl Draft<'_> {
    /// Dooms the items that a prefix has by now.
    fn doom(&mut self, prefix: &Bytes, key: &Bytes) -> Result<u64> {
        if !self.doomed.0.contains_key(prefix) && self.doomed.len() >= limits::KEY_DELETES {
            return Err(Error::new(
                Fault::TooManyRequests,
                "too many deletes by partition key are under way; try again shortly",
            ));
        }
        let sentence = Sentence { lsn: self.lsn, key: key.clone() };
        self.doomed = Cow::Owned(self.doomed.with(prefix, &sentence));
        self.put(Keyspace::Index, keys::doomed_key(prefix), sentence.encode());
        Ok(self.lsn)
    }

    /// Says that a sentence has been carried out; false where there is a new one.
    fn absolve(&mut self, prefix: &Bytes, sentence: &Sentence) -> bool {
        if self.doomed.0.get(prefix) != Some(sentence) {
            return false;
        }
        self.doomed = Cow::Owned(self.doomed.without(prefix));
        self.delete(Keyspace::Index, keys::doomed_key(prefix));
        true
    }
}

/// How many deletes had been carried out at some moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peace(u64);

impl Partition {
    /// To be taken before a view, or something older, is.
    pub(crate) fn peace(&self) -> Peace {
        Peace(self.absolved.load(Ordering::SeqCst))
    }

    /// Whether no delete has been under way since. Deletes are counted before they are submitted,
    /// and counted as carried out after that is durable: one that a view shows unfinished was not
    /// carried out when the view was taken, and had been counted by then.
    pub(crate) fn is_calm_since(&self, peace: Peace) -> bool {
        self.dooms.load(Ordering::SeqCst) == peace.0
    }

    /// The partition keys whose items are gone in a view that was taken since.
    pub(crate) async fn doomed_in(&self, view: &dyn View, since: Peace) -> Result<Doomed> {
        if self.is_calm_since(since) { Ok(Doomed::default()) } else { Doomed::read(view).await }
    }

    /// Takes a sentence that has been carried out off the list.
    pub(crate) async fn absolve(
        self: &Arc<Self>,
        now_ms: u64,
        prefix: &Bytes,
        sentence: &Sentence,
    ) -> Result<()> {
        let absolve = |draft: &mut Draft<'_>| Ok(draft.absolve(prefix, sentence));
        if self.commit(now_ms, &[], absolve).await? {
            self.absolved.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Container {
    /// Deletes all items of a partition key that there are by now. They are gone when this
    /// returns; their rows are removed in the background.
    pub async fn delete_key(&self, key: Option<PartitionKey>) -> Result<Answer<()>> {
        self.check_alive()?;
        let definition = self.definition();
        let key = self.item_partition_key(key)?;
        let epk = definition.partition_key.epk(&key);
        let partition = self.partition_of(&epk);
        if let Some(throttled) = self.throttle(&partition) {
            return Ok(throttled);
        }
        let prefix =
            Bytes::copy_from_slice(&keys::key_prefix_at(&definition.partition_key, &key, &epk));
        let text = Bytes::from(key.to_header());
        let doom = |draft: &mut Draft<'_>| draft.doom(&prefix, &text);
        let (partition, done) = self.commit(partition, &epk, &[], doom).await;
        let lsn = *done.as_ref().unwrap_or(&partition.lsn());
        Ok(self.charged(Answer {
            at: partition.at(lsn, None),
            charge: charge::metadata(),
            retry_after_ms: None,
            result: done.map(drop),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_there_is_hidden() {
        let prefix = Bytes::from_static(b"bb");
        let sentence = Sentence { lsn: 7, key: Bytes::from_static(b"[1]") };
        assert_eq!(Sentence::decode(&sentence.encode()).unwrap(), sentence);
        assert!(Sentence::decode(&Bytes::from_static(b"short")).is_err());
        let doomed = Doomed::default().with(&prefix, &sentence);
        assert!(doomed.hides(b"bb", 7) && doomed.hides(b"bbx", 1));
        assert!(!doomed.hides(b"bbx", 8), "written after it");
        assert!(!doomed.hides(b"ba", 1) && !doomed.hides(b"bc", 1) && !doomed.hides(b"b", 1));
        let doomed = doomed.with(&prefix, &Sentence { lsn: 9, ..sentence });
        assert!(doomed.hides(b"bbx", 8) && doomed.len() == 1);
        assert!(!doomed.without(&prefix).hides(b"bb", 1));
    }
}
