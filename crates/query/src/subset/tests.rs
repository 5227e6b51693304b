//! Tests of the query subset.

use serde_json::json;

use super::*;
use crate::limits::TEXT_BYTES;

const ITEM: &str = r#"{"id":"a","resource":"dbs/x/colls/y/","n":1.50,"neg":-3,"t":true,"z":null,
    "deep":{"odd name":{"x":"\u00e9"}},"list":[1],"order":5}"#;

fn parameters() -> Vec<(String, Value)> {
    vec![
        ("@id".into(), json!("a")),
        ("@n".into(), json!(1.5)),
        ("@neg".into(), json!(-3)),
        ("@list".into(), json!([1])),
    ]
}

/// `yes` or `no` for [`ITEM`], or a piece of the refusal.
#[track_caller]
fn check(text: &str, expect: &str) {
    let got = match parse(text, &parameters()) {
        Err(error) => format!("{} {}", error.fault.status(), error.message),
        Ok(select) => {
            let value: Value = serde_json::from_str(ITEM).expect("the test's JSON");
            let answer = select.matches_value(&value);
            assert_eq!(select.matches(ITEM.as_bytes()), answer, "text and value differ: {text}");
            if answer { "yes".to_owned() } else { "no".to_owned() }
        }
    };
    let fits = if expect.len() > 3 { got.contains(expect) } else { got == expect };
    assert!(fits, "{text}\nexpected {expect}\ngot      {got}");
}

#[test]
fn what_the_sdks_ask() {
    check("SELECT * FROM root r WHERE r.resource='dbs/x/colls/y/'", "yes");
    check("SELECT * from root where root.resource = \"dbs/x/colls/y/\"", "yes");
    check("SELECT * FROM c WHERE c.id = @id", "yes");
    check("select * from c", "yes");
    check("  SELECT\n*\tFROM root AS r WHERE r[\"id\"] = 'b' ; ", "no");
}

#[test]
fn values_compare_within_their_type() {
    check("SELECT * FROM c WHERE c.n = 1.5", "yes");
    check("SELECT * FROM c WHERE c.n = 15e-1 AND c.n = @n", "yes");
    check("SELECT * FROM c WHERE c.n = '1.5'", "no");
    check("SELECT * FROM c WHERE c.neg = -3 AND c.neg = @neg", "yes");
    check("SELECT * FROM c WHERE c.neg = 3", "no");
    check("SELECT * FROM c WHERE c.t = true and c.z = NULL", "yes");
    check("SELECT * FROM c WHERE c.t = false", "no");
    check("SELECT * FROM c WHERE c.z = 0", "no");
    check("SELECT * FROM c WHERE c.list = 1", "no");
}

#[test]
fn missing_equals_nothing() {
    check("SELECT * FROM c WHERE c.missing = null", "no");
    check("SELECT * FROM c WHERE c.id.deeper = null", "no");
    check("SELECT * FROM c WHERE c.list.x = null", "no");
}

#[test]
fn paths_and_escapes() {
    check("SELECT * FROM c WHERE c.deep['odd name'].x = 'é'", "yes");
    check("SELECT * FROM c WHERE c[\"deep\"][\"odd name\"][\"x\"] = '\\u00E9'", "yes");
    check("SELECT * FROM c WHERE c.order = 5", "yes");
    check("SELECT * FROM c WHERE c.id = 'it\\'s \\ud83d\\ude00'", "no");
}

#[test]
fn everything_else_is_refused_with_its_place() {
    check("SELECT c.id FROM c", "expected *, found 'c' at position 8");
    check("SELECT TOP 1 * FROM c", "found 'TOP' at position 8");
    check("SELECT * FROM c ORDER BY c.id", "found 'ORDER' at position 17");
    check("SELECT * FROM c JOIN d IN c.x", "found 'JOIN' at position 17");
    check("SELECT * FROM d IN c.x", "found 'IN' at position 17");
    check("SELECT * FROM c.items", "found '.' at position 16");
    check("SELECT * FROM c WHERE c.n > 1", "expected =, found '>'");
    check("SELECT * FROM c WHERE c.n = 1 OR c.n = 2", "found 'OR'");
    check("SELECT * FROM c WHERE (c.n = 1)", "found '('");
    check("SELECT * FROM c WHERE c = 1", "expected a property");
    check("SELECT * FROM c WHERE root.id = 'a'", "found 'root'");
    check("SELECT * FROM c AS r WHERE c.id = 'a'", "found 'c'");
    check("SELECT * FROM c WHERE c.list[0] = 1", "found '0'");
    check("SELECT * FROM c WHERE c.n = 1 + 1", "found '+'");
    check("SELECT * FROM c WHERE c.n = undefined", "found 'undefined'");
    check("SELECT * FROM c WHERE c.n = - 'a'", "found a text");
    check("SELECT * FROM c;;", "found ';'");
    check("", "found the end of the query");
    check("SELECT * FROM c WHERE é.id = 'a'", "found 'é' at position 23");
}

#[test]
fn broken_texts_are_refused() {
    check("SELECT * FROM c WHERE c.id = 'open", "the quote at position 30 is open");
    check("SELECT * FROM c WHERE c.id = '\\q'", "escape");
    check("SELECT * FROM c WHERE c.id = '\\ud83d'", "escape");
    check("SELECT * FROM c WHERE c.id = '\\", "escape");
    check("SELECT * FROM c WHERE c.n = 1.2.3", "'1.2.3' at position 29");
    check("SELECT * FROM c WHERE c.n = 1e999", "no number");
    check("SELECT * FROM c WHERE c.n = 12abc", "'12abc'");
    check("SELECT * FROM c WHERE c.id = @other", "parameter @other has no value");
    check("SELECT * FROM c WHERE c.list = @list", "arrays and objects");
    check(&format!("SELECT * FROM c{}", " ".repeat(TEXT_BYTES)), "more than the 524288");
}

#[test]
fn callers_can_ask_for_a_path() {
    let select = parse("SELECT * FROM c WHERE c.a.b = 1 AND c.id = @id", &parameters());
    let select = select.expect("a query");
    assert_eq!(select.equals(&["id"]), Some(&json!("a")));
    assert_eq!(select.equals(&["a", "b"]), Some(&json!(1.0)));
    assert_eq!(select.equals(&["a"]), None);
}
