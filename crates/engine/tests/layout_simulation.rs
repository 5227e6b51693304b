//! Random writers and readers while partitions are split and merged, over a store that crashes.
//!
//! Each seed runs a few lives of a container: of hashes of version 2, of version 1, or of
//! hierarchical keys. Writers never stop, splits and merges come at random moments, batches become
//! durable a few at a time, and the store crashes anywhere, in the middle of an exchange of
//! partitions too. Before each start the rows themselves are looked at: the partitions on record
//! cover the key space, hold what belongs to them and nothing else, and their counts are exact.
//! Writers never see an error before the crash. Readers follow the change feed as clients do: whole,
//! by range ids (after 410 the children go on with the parent's etag), by parts of the key space,
//! and by key; each must see the newest version of every item, once, never an older one after it.
//! `ASTRARIUM_SEED=n` replays one seed.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use astrarium_engine::{
    ChangesRead, ChangesStart, Conditions, Container, CreateOptions, Engine, Env, Kind, Link,
    Options, Page, Scope,
};
use bytes::Bytes;
use kv::{Claim, Crashing, Keyspace, PartitionId, Scan, Stores, View};
use model::Fault;
use model::epk::{Epk, EpkRange};
use model::partition_key::{Component, PartitionKey};
use model::token::{Position, Session, session_token};
use serde_json::{Map, Value, json};

const SEEDS: u64 = 60;
const LIVES: usize = 4;
const ROUNDS: usize = 40;
const WRITERS_PER_ROUND: u64 = 8;
const KEYS: u64 = 9;
const IDS: u64 = 5;

/// splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// One item's name: its partition key and id.
type Name = (u64, u64);

#[derive(Debug, Clone)]
struct Write {
    name: Name,
    /// `None` is a delete.
    version: Option<u64>,
    /// The LSN it was acknowledged with; `None` while nobody knows.
    lsn: Option<u64>,
}

/// What the writers of a life share.
struct World {
    container: Arc<Container>,
    levels: usize,
    crashed: AtomicBool,
    writes: Mutex<BTreeMap<u64, Write>>,
}

#[test]
fn layouts_change_and_nothing_is_lost() {
    let seeds: Vec<u64> = match std::env::var("ASTRARIUM_SEED") {
        Ok(seed) => vec![seed.parse().expect("ASTRARIUM_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    };
    let mut exchanges = 0;
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(live_and_die(seed)));
        match std::panic::catch_unwind(run) {
            Ok(done) => exchanges += done,
            Err(panic) => {
                eprintln!(
                    "replay with ASTRARIUM_SEED={seed} cargo test -p astrarium-engine --test layout_simulation"
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{exchanges} layouts");
    assert!(exchanges > 0, "some layout has changed");
}

/// Every batch of a split and of a merge is once the last one before a crash.
#[test]
fn a_crash_after_any_batch_leaves_a_whole_layout() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for merge in [false, true] {
        let mut batches = 0;
        while runtime.block_on(crash_after(batches, merge)) {
            batches += 1;
        }
        assert!(batches > 8, "there are that many steps");
    }
}

/// Crashes after some batches of a split, or merge; false when it was done before.
async fn crash_after(batches: usize, merge: bool) -> bool {
    let (store, clock) = (Crashing::manual(), Arc::new(AtomicU64::new(1_700_000_000_000)));
    let open = || Engine::open(Arc::new(store.clone()), env(&clock), Options::default());
    let engine = with_sync(&store, open()).await.unwrap();
    with_sync(&store, set_up(&engine, 0)).await;
    let world = Arc::new(World {
        container: engine.container("db", "c").unwrap(),
        levels: 1,
        crashed: AtomicBool::new(false),
        writes: Mutex::default(),
    });
    for number in 0..60 {
        with_sync(&store, write(world.clone(), number, number)).await;
    }
    if merge {
        with_sync(&store, engine.split(&link(), "0")).await.unwrap();
    }
    let change = tokio::spawn({
        let engine = engine.clone();
        let merged = async move |engine: Arc<Engine>| engine.merge(&link(), &["1", "2"]).await;
        async move { if merge { merged(engine).await } else { engine.split(&link(), "0").await } }
    });
    let mut tasks = Vec::new();
    for number in 0..batches as u64 {
        // A writer goes on beside it, so there is something to catch up with.
        tasks.push(tokio::spawn(write(world.clone(), 100 + number, number)));
        while store.queued() == 0 && !change.is_finished() {
            tokio::task::yield_now().await;
        }
        store.sync(1);
        tokio::task::yield_now().await;
    }
    let unfinished = !change.is_finished();
    world.crashed.store(true, Ordering::Relaxed);
    store.crash(0);
    end(tasks).await;
    let _ = change.await;
    store.reopen();
    with_sync(&store, check_rows(&store)).await;
    let engine = with_sync(&store, open()).await.unwrap();
    let container = engine.container("db", "c").unwrap();
    let writes = world.writes.lock().unwrap().clone();
    check_recovered(&container, 1, &writes, &HashMap::new()).await;
    let ids: Vec<String> =
        container.ranges().ranges.iter().map(|range| range.id.to_string()).collect();
    let layouts = if merge { [vec!["1", "2"], vec!["3"]] } else { [vec!["0"], vec!["1", "2"]] };
    assert!(layouts.iter().any(|layout| *layout == ids), "{ids:?}");
    unfinished
}

async fn live_and_die(seed: u64) -> u64 {
    let mut dice = Dice(seed);
    let levels = if seed % 3 == 2 { 2 } else { 1 };
    let store = Crashing::manual();
    let clock = Arc::new(AtomicU64::new(1_700_000_000_000));
    let mut readers: Vec<Reader> = Vec::new();
    let mut recovered: HashMap<Name, Option<u64>> = HashMap::new();
    let mut last = BTreeMap::new();
    let exchanges = Arc::new(AtomicU64::new(0));
    let refusals = Arc::new(Mutex::new(Vec::new()));
    for life in 0..=LIVES {
        if life > 0 {
            with_sync(&store, check_rows(&store)).await;
        }
        let engine = Engine::open(Arc::new(store.clone()), env(&clock), Options::default());
        let engine = with_sync(&store, engine).await.expect("the account opens after a crash");
        if life == 0 {
            with_sync(&store, set_up(&engine, seed)).await;
        }
        let container = engine.container("db", "c").unwrap();
        recovered = check_recovered(&container, levels, &last, &recovered).await;
        for reader in &mut readers {
            reader.read_all(&container, &mut dice).await;
            reader.check(&container, levels, &recovered);
        }
        if life == LIVES {
            break;
        }
        readers.extend(new_readers(&container, levels, &mut dice));
        let world = Arc::new(World {
            container,
            levels,
            crashed: AtomicBool::new(false),
            writes: Mutex::default(),
        });
        let mut tasks = Vec::new();
        let mut layout: Option<usize> = None;
        for round in 0..ROUNDS {
            clock.fetch_add(dice.below(2000), Ordering::Relaxed);
            for writer in 0..WRITERS_PER_ROUND {
                let number = (life * ROUNDS + round) as u64 * WRITERS_PER_ROUND + writer;
                tasks.push(tokio::spawn(write(world.clone(), number, dice.next())));
            }
            if layout.is_none_or(|task: usize| tasks[task].is_finished()) && dice.below(3) == 0 {
                let change = change_layout(
                    engine.clone(),
                    world.clone(),
                    exchanges.clone(),
                    refusals.clone(),
                    dice.next(),
                );
                layout = Some(tasks.len());
                tasks.push(tokio::spawn(change));
            }
            for _ in 0..dice.below(12) {
                tokio::task::yield_now().await;
                store.sync(dice.below(8) as usize);
            }
            let reader = dice.below(readers.len() as u64) as usize;
            readers[reader].read(&world.container, &mut dice).await;
        }
        world.crashed.store(true, Ordering::Relaxed);
        store.crash(dice.below(store.queued() as u64 + 1) as usize);
        end(tasks).await;
        last = std::mem::take(&mut *world.writes.lock().unwrap());
        store.reopen();
    }
    let refusals = refusals.lock().unwrap();
    assert!(refusals.is_empty(), "{refusals:?}");
    exchanges.load(Ordering::Relaxed)
}

/// After a crash everybody comes to an end, and nobody in panic.
async fn end(tasks: Vec<tokio::task::JoinHandle<()>>) {
    let mut patience = 10_000;
    for task in tasks {
        while !task.is_finished() {
            tokio::task::yield_now().await;
            patience -= 1;
            assert!(patience > 0, "somebody waits for ever");
        }
        if let Err(panic) = task.await {
            std::panic::resume_unwind(panic.into_panic());
        }
    }
}

/// Runs something that waits for durability, with nobody else around to bring it about.
async fn with_sync<T>(store: &Crashing, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::task::yield_now() => { store.sync(usize::MAX); }
        }
    }
}

fn env(clock: &Arc<AtomicU64>) -> Env {
    let clock = clock.clone();
    Env::new(move || clock.load(Ordering::Relaxed), || 4)
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object is expected") };
    map
}

fn link() -> Link {
    Link(vec![(Kind::Database, "db".into()), (Kind::Container, "c".into())])
}

async fn set_up(engine: &Engine, seed: u64) {
    let database = Link(vec![(Kind::Database, "db".into())]);
    let body = object(json!({"id": "db"}));
    engine.create(&Link::default(), Kind::Database, body, CreateOptions::default()).await.unwrap();
    let key = match seed % 3 {
        0 => json!({"paths": ["/pk"], "kind": "Hash", "version": 2}),
        1 => json!({"paths": ["/pk"], "kind": "Hash", "version": 1}),
        _ => json!({"paths": ["/pk", "/second"], "kind": "MultiHash", "version": 2}),
    };
    let body = json!({
        "id": "c",
        "partitionKey": key,
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/unique"]}]},
    });
    engine
        .create(&database, Kind::Container, object(body), CreateOptions::default())
        .await
        .unwrap();
}

/// Splits a random range, or merges it with the next.
async fn change_layout(
    engine: Arc<Engine>,
    world: Arc<World>,
    exchanges: Arc<AtomicU64>,
    refusals: Arc<Mutex<Vec<String>>>,
    seed: u64,
) {
    let mut dice = Dice(seed);
    let ranges = world.container.ranges();
    let n = dice.below(ranges.ranges.len() as u64) as usize;
    let id = ranges.ranges[n].id.clone();
    let done = match ranges.ranges.get(n + 1) {
        Some(next) if dice.below(2) == 0 || ranges.ranges.len() > 5 => {
            engine.merge(&link(), &[&id, &next.id]).await
        }
        _ => engine.split(&link(), &id).await,
    };
    match done {
        Ok(()) => {
            exchanges.fetch_add(1, Ordering::Relaxed);
            let now = world.container.ranges();
            assert_ne!(now.etag, ranges.etag);
            assert!(now.ranges.iter().all(|range| range.id != id), "its id is gone");
            assert!(now.ranges.iter().any(|range| range.parents.iter().any(|p| **p == *id)));
        }
        // All its items may have one key.
        Err(error) if error.fault == Fault::BadRequest => {}
        Err(error) if world.crashed.load(Ordering::Relaxed) => {
            assert_eq!(error.fault, Fault::Unavailable, "{error}");
        }
        Err(error) => refusals.lock().unwrap().push(error.to_string()),
    }
}

async fn write(world: Arc<World>, number: u64, seed: u64) {
    let mut dice = Dice(seed);
    let container = &world.container;
    let name = (dice.below(KEYS), dice.below(IDS));
    let kind = dice.below(5);
    let mut body = json!({
        "id": format!("i{}", name.1),
        "pk": format!("k{}", name.0 / world.levels as u64),
        "second": format!("s{}", name.0),
        "name": [name.0, name.1],
        "unique": dice.below(IDS),
        "version": number,
    });
    if dice.below(4) == 0 {
        body["padding"] = "x".repeat(dice.below(300) as usize).into();
    }
    let version = (kind != 4).then_some(number);
    world.writes.lock().unwrap().insert(number, Write { name, version, lsn: None });
    let key = key(name, world.levels);
    let (body, id) = (Bytes::from(body.to_string()), format!("i{}", name.1));
    let none = Conditions::default();
    let answer = match kind {
        0 => container.create_item(Some(key.clone()), body, &none).await,
        1 | 2 => container.upsert_item(Some(key.clone()), body, &none).await,
        3 => container.replace_item(&id, Some(key.clone()), body, &none).await,
        _ => container.delete_item(&id, Some(key.clone()), &none).await,
    };
    let answer = answer.expect("the request is well formed");
    if answer.result.is_ok() {
        // The session of the parent holds in its children.
        let session = Session::parse(&session_token(&answer.at.range, answer.at.lsn)).unwrap();
        let read = container.read_item(&id, Some(key), Some(&session)).await.unwrap();
        assert!(read.at.lsn >= answer.at.lsn, "a read after a write sees it");
        let newer = read.at.item_lsn.is_none_or(|lsn| lsn >= answer.at.lsn);
        assert!(newer, "not even a cached item is older");
    }
    let mut writes = world.writes.lock().unwrap();
    match &answer.result {
        Ok(_) => {
            let lsn = Some(answer.at.lsn);
            let taken = writes.values().any(|write| write.name == name && write.lsn == lsn);
            assert!(!taken, "an LSN is given once");
            writes.get_mut(&number).unwrap().lsn = lsn;
        }
        Err(error) => match error.fault {
            // Refused: it left no trace.
            Fault::Conflict | Fault::NotFound => {
                writes.remove(&number);
            }
            // The crash came first: it may or may not be there.
            Fault::Unavailable if world.crashed.load(Ordering::Relaxed) => {}
            other => panic!("{other:?}: {error}"),
        },
    }
}

fn key(name: Name, levels: usize) -> PartitionKey {
    let mut components = vec![Component::String(format!("k{}", name.0 / levels as u64))];
    if levels > 1 {
        components.push(Component::String(format!("s{}", name.0)));
    }
    PartitionKey(components)
}

/// A reader of the change feed: parts of the key space, each with its etag as text.
struct Reader {
    parts: Vec<(Scope, EpkRange, Option<String>)>,
    /// What it is about.
    wanted: EpkRange,
    seen: HashMap<Name, (u64, u64)>,
}

fn new_readers(container: &Container, levels: usize, dice: &mut Dice) -> Vec<Reader> {
    let reader = |scope: Scope, span: EpkRange| Reader {
        parts: vec![(scope, span.clone(), None)],
        wanted: span,
        seen: HashMap::new(),
    };
    let definition = container.definition();
    let key = key((dice.below(KEYS), 0), levels);
    let prefix = PartitionKey(vec![key.0[0].clone()]);
    let bound = definition.partition_key.epk(&key);
    let lower = EpkRange::new(Epk::MIN, bound.clone());
    let upper = EpkRange::new(bound, Epk::max());
    let range_of = |key: &PartitionKey| definition.partition_key.range_of(key);
    let mut by_range = reader(Scope::Everything, EpkRange::full());
    by_range.parts.clear();
    for range in container.ranges().ranges {
        by_range.parts.push((Scope::Range(range.id.to_string()), range.span, None));
    }
    vec![
        reader(Scope::Everything, EpkRange::full()),
        reader(Scope::Epk(lower.clone()), lower),
        reader(Scope::Epk(upper.clone()), upper),
        reader(Scope::Key(key.clone()), range_of(&key)),
        reader(Scope::Key(prefix.clone()), range_of(&prefix)),
        by_range,
    ]
}

impl Reader {
    /// Reads a page of each part; true when there was something.
    async fn read(&mut self, container: &Container, dice: &mut Dice) -> bool {
        let mut any = false;
        let mut n = 0;
        while n < self.parts.len() {
            let (scope, span, etag) = self.parts[n].clone();
            let start = match &etag {
                None => ChangesStart::Beginning,
                Some(etag) => ChangesStart::After(Position::parse(etag).unwrap()),
            };
            let items = Some(1 + dice.below(9) as usize);
            let read = ChangesRead { scope, start, items };
            match container.read_changes(&read, None).await {
                Ok(answer) => {
                    let page = answer.result.unwrap();
                    any |= !page.changes.is_empty();
                    self.take(&page.changes);
                    self.parts[n].2 = Some(page.position.to_string());
                    n += 1;
                }
                Err(gone) => {
                    assert_eq!((gone.fault.status(), gone.fault.substatus()), (410, 1002));
                    let parts = successors(container, &span, etag);
                    self.parts.splice(n..=n, parts);
                }
            }
        }
        any
    }

    fn take(&mut self, changes: &[astrarium_engine::Changed]) {
        for change in changes {
            let body: Value = serde_json::from_slice(&change.body).unwrap();
            let name = (body["name"][0].as_u64().unwrap(), body["name"][1].as_u64().unwrap());
            let version = body["version"].as_u64().unwrap();
            let before = self.seen.insert(name, (change.lsn, version));
            let later = before.is_none_or(|(lsn, _)| lsn < change.lsn);
            assert!(later, "{name:?}: a change comes once, in order: {before:?}, {}", change.lsn);
        }
    }

    async fn read_all(&mut self, container: &Container, dice: &mut Dice) {
        // A page may be empty though another part of the container has more.
        let mut idle = 0;
        while idle < 10 {
            idle = if self.read(container, dice).await { 0 } else { idle + 1 };
        }
    }

    fn check(&self, container: &Container, levels: usize, found: &HashMap<Name, Option<u64>>) {
        for (name, version) in found {
            let epk = container.definition().partition_key.epk(&key(*name, levels));
            if let (Some(version), true) = (version, self.wanted.contains(&epk)) {
                let seen = self.seen.get(name).map(|(_, version)| *version);
                assert_eq!(seen, Some(*version), "{name:?}: the reader has the newest version");
            }
        }
    }
}

/// Where a client goes on when a range is gone: in the ranges that have its keys, or the part of
/// one that they are, with the etag it had.
fn successors(
    container: &Container,
    span: &EpkRange,
    etag: Option<String>,
) -> Vec<(Scope, EpkRange, Option<String>)> {
    let mut parts = Vec::new();
    for range in container.ranges().ranges {
        let Some(common) = range.span.intersect(span) else { continue };
        let scope = match common == range.span {
            true => Scope::Range(range.id.to_string()),
            false => Scope::Epk(common.clone()),
        };
        parts.push((scope, common, etag.clone()));
    }
    assert!(!parts.is_empty());
    parts
}

async fn check_recovered(
    container: &Container,
    levels: usize,
    writes: &BTreeMap<u64, Write>,
    before: &HashMap<Name, Option<u64>>,
) -> HashMap<Name, Option<u64>> {
    let mut found = HashMap::new();
    for name in (0..KEYS).flat_map(|k| (0..IDS).map(move |i| (k, i))) {
        let id = format!("i{}", name.1);
        let answer = container.read_item(&id, Some(key(name, levels)), None).await.unwrap();
        let version = match &answer.result {
            Ok(item) => {
                let body: Value = serde_json::from_slice(&item.body).expect("an item is whole");
                Some(body["version"].as_u64().unwrap())
            }
            Err(error) => {
                assert_eq!(error.fault, Fault::NotFound);
                None
            }
        };
        let mine = || writes.values().filter(|write| write.name == name);
        let told = mine().filter(|write| write.lsn.is_some()).max_by_key(|write| write.lsn);
        let expected = told.map_or(before.get(&name).copied().flatten(), |write| write.version);
        let untold = mine().any(|write| write.lsn.is_none() && write.version == version);
        assert!(
            version == expected || untold,
            "{name:?}: found {version:?}, expected {expected:?}, of {:?}",
            mine().collect::<Vec<_>>()
        );
        assert!(answer.at.lsn >= told.and_then(|write| write.lsn).unwrap_or(0));
        found.insert(name, version);
    }
    check_pages(container, &found).await;
    found
}

/// The pages hold exactly the items that point reads find, and unique keys hold.
async fn check_pages(container: &Container, found: &HashMap<Name, Option<u64>>) {
    let mut versions = Vec::new();
    let mut unique = HashMap::new();
    let mut page = Page { items: Some(7), continuation: None };
    loop {
        let answer =
            container.read_items(&Scope::Everything, &page, None).await.unwrap().result.unwrap();
        for body in &answer.bodies {
            let body: Value = serde_json::from_slice(body).unwrap();
            versions.push(body["version"].as_u64().unwrap());
            let held = (body["name"][0].to_string(), body["unique"].to_string());
            assert_eq!(unique.insert(held, body["id"].clone()), None, "a unique key is held once");
        }
        match answer.continuation {
            Some(continuation) => page.continuation = Some(continuation),
            None => break,
        }
    }
    let mut expected: Vec<u64> = found.values().copied().flatten().collect();
    expected.sort_unstable();
    versions.sort_unstable();
    assert_eq!(versions, expected);
}

/// Looks at the rows themselves, before anybody opens the account.
async fn check_rows(store: &Crashing) {
    let catalog = rows(store, 0, Keyspace::Meta).await;
    let record = |stored: &Bytes| serde_json::from_slice::<Value>(stored).unwrap();
    let container = catalog
        .iter()
        .filter(|(key, _)| key[0] == b'r')
        .map(|(_, stored)| record(stored))
        .find(|record| record["kind"] == "colls")
        .unwrap();
    let partitions = container["partitions"].as_array().unwrap();
    let mut reached = Epk::MIN;
    for partition in partitions {
        let number = partition["number"].as_u64().unwrap();
        let bound = |name: &str| Epk::from_hex(partition[name].as_str().unwrap()).unwrap();
        let span = EpkRange::new(bound("min"), bound("max"));
        assert_eq!(span.min, reached, "partitions meet");
        reached = span.max.clone();
        let garbage = [&b"g"[..], &u32::try_from(number).unwrap().to_be_bytes()].concat();
        assert!(catalog.iter().all(|(key, _)| key[..] != garbage[..]), "it is not garbage");
        check_partition(store, number, &span).await;
    }
    assert_eq!(reached, Epk::max(), "partitions cover the key space");
}

async fn check_partition(store: &Crashing, number: u64, span: &EpkRange) {
    let docs = rows(store, number, Keyspace::Docs).await;
    let feed = rows(store, number, Keyspace::Feed).await;
    let index = rows(store, number, Keyspace::Index).await;
    let u64_at =
        |bytes: &[u8], at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let mut bytes = 0;
    for (key, row) in &docs {
        assert!(key[..] >= *span.min.significant(), "an item is where it belongs");
        assert!(span.max == Epk::max() || key[..] < *span.max.significant());
        bytes += u64::from(u32::from_be_bytes(row[25..29].try_into().unwrap()));
        let body = feed.iter().find(|(feed_key, _)| feed_key[..] == row[1..15]);
        let (_, body) = body.expect("an item has its body");
        assert_eq!(body[2..2 + key.len()], key[..], "and the body is its own");
    }
    assert_eq!(feed.len(), docs.len(), "no body without its item");
    let mut blocks: BTreeMap<u64, u32> = BTreeMap::new();
    for (key, _) in &feed {
        *blocks.entry(u64_at(key, 0) >> 8).or_default() += 1;
    }
    let counted: BTreeMap<u64, u32> = index
        .iter()
        .filter(|(key, _)| key[0] == b'b')
        .map(|(key, count)| (u64_at(key, 1), u32::from_be_bytes(count[..].try_into().unwrap())))
        .collect();
    assert_eq!(counted, blocks, "blocks are counted exactly");
    let held: Vec<&Bytes> =
        index.iter().filter(|(key, _)| key[0] == b'u').map(|(_, item)| item).collect();
    assert_eq!(held.len(), docs.len(), "each item holds its unique key");
    assert!(held.iter().all(|item| docs.iter().any(|(key, _)| key == *item)));
    let meta = rows(store, number, Keyspace::Meta).await;
    if let Some((_, head)) = meta.iter().find(|(key, _)| key[..] == b"h"[..]) {
        assert_eq!((u64_at(head, 16), u64_at(head, 24)), (docs.len() as u64, bytes), "counters");
        let newest = feed.last().map_or(0, |(key, _)| u64_at(key, 0));
        assert!(u64_at(head, 0) >= newest, "the head is ahead of all rows");
    } else {
        assert!(docs.is_empty());
    }
}

async fn rows(store: &Crashing, partition: u64, keyspace: Keyspace) -> Vec<(Bytes, Bytes)> {
    let owner = store.open_owner(PartitionId(partition), Claim::Take).await.unwrap();
    let scan = Scan {
        keyspace,
        from: Bound::Unbounded,
        to: Bound::Unbounded,
        reverse: false,
        rows: usize::MAX,
        bytes: usize::MAX,
        keys_only: false,
    };
    let view: Arc<dyn View> = owner.published();
    view.scan(scan).await.unwrap().rows
}
