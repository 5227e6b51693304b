//! Batches, patches and deletes by partition key over a store that crashes: all or nothing.
//!
//! Each partition key has a few purses, and a ledger. A batch moves coins from purse to purse by
//! two patches and writes a line into the ledger, so at every moment, in every view, a purse holds
//! what the lines say. Whole keys are deleted and begun anew in between. After each crash the
//! books are balanced, every acknowledged line is there unless its key was deleted after it, none
//! is that was deleted with its key, and no LSN of the change feed was cut in two.
//! `ASTRARIUM_SEED=n` replays one seed.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/simulation.rs"]
mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use astrarium_engine::{
    BatchKind, BatchOperation, ChangesMode, ChangesRead, ChangesStart, Conditions, Container, Page,
    Scope,
};
use bytes::Bytes;
use model::Fault;
use model::partition_key::{Component, PartitionKey};
use model::token::Position;
use serde_json::{Value, json};
use support::{Dice, Disk, create, end, for_each_seed, with_sync};

const SEEDS: u64 = 40;
const LIVES: usize = 4;
const ROUNDS: usize = 30;
const WRITERS_PER_ROUND: u64 = 10;
const KEYS: u64 = 3;
const PURSES: u64 = 4;

/// What was acknowledged, with its LSN; `None` where the crash came first.
#[derive(Default)]
struct Told {
    /// By number, the key and the LSN.
    lines: HashMap<u64, (u64, Option<u64>)>,
    /// By key.
    deletes: HashMap<u64, Vec<Option<u64>>>,
    done: Done,
}

/// What happened, so that it is known to have happened.
#[derive(Debug, Default)]
struct Done {
    moved: u64,
    refused: u64,
    patched: u64,
    deleted: u64,
    lost: u64,
}

#[test]
fn books_balance_at_every_moment() {
    let mut totals = Done::default();
    for_each_seed("transaction_simulation", SEEDS, async |seed| {
        let done = live_and_die(seed).await;
        totals.moved += done.moved;
        totals.refused += done.refused;
        totals.patched += done.patched;
        totals.deleted += done.deleted;
        totals.lost += done.lost;
    });
    eprintln!("{totals:?}");
    let Done { moved, refused, patched, deleted, lost } = totals;
    if moved > 1_000 {
        assert!([refused, patched, deleted, lost].iter().all(|n| *n > 0), "all of it happens");
    }
}

async fn live_and_die(seed: u64) -> Done {
    let mut dice = Dice(seed);
    let disk = Disk::new();
    let told = Arc::new(Mutex::new(Told::default()));
    for life in 0..LIVES {
        let engine = disk.open().await;
        if life == 0 {
            let policy = match seed % 3 {
                0 => json!({}),
                1 => json!({"retentionDuration": 1000, "tombstoneDuration": 1000}),
                _ => json!({"retentionDuration": 1000, "previousImages": true}),
            };
            let body =
                json!({"id": "c", "partitionKey": {"paths": ["/pk"]}, "changeFeedPolicy": policy});
            with_sync(&disk.store, create(&engine, body, Some(20_000))).await;
        }
        let container = engine.container("db", "c").unwrap();
        check_recovered(&container, &mut told.lock().unwrap()).await;
        check_feed(&container, &mut dice).await;
        let mut tasks = Vec::new();
        for round in 0..ROUNDS {
            disk.pass(dice.below(2000));
            for writer in 0..WRITERS_PER_ROUND {
                let number = (life * ROUNDS + round) as u64 * WRITERS_PER_ROUND + writer;
                let work = act(container.clone(), told.clone(), number, dice.next());
                tasks.push(tokio::spawn(work));
            }
            if dice.below(3) == 0 {
                let engine = engine.clone();
                tasks.push(tokio::spawn(async move {
                    engine.housekeep().await;
                }));
            }
            disk.sync_some(&mut dice, 8).await;
            balance(&container, dice.below(KEYS)).await;
        }
        disk.crash(&mut dice);
        end(tasks).await;
        drop((container, engine));
        disk.store.reopen();
    }
    std::mem::take(&mut told.lock().unwrap().done)
}

fn key(n: u64) -> PartitionKey {
    PartitionKey(vec![Component::String(format!("k{n}"))])
}

fn operation(kind: BatchKind, id: String, body: Value) -> BatchOperation {
    let body = Bytes::from(body.to_string());
    BatchOperation { kind, id: Some(id), body, conditions: Conditions::default(), key: None }
}

fn purse(k: u64, n: u64) -> BatchOperation {
    let body = json!({"id": format!("p{n}"), "pk": format!("k{k}"), "coins": 0, "touched": 0});
    operation(BatchKind::Create, format!("p{n}"), body)
}

fn put_coins(n: u64, coins: i64) -> BatchOperation {
    let patch = json!([{"op": "incr", "path": "/coins", "value": coins}]);
    operation(BatchKind::Patch, format!("p{n}"), patch)
}

async fn act(container: Arc<Container>, told: Arc<Mutex<Told>>, number: u64, seed: u64) {
    let mut dice = Dice(seed);
    let k = dice.below(KEYS);
    match dice.below(20) {
        0 => delete(&container, &told, k).await,
        1..4 => touch(&container, &told, k, dice.below(PURSES)).await,
        _ => transfer(&container, &told, k, number, &mut dice).await,
    }
}

async fn delete(container: &Container, told: &Mutex<Told>, k: u64) {
    let n = {
        let mut told = told.lock().unwrap();
        let deletes = told.deletes.entry(k).or_default();
        deletes.push(None);
        deletes.len() - 1
    };
    let answer = container.delete_key(Some(key(k))).await.unwrap();
    match answer.result {
        Ok(()) => {
            let mut told = told.lock().unwrap();
            told.deletes.get_mut(&k).unwrap()[n] = Some(answer.at.lsn);
            told.done.deleted += 1;
        }
        Err(error) => assert_eq!(error.fault, Fault::Unavailable, "{error}"),
    }
}

async fn touch(container: &Container, told: &Mutex<Told>, k: u64, n: u64) {
    let patch = br#"[{"op":"incr","path":"/touched","value":1}]"#;
    let id = format!("p{n}");
    let answer = container.patch_item(&id, Some(key(k)), patch, &Conditions::default()).await;
    match answer.unwrap().result {
        Ok(_) => told.lock().unwrap().done.patched += 1,
        Err(error) => {
            assert!(matches!(error.fault, Fault::NotFound | Fault::Unavailable), "{error}")
        }
    }
}

/// Moves coins; makes the purses first where there are none.
async fn transfer(container: &Container, told: &Mutex<Told>, k: u64, number: u64, dice: &mut Dice) {
    let (from, to, coins) = (dice.below(PURSES), dice.below(PURSES), dice.below(9) as i64 + 1);
    let line = json!({"id": format!("l{number}"), "pk": format!("k{k}"), "from": from, "to": to, "moved": coins});
    let mut operations = vec![
        put_coins(from, -coins),
        put_coins(to, coins),
        operation(BatchKind::Create, format!("l{number}"), line),
        operation(BatchKind::Read, format!("p{to}"), Value::Null),
    ];
    // One that cannot succeed, once most of it is done.
    let doomed = dice.below(6) == 0;
    if doomed {
        operations.push(operation(BatchKind::Delete, "nothing".into(), Value::Null));
    }
    if !doomed {
        told.lock().unwrap().lines.insert(number, (k, None));
    }
    for _ in 0..3 {
        let answer = container.execute_batch(Some(key(k)), &operations, None).await.unwrap();
        let lsn = answer.at.lsn;
        let results = match answer.result {
            Ok(results) => results,
            Err(error) => {
                assert_eq!(error.fault, Fault::Unavailable, "{error}");
                told.lock().unwrap().done.lost += 1;
                return;
            }
        };
        let failed = results.iter().find_map(|one| match &one.result {
            Err(error) if error.fault != Fault::FailedDependency => Some(error.fault),
            _ => None,
        });
        match failed {
            None => {
                assert!(!doomed);
                let mut told = told.lock().unwrap();
                told.lines.insert(number, (k, Some(lsn)));
                told.done.moved += 1;
                return;
            }
            Some(fault) => assert_eq!(fault, Fault::NotFound),
        }
        told.lock().unwrap().done.refused += 1;
        if doomed {
            return;
        }
        for n in 0..PURSES {
            let made = container.execute_batch(Some(key(k)), &[purse(k, n)], None).await.unwrap();
            if made.result.is_err() {
                return;
            }
        }
    }
    told.lock().unwrap().lines.remove(&number);
}

/// What a key holds in one view: lines by number, with their LSNs.
async fn balance(container: &Container, k: u64) -> BTreeMap<u64, u64> {
    let page = Page { items: Some(1000), continuation: None };
    let answer = container.read_items(&Scope::Key(key(k)), &page, None).await.unwrap();
    let answer = answer.result.unwrap();
    assert!(answer.continuation.is_none(), "one page is one view");
    let (mut purses, mut lines) = (BTreeMap::new(), BTreeMap::new());
    let mut moved: BTreeMap<u64, i64> = BTreeMap::new();
    for body in &answer.bodies {
        let body: Value = serde_json::from_slice(body).unwrap();
        let (kind, number) = body["id"].as_str().unwrap().split_at(1);
        let number: u64 = number.parse().unwrap();
        if kind == "p" {
            purses.insert(number, body["coins"].as_i64().unwrap());
        } else {
            let etag: model::token::Match =
                model::token::Match::parse(body["_etag"].as_str().unwrap());
            let model::token::Match::Etag(etag) = etag else { panic!("an etag of ours") };
            lines.insert(number, etag.lsn());
            *moved.entry(body["from"].as_u64().unwrap()).or_default() -=
                body["moved"].as_i64().unwrap();
            *moved.entry(body["to"].as_u64().unwrap()).or_default() +=
                body["moved"].as_i64().unwrap();
        }
    }
    for (purse, coins) in &moved {
        assert_eq!(purses.get(purse), Some(coins), "purse {purse} of key {k}: {purses:?}");
    }
    for (purse, coins) in &purses {
        assert_eq!(moved.get(purse).unwrap_or(&0), coins, "purse {purse} of key {k}");
    }
    lines
}

async fn check_recovered(container: &Container, told: &mut Told) {
    for k in 0..KEYS {
        let found = balance(container, k).await;
        let deletes = told.deletes.entry(k).or_default();
        let sure = deletes.iter().flatten().max().copied().unwrap_or(0);
        let unsure = deletes.iter().any(Option::is_none);
        for (number, lsn) in &found {
            let (_, told) = told.lines.get(number).expect("a line that somebody wrote");
            assert!(told.is_none_or(|told| told == *lsn), "line {number}");
            assert!(*lsn > sure, "line {number} was deleted with its key");
        }
        for (number, (_, lsn)) in told.lines.iter().filter(|(_, (of, _))| *of == k) {
            if lsn.is_some_and(|lsn| lsn > sure) && !unsure {
                assert!(found.contains_key(number), "line {number} is lost");
            }
        }
        // What is unsure now is settled by what was found.
        told.lines.retain(|number, (of, lsn)| {
            *lsn = found.get(number).copied();
            *of != k || lsn.is_some()
        });
        deletes.clear();
    }
}

/// Pages of one never end within an LSN, range by range.
async fn check_feed(container: &Container, dice: &mut Dice) {
    for range in container.ranges().ranges {
        let (mut position, mut last) = (ChangesStart::Beginning, 0);
        loop {
            let items = Some(1 + dice.below(2) as usize);
            let mode = ChangesMode::Latest { deletes: false };
            let scope = Scope::Range(range.id.to_string());
            let read = ChangesRead { scope, start: position, mode, items };
            let page = container.read_changes(&read, None).await.unwrap().result.unwrap();
            if let (Some(first), Some(end)) = (page.changes.first(), page.changes.last()) {
                assert!(first.lsn > last, "LSN {last} was cut in two");
                last = end.lsn;
            }
            if !page.more {
                break;
            }
            position = ChangesStart::After(Position::parse(&page.position.to_string()).unwrap());
        }
    }
}
