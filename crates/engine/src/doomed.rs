//! Partition keys whose items are deleted all at once.
//!
//! A row in `Index` says that every item of a partition key up to an LSN is gone. From the commit
//! that puts it on, decisions take such items for deleted; from its acknowledgement on, readers do.
//! The items are removed in the background, and then the row.
//!
//! Invariants:
//! - Readers take the doomed keys first and the view after: a key is taken off the list only when
//!   its items are gone, so a view that is newer than the list never shows one that was on it.
//! - An LSN tells the items of before from those of after, in children and merged partitions too:
//!   LSNs go with the rows and only grow.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

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

    /// The first that is to be carried out.
    pub fn first(&self) -> Option<(&Bytes, &Sentence)> {
        self.0.first_key_value()
    }

    fn with(&self, prefix: &Bytes, sentence: &Sentence) -> Self {
        let mut doomed = self.clone();
        doomed.0.insert(prefix.clone(), sentence.clone());
        doomed
    }

    fn without(&self, prefix: &Bytes, sentence: &Sentence) -> Self {
        let mut doomed = self.clone();
        if doomed.0.get(prefix) == Some(sentence) {
            doomed.0.remove(prefix);
        }
        doomed
    }
}

impl Draft<'_> {
    /// Dooms the items that a prefix has by now.
    fn doom(&mut self, prefix: &Bytes, key: &Bytes) -> Result<Sentence> {
        if !self.doomed.0.contains_key(prefix) && self.doomed.0.len() >= limits::KEY_DELETES {
            return Err(Error::new(
                Fault::TooManyRequests,
                "too many deletes by partition key are under way; try again shortly",
            ));
        }
        let sentence = Sentence { lsn: self.lsn, key: key.clone() };
        self.doomed = Arc::new(self.doomed.with(prefix, &sentence));
        self.put(Keyspace::Index, keys::doomed_key(prefix), sentence.encode());
        Ok(sentence)
    }

    /// Says that a sentence has been carried out, unless there is a new one.
    fn absolve(&mut self, prefix: &Bytes, sentence: &Sentence) {
        if self.doomed.0.get(prefix) == Some(sentence) {
            self.doomed = Arc::new(self.doomed.without(prefix, sentence));
            self.delete(Keyspace::Index, keys::doomed_key(prefix));
        }
    }
}

impl Partition {
    /// Takes a sentence that has been carried out off the list.
    pub(crate) async fn absolve(
        &self,
        now_ms: u64,
        prefix: &Bytes,
        sentence: &Sentence,
    ) -> Result<()> {
        self.commit(now_ms, Vec::new(), |draft| {
            draft.absolve(prefix, sentence);
            Ok(())
        })
        .await?;
        self.doomed.rcu(|doomed| Arc::new(doomed.without(prefix, sentence)));
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
        if let Some(throttled) = self.throttle(&self.partition_of(&epk)) {
            return Ok(throttled);
        }
        let prefix = Bytes::from(keys::key_prefix(&definition.partition_key, &key));
        let text = Bytes::from(key.to_header());
        let (partition, done) =
            self.commit(&epk, Vec::new(), |draft| draft.doom(&prefix, &text)).await;
        let lsn = match &done {
            Ok(sentence) => {
                partition.doomed.rcu(|doomed| Arc::new(doomed.with(&prefix, sentence)));
                sentence.lsn
            }
            Err(_) => partition.lsn(),
        };
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
        let later = Sentence { lsn: 9, ..sentence.clone() };
        let doomed = doomed.with(&prefix, &later);
        assert!(doomed.without(&prefix, &sentence).hides(b"bb", 9), "a new one stays");
        assert!(!doomed.without(&prefix, &later).hides(b"bb", 1));
    }
}
