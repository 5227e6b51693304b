//! Transactional batches.

use astrarium_sdk_rust::{client, container, database, live, status};
use azure_data_cosmos::models::TransactionalBatch;
use serde_json::{Value, json};

#[test]
fn a_batch_is_done_as_a_whole_or_not_at_all() {
    live(async {
        let database = database(&client().await).await;
        let items = container(&database).await;
        let batch = TransactionalBatch::new("a")
            .create_item(json!({"id": "1", "pk": "a", "n": 1}))
            .unwrap()
            .upsert_item(json!({"id": "2", "pk": "a"}), None)
            .unwrap()
            .replace_item("1", json!({"id": "1", "pk": "a", "n": 2}), None)
            .unwrap()
            .read_item("1", None)
            .delete_item("2", None);
        let done = items.execute_transactional_batch(batch, None).await.unwrap();
        let done = done.into_model().unwrap();
        let codes: Vec<u16> = done.results().iter().map(|one| one.status_code()).collect();
        assert_eq!(codes, [201, 201, 200, 200, 204]);
        let read: Value = done.results()[3].into_model().unwrap().unwrap();
        assert_eq!(read["n"], 2);
        assert_eq!(done.results()[3].etag(), read["_etag"].as_str());

        let failing = TransactionalBatch::new("a")
            .create_item(json!({"id": "3", "pk": "a"}))
            .unwrap()
            .create_item(json!({"id": "1", "pk": "a"}))
            .unwrap();
        let failed = items.execute_transactional_batch(failing, None).await.unwrap();
        let failed = failed.into_model().unwrap();
        let codes: Vec<u16> = failed.results().iter().map(|one| one.status_code()).collect();
        assert_eq!(codes, [424, 409]);
        assert_eq!(status(items.read_item("a", "3", None).await), 404);
        database.delete(None).await.unwrap();
    });
}
