//! How far a partition has come, who waits for its changes, and how they are woken.
//!
//! A reader of one partition key waits at a bell of that key and is not woken by writes of others:
//! a thousand such readers cost a busy partition nothing. Who reads more than one key waits for
//! every write. A bell says only that something may have come; the reader looks for itself.
//!
//! Invariant: a bell is rung once the write can be read, whatever becomes of the writer.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use foldhash::HashMap;
use kv::{Follow, Keyspace, Note, Op};
use model::epk::EpkRange;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// The bytes of a key that its bell goes by: within the hash of its first level, and enough that
/// two keys hardly ever share a bell.
const BELL_BYTES: usize = 8;

/// Names a bell.
pub(crate) type Bell = u64;

/// Bells to be rung. Most writes are about one key.
pub(crate) type Bells = SmallVec<[Bell; 1]>;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// The newest LSN that has been acknowledged. Every view published from now on has it.
    durable: AtomicU64,
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

/// Whoever waits for changes is woken from outside of the runtime, and so beside the writer and not
/// behind it.
impl Follow for Listeners {
    fn durable(&self, notes: &[Note]) {
        if let Some(last) = notes.last() {
            self.durable_up_to(last.number);
        }
        self.ring(notes.iter().flat_map(|note| &note.marks));
    }
}

impl Listeners {
    /// Of a partition that has come to an LSN.
    pub fn since(lsn: u64) -> Self {
        Self { durable: AtomicU64::new(lsn), ..Self::default() }
    }

    /// The newest acknowledged LSN.
    pub fn lsn(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub fn durable_up_to(&self, lsn: u64) {
        // Mostly it is said of a later one already, and to look costs less.
        if self.lsn() < lsn {
            self.durable.fetch_max(lsn, Ordering::AcqRel);
        }
    }

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

    /// Wakes those who wait for what was written.
    fn ring<'a>(&self, written: impl Iterator<Item = &'a Bell>) {
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

/// The bells of the items that a batch writes.
pub(crate) fn bells_of(batch: &[Op]) -> Bells {
    let keys = batch.iter().filter_map(|op| match op {
        Op::Put(Keyspace::Docs, key, _)
        | Op::Delete(Keyspace::Docs, key)
        | Op::DeleteOnce(Keyspace::Docs, key) => Some(bell(key)),
        _ => None,
    });
    let mut bells = Bells::new();
    for bell in keys {
        // Those of a transaction are all alike.
        if bells.last() != Some(&bell) {
            bells.push(bell);
        }
    }
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
        assert_eq!(bells_of(&written)[..], [bell]);
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
        let note = |number, marks: &[Bell]| Note { number, marks: marks.into() };
        listeners.durable(&[note(3, &[bell(&key(5, 1))]), note(4, &[bell(&key(7, 1))])]);
        assert_eq!(listeners.lsn(), 4);
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
