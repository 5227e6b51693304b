//! Batches and patches: one LSN, what later operations see, and who else writes meanwhile.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/account.rs"]
mod support;

use std::sync::Arc;

use astrarium_engine::{
    BatchItem, BatchKind, BatchOperation, BatchResult, ChangesMode, ChangesRead, ChangesStart,
    Conditions, Container, Scope,
};
use bytes::Bytes;
use kv::Keyspace;
use model::Fault;
use serde_json::{Value, json};
use support::{Account, key};

const ALL: ChangesMode = ChangesMode::AllVersions;
const LATEST: ChangesMode = ChangesMode::Latest { deletes: false };

fn operation(kind: BatchKind, id: &str, body: Value) -> BatchOperation {
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let id = Some(id.to_owned());
    BatchOperation { kind, id, body, layout: None, conditions: Conditions::default(), key: None }
}

fn put(kind: BatchKind, id: &str, v: u64) -> BatchOperation {
    operation(kind, id, json!({"id": id, "pk": "k", "v": v}))
}

fn increment(id: &str) -> BatchOperation {
    let patch = json!({"operations": [{"op": "incr", "path": "/v", "value": 1}]});
    operation(BatchKind::Patch, id, patch)
}

async fn run(container: &Container, operations: &[BatchOperation]) -> (u64, Vec<BatchResult>) {
    let answer = container.execute_batch(key("k"), operations, None).await.unwrap();
    (answer.at.lsn, answer.result.unwrap())
}

fn value(result: &BatchResult) -> Value {
    match result.result.as_ref().unwrap() {
        BatchItem::Written(item) | BatchItem::Read(item) => {
            serde_json::from_slice::<Value>(&item.body).unwrap()["v"].clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_batch_is_one_lsn_and_one_page() {
    let mut account = Account::with(json!({})).await;
    let before = account.put("0", json!({"v": 0})).await;
    let many: Vec<_> = (0..100).map(|n| put(BatchKind::Create, &format!("b{n}"), n)).collect();
    let (lsn, results) = run(&account.container(), &many).await;
    assert_eq!((lsn, results.len()), (before + 1, 100));
    account.restart().await;
    let start = ChangesStart::After(model::token::Position::Lsn(before));
    let read = ChangesRead { scope: Scope::Everything, start, mode: LATEST, items: Some(1) };
    let page = account.container().read_changes(&read, None).await.unwrap().result.unwrap();
    assert_eq!(page.changes.len(), 100);
    assert!(page.changes.iter().all(|change| change.lsn == lsn));
}

#[tokio::test]
async fn later_operations_see_earlier_ones_and_versions_are_all_kept() {
    let policy = json!({"retentionDuration": 5, "previousImages": true});
    let account = Account::with(json!({"changeFeedPolicy": policy})).await;
    account.put("old", json!({"v": 1})).await;
    let (_, results) = run(
        &account.container(),
        &[
            put(BatchKind::Create, "a", 1),
            increment("a"),
            increment("a"),
            operation(BatchKind::Read, "a", Value::Null),
            increment("old"),
            operation(BatchKind::Delete, "old", Value::Null),
            put(BatchKind::Create, "old", 9),
            put(BatchKind::Upsert, "gone", 1),
            operation(BatchKind::Delete, "gone", Value::Null),
        ],
    )
    .await;
    assert_eq!(value(&results[3]), 3);
    let words = account.words(ALL, ChangesStart::Beginning).await;
    assert_eq!(
        words,
        [
            "create old=1",
            "create a=1",
            "replace a=2 was 1",
            "replace a=3 was 2",
            "replace old=2 was 1",
            "delete old [\"k\"] was 2",
            "create old=9",
            "create gone=1",
            "delete gone [\"k\"] was 1",
        ]
    );
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, ["a=3", "old=9"]);
    // Versions that lived within the batch alone have left nothing but their log.
    assert_eq!(account.rows(Keyspace::Feed).await.len(), 2);
}

#[tokio::test]
async fn a_batch_that_fails_leaves_no_trace() {
    let account = Account::with(json!({})).await;
    let lsn = account.put("1", json!({"v": 1})).await;
    let failing = [
        put(BatchKind::Upsert, "1", 2),
        operation(BatchKind::Delete, "1", Value::Null),
        operation(BatchKind::Read, "1", Value::Null),
        put(BatchKind::Create, "2", 1),
    ];
    let (at, results) = run(&account.container(), &failing).await;
    let faults: Vec<Fault> =
        results.iter().map(|one| one.result.as_ref().unwrap_err().fault).collect();
    assert_eq!(at, lsn);
    assert_eq!(
        faults,
        [
            Fault::FailedDependency,
            Fault::FailedDependency,
            Fault::NotFound,
            Fault::FailedDependency
        ]
    );
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, ["1=1"]);
}

/// 64 writers at once, on an item and around it: no increment is lost, and none waits for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn increments_of_one_item_add_up() {
    let account = Account::with(json!({})).await;
    account.put("n", json!({"v": 0})).await;
    let container = account.container();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..64 {
        tasks.spawn(add(container.clone(), n));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await.len(), 1 + 64);
    let read = container.read_item("n", key("k"), None).await.unwrap().result.unwrap();
    let body: Value = serde_json::from_slice(&read.body).unwrap();
    assert_eq!(body["v"], 64 * 10);
}

async fn add(container: Arc<Container>, n: usize) {
    for round in 0..10 {
        if n.is_multiple_of(2) {
            let patch = json!([{"op": "incr", "path": "/v", "value": 1}]).to_string();
            let none = Conditions::default();
            let answer = container.patch_item("n", key("k"), patch.as_bytes(), &none).await;
            answer.unwrap().result.unwrap();
        } else {
            let own = format!("own{n}");
            let (_, results) =
                run(&container, &[increment("n"), put(BatchKind::Upsert, &own, round)]).await;
            assert!(results.iter().all(|one| one.result.is_ok()));
        }
        let own = json!({"id": format!("own{n}"), "pk": "k", "v": round}).to_string();
        container.upsert_item(key("k"), own.into(), &Conditions::default()).await.unwrap();
    }
}

#[tokio::test]
async fn bulk_operations_stand_alone() {
    let account = Account::with(json!({})).await;
    account.put("1", json!({"v": 1})).await;
    let mut operations = vec![
        put(BatchKind::Create, "1", 5),
        put(BatchKind::Create, "2", 1),
        increment("2"),
        operation(BatchKind::Read, "2", Value::Null),
        operation(BatchKind::Delete, "3", Value::Null),
    ];
    operations.iter_mut().for_each(|operation| operation.key = key("k").map(Arc::new));
    operations.push(put(BatchKind::Create, "x", 1));
    let container = account.container();
    let range = container.ranges().ranges[0].id.to_string();
    let answer = container.execute_bulk(Some(&range), operations, true, None).await.unwrap();
    let results = answer.result.unwrap();
    let fault = |n: usize| results[n].result.as_ref().unwrap_err().fault;
    assert_eq!(
        (fault(0), fault(4), fault(5)),
        (Fault::Conflict, Fault::NotFound, Fault::BadRequest)
    );
    assert_eq!((value(&results[2]), value(&results[3])), (json!(2), json!(2)));
    let gone = container.execute_bulk(Some("99"), vec![put(BatchKind::Create, "y", 1)], true, None);
    assert_eq!(gone.await.unwrap_err().fault, Fault::RangeGone);
}
