//! Random writers, expiry, changing policies and crashes, followed by readers of history.
//!
//! Each seed runs a few lives of an account whose container keeps versions and deletes for a
//! minute. After each crash the rows are counted again; then followers of all versions must have
//! seen every acknowledged write, each change must name the one before it, and mirrors kept from
//! the latest-version feed with deletes must be what point reads say. Whoever falls out of
//! retention must be told. `ASTRARIUM_SEED=n` replays one seed.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/simulation.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use astrarium_engine::{
    Changed, ChangesMode, ChangesPage, ChangesRead, ChangesStart, Conditions, Container, Engine,
    Operation, ReplaceOptions, Scope,
};
use bytes::Bytes;
use kv::{Claim, Crashing, Keyspace, PartitionId, Scan, Stores};
use model::partition_key::{Component, PartitionKey};
use model::token::Position;
use model::{Error, Fault};
use serde_json::{Value, json};
use support::{Dice, Disk, create, end, for_each_seed, link, object, with_sync};

const SEEDS: u64 = 40;
const LIVES: usize = 5;
const ROUNDS: usize = 30;
const WRITERS_PER_ROUND: u64 = 10;
const KEYS: u64 = 4;
const IDS: u64 = 6;
const ALL: ChangesMode = ChangesMode::AllVersions;
const DELETES: ChangesMode = ChangesMode::Latest { deletes: true };

type Name = (u64, u64);
/// Acknowledged writes, in the order of their acknowledgement.
type Acks = Arc<Mutex<Vec<(Name, u64)>>>;

#[test]
fn history_has_no_gaps() {
    let mut totals = Totals::default();
    for_each_seed("history_simulation", SEEDS, async |seed| live_and_die(seed, &mut totals).await);
    eprintln!("{totals:?}");
    let Totals { purged, expired, changes, replays, reseeded } = totals;
    if changes > 10_000 {
        assert!(purged > 0 && expired > 0 && replays > 0 && reseeded > 0, "all of it happens");
    }
}

/// What happened, so that it is known to have happened.
#[derive(Debug, Default)]
struct Totals {
    purged: u64,
    expired: u64,
    changes: u64,
    replays: u64,
    reseeded: u64,
}

async fn live_and_die(seed: u64, totals: &mut Totals) {
    let mut dice = Dice(seed);
    let disk = Disk::new();
    let store = &disk.store;
    let acks = Acks::default();
    let (mut followers, mut mirrors) = (Vec::new(), vec![Mirror::default()]);
    for life in 0..LIVES {
        let engine = disk.open().await;
        if life == 0 {
            with_sync(store, set_up(&engine)).await;
        }
        let container = engine.container("db", "c").unwrap();
        while with_sync(store, engine.housekeep()).await {}
        check(&container, &mut followers, &mut mirrors, &acks, &mut dice, totals).await;
        // Versions are kept from the second life on, and not in the last but one.
        let keep = life != 0 && life != 3;
        with_sync(store, redefine(&engine, keep, &mut dice)).await;
        if keep {
            followers.push(Follower::at_now(&container, &acks).await);
        } else {
            followers.clear();
        }
        mirrors.push(Mirror::default());
        let mut tasks = Vec::new();
        for round in 0..ROUNDS {
            disk.pass(dice.below(3000));
            for writer in 0..WRITERS_PER_ROUND {
                let number = (life * ROUNDS + round) as u64 * WRITERS_PER_ROUND + writer;
                let work = write(container.clone(), acks.clone(), number, dice.next());
                tasks.push(tokio::spawn(work));
            }
            if dice.below(4) == 0 {
                let engine = engine.clone();
                tasks.push(tokio::spawn(async move {
                    engine.housekeep().await;
                }));
            }
            disk.sync_some(&mut dice, 8).await;
            if let Some(n) = dice.next().checked_rem(followers.len() as u64) {
                followers[n as usize].read(&container, &acks, &mut dice, totals).await;
            }
            let n = dice.below(mirrors.len() as u64) as usize;
            mirrors[n].read(&container, &mut dice, totals).await;
        }
        disk.crash(&mut dice);
        end(tasks).await;
        drop((container, engine));
        store.reopen();
        if dice.below(3) == 0 {
            // Down for longer than history is kept.
            disk.pass(90_000);
        }
        for partition in [1, 2] {
            recount(store, partition).await;
        }
    }
}

async fn check(
    container: &Container,
    followers: &mut [Follower],
    mirrors: &mut [Mirror],
    acks: &Acks,
    dice: &mut Dice,
    totals: &mut Totals,
) {
    let mut found = HashMap::new();
    for name in (0..KEYS).flat_map(|k| (0..IDS).map(move |i| (k, i))) {
        let read = container.read_item(&id(name), Some(key(name)), None).await.unwrap();
        if let Ok(item) = read.result {
            found.insert(name, version_of(&item.body));
        }
    }
    for follower in followers {
        follower.read_all(container, acks, dice, totals).await;
        follower.check(&found, &acks.lock().unwrap());
        follower.replay(container, dice, totals).await;
    }
    for mirror in mirrors {
        mirror.read_all(container, dice, totals).await;
        assert_eq!(mirror.items, found, "a mirror is what point reads say");
    }
}

/// Follows all versions.
struct Follower {
    etag: String,
    /// What is known of each item: its newest version, or that there is none.
    known: HashMap<Name, Option<(u64, u64)>>,
    /// Etags, and how many events had been seen with them.
    etags: Vec<(String, usize)>,
    events: Vec<(Name, u64)>,
    /// Writes acknowledged from here on must be seen.
    from_ack: usize,
}

impl Follower {
    async fn at_now(container: &Container, acks: &Acks) -> Self {
        let page = page(container, ALL, ChangesStart::Now, 10).await.unwrap();
        assert!(page.changes.is_empty());
        Self {
            etag: page.position.to_string(),
            known: HashMap::new(),
            etags: Vec::new(),
            events: Vec::new(),
            from_ack: acks.lock().unwrap().len(),
        }
    }

    async fn read(
        &mut self,
        container: &Container,
        acks: &Acks,
        dice: &mut Dice,
        totals: &mut Totals,
    ) -> bool {
        let start = ChangesStart::After(Position::parse(&self.etag).unwrap());
        match page(container, ALL, start, 1 + dice.below(9) as usize).await {
            Ok(page) => {
                for change in &page.changes {
                    self.see(change, totals);
                }
                self.etag = page.position.to_string();
                self.etags.push((self.etag.clone(), self.events.len()));
                !page.changes.is_empty()
            }
            Err(error) => {
                assert_eq!(error.fault, Fault::HistoryPurged, "{error}");
                totals.purged += 1;
                self.etag = named(&error);
                self.known.clear();
                self.etags.clear();
                self.events.clear();
                self.from_ack = acks.lock().unwrap().len();
                true
            }
        }
    }

    fn see(&mut self, change: &Changed, totals: &mut Totals) {
        totals.changes += 1;
        let (name, detail) = (name_of(change), change.detail.as_ref().unwrap());
        totals.expired += u64::from(detail.expired);
        let before = self.known.get(&name).copied();
        match detail.operation {
            Operation::Create => {
                assert_eq!(detail.previous_lsn, None);
                assert!(before.is_none_or(|before| before.is_none()), "{name:?} was there");
            }
            Operation::Replace | Operation::Delete => {
                let before = before.map(|before| before.expect("what is changed was there"));
                if let Some((lsn, version)) = before {
                    assert_eq!(detail.previous_lsn, Some(lsn), "{name:?}: nothing lies between");
                    let image = detail.previous.as_ref().map(version_of);
                    assert!(image.is_none_or(|image| image == version), "{name:?}");
                }
            }
        }
        let now = (!change.body.is_empty()).then(|| (change.lsn, version_of(&change.body)));
        self.known.insert(name, now);
        self.events.push((name, change.lsn));
    }

    async fn read_all(
        &mut self,
        container: &Container,
        acks: &Acks,
        dice: &mut Dice,
        totals: &mut Totals,
    ) {
        // A page may be empty though another part of the container has more.
        let mut idle = 0;
        while idle < 3 {
            idle = if self.read(container, acks, dice, totals).await { 0 } else { idle + 1 };
        }
    }

    fn check(&self, found: &HashMap<Name, u64>, acks: &[(Name, u64)]) {
        for (name, known) in &self.known {
            assert_eq!(known.map(|(_, version)| version), found.get(name).copied(), "{name:?}");
        }
        let seen: HashSet<&(Name, u64)> = self.events.iter().collect();
        for ack in &acks[self.from_ack..] {
            assert!(seen.contains(ack), "{ack:?} was acknowledged and not seen");
        }
    }

    /// Reads again from an earlier etag: the same changes come, or the reader is told.
    async fn replay(&self, container: &Container, dice: &mut Dice, totals: &mut Totals) {
        let Some(n) = dice.next().checked_rem(self.etags.len() as u64) else { return };
        let (etag, from) = &self.etags[n as usize];
        let (mut etag, mut events, mut idle) = (etag.clone(), Vec::new(), 0);
        while idle < 3 {
            let start = ChangesStart::After(Position::parse(&etag).unwrap());
            let page = match page(container, ALL, start, 1 + dice.below(30) as usize).await {
                Ok(page) => page,
                Err(error) => return assert_eq!(error.fault, Fault::HistoryPurged),
            };
            idle = if page.changes.is_empty() { idle + 1 } else { 0 };
            events.extend(page.changes.iter().map(|change| (name_of(change), change.lsn)));
            etag = page.position.to_string();
        }
        totals.replays += 1;
        let mut expected = self.events[*from..].to_vec();
        events.sort_unstable();
        expected.sort_unstable();
        assert_eq!(events, expected);
    }
}

/// Keeps a copy of the container from the latest-version feed with deletes.
#[derive(Default)]
struct Mirror {
    etag: Option<String>,
    items: HashMap<Name, u64>,
}

impl Mirror {
    async fn read(&mut self, container: &Container, dice: &mut Dice, totals: &mut Totals) -> bool {
        let start = match &self.etag {
            None => ChangesStart::Beginning,
            Some(etag) => ChangesStart::After(Position::parse(etag).unwrap()),
        };
        match page(container, DELETES, start, 1 + dice.below(9) as usize).await {
            Ok(page) => {
                self.apply(&page);
                self.etag = Some(page.position.to_string());
                !page.changes.is_empty()
            }
            Err(error) => {
                assert_eq!(error.fault, Fault::HistoryPurged, "{error}");
                totals.reseeded += 1;
                *self = Self::default();
                true
            }
        }
    }

    fn apply(&mut self, page: &ChangesPage) {
        for change in &page.changes {
            match change.body.is_empty() {
                true => self.items.remove(&name_of(change)),
                false => self.items.insert(name_of(change), version_of(&change.body)),
            };
        }
    }

    async fn read_all(&mut self, container: &Container, dice: &mut Dice, totals: &mut Totals) {
        let mut idle = 0;
        while idle < 3 {
            idle = if self.read(container, dice, totals).await { 0 } else { idle + 1 };
        }
    }
}

async fn page(
    container: &Container,
    mode: ChangesMode,
    start: ChangesStart,
    items: usize,
) -> Result<ChangesPage, Error> {
    let read = ChangesRead { scope: Scope::Everything, start, mode, items: Some(items) };
    container.read_changes(&read, None).await?.result
}

/// The etag that a refusal names.
fn named(error: &Error) -> String {
    error.message.split("the etag ").nth(1).unwrap().split(", of").next().unwrap().to_owned()
}

fn name_of(change: &Changed) -> Name {
    let number = |text: &str| text[1..].parse::<u64>().unwrap();
    let Some(id) = change.detail.as_ref().and_then(|detail| detail.id.as_ref()) else {
        let body: Value = serde_json::from_slice(&change.body).unwrap();
        return (number(body["pk"].as_str().unwrap()), number(body["id"].as_str().unwrap()));
    };
    let key = change.detail.as_ref().and_then(|detail| detail.key.as_ref()).unwrap();
    let key: Vec<String> = serde_json::from_str(key).unwrap();
    (number(&key[0]), number(id))
}

fn version_of(body: &Bytes) -> u64 {
    serde_json::from_slice::<Value>(body).unwrap()["version"].as_u64().unwrap()
}

/// The counters, blocks and index rows of a partition are what its items say.
async fn recount(store: &Crashing, partition: u64) {
    // As the store is, and with a new owner to come: this one is fenced by the next life.
    let owner = store.open_owner(PartitionId(partition), Claim::Take).await.unwrap();
    let view = owner.published();
    let mut spaces = Vec::new();
    for keyspace in Keyspace::ALL {
        let scan = Scan {
            keyspace,
            from: std::ops::Bound::Unbounded,
            to: std::ops::Bound::Unbounded,
            reverse: false,
            rows: usize::MAX,
            bytes: usize::MAX,
            keys_only: false,
        };
        spaces.push(view.scan(scan).await.unwrap().rows);
    }
    let [docs, feed, _, index, meta, _] = &spaces[..] else { panic!("six keyspaces") };
    let u32_at =
        |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at =
        |bytes: &[u8], at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let head = &meta.iter().find(|(key, _)| key[..] == b"h"[..]).unwrap().1;
    let live: Vec<_> = docs.iter().filter(|(_, row)| row[0] == 1).collect();
    let bytes: u64 = live.iter().map(|(_, row)| u64::from(u32_at(row, 25))).sum();
    assert_eq!((u64_at(head, 16), u64_at(head, 24)), (live.len() as u64, bytes));
    let versions: BTreeSet<&[u8]> = live.iter().map(|(_, row)| &row[1..15]).collect();
    assert_eq!(versions, feed.iter().map(|(key, _)| &key[..]).collect());
    let family = |letter: u8| index.iter().filter(move |(key, _)| key[0] == letter);
    let mut blocks: BTreeMap<u64, u32> = BTreeMap::new();
    feed.iter().for_each(|(key, _)| *blocks.entry(u64_at(key, 0) >> 8).or_default() += 1);
    let mut counted: BTreeMap<_, _> =
        family(b'b').map(|(key, n)| (u64_at(key, 1), u32_at(n, 0))).collect();
    if u32_at(head, 56) > 0 {
        let twice = counted.insert(u64_at(head, 0) >> 8, u32_at(head, 56));
        assert_eq!(twice, None, "the newest block is in the head");
    }
    assert_eq!(blocks, counted);
    let left: BTreeSet<&[u8]> =
        docs.iter().filter(|(_, row)| row[0] == 2).map(|(_, row)| &row[1..15]).collect();
    assert_eq!(left, family(b'd').map(|(key, _)| &key[1..]).collect());
    let expiries =
        live.iter().filter(|(_, row)| i32::from_be_bytes(row[21..25].try_into().unwrap()) > 0);
    let expiries = expiries.map(|(key, row)| {
        let second = u32_at(row, 17) + u32_at(row, 21);
        [&b"t"[..], &second.to_be_bytes(), key].concat()
    });
    assert_eq!(
        expiries.collect::<BTreeSet<_>>(),
        family(b't').map(|(key, _)| key.to_vec()).collect()
    );
    let log_blocks: u64 = family(b'v').map(|(_, size)| u64_at(size, 0)).sum();
    assert_eq!(u64_at(head, 40), log_blocks + u64_at(head, 48), "the size of the log");
}

async fn set_up(engine: &Engine) {
    let body = json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/unique"]}]},
        "defaultTtl": -1,
        "changeFeedPolicy": {"tombstoneDuration": 1},
    });
    create(engine, body, Some(20_000)).await;
}

async fn redefine(engine: &Arc<Engine>, keep: bool, dice: &mut Dice) {
    let mut policy = json!({"tombstoneDuration": 1, "retentionDuration": u64::from(keep)});
    policy["previousImages"] = json!(dice.below(2) == 0);
    if dice.below(2) == 0 {
        policy["retentionBytes"] = json!(10_000 + dice.below(100_000));
    }
    let mut body = json!({"id": "c", "changeFeedPolicy": policy});
    body["defaultTtl"] = [json!(-1), json!(20), json!(40)][dice.below(3) as usize].clone();
    engine.replace(&link(), object(body), ReplaceOptions::default()).await.unwrap();
}

async fn write(container: Arc<Container>, acks: Acks, number: u64, seed: u64) {
    let mut dice = Dice(seed);
    let name = (dice.below(KEYS), dice.below(IDS));
    let mut body = json!({
        "id": id(name),
        "pk": format!("k{}", name.0),
        "unique": dice.below(IDS),
        "version": number,
    });
    if dice.below(3) == 0 {
        body["ttl"] = json!(1 + dice.below(30));
    }
    let (body, key, none) = (body.to_string().into(), Some(key(name)), Conditions::default());
    let answer = match dice.below(5) {
        0 => container.create_item(key, body, &none).await,
        1 | 2 => container.upsert_item(key, body, &none).await,
        3 => container.replace_item(&id(name), key, body, &none).await,
        _ => container.delete_item(&id(name), key, &none).await,
    };
    let answer = answer.expect("the request is well formed");
    match &answer.result {
        Ok(_) => acks.lock().unwrap().push((name, answer.at.lsn)),
        Err(error) => match error.fault {
            Fault::Conflict | Fault::NotFound | Fault::Unavailable => {}
            other => panic!("{other:?}: {error}"),
        },
    }
}

fn id(name: Name) -> String {
    format!("i{}", name.1)
}

fn key(name: Name) -> PartitionKey {
    PartitionKey(vec![Component::String(format!("k{}", name.0))])
}
