//! Items from their making to their end, with conditions, keys of every kind, and odd bodies.
//!
//! Bodies travel as Cosmos's binary JSON and connections are HTTP/2 in the clear: both are what
//! this SDK does unless told otherwise.

use astrarium_sdk_rust::{
    client, container, container_with, database, etag, if_match, live, own, status, with_body,
};
use azure_data_cosmos::PartitionKey;
use azure_data_cosmos::models::{
    ContainerProperties, PartitionKeyDefinition, PartitionKeyValue, UniqueKey, UniqueKeyPolicy,
};
use azure_data_cosmos::options::{ItemReadOptions, Precondition};
use serde_json::{Value, json};

#[test]
fn items_come_and_go() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        let first = json!({"id": "1", "pk": "a", "n": 1});
        let made: Value = items
            .create_item("a", "1", &first, Some(with_body()))
            .await
            .unwrap()
            .into_model()
            .unwrap();
        assert_eq!(own(made.clone()), first);
        let read: Value = items.read_item("a", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(read, made);
        assert_eq!(status(items.create_item("a", "1", &first, None).await), 409);
        let second = json!({"id": "1", "pk": "a", "n": 2});
        items.replace_item("a", "1", &second, None).await.unwrap();
        let third = json!({"id": "1", "pk": "a", "n": 3});
        items.upsert_item("a", "1", &third, None).await.unwrap();
        items.upsert_item("a", "2", json!({"id": "2", "pk": "a"}), None).await.unwrap();
        let read: Value = items.read_item("a", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(own(read), third);
        items.delete_item("a", "1", None).await.unwrap();
        assert_eq!(status(items.read_item("a", "1", None).await), 404);
        assert_eq!(status(items.delete_item("a", "1", None).await), 404);
        assert_eq!(status(items.replace_item("a", "1", &first, None).await), 404);
        database.delete(None).await.unwrap();
    });
}

#[test]
fn a_write_goes_through_with_the_current_etag_only() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        let body = json!({"id": "1", "pk": "a"});
        let old = etag(&items.create_item("a", "1", &body, None).await.unwrap());
        let new = etag(&items.replace_item("a", "1", &body, Some(if_match(&old))).await.unwrap());
        assert_ne!(old, new);
        assert_eq!(status(items.replace_item("a", "1", &body, Some(if_match(&old))).await), 412);
        assert_eq!(status(items.delete_item("a", "1", Some(if_match(&old))).await), 412);
        let unchanged = ItemReadOptions::default()
            .with_precondition(Precondition::IfNoneMatch(new.clone().into()));
        let answer = items.read_item("a", "1", Some(unchanged)).await;
        let code = answer.map_or_else(|error| error.status(), |response| response.status());
        assert_eq!(u16::from(code.status_code()), 304);
        items.delete_item("a", "1", Some(if_match(&new))).await.unwrap();
        database.delete(None).await.unwrap();
    });
}

#[test]
fn keys_of_every_type() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        let keys = [
            (PartitionKey::from("text"), json!("text")),
            (PartitionKey::from(""), json!("")),
            (PartitionKey::from("é日本🚀"), json!("é日本🚀")),
            (PartitionKey::from(5), json!(5)),
            (PartitionKey::from(PartitionKeyValue::try_from(-1.5).unwrap()), json!(-1.5)),
            (PartitionKey::from(true), json!(true)),
            (PartitionKey::from(PartitionKey::NULL), Value::Null),
        ];
        for (key, value) in keys {
            let body = json!({"id": "1", "pk": value});
            items.create_item(key.clone(), "1", &body, None).await.unwrap();
            let read: Value =
                items.read_item(key.clone(), "1", None).await.unwrap().into_model().unwrap();
            assert_eq!(own(read), body);
        }
        let missing = PartitionKey::from(PartitionKey::UNDEFINED);
        items.create_item(missing.clone(), "1", json!({"id": "1"}), None).await.unwrap();
        let read: Value = items.read_item(missing, "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(own(read), json!({"id": "1"}));
        database.delete(None).await.unwrap();
    });
}

#[test]
fn hierarchical_keys() {
    live(async {
        let database = database(&client().await).await;
        let key = PartitionKeyDefinition::from(("/tenant", "/user", "/session"));
        let items = container_with(&database, ContainerProperties::new("levels", key)).await;
        let body = json!({"id": "1", "tenant": "t", "user": "u", "session": "s"});
        items.create_item(("t", "u", "s"), "1", &body, None).await.unwrap();
        let read: Value =
            items.read_item(("t", "u", "s"), "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(own(read), body);
        assert_eq!(status(items.read_item(("t", "u", "x"), "1", None).await), 404);
        items.delete_item(("t", "u", "s"), "1", None).await.unwrap();
        database.delete(None).await.unwrap();
    });
}

#[test]
fn odd_ids_and_bodies_come_back_as_sent() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        let text: String = (0..0x250)
            .chain([0x2028, 0xfffd, 0x1f600, 0x10ffff])
            .filter_map(char::from_u32)
            .collect();
        for id in ["a b+é%", "日本語", "🚀", "'quoted'", "a&b=c", "%20"] {
            let body = json!({
                "z": [0, -1, 31, 32, 1.5, 1e300, 5e-324, i64::MAX, i64::MIN, u64::MAX],
                "id": id, "pk": "a", "text": text, "deep": {"list": [[], {}, null, true, false, ""]},
            });
            items.create_item("a", id, &body, None).await.unwrap();
            let read: Value = items.read_item("a", id, None).await.unwrap().into_model().unwrap();
            assert_eq!(own(read), body, "{id}");
        }
        database.delete(None).await.unwrap();
    });
}

#[test]
fn large_items() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        let body = json!({"id": "1", "pk": "a", "text": "x".repeat(2_000_000)});
        items.create_item("a", "1", &body, None).await.unwrap();
        let read: Value = items.read_item("a", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(own(read), body);
        let larger = json!({"id": "2", "pk": "a", "text": "x".repeat(2_100_000)});
        assert_eq!(status(items.create_item("a", "2", &larger, None).await), 413);
        assert_eq!(status(items.read_item("a", "2", None).await), 404);
        database.delete(None).await.unwrap();
    });
}

#[test]
fn unique_keys_hold_within_a_partition() {
    live(async {
        let database = database(&client().await).await;
        let policy =
            UniqueKeyPolicy::default().with_unique_key(UniqueKey::default().with_path("/email"));
        let properties = ContainerProperties::new("u", PartitionKeyDefinition::from("/pk"))
            .with_unique_key_policy(policy);
        let items = container_with(&database, properties).await;
        items
            .create_item("a", "1", json!({"id": "1", "pk": "a", "email": "x"}), None)
            .await
            .unwrap();
        items
            .create_item("b", "2", json!({"id": "2", "pk": "b", "email": "x"}), None)
            .await
            .unwrap();
        let clash =
            items.create_item("a", "3", json!({"id": "3", "pk": "a", "email": "x"}), None).await;
        assert_eq!(status(clash), 409);
        database.delete(None).await.unwrap();
    });
}
