//! All versions and deletes, deletes in the latest-version feed, retention, and lag.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/account.rs"]
mod support;

use astrarium_engine::{ChangesMode, ChangesRead, ChangesStart, Scope};
use kv::Keyspace;
use model::Fault;
use model::token::Position;
use serde_json::json;
use support::Account;

const ALL: ChangesMode = ChangesMode::AllVersions;
const LATEST: ChangesMode = ChangesMode::Latest { deletes: false };
const DELETES: ChangesMode = ChangesMode::Latest { deletes: true };
const MINUTE: u64 = 60_000;

fn after(lsn: u64) -> ChangesStart {
    ChangesStart::After(Position::Lsn(lsn))
}

/// The etag that a refusal names.
fn named(message: &str) -> ChangesStart {
    let etag = message.split("the etag ").nth(1).unwrap().split(", of").next().unwrap();
    ChangesStart::After(Position::parse(etag).unwrap())
}

#[tokio::test]
async fn every_version_and_delete_is_there_with_what_it_replaced() {
    let policy = json!({"retentionDuration": 5, "previousImages": true});
    let mut account = Account::with(json!({"changeFeedPolicy": policy})).await;
    let first = account.put("1", json!({"v": 1})).await;
    account.put("1", json!({"v": 2})).await;
    account.put("2", json!({"v": 1})).await;
    account.delete("1").await;
    account.put("1", json!({"v": 3})).await;
    account.restart().await;
    let expected =
        ["create 1=1", "replace 1=2 was 1", "create 2=1", r#"delete 1 ["k"] was 2"#, "create 1=3"];
    assert_eq!(account.words(ALL, ChangesStart::Beginning).await, expected);
    assert_eq!(account.words(ALL, after(first)).await, expected[1..]);
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, ["2=1", "1=3"]);
    let page = account.read(ALL, ChangesStart::Beginning).await.unwrap();
    let previous: Vec<Option<u64>> =
        page.changes.iter().map(|c| c.detail.as_ref().unwrap().previous_lsn).collect();
    assert_eq!(previous, [None, Some(1), None, Some(2), None]);
    assert!(account.words(ALL, ChangesStart::Now).await.is_empty());
}

#[tokio::test]
async fn without_a_policy_nothing_is_kept_and_the_refusal_says_how_to_turn_it_on() {
    let account = Account::with(json!({"changeFeedPolicy": {"tombstoneDuration": 0}})).await;
    account.put("1", json!({"v": 1})).await;
    account.delete("1").await;
    let refused = account.read(ALL, ChangesStart::Now).await.unwrap_err();
    assert_eq!(refused.fault, Fault::BadRequest);
    assert!(refused.message.contains("retentionDuration"), "{refused}");
    let refused = account.read(DELETES, ChangesStart::Now).await.unwrap_err();
    assert!(refused.message.contains("tombstoneDuration"), "{refused}");
    assert!(account.rows(Keyspace::Log).await.is_empty());
    assert!(account.rows(Keyspace::Docs).await.is_empty());
    assert!(account.rows(Keyspace::Index).await.is_empty());
    assert!(account.rows(Keyspace::Terms).await.is_empty());
}

#[tokio::test]
async fn turned_on_in_the_middle_it_begins_there_and_says_so() {
    let mut account = Account::with(json!({})).await;
    account.put("1", json!({"v": 1})).await;
    let before = account.put("2", json!({"v": 1})).await;
    account.redefine(json!({"changeFeedPolicy": {"retentionDuration": 5}})).await;
    account.restart().await;
    assert!(account.words(ALL, ChangesStart::Beginning).await.is_empty());
    account.put("1", json!({"v": 2})).await;
    account.restart().await;
    assert_eq!(account.words(ALL, ChangesStart::Beginning).await, ["replace 1=2"]);
    assert_eq!(account.words(ALL, after(before)).await, ["replace 1=2"]);
    let refused = account.read(ALL, after(before - 1)).await.unwrap_err();
    assert_eq!(
        (refused.fault, refused.fault.status(), refused.fault.substatus()),
        (Fault::HistoryPurged, 412, 2015)
    );
    assert!(refused.message.contains("2023-11-14T22:13:20.000Z"), "{refused}");
    assert_eq!(account.words(ALL, named(&refused.message)).await, ["replace 1=2"]);
    // Off and on again is a new beginning: what happened between is not there.
    account.redefine(json!({"changeFeedPolicy": {"retentionDuration": 0}})).await;
    let gap = account.put("1", json!({"v": 3})).await;
    account.housekeep().await;
    account.redefine(json!({"changeFeedPolicy": {"retentionDuration": 5}})).await;
    account.put("1", json!({"v": 4})).await;
    assert_eq!(account.read(ALL, after(gap - 1)).await.unwrap_err().fault, Fault::HistoryPurged);
    assert_eq!(account.words(ALL, ChangesStart::Beginning).await, ["replace 1=4"]);
    assert_eq!(account.rows(Keyspace::Log).await.len(), 1);
}

#[tokio::test]
async fn retention_by_time_cuts_exactly_and_readers_behind_are_told() {
    let mut account = Account::with(json!({"changeFeedPolicy": {"retentionDuration": 5}})).await;
    for v in 0..10 {
        account.put("1", json!({"v": v})).await;
        account.pass(MINUTE);
    }
    let start = 1_700_000_000_000;
    let since = |minutes| ChangesStart::Since(start + minutes * MINUTE);
    assert_eq!(account.words(ALL, since(8)).await, ["replace 1=8", "replace 1=9"]);
    account.housekeep().await;
    let left = ["replace 1=5", "replace 1=6", "replace 1=7", "replace 1=8", "replace 1=9"];
    for _ in 0..2 {
        assert_eq!(account.words(ALL, ChangesStart::Beginning).await, left);
        assert_eq!(account.words(ALL, since(8)).await, left[3..]);
        for start in [after(0), after(4), since(0), since(4)] {
            let refused = account.read(ALL, start).await.unwrap_err();
            assert_eq!(refused.fault, Fault::HistoryPurged);
            assert_eq!(account.words(ALL, named(&refused.message)).await, left);
        }
        account.restart().await;
        account.housekeep().await;
    }
    // The latest-version feed never forgets.
    assert_eq!(account.words(LATEST, after(0)).await, ["1=9"]);
    assert_eq!(account.rows(Keyspace::Log).await.len(), 5);
}

#[tokio::test]
async fn retention_by_bytes_keeps_the_newest() {
    let policy = json!({"retentionDuration": 1000, "retentionBytes": 200_000});
    let account = Account::with(json!({"changeFeedPolicy": policy})).await;
    for v in 0..2000 {
        account.put("1", json!({"v": v, "pad": "x".repeat(300)})).await;
    }
    account.housekeep().await;
    let first = account.read(ALL, ChangesStart::Beginning).await.unwrap().changes[0].lsn;
    assert_eq!(first % 256, 0, "whole blocks are cut");
    assert_eq!(account.read(ALL, after(first - 2)).await.unwrap_err().fault, Fault::HistoryPurged);
    let rows = account.rows(Keyspace::Log).await;
    let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!((50_000..200_000).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn deletes_are_in_the_latest_feed_for_those_who_ask() {
    let mut account = Account::with(json!({"changeFeedPolicy": {"tombstoneDuration": 5}})).await;
    for id in ["1", "2", "3"] {
        account.put(id, json!({"v": 1})).await;
    }
    account.delete("1").await;
    let deleted = account.delete("2").await;
    account.put("4", json!({"v": 1})).await;
    account.put("1", json!({"v": 2})).await;
    account.restart().await;
    let expected = ["3=1", r#"delete 2 ["k"]"#, "4=1", "1=2"];
    assert_eq!(account.words(DELETES, ChangesStart::Beginning).await, expected);
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, ["3=1", "4=1", "1=2"]);
    assert!(!account.exists("2").await && account.exists("1").await);
    account.pass(5 * MINUTE);
    account.put("3", json!({"v": 2})).await;
    account.housekeep().await;
    assert_eq!(account.words(DELETES, after(deleted - 1)).await.len(), 4);
    account.pass(1);
    account.housekeep().await;
    account.restart().await;
    let refused = account.read(DELETES, after(deleted - 1)).await.unwrap_err();
    assert_eq!(refused.fault, Fault::HistoryPurged);
    assert_eq!(account.words(DELETES, named(&refused.message)).await, ["4=1", "1=2", "3=2"]);
    // Who begins at the beginning has read nothing of what was deleted before.
    let read = |start, items| {
        let scope = Scope::Everything;
        let read = ChangesRead { scope, start, mode: DELETES, items: Some(items) };
        let container = account.container();
        async move { container.read_changes(&read, None).await?.result }
    };
    let first = read(ChangesStart::Beginning, 1).await.unwrap();
    account.delete("4").await;
    let rest = read(ChangesStart::After(first.position.clone()), 9).await.unwrap();
    let words: Vec<String> = first.changes.iter().chain(&rest.changes).map(support::word).collect();
    assert_eq!(words, ["4=1", "1=2", "3=2", r#"delete 4 ["k"]"#]);
    account.pass(6 * MINUTE);
    account.housekeep().await;
    let late = read(ChangesStart::After(first.position), 9).await.unwrap_err();
    assert_eq!(late.fault, Fault::HistoryPurged, "the delete of what it has read is forgotten");
    assert_eq!(account.rows(Keyspace::Docs).await.len(), 2);
}

#[tokio::test]
async fn a_reader_far_behind_steps_over_what_is_gone() {
    let mut account = Account::with(json!({})).await;
    account.put("first", json!({"v": 0})).await;
    account.put("gone", json!({"v": 0})).await;
    // A block has 256 LSNs: the newest one begins in the middle of this.
    for n in 3..=5130 {
        let id = if n % 2 == 0 { "even" } else { "odd" };
        assert_eq!(account.put(id, json!({"v": n})).await, n);
        if n == 5121 {
            account.restart().await;
        }
        if n < 5115 {
            continue;
        }
        let (one, other) = if n % 2 == 0 { ("odd", "even") } else { ("even", "odd") };
        let newest = [format!("{one}={}", n - 1), format!("{other}={n}")];
        assert_eq!(account.words(LATEST, after(2)).await, newest);
        let all = account.words(LATEST, ChangesStart::Beginning).await;
        assert_eq!(all[..2], ["first=0", "gone=0"]);
        assert_eq!(all[2..], newest);
        assert_eq!(account.words(LATEST, after(n - 1)).await, newest[1..]);
    }
    account.delete("gone").await;
    let expected = ["first=0", "odd=5129", "even=5130"];
    assert_eq!(account.words(LATEST, ChangesStart::Beginning).await, expected);
}

#[tokio::test]
async fn lag_counts_what_is_left_exactly() {
    let account = Account::with(json!({})).await;
    for n in 0..1000 {
        account.put(&format!("{}", n % 600), json!({"v": n})).await;
        account.pass(10);
    }
    for lsn in [0, 1, 399, 400, 401, 511, 512, 700, 999, 1000] {
        let lag = account.container().lag(&Scope::Everything, &Position::Lsn(lsn)).await.unwrap();
        let [lag] = &lag[..] else { panic!("one range is expected") };
        // The items 400 to 599 were written once, at LSN 401 to 600; the others since.
        assert_eq!((lag.lsn, lag.position_lsn, lag.items), (1000, lsn, 1000 - lsn.max(400)));
        let oldest = (lsn < 1000).then(|| 1_700_000_000_000 + lsn.max(400) * 10);
        assert_eq!(lag.oldest_unread_ts_ms, oldest);
        assert_eq!(lag.age_ms, oldest.map_or(0, |ts| 1_700_000_010_000 - ts));
    }
}
