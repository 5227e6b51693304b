//! Random writers and readers while partitions are split and merged, over a store that crashes.
//!
//! Each seed runs a few lives of a container: of hashes of version 2, of version 1, or of
//! hierarchical keys. Writers never stop, splits and merges come at random moments, batches become
//! durable a few at a time, and the store crashes anywhere, in the middle of an exchange of
//! partitions too. Before each start the rows themselves are looked at: the partitions on record
//! cover the key space, hold what belongs to them and nothing else, and their counts are exact.
//! Writers never see an error before the crash. Readers follow the change feed as clients do: whole,
//! by range ids (after 410 the children go on with the parent's etag), by parts of the key space,
//! and by key. Those of the latest versions must see the newest of every item, never an older one
//! after it; those with deletes must keep a copy that is what point reads say; those of all versions
//! must see every acknowledged write once, each naming the one before it, and again from etags and
//! times of long ago. Half of the seeds keep all history, and nobody may be refused; in the others
//! policies change, history is cut off, and whoever falls behind must be told.
//! `ASTRARIUM_SEED=n` replays one seed, to the last byte.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

mod reader;
mod rows;
#[path = "../support/simulation.rs"]
mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use astrarium_engine::{ChangesMode, Conditions, Container, Engine, Page, ReplaceOptions, Scope};
use bytes::Bytes;
use model::Fault;
use model::epk::{Epk, EpkRange};
use model::partition_key::{Component, PartitionKey};
use model::token::{Session, session_token};
use serde_json::{Value, json};

use reader::{Reader, new_readers, version_of};
use rows::check_rows;
use support::{Dice, Disk, create, end, for_each_seed, link, object, with_sync};

const SEEDS: u64 = 60;
const LIVES: usize = 4;
const ROUNDS: usize = 40;
const WRITERS_PER_ROUND: u64 = 8;
const KEYS: u64 = 9;
const IDS: u64 = 5;
const LATEST: ChangesMode = ChangesMode::Latest { deletes: false };
const DELETES: ChangesMode = ChangesMode::Latest { deletes: true };
const ALL: ChangesMode = ChangesMode::AllVersions;

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

/// When versions were written, at the earliest, and their own time to live, in seconds.
type Times = HashMap<u64, (u64, Option<u64>)>;

/// What the writers of a life share.
struct World {
    container: Arc<Container>,
    levels: usize,
    crashed: AtomicBool,
    /// Background work was all done when this life began.
    housekept: bool,
    clock: Arc<AtomicU64>,
    writes: Mutex<BTreeMap<u64, Write>>,
    times: Arc<Mutex<Times>>,
    /// Acknowledged writes, in the order of their acknowledgement.
    acks: Arc<Mutex<Vec<(Name, u64)>>>,
}

impl World {
    fn new(container: Arc<Container>, levels: usize, clock: &Arc<AtomicU64>) -> Self {
        Self {
            container,
            levels,
            crashed: AtomicBool::new(false),
            housekept: false,
            clock: clock.clone(),
            writes: Mutex::default(),
            times: Arc::default(),
            acks: Arc::default(),
        }
    }

    /// The next life of the same world.
    fn reborn(&self, container: Arc<Container>) -> Self {
        let (times, acks) = (self.times.clone(), self.acks.clone());
        Self { times, acks, ..Self::new(container, self.levels, &self.clock) }
    }

    /// Whether an item that was visible at a version may have expired.
    fn expired(&self, version: u64) -> bool {
        let Some(default) = self.container.definition().default_ttl else { return false };
        let (since, own) = self.times.lock().unwrap()[&version];
        let ttl = own.or_else(|| u64::try_from(default).ok());
        ttl.is_some_and(|ttl| self.clock.load(Ordering::Relaxed) / 1000 > since + ttl)
    }

    /// Whether everything that has expired is deleted.
    fn purged(&self) -> bool {
        match self.container.definition().default_ttl {
            None => true,
            // Items on the default may have to wait for others after a merge.
            Some(default) => default < 0 && self.housekept,
        }
    }

    fn epk(&self, name: Name) -> Epk {
        self.container.definition().partition_key.epk(&key(name, self.levels))
    }
}

/// What happened, so that it is known to have happened.
#[derive(Debug, Default)]
struct Totals {
    exchanges: u64,
    changes: u64,
    expired: u64,
    refused: u64,
    replays: u64,
    since: u64,
}

#[test]
fn layouts_change_and_nothing_is_lost() {
    let mut totals = Totals::default();
    for_each_seed("layout_simulation", SEEDS, async |seed| {
        live_and_die(seed, &mut totals).await;
    });
    eprintln!("{totals:?}");
    let Totals { exchanges, changes, expired, refused, replays, since } = totals;
    if changes > 100_000 {
        assert!([exchanges, expired, refused, replays, since].iter().all(|n| *n > 0));
    }
}

/// A seed is one story, however often it is told.
#[test]
fn a_seed_replays() {
    for seed in 0..6 {
        let tell = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(live_and_die(seed, &mut Totals::default()))
        };
        assert_eq!(tell(), tell(), "seed {seed}");
    }
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
    let disk = Disk::new();
    let (store, clock) = (&disk.store, &disk.clock);
    let engine = disk.open().await;
    with_sync(store, set_up(&engine, 0)).await;
    let world = Arc::new(World::new(engine.container("db", "c").unwrap(), 1, clock));
    for number in 0..60 {
        with_sync(store, write(world.clone(), number, number)).await;
    }
    if merge {
        with_sync(store, engine.split(&link(), "0")).await.unwrap();
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
    with_sync(store, check_rows(store)).await;
    let engine = disk.open().await;
    let container = engine.container("db", "c").unwrap();
    let writes = world.writes.lock().unwrap().clone();
    let world = world.reborn(container.clone());
    let found = check_recovered(&world, &writes, &HashMap::new()).await;
    for mode in [LATEST, DELETES, ALL] {
        let mut reader = Reader::new(mode, Scope::Everything, EpkRange::full());
        reader.from_ack = Some(0);
        reader.read_all(&world, &mut Dice(0), &mut Totals::default()).await;
        reader.check(&world, &found);
    }
    let ids: Vec<String> =
        container.ranges().ranges.iter().map(|range| range.id.to_string()).collect();
    let layouts = if merge { [vec!["1", "2"], vec!["3"]] } else { [vec!["0"], vec!["1", "2"]] };
    assert!(layouts.iter().any(|layout| *layout == ids), "{ids:?}");
    unfinished
}

/// Returns the digest of all that was submitted.
async fn live_and_die(seed: u64, totals: &mut Totals) -> u64 {
    let mut dice = Dice(seed);
    let levels = if seed % 3 == 2 { 2 } else { 1 };
    let disk = Disk::new();
    let store = &disk.store;
    let mut readers: Vec<Reader> = Vec::new();
    let mut recovered: HashMap<Name, Option<u64>> = HashMap::new();
    let mut before: Option<Arc<World>> = None;
    let exchanges = Arc::new(AtomicU64::new(0));
    let refusals = Arc::new(Mutex::new(Vec::new()));
    for life in 0..=LIVES {
        if life > 0 {
            with_sync(store, check_rows(store)).await;
        }
        let engine = disk.open().await;
        if life == 0 {
            with_sync(store, set_up(&engine, seed)).await;
        }
        let container = engine.container("db", "c").unwrap();
        let housekept = dice.below(2) == 0;
        while housekept && with_sync(store, engine.housekeep()).await {}
        let (world, last) = match &before {
            None => (World::new(container, levels, &disk.clock), BTreeMap::new()),
            Some(before) => (before.reborn(container), before.writes.lock().unwrap().clone()),
        };
        let world = Arc::new(World { housekept, ..world });
        recovered = check_recovered(&world, &last, &recovered).await;
        for reader in &mut readers {
            reader.read_all(&world, &mut dice, totals).await;
            reader.check(&world, &recovered);
            reader.replay(&world, &mut dice, totals).await;
            reader.replay_since(&world, &recovered, &mut dice, totals).await;
            assert!(!keeps_all(seed) || reader.refused == 0, "all is kept, nobody is refused");
        }
        if life == LIVES {
            break;
        }
        if !keeps_all(seed) {
            with_sync(store, redefine(&engine, &mut dice)).await;
        }
        readers.extend(new_readers(&world, &mut dice));
        live(
            &disk,
            &engine,
            &world,
            &mut readers,
            (&exchanges, &refusals),
            (life, &mut dice),
            totals,
        )
        .await;
        before = Some(world);
        store.reopen();
        if dice.below(4) == 0 {
            // Down for longer than history is kept.
            disk.pass(90_000);
        }
    }
    let refusals = refusals.lock().unwrap();
    assert!(refusals.is_empty(), "{refusals:?}");
    totals.exchanges += exchanges.load(Ordering::Relaxed);
    totals.refused += readers.iter().map(|reader| reader.refused).sum::<u64>();
    store.digest()
}

/// Writers, readers, changes of the layout and housekeeping, until the store crashes.
async fn live(
    disk: &Disk,
    engine: &Arc<Engine>,
    world: &Arc<World>,
    readers: &mut [Reader],
    (exchanges, refusals): (&Arc<AtomicU64>, &Arc<Mutex<Vec<String>>>),
    (life, dice): (usize, &mut Dice),
    totals: &mut Totals,
) {
    let mut tasks = Vec::new();
    let mut layout: Option<usize> = None;
    for round in 0..ROUNDS {
        disk.pass(dice.below(2000));
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
        if dice.below(4) == 0 {
            let engine = engine.clone();
            tasks.push(tokio::spawn(async move {
                engine.housekeep().await;
            }));
        }
        disk.sync_some(dice, 12).await;
        for _ in 0..2 {
            let reader = dice.below(readers.len() as u64) as usize;
            readers[reader].read(world, dice, totals).await;
        }
    }
    world.crashed.store(true, Ordering::Relaxed);
    disk.crash(dice);
    end(tasks).await;
}

async fn set_up(engine: &Engine, seed: u64) {
    let key = match seed % 3 {
        0 => json!({"paths": ["/pk"], "kind": "Hash", "version": 2}),
        1 => json!({"paths": ["/pk"], "kind": "Hash", "version": 1}),
        _ => json!({"paths": ["/pk", "/second"], "kind": "MultiHash", "version": 2}),
    };
    let mut body = json!({
        "id": "c",
        "partitionKey": key,
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/unique"]}]},
        "changeFeedPolicy": {
            "retentionDuration": 10_000,
            "tombstoneDuration": 10_000,
            "previousImages": seed.is_multiple_of(4),
        },
    });
    // A time to live that is the same all along: then what has expired stays so.
    match seed % 5 {
        0 => {}
        1 | 2 => body["defaultTtl"] = json!(-1),
        _ => body["defaultTtl"] = json!(25),
    }
    create(engine, body, None).await;
}

/// Whether a seed keeps all history.
fn keeps_all(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Keeps history for a minute, or not at all.
async fn redefine(engine: &Arc<Engine>, dice: &mut Dice) {
    let container = engine.container("db", "c").unwrap();
    let mut policy = json!({
        "retentionDuration": u64::from(dice.below(4) > 0),
        "tombstoneDuration": u64::from(dice.below(4) > 0),
        "previousImages": dice.below(2) == 0,
    });
    if dice.below(2) == 0 {
        policy["retentionBytes"] = json!(10_000 + dice.below(200_000));
    }
    let mut body = json!({"id": "c", "changeFeedPolicy": policy});
    if let Some(default) = container.definition().default_ttl {
        body["defaultTtl"] = json!(default);
    }
    engine.replace(&link(), object(body), ReplaceOptions::default()).await.unwrap();
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
    let ttl = (dice.below(3) == 0).then(|| 1 + dice.below(30));
    if let Some(ttl) = ttl {
        body["ttl"] = json!(ttl);
    }
    let since = world.clock.load(Ordering::Relaxed) / 1000;
    world.times.lock().unwrap().insert(number, (since, ttl));
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
            world.acks.lock().unwrap().push((name, answer.at.lsn));
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

async fn check_recovered(
    world: &World,
    writes: &BTreeMap<u64, Write>,
    before: &HashMap<Name, Option<u64>>,
) -> HashMap<Name, Option<u64>> {
    let container = &world.container;
    assert_eq!(container.index_faults().await.unwrap(), Vec::<String>::new());
    let mut found = HashMap::new();
    for name in (0..KEYS).flat_map(|k| (0..IDS).map(move |i| (k, i))) {
        let id = format!("i{}", name.1);
        let answer = container.read_item(&id, Some(key(name, world.levels)), None).await.unwrap();
        let version = match &answer.result {
            Ok(item) => Some(version_of(&item.body)),
            Err(error) => {
                assert_eq!(error.fault, Fault::NotFound);
                None
            }
        };
        let mine = || writes.values().filter(|write| write.name == name);
        let told = mine().filter(|write| write.lsn.is_some()).max_by_key(|write| write.lsn);
        let expected = told.map_or(before.get(&name).copied().flatten(), |write| write.version);
        let untold = mine().any(|write| write.lsn.is_none() && write.version == version);
        let mut latest = mine().filter_map(|write| write.version).chain(expected);
        let expired = version.is_none() && latest.any(|version| world.expired(version));
        assert!(
            version == expected || untold || expired,
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
