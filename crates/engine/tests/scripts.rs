//! Transactions of scripts, run here by functions in Rust: who gets in between, and what they may do.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/account.rs"]
mod support;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use astrarium_engine::{
    ChangesMode, ChangesStart, Conditions, CreateOptions, Kind, Link, Logged, Scripts,
};
use model::{Fault, limits};
use script::{Call, Error, ErrorKind, Host, Item, Outcome, PageRequest, WriteOptions};
use serde_json::{Value, json};
use support::{Account, key, link, object};

type Body = dyn Fn(&mut dyn Host) -> model::Result<String> + Send + Sync;

/// Every script is this function.
struct Rust(Box<Body>);

impl fmt::Debug for Rust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rust")
    }
}

impl Scripts for Rust {
    fn run(&self, _: &Call<'_>, host: &mut dyn Host) -> script::Result<Outcome> {
        match (self.0)(host) {
            Ok(body) => Ok(Outcome { body: Some(body), log: String::new() }),
            Err(error) => {
                let number = Some(u32::from(error.fault.status()));
                Err(Error::new(ErrorKind::Thrown(number), error.message))
            }
        }
    }
}

async fn account(
    script: impl Fn(&mut dyn Host) -> model::Result<String> + Send + Sync + 'static,
) -> Account {
    account_with(Arc::new(Rust(Box::new(script)))).await
}

async fn account_with(scripts: Arc<dyn Scripts>) -> Account {
    let account = Account::with_scripts(json!({}), Some(scripts)).await;
    let body = object(json!({"id": "s", "body": "in Rust"}));
    let none = CreateOptions::default();
    let owner = link(&["db", "c"]);
    account.engine.create(&owner, Kind::StoredProcedure, body, none).await.unwrap();
    account
}

fn procedure() -> Link {
    let mut procedure = link(&["db", "c"]);
    procedure.0.push((Kind::StoredProcedure, "s".into()));
    procedure
}

async fn run(account: &Account) -> Logged<String> {
    account.engine.execute(&procedure(), key("k"), b"[]", false).await.unwrap()
}

/// Reads the counter and adds to it.
fn increment(host: &mut dyn Host, between: impl FnOnce()) -> model::Result<String> {
    let name = Item::Id("n".into());
    let body = host.read(&name, None)?.unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    between();
    body["v"] = json!(body["v"].as_i64().unwrap() + 1);
    host.replace(&name, &body.to_string(), &WriteOptions::default())?;
    Ok(body["v"].to_string())
}

/// Writes what a script has read while it runs, and comes back when it has read that the second time.
async fn disturb(account: &Account, reaches: Receiver<()>, go_on: &SyncSender<()>) {
    let reaches = Arc::new(Mutex::new(reaches));
    let wait = || {
        let reaches = reaches.clone();
        tokio::task::spawn_blocking(move || reaches.lock().unwrap().recv().unwrap())
    };
    wait().await.unwrap();
    account.put("n", json!({"v": 10})).await;
    go_on.send(()).unwrap();
    wait().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_disturbed_runs_again_and_keeps_others_out() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (reached, reaches): (SyncSender<()>, Receiver<()>) = sync_channel(0);
    let (go_on, goes_on): (SyncSender<()>, Receiver<()>) = sync_channel(0);
    let goes_on = Mutex::new(goes_on);
    let account = account({
        let runs = runs.clone();
        move |host| {
            runs.fetch_add(1, Ordering::SeqCst);
            increment(host, || {
                reached.send(()).unwrap();
                goes_on.lock().unwrap().recv().unwrap();
            })
        }
    })
    .await;
    account.put("n", json!({"v": 0})).await;
    let engine = account.engine.clone();
    let script =
        tokio::spawn(
            async move { engine.execute(&procedure(), key("k"), b"[]", false).await.unwrap() },
        );
    disturb(&account, reaches, &go_on).await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    // Now the key is held: a writer of it waits, one of another does not.
    let body = json!({"id": "x", "pk": "other"}).to_string();
    let none = Conditions::default();
    let container = account.container();
    container.create_item(key("other"), body.into(), &none).await.unwrap().result.unwrap();
    let body = json!({"id": "n", "pk": "k", "v": 100}).to_string();
    let mut waits = Box::pin(container.upsert_item(key("k"), body.into(), &none));
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(waits.as_mut().poll(cx))).await;
    assert!(first.is_pending(), "it waits");
    // Readers do not.
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, ["n=10", "x=null"]);
    go_on.send(()).unwrap();
    let written = waits.await.unwrap();
    written.result.unwrap();
    let done = script.await.unwrap().answer;
    assert_eq!(done.result.unwrap(), "11");
    assert!(written.at.lsn > done.at.lsn);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// Reads, waits until it is told to go on, and has then run for too long the second time.
struct Late {
    runs: AtomicUsize,
    reached: SyncSender<()>,
    goes_on: Mutex<Receiver<()>>,
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Late")
    }
}

impl Scripts for Late {
    fn run(&self, _: &Call<'_>, host: &mut dyn Host) -> script::Result<Outcome> {
        let runs = self.runs.fetch_add(1, Ordering::SeqCst);
        let done = increment(host, || {
            self.reached.send(()).unwrap();
            self.goes_on.lock().unwrap().recv().unwrap();
        });
        match runs {
            0 => Ok(Outcome { body: done.ok(), log: String::new() }),
            _ => Err(Error::new(ErrorKind::Timeout, "it ran too long")),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_runs_out_of_time_lets_others_in() {
    let (reached, reaches) = sync_channel(0);
    let (go_on, goes_on) = sync_channel(0);
    let late = Late { runs: AtomicUsize::new(0), reached, goes_on: Mutex::new(goes_on) };
    let account = account_with(Arc::new(late)).await;
    account.put("n", json!({"v": 0})).await;
    let engine = account.engine.clone();
    let script =
        tokio::spawn(async move { engine.execute(&procedure(), key("k"), b"[]", false).await });
    disturb(&account, reaches, &go_on).await;
    // It holds its key now.
    let (container, none) = (account.container(), Conditions::default());
    let body = json!({"id": "n", "pk": "k", "v": 100}).to_string();
    let mut waits = Box::pin(container.upsert_item(key("k"), body.into(), &none));
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(waits.as_mut().poll(cx))).await;
    assert!(first.is_pending(), "it waits");
    go_on.send(()).unwrap();
    waits.await.unwrap().result.unwrap();
    assert!(script.await.unwrap().unwrap().answer.result.is_err());
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, ["n=100"]);
}

const LATEST: ChangesMode = ChangesMode::Latest { deletes: false };

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_callers_count_exactly() {
    let account = account(|host| increment(host, std::thread::yield_now)).await;
    account.put("n", json!({"v": 0})).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (engine, container) = (account.engine.clone(), account.container());
        tasks.spawn(async move {
            let ran = engine.execute(&procedure(), key("k"), b"[]", false).await.unwrap();
            ran.answer.result.unwrap();
            let patch = br#"[{"op":"incr","path":"/v","value":1}]"#;
            let patched = container.patch_item("n", key("k"), patch, &Conditions::default()).await;
            patched.unwrap().result.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, ["n=128"]);
}

#[tokio::test]
async fn a_script_may_write_so_much_and_no_more() {
    let account = account(|host| {
        let mut made = 0;
        loop {
            let body = json!({"id": format!("i{made}"), "pk": "k", "v": made}).to_string();
            match host.create(&body, &WriteOptions::default()) {
                Ok(_) => made += 1,
                Err(error) => {
                    assert_eq!(error.fault, Fault::TooLarge);
                    assert!(!host.accepts());
                    return Ok(made.to_string());
                }
            }
            assert_eq!(host.accepts(), made < limits::SCRIPT_WRITES);
        }
    })
    .await;
    let done = run(&account).await.answer;
    assert_eq!(done.result.unwrap(), limits::SCRIPT_WRITES.to_string());
    let page = account.read(LATEST, ChangesStart::Beginning).await.unwrap();
    assert_eq!(page.changes.len(), limits::SCRIPT_WRITES, "one commit, one page");
    assert!(page.changes.iter().all(|change| change.lsn == done.at.lsn));
}

#[tokio::test]
async fn what_fails_within_leaves_no_trace_and_the_rest_goes_on() {
    let account = account(|host| {
        let none = WriteOptions::default();
        let create = |host: &mut dyn Host, id: &str, u: u64| {
            let body = json!({"id": id, "pk": "k", "v": u}).to_string();
            host.create(&body, &none).map_err(|error| error.fault)
        };
        create(host, "a", 1).unwrap();
        assert_eq!(create(host, "a", 2), Err(Fault::Conflict));
        create(host, "b", 2).unwrap();
        let stale = WriteOptions { if_match: Some("\"stale\"".into()), ..Default::default() };
        let body = json!({"id": "a", "pk": "k", "v": 9}).to_string();
        let refused = host.replace(&Item::Id("a".into()), &body, &stale).unwrap_err();
        assert_eq!(refused.fault, Fault::PreconditionFailed);
        host.delete(&Item::Id("old".into()), None)?;
        assert_eq!(host.delete(&Item::Id("old".into()), None).unwrap_err().fault, Fault::NotFound);
        // Pages of two, with its own changes among what was there.
        let (mut ids, mut continuation) = (Vec::new(), String::new());
        loop {
            let request = PageRequest { size: 2, continuation, enable_scan: false };
            let page = host.list(&request)?;
            let id = |body: &[u8]| {
                serde_json::from_slice::<Value>(body).unwrap()["id"].as_str().unwrap().to_owned()
            };
            ids.extend(page.items.iter().map(|body| id(body)));
            match page.continuation {
                Some(next) => continuation = next,
                None => return Ok(ids.join(" ")),
            }
        }
    })
    .await;
    for id in ["old", "aa", "c", "d"] {
        account.put(id, json!({"v": 0})).await;
    }
    let done = run(&account).await.answer;
    assert_eq!(done.result.unwrap(), "a aa b c d");
    let words = account.words(LATEST, ChangesStart::Beginning).await;
    assert_eq!(words, ["aa=0", "c=0", "d=0", "a=1", "b=2"]);
    // The first was made, so the second time it is refused: and all of it.
    let again = account.engine.execute(&procedure(), key("k"), b"[]", false).await.unwrap_err();
    assert_eq!(again.fault, Fault::Internal, "this script panics then: {again}");
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, words);
}

#[tokio::test]
async fn items_are_found_by_rid_and_keep_it() {
    let account = account(|host| {
        let body = json!({"id": "new", "pk": "k", "v": 1}).to_string();
        let made: Value =
            serde_json::from_slice(&host.create(&body, &WriteOptions::default())?).unwrap();
        let rid = |id: Option<&str>| Item::Rid {
            rid: made["_rid"].as_str().unwrap().into(),
            id: id.map(str::to_owned),
        };
        assert!(host.read(&rid(None), None)?.is_some());
        assert!(host.read(&rid(Some("new")), None)?.is_some());
        assert_eq!(host.read(&rid(Some("other")), None).unwrap_err().fault, Fault::NotFound);
        let unknown = Item::Rid { rid: "AAAA".into(), id: None };
        assert_eq!(host.read(&unknown, None).unwrap_err().fault, Fault::NotFound);
        let seen = host.read(&rid(None), made["_etag"].as_str())?;
        assert!(seen.is_none(), "it has the etag that it was told");
        Ok(made.to_string())
    })
    .await;
    account.put("first", json!({"v": 0})).await;
    let told: Value = serde_json::from_str(&run(&account).await.answer.result.unwrap()).unwrap();
    let read = account.container().read_item("new", key("k"), None).await.unwrap().result.unwrap();
    let stored: Value = serde_json::from_slice(&read.body).unwrap();
    assert_eq!(told, stored);
}

#[tokio::test]
async fn without_workers_scripts_are_refused() {
    let account = Account::with(json!({})).await;
    let body = object(json!({"id": "s", "body": "function () {}"}));
    let (owner, none) = (link(&["db", "c"]), CreateOptions::default());
    account.engine.create(&owner, Kind::StoredProcedure, body, none).await.unwrap();
    let refused = account.engine.execute(&procedure(), key("k"), b"[]", false).await;
    assert_eq!(refused.unwrap_err().fault, Fault::BadRequest);
}
