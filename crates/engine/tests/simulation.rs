//! Random writers over a store that forgets what was not synced, checked against a model.
//!
//! Each seed runs a few lives of an account. In a life, many writers create, upsert, replace
//! and delete items at once, while batches become durable a few at a time; then the store
//! crashes somewhere between a sync and its acknowledgements. After each crash: every
//! acknowledged write is there unless a later write of the same item overtook it, LSNs have
//! grown, unique keys hold, and the pages of the feed are what point reads say. Readers follow
//! the change feed all along, from random positions and with small pages: each must end up with
//! the newest version of every item, never see an older one after a newer, and go on after the
//! crash with the etag it had.
//! `ASTRARIUM_SEED=n` replays one seed.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use astrarium_engine::{
    ChangesMode, ChangesRead, ChangesStart, Conditions, Container, CreateOptions, Engine, Env,
    Kind, Link, Options, Page, Scope,
};
use kv::Crashing;
use model::Fault;
use model::partition_key::{Component, PartitionKey};
use model::throughput::Throughput;
use model::token::{Match, Position};
use serde_json::{Map, Value, json};

const SEEDS: u64 = 40;
const LIVES: usize = 4;
const ROUNDS: usize = 30;
const WRITERS_PER_ROUND: u64 = 12;
const KEYS: u64 = 5;
const IDS: u64 = 6;

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

/// What a writer did, and what it was told.
#[derive(Debug, Clone)]
struct Write {
    name: Name,
    /// `None` is a delete.
    version: Option<u64>,
    /// The LSN it was acknowledged with; `None` while nobody knows.
    lsn: Option<u64>,
}

#[derive(Default)]
struct Model {
    writes: BTreeMap<u64, Write>,
    /// What each name was found to be after the last crash.
    recovered: HashMap<Name, Option<u64>>,
    highest: HashMap<String, u64>,
}

#[test]
fn no_acknowledged_write_is_lost() {
    let seeds: Vec<u64> = match std::env::var("ASTRARIUM_SEED") {
        Ok(seed) => vec![seed.parse().expect("ASTRARIUM_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(live_and_die(seed)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!(
                "replay with ASTRARIUM_SEED={seed} cargo test -p astrarium-engine --test simulation"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

async fn live_and_die(seed: u64) {
    let mut dice = Dice(seed);
    let store = Crashing::manual();
    let clock = Arc::new(AtomicU64::new(1_700_000_000_000));
    let model = Arc::new(Mutex::new(Model::default()));
    let mut readers = vec![Reader::default(), Reader::default()];
    for life in 0..LIVES {
        let engine = with_sync(
            &store,
            Engine::open(Arc::new(store.clone()), env(&clock), Options::default()),
        )
        .await;
        let engine = engine.expect("the account opens after a crash");
        if life == 0 {
            with_sync(&store, set_up(&engine)).await;
        }
        let container = engine.container("db", "c").unwrap();
        let mut recovered = std::mem::take(&mut *model.lock().unwrap());
        let found = check_recovered(&container, &mut recovered).await;
        *model.lock().unwrap() = recovered;
        for reader in &mut readers {
            reader.read_all(&container, &mut dice).await;
            reader.check(&found);
        }
        readers.push(Reader::default());
        let mut writers = Vec::new();
        for round in 0..ROUNDS {
            clock.fetch_add(dice.below(2000), Ordering::Relaxed);
            for writer in 0..WRITERS_PER_ROUND {
                let number = (life * ROUNDS + round) as u64 * WRITERS_PER_ROUND + writer;
                let work = write(container.clone(), model.clone(), number, dice.next());
                writers.push(tokio::spawn(work));
            }
            for _ in 0..dice.below(8) {
                tokio::task::yield_now().await;
                store.sync(dice.below(6) as usize);
            }
            let reader = dice.below(readers.len() as u64) as usize;
            readers[reader].read(&container, &mut dice).await;
        }
        let keep = dice.below(store.queued() as u64 + 1) as usize;
        store.crash(keep);
        for writer in writers {
            writer.await.expect("no writer has failed an assertion");
        }
        drop((container, engine));
        store.reopen();
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

async fn set_up(engine: &Engine) {
    let account = Link::default();
    let database = Link(vec![(Kind::Database, "db".into())]);
    engine
        .create(&account, Kind::Database, object(json!({"id": "db"})), CreateOptions::default())
        .await
        .unwrap();
    let body = json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/unique"]}]},
    });
    let options = CreateOptions { throughput: Some(Throughput::Manual(20_000)), upsert: false };
    engine.create(&database, Kind::Container, object(body), options).await.unwrap();
    assert_eq!(engine.container("db", "c").unwrap().ranges().ranges.len(), 2);
}

async fn write(container: Arc<Container>, model: Arc<Mutex<Model>>, number: u64, seed: u64) {
    let mut dice = Dice(seed);
    let name = (dice.below(KEYS), dice.below(IDS));
    let kind = dice.below(5);
    let body = json!({
        "id": format!("i{}", name.1),
        "pk": format!("k{}", name.0),
        "unique": dice.below(IDS),
        "version": number,
    });
    let version = (kind != 4).then_some(number);
    model.lock().unwrap().writes.insert(number, Write { name, version, lsn: None });
    let (body, key, id) = (body.to_string().into(), Some(key(name)), format!("i{}", name.1));
    let none = Conditions::default();
    let answer = match kind {
        0 => container.create_item(key, body, &none).await,
        1 | 2 => container.upsert_item(key, body, &none).await,
        3 => {
            container
                .replace_item(&id, key, body, &conditions(&container, name, &mut dice).await)
                .await
        }
        _ => container.delete_item(&id, key, &none).await,
    };
    let answer = answer.expect("the request is well formed");
    if answer.result.is_ok() {
        let read = container.read_item(&id, Some(self::key(name)), None).await.unwrap();
        assert!(read.at.lsn >= answer.at.lsn, "a read after a write sees it");
        assert!(
            read.at.item_lsn.is_none_or(|lsn| lsn >= answer.at.lsn),
            "not even a cached item is older"
        );
    }
    let mut model = model.lock().unwrap();
    match &answer.result {
        Ok(_) => {
            let lsn = answer.at.lsn;
            model.writes.get_mut(&number).unwrap().lsn = Some(lsn);
            let same = model
                .writes
                .values()
                .filter(|w| w.lsn == Some(lsn) && range_of(&container, w.name) == *answer.at.range);
            assert_eq!(same.count(), 1, "an LSN is given once");
            let highest = model.highest.entry(answer.at.range.to_string()).or_default();
            *highest = (*highest).max(lsn);
        }
        Err(error) => match error.fault {
            // Refused: it left no trace.
            Fault::Conflict | Fault::NotFound | Fault::PreconditionFailed => {
                model.writes.remove(&number);
            }
            // The crash came first: it may or may not be there.
            Fault::Unavailable => {}
            other => panic!("{other:?}: {error}"),
        },
    }
}

async fn conditions(container: &Container, name: Name, dice: &mut Dice) -> Conditions {
    let read = container.read_item(&format!("i{}", name.1), Some(key(name)), None).await.unwrap();
    match (dice.below(2), read.result) {
        (0, Ok(item)) => Conditions { if_match: Some(Match::Etag(item.etag)), if_none_match: None },
        _ => Conditions::default(),
    }
}

fn key(name: Name) -> PartitionKey {
    PartitionKey(vec![Component::String(format!("k{}", name.0))])
}

fn range_of(container: &Container, name: Name) -> String {
    let epk = container.definition().partition_key.epk(&key(name));
    let ranges = container.ranges().ranges;
    ranges.iter().find(|range| range.span.contains(&epk)).unwrap().id.to_string()
}

/// Follows the change feed.
#[derive(Default)]
struct Reader {
    /// Kept as clients keep it: as text.
    etag: Option<String>,
    seen: HashMap<Name, (u64, u64)>,
}

impl Reader {
    /// Reads a page; true when it had something.
    async fn read(&mut self, container: &Container, dice: &mut Dice) -> bool {
        let start = match &self.etag {
            None => ChangesStart::Beginning,
            Some(etag) => ChangesStart::After(Position::parse(etag).unwrap()),
        };
        let items = Some(1 + dice.below(9) as usize);
        let mode = ChangesMode::Latest { deletes: false };
        let read = ChangesRead { scope: Scope::Everything, start, mode, items };
        let page = container.read_changes(&read, None).await.unwrap().result.unwrap();
        for change in &page.changes {
            let body: Value = serde_json::from_slice(&change.body).unwrap();
            let number = |name: &str| body[name].as_str().unwrap()[1..].parse::<u64>().unwrap();
            let name = (number("pk"), number("id"));
            let before = self.seen.insert(name, (change.lsn, body["version"].as_u64().unwrap()));
            assert!(
                before.is_none_or(|(lsn, _)| lsn < change.lsn),
                "a change comes once, in order"
            );
        }
        self.etag = Some(page.position.to_string());
        !page.changes.is_empty()
    }

    async fn read_all(&mut self, container: &Container, dice: &mut Dice) {
        // A page may be empty though another part of the container has more.
        let mut idle = 0;
        while idle < 3 {
            idle = if self.read(container, dice).await { 0 } else { idle + 1 };
        }
    }

    fn check(&self, found: &HashMap<Name, Option<u64>>) {
        for (name, version) in found {
            if let Some(version) = version {
                let seen = self.seen.get(name).map(|(_, version)| *version);
                assert_eq!(seen, Some(*version), "{name:?}: the reader has the newest version");
            }
        }
    }
}

async fn check_recovered(container: &Container, model: &mut Model) -> HashMap<Name, Option<u64>> {
    let mut found = HashMap::new();
    for name in (0..KEYS).flat_map(|k| (0..IDS).map(move |i| (k, i))) {
        let answer =
            container.read_item(&format!("i{}", name.1), Some(key(name)), None).await.unwrap();
        let highest = model.highest.get(&*answer.at.range).copied().unwrap_or(0);
        assert!(answer.at.lsn >= highest, "LSNs never go back");
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
        check_name(model, name, version, answer.at.item_lsn);
        found.insert(name, version);
    }
    check_feed(container, &found).await;
    assert_eq!(container.index_faults().await.unwrap(), Vec::<String>::new());
    model.recovered = found.clone();
    model.writes.clear();
    found
}

/// What is found of a name must be its last acknowledged write, or one that nobody was told of.
fn check_name(model: &Model, name: Name, version: Option<u64>, item_lsn: Option<u64>) {
    let writes = || model.writes.values().filter(|write| write.name == name);
    let acknowledged = writes().filter(|write| write.lsn.is_some()).max_by_key(|write| write.lsn);
    let before = model.recovered.get(&name).copied().flatten();
    let expected = acknowledged.map_or(before, |write| write.version);
    if version == expected {
        return;
    }
    let untold = writes().any(|write| write.lsn.is_none() && write.version == version);
    assert!(
        untold,
        "{name:?}: found {version:?}, expected {expected:?}, of {:?}",
        writes().collect::<Vec<_>>()
    );
    if let (Some(item_lsn), Some(write)) = (item_lsn, acknowledged) {
        assert!(Some(item_lsn) > write.lsn, "an unacknowledged write that is there came later");
    }
}

/// The pages hold exactly the items that point reads find, and unique keys hold.
async fn check_feed(container: &Container, found: &HashMap<Name, Option<u64>>) {
    let mut versions = Vec::new();
    let mut unique = HashMap::new();
    let mut page = Page { items: Some(7), continuation: None };
    loop {
        let answer =
            container.read_items(&Scope::Everything, &page, None).await.unwrap().result.unwrap();
        for body in &answer.bodies {
            let body: Value = serde_json::from_slice(body).unwrap();
            versions.push(body["version"].as_u64().unwrap());
            let taken = unique
                .insert((body["pk"].to_string(), body["unique"].to_string()), body["id"].clone());
            assert_eq!(taken, None, "a unique key is held once");
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
