//! Who waits for changes of a partition, and how they are woken.
//!
//! A reader of one partition key is woken by writes of keys that share its bell, and not by all
//! the others: a thousand of them cost a busy partition nothing. Who reads more than that waits
//! for every write. A bell says only that something may have come; the reader looks for itself.
//!
//! Invariant: a bell is rung once the write can be read, whatever becomes of the writer.

use std::sync::{Arc, OnceLock};

use kv::{Keyspace, Op, Ticket};
use model::Result;
use model::epk::EpkRange;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::api::storage;
use crate::partition::Partition;

/// Bells of a partition. They are made when the first reader of one key comes.
const BELLS: usize = 1024;

/// The bytes of a key that its bell follows from: within the hash of its first level.
const BELL_KEY_BYTES: usize = 8;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    every: Arc<Notify>,
    bells: OnceLock<Box<[Arc<Notify>]>>,
}

impl Listeners {
    /// Resolves with the next write that may concern a range of keys, from this moment on.
    pub fn listen(&self, keys: &EpkRange) -> std::pin::Pin<Box<OwnedNotified>> {
        let bell = match bell_of_range(keys) {
            None => &self.every,
            Some(n) => &self.bells.get_or_init(|| (0..BELLS).map(|_| Arc::default()).collect())[n],
        };
        let mut notified = Box::pin(bell.clone().notified_owned());
        notified.as_mut().enable();
        notified
    }

    fn ring(&self, written: &[u16]) {
        self.every.notify_waiters();
        if let Some(bells) = self.bells.get() {
            written.iter().for_each(|n| bells[usize::from(*n)].notify_waiters());
        }
    }
}

/// A write on its way to the disk.
pub(crate) struct Landing {
    partition: Arc<Partition>,
    lsn: u64,
    written: Vec<u16>,
    ticket: Option<Ticket>,
}

impl Landing {
    pub fn new(partition: &Arc<Partition>, lsn: u64, written: Vec<u16>, ticket: Ticket) -> Self {
        Self { partition: partition.clone(), lsn, written, ticket: Some(ticket) }
    }

    /// Waits until the write can be read, and wakes those who wait for it.
    pub async fn landed(mut self) -> Result<()> {
        if let Some(ticket) = &mut self.ticket {
            ticket.landed().await.map_err(storage)?;
        }
        self.ticket = None;
        self.announce();
        Ok(())
    }

    fn announce(&self) {
        self.partition.durable_up_to(self.lsn);
        self.partition.listeners.ring(&self.written);
    }
}

impl Drop for Landing {
    /// The writer has gone before its write was on disk. Others wait for it all the same.
    fn drop(&mut self) {
        let Some(mut ticket) = self.ticket.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let landing = Self {
            partition: self.partition.clone(),
            lsn: self.lsn,
            written: std::mem::take(&mut self.written),
            ticket: None,
        };
        runtime.spawn(async move {
            if ticket.landed().await.is_ok() {
                landing.announce();
            }
        });
    }
}

/// The bells of the items that a batch writes.
pub(crate) fn bells_of(batch: &[Op]) -> Vec<u16> {
    let keys = batch.iter().filter_map(|op| match op {
        Op::Put(Keyspace::Docs, key, _)
        | Op::Delete(Keyspace::Docs, key)
        | Op::DeleteOnce(Keyspace::Docs, key) => Some(bell(key)),
        _ => None,
    });
    let mut bells: Vec<u16> = keys.collect();
    bells.sort_unstable();
    bells.dedup();
    bells
}

fn bell(key: &[u8]) -> u16 {
    let mut first = [0; BELL_KEY_BYTES];
    let bytes = key.len().min(BELL_KEY_BYTES);
    first[..bytes].copy_from_slice(&key[..bytes]);
    // The first bytes tell partitions apart, so they say least within one.
    (u64::from_be_bytes(first).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as u16
}

/// The one bell that all keys of a range share, if they do.
fn bell_of_range(keys: &EpkRange) -> Option<usize> {
    let (min, max) = (keys.min.as_bytes(), keys.max.as_bytes());
    let first = min.get(..BELL_KEY_BYTES)?;
    (max.get(..BELL_KEY_BYTES)? == first).then(|| usize::from(bell(first)))
}

#[cfg(test)]
mod tests {
    use model::epk::Epk;

    use super::*;

    fn range(min: [u8; 16], max: [u8; 16]) -> EpkRange {
        EpkRange::new(Epk::from_bytes(&min), Epk::from_bytes(&max))
    }

    #[test]
    fn keys_of_a_narrow_range_share_the_bell_of_the_range() {
        let (mut min, mut max) = ([7; 16], [7; 16]);
        (min[15], max[15]) = (1, 2);
        let n = bell_of_range(&range(min, max)).unwrap();
        let mut key = min.to_vec();
        key.extend_from_slice(b"id");
        let written = [Op::Put(Keyspace::Docs, key.into(), bytes::Bytes::new())];
        assert_eq!(bells_of(&written), [n as u16]);
        assert!(n < BELLS);
    }

    #[test]
    fn a_wide_range_has_no_bell_of_its_own() {
        assert_eq!(bell_of_range(&range([1; 16], [2; 16])), None);
        assert_eq!(bell_of_range(&EpkRange::new(Epk::MIN, Epk::max())), None);
    }

    #[tokio::test]
    async fn only_the_bell_that_was_rung_wakes() {
        let listeners = Listeners::default();
        let (mut end, other_min, mut other_max) = ([7; 16], [9; 16], [9; 16]);
        (end[15], other_max[15]) = (8, 10);
        let mut mine = listeners.listen(&range([7; 16], end));
        let mut others = listeners.listen(&range(other_min, other_max));
        let mut all = listeners.listen(&EpkRange::new(Epk::MIN, Epk::max()));
        listeners.ring(&[bell(&[7; 16])]);
        let now = |waiting: &mut std::pin::Pin<Box<OwnedNotified>>| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            waiting.as_mut().poll(&mut context).is_ready()
        };
        assert!(now(&mut mine) && now(&mut all));
        assert!(!now(&mut others));
    }
}
