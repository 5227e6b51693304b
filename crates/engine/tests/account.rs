//! What is administered: made, listed, changed, removed, and still so after a restart.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use astrarium_engine::{
    BatchKind, BatchOperation, Conditions, Container, CreateOptions, Engine, Env, ItemPage, Kind,
    Link, Options, Page, ReplaceOptions, Scope,
};
use kv::{Crashing, Keyspace, PartitionId, Stores};
use model::partition_key::{Component, PartitionKey};
use model::throughput::Throughput;
use model::{Fault, Result};
use serde_json::{Map, Value, json};

struct Account {
    store: Crashing,
    engine: Arc<Engine>,
    clock: Arc<AtomicU64>,
    options: Options,
}

impl Account {
    async fn new() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let (store, clock) = (Crashing::auto(), Arc::new(AtomicU64::new(1_700_000_000_000)));
        let engine = open(&store, &clock, &options).await;
        Self { store, engine, clock, options }
    }

    async fn restart(&mut self) {
        self.store.crash(0);
        self.store.reopen();
        self.engine = open(&self.store, &self.clock, &self.options).await;
    }

    fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    async fn create(&self, parent: &str, kind: Kind, body: Value) -> Result<String> {
        self.create_with(parent, kind, body, None).await
    }

    async fn create_with(
        &self,
        parent: &str,
        kind: Kind,
        body: Value,
        ru: Option<u32>,
    ) -> Result<String> {
        let options = CreateOptions { throughput: ru.map(Throughput::Manual), upsert: false };
        let created = self.engine.create(&link(parent), kind, object(body), options).await?;
        Ok(created.resource.rid.clone())
    }

    async fn container(&self, policy: Value) -> Arc<Container> {
        self.create("", Kind::Database, json!({"id": "db"})).await.unwrap();
        let mut body = object(json!({"id": "c", "partitionKey": {"paths": ["/pk"]}}));
        body.extend(object(policy));
        self.create("dbs/db", Kind::Container, Value::Object(body)).await.unwrap();
        self.engine.container("db", "c").unwrap()
    }

    fn names(&self, parent: &str, kind: Kind) -> Vec<String> {
        let mut names = Vec::new();
        let mut page = Page { items: Some(2), continuation: None };
        loop {
            let found = self.engine.list(&link(parent), kind, &page).unwrap();
            names.extend(found.resources.iter().map(|resource| resource.id.clone()));
            match found.continuation {
                Some(continuation) => page.continuation = Some(continuation),
                None => return names,
            }
        }
    }
}

async fn open(store: &Crashing, clock: &Arc<AtomicU64>, options: &Options) -> Arc<Engine> {
    let clock = clock.clone();
    let env = Env::new(move || clock.load(Ordering::Relaxed), || 7);
    Engine::open(Arc::new(store.clone()), env, options.clone()).await.unwrap()
}

fn link(text: &str) -> Link {
    let mut steps = Vec::new();
    let mut words = text.split('/').filter(|word| !word.is_empty());
    while let (Some(segment), Some(name)) = (words.next(), words.next()) {
        let kind = Kind::ALL.into_iter().find(|kind| kind.segment() == segment).unwrap();
        steps.push((kind, name.to_owned()));
    }
    Link(steps)
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object is expected") };
    map
}

fn key(value: &str) -> Option<PartitionKey> {
    Some(PartitionKey(vec![Component::String(value.into())]))
}

async fn put(container: &Container, pk: &str, id: &str) -> Result<()> {
    let body = json!({"id": id, "pk": pk}).to_string();
    container.upsert_item(key(pk), body.into(), &Conditions::default()).await?.result.map(drop)
}

async fn everything(container: &Container, scope: Scope) -> Vec<String> {
    let mut ids = Vec::new();
    let mut page = Page { items: Some(3), continuation: None };
    loop {
        let ItemPage { bodies, continuation } =
            container.read_items(&scope, &page, None).await.unwrap().result.unwrap();
        for body in bodies {
            let body: Value = serde_json::from_slice(&body).unwrap();
            ids.push(body["id"].as_str().unwrap().to_owned());
        }
        match continuation {
            Some(continuation) => page.continuation = Some(continuation),
            None => break,
        }
    }
    ids.sort();
    ids
}

#[tokio::test]
async fn resources_are_listed_oldest_first_and_survive_a_restart() {
    let mut account = Account::new().await;
    for id in ["c", "a", "b", "d", "e"] {
        account.create("", Kind::Database, json!({"id": id})).await.unwrap();
    }
    assert_eq!(account.names("", Kind::Database), ["c", "a", "b", "d", "e"]);
    account.engine.delete(&link("dbs/b"), Conditions::default()).await.unwrap();
    account.restart().await;
    assert_eq!(account.names("", Kind::Database), ["c", "a", "d", "e"]);
    let error = account.create("", Kind::Database, json!({"id": "a"})).await.unwrap_err();
    assert_eq!(error.fault, Fault::Conflict);
}

#[tokio::test]
async fn a_recreated_container_is_another_one() {
    let mut account = Account::new().await;
    let container = account.container(json!({})).await;
    put(&container, "k", "1").await.unwrap();
    account.engine.delete(&link("dbs/db/colls/c"), Conditions::default()).await.unwrap();
    let gone = put(&container, "k", "2").await.unwrap_err();
    assert_eq!(gone.fault, Fault::OwnerNotFound);
    assert_eq!(account.engine.container("db", "c").err().unwrap().fault, Fault::OwnerNotFound);
    account.restart().await;
    let rid = account
        .create("dbs/db", Kind::Container, json!({"id": "c", "partitionKey": {"paths": ["/pk"]}}))
        .await
        .unwrap();
    assert_ne!(rid, container.rid());
    let again = account.engine.container("db", "c").unwrap();
    assert_eq!(everything(&again, Scope::Everything).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_container_is_found_by_its_link_for_as_long_as_it_is_there() {
    let mut account = Account::new().await;
    let container = account.container(json!({})).await;
    let rid = |account: &Account| {
        account
            .engine
            .container_by_link("dbs/db/colls/c")
            .map(|container| container.rid().to_owned())
    };
    assert_eq!(rid(&account).as_deref(), Some(container.rid()));
    account.restart().await;
    assert_eq!(rid(&account).as_deref(), Some(container.rid()));
    let by_rid = format!("dbs/db/colls/{}", container.rid());
    assert!(account.engine.container_by_link(&by_rid).is_none(), "rids are no names");
    account.engine.delete(&link("dbs/db"), Conditions::default()).await.unwrap();
    assert_eq!(rid(&account), None);
    let again = account.container(json!({})).await;
    assert_eq!(rid(&account).as_deref(), Some(again.rid()));
    assert_ne!(again.rid(), container.rid());
}

#[tokio::test]
async fn a_deleted_container_leaves_no_rows() {
    let account = Account::new().await;
    let container = account.container(json!({})).await;
    for n in 0..100 {
        put(&container, "k", &n.to_string()).await.unwrap();
    }
    // The first partition after the catalog's is the container's.
    let rows = async |keyspace| {
        let owner = account.store.open_owner(PartitionId(1), kv::Claim::Take).await.unwrap();
        let scan = kv::Scan {
            keyspace,
            from: std::ops::Bound::Unbounded,
            to: std::ops::Bound::Unbounded,
            reverse: false,
            rows: 1000,
            bytes: usize::MAX,
            keys_only: true,
        };
        owner.published().scan(scan).await.unwrap().rows.len()
    };
    assert_eq!(rows(Keyspace::Docs).await, 100);
    account.engine.delete(&link("dbs/db"), Conditions::default()).await.unwrap();
    while rows(Keyspace::Docs).await > 0 || rows(Keyspace::Meta).await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rows(Keyspace::Feed).await, 0);
}

#[tokio::test]
async fn scopes_cut_a_container_without_gap_or_overlap() {
    let account = Account::new().await;
    account.create("", Kind::Database, json!({"id": "db"})).await.unwrap();
    let body = json!({"id": "c", "partitionKey": {"paths": ["/pk"]}});
    account.create_with("dbs/db", Kind::Container, body, Some(70_000)).await.unwrap();
    let container = account.engine.container("db", "c").unwrap();
    let ranges = container.ranges().ranges;
    assert_eq!(ranges.len(), 7);
    for n in 0..200 {
        put(&container, &format!("k{}", n % 20), &format!("{n:03}")).await.unwrap();
    }
    let all: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    assert_eq!(everything(&container, Scope::Everything).await, all);
    let mut by_range = Vec::new();
    let mut by_epk = Vec::new();
    for range in &ranges {
        by_range.extend(everything(&container, Scope::Range(range.id.to_string())).await);
        by_epk.extend(everything(&container, Scope::Epk(range.span.clone())).await);
    }
    by_range.sort();
    by_epk.sort();
    assert_eq!((by_range, by_epk), (all.clone(), all));
    let of_key = everything(&container, Scope::Key(key("k3").unwrap())).await;
    assert_eq!(of_key.len(), 10);
    let gone =
        container.read_items(&Scope::Range("99".into()), &Page::default(), None).await.unwrap_err();
    assert_eq!(gone.fault, Fault::RangeGone);
}

#[tokio::test]
async fn a_continuation_belongs_to_its_list() {
    let account = Account::new().await;
    let container = account.container(json!({})).await;
    for n in 0..5 {
        put(&container, "k", &n.to_string()).await.unwrap();
    }
    let page = Page { items: Some(2), continuation: None };
    let first =
        container.read_items(&Scope::Everything, &page, None).await.unwrap().result.unwrap();
    let page = Page { items: Some(2), continuation: first.continuation };
    let other = Scope::Key(key("k").unwrap());
    let refused = container.read_items(&other, &page, None).await.unwrap_err();
    assert_eq!(refused.fault, Fault::BadRequest);
}

#[tokio::test]
async fn expired_items_are_gone_for_readers_and_their_ids_are_free() {
    let account = Account::new().await;
    let container = account.container(json!({"defaultTtl": 10})).await;
    put(&container, "k", "1").await.unwrap();
    account.pass(11_000);
    let read = container.read_item("1", key("k"), None).await.unwrap();
    assert_eq!(read.result.unwrap_err().fault, Fault::NotFound);
    assert!(everything(&container, Scope::Everything).await.is_empty());
    let body = json!({"id": "1", "pk": "k"}).to_string();
    let again = container.create_item(key("k"), body.into(), &Conditions::default()).await.unwrap();
    assert!(again.result.unwrap().created);
    assert_eq!(everything(&container, Scope::Everything).await, ["1"]);
}

#[tokio::test]
async fn throughput_is_enforced_and_follows_its_offer() {
    let account = Account::with(Options { enforce_throughput: true, ..Options::default() }).await;
    let container = account.container(json!({})).await;
    let body = json!({"id": "1", "pk": "k", "pad": "x".repeat(500_000)}).to_string();
    container
        .upsert_item(key("k"), body.clone().into(), &Conditions::default())
        .await
        .unwrap()
        .result
        .unwrap();
    container
        .upsert_item(key("k"), body.into(), &Conditions::default())
        .await
        .unwrap()
        .result
        .unwrap();
    let refused = container.read_item("1", key("k"), None).await.unwrap();
    assert_eq!(refused.result.unwrap_err().fault, Fault::TooManyRequests);
    account.pass(refused.retry_after_ms.unwrap());
    assert!(container.read_item("1", key("k"), None).await.unwrap().result.is_ok());
    let offers =
        account.engine.list(&Link::default(), Kind::Offer, &Page::default()).unwrap().resources;
    let [offer] = &offers[..] else { panic!("one offer is expected: {offers:?}") };
    let mut body = offer.body.clone();
    body["content"] = json!({"offerThroughput": 300});
    let offer_link = Link(vec![(Kind::Offer, offer.rid.clone())]);
    let replace = |body| account.engine.replace(&offer_link, body, ReplaceOptions::default());
    assert_eq!(replace(body.clone()).await.unwrap_err().fault, Fault::BadRequest);
    body["content"] = json!({"offerThroughput": 1000});
    assert_eq!(replace(body).await.unwrap().body["content"]["offerThroughput"], json!(1000));
}

/// Operations of a bulk request pay one by one: those that come too late are told when to come again,
/// the others are done.
#[tokio::test]
async fn bulk_operations_are_throttled_one_by_one() {
    let account = Account::with(Options { enforce_throughput: true, ..Options::default() }).await;
    let container = account.container(json!({})).await;
    let upserts = |numbers: &[usize]| -> Vec<BatchOperation> {
        let one = |n: &usize| BatchOperation {
            kind: BatchKind::Upsert,
            id: None,
            body: json!({"id": n.to_string(), "pk": "k", "pad": "x".repeat(60_000)})
                .to_string()
                .into(),
            layout: None,
            conditions: Conditions::default(),
            key: key("k").map(Arc::new),
        };
        numbers.iter().map(one).collect()
    };
    let mut left: Vec<usize> = (0..20).collect();
    let mut throttled = 0;
    while !left.is_empty() {
        let answer = container.execute_bulk(None, upserts(&left), true, None).await.unwrap();
        let results = answer.result.unwrap();
        assert!(results[0].result.is_ok(), "after the wait the first has its turn");
        let mut wait = 0;
        let mut refused = Vec::new();
        for (n, result) in left.iter().zip(&results) {
            if let Err(error) = &result.result {
                assert_eq!(error.fault, Fault::TooManyRequests);
                wait = wait.max(result.retry_after_ms.expect("it is told when to come again"));
                refused.push(*n);
            }
        }
        throttled += refused.len();
        left = refused;
        account.pass(wait);
    }
    assert!(throttled > 0);
    // The last of them may have overdrawn.
    account.pass(60_000);
    let mut found = Vec::new();
    for n in 0..20 {
        account.pass(60_000);
        let read = container.read_item(&n.to_string(), key("k"), None).await.unwrap();
        found.push(read.result.is_ok());
    }
    assert_eq!(found, [true; 20]);
}

/// A write that is under way when its container is deleted hears of that, not of storage.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_to_a_deleted_container_find_none() {
    let account = Account::new().await;
    account.create("", Kind::Database, json!({"id": "db"})).await.unwrap();
    let body = json!({"id": "c", "partitionKey": {"paths": ["/pk"]}});
    for _ in 0..200 {
        account.create("dbs/db", Kind::Container, body.clone()).await.unwrap();
        let container = account.engine.container("db", "c").unwrap();
        let writers = ["a", "b", "c"].map(|writer| {
            let container = container.clone();
            tokio::spawn(async move {
                loop {
                    if let Err(error) = put(&container, writer, "1").await {
                        return error;
                    }
                }
            })
        });
        account.engine.delete(&link("dbs/db/colls/c"), Conditions::default()).await.unwrap();
        for writer in writers {
            let error = writer.await.unwrap();
            assert_eq!(error.fault, Fault::OwnerNotFound, "{error}");
        }
    }
}

#[tokio::test]
async fn no_more_than_25_containers_share_a_throughput() {
    let account = Account::new().await;
    account.create_with("", Kind::Database, json!({"id": "db"}), Some(400)).await.unwrap();
    let make = async |n: usize, ru: Option<u32>| {
        let body = json!({"id": n.to_string(), "partitionKey": {"paths": ["/pk"]}});
        account.create_with("dbs/db", Kind::Container, body, ru).await.map(drop)
    };
    make(0, Some(400)).await.unwrap();
    for n in 1..=25 {
        make(n, None).await.unwrap();
    }
    let refused = make(26, None).await.unwrap_err();
    assert_eq!(refused.fault, Fault::TooManySharers);
    make(26, Some(400)).await.unwrap();
    account.engine.delete(&link("dbs/db/colls/7"), Conditions::default()).await.unwrap();
    make(27, None).await.unwrap();
}
