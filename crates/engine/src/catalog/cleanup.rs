//! Removes the rows of deleted containers and of partitions that were split or merged, in the
//! background and across restarts.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use kv::PartitionId;
use model::Result;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::api::storage;
use crate::catalog::{Engine, record};
use crate::gate::Remover;
use crate::partition::Partition;

/// The task that removes, and the way to tell it what.
#[derive(Default)]
pub(crate) struct Cleanup {
    task: Mutex<Option<(mpsc::UnboundedSender<u32>, JoinHandle<()>)>>,
}

impl Cleanup {
    /// Begins with what an earlier run left behind.
    pub fn start(&self, engine: &Arc<Engine>, left: Vec<u32>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let handle = tokio::spawn(run(Arc::downgrade(engine), receiver));
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some((sender, handle));
        self.add(left);
    }

    /// Adds partitions to remove. They are on record, so nothing is lost if this is not reached.
    pub fn add(&self, numbers: Vec<u32>) {
        if let Some((sender, _)) = &*self.task.lock().unwrap_or_else(PoisonError::into_inner) {
            for number in numbers {
                // Fails only when stopping; the record makes the next start go on.
                let _ = sender.send(number);
            }
        }
    }

    /// Removes a partition once nobody reads it any more. It is on record like the others.
    pub fn remove_when_dropped(&self, partition: &Partition) {
        if let Some((sender, _)) = &*self.task.lock().unwrap_or_else(PoisonError::into_inner) {
            let remover = Remover { number: partition.number, sender: sender.clone() };
            // It is set once, by the exchange that ends the partition.
            let _ = partition.remover.set(remover);
        }
    }

    /// Stops; the rest is done after the next start.
    pub fn stop(&self) {
        if let Some((_, handle)) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            handle.abort();
        }
    }
}

async fn run(engine: Weak<Engine>, mut numbers: mpsc::UnboundedReceiver<u32>) {
    while let Some(number) = numbers.recv().await {
        let Some(engine) = engine.upgrade() else { return };
        if let Err(error) = remove(&engine, number).await {
            tracing::warn!(partition = number, %error, "the rows of a removed partition remain until the next start");
        }
    }
}

async fn remove(engine: &Engine, number: u32) -> Result<()> {
    engine.stores.destroy(PartitionId(u64::from(number))).await.map_err(storage)?;
    engine.submit(vec![record::remove_garbage(number)]).await
}
