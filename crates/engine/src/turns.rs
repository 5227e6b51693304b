//! Scripts of one partition key take turns: they would only undo each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use model::{Error, Fault, Result, limits};
use tokio::sync::OwnedMutexGuard;

/// Keys remembered before those are forgotten that nobody waits for.
const KEYS: usize = 1_024;

/// The queues of a container, by what the items of a key begin with.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<Bytes, Weak<Queue>>>);

#[derive(Default)]
struct Queue {
    turn: Arc<tokio::sync::Mutex<()>>,
    waiting: AtomicUsize,
}

/// The right to run a script; ends when it is dropped.
pub(crate) struct Turn {
    _guard: OwnedMutexGuard<()>,
    _queue: Arc<Queue>,
}

/// One who waits, until dropped.
struct Waiting(Arc<Queue>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turns {
    /// Waits for a turn; refused where too many wait already.
    pub async fn take(&self, prefix: &Bytes) -> Result<Turn> {
        let queue = self.queue(prefix);
        if queue.waiting.fetch_add(1, Ordering::Relaxed) > limits::SCRIPTS_WAITING {
            drop(Waiting(queue));
            return Err(Error::new(
                Fault::TooManyRequests,
                "too many scripts wait for the transaction of another under this partition key; try again shortly",
            ));
        }
        let waiting = Waiting(queue.clone());
        let guard = queue.turn.clone().lock_owned().await;
        drop(waiting);
        Ok(Turn { _guard: guard, _queue: queue })
    }

    fn queue(&self, prefix: &Bytes) -> Arc<Queue> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(prefix).and_then(Weak::upgrade) {
            return queue;
        }
        if queues.len() >= KEYS {
            queues.retain(|_, queue| queue.strong_count() > 0);
        }
        let queue = Arc::new(Queue::default());
        queues.insert(prefix.clone(), Arc::downgrade(&queue));
        queue
    }
}
