//! The catalog as readers see it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::HashMap;
use kv::Stores;
use model::Result;
use model::policy::ContainerDefinition;
use model::rid::ContainerRid;
use model::throughput::Throughput;

use crate::api::Resource;
use crate::cache::Cache;
use crate::catalog::Options;
use crate::catalog::record::{PartitionRecord, Record};
use crate::container::Opened;
use crate::keys::corrupt;
use crate::offer;
use crate::partition::Partition;
use crate::rate::Rate;
use crate::{Container, Env, Kind};

/// A resource, and what is open of it.
pub(crate) struct Entry {
    /// Its place in lists: grows with creation.
    pub seq: u64,
    pub resource: Arc<Resource>,
    /// Where a container's items are.
    pub partitions: Vec<PartitionRecord>,
    /// The highest throughput an offer ever had.
    pub highest: u32,
    pub container: Option<Arc<Container>>,
    /// For offers whose throughput is enforced.
    pub rate: Option<Arc<Rate>>,
}

/// Open containers by their links, which are made of names.
pub(crate) type Links = HashMap<String, Arc<Container>>;

/// All resources, by rid, by name and in order.
#[derive(Default)]
pub(crate) struct State {
    by_rid: HashMap<String, Arc<Entry>>,
    by_link: Arc<Links>,
    /// By kind and the owner's rid.
    families: HashMap<Kind, HashMap<String, Family>>,
}

#[derive(Default)]
struct Family {
    by_name: HashMap<String, Arc<Entry>>,
    in_order: BTreeMap<u64, Arc<Entry>>,
}

impl State {
    /// The containers by their links, as they are now.
    pub fn links(&self) -> Arc<Links> {
        self.by_link.clone()
    }

    pub fn by_rid(&self, rid: &str) -> Option<&Arc<Entry>> {
        self.by_rid.get(rid)
    }

    /// A child by its name, or else by its rid.
    pub fn child(&self, kind: Kind, owner: &str, name: &str) -> Option<&Arc<Entry>> {
        let family = self.families.get(&kind)?.get(owner)?;
        family.by_name.get(name).or_else(|| {
            let own =
                |entry: &&Arc<Entry>| entry.resource.kind == kind && entry.resource.owner == owner;
            self.by_rid.get(name).filter(own)
        })
    }

    /// Children after a place in the order.
    pub fn after(
        &self,
        kind: Kind,
        owner: &str,
        after: u64,
        most: usize,
        keep: impl Fn(&Entry) -> bool,
    ) -> Vec<Arc<Entry>> {
        let Some(family) = self.families.get(&kind).and_then(|families| families.get(owner)) else {
            return Vec::new();
        };
        let rest = family.in_order.range((Bound::Excluded(after), Bound::Unbounded));
        rest.map(|(_, entry)| entry).filter(|entry| keep(entry)).take(most).cloned().collect()
    }

    /// Everything of a kind under an owner.
    pub fn children(&self, kind: Kind, owner: &str) -> Vec<Arc<Entry>> {
        self.after(kind, owner, 0, usize::MAX, |_| true)
    }

    /// The offer of a database or container.
    pub fn offer_of(&self, rid: &str) -> Option<Arc<Entry>> {
        let family = self.families.get(&Kind::Offer)?.get("")?;
        family
            .in_order
            .values()
            .find(|entry| offer::resource_of(&entry.resource) == Some(rid))
            .cloned()
    }

    /// All open containers.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.by_rid.values().filter_map(|entry| entry.container.as_ref())
    }

    /// Databases and containers.
    pub fn counted(&self) -> usize {
        let counts =
            |entry: &&Arc<Entry>| matches!(entry.resource.kind, Kind::Database | Kind::Container);
        self.by_rid.values().filter(counts).count()
    }

    pub fn put(&mut self, entry: Arc<Entry>) {
        self.remove(&entry.resource.rid);
        if let Some(container) = &entry.container {
            let link = container.link().to_owned();
            Arc::make_mut(&mut self.by_link).insert(link, container.clone());
        }
        let family = self.families.entry(entry.resource.kind).or_default();
        let family = family.entry(entry.resource.owner.clone()).or_default();
        family.by_name.insert(entry.resource.id.clone(), entry.clone());
        family.in_order.insert(entry.seq, entry.clone());
        self.by_rid.insert(entry.resource.rid.clone(), entry);
    }

    pub fn remove(&mut self, rid: &str) -> Option<Arc<Entry>> {
        let entry = self.by_rid.remove(rid)?;
        if let Some(container) = &entry.container {
            Arc::make_mut(&mut self.by_link).remove(container.link());
        }
        let families = self.families.get_mut(&entry.resource.kind)?;
        let family = families.get_mut(&entry.resource.owner)?;
        family.by_name.remove(&entry.resource.id);
        family.in_order.remove(&entry.seq);
        if family.in_order.is_empty() {
            families.remove(&entry.resource.owner);
        }
        Some(entry)
    }
}

/// Opens everything that was stored.
pub(crate) async fn restore(
    mut records: Vec<Record>,
    stores: &dyn Stores,
    cache: &Arc<Cache>,
    env: &Env,
    options: &Options,
) -> Result<State> {
    // Owners before what they own, and offers before the containers they limit.
    records.sort_by_key(|record| (record.resource.kind == Kind::Container, record.seq));
    let mut state = State::default();
    for record in records {
        let rate = match record.resource.kind {
            Kind::Offer => rate_of(&record.resource, env, options)?,
            _ => None,
        };
        let container = match record.resource.kind {
            Kind::Container => Some(open_container(&record, &state, stores, cache, env).await?),
            _ => None,
        };
        let Record { seq, resource, partitions, highest } = record;
        state.put(Arc::new(Entry {
            seq,
            resource: Arc::new(resource),
            partitions,
            highest,
            container,
            rate,
        }));
    }
    Ok(state)
}

/// The bucket of an offer, where throughput is enforced.
pub(crate) fn rate_of(offer: &Resource, env: &Env, options: &Options) -> Result<Option<Arc<Rate>>> {
    if !options.enforce_throughput {
        return Ok(None);
    }
    let throughput: Throughput = offer::throughput_of(offer)?;
    Ok(Some(Arc::new(Rate::new(throughput.ru_per_second(), env.now_ms()))))
}

async fn open_container(
    record: &Record,
    state: &State,
    stores: &dyn Stores,
    cache: &Arc<Cache>,
    env: &Env,
) -> Result<Arc<Container>> {
    let resource = &record.resource;
    let own = state.offer_of(&resource.rid);
    let offer = own.or_else(|| state.offer_of(&resource.owner));
    let rate = offer.and_then(|offer| offer.rate.clone());
    let database =
        state.by_rid(&resource.owner).ok_or_else(|| corrupt("a container without its database"))?;
    let definition = ContainerDefinition::from_stored(&resource.body)?;
    let partitions = open_partitions(&record.partitions, stores, cache).await?;
    Ok(Container::new(Opened {
        rid: ContainerRid::parse(&resource.rid).ok_or_else(|| corrupt("a container's rid"))?,
        link: format!("dbs/{}/colls/{}", database.resource.id, resource.id),
        resource: Arc::new(resource.clone()),
        definition,
        partitions,
        rate,
        env: env.clone(),
    }))
}

/// Opens the partitions of a container, lowest span first.
pub(crate) async fn open_partitions(
    records: &[PartitionRecord],
    stores: &dyn Stores,
    cache: &Arc<Cache>,
) -> Result<Vec<Arc<Partition>>> {
    let mut partitions = Vec::with_capacity(records.len());
    for PartitionRecord { number, range, span, parents } in records {
        let range = Arc::from(range.as_str());
        partitions.push(
            Partition::open(stores, cache.clone(), *number, range, span.clone(), parents.clone())
                .await?,
        );
    }
    partitions.sort_by(|a, b| a.span.min.cmp(&b.span.min));
    Ok(partitions)
}
