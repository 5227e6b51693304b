//! Splits and merges, one by one: what clients see of them, what sets them off, what is refused.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use astrarium_engine::{
    ChangesMode, ChangesRead, ChangesStart, Conditions, Container, CreateOptions, Engine, Env,
    Kind, Link, Options, Page, ReplaceOptions, Resource, Scope,
};
use kv::{Claim, Crashing, Keyspace, LocalOptions, PartitionId, Scan, Stores};
use model::partition_key::{Component, PartitionKey};
use model::throughput::Throughput;
use model::token::Position;
use model::{Fault, Result};
use serde_json::{Map, Value, json};

const LATEST: ChangesMode = ChangesMode::Latest { deletes: false };
const DELETES: ChangesMode = ChangesMode::Latest { deletes: true };

struct Account {
    store: Crashing,
    engine: Arc<Engine>,
    clock: Arc<AtomicU64>,
    options: Options,
}

impl Account {
    async fn new(options: Options, key: Value) -> Self {
        let (store, clock) = (Crashing::auto(), Arc::new(AtomicU64::new(1_700_000_000_000)));
        let engine = open(Arc::new(store.clone()), &clock, &options).await;
        set_up(&engine, key).await;
        Self { store, engine, clock, options }
    }

    /// One partition, hashes of version 2.
    async fn plain() -> Self {
        Self::new(Options::default(), json!({"paths": ["/pk"], "kind": "Hash", "version": 2})).await
    }

    async fn restart(&mut self) {
        self.store.crash(0);
        self.store.reopen();
        self.engine = open(Arc::new(self.store.clone()), &self.clock, &self.options).await;
    }

    fn container(&self) -> Arc<Container> {
        self.engine.container("db", "c").unwrap()
    }

    fn ids(&self) -> Vec<String> {
        self.container().ranges().ranges.iter().map(|range| range.id.to_string()).collect()
    }

    async fn split(&self, range: &str) -> Result<()> {
        self.engine.split(&link(), range).await
    }

    async fn merge(&self, ranges: &[&str]) -> Result<()> {
        self.engine.merge(&link(), ranges).await
    }

    async fn set_throughput(&self, ru: u32) -> Result<()> {
        let offers = self.engine.list(&Link::default(), Kind::Offer, &Page::default()).unwrap();
        let [offer] = &offers.resources[..] else { panic!("one offer") };
        let mut body = offer.body.clone();
        body.insert("content".into(), json!({"offerThroughput": ru}));
        let link = Link(vec![(Kind::Offer, offer.rid.clone())]);
        self.engine.replace(&link, body, ReplaceOptions::default()).await.map(drop)
    }

    /// Rows of a partition in storage. Takes it from whoever has it.
    async fn rows(&self, number: u64) -> usize {
        let owner = self.store.open_owner(PartitionId(number), Claim::Take).await.unwrap();
        let mut rows = 0;
        for keyspace in Keyspace::ALL {
            let scan = Scan {
                keyspace,
                from: Bound::Unbounded,
                to: Bound::Unbounded,
                reverse: false,
                rows: usize::MAX,
                bytes: usize::MAX,
                keys_only: true,
            };
            rows += owner.published().scan(scan).await.unwrap().rows.len();
        }
        rows
    }
}

async fn open(store: Arc<dyn Stores>, clock: &Arc<AtomicU64>, options: &Options) -> Arc<Engine> {
    let clock = clock.clone();
    let env = Env::new(move || clock.load(Ordering::Relaxed), || 7);
    Engine::open(store, env, options.clone()).await.unwrap()
}

async fn set_up(engine: &Engine, key: Value) {
    let none = CreateOptions::default;
    let body = object(json!({"id": "db"}));
    engine.create(&Link::default(), Kind::Database, body, none()).await.unwrap();
    let body = object(json!({"id": "c", "partitionKey": key}));
    let database = Link(vec![(Kind::Database, "db".into())]);
    engine.create(&database, Kind::Container, body, none()).await.unwrap();
}

fn link() -> Link {
    Link(vec![(Kind::Database, "db".into()), (Kind::Container, "c".into())])
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object is expected") };
    map
}

fn key(value: impl ToString) -> PartitionKey {
    PartitionKey(vec![Component::String(value.to_string())])
}

async fn put(container: &Container, pk: impl ToString, id: &str) -> Result<u64> {
    let body = json!({"id": id, "pk": pk.to_string()}).to_string();
    let none = Conditions::default();
    let answer = container.upsert_item(Some(key(pk)), body.into(), &none).await?;
    answer.result.map(|_| answer.at.lsn)
}

async fn fill(container: &Container, keys: usize) {
    for n in 0..keys {
        put(container, n, &format!("item {n}")).await.unwrap();
    }
}

async fn a_while() {
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
    }
}

/// The ids of some items.
fn names(bodies: impl IntoIterator<Item = bytes::Bytes>) -> Vec<String> {
    let id = |body: bytes::Bytes| serde_json::from_slice::<Value>(&body).unwrap()["id"].clone();
    bodies.into_iter().map(|body| id(body).as_str().unwrap().to_owned()).collect()
}

async fn page(container: &Container, scope: &Scope, page: &mut Page) -> Result<Vec<String>> {
    let answer = container.read_items(scope, page, None).await?.result?;
    page.continuation = answer.continuation;
    Ok(names(answer.bodies))
}

async fn changes(container: &Container, scope: Scope, start: ChangesStart) -> Vec<String> {
    let read = ChangesRead { scope, start, mode: LATEST, items: Some(1000) };
    let page = container.read_changes(&read, None).await.unwrap().result.unwrap();
    names(page.changes.into_iter().map(|change| change.body))
}

#[tokio::test]
async fn children_say_where_they_came_from_and_ids_are_never_used_again() {
    let mut account = Account::plain().await;
    fill(&account.container(), 40).await;
    let before = account.container().ranges().etag;
    account.split("0").await.unwrap();
    assert_eq!(account.ids(), ["1", "2"]);
    assert_ne!(account.container().ranges().etag, before);
    account.split("2").await.unwrap();
    assert_eq!(account.ids(), ["1", "3", "4"]);
    account.merge(&["3", "1"]).await.unwrap();
    assert_eq!(account.ids(), ["5", "4"]);
    account.restart().await;
    account.merge(&["4", "5"]).await.unwrap();
    assert_eq!(account.ids(), ["6"]);
    let ranges = account.container().ranges().ranges;
    assert_eq!(ranges[0].parents, ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(
        changes(&account.container(), Scope::Everything, ChangesStart::Beginning).await.len(),
        40
    );
    for gone in ["0", "1", "2", "3", "4", "5"] {
        assert_eq!(account.split(gone).await.unwrap_err().fault, Fault::RangeGone);
        let read = ChangesRead {
            scope: Scope::Range(gone.into()),
            start: ChangesStart::Beginning,
            mode: LATEST,
            items: None,
        };
        let error = account.container().read_changes(&read, None).await.unwrap_err();
        assert_eq!((error.fault.status(), error.fault.substatus()), (410, 1002));
    }
}

#[tokio::test]
async fn items_are_halved_and_the_rows_of_the_parent_removed() {
    for key in [
        json!({"paths": ["/pk"], "kind": "Hash", "version": 2}),
        json!({"paths": ["/pk"], "kind": "Hash", "version": 1}),
    ] {
        let account = Account::new(Options::default(), key).await;
        let container = account.container();
        fill(&container, 100).await;
        account.split("0").await.unwrap();
        for id in ["1", "2"] {
            let scope = Scope::Range(id.into());
            let held = changes(&container, scope, ChangesStart::Beginning).await.len();
            assert!((40..=60).contains(&held), "{held}");
        }
        a_while().await;
        assert_eq!(account.rows(1).await, 0, "the parent was partition 1 of the store");
    }
}

#[tokio::test]
async fn hierarchical_keys_are_split_within_a_prefix() {
    let key = json!({"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2});
    let account = Account::new(Options::default(), key).await;
    let container = account.container();
    for n in 0..30 {
        let key = PartitionKey(vec![Component::String("one".into()), Component::Number(n.into())]);
        let body = json!({"id": n.to_string(), "a": "one", "b": n}).to_string();
        let none = Conditions::default();
        container.create_item(Some(key), body.into(), &none).await.unwrap().result.unwrap();
    }
    account.split("0").await.unwrap();
    let all = Scope::Key(PartitionKey(vec![Component::String("one".into())]));
    assert_eq!(changes(&container, all.clone(), ChangesStart::Beginning).await.len(), 30);
    let mut rest = Page { items: Some(1000), continuation: None };
    assert_eq!(page(&container, &all, &mut rest).await.unwrap().len(), 30);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused() {
    let account = Account::plain().await;
    let container = account.container();
    put(&container, "only", "a").await.unwrap();
    put(&container, "only", "b").await.unwrap();
    let refused = |result: Result<()>, words: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.fault, Fault::BadRequest, "{error}");
        assert!(error.message.contains(words), "{error}");
    };
    refused(account.split("0").await, "same partition key value");
    fill(&container, 40).await;
    account.split("0").await.unwrap();
    account.split("1").await.unwrap();
    let ids = account.ids();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    refused(account.merge(&ids[..1]).await, "at least two");
    refused(account.merge(&[]).await, "at least two");
    refused(account.merge(&[ids[0], ids[2]]).await, "beside each other");
    refused(account.merge(&[ids[0], ids[0]]).await, "beside each other");
    assert_eq!(account.merge(&["0", "9"]).await.unwrap_err().fault, Fault::RangeGone);
    assert_eq!(account.ids(), ids);
}

#[tokio::test]
async fn a_list_goes_on_where_it_was() {
    let account = Account::plain().await;
    let container = account.container();
    fill(&container, 60).await;
    let mut whole = Page { items: Some(7), continuation: None };
    let mut part = whole.clone();
    let mut seen = page(&container, &Scope::Everything, &mut whole).await.unwrap();
    let mut of_range = page(&container, &Scope::Range("0".into()), &mut part).await.unwrap();
    account.split("0").await.unwrap();
    seen.extend(page(&container, &Scope::Everything, &mut whole).await.unwrap());
    // A client of the range finds it gone, and reads both children from where it was.
    let gone = page(&container, &Scope::Range("0".into()), &mut part).await.unwrap_err();
    assert_eq!(gone.fault, Fault::RangeGone);
    for child in ["1", "2"] {
        let mut part = part.clone();
        while part.continuation.is_some() {
            of_range
                .extend(page(&container, &Scope::Range(child.into()), &mut part).await.unwrap());
        }
    }
    account.merge(&["1", "2"]).await.unwrap();
    while whole.continuation.is_some() {
        seen.extend(page(&container, &Scope::Everything, &mut whole).await.unwrap());
    }
    for seen in [seen, of_range] {
        assert_eq!(seen.len(), 60);
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 60);
    }
}

#[tokio::test]
async fn waiting_readers_follow_the_layout() {
    let account = Account::plain().await;
    let container = account.container();
    fill(&container, 20).await;
    let wait = |scope: Scope| {
        let container = container.clone();
        tokio::spawn(async move {
            let read = ChangesRead { scope, start: ChangesStart::Now, mode: LATEST, items: None };
            container.await_changes(&read, None, None).await
        })
    };
    let everything = wait(Scope::Everything);
    let keyed = wait(Scope::Key(key("waited for")));
    let ranged = wait(Scope::Range("0".into()));
    a_while().await;
    account.split("0").await.unwrap();
    a_while().await;
    assert!(!everything.is_finished() && !keyed.is_finished(), "nothing has changed for them");
    assert_eq!(ranged.await.unwrap().unwrap_err().fault, Fault::RangeGone);
    account.merge(&["1", "2"]).await.unwrap();
    put(&container, "waited for", "new").await.unwrap();
    for reader in [everything, keyed] {
        let page = reader.await.unwrap().unwrap().result.unwrap();
        assert_eq!(names(page.changes.into_iter().map(|change| change.body)), ["new"]);
    }
}

#[tokio::test]
async fn a_position_of_one_parent_holds_in_the_merged_range() {
    let account = Account::plain().await;
    let container = account.container();
    fill(&container, 40).await;
    account.split("0").await.unwrap();
    let spans: Vec<_> = container.ranges().ranges.iter().map(|range| range.span.clone()).collect();
    let pk_of = |n: usize| {
        let epk = |pk: &usize| container.definition().partition_key.epk(&key(pk));
        (0..).find(|pk| spans[n].contains(&epk(pk))).unwrap()
    };
    // One partition runs far ahead of the other.
    for round in 0..50 {
        put(&container, pk_of(0), &format!("busy {round}")).await.unwrap();
    }
    let lsn = put(&container, pk_of(1), "last read").await.unwrap();
    put(&container, pk_of(1), "unread").await.unwrap();
    account.merge(&["1", "2"]).await.unwrap();
    put(&container, pk_of(1), "after the merge").await.unwrap();
    put(&container, pk_of(0), "not mine").await.unwrap();
    let start = ChangesStart::After(Position::Lsn(lsn));
    let read = changes(&container, Scope::Epk(spans[1].clone()), start).await;
    assert_eq!(read, ["unread", "after the merge"]);
}

#[tokio::test]
async fn a_time_before_a_merge_leaves_nothing_out() {
    let account = Account::plain().await;
    let container = account.container();
    fill(&container, 40).await;
    account.split("0").await.unwrap();
    let mut since = 0;
    for round in 0..3_u64 {
        since = if round == 2 { account.clock.fetch_add(60_000, Ordering::Relaxed) } else { since };
        // Each round writes to one side only, so LSNs of the two sides say nothing of their times.
        let spans = container.ranges().ranges;
        for n in 0..40 {
            let epk = container.definition().partition_key.epk(&key(n));
            let side = usize::from(spans[1].span.contains(&epk));
            if side as u64 == round % 2 {
                account.clock.fetch_add(1_000, Ordering::Relaxed);
                put(&container, n, &format!("round {round} of {n}")).await.unwrap();
            }
        }
    }
    account.merge(&["1", "2"]).await.unwrap();
    put(&container, "later", "later").await.unwrap();
    let found = changes(&container, Scope::Everything, ChangesStart::Since(since + 1)).await;
    let newest = found.iter().filter(|name| name.starts_with("round 2")).count();
    let all = changes(&container, Scope::Everything, ChangesStart::Beginning).await;
    assert_eq!(newest, all.iter().filter(|name| name.starts_with("round 2")).count());
    assert!(newest > 10 && found.contains(&"later".to_owned()));
    account.clock.fetch_add(60_000, Ordering::Relaxed);
    let since = account.clock.load(Ordering::Relaxed);
    put(&container, "later", "newest").await.unwrap();
    let found = changes(&container, Scope::Everything, ChangesStart::Since(since)).await;
    assert_eq!(found, ["newest"], "behind the seam times are in order again");
}

#[tokio::test]
async fn more_throughput_makes_more_partitions() {
    let mut account = Account::plain().await;
    fill(&account.container(), 1).await;
    account.set_throughput(10_000).await.unwrap();
    a_while().await;
    assert_eq!(account.ids(), ["0"], "one partition carries it");
    account.set_throughput(30_000).await.unwrap();
    let locked = account.set_throughput(20_000).await.unwrap_err();
    assert_eq!((locked.fault.status(), locked.fault), (423, Fault::Locked));
    a_while().await;
    assert_eq!(account.ids().len(), 3);
    account.set_throughput(400).await.unwrap();
    account.set_throughput(50_000).await.unwrap();
    // The crash comes before the first split; the next start carries it out.
    account.restart().await;
    a_while().await;
    assert_eq!(account.ids().len(), 5);
    let all = changes(&account.container(), Scope::Everything, ChangesStart::Beginning).await;
    assert_eq!(all, ["item 0"]);
    let ids = account.ids();
    account.merge(&[&ids[0], &ids[1]]).await.unwrap();
    account.restart().await;
    a_while().await;
    assert_eq!(account.ids().len(), 4, "what was merged by hand stays so");
}

/// Throughput that a database shares is carried by each of its containers that have none of
/// their own.
#[tokio::test]
async fn more_shared_throughput_makes_more_partitions() {
    let mut account = Account::plain().await;
    let throughput =
        |ru| CreateOptions { throughput: Some(Throughput::Manual(ru)), ..CreateOptions::default() };
    let (root, none) = (Link::default(), CreateOptions::default);
    let body = object(json!({"id": "shared"}));
    account.engine.create(&root, Kind::Database, body, throughput(400)).await.unwrap();
    let make = async |engine: &Engine, id: &str, options| {
        let body =
            json!({"id": id, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
        let database = Link(vec![(Kind::Database, "shared".into())]);
        engine.create(&database, Kind::Container, object(body), options).await.unwrap();
    };
    make(&account.engine, "a", none()).await;
    make(&account.engine, "b", none()).await;
    make(&account.engine, "own", throughput(400)).await;
    fill(&account.engine.container("shared", "a").unwrap(), 1).await;
    let set = async |engine: &Arc<Engine>, ru: u32| {
        let database = engine.read(&Link(vec![(Kind::Database, "shared".into())])).unwrap();
        let offers = engine.list(&Link::default(), Kind::Offer, &Page::default()).unwrap();
        let is_its = |offer: &&Arc<Resource>| offer.body["offerResourceId"] == json!(database.rid);
        let offer = offers.resources.iter().find(is_its).unwrap();
        let mut body = offer.body.clone();
        body.insert("content".into(), json!({"offerThroughput": ru}));
        let link = Link(vec![(Kind::Offer, offer.rid.clone())]);
        engine.replace(&link, body, ReplaceOptions::default()).await.map(drop)
    };
    let counts = |engine: &Engine| {
        ["a", "b", "own"].map(|id| engine.container("shared", id).unwrap().ranges().ranges.len())
    };
    set(&account.engine, 20_000).await.unwrap();
    let locked = set(&account.engine, 30_000).await.unwrap_err();
    assert_eq!(locked.fault, Fault::Locked);
    a_while().await;
    assert_eq!(counts(&account.engine), [2, 2, 1]);
    make(&account.engine, "late", none()).await;
    assert_eq!(account.engine.container("shared", "late").unwrap().ranges().ranges.len(), 2);
    set(&account.engine, 30_000).await.unwrap();
    // The crash comes before the first split; the next start carries it out.
    account.restart().await;
    a_while().await;
    assert_eq!(counts(&account.engine), [3, 3, 1]);
    let container = account.engine.container("shared", "a").unwrap();
    let all = changes(&container, Scope::Everything, ChangesStart::Beginning).await;
    assert_eq!(all, ["item 0"]);
}

/// A reader who waits goes on past what is not for it, however much that is, before it waits.
#[tokio::test]
async fn who_waits_reads_on_first() {
    let account = Account::plain().await;
    let container = account.container();
    for n in 0..20_050 {
        put(&container, "others", &format!("other {n}")).await.unwrap();
    }
    put(&container, "mine", "item").await.unwrap();
    let read = ChangesRead {
        scope: Scope::Key(key("mine")),
        start: ChangesStart::Beginning,
        mode: LATEST,
        items: None,
    };
    let page = container.read_changes(&read, None).await.unwrap().result.unwrap();
    assert!(page.changes.is_empty() && page.more, "a page looks at so many rows and no more");
    let page = container.await_changes(&read, None, None).await.unwrap().result.unwrap();
    assert_eq!(page.changes.len(), 1);
}

#[tokio::test]
async fn a_partition_that_grows_is_split() {
    let options = Options { split_bytes: 40_000, ..Options::default() };
    let key = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
    let account = Account::new(options, key).await;
    let container = account.container();
    for n in 0..600 {
        put(&container, n, &format!("item {n}")).await.unwrap();
        tokio::task::yield_now().await;
    }
    a_while().await;
    assert!(account.ids().len() >= 3, "{:?}", account.ids());
    assert_eq!(changes(&container, Scope::Everything, ChangesStart::Beginning).await.len(), 600);
    // One key alone can grow as it likes.
    let before = account.ids().len();
    for n in 0..600 {
        put(&container, "hot", &format!("hot {n}")).await.unwrap();
        tokio::task::yield_now().await;
    }
    a_while().await;
    assert!(account.ids().len() <= before + 3);
}

#[tokio::test]
async fn items_without_a_key_are_at_the_lowest_place() {
    let key = json!({"paths": ["/_partitionKey"], "kind": "Hash", "version": 2, "systemKey": true});
    let account = Account::new(Options::default(), key).await;
    let container = account.container();
    let none = Conditions::default();
    for n in 0..20 {
        let body = json!({"id": format!("old {n}")}).to_string();
        let key = Some(PartitionKey(vec![]));
        container.create_item(key, body.into(), &none).await.unwrap().result.unwrap();
        let body = json!({"id": format!("new {n}"), "_partitionKey": n}).to_string();
        let key = Some(PartitionKey(vec![Component::Number(n.into())]));
        container.create_item(key, body.into(), &none).await.unwrap().result.unwrap();
    }
    account.split("0").await.unwrap();
    for scope in [Scope::Key(PartitionKey(vec![])), Scope::Everything] {
        let mut all = Page { items: Some(1000), continuation: None };
        let found = page(&container, &scope, &mut all).await.unwrap();
        assert_eq!(found.iter().filter(|name| name.starts_with("old")).count(), 20, "{scope:?}");
    }
    let read = container.read_item("old 7", Some(PartitionKey(vec![])), None).await.unwrap();
    assert!(read.result.is_ok());
}

#[tokio::test]
async fn a_container_can_be_deleted_in_the_middle() {
    // After each number of batches, so in every step of a split.
    for batches in 0..40 {
        let (store, clock) = (Crashing::manual(), Arc::new(AtomicU64::new(1_700_000_000_000)));
        let syncing = tokio::spawn({
            let store = store.clone();
            async move {
                loop {
                    store.sync(1);
                    tokio::task::yield_now().await;
                }
            }
        });
        let engine = open(Arc::new(store.clone()), &clock, &Options::default()).await;
        set_up(&engine, json!({"paths": ["/pk"], "kind": "Hash", "version": 2})).await;
        let container = engine.container("db", "c").unwrap();
        fill(&container, 10).await;
        let split = tokio::spawn({
            let engine = engine.clone();
            async move { engine.split(&link(), "0").await }
        });
        for _ in 0..batches {
            tokio::task::yield_now().await;
        }
        engine.delete(&link(), Conditions::default()).await.unwrap();
        if let Err(error) = split.await.unwrap() {
            assert_eq!(error.fault, Fault::OwnerNotFound, "{error}");
        }
        assert!(put(&container, 1, "late").await.is_err());
        a_while().await;
        syncing.abort();
        let account = Account { store, engine, clock, options: Options::default() };
        drop(container);
        account.store.sync(usize::MAX);
        for number in 1..4 {
            assert_eq!(account.rows(number).await, 0, "{batches}: partition {number} is empty");
        }
    }
}

/// Real threads, a real disk: writers never see an error, and readers miss nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_see_nothing_of_it() {
    let dir = std::env::temp_dir().join(format!("astrarium-layout-{}", std::process::id()));
    let options = LocalOptions { durability: kv::Durability::Os, ..LocalOptions::default() };
    let store = kv::open_local(&dir, options).unwrap();
    let engine = Engine::open(store, Env::system(), Options::default()).await.unwrap();
    set_up(&engine, json!({"paths": ["/pk"], "kind": "Hash", "version": 2})).await;
    let container = engine.container("db", "c").unwrap();
    fill(&container, 200).await;
    let (done, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for writer in 0..8_u64 {
        let (container, done, written) = (container.clone(), done.clone(), written.clone());
        tasks.push(tokio::spawn(async move {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                let (pk, id) = (n % 64, format!("{writer}-{}", n % 256));
                let lsn = put(&container, pk, &id).await.unwrap();
                let read = container.read_item(&id, Some(key(pk)), None).await.unwrap();
                assert!(read.result.is_ok() && read.at.item_lsn >= Some(lsn));
                written.fetch_add(1, Ordering::Relaxed);
                n += 1;
            }
        }));
    }
    let reader = tokio::spawn({
        let (container, done) = (container.clone(), done.clone());
        async move {
            while !done.load(Ordering::Relaxed) {
                let mut all = Page { items: Some(1000), continuation: None };
                let mut names = Vec::new();
                loop {
                    names.extend(page(&container, &Scope::Everything, &mut all).await.unwrap());
                    if all.continuation.is_none() {
                        break;
                    }
                }
                let fixed = names.iter().filter(|name| name.starts_with("item")).count();
                assert_eq!(fixed, 200, "what stays is never missed or repeated");
                tokio::task::yield_now().await;
            }
        }
    });
    let ids = || -> Vec<Arc<str>> {
        container.ranges().ranges.iter().map(|range| range.id.clone()).collect()
    };
    for _ in 0..6 {
        for _ in 0..2 {
            for id in ids() {
                engine.split(&link(), &id).await.unwrap();
            }
        }
        let four = ids();
        engine.merge(&link(), &[&four[1], &four[2]]).await.unwrap();
        let three = ids();
        engine.merge(&link(), &[&three[0], &three[1], &three[2]]).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    reader.await.unwrap();
    assert!(written.load(Ordering::Relaxed) > 100);
    engine.close().await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Keys that two ranges own.
async fn key_of_each(container: &Container) -> (usize, usize) {
    let ranges = container.ranges().ranges;
    let definition = container.definition();
    let owned = |n: usize| {
        let epk = |value: &usize| definition.partition_key.epk(&key(value));
        (0..100).find(|value| ranges[n].span.contains(&epk(value))).unwrap()
    };
    (owned(0), owned(1))
}

async fn read(
    account: &Account,
    scope: &Scope,
    mode: ChangesMode,
    start: ChangesStart,
) -> Result<(Vec<String>, Position)> {
    let read = ChangesRead { scope: scope.clone(), start, mode, items: Some(1000) };
    let page = account.container().read_changes(&read, None).await?.result?;
    Ok((names(page.changes.into_iter().map(|change| change.body)), page.position))
}

#[tokio::test]
async fn a_merge_turns_nobody_away_who_has_missed_nothing() {
    let options = Options { housekeeping: None, ..Options::default() };
    let key = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
    let mut account = Account::new(options, key).await;
    let policy = json!({"retentionDuration": 1, "tombstoneDuration": 1});
    let body = object(json!({"id": "c", "changeFeedPolicy": policy}));
    account.engine.replace(&link(), body, ReplaceOptions::default()).await.unwrap();
    fill(&account.container(), 40).await;
    account.split("0").await.unwrap();
    let (quiet, busy) = key_of_each(&account.container()).await;
    let none = Conditions::default();
    for n in 0..300 {
        put(&account.container(), busy, &format!("busy {n}")).await.unwrap();
    }
    for id in ["busy 1", "busy 2"] {
        let deleted = account.container().delete_item(id, Some(self::key(busy)), &none).await;
        deleted.unwrap().result.unwrap();
    }
    account.clock.fetch_add(90_000, Ordering::Relaxed);
    while account.engine.housekeep().await {}
    // The floors are far apart now, and all that the quiet range has is below that of the other.
    let span = account.container().ranges().ranges[0].span.clone();
    put(&account.container(), quiet, "first").await.unwrap();
    let (modes, scope) = ([ChangesMode::AllVersions, DELETES], Scope::Range("1".into()));
    let mut etags = Vec::new();
    for mode in modes {
        etags.push(read(&account, &scope, mode, ChangesStart::Now).await.unwrap().1);
    }
    let before_ms = account.clock.fetch_add(10, Ordering::Relaxed);
    put(&account.container(), quiet, "second").await.unwrap();
    account.merge(&["1", "2"]).await.unwrap();
    for layout in 0..3 {
        for (mode, etag) in modes.iter().zip(&etags) {
            let start = ChangesStart::After(etag.clone());
            let (names, _) = read(&account, &Scope::Epk(span.clone()), *mode, start).await.unwrap();
            assert_eq!(names, ["second"], "{mode:?} {layout}");
            let start = ChangesStart::Since(before_ms);
            let (names, etag) = read(&account, &Scope::Everything, *mode, start).await.unwrap();
            assert_eq!(names, ["first", "second"], "{mode:?} {layout}");
            let start = ChangesStart::After(etag);
            let (names, _) = read(&account, &Scope::Everything, *mode, start).await.unwrap();
            assert_eq!(names, [""; 0]);
        }
        let all = ChangesMode::AllVersions;
        let beginning =
            read(&account, &Scope::Everything, all, ChangesStart::Beginning).await.unwrap();
        assert_eq!(beginning.0, ["first", "second"]);
        // Whoever read the busy range from below its floor is still told.
        let start = ChangesStart::After(Position::Lsn(100));
        let scope = Scope::Key(self::key(busy));
        let error = read(&account, &scope, all, start).await.unwrap_err();
        assert_eq!(error.fault, Fault::HistoryPurged);
        match layout {
            0 => account.restart().await,
            _ => account.split(&account.ids()[0]).await.unwrap(),
        }
    }
}
