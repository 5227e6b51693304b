//! Splits, merges, and all versions with deletes.

use std::time::Duration;

use client::ItemOptions;
use processor::{CloseReason, Mode, Options};
use serde_json::json;

use crate::delivery::assert_ordered;
use crate::support::{Home, Sink, eventually, from_beginning, options};

const STOP: Duration = Duration::from_secs(20);

/// 65: a split under load: children go on from the saved position, the parent is gone.
#[tokio::test]
async fn split_live() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.fill("one", 50).await;
    sink.until_count(50).await;
    let range = home.ranges().await.remove(0);
    home.container.split_range(&range).await.unwrap();
    home.fill("two", 50).await;
    sink.until_count(100).await;
    eventually("two leases", || async { home.lease_documents().await.len() == 2 }).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 100, "nothing twice");
    assert!(sink.closes.lock().unwrap().contains(&(range.clone(), CloseReason::LeaseGone)));
    let mut tokens: Vec<String> = home
        .lease_documents()
        .await
        .iter()
        .map(|lease| lease["LeaseToken"].as_str().unwrap().to_owned())
        .collect();
    tokens.sort();
    let mut ranges = home.ranges().await;
    ranges.sort();
    assert_eq!(tokens, ranges);
}

/// 66: split while nobody ran: the children go on from the parent's position
/// (azure-cosmos-dotnet-v3 pull request 6079).
#[tokio::test]
async fn net3_6079_split_offline() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.fill("one", 20).await;
    sink.until_count(20).await;
    processor.stop(STOP).await;
    let range = home.ranges().await.remove(0);
    home.container.split_range(&range).await.unwrap();
    home.fill("two", 20).await;
    let mut processor = home.start(from_beginning("b"), &sink).await;
    sink.until_count(40).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 40, "history is not replayed");
}

/// 69: a merge: each lease goes on as a span of the merged range, then both are joined at one
/// position; nothing is lost and nothing comes twice, and a split cuts what was joined.
#[tokio::test]
async fn merge_live() {
    let home = Home::new(2).await;
    let sink = Sink::new();
    let brisk = Options { lease_renew_interval: Duration::from_millis(500), ..from_beginning("a") };
    let mut processor = home.start(brisk, &sink).await;
    home.fill("one", 50).await;
    sink.until_count(50).await;
    let ranges = home.ranges().await;
    home.container.merge_ranges(&[&ranges[0], &ranges[1]]).await.unwrap();
    home.fill("two", 50).await;
    sink.until_count(100).await;
    let merged = home.ranges().await.remove(0);
    eventually("one lease is left", || async {
        let leases = home.lease_documents().await;
        leases.len() == 1 && leases[0]["LeaseToken"] == json!(merged)
    })
    .await;
    let lease = home.lease_documents().await.remove(0);
    assert_eq!((&lease["version"], &lease["FeedRange"]["Range"]["max"]), (&json!(0), &json!("FF")));
    home.fill("three", 50).await;
    sink.until_count(150).await;
    home.container.split_range(&merged).await.unwrap();
    home.fill("four", 50).await;
    sink.until_count(200).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 200, "nothing twice");
    assert_ordered(&sink.seen());
}

/// 72: all versions and deletes.
#[tokio::test]
async fn avad_delete_previous() {
    let policy = json!({"changeFeedPolicy": {"retentionDuration": 60, "previousImages": true}});
    let home = Home::with(1, "/id", policy).await;
    let (given, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let mut processor = home
        .builder()
        .await
        .options(Options { mode: Mode::AllVersions, ..options("a") })
        .handler(move |_, changes| {
            for change in changes {
                let body: serde_json::Value = change.parse().unwrap();
                let _ = given.send((change.is_delete(), body));
            }
            async { Ok(()) }
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    home.put("x", "k").await;
    home.put("x", "k").await;
    home.container.delete_item("k", "x", ItemOptions::default()).await.unwrap();
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let (is_delete, body) = taken.recv().await.unwrap();
        let kind = body["metadata"]["operationType"].as_str().unwrap_or("create").to_owned();
        assert_eq!(is_delete, kind == "delete");
        kinds.push(kind);
    }
    assert_eq!(kinds, ["create", "replace", "delete"]);
    processor.stop(STOP).await;
}
