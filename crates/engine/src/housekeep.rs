//! Background work on all containers: expired items go, those of deleted partition keys, and history
//! that nobody may read any more.
//!
//! A round does a bounded amount for each partition, in small commits like any other, so writers
//! wait for none of it. What a round leaves undone the next one finds again: nothing here has to
//! survive a crash.

mod purge;
mod reap;
mod retention;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use model::{Fault, Result};
use tokio::task::JoinHandle;

use crate::partition::Partition;
use crate::{Container, Engine};

/// Items, or rows, of one commit.
const BATCH_ITEMS: usize = 100;
/// A batch ends once it has this many bytes of bodies.
const BATCH_BYTES: usize = 4 << 20;
/// Commits of one kind of work for a partition in a round.
const BATCHES: usize = 20;
/// The pause between rounds while there is more to do.
const PAUSE: Duration = Duration::from_millis(20);

/// How far background work has come in a partition.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    /// The container's default time to live that the cursor below was for.
    default_ttl: Option<i32>,
    /// Items on the default that were written up to this LSN have been looked at.
    default_lsn: u64,
    /// Items that expire up to this key of `Index` are gone.
    expired: Bytes,
    /// What deleted items left behind up to this key of `Index` is gone.
    tombstones: Bytes,
    /// Items of the key that was doomed under this LSN are gone up to here.
    reaped: (u64, Bytes),
    /// The log has been trimmed up to this LSN.
    trimmed: u64,
}

/// The task that goes round.
#[derive(Default)]
pub(crate) struct Housekeeping {
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Housekeeping {
    /// Goes round at an interval.
    pub fn start(&self, engine: &Arc<Engine>, interval: Duration) {
        let handle = tokio::spawn(run(Arc::downgrade(engine), interval));
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }

    /// Stops.
    pub fn stop(&self) {
        if let Some(handle) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            handle.abort();
        }
    }
}

async fn run(engine: Weak<Engine>, interval: Duration) {
    let mut pause = interval;
    loop {
        tokio::time::sleep(pause).await;
        let Some(engine) = engine.upgrade() else { return };
        pause = if engine.housekeep().await { PAUSE } else { interval };
    }
}

impl Engine {
    /// Does a bounded round of background work; true when there is more to do. What fails is
    /// logged and tried again in the next round.
    pub async fn housekeep(&self) -> bool {
        let mut more = false;
        for container in self.containers() {
            for partition in container.partitions().iter() {
                match container.housekeep(partition).await {
                    Ok(left) => more |= left,
                    // It has been split or merged: the next round finds those that came of it.
                    Err(error) if error.fault == Fault::RangeGone => more = true,
                    Err(error) => {
                        let range = &partition.range;
                        tracing::warn!(container = container.link(), %range, %error, "housekeeping");
                    }
                }
            }
        }
        more
    }
}

impl Container {
    async fn housekeep(&self, partition: &Arc<Partition>) -> Result<bool> {
        self.check_alive()?;
        let mut chores = partition.chores.lock().await;
        let mut more = self.reap(partition, &mut chores).await?;
        more |= self.purge_own(partition, &mut chores).await?;
        more |= self.purge_default(partition, &mut chores).await?;
        more |= self.trim_log(partition, &mut chores).await?;
        more |= self.forget_deletes(partition, &mut chores).await?;
        more |= self.build_index(partition).await?;
        Ok(more)
    }
}
