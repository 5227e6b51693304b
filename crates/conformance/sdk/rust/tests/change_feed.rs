//! The change feed by the pull model: starts, scopes, pages, both modes, and a server that dies.

use std::time::{Duration, SystemTime};

use astrarium_sdk_rust::{
    OwnServer, client, client_of, container, container_with, database, live, variable,
};
use azure_data_cosmos::CosmosError;
use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::feed::{ContinuationToken, FeedScope};
use azure_data_cosmos::models::{
    ChangeFeedItem, ChangeFeedOperationType, ChangeFeedPolicy, ContainerProperties,
    PartitionKeyDefinition, ThroughputProperties,
};
use azure_data_cosmos::options::{
    ChangeFeedMode, ChangeFeedOptions, ChangeFeedStartFrom, CreateContainerOptions,
    MaxItemCountHint,
};
use futures::StreamExt;
use serde_json::{Value, json};

#[allow(dead_code)]
#[path = "../../../../../examples/get-changes/rust/src/main.rs"]
mod get_changes;

/// Empty pages in a row after which all ranges have had their turn.
const QUIET_PAGES: usize = 2;

struct Read {
    changes: Vec<ChangeFeedItem<Value>>,
    sizes: Vec<usize>,
    token: ContinuationToken,
}

impl Read {
    fn ids(&self) -> Vec<&str> {
        self.changes.iter().map(|each| each.current().unwrap()["id"].as_str().unwrap()).collect()
    }

    fn sorted(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.ids().iter().map(|id| id.parse().unwrap()).collect();
        ids.sort();
        ids
    }
}

/// Reads until nothing is new.
async fn try_read(
    items: &ContainerClient,
    scope: FeedScope,
    start: ChangeFeedStartFrom,
    options: ChangeFeedOptions,
) -> Result<Read, CosmosError> {
    let mut pages = items.query_change_feed::<Value>(scope, start, Some(options)).await?;
    let (mut changes, mut sizes, mut quiet) = (Vec::new(), Vec::new(), 0);
    while quiet < QUIET_PAGES {
        let page = pages.next().await.expect("the feed has no end")?;
        quiet = if page.items().is_empty() { quiet + 1 } else { 0 };
        if quiet == 0 {
            sizes.push(page.items().len());
            changes.extend(page.into_items());
        }
    }
    Ok(Read { changes, sizes, token: pages.to_continuation_token()? })
}

async fn read(items: &ContainerClient, scope: FeedScope, start: ChangeFeedStartFrom) -> Read {
    try_read(items, scope, start, ChangeFeedOptions::default()).await.unwrap()
}

async fn go_on(items: &ContainerClient, scope: FeedScope, token: &ContinuationToken) -> Read {
    let options = ChangeFeedOptions::default().with_continuation_token(token.clone());
    try_read(items, scope, ChangeFeedStartFrom::Beginning, options).await.unwrap()
}

fn at_most(items: u32) -> ChangeFeedOptions {
    ChangeFeedOptions::default()
        .with_max_item_count(MaxItemCountHint::Limit(items.try_into().unwrap()))
}

async fn put(items: &ContainerClient, id: impl ToString, pk: impl ToString) {
    let (id, pk) = (id.to_string(), pk.to_string());
    items.upsert_item(pk.clone(), &id, json!({"id": id, "pk": pk}), None).await.unwrap();
}

/// A container of four ranges.
async fn wide(database: &DatabaseClient) -> ContainerClient {
    let properties = ContainerProperties::new("wide", PartitionKeyDefinition::from("/pk"));
    let throughput = ThroughputProperties::manual(40_000);
    let options = CreateContainerOptions::default().with_throughput(throughput);
    database.create_container(properties, Some(options)).await.unwrap();
    database.container_client("wide", None).await.unwrap()
}

fn all() -> FeedScope {
    FeedScope::full_container()
}

#[test]
fn from_the_beginning_from_now_and_from_a_continuation() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        for n in 0..3 {
            put(&items, n, "a").await;
        }
        put(&items, 0, "a").await;
        items.delete_item("a", "1", None).await.unwrap();
        let first = read(&items, all(), ChangeFeedStartFrom::Beginning).await;
        assert_eq!(first.ids(), ["2", "0"]);
        let metadata = first.changes[0].metadata().expect("an envelope");
        assert!(metadata.lsn().is_some() && metadata.operation_type().is_none());
        let now = read(&items, all(), ChangeFeedStartFrom::Now).await;
        assert!(now.changes.is_empty());
        put(&items, 9, "a").await;
        for token in [&first.token, &now.token] {
            assert_eq!(go_on(&items, all(), token).await.ids(), ["9"]);
        }
        database.delete(None).await.unwrap();
    });
}

#[test]
fn from_a_time() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        put(&items, 1, "a").await;
        std::thread::sleep(Duration::from_millis(2100));
        let moment = SystemTime::now();
        std::thread::sleep(Duration::from_millis(1100));
        put(&items, 2, "a").await;
        put(&items, 3, "a").await;
        let start = |moment: SystemTime| ChangeFeedStartFrom::PointInTime(moment.into());
        let found = try_read(&items, all(), start(moment), at_most(1)).await.unwrap();
        assert_eq!(found.ids(), ["2", "3"]);
        let earlier = read(&items, all(), start(moment - Duration::from_secs(86_400))).await;
        assert_eq!(earlier.ids(), ["1", "2", "3"]);
        put(&items, 4, "a").await;
        assert_eq!(go_on(&items, all(), &found.token).await.ids(), ["4"]);
        database.delete(None).await.unwrap();
    });
}

#[test]
fn by_key_by_range_and_in_pages() {
    live(async {
        let database = database(&client().await).await;
        let items = wide(&database).await;
        for n in 0..40 {
            put(&items, n, format!("k{}", n % 20)).await;
        }
        let scope = || FeedScope::partition("k7");
        let mine = read(&items, scope(), ChangeFeedStartFrom::Beginning).await;
        assert_eq!(mine.ids(), ["7", "27"]);
        put(&items, 47, "k7").await;
        put(&items, 48, "k8").await;
        assert_eq!(go_on(&items, scope(), &mine.token).await.ids(), ["47"]);
        let ranges = items.read_feed_ranges(None).await.unwrap();
        assert_eq!(ranges.len(), 4);
        let mut seen = Vec::new();
        for range in ranges {
            let start = ChangeFeedStartFrom::Beginning;
            let part = try_read(&items, FeedScope::range(range), start, at_most(3)).await.unwrap();
            assert!(part.sizes.iter().all(|size| *size <= 3), "{:?}", part.sizes);
            seen.extend(part.sorted());
        }
        seen.sort();
        let expected: Vec<u32> = (0..40).chain([47, 48]).collect();
        assert_eq!(seen, expected);
        let start = ChangeFeedStartFrom::Beginning;
        assert_eq!(try_read(&items, all(), start, at_most(5)).await.unwrap().sorted(), expected);
        database.delete(None).await.unwrap();
    });
}

#[test]
fn all_versions_and_deletes() {
    live(async {
        let database = database(&client().await).await;
        let policy = ChangeFeedPolicy::default().with_retention_duration(Duration::from_secs(600));
        let properties = ContainerProperties::new("kept", PartitionKeyDefinition::from("/pk"))
            .with_change_feed_policy(policy);
        let items = container_with(&database, properties).await;
        let mode = || ChangeFeedOptions::default().with_mode(ChangeFeedMode::AllVersionsAndDeletes);
        let now = try_read(&items, all(), ChangeFeedStartFrom::Now, mode()).await.unwrap();
        assert!(now.changes.is_empty());
        put(&items, 1, "a").await;
        put(&items, 1, "a").await;
        items.delete_item("a", "1", None).await.unwrap();
        let options = mode().with_continuation_token(now.token);
        let found = try_read(&items, all(), ChangeFeedStartFrom::Now, options).await.unwrap();
        use ChangeFeedOperationType::{Create, Delete, Replace};
        let operations: Vec<_> = found.changes.iter().map(|each| each.operation_type()).collect();
        assert_eq!(operations, [Some(Create), Some(Replace), Some(Delete)]);
        let of = |n: usize| found.changes[n].metadata().unwrap();
        assert_eq!(of(1).previous_image_lsn(), of(0).lsn());
        assert_eq!(of(2).id(), Some("1"));
        assert_eq!(of(2).partition_key(), Some(&json!({"pk": "a"})));
        assert!(of(0).conflict_resolution_timestamp().is_some());
        assert!(found.changes[2].current().is_none());
        database.delete(None).await.unwrap();
    });
}

#[test]
fn a_container_without_history_says_so() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        let mode = ChangeFeedOptions::default().with_mode(ChangeFeedMode::AllVersionsAndDeletes);
        let refused = try_read(&items, all(), ChangeFeedStartFrom::Now, mode).await;
        assert_eq!(astrarium_sdk_rust::status(refused), 400);
        database.delete(None).await.unwrap();
    });
}

#[test]
fn the_server_is_killed_in_the_middle() {
    live(async {
        let mut server = OwnServer::start();
        let database = database(&client_of(&server.endpoint).await).await;
        let items = container(&database).await;
        for n in 0..10 {
            put(&items, n, "a").await;
        }
        let start = ChangeFeedStartFrom::Beginning;
        let mut pages =
            items.query_change_feed::<Value>(all(), start, Some(at_most(4))).await.unwrap();
        let mut seen = Vec::new();
        for n in 0..3 {
            if n == 1 {
                server.crash();
            }
            let page = pages.next().await.expect("a page").expect("a good one");
            let ids = page.items().iter().map(|each| each.current().unwrap()["id"].to_string());
            seen.extend(ids);
        }
        let expected: Vec<String> = (0..10).map(|n| format!("\"{n}\"")).collect();
        assert_eq!(seen, expected);
        let token = pages.to_continuation_token().unwrap();
        assert!(go_on(&items, all(), &token).await.changes.is_empty());
    });
}

#[test]
fn the_example_of_the_article() {
    live(async {
        let (endpoint, key) = (variable("ASTRARIUM_ENDPOINT"), variable("ASTRARIUM_KEY"));
        let changed = get_changes::run(&endpoint, &key).await.unwrap();
        assert_eq!(changed, ["new-1", "new-2"]);
    });
}

/// Raises the throughput of a container with one range, and waits for it to have four.
async fn split(database: &DatabaseClient, items: &ContainerClient) {
    let more = ThroughputProperties::manual(40_000);
    items.begin_replace_throughput(more, None).await.unwrap().await.unwrap();
    loop {
        // A client of its own: others remember the ranges that they have seen.
        let fresh = client().await.database_client(database.id());
        let fresh = fresh.container_client("split", None).await.unwrap();
        if fresh.read_feed_ranges(None).await.unwrap().len() == 4 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_split_in_the_middle_of_an_iteration() {
    live(async {
        let database = database(&client().await).await;
        let properties = ContainerProperties::new("split", PartitionKeyDefinition::from("/pk"));
        let options =
            CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(400));
        database.create_container(properties, Some(options)).await.unwrap();
        let items = database.container_client("split", None).await.unwrap();
        for n in 0..40 {
            put(&items, n, format!("k{}", n % 10)).await;
        }
        let start = ChangeFeedStartFrom::Beginning;
        let pages = items.query_change_feed::<Value>(all(), start, Some(at_most(5))).await;
        let mut pages = pages.unwrap();
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.extend(pages.next().await.unwrap().unwrap().into_items());
        }
        assert_eq!(seen.len(), 10);
        let token = pages.to_continuation_token().unwrap();
        split(&database, &items).await;
        for n in 40..50 {
            put(&items, n, format!("k{}", n % 10)).await;
        }
        let mut quiet = 0;
        // Each of the four ranges may have its turn with nothing to say.
        while quiet < 5 {
            let page = pages.next().await.unwrap().unwrap();
            quiet = if page.items().is_empty() { quiet + 1 } else { 0 };
            seen.extend(page.into_items());
        }
        let id = |each: &ChangeFeedItem<Value>| -> u32 {
            each.current().unwrap()["id"].as_str().unwrap().parse().unwrap()
        };
        let order: Vec<u32> = seen.iter().map(id).collect();
        for key in 0..10 {
            assert!(order.iter().filter(|id| **id % 10 == key).is_sorted(), "{order:?}");
        }
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!(sorted, (0..50).collect::<Vec<u32>>());
        assert_eq!(go_on(&items, all(), &token).await.sorted(), (10..50).collect::<Vec<u32>>());
        database.delete(None).await.unwrap();
    });
}
