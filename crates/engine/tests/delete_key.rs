//! Deletes of all items of a partition key: at once for everybody, in the background on disk.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/account.rs"]
mod support;

use astrarium_engine::{ChangesMode, ChangesStart, Conditions, Kind, Link, Page, Scope};
use kv::Keyspace;
use model::Fault;
use serde_json::{Value, json};
use support::{Account, key};

const ALL: ChangesMode = ChangesMode::AllVersions;
const LATEST: ChangesMode = ChangesMode::Latest { deletes: false };
const DELETES: ChangesMode = ChangesMode::Latest { deletes: true };

async fn doom(account: &Account, name: &str) -> u64 {
    let answer = account.container().delete_key(key(name)).await.unwrap();
    answer.result.unwrap();
    answer.at.lsn
}

async fn put(account: &Account, name: &str, id: &str, v: u64) {
    let body = json!({"id": id, "pk": name, "v": v, "u": v}).to_string();
    let (container, none) = (account.container(), Conditions::default());
    let put = container.create_item(key(name), body.into(), &none).await;
    put.unwrap().result.unwrap();
}

/// The values of all items that pages show.
async fn shown(account: &Account) -> Vec<u64> {
    let page = Page { items: Some(1000), continuation: None };
    let container = account.container();
    let page = container.read_items(&Scope::Everything, &page, None).await.unwrap();
    let bodies = page.result.unwrap().bodies;
    let value = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap()["v"].as_u64().unwrap();
    let mut values: Vec<u64> = bodies.iter().map(|body| value(body)).collect();
    values.sort_unstable();
    values
}

#[tokio::test]
async fn items_are_gone_at_once_and_stay_gone() {
    let mut account = Account::with(json!({})).await;
    for n in 0..250 {
        put(&account, "k", &format!("i{n}"), n).await;
    }
    put(&account, "other", "x", 1000).await;
    assert!(account.exists("i7").await, "and it is in the cache now");
    doom(&account, "k").await;
    for restarted in [false, true] {
        if restarted {
            account.restart().await;
        }
        assert!(!account.exists("i7").await);
        assert_eq!(shown(&account).await, [1000]);
        assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, ["x=1000"]);
        let (container, none) = (account.container(), Conditions::default());
        let gone = container.delete_item("i7", key("k"), &none).await;
        assert_eq!(gone.unwrap().result.unwrap_err().fault, Fault::NotFound);
        let patch = br#"[{"op":"set","path":"/v","value":1}]"#;
        let gone = container.patch_item("i7", key("k"), patch, &none).await;
        assert_eq!(gone.unwrap().result.unwrap_err().fault, Fault::NotFound);
    }
    put(&account, "k", "i7", 7).await;
    put(&account, "k", "new", 8).await;
    account.housekeep().await;
    assert_eq!(shown(&account).await, [7, 8, 1000]);
    account.restart().await;
    assert_eq!(shown(&account).await, [7, 8, 1000]);
    let index = account.rows(Keyspace::Index).await;
    assert!(index.iter().all(|(key, _)| key[0] != b'x'), "it is done");
    assert_eq!(account.rows(Keyspace::Feed).await.len(), 3);
}

#[tokio::test]
async fn each_item_is_told_to_readers_of_versions_and_of_deletes() {
    let policy = json!({"retentionDuration": 5, "tombstoneDuration": 5});
    let account = Account::with(json!({"changeFeedPolicy": policy})).await;
    put(&account, "k", "a", 1).await;
    put(&account, "k", "b", 2).await;
    let lsn = doom(&account, "k").await;
    put(&account, "k", "a", 3).await;
    account.housekeep().await;
    let after = ChangesStart::After(model::token::Position::Lsn(lsn));
    let words = account.words(ALL, after.clone()).await;
    assert_eq!(words, ["delete a [\"k\"]", "create a=3", "delete b [\"k\"]"]);
    let words = account.words(DELETES, after).await;
    assert!(words.contains(&"a=3".to_owned()), "{words:?}");
    assert!(words.iter().any(|word| word.starts_with("delete b")), "{words:?}");
}

#[tokio::test]
async fn unique_keys_of_deleted_items_are_free() {
    let unique = json!({"uniqueKeys": [{"paths": ["/u"]}]});
    let account = Account::with(json!({"uniqueKeyPolicy": unique})).await;
    put(&account, "k", "a", 1).await;
    doom(&account, "k").await;
    put(&account, "k", "b", 1).await;
    account.housekeep().await;
    assert_eq!(shown(&account).await, [1]);
    assert!(account.exists("b").await && !account.exists("a").await);
}

#[tokio::test]
async fn a_second_delete_takes_what_came_after_the_first() {
    let account = Account::with(json!({})).await;
    put(&account, "k", "a", 1).await;
    doom(&account, "k").await;
    put(&account, "k", "a", 2).await;
    put(&account, "k", "b", 3).await;
    doom(&account, "k").await;
    assert_eq!(shown(&account).await, [0_u64; 0]);
    put(&account, "k", "b", 4).await;
    account.housekeep().await;
    assert_eq!(shown(&account).await, [4]);
}

#[tokio::test]
async fn children_of_a_split_know_of_it() {
    let mut account = Account::with(json!({})).await;
    for n in 0..40 {
        put(&account, &format!("k{n}"), "x", n).await;
    }
    for n in 0..20 {
        doom(&account, &format!("k{n}")).await;
    }
    let link = Link(vec![(Kind::Database, "db".into()), (Kind::Container, "c".into())]);
    let range = account.container().ranges().ranges[0].id.to_string();
    account.engine.split(&link, &range).await.unwrap();
    assert_eq!(account.container().ranges().ranges.len(), 2);
    assert_eq!(shown(&account).await, (20..40).collect::<Vec<_>>());
    put(&account, "k3", "x", 100).await;
    account.restart().await;
    account.housekeep().await;
    let expected: Vec<u64> = (20..40).chain([100]).collect();
    assert_eq!(shown(&account).await, expected);
}

#[tokio::test]
async fn only_a_whole_key_can_be_deleted() {
    let key = json!({"paths": ["/pk", "/b"], "kind": "MultiHash", "version": 2});
    let account = Account::with(json!({"partitionKey": key})).await;
    for part in [None, support::key("k")] {
        let refused = account.container().delete_key(part).await;
        assert_eq!(refused.unwrap_err().fault, Fault::BadRequest);
    }
}

#[tokio::test]
async fn too_many_at_once_are_refused_until_some_are_done() {
    let account = Account::with(json!({})).await;
    for n in 0..model::limits::KEY_DELETES {
        doom(&account, &format!("k{n}")).await;
    }
    doom(&account, "k0").await;
    let full = account.container().delete_key(key("one more")).await.unwrap();
    assert_eq!(full.result.unwrap_err().fault, Fault::TooManyRequests);
    account.housekeep().await;
    doom(&account, "one more").await;
}
