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
//! `ASTRARIUM_SEED=n` replays one seed.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use astrarium_engine::{
    Changed, ChangesMode, ChangesPage, ChangesRead, ChangesStart, Conditions, Container,
    CreateOptions, Engine, Env, Kind, Link, Operation, Options, Page, ReplaceOptions, Scope,
};
use bytes::Bytes;
use kv::{Claim, Crashing, Keyspace, PartitionId, Scan, Stores, View};
use model::epk::{Epk, EpkRange};
use model::partition_key::{Component, PartitionKey};
use model::token::{Position, Session, session_token};
use model::{Error, Fault};
use serde_json::{Map, Value, json};

const SEEDS: u64 = 60;
const LIVES: usize = 4;
const ROUNDS: usize = 40;
const WRITERS_PER_ROUND: u64 = 8;
const KEYS: u64 = 9;
const IDS: u64 = 5;
const LATEST: ChangesMode = ChangesMode::Latest { deletes: false };
const DELETES: ChangesMode = ChangesMode::Latest { deletes: true };
const ALL: ChangesMode = ChangesMode::AllVersions;

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
    let seeds: Vec<u64> = match std::env::var("ASTRARIUM_SEED") {
        Ok(seed) => vec![seed.parse().expect("ASTRARIUM_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    };
    let mut totals = Totals::default();
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let run =
            std::panic::AssertUnwindSafe(|| runtime.block_on(live_and_die(seed, &mut totals)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!(
                "replay with ASTRARIUM_SEED={seed} cargo test -p astrarium-engine --test layout_simulation"
            );
            std::panic::resume_unwind(panic);
        }
    }
    eprintln!("{totals:?}");
    let Totals { exchanges, changes, expired, refused, replays, since } = totals;
    if changes > 100_000 {
        assert!([exchanges, expired, refused, replays, since].iter().all(|n| *n > 0));
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
    let (store, clock) = (Crashing::manual(), Arc::new(AtomicU64::new(1_700_000_000_000)));
    let open = || Engine::open(Arc::new(store.clone()), env(&clock), options());
    let engine = with_sync(&store, open()).await.unwrap();
    with_sync(&store, set_up(&engine, 0)).await;
    let world = Arc::new(World::new(engine.container("db", "c").unwrap(), 1, &clock));
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

fn options() -> Options {
    Options { housekeeping: None, ..Options::default() }
}

async fn live_and_die(seed: u64, totals: &mut Totals) {
    let mut dice = Dice(seed);
    let levels = if seed % 3 == 2 { 2 } else { 1 };
    let store = Crashing::manual();
    let clock = Arc::new(AtomicU64::new(1_700_000_000_000));
    let mut readers: Vec<Reader> = Vec::new();
    let mut recovered: HashMap<Name, Option<u64>> = HashMap::new();
    let mut before: Option<Arc<World>> = None;
    let exchanges = Arc::new(AtomicU64::new(0));
    let refusals = Arc::new(Mutex::new(Vec::new()));
    for life in 0..=LIVES {
        if life > 0 {
            with_sync(&store, check_rows(&store)).await;
        }
        let engine = Engine::open(Arc::new(store.clone()), env(&clock), options());
        let engine = with_sync(&store, engine).await.expect("the account opens after a crash");
        if life == 0 {
            with_sync(&store, set_up(&engine, seed)).await;
        }
        let container = engine.container("db", "c").unwrap();
        let housekept = dice.below(2) == 0;
        while housekept && with_sync(&store, engine.housekeep()).await {}
        let (world, last) = match &before {
            None => (World::new(container, levels, &clock), BTreeMap::new()),
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
            with_sync(&store, redefine(&engine, &mut dice)).await;
        }
        readers.extend(new_readers(&world, &mut dice));
        live(
            &store,
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
            clock.fetch_add(90_000, Ordering::Relaxed);
        }
    }
    let refusals = refusals.lock().unwrap();
    assert!(refusals.is_empty(), "{refusals:?}");
    totals.exchanges += exchanges.load(Ordering::Relaxed);
    totals.refused += readers.iter().map(|reader| reader.refused).sum::<u64>();
}

/// Writers, readers, changes of the layout and housekeeping, until the store crashes.
async fn live(
    store: &Crashing,
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
        world.clock.fetch_add(dice.below(2000), Ordering::Relaxed);
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
        for _ in 0..dice.below(12) {
            tokio::task::yield_now().await;
            store.sync(dice.below(8) as usize);
        }
        for _ in 0..2 {
            let reader = dice.below(readers.len() as u64) as usize;
            readers[reader].read(world, dice, totals).await;
        }
    }
    world.crashed.store(true, Ordering::Relaxed);
    store.crash(dice.below(store.queued() as u64 + 1) as usize);
    end(tasks).await;
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
    engine
        .create(&database, Kind::Container, object(body), CreateOptions::default())
        .await
        .unwrap();
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

/// A change as readers compare it: the item, the LSN and whether there is a body, and the time.
/// Under one LSN an item may end that has expired, and another begin in its place.
type Event = (Name, (u64, bool), u64);

fn event(change: &Changed) -> Event {
    (name_of(change), (change.lsn, !change.body.is_empty()), change.ts_ms)
}

/// A reader of the change feed: parts of the key space, each with its etag as text.
struct Reader {
    mode: ChangesMode,
    parts: Vec<(Scope, EpkRange, Option<String>)>,
    /// What it is about.
    wanted: EpkRange,
    /// The newest change seen of each item.
    newest: HashMap<Name, (u64, bool)>,
    /// What is known of each item: its newest version, or that there is none.
    known: HashMap<Name, Option<(u64, u64)>>,
    /// Changes in the order of reading, with their times.
    events: Vec<Event>,
    /// Etags of a reader of everything, and how many changes had been seen with them.
    etags: Vec<(String, usize)>,
    /// Writes acknowledged from here on must be seen; `None` until it has begun.
    from_ack: Option<usize>,
    refused: u64,
}

fn new_readers(world: &World, dice: &mut Dice) -> Vec<Reader> {
    let definition = world.container.definition();
    let key = key((dice.below(KEYS), 0), world.levels);
    let prefix = PartitionKey(vec![key.0[0].clone()]);
    let bound = definition.partition_key.epk(&key);
    let lower = EpkRange::new(Epk::MIN, bound.clone());
    let upper = EpkRange::new(bound, Epk::max());
    let range_of = |key: &PartitionKey| definition.partition_key.range_of(key);
    let mode = |dice: &mut Dice| [LATEST, DELETES, ALL][dice.below(3) as usize];
    let mut by_range = Reader::new(mode(dice), Scope::Everything, EpkRange::full());
    by_range.parts.clear();
    for range in world.container.ranges().ranges {
        by_range.parts.push((Scope::Range(range.id.to_string()), range.span, None));
    }
    vec![
        Reader::new(DELETES, Scope::Everything, EpkRange::full()),
        Reader::new(ALL, Scope::Everything, EpkRange::full()),
        Reader::new(mode(dice), Scope::Epk(lower.clone()), lower),
        Reader::new(mode(dice), Scope::Epk(upper.clone()), upper),
        Reader::new(mode(dice), Scope::Key(key.clone()), range_of(&key)),
        Reader::new(mode(dice), Scope::Key(prefix.clone()), range_of(&prefix)),
        by_range,
    ]
}

impl Reader {
    fn new(mode: ChangesMode, scope: Scope, wanted: EpkRange) -> Self {
        Self {
            mode,
            parts: vec![(scope, wanted.clone(), None)],
            wanted,
            newest: HashMap::new(),
            known: HashMap::new(),
            events: Vec::new(),
            etags: Vec::new(),
            from_ack: None,
            refused: 0,
        }
    }

    /// Reads a page of each part; true when there was something.
    async fn read(&mut self, world: &World, dice: &mut Dice, totals: &mut Totals) -> bool {
        let container = &world.container;
        let (mut any, mut n) = (false, 0);
        while n < self.parts.len() {
            let (scope, span, etag) = self.parts[n].clone();
            let start = match &etag {
                None => ChangesStart::Beginning,
                Some(etag) => ChangesStart::After(Position::parse(etag).unwrap()),
            };
            match page(container, scope, self.mode, start, 1 + dice.below(9) as usize).await {
                Ok(page) => {
                    any |= !page.changes.is_empty();
                    page.changes.iter().for_each(|change| self.see(change, totals));
                    self.parts[n].2 = Some(page.position.to_string());
                    n += 1;
                }
                Err(error) if error.fault == Fault::RangeGone => {
                    assert_eq!((error.fault.status(), error.fault.substatus()), (410, 1002));
                    self.parts.splice(n..=n, successors(container, &span, etag));
                }
                Err(error) => {
                    self.refuse(n, &error);
                    return error.fault == Fault::HistoryPurged;
                }
            }
        }
        if let [(Scope::Everything, _, Some(etag))] = &self.parts[..] {
            self.etags.push((etag.clone(), self.events.len()));
        }
        // All parts have begun, so what is acknowledged from now on comes after their positions.
        let acks = world.acks.lock().unwrap().len();
        self.from_ack.get_or_insert(acks);
        any
    }

    /// It has missed something, and knows.
    fn refuse(&mut self, part: usize, error: &Error) {
        self.refused += 1;
        self.known.clear();
        self.events.clear();
        self.etags.clear();
        self.from_ack = None;
        if error.fault == Fault::HistoryPurged && self.mode == ALL {
            let named = error.message.split("the etag ").nth(1).unwrap();
            self.parts[part].2 = Some(named.split(", of").next().unwrap().to_owned());
            return;
        }
        if error.fault != Fault::HistoryPurged {
            assert_eq!(error.fault, Fault::BadRequest, "{error}");
            assert!(error.message.contains("replace it with"), "{error}");
        }
        // All over again.
        self.newest.clear();
        self.parts.iter_mut().for_each(|part| part.2 = None);
    }

    fn see(&mut self, change: &Changed, totals: &mut Totals) {
        totals.changes += 1;
        let (name, place, _) = event(change);
        let newest = self.newest.insert(name, place);
        let later = newest.is_none_or(|newest| newest < place);
        assert!(later, "{name:?}: a change comes once, in order: {newest:?}, {}", change.lsn);
        if self.mode == ALL {
            self.check_chain(name, change);
            totals.expired += u64::from(change.detail.as_ref().unwrap().expired);
        }
        let now = (!change.body.is_empty()).then(|| (change.lsn, version_of(&change.body)));
        self.known.insert(name, now);
        self.events.push(event(change));
    }

    /// Each version names the one before it, so none lies between.
    fn check_chain(&self, name: Name, change: &Changed) {
        let detail = change.detail.as_ref().unwrap();
        let before = self.known.get(&name).copied();
        if detail.operation == Operation::Create {
            assert_eq!(detail.previous_lsn, None);
            assert!(before.is_none_or(|before| before.is_none()), "{name:?} was there");
            return;
        }
        let before = before.map(|before| before.expect("what is changed was there"));
        if let Some((lsn, version)) = before {
            assert_eq!(detail.previous_lsn, Some(lsn), "{name:?}: nothing lies between");
            let image = detail.previous.as_ref().map(version_of);
            assert!(image.is_none_or(|image| image == version), "{name:?}");
        }
    }

    async fn read_all(&mut self, world: &World, dice: &mut Dice, totals: &mut Totals) {
        // A page may be empty though another part of the container has more.
        let mut idle = 0;
        while idle < 10 {
            idle = if self.read(world, dice, totals).await { 0 } else { idle + 1 };
        }
    }

    fn check(&self, world: &World, found: &HashMap<Name, Option<u64>>) {
        // Refused, and not let in since: it knows nothing.
        let Some(from_ack) = self.from_ack else { return };
        for (name, version) in found {
            if !self.wanted.contains(&world.epk(*name)) {
                continue;
            }
            let known = self.known.get(name).map(|known| known.map(|(_, version)| version));
            match (self.mode, version, known) {
                (ALL, _, None) | (LATEST, None, _) | (DELETES, None, None) => {}
                // A newer one has expired, unseen, and is not purged.
                (_, None, Some(Some(_))) if !world.purged() => {}
                _ => assert_eq!(known, Some(*version), "{:?} {name:?}", self.mode),
            }
        }
        let seen: HashSet<(Name, u64)> =
            self.events.iter().map(|(name, (lsn, _), _)| (*name, *lsn)).collect();
        for ack in world.acks.lock().unwrap()[from_ack..].iter().filter(|_| self.mode == ALL) {
            let wanted = self.wanted.contains(&world.epk(ack.0));
            assert!(!wanted || seen.contains(ack), "{ack:?} was acknowledged and not seen");
        }
    }

    /// Reads again from an earlier etag: the same changes come, or the reader is told.
    async fn replay(&self, world: &World, dice: &mut Dice, totals: &mut Totals) {
        let Some(n) = dice.next().checked_rem(self.etags.len() as u64) else { return };
        if self.mode != ALL {
            return;
        }
        let (etag, from) = &self.etags[n as usize];
        let start = ChangesStart::After(Position::parse(etag).unwrap());
        let Some(again) = read_through(&world.container, ALL, start, dice).await else { return };
        totals.replays += 1;
        let expected: BTreeSet<_> = self.events[*from..].iter().copied().collect();
        assert_eq!(again.len(), expected.len(), "each comes once");
        assert_eq!(again.into_iter().collect::<BTreeSet<_>>(), expected);
    }

    /// Reads from a time: nothing of it or later is left out, or the reader is told.
    async fn replay_since(
        &self,
        world: &World,
        found: &HashMap<Name, Option<u64>>,
        dice: &mut Dice,
        totals: &mut Totals,
    ) {
        let Some(n) = dice.next().checked_rem(self.events.len() as u64) else { return };
        if !matches!(self.parts[..], [(Scope::Everything, ..)]) {
            return;
        }
        let (_, _, ts_ms) = self.events[n as usize];
        let start = ChangesStart::Since(ts_ms);
        let again = read_through(&world.container, self.mode, start, dice).await;
        let Some(again) = again else { return };
        totals.since += 1;
        let again: BTreeSet<_> = again.into_iter().collect();
        for event in self.events.iter().filter(|event| event.2 >= ts_ms) {
            let newest = self.newest[&event.0] == event.1;
            // What has expired is no change any more, until it is purged; that may be an item that
            // took the place of a deleted one, unseen.
            let known = self.known[&event.0].map(|(_, version)| version);
            let certain = known.is_some() || world.purged();
            let wanted = newest && certain && found[&event.0] == known;
            let came = again.contains(event);
            assert!(came || !(self.mode == ALL || wanted), "{:?} {event:?}", self.mode);
        }
    }
}

/// Everything from a start on; `None` when it is no longer kept.
async fn read_through(
    container: &Container,
    mode: ChangesMode,
    mut start: ChangesStart,
    dice: &mut Dice,
) -> Option<Vec<Event>> {
    let (mut events, mut idle) = (Vec::new(), 0);
    while idle < 10 {
        let items = 1 + dice.below(30) as usize;
        let page = match page(container, Scope::Everything, mode, start, items).await {
            Ok(page) => page,
            Err(error) => {
                assert!(matches!(error.fault, Fault::HistoryPurged | Fault::BadRequest), "{error}");
                return None;
            }
        };
        idle = if page.changes.is_empty() { idle + 1 } else { 0 };
        events.extend(page.changes.iter().map(event));
        start = ChangesStart::After(page.position);
    }
    Some(events)
}

async fn page(
    container: &Container,
    scope: Scope,
    mode: ChangesMode,
    start: ChangesStart,
    items: usize,
) -> Result<ChangesPage, Error> {
    let read = ChangesRead { scope, start, mode, items: Some(items) };
    container.read_changes(&read, None).await?.result
}

fn name_of(change: &Changed) -> Name {
    let number = |text: &str| text[1..].parse::<u64>().unwrap();
    let Some(id) = change.detail.as_ref().and_then(|detail| detail.id.as_ref()) else {
        let body: Value = serde_json::from_slice(&change.body).unwrap();
        return (body["name"][0].as_u64().unwrap(), body["name"][1].as_u64().unwrap());
    };
    let key = change.detail.as_ref().and_then(|detail| detail.key.as_ref()).unwrap();
    let key: Vec<String> = serde_json::from_str(key).unwrap();
    (number(key.last().unwrap()), number(id))
}

fn version_of(body: &Bytes) -> u64 {
    let body: Value = serde_json::from_slice(body).expect("an item is whole");
    body["version"].as_u64().unwrap()
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
    world: &World,
    writes: &BTreeMap<u64, Write>,
    before: &HashMap<Name, Option<u64>>,
) -> HashMap<Name, Option<u64>> {
    let container = &world.container;
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

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The item key that a version in the log, or what is left of a deleted item, begins with.
fn item_of(version: &[u8]) -> &[u8] {
    let length = usize::from(u16::from_be_bytes(version[1..3].try_into().unwrap()));
    &version[3..3 + length]
}

fn check_within(span: &EpkRange, item_key: &[u8]) {
    assert!(*item_key >= *span.min.significant(), "an item is where it belongs");
    assert!(span.max == Epk::max() || *item_key < *span.max.significant());
}

async fn check_partition(store: &Crashing, number: u64, span: &EpkRange) {
    let docs = rows(store, number, Keyspace::Docs).await;
    let feed = rows(store, number, Keyspace::Feed).await;
    let index = rows(store, number, Keyspace::Index).await;
    docs.iter().for_each(|(key, _)| check_within(span, key));
    let live: Vec<&(Bytes, Bytes)> = docs.iter().filter(|(_, row)| row[0] == 1).collect();
    for (key, row) in &live {
        let body = feed.iter().find(|(feed_key, _)| feed_key[..] == row[1..15]);
        let (_, body) = body.expect("an item has its body");
        assert_eq!(body[2..2 + key.len()], key[..], "and the body is its own");
    }
    assert_eq!(feed.len(), live.len(), "no body without its item");
    let family = |letter: u8| index.iter().filter(move |(key, _)| key[0] == letter);
    let mut blocks: BTreeMap<u64, u32> = BTreeMap::new();
    feed.iter().for_each(|(key, _)| *blocks.entry(u64_at(key, 0) >> 8).or_default() += 1);
    let counted = family(b'b').map(|(key, count)| (u64_at(key, 1), u32_at(count, 0)));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), blocks, "blocks are counted exactly");
    let held: Vec<&Bytes> = family(b'u').map(|(_, item)| item).collect();
    assert_eq!(held.len(), live.len(), "each item holds its unique key");
    assert!(held.iter().all(|item| live.iter().any(|(key, _)| key == *item)));
    let left = docs.iter().filter(|(_, row)| row[0] == 2);
    let left: BTreeSet<(&[u8], &[u8])> = left.map(|(key, row)| (&row[1..15], &key[..])).collect();
    let told = family(b'd').map(|(key, version)| (&key[1..], item_of(version)));
    assert_eq!(told.collect::<BTreeSet<_>>(), left, "deleted items leave what they should");
    let own = live.iter().filter(|(_, row)| u32_at(row, 21).cast_signed() > 0);
    let expiries = own.map(|(key, row)| {
        [&b"t"[..], &(u32_at(row, 17) + u32_at(row, 21)).to_be_bytes(), key].concat()
    });
    let found = family(b't').map(|(key, _)| key.to_vec());
    assert_eq!(found.collect::<BTreeSet<_>>(), expiries.collect(), "expiries are those of items");
    let sizes = family(b'v').map(|(key, size)| (u64_at(key, 1), u64_at(size, 0))).collect();
    let meta = rows(store, number, Keyspace::Meta).await;
    let meta = |name: u8| meta.iter().find(|(key, _)| key[..] == [name]).map(|(_, value)| value);
    let Some(head) = meta(b'h') else { return assert!(docs.is_empty()) };
    let bytes: u64 = live.iter().map(|(_, row)| u64::from(u32_at(row, 25))).sum();
    assert_eq!((u64_at(head, 16), u64_at(head, 24)), (live.len() as u64, bytes), "counters");
    let newest = feed.last().map_or(0, |(key, _)| u64_at(key, 0));
    assert!(u64_at(head, 0) >= newest, "the head is ahead of all rows");
    let floor = meta(b'l').map_or(0, |history| u64_at(history, 2));
    check_log(&rows(store, number, Keyspace::Log).await, sizes, head, floor, span);
}

/// The log belongs here, and its sizes are exact above the floor.
fn check_log(
    log: &[(Bytes, Bytes)],
    mut sizes: BTreeMap<u64, u64>,
    head: &Bytes,
    floor: u64,
    span: &EpkRange,
) {
    let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
    for (key, version) in log {
        check_within(span, item_of(version));
        assert!(u64_at(key, 0) <= u64_at(head, 0), "the head is ahead of the log");
        *counted.entry(u64_at(key, 0) >> 8).or_default() += (key.len() + version.len()) as u64;
    }
    if u64_at(head, 48) > 0 {
        let twice = sizes.insert(u64_at(head, 0) >> 8, u64_at(head, 48));
        assert_eq!(twice, None, "the newest block is in the head");
    }
    assert_eq!(u64_at(head, 40), sizes.values().sum::<u64>(), "the size of the log");
    // What is below the floor may be gone, or not yet.
    counted.retain(|block, _| block << 8 > floor);
    sizes.retain(|block, _| block << 8 > floor);
    assert_eq!(sizes, counted, "sizes of the log's blocks");
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
