//! Items whose time is over: invisible at once, purged in the background, told to readers.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/account.rs"]
mod support;

use astrarium_engine::{ChangesMode, ChangesStart, Conditions};
use kv::Keyspace;
use serde_json::json;
use support::{Account, key};

const ALL: ChangesMode = ChangesMode::AllVersions;
const DELETES: ChangesMode = ChangesMode::Latest { deletes: true };

fn with_log(default_ttl: i32) -> serde_json::Value {
    json!({"defaultTtl": default_ttl, "changeFeedPolicy": {"retentionDuration": 50}})
}

#[tokio::test]
async fn expired_items_are_purged_and_told_as_such() {
    let mut account = Account::with(with_log(10)).await;
    account.put("own", json!({"v": 1, "ttl": 5})).await;
    account.put("default", json!({"v": 1})).await;
    account.put("never", json!({"v": 1, "ttl": -1})).await;
    account.put("longer", json!({"v": 1, "ttl": 100})).await;
    let now = account.read(ALL, ChangesStart::Now).await.unwrap().position;
    let later = || ChangesStart::After(now.clone());
    account.pass(6_000);
    assert!(!account.exists("own").await);
    assert!(account.words(ALL, later()).await.is_empty(), "nothing is told before the purge");
    account.housekeep().await;
    assert_eq!(account.words(ALL, later()).await, [r#"delete expired own ["k"]"#]);
    account.pass(5_000);
    account.restart().await;
    account.housekeep().await;
    let both = [r#"delete expired own ["k"]"#, r#"delete expired default ["k"]"#];
    assert_eq!(account.words(ALL, later()).await, both);
    assert_eq!(account.words(DELETES, later()).await, both);
    assert!(account.exists("never").await && account.exists("longer").await);
    let index = account.rows(Keyspace::Index).await;
    let expiries = index.iter().filter(|(key, _)| key[0] == b't').count();
    assert_eq!((account.rows(Keyspace::Feed).await.len(), expiries), (2, 1));
}

#[tokio::test]
async fn a_change_of_the_default_takes_effect_on_what_is_there() {
    let account = Account::with(with_log(-1)).await;
    account.put("1", json!({"v": 1})).await;
    account.put("2", json!({"v": 1, "ttl": 1})).await;
    account.put("3", json!({"v": 1, "ttl": -1})).await;
    account.redefine(json!({})).await;
    account.pass(20_000);
    account.housekeep().await;
    assert!(account.exists("2").await, "nothing expires where the default is absent");
    account.redefine(with_log(50)).await;
    account.housekeep().await;
    assert!(account.exists("1").await && !account.exists("2").await);
    account.redefine(with_log(10)).await;
    account.housekeep().await;
    assert!(!account.exists("1").await && account.exists("3").await);
    assert_eq!(account.rows(Keyspace::Feed).await.len(), 1);
}

#[tokio::test]
async fn an_expired_item_gives_way_and_its_end_is_told_before_the_new_beginning() {
    let mut policy = with_log(10);
    policy["uniqueKeyPolicy"] = json!({"uniqueKeys": [{"paths": ["/u"]}]});
    let account = Account::with(policy).await;
    account.put("1", json!({"v": 1, "u": 1})).await;
    account.put("2", json!({"v": 1, "u": 2})).await;
    account.pass(11_000);
    account.put("1", json!({"v": 2, "u": 2})).await;
    let expected = [
        "create 1=1",
        "create 2=1",
        r#"delete expired 2 ["k"]"#,
        r#"delete expired 1 ["k"]"#,
        "create 1=2",
    ];
    assert_eq!(account.words(ALL, ChangesStart::Beginning).await, expected);
    account.put("3", json!({"v": 1, "u": 1})).await;
    account.housekeep().await;
    assert_eq!(account.words(ALL, ChangesStart::Beginning).await.len(), 6);
    let body = json!({"id": "4", "pk": "k", "u": 2}).to_string();
    let taken = account.container();
    let taken = taken.create_item(key("k"), body.into(), &Conditions::default()).await.unwrap();
    assert!(taken.result.is_err(), "the unique key is held by its new owner");
}

#[tokio::test]
async fn ten_thousand_expire_in_bounded_rounds_while_writers_go_on() {
    let account = Account::with(with_log(10)).await;
    for n in 0..5_000 {
        account.put(&format!("d{n}"), json!({"v": 1})).await;
        account.put(&format!("o{n}"), json!({"v": 1, "ttl": 10})).await;
    }
    account.pass(11_000);
    let (mut rounds, mut written) = (0, 0);
    let before = account.read(ALL, ChangesStart::Now).await.unwrap().position;
    let mut more = true;
    while more {
        let purge = account.engine.housekeep();
        let write = async {
            // The purge yields between its batches, so that this gets through.
            let lsn = account.put(&format!("w{rounds}"), json!({"v": 1, "ttl": -1})).await;
            written += 1;
            lsn
        };
        let (left, _) = tokio::join!(purge, write);
        more = left;
        rounds += 1;
    }
    assert!(rounds >= 3, "{rounds} rounds");
    let mut start = ChangesStart::After(before);
    let (mut expired, mut created) = (0, 0);
    loop {
        let page = account.read(ALL, start).await.unwrap();
        if page.changes.is_empty() {
            break;
        }
        let ends = page.changes.iter().filter(|c| c.detail.as_ref().unwrap().expired).count();
        expired += ends;
        created += page.changes.len() - ends;
        start = ChangesStart::After(page.position);
    }
    assert_eq!((expired, created), (10_000, written));
    assert_eq!(account.rows(Keyspace::Feed).await.len(), written);
    let index = account.rows(Keyspace::Index).await;
    assert_eq!(index.iter().filter(|(key, _)| key[0] == b't').count(), 0);
    assert_eq!(index.iter().filter(|(key, _)| key[0] == b'd').count(), 10_000);
}
