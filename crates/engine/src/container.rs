//! An open container: its definition, its partitions, and the way from a key to its owner.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use model::epk::Epk;
use model::partition_key::PartitionKey;
use model::policy::ContainerDefinition;
use model::rid::{ChildKind, ChildRid, ContainerRid};
use model::token::Etag;
use model::{Error, Fault, Result};

use crate::Env;
use crate::api::{Range, Ranges, Resource, Scope};
use crate::catalog::Growth;
use crate::commit::{Draft, Place};
use crate::partition::Partition;
use crate::rate::Rate;
use crate::select::settings_of;
use crate::signal::Signal;
use crate::texts::Texts;
use crate::turns::Turns;

/// A container and its partitions.
pub struct Container {
    itself: Weak<Self>,
    pub(crate) rid: ContainerRid,
    rid_text: String,
    link: String,
    pub(crate) self_link: String,
    resource: ArcSwap<Resource>,
    definition: ArcSwap<ContainerDefinition>,
    /// What queries may know of the definition.
    pub(crate) settings: ArcSwap<query::world::Settings>,
    /// Texts of queries that have been read.
    pub(crate) texts: Texts,
    /// From the lowest span to the highest, without gap or overlap.
    partitions: ArcSwap<Vec<Arc<Partition>>>,
    /// Set when throughput is enforced; shared by the containers of a database that shares it.
    pub(crate) rate: Option<Arc<Rate>>,
    pub(crate) env: Env,
    deleted: AtomicBool,
    /// Held while partitions are split or merged.
    pub(crate) laying_out: tokio::sync::Mutex<()>,
    /// Set while partitions are made for a throughput.
    pub(crate) scaling: AtomicBool,
    /// Rises when the partitions are others.
    layouts: Signal<()>,
    /// Scripts take turns, key by key.
    pub(crate) turns: Turns,
    /// Looks after partitions that grow.
    pub(crate) growth: OnceLock<Growth>,
}

/// What a container is opened with.
pub(crate) struct Opened {
    pub rid: ContainerRid,
    /// `dbs/<name>/colls/<name>`.
    pub link: String,
    pub resource: Arc<Resource>,
    pub definition: ContainerDefinition,
    pub partitions: Vec<Arc<Partition>>,
    pub rate: Option<Arc<Rate>>,
    pub env: Env,
}

impl Container {
    pub(crate) fn new(opened: Opened) -> Arc<Self> {
        let Opened { rid, link, resource, definition, partitions, rate, env } = opened;
        assert!(!partitions.is_empty(), "a container has at least one partition");
        for partition in &partitions {
            partition.writer().follow(&definition);
        }
        Arc::new_cyclic(|itself| Self {
            itself: itself.clone(),
            rid,
            rid_text: resource.rid.clone(),
            link,
            self_link: resource.self_link.clone(),
            resource: ArcSwap::new(resource),
            settings: ArcSwap::from_pointee(settings_of(&definition)),
            definition: ArcSwap::from_pointee(definition),
            texts: Texts::default(),
            partitions: ArcSwap::from_pointee(partitions),
            rate,
            env,
            deleted: AtomicBool::new(false),
            laying_out: tokio::sync::Mutex::default(),
            scaling: AtomicBool::new(false),
            layouts: Signal::new(()),
            turns: Turns::default(),
            growth: OnceLock::new(),
        })
    }

    /// Its resource id.
    pub fn rid(&self) -> &str {
        &self.rid_text
    }

    /// `dbs/<name>/colls/<name>`.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// The container as a resource.
    pub fn resource(&self) -> Arc<Resource> {
        self.resource.load_full()
    }

    /// Its policies.
    pub fn definition(&self) -> Arc<ContainerDefinition> {
        self.definition.load_full()
    }

    /// Its partition key ranges.
    pub fn ranges(&self) -> Ranges {
        let partitions = self.partitions();
        let fraction = 1.0 / partitions.len() as f64;
        // Numbers only grow, so the newest one tells one layout from every other.
        let newest = partitions.iter().map(|partition| partition.number).max().unwrap_or(0);
        let ranges = partitions.iter().map(|partition| self.range(partition, fraction)).collect();
        Ranges { etag: Etag::new(u64::from(newest), newest, 0, 0), ranges }
    }

    fn range(&self, partition: &Partition, throughput_fraction: f64) -> Range {
        Range {
            id: partition.range.clone(),
            rid: ChildRid {
                owner: self.rid.to_bytes(),
                kind: ChildKind::PartitionKeyRange,
                ordinal: u64::from(partition.number),
            }
            .to_string(),
            span: partition.span.clone(),
            parents: partition.parents.clone(),
            throughput_fraction,
        }
    }

    pub(crate) fn partitions(&self) -> Arc<Vec<Arc<Partition>>> {
        self.partitions.load_full()
    }

    /// Puts partitions in the place of those that held their keys, and wakes who waits for changes.
    pub(crate) fn lay_out(&self, gone: &[Arc<Partition>], new: Vec<Arc<Partition>>) {
        let definition = self.definition();
        for partition in &new {
            partition.writer().follow(&definition);
        }
        let gone = |one: &Arc<Partition>| gone.iter().any(|gone| gone.number == one.number);
        let mut partitions: Vec<_> =
            self.partitions().iter().filter(|one| !gone(one)).cloned().chain(new).collect();
        partitions.sort_by(|a, b| a.span.min.cmp(&b.span.min));
        let meet = |pair: &[Arc<Partition>]| pair[0].span.max == pair[1].span.min;
        assert!(partitions.windows(2).all(meet), "partitions cover the key space without gap");
        self.partitions.store(Arc::new(partitions));
        self.layouts.set(());
    }

    /// The shared form of this container.
    pub(crate) fn itself(&self) -> Option<Arc<Self>> {
        self.itself.upgrade()
    }

    /// Changes when the partitions do, and when they are gone for good.
    pub(crate) fn layouts(&self) -> &Signal<()> {
        &self.layouts
    }

    /// Commits in the partition that owns a key, whichever that is by the time it can decide: most likely
    /// the one given. Returns it with the outcome.
    pub(crate) async fn commit<T>(
        &self,
        mut partition: Arc<Partition>,
        epk: &Epk,
        places: &[Place],
        mut decide: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> (Arc<Partition>, Result<T>) {
        loop {
            let now_ms = self.env.now_ms();
            match partition.commit(now_ms, places, &mut decide).await {
                // It has been split or merged meanwhile; the new owners are in place already.
                Err(error) if error.fault == Fault::RangeGone => {
                    partition = self.partition_of(epk);
                }
                // Where its rows are being removed, there is nothing that could be tried again.
                Err(error) if error.fault == Fault::Unavailable => {
                    return (partition, self.check_alive().and(Err(error)));
                }
                done => {
                    if let Some(growth) = self.growth.get() {
                        growth.look(self, &partition);
                    }
                    return (partition, done);
                }
            }
        }
    }

    pub(crate) fn redefine(&self, resource: Arc<Resource>, definition: ContainerDefinition) {
        for partition in self.partitions().iter() {
            partition.writer().follow(&definition);
        }
        self.settings.store(Arc::new(settings_of(&definition)));
        self.definition.store(Arc::new(definition));
        self.resource.store(resource);
    }

    /// From here on it is refused to all, those who wait for its changes included.
    pub(crate) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
        self.layouts.set(());
    }

    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.deleted.load(Ordering::Acquire) {
            return Err(Error::new(Fault::OwnerNotFound, "the container has been deleted"));
        }
        Ok(())
    }

    /// The partition that owns a key.
    pub(crate) fn partition_of(&self, epk: &Epk) -> Arc<Partition> {
        let partitions = self.partitions.load();
        let after = partitions.partition_point(|partition| partition.span.min <= *epk);
        partitions[after.saturating_sub(1)].clone()
    }

    /// The whole key that a request on one item must name.
    pub(crate) fn item_partition_key(&self, key: Option<PartitionKey>) -> Result<PartitionKey> {
        let definition = &self.definition.load().partition_key;
        let key = key.ok_or_else(|| {
            Error::bad_request(format!(
                "the partition key is missing: send the header x-ms-documentdb-partitionkey with the value of {}",
                path_list(definition)
            ))
        })?;
        definition.check_full(&key)?;
        Ok(key)
    }

    /// The parts of the key space that a scope means, each with its partition, in order.
    pub(crate) fn spans_of(&self, scope: &Scope) -> Result<Vec<Span>> {
        let partitions = self.partitions();
        let wanted = match scope {
            Scope::Everything => return Ok(partitions.iter().map(whole).collect()),
            Scope::Range(id) => {
                let partition = partitions.iter().find(|partition| *partition.range == **id);
                return partition
                    .map(|partition| vec![whole(partition)])
                    .ok_or_else(|| range_gone(id));
            }
            Scope::Key(key) => {
                let definition = self.definition.load();
                definition.partition_key.check(key)?;
                definition.partition_key.range_of(key)
            }
            Scope::Epk(range) => range.clone(),
        };
        Ok(partitions.iter().filter_map(|partition| cut(partition, &wanted)).collect())
    }
}

/// A part of a partition's key space.
pub(crate) struct Span {
    pub partition: Arc<Partition>,
    pub keys: model::epk::EpkRange,
}

fn whole(partition: &Arc<Partition>) -> Span {
    Span { partition: partition.clone(), keys: partition.span.clone() }
}

fn cut(partition: &Arc<Partition>, wanted: &model::epk::EpkRange) -> Option<Span> {
    let keys = partition.span.intersect(wanted)?;
    Some(Span { partition: partition.clone(), keys })
}

pub(crate) fn range_gone(id: &str) -> Error {
    Error::new(
        Fault::RangeGone,
        format!(
            "there is no partition key range '{id}'; it may have been split: read the ranges again"
        ),
    )
}

fn path_list(definition: &model::partition_key::Definition) -> String {
    let paths: Vec<&str> = definition.paths.iter().map(|path| path.text.as_str()).collect();
    paths.join(", ")
}
