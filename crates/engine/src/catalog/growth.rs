//! Containers that need more partitions: because their throughput was raised, or a partition grew.
//!
//! Both are done in the background. A throughput that is being carried out is on record, so it is
//! finished after a restart; a size is simply found again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use model::{Error, Fault, Result};
use tokio::sync::mpsc;

use crate::api::Resource;
use crate::catalog::layout::Otherwise;
use crate::catalog::{Engine, record};
use crate::partition::Partition;
use crate::{Container, Kind, cut, offer};

/// Commits of a container between two looks at its size.
const COMMITS_BETWEEN: u64 = 64;

/// Looks after the size of a container's partitions.
pub(crate) struct Growth {
    split_bytes: u64,
    commits: AtomicU64,
    /// Somebody has been told, and has not looked yet.
    told: AtomicBool,
    sender: mpsc::UnboundedSender<Arc<Container>>,
}

impl Growth {
    /// Has a partition split if it is too large. Called for every commit, and cheap.
    pub fn look(&self, container: &Container, partition: &Partition) {
        if !self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(COMMITS_BETWEEN) {
            return;
        }
        if partition.head().bytes <= self.split_bytes || self.told.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(container) = container.itself() {
            // Fails only when stopping.
            let _ = self.sender.send(container);
        }
    }
}

/// The way to tell the background of containers that grow.
pub(crate) struct Grown(mpsc::UnboundedSender<Arc<Container>>);

impl Grown {
    /// A way, and its other end.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Arc<Container>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }
}

impl Engine {
    /// Looks after a container's size from now on.
    pub(super) fn look_after(&self, container: &Arc<Container>) {
        let growth = Growth {
            split_bytes: self.options.split_bytes,
            commits: AtomicU64::new(0),
            told: AtomicBool::new(false),
            sender: self.grown.0.clone(),
        };
        // It is set once, before anybody has the container.
        let _ = container.growth.set(growth);
    }

    /// Begins with what an earlier run left undone.
    pub(super) fn start_growth(
        self: &Arc<Self>,
        grown: mpsc::UnboundedReceiver<Arc<Container>>,
        scaling: Vec<(String, usize)>,
    ) {
        let containers: Vec<_> = self.state().containers().cloned().collect();
        containers.iter().for_each(|container| self.look_after(container));
        for (rid, partitions) in scaling {
            let container = containers.iter().find(|container| container.rid() == rid);
            if let Some(container) = container {
                self.scale(container.clone(), partitions);
            }
        }
        tokio::spawn(split_grown(Arc::downgrade(self), grown));
    }

    /// The containers that an offer is for: one, or all of a database that have none of their own.
    pub(super) fn provisioned(&self, offer: &Resource) -> Vec<Arc<Container>> {
        let state = self.state();
        let target = offer::resource_of(offer).and_then(|rid| state.by_rid(rid));
        let Some(target) = target else { return Vec::new() };
        let children = state.children(Kind::Container, &target.resource.rid);
        let sharing = children.iter().filter(|one| state.offer_of(&one.resource.rid).is_none());
        let containers = sharing.chain([target]).filter_map(|entry| entry.container.clone());
        containers.collect()
    }

    /// Those of them that have fewer partitions than a throughput takes.
    pub(super) fn to_scale(&self, offer: &Resource, partitions: usize) -> Vec<Arc<Container>> {
        let mut containers = self.provisioned(offer);
        containers.retain(|container| container.partitions().len() < partitions);
        containers
    }

    /// Refuses to change a throughput while the last change is being carried out.
    pub(super) fn check_not_scaling(&self, offer: &Resource) -> Result<()> {
        let mut containers = self.provisioned(offer).into_iter();
        if containers.any(|container| container.scaling.load(Ordering::Acquire)) {
            return Err(Error::new(
                Fault::Locked,
                "the last change of the throughput is being carried out: partitions are being \
                 split; try again when the offer is no longer pending",
            ));
        }
        Ok(())
    }

    /// Splits partitions in the background until there are as many as wanted.
    pub(super) fn scale(self: &Arc<Self>, container: Arc<Container>, partitions: usize) {
        container.scaling.store(true, Ordering::Release);
        let engine = self.clone();
        tokio::spawn(async move {
            let done = engine.split_up_to(&container, partitions).await;
            let done = match done {
                Ok(()) => engine.submit(vec![record::remove_scaling(container.rid())]).await,
                failed => failed,
            };
            if let Err(error) = done {
                tracing::warn!(%error, container = container.link(), "partitions are missing until the next start");
            }
            container.scaling.store(false, Ordering::Release);
        });
    }

    async fn split_up_to(&self, container: &Arc<Container>, wanted: usize) -> Result<()> {
        let _only = container.laying_out.lock().await;
        while container.partitions().len() < wanted {
            if !self.split_largest(container).await? {
                tracing::warn!(container = container.link(), "no partition can be split further");
                break;
            }
        }
        Ok(())
    }

    /// Splits the partition with the most to share; false if none can be split.
    async fn split_largest(&self, container: &Arc<Container>) -> Result<bool> {
        let mut candidates = container.partitions().to_vec();
        candidates.sort_by_key(|partition| {
            std::cmp::Reverse((partition.head().bytes, cut::width(&partition.span)))
        });
        for partition in candidates {
            match self.split_partition(container, partition, Otherwise::Middle).await {
                Err(error) if error.fault == Fault::BadRequest => {}
                split => return split.map(|()| true),
            }
        }
        Ok(false)
    }
}

/// Splits partitions that are too large, one container after the other.
async fn split_grown(engine: Weak<Engine>, mut grown: mpsc::UnboundedReceiver<Arc<Container>>) {
    // How large partitions were that could not be split.
    let mut refused: HashMap<u32, u64> = HashMap::new();
    while let Some(container) = grown.recv().await {
        let Some(engine) = engine.upgrade() else { return };
        let _only = container.laying_out.lock().await;
        for partition in container.partitions().iter() {
            let (number, bytes) = (partition.number, partition.head().bytes);
            let least = refused.get(&number).map_or(engine.options.split_bytes, |bytes| bytes * 2);
            if bytes <= least {
                continue;
            }
            let split = engine.split_partition(&container, partition.clone(), Otherwise::Refuse);
            if let Err(error) = split.await {
                tracing::warn!(%error, container = container.link(), "a large partition is not split");
                refused.insert(number, bytes);
            }
        }
        if let Some(growth) = container.growth.get() {
            growth.told.store(false, Ordering::Release);
        }
    }
}
