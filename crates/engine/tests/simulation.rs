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

#[path = "support/simulation.rs"]
mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use astrarium_engine::{
    ChangesMode, ChangesRead, ChangesStart, Conditions, Container, Engine, Page, Scope,
};
use model::Fault;
use model::partition_key::{Component, PartitionKey};
use model::token::{Match, Position};
use serde_json::{Value, json};
use support::{Dice, Disk, create, end, for_each_seed, with_sync};

const SEEDS: u64 = 40;
const LIVES: usize = 4;
const ROUNDS: usize = 30;
const WRITERS_PER_ROUND: u64 = 12;
const KEYS: u64 = 5;
const IDS: u64 = 6;

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
    for_each_seed("simulation", SEEDS, live_and_die);
}

async fn live_and_die(seed: u64) {
    let mut dice = Dice(seed);
    let disk = Disk::new();
    let store = &disk.store;
    let model = Arc::new(Mutex::new(Model::default()));
    let mut readers = vec![Reader::default(), Reader::default()];
    for life in 0..LIVES {
        let engine = disk.open().await;
        if life == 0 {
            with_sync(store, set_up(&engine)).await;
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
            disk.pass(dice.below(2000));
            for writer in 0..WRITERS_PER_ROUND {
                let number = (life * ROUNDS + round) as u64 * WRITERS_PER_ROUND + writer;
                let work = write(container.clone(), model.clone(), number, dice.next());
                writers.push(tokio::spawn(work));
            }
            disk.sync_some(&mut dice, 8).await;
            let reader = dice.below(readers.len() as u64) as usize;
            readers[reader].read(&container, &mut dice).await;
        }
        disk.crash(&mut dice);
        end(writers).await;
        drop((container, engine));
        store.reopen();
    }
}

async fn set_up(engine: &Engine) {
    let body = json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/unique"]}]},
    });
    create(engine, body, Some(20_000)).await;
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
