//! An account with one container over a simulated store, its clock in the test's hand.

#![allow(dead_code)] // Each test uses its share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use astrarium_engine::{
    Changed, ChangesMode, ChangesPage, ChangesRead, ChangesStart, Conditions, Container,
    CreateOptions, Engine, Env, Kind, Link, Options, ReplaceOptions, Scope, Scripts,
};
use kv::{Claim, Crashing, Keyspace, PartitionId, Scan, Stores};
use model::Result;
use model::partition_key::{Component, PartitionKey};
use serde_json::{Map, Value, json};

pub struct Account {
    pub store: Crashing,
    pub engine: Arc<Engine>,
    pub clock: Arc<AtomicU64>,
}

impl Account {
    /// An account with the container `db/c`.
    pub async fn with(policy: Value) -> Self {
        Self::with_scripts(policy, None).await
    }

    /// The same, with something that runs scripts.
    pub async fn with_scripts(policy: Value, scripts: Option<Arc<dyn Scripts>>) -> Self {
        let (store, clock) = (Crashing::auto(), Arc::new(AtomicU64::new(1_700_000_000_000)));
        let engine = open(&store, &clock, scripts).await;
        let account = Self { store, engine, clock };
        let none = CreateOptions::default();
        let (database, container) = (object(json!({"id": "db"})), body(policy));
        let root = Link::default();
        account.engine.create(&root, Kind::Database, database, none.clone()).await.unwrap();
        account.engine.create(&link(&["db"]), Kind::Container, container, none).await.unwrap();
        account
    }

    pub async fn restart(&mut self) {
        self.store.crash(0);
        self.store.reopen();
        self.engine = open(&self.store, &self.clock, None).await;
    }

    pub fn container(&self) -> Arc<Container> {
        self.engine.container("db", "c").unwrap()
    }

    pub async fn redefine(&self, policy: Value) {
        let options = ReplaceOptions::default();
        self.engine.replace(&link(&["db", "c"]), body(policy), options).await.unwrap();
    }

    pub fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    pub async fn put(&self, id: &str, rest: Value) -> u64 {
        let mut body = object(json!({"id": id, "pk": "k"}));
        body.extend(object(rest));
        let body = Value::Object(body).to_string();
        let put = self.container();
        let put = put.upsert_item(key("k"), body.into(), &Conditions::default()).await.unwrap();
        put.result.unwrap();
        put.at.lsn
    }

    pub async fn delete(&self, id: &str) -> u64 {
        let container = self.container();
        let done = container.delete_item(id, key("k"), &Conditions::default()).await.unwrap();
        done.result.unwrap();
        done.at.lsn
    }

    pub async fn exists(&self, id: &str) -> bool {
        self.container().read_item(id, key("k"), None).await.unwrap().result.is_ok()
    }

    pub async fn read(&self, mode: ChangesMode, start: ChangesStart) -> Result<ChangesPage> {
        let read = ChangesRead { scope: Scope::Everything, start, mode, items: Some(1000) };
        self.container().read_changes(&read, None).await?.result
    }

    /// The changes, a word each.
    pub async fn words(&self, mode: ChangesMode, start: ChangesStart) -> Vec<String> {
        self.read(mode, start).await.unwrap().changes.iter().map(word).collect()
    }

    pub async fn housekeep(&self) {
        while self.engine.housekeep().await {}
    }

    /// All rows of the container's only partition. Ends the engine's ownership.
    pub async fn rows(&self, keyspace: Keyspace) -> Vec<(bytes::Bytes, bytes::Bytes)> {
        let owner = self.store.open_owner(PartitionId(1), Claim::Take).await.unwrap();
        let scan = Scan {
            keyspace,
            from: std::ops::Bound::Unbounded,
            to: std::ops::Bound::Unbounded,
            reverse: false,
            rows: usize::MAX,
            bytes: usize::MAX,
            keys_only: false,
        };
        owner.published().scan(scan).await.unwrap().rows
    }
}

/// A change as a word: what happened, to which item, and which value it had and has.
pub fn word(change: &Changed) -> String {
    let value = |body: &[u8]| match serde_json::from_slice::<Value>(body) {
        Ok(body) => (body["id"].as_str().unwrap().to_owned(), body["v"].to_string()),
        Err(_) => (String::new(), String::new()),
    };
    let (id, v) = value(&change.body);
    let Some(detail) = &change.detail else { return format!("{id}={v}") };
    let operation = format!("{:?}", detail.operation).to_lowercase();
    let expired = if detail.expired { " expired" } else { "" };
    let before =
        detail.previous.as_ref().map_or(String::new(), |body| format!(" was {}", value(body).1));
    match &detail.id {
        Some(id) => format!("{operation}{expired} {id} {}{before}", detail.key.as_ref().unwrap()),
        None => format!("{operation} {id}={v}{before}"),
    }
}

async fn open(
    store: &Crashing,
    clock: &Arc<AtomicU64>,
    scripts: Option<Arc<dyn Scripts>>,
) -> Arc<Engine> {
    let clock = clock.clone();
    let env = Env::new(move || clock.load(Ordering::Relaxed), || 7);
    let options = Options { housekeeping: None, scripts, ..Options::default() };
    Engine::open(Arc::new(store.clone()), env, options).await.unwrap()
}

pub fn link(names: &[&str]) -> Link {
    let kinds = [Kind::Database, Kind::Container];
    Link(kinds.into_iter().zip(names.iter().map(|name| (*name).to_owned())).collect())
}

fn body(policy: Value) -> Map<String, Value> {
    let mut body = object(json!({"id": "c", "partitionKey": {"paths": ["/pk"]}}));
    body.extend(object(policy));
    body
}

pub fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object is expected") };
    map
}

pub fn key(value: &str) -> Option<PartitionKey> {
    Some(PartitionKey(vec![Component::String(value.into())]))
}
