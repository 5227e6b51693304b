//! Batches, patches, scripts and deletes by partition key over a store that crashes: all or nothing.
//!
//! Each partition key has a few purses, and a ledger. A batch moves coins from purse to purse by
//! two patches and writes a line into the ledger, so at every moment, in every view, a purse holds
//! what the lines say. Whole keys are deleted and begun anew in between. After each crash the
//! books are balanced, every acknowledged line is there unless its key was deleted after it, none
//! is that was deleted with its key, and no LSN of the change feed was cut in two.
//! Scripts do the same by reading purses and replacing them, with all the time in the world for
//! others to get in between. They run on threads of their own, so a seed is not one history.
//! `ASTRARIUM_SEED=n` runs one seed.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/simulation.rs"]
mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use astrarium_engine::{
    BatchKind, BatchOperation, ChangesMode, ChangesRead, ChangesStart, Conditions, Container,
    CreateOptions, Engine, Kind, Page, Scope, Scripts,
};
use bytes::Bytes;
use model::Fault;
use model::partition_key::{Component, PartitionKey};
use model::token::Position;
use serde_json::{Value, json};
use support::{Dice, Disk, create, end, for_each_seed, link, object, with_sync};

const SEEDS: u64 = 25;
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
    scripted: u64,
    thrown: u64,
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
        totals.scripted += done.scripted;
        totals.thrown += done.thrown;
    });
    eprintln!("{totals:?}");
    let Done { moved, refused, patched, deleted, lost, scripted, thrown } = totals;
    if moved > 1_000 {
        let happened = [refused, patched, deleted, lost, scripted, thrown];
        assert!(happened.iter().all(|n| *n > 0), "all of it happens");
    }
}

async fn live_and_die(seed: u64) -> Done {
    let mut dice = Dice(seed);
    let disk = Disk { scripts: Some(Arc::new(Teller)), ..Disk::new() };
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
            with_sync(&disk.store, create_procedure(&engine)).await;
        }
        let container = engine.container("db", "c").unwrap();
        let mut before = std::mem::take(&mut *told.lock().unwrap());
        check_recovered(&container, &mut before).await;
        *told.lock().unwrap() = before;
        check_feed(&container, &mut dice).await;
        let (mut tasks, mut scripts) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            disk.pass(dice.below(2000));
            for writer in 0..WRITERS_PER_ROUND {
                let number = (life * ROUNDS + round) as u64 * WRITERS_PER_ROUND + writer;
                let work = act(container.clone(), told.clone(), number, dice.next());
                tasks.push(tokio::spawn(work));
            }
            for script in 0..dice.below(3) {
                let number = 1_000_000 + (life * ROUNDS + round) as u64 * 10 + script;
                let work = tell(engine.clone(), told.clone(), number, dice.next());
                scripts.push(tokio::spawn(work));
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
        // Writers may wait for a script, which is on a thread of its own and takes its time.
        for script in scripts {
            script.await.expect("no script has failed an assertion");
        }
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
    let conditions = Conditions::default();
    BatchOperation { kind, id: Some(id), body, layout: None, conditions, key: None }
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

async fn create_procedure(engine: &Engine) {
    let body = object(json!({"id": "move", "body": "the teller knows it by heart"}));
    let none = CreateOptions::default();
    engine.create(&link(), Kind::StoredProcedure, body, none).await.unwrap();
}

/// Runs scripts that are written in Rust.
#[derive(Debug)]
struct Teller;

impl Scripts for Teller {
    fn run(
        &self,
        call: &script::Call<'_>,
        host: &mut dyn script::Host,
    ) -> script::Result<script::Outcome> {
        let script::Task::Procedure { arguments } = call.task else { panic!("a procedure") };
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        match move_coins(&arguments, host) {
            Ok(body) => Ok(script::Outcome { body: Some(body), log: String::new() }),
            Err(error) => {
                let number = script::ErrorKind::Thrown(Some(error.fault.status().into()));
                Err(script::Error::new(number, error.message))
            }
        }
    }
}

/// The same as a transfer, by way of reading and replacing.
fn move_coins(arguments: &Value, host: &mut dyn script::Host) -> model::Result<String> {
    let word = |name: &str| arguments[0][name].as_str().unwrap().to_owned();
    let coins = arguments[0]["moved"].as_i64().unwrap();
    let mut last = String::new();
    for (purse, change) in [(word("from"), -coins), (word("to"), coins)] {
        let name = script::Item::Id(purse);
        let body = host.read(&name, None)?.unwrap();
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        // Others are let in here.
        std::thread::yield_now();
        body["coins"] = json!(body["coins"].as_i64().unwrap() + change);
        let if_match = Some(body["_etag"].as_str().unwrap().to_owned());
        let options = script::WriteOptions { if_match, ..Default::default() };
        let stored = host.replace(&name, &body.to_string(), &options)?;
        last = String::from_utf8(stored.to_vec()).unwrap();
    }
    let line = &arguments[0]["line"];
    host.create(&line.to_string(), &script::WriteOptions::default())?;
    let query = format!("SELECT * FROM c WHERE c.id = '{}'", line["id"].as_str().unwrap());
    let query = script::Query { text: query, parameters: None };
    let page = script::PageRequest { size: 10, ..Default::default() };
    assert_eq!(host.query(&query, &page)?.items.len(), 1, "it sees what it wrote");
    if arguments[0]["fail"] == true {
        return Err(model::Error::new(Fault::Conflict, "on second thought"));
    }
    Ok(last)
}

async fn tell(engine: Arc<Engine>, told: Arc<Mutex<Told>>, number: u64, seed: u64) {
    let mut dice = Dice(seed);
    let (k, from, to) = (dice.below(KEYS), dice.below(PURSES), dice.below(PURSES));
    let (coins, fail) = (dice.below(9) + 1, dice.below(5) == 0);
    let line = json!({"id": format!("l{number}"), "pk": format!("k{k}"), "from": from, "to": to, "moved": coins});
    let arguments = json!([{
        "from": format!("p{from}"), "to": format!("p{to}"), "moved": coins, "line": line, "fail": fail,
    }]);
    if !fail {
        told.lock().unwrap().lines.insert(number, (k, None));
    }
    let mut procedure = link();
    procedure.0.push((Kind::StoredProcedure, "move".into()));
    let arguments = arguments.to_string();
    let run = engine.execute(&procedure, Some(key(k)), arguments.as_bytes(), false).await;
    let answer = run.unwrap().answer;
    let mut told = told.lock().unwrap();
    match answer.result {
        Ok(body) => {
            assert!(!fail);
            let body: Value = serde_json::from_str(&body).unwrap();
            let etag = model::token::Etag::parse(body["_etag"].as_str().unwrap()).unwrap();
            assert_eq!(etag.lsn(), answer.at.lsn, "what it was told is true");
            told.lines.insert(number, (k, Some(answer.at.lsn)));
            told.done.scripted += 1;
        }
        Err(error) if error.fault == Fault::BadRequest => {
            assert!(matches!(error.own_substatus, Some(404 | 409 | 503)), "{error}");
            told.lines.remove(&number);
            told.done.thrown += 1;
        }
        Err(error) => assert_eq!(error.fault, Fault::Unavailable, "{error}"),
    }
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
