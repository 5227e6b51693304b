//! Changes of the catalog, made one after the other.
//!
//! A change is decided from the state there is, made durable as one batch, and only then
//! shown to readers. Removing a database or container removes all it owns in the same batch;
//! the rows of its partitions are left to [`Cleanup`](super::cleanup::Cleanup), which the
//! batch tells what to remove.

use std::sync::Arc;

use kv::Op;
use model::epk::EpkRange;
use model::policy::ContainerDefinition;
use model::rid::{ChildKind, ChildRid, ContainerRid, DatabaseRid, OfferRid, UserRid};
use model::throughput::Throughput;
use model::token::Etag;
use model::{Error, Fault, Result, limits};
use serde_json::{Map, Value};

use crate::api::{Conditions, CreateOptions, Created, Link, ReplaceOptions, Resource, storage};
use crate::catalog::record::{self, Counters, PartitionRecord, Record};
use crate::catalog::state::{self, Entry};
use crate::catalog::{Engine, rules};
use crate::container::Opened;
use crate::item::check_conditions;
use crate::keys::corrupt;
use crate::rate::Rate;
use crate::{Container, Kind, offer};

/// What a change does, once decided.
#[derive(Default)]
struct Change {
    put: Vec<Entry>,
    remove: Vec<Arc<Entry>>,
    /// Containers, and how many partitions each of them is to get.
    scale: (Vec<Arc<Container>>, usize),
}

impl Engine {
    /// Makes a resource.
    pub async fn create(
        &self,
        parent: &Link,
        kind: Kind,
        body: Map<String, Value>,
        options: CreateOptions,
    ) -> Result<Created> {
        let mut counters = self.changing.lock().await;
        let owner = self.parent_of(parent, kind)?;
        let body = rules::accept(kind, body)?;
        let id = rules::id_of(&body)?;
        let owner_rid = owner.as_ref().map_or("", |owner| owner.resource.rid.as_str());
        let existing = self
            .state()
            .child(kind, owner_rid, &id)
            .filter(|entry| entry.resource.id == id)
            .cloned();
        if let Some(existing) = existing {
            if !options.upsert || matches!(kind, Kind::Database | Kind::Container) {
                return Err(Error::new(
                    Fault::Conflict,
                    format!("a {} with id '{id}' exists", kind.noun()),
                ));
            }
            let resource = self.revise(&mut counters, existing, body).await?;
            return Ok(Created { resource, created: false });
        }
        self.check_siblings(kind, owner_rid, &body, None)?;
        let seq = next(&mut counters);
        let resource = self.resource(kind, owner.as_deref(), seq, id, body)?;
        let mut change = Change::default();
        let offer = self.offer_for(&mut counters, &resource, owner_rid, options.throughput)?;
        let entry = match kind {
            Kind::Container => {
                let database = owner.as_ref().expect("a container is made in a database");
                self.new_container(&mut counters, seq, resource, database, offer.as_ref()).await?
            }
            _ => plain(seq, resource),
        };
        let resource = entry.resource.clone();
        change.put.push(entry);
        change.put.extend(offer);
        self.change(&counters, change).await?;
        Ok(Created { resource, created: true })
    }

    /// Replaces what a resource says.
    pub async fn replace(
        self: &Arc<Self>,
        link: &Link,
        body: Map<String, Value>,
        options: ReplaceOptions,
    ) -> Result<Arc<Resource>> {
        let mut counters = self.changing.lock().await;
        let entry = self.find(link)?;
        check_conditions(&options.conditions, &entry.resource.etag)?;
        match entry.resource.kind {
            Kind::Database => {
                Err(Error::new(Fault::MethodNotAllowed, "a database cannot be replaced"))
            }
            Kind::Offer => self.replace_offer(&mut counters, entry, &body, &options).await,
            Kind::Container => {
                let body = self.redefined(&entry, &body)?;
                self.revise(&mut counters, entry, body).await
            }
            kind => {
                let body = rules::accept(kind, body)?;
                self.revise(&mut counters, entry, body).await
            }
        }
    }

    /// Removes a resource and all it owns.
    pub async fn delete(&self, link: &Link, conditions: Conditions) -> Result<()> {
        let counters = self.changing.lock().await;
        let entry = self.find(link)?;
        check_conditions(&conditions, &entry.resource.etag)?;
        if entry.resource.kind == Kind::Offer {
            return Err(Error::new(
                Fault::MethodNotAllowed,
                "an offer goes with its database or container",
            ));
        }
        let mut change = Change::default();
        self.collect(entry, &mut change.remove);
        self.change(&counters, change).await
    }

    /// The lowest throughput that an offer may be set to.
    pub fn offer_minimum(&self, offer: &Resource) -> u32 {
        let state = self.state();
        let highest = state.by_rid(&offer.rid).map_or(0, |entry| entry.highest);
        let target = offer::resource_of(offer).and_then(|rid| state.by_rid(rid).cloned());
        let Some(target) = target else { return 0 };
        let children = state.children(Kind::Container, &target.resource.rid);
        let shared = target.resource.kind == Kind::Database;
        let held = children.iter().chain([&target]).filter_map(|entry| entry.container.as_ref());
        let bytes: u64 = held
            .flat_map(|c| c.partitions().iter().map(|p| p.head().bytes).collect::<Vec<_>>())
            .sum();
        match offer::throughput_of(offer) {
            Ok(throughput) => throughput.minimum(highest, bytes >> 30, children.len(), shared),
            Err(_) => 0,
        }
    }

    /// Makes a change durable, then shows it.
    async fn change(&self, counters: &Counters, change: Change) -> Result<()> {
        let mut batch = vec![record::put_counters(*counters)];
        batch.extend(change.put.iter().map(|entry| record::put(&entry.record())));
        batch.extend(change.remove.iter().map(|entry| record::remove(&entry.resource.rid)));
        let garbage: Vec<u32> = change
            .remove
            .iter()
            .flat_map(|entry| entry.partitions.iter().map(|p| p.number))
            .collect();
        batch.extend(garbage.iter().map(|number| record::put_garbage(*number)));
        // What was asked for before counts no more. Mostly there is nothing to remove.
        let offers = change.put.iter().filter_map(|entry| offer::resource_of(&entry.resource));
        let removed = change.remove.iter().filter(|entry| entry.container.is_some());
        let unscaled = offers.chain(removed.map(|entry| entry.resource.rid.as_str()));
        batch.extend(unscaled.map(record::remove_scaling));
        let offers = change.put.iter().filter(|entry| entry.resource.kind == Kind::Offer);
        for container in offers.flat_map(|entry| self.provisioned(&entry.resource)) {
            batch.push(record::remove_scaling(container.rid()));
        }
        let (containers, wanted) = &change.scale;
        let scale = containers.iter();
        batch.extend(scale.map(|container| record::put_scaling(container.rid(), *wanted)));
        self.submit(batch).await?;
        for entry in change.remove.iter().filter_map(|entry| entry.container.as_ref()) {
            entry.mark_deleted();
        }
        self.change_state(|state| {
            for entry in &change.remove {
                state.remove(&entry.resource.rid);
            }
            for entry in change.put {
                state.put(Arc::new(entry));
            }
        });
        self.cleanup.add(garbage);
        Ok(())
    }

    pub(super) async fn submit(&self, batch: Vec<Op>) -> Result<()> {
        self.owner.submit(batch).map_err(storage)?.durable().await.map_err(storage)
    }

    /// A new version of a resource.
    async fn revise(
        &self,
        counters: &mut Counters,
        entry: Arc<Entry>,
        body: Map<String, Value>,
    ) -> Result<Arc<Resource>> {
        let old = &entry.resource;
        let id = rules::id_of(&body)?;
        self.check_siblings(old.kind, &old.owner, &body, Some(&old.rid))?;
        let taken = self.state().child(old.kind, &old.owner, &id).cloned();
        if taken.is_some_and(|other| other.resource.rid != old.rid && other.resource.id == id) {
            return Err(Error::new(
                Fault::Conflict,
                format!("a {} with id '{id}' exists", old.kind.noun()),
            ));
        }
        let ts = self.env.now_seconds();
        let etag = Etag::new(next(counters), 0, 0, ts);
        let resource = Arc::new(Resource { id, etag, ts, body, ..(**old).clone() });
        let definition = match &entry.container {
            Some(_) => Some(ContainerDefinition::from_stored(&resource.body)?),
            None => None,
        };
        let revised = Entry { resource: resource.clone(), ..entry.duplicate() };
        self.change(counters, Change { put: vec![revised], ..Change::default() }).await?;
        if let (Some(container), Some(definition)) = (&entry.container, definition) {
            container.redefine(resource.clone(), definition);
            container.settle_policies().await?;
        }
        Ok(resource)
    }

    fn redefined(&self, entry: &Entry, body: &Map<String, Value>) -> Result<Map<String, Value>> {
        let container = entry.container.as_ref().ok_or_else(|| corrupt("a container"))?;
        let definition = container.definition().replace(body)?;
        for partition in container.partitions().iter() {
            partition.writer().indexing().check_room(&definition.index_rules)?;
        }
        Ok(definition.to_json().clone())
    }

    async fn replace_offer(
        self: &Arc<Self>,
        counters: &mut Counters,
        entry: Arc<Entry>,
        body: &Map<String, Value>,
        options: &ReplaceOptions,
    ) -> Result<Arc<Resource>> {
        let old = &entry.resource;
        self.check_not_scaling(old)?;
        let minimum = self.offer_minimum(old);
        let throughput = offer::replaced(old, body, minimum, entry.highest, options.migration)?;
        let ts = self.env.now_seconds();
        let etag = Etag::new(next(counters), 0, 0, ts);
        let body = offer::with_throughput(&old.body, &throughput);
        let resource = Arc::new(Resource { etag, ts, body, ..(**old).clone() });
        let highest = entry.highest.max(throughput.ru_per_second());
        let revised = Entry { resource: resource.clone(), highest, ..entry.duplicate() };
        let wanted = throughput.partitions();
        let grown = self.to_scale(old, wanted);
        let scale = (grown.clone(), wanted);
        let change = Change { put: vec![revised], scale, ..Change::default() };
        self.change(counters, change).await?;
        if let Some(rate) = &entry.rate {
            rate.set(throughput.ru_per_second());
        }
        for container in grown {
            self.scale(container, wanted);
        }
        Ok(resource)
    }

    /// An entry, everything below it, and the offers of all of these.
    fn collect(&self, entry: Arc<Entry>, found: &mut Vec<Arc<Entry>>) {
        let rid = &entry.resource.rid;
        for kind in Kind::ALL.into_iter().filter(|kind| kind.owner() == Some(entry.resource.kind)) {
            let children = self.state().children(kind, rid);
            for child in children {
                self.collect(child, found);
            }
        }
        found.extend(self.state().offer_of(rid));
        found.push(entry);
    }

    /// What a resource may not share with its siblings, beside the id.
    fn check_siblings(
        &self,
        kind: Kind,
        owner: &str,
        body: &Map<String, Value>,
        except: Option<&str>,
    ) -> Result<()> {
        let state = self.state();
        if matches!(kind, Kind::Database | Kind::Container)
            && except.is_none()
            && state.counted() >= limits::ACCOUNT_RESOURCES
        {
            let most = limits::ACCOUNT_RESOURCES;
            return Err(Error::new(
                Fault::Forbidden,
                format!("an account holds at most {most} databases and containers"),
            ));
        }
        if kind != Kind::Permission {
            return Ok(());
        }
        let same = |entry: &Arc<Entry>| {
            Some(entry.resource.rid.as_str()) != except
                && ["resource", "resourcePartitionKey"]
                    .iter()
                    .all(|name| entry.resource.body.get(*name) == body.get(*name))
        };
        if state.children(kind, owner).iter().any(same) {
            return Err(Error::new(Fault::Conflict, "the user has a permission on this resource"));
        }
        Ok(())
    }

    fn resource(
        &self,
        kind: Kind,
        owner: Option<&Entry>,
        seq: u64,
        id: String,
        body: Map<String, Value>,
    ) -> Result<Resource> {
        let owner = owner.map(|entry| &*entry.resource);
        let rid = new_rid(kind, owner.map(|owner| owner.rid.as_str()), seq)?;
        let above = owner.map_or("", |owner| owner.self_link.as_str());
        let ts = self.env.now_seconds();
        Ok(Resource {
            kind,
            id,
            self_link: format!("{above}{}/{rid}/", kind.segment()),
            rid,
            owner: owner.map_or_else(String::new, |owner| owner.rid.clone()),
            etag: Etag::new(seq, 0, 0, ts),
            ts,
            body,
        })
    }

    /// The offer that a new database or container gets. A container in a database with
    /// throughput of its own shares that unless it asks for more.
    fn offer_for(
        &self,
        counters: &mut Counters,
        target: &Resource,
        owner_rid: &str,
        throughput: Option<Throughput>,
    ) -> Result<Option<Entry>> {
        let shared = self.state().offer_of(owner_rid);
        let throughput = match (target.kind, throughput) {
            (Kind::Database | Kind::Container, Some(throughput)) => throughput,
            (Kind::Container, None) => match shared {
                None => offer::DEFAULT,
                Some(shared) => return self.check_sharers(&shared.resource).map(|()| None),
            },
            (_, None) => return Ok(None),
            (kind, Some(_)) => {
                return Err(Error::bad_request(format!("a {} has no throughput", kind.noun())));
            }
        };
        let seq = next(counters);
        let rid = new_rid(Kind::Offer, None, seq)?;
        let body = offer::body(&rid, target, &throughput);
        let resource = self.resource(Kind::Offer, None, seq, rid, body)?;
        let rate = state::rate_of(&resource, &self.env, &self.options)?;
        let highest = throughput.ru_per_second();
        Ok(Some(Entry { highest, rate, ..plain(seq, resource) }))
    }

    fn check_sharers(&self, shared: &Resource) -> Result<()> {
        if self.provisioned(shared).len() < limits::SHARING_CONTAINERS {
            return Ok(());
        }
        Err(Error::new(
            Fault::TooManySharers,
            format!(
                "{} containers share the throughput of the database, and no more can: give this \
                 one a throughput of its own",
                limits::SHARING_CONTAINERS
            ),
        ))
    }

    async fn new_container(
        &self,
        counters: &mut Counters,
        seq: u64,
        resource: Resource,
        database: &Entry,
        offer: Option<&Entry>,
    ) -> Result<Entry> {
        let definition = ContainerDefinition::from_stored(&resource.body)?;
        let shared = self.state().offer_of(&database.resource.rid);
        let pieces = match offer.or(shared.as_deref()) {
            // All hashes of version 1 begin alike, so cutting the key space evenly cuts off nothing.
            Some(offer) if definition.partition_key.version > 1 => {
                offer::throughput_of(&offer.resource)?.partitions()
            }
            _ => 1,
        };
        let records = new_partitions(counters, pieces);
        let partitions = state::open_partitions(&records, &*self.stores, &self.cache).await?;
        let rate: Option<Arc<Rate>> = offer.or(shared.as_deref()).and_then(|one| one.rate.clone());
        let resource = Arc::new(resource);
        let container = Container::new(Opened {
            rid: ContainerRid::parse(&resource.rid).expect("the rid was just made"),
            link: format!("dbs/{}/colls/{}", database.resource.id, resource.id),
            resource: resource.clone(),
            definition,
            partitions,
            rate,
            env: self.env.clone(),
        });
        self.look_after(&container);
        Ok(Entry {
            seq,
            resource,
            partitions: records,
            highest: 0,
            container: Some(container),
            rate: None,
        })
    }
}

impl Entry {
    pub(super) fn record(&self) -> Record {
        Record {
            seq: self.seq,
            resource: (*self.resource).clone(),
            partitions: self.partitions.clone(),
            highest: self.highest,
        }
    }

    pub(super) fn duplicate(&self) -> Self {
        let Self { seq, resource, partitions, highest, container, rate } = self;
        Self {
            seq: *seq,
            resource: resource.clone(),
            partitions: partitions.clone(),
            highest: *highest,
            container: container.clone(),
            rate: rate.clone(),
        }
    }
}

fn plain(seq: u64, resource: Resource) -> Entry {
    Entry {
        seq,
        resource: Arc::new(resource),
        partitions: Vec::new(),
        highest: 0,
        container: None,
        rate: None,
    }
}

fn next(counters: &mut Counters) -> u64 {
    counters.seq += 1;
    counters.seq - 1
}

fn new_partitions(counters: &mut Counters, pieces: usize) -> Vec<PartitionRecord> {
    let spans = EpkRange::full().split_even(pieces);
    let mut records = Vec::with_capacity(pieces);
    for (n, span) in spans.into_iter().enumerate() {
        records.push(PartitionRecord {
            number: counters.partition,
            range: n.to_string(),
            span,
            parents: Vec::new(),
        });
        counters.partition += 1;
    }
    records
}

/// A resource id that was never given out before.
fn new_rid(kind: Kind, owner: Option<&str>, seq: u64) -> Result<String> {
    let exhausted = || Error::new(Fault::Internal, "the account has run out of resource ids");
    let number =
        u32::try_from(seq).ok().filter(|number| *number < 1 << 31).ok_or_else(exhausted)?;
    let database = || owner.and_then(DatabaseRid::parse).ok_or_else(|| corrupt("a database's rid"));
    let child = |kind: ChildKind| {
        let owner = owner.and_then(eight_bytes).ok_or_else(|| corrupt("an owner's rid"))?;
        Ok::<_, Error>(ChildRid { owner, kind, ordinal: seq }.to_string())
    };
    Ok(match kind {
        Kind::Database => DatabaseRid(number).to_string(),
        Kind::Container => ContainerRid { database: database()?.0, container: number }.to_string(),
        Kind::User => UserRid { database: database()?.0, user: number }.to_string(),
        Kind::ClientEncryptionKey => UserRid { database: database()?.0, user: number }.to_string(),
        Kind::Offer => OfferRid(number & 0x00FF_FFFF).to_string(),
        Kind::Permission => child(ChildKind::Permission)?,
        Kind::StoredProcedure => child(ChildKind::StoredProcedure)?,
        Kind::Trigger => child(ChildKind::Trigger)?,
        Kind::UserDefinedFunction => child(ChildKind::Udf)?,
    })
}

fn eight_bytes(rid: &str) -> Option<[u8; 8]> {
    let container = ContainerRid::parse(rid).map(ContainerRid::to_bytes);
    container.or_else(|| UserRid::parse(rid).map(UserRid::to_bytes))
}
