//! Who waits for changes of a partition, and how they are woken.
//!
//! A reader of one partition key waits at a bell of that key and is not woken by writes of others:
//! a thousand such readers cost a busy partition nothing. Who reads more than one key waits for
//! every write. A bell says only that something may have come; the reader looks for itself.
//!
//! Invariant: a bell is rung once the write can be read, whatever becomes of the writer.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use foldhash::HashMap;
use kv::{Keyspace, Op, Ticket};
use model::Result;
use model::epk::EpkRange;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::api::storage;
use crate::partition::Partition;

/// The bytes of a key that its bell goes by: within the hash of its first level, and enough that
/// two keys hardly ever share a bell.
const BELL_BYTES: usize = 8;

/// Names a bell.
type Bell = u64;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    every: Arc<Notify>,
    bells: Mutex<HashMap<Bell, (Arc<Notify>, usize)>>,
    /// How many wait at bells.
    waiting: AtomicUsize,
}

/// Resolves with the next write that may concern the keys it listens for, since it was made.
pub(crate) struct Listening {
    notified: Pin<Box<OwnedNotified>>,
    bell: Option<Bell>,
    listeners: Arc<Listeners>,
}

impl Listeners {
    /// Listens for writes to a range of keys, from this moment on.
    pub fn listen(self: &Arc<Self>, keys: &EpkRange) -> Listening {
        let bell = bell_of_range(keys);
        let notify = match bell {
            None => self.every.clone(),
            Some(bell) => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                let mut bells = self.bells();
                let (notify, waiting) = bells.entry(bell).or_default();
                *waiting += 1;
                notify.clone()
            }
        };
        let mut notified = Box::pin(notify.notified_owned());
        notified.as_mut().enable();
        Listening { notified, bell, listeners: self.clone() }
    }

    fn ring(&self, written: &[Bell]) {
        self.every.notify_waiters();
        // A reader that is not counted yet has still to look, and finds what was written.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let bells = self.bells();
        for bell in written {
            if let Some((notify, _)) = bells.get(bell) {
                notify.notify_waiters();
            }
        }
    }

    fn leave(&self, bell: Bell) {
        let mut bells = self.bells();
        if let Some((_, waiting)) = bells.get_mut(&bell) {
            *waiting -= 1;
            if *waiting == 0 {
                bells.remove(&bell);
            }
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn bells(&self) -> MutexGuard<'_, HashMap<Bell, (Arc<Notify>, usize)>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Listening {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.notified.as_mut().poll(context)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(bell) = self.bell {
            self.listeners.leave(bell);
        }
    }
}

/// A write on its way to the disk.
pub(crate) struct Landing {
    partition: Arc<Partition>,
    lsn: u64,
    written: Vec<Bell>,
    ticket: Option<Ticket>,
}

impl Landing {
    pub fn new(partition: &Arc<Partition>, lsn: u64, written: Vec<Bell>, ticket: Ticket) -> Self {
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
pub(crate) fn bells_of(batch: &[Op]) -> Vec<Bell> {
    let keys = batch.iter().filter_map(|op| match op {
        Op::Put(Keyspace::Docs, key, _)
        | Op::Delete(Keyspace::Docs, key)
        | Op::DeleteOnce(Keyspace::Docs, key) => Some(bell(key)),
        _ => None,
    });
    let mut bells: Vec<Bell> = keys.collect();
    bells.sort_unstable();
    bells.dedup();
    bells
}

fn bell(key: &[u8]) -> Bell {
    let mut first = [0; BELL_BYTES];
    let bytes = key.len().min(BELL_BYTES);
    first[..bytes].copy_from_slice(&key[..bytes]);
    u64::from_be_bytes(first)
}

/// The one bell that all keys of a range share, if they do.
fn bell_of_range(keys: &EpkRange) -> Option<Bell> {
    let (min, max) = (keys.min.as_bytes(), keys.max.as_bytes());
    let first = min.get(..BELL_BYTES)?;
    (max.get(..BELL_BYTES)? == first).then(|| bell(first))
}

#[cfg(test)]
mod tests {
    use model::epk::Epk;

    use super::*;

    fn key(byte: u8, last: u8) -> Vec<u8> {
        let mut key = vec![byte; 16];
        key[15] = last;
        key
    }

    fn range(min: &[u8], max: &[u8]) -> EpkRange {
        EpkRange::new(Epk::from_bytes(min), Epk::from_bytes(max))
    }

    #[test]
    fn keys_of_a_narrow_range_share_the_bell_of_the_range() {
        let bell = bell_of_range(&range(&key(7, 1), &key(7, 2))).unwrap();
        let item = [&key(7, 1)[..], b"id"].concat();
        let written = [Op::Put(Keyspace::Docs, item.into(), bytes::Bytes::new())];
        assert_eq!(bells_of(&written), [bell]);
    }

    #[test]
    fn a_wide_range_has_no_bell_of_its_own() {
        assert_eq!(bell_of_range(&range(&key(1, 1), &key(2, 1))), None);
        assert_eq!(bell_of_range(&EpkRange::new(Epk::MIN, Epk::max())), None);
    }

    #[test]
    fn only_the_bell_that_was_rung_wakes() {
        let listeners = Arc::new(Listeners::default());
        let mut mine = listeners.listen(&range(&key(7, 1), &key(7, 2)));
        let mut others = listeners.listen(&range(&key(9, 1), &key(9, 2)));
        let mut all = listeners.listen(&EpkRange::new(Epk::MIN, Epk::max()));
        listeners.ring(&[bell(&key(7, 1))]);
        let now = |listening: &mut Listening| {
            let mut context = Context::from_waker(std::task::Waker::noop());
            Pin::new(listening).poll(&mut context).is_ready()
        };
        assert!(now(&mut mine) && now(&mut all));
        assert!(!now(&mut others));
        drop((mine, others, all));
        assert!(listeners.bells().is_empty());
        assert_eq!(listeners.waiting.load(Ordering::SeqCst), 0);
    }
}
