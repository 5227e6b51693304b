//! Databases, containers, throughput, feeds, sessions and restarts.

use astrarium_sdk_rust::{
    OwnServer, client, client_of, container, container_with, database, live, own, status,
};
use azure_data_cosmos::models::{
    ContainerProperties, PartitionKeyDefinition, ThroughputProperties,
};
use azure_data_cosmos::options::{CreateContainerOptions, MaxItemCountHint, QueryOptions};
use azure_data_cosmos::{FeedScope, Query};
use futures::TryStreamExt;
use serde_json::{Value, json};

fn properties(id: &'static str) -> ContainerProperties {
    ContainerProperties::new(id, PartitionKeyDefinition::from("/pk"))
}

#[test]
fn databases_and_containers_come_and_go() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let name = database.name().expect("made by name").to_owned();
        assert_eq!(status(client.create_database(&name, None).await), 409);
        assert_eq!(
            database.read(None).await.unwrap().into_model().unwrap().id.as_deref(),
            Some(name.as_str())
        );
        let made = container(&database).await;
        assert_eq!(made.read(None).await.unwrap().into_model().unwrap().id, "items");
        assert_eq!(status(database.create_container(properties("items"), None).await), 409);
        made.delete(None).await.unwrap();
        assert_eq!(status(made.read(None).await), 404);
        database.delete(None).await.unwrap();
        assert_eq!(status(database.read(None).await), 404);
    });
}

#[test]
fn throughput_is_given_read_and_replaced() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        for (id, given) in [
            ("m", ThroughputProperties::manual(500)),
            ("a", ThroughputProperties::autoscale(4000, None)),
        ] {
            let options = CreateContainerOptions::default().with_throughput(given);
            database.create_container(properties(id), Some(options)).await.unwrap();
        }
        let manual = database.container_client("m", None).await.unwrap();
        let read = manual.read_throughput(None).await.unwrap().expect("an offer");
        assert_eq!(read.throughput(), Some(500));
        manual
            .begin_replace_throughput(ThroughputProperties::manual(700), None)
            .await
            .unwrap()
            .await
            .unwrap();
        let read = manual.read_throughput(None).await.unwrap().expect("an offer");
        assert_eq!(read.throughput(), Some(700));
        let autoscale = database.container_client("a", None).await.unwrap();
        let read = autoscale.read_throughput(None).await.unwrap().expect("an offer");
        assert_eq!(read.autoscale_maximum(), Some(4000));
        database.delete(None).await.unwrap();
    });
}

#[test]
fn feeds_come_in_pages() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let items = container(&database).await;
        for n in 0..25 {
            let id = n.to_string();
            items
                .create_item("a", &id, json!({"id": id, "pk": "a", "x": n % 5}), None)
                .await
                .unwrap();
        }
        let options = QueryOptions::default()
            .with_max_item_count(MaxItemCountHint::Limit(10.try_into().unwrap()));
        let found = items
            .query_items::<Value>("SELECT * FROM c", FeedScope::partition("a"), Some(options))
            .await
            .unwrap();
        let pages: Vec<_> = found.into_pages().try_collect().await.unwrap();
        let sizes: Vec<usize> =
            pages.iter().map(|page| page.items().len()).filter(|size| *size > 0).collect();
        assert_eq!(sizes, [10, 10, 5]);
        let query = Query::from("SELECT * FROM c WHERE c.x = @v").with_parameter("@v", 3).unwrap();
        let found =
            items.query_items::<Value>(query, FeedScope::partition("a"), None).await.unwrap();
        assert_eq!(found.try_collect::<Vec<_>>().await.unwrap().len(), 5);
        database.delete(None).await.unwrap();
    });
}

#[test]
fn a_container_of_many_ranges_finds_every_key() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let options =
            CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(40000));
        database.create_container(properties("wide"), Some(options)).await.unwrap();
        let items = database.container_client("wide", None).await.unwrap();
        assert_eq!(items.read_feed_ranges(None).await.unwrap().len(), 4);
        for n in 0..60 {
            let (id, key) = (n.to_string(), format!("k{n}"));
            items.create_item(key.clone(), &id, json!({"id": id, "pk": key}), None).await.unwrap();
            let read: Value =
                items.read_item(key.clone(), &id, None).await.unwrap().into_model().unwrap();
            assert_eq!(own(read), json!({"id": id, "pk": key}));
        }
        database.delete(None).await.unwrap();
    });
}

#[test]
fn session_tokens_grow() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let items = container_with(&database, properties("s")).await;
        let mut before = 0;
        for n in 0..5 {
            let answer = items
                .upsert_item("a", "1", json!({"id": "1", "pk": "a", "n": n}), None)
                .await
                .unwrap();
            let token = answer.headers().session_token().expect("a session token").to_string();
            let lsn: u64 =
                token.rsplit('#').next().and_then(|lsn| lsn.parse().ok()).expect("an lsn");
            assert!(lsn > before);
            before = lsn;
            let read: Value = items.read_item("a", "1", None).await.unwrap().into_model().unwrap();
            assert_eq!(read["n"], n);
        }
        database.delete(None).await.unwrap();
    });
}

#[test]
fn a_stale_client_learns_of_a_new_container_under_the_old_name() {
    live(async {
        let client = client().await;
        let database = database(&client).await;
        let stale = container(&database).await;
        stale.create_item("a", "1", json!({"id": "1", "pk": "a"}), None).await.unwrap();
        let other = astrarium_sdk_rust::client()
            .await
            .database_client(database.name().expect("made by name"));
        other.container_client("items", None).await.unwrap().delete(None).await.unwrap();
        let fresh = container(&other).await;
        fresh.create_item("a", "2", json!({"id": "2", "pk": "a"}), None).await.unwrap();
        assert_eq!(status(stale.read_item("a", "1", None).await), 404);
        database.delete(None).await.unwrap();
    });
}

#[test]
fn the_same_client_goes_on_after_the_server_was_killed() {
    live(async {
        let mut server = OwnServer::start();
        let client = client_of(&server.endpoint).await;
        let database = database(&client).await;
        let items = container(&database).await;
        for n in 0..30 {
            let id = n.to_string();
            items.create_item("a", &id, json!({"id": id, "pk": "a", "n": n}), None).await.unwrap();
        }
        for _ in 0..3 {
            server.crash();
            for n in 0..30 {
                let read: Value =
                    items.read_item("a", &n.to_string(), None).await.unwrap().into_model().unwrap();
                assert_eq!(read["n"], n);
            }
        }
    });
}
