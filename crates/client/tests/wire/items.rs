//! Items, databases and containers.

use client::{Condition, ItemOptions, Kind, PartitionKey, Throughput, Typed};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Home, client_of};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: String,
    pk: String,
    total: u32,
}

fn order(total: u32) -> Order {
    Order { id: "1".into(), pk: "a".into(), total }
}

fn any() -> ItemOptions {
    ItemOptions::default()
}

#[tokio::test]
async fn an_item_through_its_life() {
    let home = Home::new();
    let container = home.container(1).await;
    let created = container.create_item("a", Typed(&order(1)), any()).await.unwrap();
    assert_eq!(created.status(), 201);
    assert_eq!(created.parse::<Order>().unwrap(), order(1));
    assert!(created.request_charge().unwrap() > 0.0);
    let again = container.create_item("a", Typed(&order(2)), any()).await.unwrap_err();
    assert_eq!((again.kind(), again.attempts()), (Kind::Conflict, 1));

    let etag = created.etag().unwrap().to_owned();
    let replaced = container
        .replace_item("a", "1", Typed(&order(2)), ItemOptions::if_match(&etag))
        .await
        .unwrap();
    assert_ne!(replaced.etag().unwrap(), etag);
    let stale =
        container.replace_item("a", "1", Typed(&order(3)), ItemOptions::if_match(&etag)).await;
    assert_eq!(stale.unwrap_err().kind(), Kind::PreconditionFailed);

    let raw = r#"{"id":"1","pk":"a","total":4.50}"#;
    let minimal = ItemOptions { without_content: true, ..any() };
    let upserted = container.upsert_item("a", raw, minimal).await.unwrap();
    assert!(upserted.bytes().is_empty());
    let read = container.read_item("a", "1", any()).await.unwrap();
    assert!(String::from_utf8_lossy(read.bytes()).contains(r#""total":4.50"#));
    let unless_new = Condition::IfNoneMatch(read.etag().unwrap().to_owned());
    let unchanged = container
        .read_item("a", "1", ItemOptions { condition: unless_new, ..any() })
        .await
        .unwrap();
    assert_eq!((unchanged.status(), unchanged.bytes().len()), (304, 0));

    let stale = container.delete_item("a", "1", ItemOptions::if_match(&etag)).await;
    assert_eq!(stale.unwrap_err().kind(), Kind::PreconditionFailed);
    container.delete_item("a", "1", any()).await.unwrap();
    let gone = container.read_item("a", "1", any()).await.unwrap_err();
    assert_eq!((gone.kind(), gone.status(), gone.attempts()), (Kind::NotFound, Some(404), 1));
    assert!(gone.activity_id().is_some());
}

#[tokio::test]
async fn names_and_keys_of_all_kinds() {
    let home = Home::new();
    let client = home.client();
    let odd = "a b+é%&=😀";
    client.create_database(odd, Throughput::Unsaid).await.unwrap();
    let database = client.database(odd);
    let container = database.ensure_container("c d", "/pk", Throughput::Unsaid).await.unwrap();
    let keys: Vec<(PartitionKey, Value)> = vec![
        ("é\"\\".into(), json!("é\"\\")),
        (5.into(), json!(5)),
        (1.5.into(), json!(1.5)),
        (true.into(), json!(true)),
        (Value::Null.into(), Value::Null),
    ];
    for (key, value) in keys {
        let item = json!({"id": odd, "pk": value});
        container.create_item(key.clone(), item, any()).await.unwrap();
        let read: Value = container.read_item(key, odd, any()).await.unwrap().parse().unwrap();
        assert_eq!(read["pk"], value);
    }
    container.create_item(PartitionKey::missing(), r#"{"id":"none"}"#, any()).await.unwrap();
    let key = PartitionKey::missing();
    assert_eq!(container.read_item(key, "none", any()).await.unwrap().status(), 200);
    assert_eq!(client.databases().await.unwrap(), [odd]);
    assert_eq!(database.containers().await.unwrap(), ["c d"]);
    database.delete().await.unwrap();
    assert_eq!(database.read().await.unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn hierarchical_keys() {
    let home = Home::new();
    let client = home.client();
    client.create_database("d", Throughput::Unsaid).await.unwrap();
    let definition = json!({"id": "c",
        "partitionKey": {"paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2}});
    client.database("d").create_container(definition, Throughput::Autoscale(4000)).await.unwrap();
    let container = client.container("d", "c");
    assert_eq!(container.read().await.unwrap().key_paths, ["/tenant", "/user"]);
    let key = PartitionKey::levels(["t1", "u1"]);
    container
        .create_item(key.clone(), r#"{"id":"1","tenant":"t1","user":"u1"}"#, any())
        .await
        .unwrap();
    assert_eq!(container.read_item(key, "1", any()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn containers_are_made_once() {
    let home = Home::new();
    let client = home.client();
    assert!(client.ensure_database("d", Throughput::Unsaid).await.unwrap());
    assert!(!client.ensure_database("d", Throughput::Unsaid).await.unwrap());
    let database = client.database("d");
    let container = database.ensure_container("c", "/pk", Throughput::Unsaid).await.unwrap();
    let rid = container.read().await.unwrap().rid;
    let again = database.ensure_container("c", "/pk", Throughput::Unsaid).await.unwrap();
    assert_eq!(again.read().await.unwrap().rid, rid);
    let other = database.ensure_container("c", "/id", Throughput::Unsaid).await.unwrap_err();
    assert_eq!(other.kind(), Kind::Setting);
    assert!(other.message().contains("partitioned by /pk"), "{other}");
    let mut definition = container.read().await.unwrap().definition;
    definition["defaultTtl"] = json!(60);
    container.replace(definition).await.unwrap();
    assert_eq!(container.read().await.unwrap().definition["defaultTtl"], 60);
    container.delete().await.unwrap();
    assert_eq!(container.read().await.unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_here() {
    let home = Home::new();
    let container = home.container(1).await;
    let wrong = container.read_item("a", "a/b", any()).await.unwrap_err();
    assert_eq!((wrong.kind(), wrong.attempts()), (Kind::Setting, 0));
    let wrong = home.client().container("d", "").read().await.unwrap_err();
    assert_eq!(wrong.kind(), Kind::Setting);
    let wrong = container.read_item("a", "1", ItemOptions::if_match("a\nb")).await.unwrap_err();
    assert_eq!(wrong.kind(), Kind::Setting);
}

#[tokio::test]
async fn a_resource_token_opens_what_it_is_for() {
    let home = Home::new();
    let container = home.container(1).await;
    container.create_item("a", Typed(&order(1)), any()).await.unwrap();
    let mut wire = conformance::wire::Wire::new(&home.server.endpoint);
    wire.send("POST", "/dbs/d/users", &[], br#"{"id":"u"}"#).unwrap();
    let permission = br#"{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"}"#;
    let answer = wire.send("POST", "/dbs/d/users/u/permissions", &[], permission).unwrap();
    let permission: Value = serde_json::from_slice(&answer.body).unwrap();
    let token = client::Credential::resource_token(permission["_token"].as_str().unwrap()).unwrap();
    let account = client::Account::new(&home.server.endpoint, token).unwrap();
    let limited = client::Client::new(account, client::Options::default()).unwrap();
    let limited = limited.container("d", "c");
    assert_eq!(
        limited.read_item("a", "1", any()).await.unwrap().parse::<Order>().unwrap(),
        order(1)
    );
    let refused = limited.delete_item("a", "1", any()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.attempts()), (Kind::Forbidden, 1));
}

#[tokio::test]
async fn sessions_are_kept_apart_from_those_of_a_container_of_the_same_name() {
    let home = Home::new();
    let container = home.container(1).await;
    for total in 0..5 {
        container.upsert_item("a", Typed(&order(total)), any()).await.unwrap();
    }
    let future = ItemOptions { session_token: Some("0:-1#99999".into()), ..any() };
    let impatient = client::Options { retry: client::Retry::NONE, ..client::Options::default() };
    let ahead = client_of(&home.server.endpoint, impatient).container("d", "c");
    let behind = ahead.read_item("a", "1", future).await.unwrap_err();
    assert_eq!(behind.kind(), Kind::SessionNotAvailable);
    // The new container is far behind the tokens of the old one.
    home.client().container("d", "c").delete().await.unwrap();
    home.container(1).await;
    container.create_item("a", Typed(&order(9)), any()).await.unwrap();
    let read = container.read_item("a", "1", any()).await.unwrap();
    assert_eq!(read.parse::<Order>().unwrap(), order(9));
}
