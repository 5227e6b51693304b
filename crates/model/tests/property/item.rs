//! What is stored of an item is what was sent, with our system properties in place of theirs.

use astrarium_model::item::{Item, Stamp};
use astrarium_model::json::Document;
use astrarium_model::rid::{ContainerRid, ItemRid};
use astrarium_model::token::Etag;
use serde_json::{Value, json};

use crate::chance::Chance;

#[test]
fn stored_items_have_the_value_that_was_sent() {
    let mut chance = Chance(21);
    for round in 0..10_000 {
        let mut value = chance.object(3);
        for name in ["_etag", "_lsn", "_self", "_attachments"] {
            if chance.below(3) == 0 {
                value.insert(name.into(), chance.value(1));
            }
        }
        value.insert("id".into(), json!(format!("item {round}")));
        let mut text = String::new();
        chance.spell(&Value::Object(value.clone()), &mut text);

        let etag = Etag::new(chance.next(), 1, 2, 3);
        let container = ContainerRid { database: 1, container: 1 };
        let rid = ItemRid { container, ordinal: chance.next() >> 4 };
        let stamp = Stamp { rid, container: "dbs/a/", etag, ts: round };
        let mut stored = Vec::new();
        let item = Item::parse(text.as_bytes()).unwrap();
        item.write(&stamp, &mut stored).unwrap();

        value.remove("_lsn");
        value.insert("_rid".into(), json!(rid.to_string()));
        value.insert("_self".into(), json!(format!("dbs/a/docs/{rid}/")));
        value.insert("_etag".into(), json!(etag.to_string()));
        value.insert("_attachments".into(), json!("attachments/"));
        value.insert("_ts".into(), json!(round));
        let found: Value = serde_json::from_slice(&stored).unwrap();
        assert_eq!(found, Value::Object(value));

        let stored = Document::parse(&stored).unwrap();
        assert!(stored.members().iter().all(|member| !stored.duplicate(&member.key)));
        for member in item.document.members().iter().filter(|member| !member.key.starts_with('_')) {
            assert_eq!(stored.get(&member.key), Some(member.value), "bytes as sent");
        }
    }
}
