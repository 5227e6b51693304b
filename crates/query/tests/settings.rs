//! What a container says about its items: computed properties, metrics of vectors.

extern crate astrarium_query as query;

mod support;

use query::Statement;
use query::world::{Settings, VectorSetting};
use support::memory::Memory;

fn settings() -> Settings {
    let computed = [
        ("lower", "SELECT VALUE LOWER(c.name) FROM c"),
        ("name", "SELECT VALUE CONCAT('<', r.name, '>') FROM r"),
    ];
    Settings {
        computed: computed.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec(),
        vectors: vec![VectorSetting {
            path: "/v".to_owned(),
            distance: "euclidean".to_owned(),
            dimensions: 2,
        }],
        ..Settings::default()
    }
}

#[track_caller]
fn check(text: &str, expect: &[&str]) {
    let items = [
        r#"{"id":"1","name":"Ada","v":[3,4]}"#,
        r#"{"id":"2","name":"BOB","v":[0,1]}"#,
        r#"{"id":"3","name":7}"#,
    ];
    let items = items.map(str::to_owned);
    let statement = Statement::new(text, &[], &settings()).expect(text);
    let source = Memory::new(&items, false, Vec::new());
    assert_eq!(support::rows(&statement, &source, 10).expect(text), expect, "{text}");
}

#[test]
fn computed_properties_are_properties() {
    check("SELECT VALUE c.lower FROM c", &["\"ada\"", "\"bob\""]);
    check(
        "SELECT c.id, c[\"lower\"] FROM c WHERE c.lower = 'bob'",
        &[r#"{"id":"2","lower":"bob"}"#],
    );
    check("SELECT VALUE c.id FROM c ORDER BY c.lower DESC", &["\"2\"", "\"1\"", "\"3\""]);
    check("SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.lower)", &["\"3\""]);
    check(
        "SELECT c.lower, COUNT(1) AS n FROM c WHERE IS_DEFINED(c.lower) GROUP BY c.lower",
        &[r#"{"lower":"ada","n":1}"#, r#"{"lower":"bob","n":1}"#],
    );
    check(
        "SELECT VALUE EXISTS(SELECT VALUE 1 FROM c WHERE c.lower = 'ada') FROM c",
        &["true", "false", "false"],
    );
}

#[test]
fn they_hide_stored_ones_but_are_no_part_of_the_item() {
    check("SELECT VALUE c.name FROM c", &["\"<Ada>\"", "\"<BOB>\""]);
    check("SELECT * FROM c WHERE c.id = '1'", &[r#"{"id":"1","name":"Ada","v":[3,4]}"#]);
    check("SELECT VALUE c FROM c WHERE c.id = '3'", &[r#"{"id":"3","name":7}"#]);
}

#[test]
fn vectors_compare_by_the_metric_of_their_path() {
    check("SELECT VALUE VectorDistance(c.v, [0, 0]) FROM c", &["5", "1"]);
    check(
        "SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, [0, 0])",
        &["\"2\"", "\"1\"", "\"3\""],
    );
    check("SELECT VALUE VectorDistance([3, 4], [6, 8]) FROM c WHERE c.id = '1'", &["1"]);
}
