//! Index rows: what the items ask for, no more and no less, whatever happens.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/account.rs"]
mod support;

use astrarium_engine::{Conditions, Kind, Link};
use model::partition_key::{Component, PartitionKey};
use serde_json::{Value, json};
use support::Account;

/// A small generator, so that a seed replays.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

async fn check(account: &Account, what: &str) {
    let faults = account.container().index_faults().await.unwrap();
    assert!(
        faults.is_empty(),
        "{what}: {} faults, {:?}",
        faults.len(),
        &faults[..faults.len().min(5)]
    );
}

fn link() -> Link {
    Link(vec![(Kind::Database, "db".into()), (Kind::Container, "c".into())])
}

async fn put(account: &Account, key: u64, id: u64, rest: Value) {
    let mut body = support::object(json!({"id": id.to_string(), "pk": key.to_string()}));
    body.extend(support::object(rest));
    let pk = Some(PartitionKey(vec![Component::String(key.to_string())]));
    let body = Value::Object(body).to_string();
    let put = account.container().upsert_item(pk, body.into(), &Conditions::default()).await;
    put.unwrap().result.unwrap();
}

async fn delete(account: &Account, key: u64, id: u64) {
    let pk = Some(PartitionKey(vec![Component::String(key.to_string())]));
    let id = id.to_string();
    // It may not be there.
    let _ = account.container().delete_item(&id, pk, &Conditions::default()).await.unwrap();
}

fn some_value(dice: &mut Dice, depth: u32) -> Value {
    match dice.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2 => json!(dice.below(5)),
        3 => json!(dice.below(100) as f64 / 7.0),
        4 => json!(["a", "b", "longer", "é\u{0}z"][dice.below(4) as usize]),
        5 => json!("x".repeat(dice.below(600) as usize)),
        6 => (0..dice.below(4)).map(|_| some_value(dice, depth - 1)).collect(),
        _ => {
            let members = (0..dice.below(4)).map(|_| {
                let name = ["a", "b", "c", "odd name"][dice.below(4) as usize].to_owned();
                (name, some_value(dice, depth - 1))
            });
            Value::Object(members.collect::<Vec<_>>().into_iter().collect())
        }
    }
}

fn some_policy(dice: &mut Dice) -> Value {
    let composites = json!([[{"path": "/a"}, {"path": "/b", "order": "descending"}]]);
    let policies = [
        json!({}),
        json!({"indexingMode": "none", "automatic": false}),
        json!({"includedPaths": [{"path": "/a/*"}], "excludedPaths": [{"path": "/*"}]}),
        json!({"excludedPaths": [{"path": "/a/*"}, {"path": "/b/?"}], "includedPaths": [{"path": "/*"}]}),
        json!({"compositeIndexes": composites}),
        json!({"excludedPaths": [{"path": "/*"}], "compositeIndexes": composites}),
    ];
    let mut policy = policies[dice.below(6) as usize].clone();
    if dice.below(8) == 0 && policy.get("indexingMode").is_none() {
        policy["automatic"] = json!(false);
    }
    json!({ "indexingPolicy": policy })
}

#[tokio::test]
async fn rows_follow_their_items() {
    let account = Account::with(json!({})).await;
    put(&account, 1, 1, json!({"a": 1, "b": {"c": [1, 2]}})).await;
    check(&account, "created").await;
    put(&account, 1, 1, json!({"a": 2, "b": {"c": [2, 3]}})).await;
    check(&account, "replaced").await;
    delete(&account, 1, 1).await;
    check(&account, "deleted").await;
}

#[tokio::test]
async fn an_expired_item_takes_its_rows_along() {
    let account = Account::with(json!({"defaultTtl": 10})).await;
    for id in 0..300 {
        put(&account, id % 3, id, json!({"a": id})).await;
    }
    account.pass(20_000);
    account.housekeep().await;
    check(&account, "purged").await;
}

#[tokio::test]
async fn a_change_of_policy_is_carried_out_in_the_background() {
    let account =
        Account::with(json!({"indexingPolicy": {"indexingMode": "none", "automatic": false}}))
            .await;
    for id in 0..500 {
        put(&account, id % 7, id, json!({"a": id, "b": [id, "x"]})).await;
    }
    assert_eq!(account.container().index_progress(), 100);
    account.redefine(json!({"indexingPolicy": {}})).await;
    assert!(account.container().index_progress() < 100);
    account.housekeep().await;
    assert_eq!(account.container().index_progress(), 100);
    check(&account, "built").await;
}

#[tokio::test]
async fn rows_hold_through_anything() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let mut account = Account::with(some_policy(&mut dice)).await;
        for _ in 0..300 {
            let (key, id) = (dice.below(12), dice.below(40));
            match dice.below(40) {
                0 => account.redefine(some_policy(&mut dice)).await,
                1 => account.restart().await,
                2 => {
                    account.engine.housekeep().await;
                }
                3 => {
                    let ranges = account.container().ranges().ranges;
                    let range = &ranges[dice.below(ranges.len() as u64) as usize];
                    // A range without items, or of one key, is not split.
                    let _ = account.engine.split(&link(), &range.id).await;
                }
                4 => {
                    let ranges = account.container().ranges().ranges;
                    if let [first, second, ..] = &ranges[..] {
                        account.engine.merge(&link(), &[&first.id, &second.id]).await.unwrap();
                    }
                }
                5..12 => delete(&account, key, id).await,
                _ => {
                    let rest = json!({
                        "a": some_value(&mut dice, 2),
                        "b": some_value(&mut dice, 2),
                        "c": some_value(&mut dice, 3),
                    });
                    put(&account, key, id, rest).await;
                }
            }
            if dice.below(10) == 0 {
                check(&account, &format!("seed {seed}")).await;
            }
        }
        account.housekeep().await;
        assert_eq!(account.container().index_progress(), 100, "seed {seed}");
        check(&account, &format!("seed {seed}, at the end")).await;
    }
}
