//! The change feed, page by page: where readers begin, what they read, and how they go on.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use client::{
    ChangeFeedOptions, Container, FeedRead, FeedScope, ItemOptions, Kind, Mode, Operation,
    PartitionKey, Start, Throughput,
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::support::{Home, beginning, drain, fill, names, pages, soon, versioned};

fn from(continuation: &str) -> ChangeFeedOptions {
    ChangeFeedOptions { request_continuation: Some(continuation.to_owned()), ..Default::default() }
}

async fn put(container: &Container, id: &str) {
    let item = json!({"id": id, "pk": id});
    container.upsert_item(id, item, ItemOptions::default()).await.unwrap();
}

#[tokio::test]
async fn each_change_once_with_a_new_reader_for_every_page() {
    let home = Home::new();
    let container = home.container(3).await;
    fill(&container, "i", 25).await;
    let mut options = ChangeFeedOptions { max_item_count: Some(2), ..beginning() };
    let (mut found, mut texts) = (Vec::new(), Vec::new());
    loop {
        let mut changes = container.changes(options.clone()).unwrap();
        let page = soon(changes.next_page()).await.unwrap();
        found.extend(page.changes.iter().map(|change| change.id().unwrap().unwrap()));
        assert_eq!(page.continuation, changes.continuation());
        options.request_continuation = Some(page.continuation.clone());
        texts.push(page.continuation);
        if page.is_caught_up {
            break;
        }
        assert!(page.changes.len() <= 2 && page.lsn.is_some() && page.etag.is_some());
    }
    found.sort();
    assert_eq!(found, names("i", 25));
    // The same place is always the same text.
    let mut changes = container.changes(from(texts.last().unwrap())).unwrap();
    assert!(soon(changes.next_page()).await.unwrap().is_caught_up);
    assert_eq!(&changes.continuation(), texts.last().unwrap());
    put(&container, "late").await;
    assert_eq!(drain(&mut changes).await, ["late"]);
}

#[tokio::test]
async fn several_ranges_at_a_time() {
    let home = Home::new();
    let container = home.container(4).await;
    fill(&container, "i", 60).await;
    let options = ChangeFeedOptions { max_concurrency: 8, max_item_count: Some(3), ..beginning() };
    let mut changes = container.changes(options).unwrap();
    assert_eq!(drain(&mut changes).await, names("i", 60));
    assert_eq!(drain(&mut changes).await, [""; 0]);
}

#[tokio::test]
async fn from_now_on_misses_nothing_that_comes_after() {
    let home = Home::new();
    let container = home.container(3).await;
    fill(&container, "old", 10).await;
    let mut changes = container.changes(ChangeFeedOptions::default()).unwrap();
    changes.pin().await.unwrap();
    fill(&container, "new", 10).await;
    // The reader is lost before it has read anything; another goes on from what it had.
    let kept = changes.continuation();
    drop(changes);
    let mut changes = container.changes(from(&kept)).unwrap();
    assert_eq!(drain(&mut changes).await, names("new", 10));
    // A reader that never asked does not know when now was.
    let unpinned = container.changes(ChangeFeedOptions::default()).unwrap().continuation();
    assert!(unpinned.contains("\"start\":\"now\""), "{unpinned}");
}

#[tokio::test]
async fn from_a_time() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "i", 6).await;
    let at = |start_time| ChangeFeedOptions { start_time: Some(start_time), ..Default::default() };
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    assert_eq!(drain(&mut container.changes(at(long_ago)).unwrap()).await, names("i", 6));
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    assert_eq!(drain(&mut container.changes(at(tomorrow)).unwrap()).await, [""; 0]);
}

/// The helper of the first SDKs: ranges, and an etag to keep for each.
async fn get_changes(
    container: &Container,
    checkpoints: &mut HashMap<String, String>,
) -> Vec<String> {
    let mut ids = Vec::new();
    for range in container.partition_key_ranges().await.unwrap() {
        let options = ChangeFeedOptions {
            partition_key_range_id: Some(range.id.clone()),
            request_continuation: checkpoints.get(&range.id).cloned(),
            max_item_count: Some(1),
            ..beginning()
        };
        let mut changes = container.changes(options).unwrap();
        loop {
            let page = changes.next_page().await.unwrap();
            if page.is_caught_up {
                break;
            }
            assert_eq!(page.range_id.as_deref(), Some(range.id.as_str()));
            ids.extend(page.changes.iter().map(|change| change.id().unwrap().unwrap()));
            checkpoints.insert(range.id.clone(), page.etag.unwrap());
        }
    }
    ids.sort();
    ids
}

#[tokio::test]
async fn checkpoints_by_range_are_plain_etags() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "i", 8).await;
    let mut checkpoints = HashMap::new();
    assert_eq!(get_changes(&container, &mut checkpoints).await, names("i", 8));
    assert!(checkpoints.values().all(|etag| etag.starts_with('"')));
    put(&container, "late").await;
    assert_eq!(get_changes(&container, &mut checkpoints).await, ["late"]);
    assert_eq!(get_changes(&container, &mut checkpoints).await, [""; 0]);
}

#[tokio::test]
async fn parts_of_a_container() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "i", 20).await;
    let key = ChangeFeedOptions { partition_key: Some("key-7".into()), ..beginning() };
    let mut changes = container.changes(key.clone()).unwrap();
    assert_eq!(drain(&mut changes).await, ["i7"]);
    let kept = changes.continuation();
    put(&container, "other").await;
    container
        .upsert_item("key-7", r#"{"id":"x","pk":"key-7"}"#, ItemOptions::default())
        .await
        .unwrap();
    let options = ChangeFeedOptions { request_continuation: Some(kept.clone()), ..key };
    assert_eq!(drain(&mut container.changes(options).unwrap()).await, ["x"]);
    let other = ChangeFeedOptions { partition_key: Some("key-8".into()), ..from(&kept) };
    assert_eq!(container.changes(other).unwrap_err().kind(), Kind::Setting);
    assert_eq!(container.changes(from(&kept)).unwrap_err().kind(), Kind::Setting);

    // The whole by parts that are no ranges; and a continuation of the whole, shared by two readers.
    let mut parts = Vec::new();
    for span in ["-0A", "0A-1B33", "1B33-FF"] {
        let options = ChangeFeedOptions { feed_range: Some(span.parse().unwrap()), ..beginning() };
        parts.extend(drain(&mut container.changes(options).unwrap()).await);
    }
    parts.sort();
    let mut whole = container.changes(beginning()).unwrap();
    assert_eq!(drain(&mut whole).await, parts);
    fill(&container, "later", 10).await;
    let mut found = Vec::new();
    for span in ["-15", "15-FF"] {
        let options = ChangeFeedOptions {
            feed_range: Some(span.parse().unwrap()),
            ..from(&whole.continuation())
        };
        found.extend(drain(&mut container.changes(options).unwrap()).await);
    }
    found.sort();
    assert_eq!(found, names("later", 10));
}

#[tokio::test]
async fn keys_that_begin_alike() {
    let home = Home::new();
    let client = home.client();
    client.create_database("d", Throughput::Unsaid).await.unwrap();
    let definition = json!({"id": "c",
        "partitionKey": {"paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2}});
    client.database("d").create_container(definition, Throughput::Manual(30_000)).await.unwrap();
    let container = client.container("d", "c");
    for (id, tenant, user) in [("1", "t1", "u1"), ("2", "t1", "u2"), ("3", "t2", "u1")] {
        let item = json!({"id": id, "tenant": tenant, "user": user});
        let key = PartitionKey::levels([tenant, user]);
        container.create_item(key, item, ItemOptions::default()).await.unwrap();
    }
    let of = |levels: &[&str]| ChangeFeedOptions {
        partition_key: Some(PartitionKey::levels(levels.iter().copied())),
        ..beginning()
    };
    assert_eq!(drain(&mut container.changes(of(&["t1"])).unwrap()).await, ["1", "2"]);
    let mut one = container.changes(of(&["t1", "u2"])).unwrap();
    assert_eq!(drain(&mut one).await, ["2"]);
    // Keys have no ranges, so a split is nothing to them.
    for range in container.partition_key_ranges().await.unwrap() {
        let _ = container.split_range(&range.id).await;
    }
    let item = json!({"id": "4", "tenant": "t1", "user": "u2"});
    let key = PartitionKey::levels(["t1", "u2"]);
    container.create_item(key, item, ItemOptions::default()).await.unwrap();
    let options =
        ChangeFeedOptions { request_continuation: Some(one.continuation()), ..of(&["t1", "u2"]) };
    assert_eq!(drain(&mut one).await, ["4"]);
    assert_eq!(drain(&mut container.changes(options).unwrap()).await, ["4"]);
}

#[tokio::test]
async fn a_continuation_does_not_serve_for_what_it_was_not_made_for() {
    let home = Home::new();
    let container = home.container(2).await;
    let span = Some("-15".parse().unwrap());
    let mut part =
        container.changes(ChangeFeedOptions { feed_range: span, ..beginning() }).unwrap();
    drain(&mut part).await;
    let beyond = ChangeFeedOptions {
        feed_range: Some("10-20".parse().unwrap()),
        ..from(&part.continuation())
    };
    assert_eq!(container.changes(beyond).unwrap_err().kind(), Kind::Setting);
    let mode = ChangeFeedOptions { mode: Mode::AllVersions, ..from(&part.continuation()) };
    assert!(container.changes(mode).unwrap_err().message().contains("another mode"));
    let no_range = ChangeFeedOptions { partition_key_range_id: Some("77".into()), ..beginning() };
    let gone = container.changes(no_range).unwrap().next_page().await.unwrap_err();
    assert_eq!(gone.kind(), Kind::RangeGone);
    let bare = container.changes(from("\"7\"")).unwrap().next_page().await.unwrap_err();
    assert_eq!(bare.kind(), Kind::Setting);
    let named =
        ChangeFeedOptions { partition_key_range_id: Some("0".into()), ..from("\"no etag\"") };
    let mut torn = container.changes(named).unwrap();
    assert!(torn.continuation().contains("\"range\":\"0\""));
    assert_eq!(torn.next_page().await.unwrap_err().kind(), Kind::BadRequest);
}

#[tokio::test]
async fn deletes_and_versions() {
    let home = Home::new();
    let client = home.client();
    client.create_database("d", Throughput::Unsaid).await.unwrap();
    client.database("d").create_container(versioned(), Throughput::Manual(20_000)).await.unwrap();
    let container = client.container("d", "c");
    let mut all = container
        .changes(ChangeFeedOptions { mode: Mode::AllVersions, ..Default::default() })
        .unwrap();
    all.pin().await.unwrap();
    let mut latest = container
        .changes(ChangeFeedOptions { mode: Mode::LatestWithDeletes, ..beginning() })
        .unwrap();
    drain(&mut latest).await;
    put(&container, "a").await;
    put(&container, "a").await;
    container.delete_item("a", "a", ItemOptions::default()).await.unwrap();
    let mut operations = Vec::new();
    for page in pages(&mut all).await {
        for change in page.changes {
            let metadata = change.metadata().unwrap();
            assert!(metadata.lsn.is_some() && metadata.seconds.is_some());
            assert_eq!(change.document::<Value>().unwrap().is_none(), change.is_delete());
            operations.push(metadata.operation.unwrap());
        }
    }
    assert_eq!(operations, [Operation::Create, Operation::Replace, Operation::Delete]);
    let deleted = pages(&mut latest).await;
    let deleted: Vec<_> = deleted.into_iter().flat_map(|page| page.changes).collect();
    assert_eq!(deleted.len(), 1);
    assert!(deleted[0].is_delete());
    assert_eq!(deleted[0].metadata().unwrap().partition_key, Some(json!({"pk": "a"})));
    assert_eq!(deleted[0].id().unwrap().as_deref(), Some("a"));
}

#[tokio::test]
async fn versions_that_are_not_kept_cannot_be_read() {
    let home = Home::new();
    let container = home.container(1).await;
    let options = ChangeFeedOptions { mode: Mode::AllVersions, ..Default::default() };
    let refused = container.changes(options).unwrap().next_page().await.unwrap_err();
    assert_eq!(refused.kind(), Kind::BadRequest);
}

#[tokio::test]
async fn streams_of_pages_and_of_items() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "i", 12).await;
    let options = ChangeFeedOptions { max_item_count: Some(5), ..beginning() };
    let pages: Vec<_> =
        soon(container.changes(options.clone()).unwrap().into_pages().collect()).await;
    let pages: Vec<client::Page> = pages.into_iter().map(Result::unwrap).collect();
    assert_eq!(pages.iter().map(|page| page.changes.len()).sum::<usize>(), 12);
    assert!(pages.last().unwrap().is_caught_up);
    let items: Vec<_> =
        soon(container.changes(options.clone()).unwrap().into_items().collect()).await;
    let items: Vec<client::ItemChange> = items.into_iter().map(Result::unwrap).collect();
    assert_eq!(items.len(), 12);
    // Going on from the last continuation of any prefix gives the items behind it.
    let at = items.iter().position(|item| item.continuation.is_some()).unwrap();
    let kept = items[at].continuation.clone().unwrap();
    assert_eq!(drain(&mut container.changes(from(&kept)).unwrap()).await.len(), 12 - at - 1);

    let mut followed = container.changes(options).unwrap().follow_items();
    for _ in 0..12 {
        soon(followed.next()).await.unwrap().unwrap();
    }
    put(&container, "late").await;
    let late = soon(followed.next()).await.unwrap().unwrap();
    assert_eq!(late.change.id().unwrap().as_deref(), Some("late"));
}

#[tokio::test]
async fn a_stream_ends_after_an_error() {
    let home = Home::new();
    home.container(1).await;
    let nowhere = home.client().container("d", "nowhere");
    let pages: Vec<_> = soon(nowhere.changes(beginning()).unwrap().follow_pages().collect()).await;
    assert_eq!(pages.len(), 1);
    assert_eq!(pages[0].as_ref().unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn a_container_of_the_same_name_is_another_one() {
    let home = Home::new();
    let container = home.container(1).await;
    fill(&container, "i", 3).await;
    let mut changes = container.changes(beginning()).unwrap();
    drain(&mut changes).await;
    container.delete().await.unwrap();
    home.container(1).await;
    put(&container, "new").await;
    assert_eq!(changes.next_page().await.unwrap_err().kind(), Kind::ContainerReplaced);
    let fresh = home.client().container("d", "c");
    let mut resumed = fresh.changes(from(&changes.continuation())).unwrap();
    assert_eq!(resumed.next_page().await.unwrap_err().kind(), Kind::ContainerReplaced);
    assert_eq!(drain(&mut container.changes(beginning()).unwrap()).await, ["new"]);
}

#[tokio::test]
async fn a_single_read_and_how_far_it_is_behind() {
    let home = Home::new();
    let container = home.container(1).await;
    fill(&container, "i", 5).await;
    let scope = || FeedScope::Range("0".into());
    assert_eq!(container.lag(&scope(), None).await.unwrap().items, 5);
    let mut read = FeedRead::new(scope(), Start::Beginning);
    read.max_item_count = Some(3);
    let page = container.read_changes(&read).await.unwrap();
    assert_eq!((page.changes.len(), page.is_not_modified), (3, false));
    let lag = container.lag(&scope(), Some(&page.etag)).await.unwrap();
    assert_eq!((lag.items, lag.ranges.len()), (2, 1));
    assert_eq!(Some(lag.ranges[0].lsn), page.lsn);
    read.start = Start::After(page.etag);
    let rest = container.read_changes(&read).await.unwrap();
    assert_eq!(rest.changes.len(), 2);
    read.start = Start::After(rest.etag);
    let none = container.read_changes(&read).await.unwrap();
    assert!(none.is_not_modified && !none.has_waited);
    read.scope = FeedScope::Container;
    assert!(container.read_changes(&read).await.unwrap().is_not_modified);
}
