//! The account: which databases, containers, users, permissions, offers and scripts there are.
//!
//! All of it is small and held in memory; partition 0 keeps it on disk, one row per resource.
//! Changes are made one after the other ([`Engine::change`]): decided, made durable, then
//! shown. Readers look things up by name or by rid and never wait for a change.

mod change;
mod cleanup;
mod growth;
mod layout;
mod record;
mod rules;
mod state;

use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use kv::{Claim, Owner, PartitionId, Stores};
use model::epk;
use model::token::Continuation;
use model::{Error, Fault, Result, limits};
use serde_json::Value;

use crate::Scripts;
use crate::api::{Link, Page, Resource, ResourcePage, storage};
use crate::cache::Cache;
use crate::housekeep::Housekeeping;
use crate::{Container, Env, Kind};

pub(crate) use growth::Growth;
pub(crate) use record::PartitionRecord;

use cleanup::Cleanup;
use growth::Grown;
use record::Counters;
use state::{Entry, Links, State};

/// The partition that holds the catalog.
const CATALOG: PartitionId = PartitionId(0);

/// Marks the continuations made here.
const CONTINUATION_KIND: u8 = b'r';

/// How the engine behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Refuse requests beyond the provisioned throughput.
    pub enforce_throughput: bool,
    /// Memory for items that were read lately, and for where they are.
    pub cache_bytes: usize,
    /// How often background work is looked for; `None`: only when asked for.
    pub housekeeping: Option<Duration>,
    /// A partition whose items have more bytes than this is split.
    pub split_bytes: u64,
    /// What runs scripts; `None`: they can be stored only.
    pub scripts: Option<Arc<dyn Scripts>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enforce_throughput: false,
            cache_bytes: 64 << 20,
            housekeeping: Some(Duration::from_secs(2)),
            split_bytes: 50 << 30,
            scripts: None,
        }
    }
}

/// An open account.
pub struct Engine {
    stores: Arc<dyn Stores>,
    env: Env,
    options: Options,
    owner: Arc<dyn Owner>,
    state: RwLock<State>,
    /// What every request for an item looks for, without the lock.
    links: ArcSwap<Links>,
    /// Held while a change is decided and made durable.
    changing: tokio::sync::Mutex<Counters>,
    secret: [u8; 32],
    cleanup: Cleanup,
    housekeeping: Housekeeping,
    grown: Grown,
    cache: Arc<Cache>,
}

impl Engine {
    /// Opens the account that the stores hold, or begins a new one.
    pub async fn open(stores: Arc<dyn Stores>, env: Env, options: Options) -> Result<Arc<Self>> {
        let owner = stores.open_owner(CATALOG, Claim::Take).await.map_err(storage)?;
        let loaded = record::load(&*owner.published()).await?;
        let secret = match loaded.secret {
            Some(secret) => secret,
            None => record::save_secret(&*owner, env.secret()).await?,
        };
        let cleanup = Cleanup::default();
        let (grown, receiver) = Grown::new();
        let cache = Arc::new(Cache::new(options.cache_bytes));
        let state = state::restore(loaded.entries, &*stores, &cache, &env, &options).await?;
        let engine = Arc::new(Self {
            stores,
            env,
            options,
            owner,
            links: ArcSwap::new(state.links()),
            state: RwLock::new(state),
            changing: tokio::sync::Mutex::new(loaded.counters),
            secret,
            cleanup,
            housekeeping: Housekeeping::default(),
            grown,
            cache,
        });
        engine.cleanup.start(&engine, loaded.garbage);
        engine.start_growth(receiver, loaded.scaling);
        if let Some(interval) = engine.options.housekeeping {
            engine.housekeeping.start(&engine, interval);
        }
        Ok(engine)
    }

    /// Stops background work and closes the storage once everything submitted is durable.
    pub async fn close(&self) -> Result<()> {
        self.cleanup.stop();
        self.housekeeping.stop();
        self.stores.close().await.map_err(storage)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// A key for signing tokens, made once and kept with the data.
    pub fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// The resource that a link names.
    pub fn read(&self, link: &Link) -> Result<Arc<Resource>> {
        Ok(self.find(link)?.resource.clone())
    }

    /// The resource with a rid.
    pub fn by_rid(&self, rid: &str) -> Option<Arc<Resource>> {
        self.state().by_rid(rid).map(|entry| entry.resource.clone())
    }

    /// The container with a link that is made of names, `dbs/{name}/colls/{name}`.
    pub fn container_by_link(&self, link: &str) -> Option<Arc<Container>> {
        self.links.load().get(link).cloned()
    }

    /// The container with a name, or rid, in the database with a name, or rid.
    pub fn container(&self, database: &str, container: &str) -> Result<Arc<Container>> {
        let state = self.state();
        let owner = state
            .child(Kind::Database, "", database)
            .ok_or_else(|| owner_missing(Kind::Database, database))?;
        let entry = state.child(Kind::Container, &owner.resource.rid, container);
        let entry = entry.ok_or_else(|| owner_missing(Kind::Container, container))?;
        entry.container.clone().ok_or_else(|| owner_missing(Kind::Container, container))
    }

    /// A page of the resources of a kind under a parent, oldest first.
    pub fn list(&self, parent: &Link, kind: Kind, page: &Page) -> Result<ResourcePage> {
        self.select(parent, kind, page, b"", |_| true)
    }

    /// A page of the resources that a query selects.
    pub fn query(
        &self,
        parent: &Link,
        kind: Kind,
        text: &str,
        parameters: &[(String, Value)],
        page: &Page,
    ) -> Result<ResourcePage> {
        let filter = query::Filter::new(text, parameters)?;
        // What runs into a limit is not selected: resources are far too small for that.
        let keep = |resource: &Resource| {
            let document = rules::as_document(resource).to_string();
            filter.matches(document.as_bytes()).unwrap_or(false)
        };
        self.select(parent, kind, page, text.as_bytes(), keep)
    }

    fn select(
        &self,
        parent: &Link,
        kind: Kind,
        page: &Page,
        filter: &[u8],
        keep: impl Fn(&Resource) -> bool,
    ) -> Result<ResourcePage> {
        let owner = self
            .parent_of(parent, kind)?
            .map_or_else(String::new, |entry| entry.resource.rid.clone());
        let scope = token_scope(&owner, kind, filter);
        let after = match &page.continuation {
            Some(text) => position(&Continuation::decode(text, CONTINUATION_KIND, scope)?)?,
            None => 0,
        };
        let wanted = page.items.unwrap_or(limits::PAGE_ITEMS_DEFAULT).clamp(1, limits::PAGE_ITEMS);
        let mut found: Vec<Arc<Entry>> =
            self.state().after(kind, &owner, after, wanted + 1, |e| keep(&e.resource));
        let more = found.len() > wanted;
        found.truncate(wanted);
        let continuation = found.last().filter(|_| more).map(|last| {
            let position = last.seq.to_be_bytes().to_vec().into();
            Continuation { kind: CONTINUATION_KIND, scope, position }.encode()
        });
        let resources = found.iter().map(|entry| entry.resource.clone()).collect();
        Ok(ResourcePage { owner, resources, continuation })
    }

    /// Figures for people and metrics: name, value.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.stores.figures();
        let (mut containers, mut partitions, mut items, mut bytes) = (0, 0, 0, 0);
        for container in self.state().containers() {
            containers += 1;
            for partition in container.partitions().iter() {
                let head = partition.head();
                partitions += 1;
                items += head.items;
                bytes += head.bytes;
            }
        }
        figures.extend([
            ("containers", containers),
            ("partitions", partitions),
            ("items", items),
            ("item_bytes", bytes),
        ]);
        figures
    }

    /// All open containers.
    pub(crate) fn containers(&self) -> Vec<Arc<Container>> {
        self.state().containers().cloned().collect()
    }

    fn find(&self, link: &Link) -> Result<Arc<Entry>> {
        let Some((parent, kind, name)) = link.split_last() else {
            return Err(Error::bad_request("the link names no resource"));
        };
        let owner = self.parent_of(&parent, kind)?;
        let owner = owner.as_ref().map_or("", |entry| entry.resource.rid.as_str());
        self.state().child(kind, owner, name).cloned().ok_or_else(|| {
            Error::new(Fault::NotFound, format!("there is no {} '{name}' here", kind.noun()))
        })
    }

    /// What resources of a kind belong to; `None` is the account.
    fn parent_of(&self, parent: &Link, kind: Kind) -> Result<Option<Arc<Entry>>> {
        if kind.owner() != parent.0.last().map(|(kind, _)| *kind) {
            return Err(Error::bad_request(format!("a {} cannot be found there", kind.noun())));
        }
        match parent.0.last() {
            None => Ok(None),
            Some((kind, name)) => self.find(parent).map(Some).map_err(|error| match error.fault {
                Fault::NotFound => owner_missing(*kind, name),
                _ => error,
            }),
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn change_state(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(&mut state);
        self.links.store(state.links());
    }
}

fn owner_missing(kind: Kind, name: &str) -> Error {
    Error::new(Fault::OwnerNotFound, format!("there is no {} '{name}'", kind.noun()))
}

fn token_scope(owner: &str, kind: Kind, filter: &[u8]) -> u64 {
    let mut text = format!("{owner}\0{}\0", kind.segment()).into_bytes();
    text.extend_from_slice(filter);
    epk::digest64(&text)
}

fn position(continuation: &Continuation) -> Result<u64> {
    let bytes = <[u8; 8]>::try_from(&continuation.position[..]);
    bytes
        .map(u64::from_be_bytes)
        .map_err(|_| Error::bad_request("the continuation is not one of this list"))
}
