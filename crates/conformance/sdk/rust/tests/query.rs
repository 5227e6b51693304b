//! Queries: this SDK plans most of them itself, and asks each range for its part.

use astrarium_sdk_rust::{client, container, container_with, database, live, status};
use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::models::{
    ContainerProperties, PartitionKeyDefinition, ThroughputProperties,
};
use azure_data_cosmos::options::{CreateContainerOptions, MaxItemCountHint, QueryOptions};
use azure_data_cosmos::{CosmosError, FeedScope, Query};
use futures::TryStreamExt;
use serde_json::{Value, json};

async fn fill(items: &ContainerClient, count: usize) {
    for n in 0..count {
        let (id, key) = (n.to_string(), format!("k{}", n % 6));
        let group = ["x", "y", "z"][n % 3];
        let item = json!({"id": id, "pk": key, "n": n, "grp": group,
            "tags": [{"name": format!("t{}", n % 4), "amount": n}]});
        items.create_item(key, &id, item, None).await.unwrap();
    }
}

async fn try_ask(
    items: &ContainerClient,
    query: impl Into<Query>,
    scope: FeedScope,
) -> Result<Vec<Value>, CosmosError> {
    items.query_items::<Value>(query, scope, None).await?.try_collect().await
}

async fn ask(items: &ContainerClient, query: impl Into<Query>) -> Vec<Value> {
    try_ask(items, query, FeedScope::full_container()).await.unwrap()
}

/// A container of several ranges.
async fn wide(database: &DatabaseClient) -> ContainerClient {
    let properties = ContainerProperties::new("wide", PartitionKeyDefinition::from("/pk"));
    let throughput = ThroughputProperties::manual(30_000);
    let options = CreateContainerOptions::default().with_throughput(throughput);
    database.create_container(properties, Some(options)).await.unwrap();
    database.container_client("wide", None).await.unwrap()
}

fn numbers(range: impl Iterator<Item = u64>) -> Vec<Value> {
    range.map(Value::from).collect()
}

#[test]
fn one_partition_key_is_asked_as_it_is() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let items = container(&database).await;
        fill(&items, 30).await;
        let found = |text: &str| try_ask(&items, text.to_owned(), FeedScope::partition("k2"));
        let ordered = found("SELECT VALUE c.n FROM c WHERE c.n > 10 ORDER BY c.n").await.unwrap();
        assert_eq!(ordered, numbers([14, 20, 26].into_iter()));
        assert_eq!(found("SELECT VALUE COUNT(1) FROM c").await.unwrap(), [json!(5)]);
        let groups = found("SELECT c.grp, COUNT(1) AS n FROM c GROUP BY c.grp").await.unwrap();
        assert_eq!(groups, [json!({"grp": "z", "n": 5})]);
        let joined =
            found("SELECT t.name FROM c JOIN t IN c.tags WHERE t.amount = 8").await.unwrap();
        assert_eq!(joined, [json!({"name": "t0"})]);
        let query = Query::from("SELECT VALUE c.id FROM c WHERE c.n = @n");
        let query = query.with_parameter("@n", 20).unwrap();
        assert_eq!(try_ask(&items, query, FeedScope::partition("k2")).await.unwrap(), ["20"]);
        database.delete(None).await.unwrap();
    });
}

#[test]
fn all_ranges_together_give_the_whole_answer() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        for items in [container(&database).await, wide(&database).await] {
            fill(&items, 30).await;
            let descending = ask(&items, "SELECT VALUE c.n FROM c ORDER BY c.n DESC").await;
            assert_eq!(descending, numbers((0..30).rev()));
            let top = ask(&items, "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n").await;
            assert_eq!(top, numbers(0..3));
            let window =
                ask(&items, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 5").await;
            assert_eq!(window, numbers(10..15));
            let mut filtered = ask(&items, "SELECT VALUE c.n FROM c WHERE c.grp = 'x'").await;
            filtered.sort_by_key(Value::as_u64);
            assert_eq!(filtered, numbers((0..30).step_by(3)));
            let whole = ask(&items, "SELECT * FROM c ORDER BY c.n").await;
            assert_eq!(whole.len(), 30);
            assert!(whole.iter().all(|item| item["_etag"].is_string()));
        }
        database.delete(None).await.unwrap();
    });
}

#[test]
fn pages_give_every_row_once() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let items = wide(&database).await;
        fill(&items, 40).await;
        let options = QueryOptions::default()
            .with_max_item_count(MaxItemCountHint::Limit(7.try_into().unwrap()));
        let text = "SELECT VALUE c.n FROM c WHERE c.n >= 5";
        let scope = FeedScope::full_container();
        let found = items.query_items::<Value>(text, scope, Some(options)).await.unwrap();
        let pages: Vec<_> = found.into_pages().try_collect().await.unwrap();
        assert!(pages.len() > 5);
        let mut rows: Vec<Value> = pages.iter().flat_map(|page| page.items().to_vec()).collect();
        rows.sort_by_key(Value::as_u64);
        assert_eq!(rows, numbers(5..40));
        database.delete(None).await.unwrap();
    });
}

#[test]
fn a_feed_range_gives_its_own_rows() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let items = wide(&database).await;
        fill(&items, 30).await;
        let mut rows = Vec::new();
        for range in items.read_feed_ranges(None).await.unwrap() {
            let text = "SELECT VALUE c.n FROM c WHERE c.n < 20";
            rows.extend(try_ask(&items, text, FeedScope::range(range)).await.unwrap());
        }
        rows.sort_by_key(Value::as_u64);
        assert_eq!(rows, numbers(0..20));
        database.delete(None).await.unwrap();
    });
}

#[test]
fn hierarchical_keys() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let key = PartitionKeyDefinition::from(("/tenant", "/user"));
        let items = container_with(&database, ContainerProperties::new("h", key)).await;
        for n in 0..12 {
            let (id, tenant, user) = (n.to_string(), format!("t{}", n % 2), format!("u{}", n % 3));
            let item = json!({"id": id, "tenant": tenant, "user": user, "n": n});
            items.create_item((tenant, user), &id, item, None).await.unwrap();
        }
        let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
        let found = try_ask(&items, text, FeedScope::partition(("t0", "u1"))).await.unwrap();
        assert_eq!(found, numbers([4, 10].into_iter()));
        assert_eq!(ask(&items, text).await, numbers(0..12));
        database.delete(None).await.unwrap();
    });
}

#[test]
fn what_is_wrong_is_said() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let items = container(&database).await;
        fill(&items, 3).await;
        for text in ["SELECT * FROM c WHERE c.n = = 1", "SELECT * FROM c ORDER BY c.n, c.grp"] {
            assert_eq!(status(try_ask(&items, text, FeedScope::partition("k0")).await), 400);
        }
        database.delete(None).await.unwrap();
    });
}
