//! Tests of values: what they are, how they compare, what they are written as.

use std::cmp::Ordering;

use super::*;

fn raw(text: &str) -> Value<'_> {
    Value::from_raw(text.as_bytes())
}

fn key(value: &Value<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    sort_key_into(value, &mut out);
    out
}

#[test]
fn what_a_document_spells_comes_back_as_spelled() {
    for text in [
        "1",
        "1.0",
        "-0",
        "0",
        "1e3",
        "12345678901234567890",
        "9223372036854775807",
        "0.10",
        "-9223372036854775808",
        "\"a\"",
        "null",
        "true",
        "[1.0, 2]",
        "{\"a\" : 1.50}",
    ] {
        assert_eq!(raw(text).to_json(), text);
    }
    assert_eq!(raw("[1.0, {\"b\":2.50}]").into_owned().to_json(), "[1.0,{\"b\":2.50}]");
}

#[test]
fn sort_keys_and_comparison_agree_across_all_types() {
    let texts = [
        "null",
        "false",
        "true",
        "-1e300",
        "-9007199254740993",
        "-2.5",
        "-1",
        "0",
        "0.5",
        "1",
        "9007199254740993",
        "1e300",
        "\"\"",
        "\"A\"",
        "\"a\"",
        "\"a\\u0000\"",
        "\"a\\u0000b\"",
        "\"ab\"",
        "\"é\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ue000\"",
        "\"\\uffff\"",
    ];
    let mut values = vec![Value::Undefined];
    values.extend(texts.iter().map(|text| raw(text)));
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate() {
            assert_eq!(compare(a, b), i.cmp(&j), "{a:?} {b:?}");
            assert_eq!(key(a).cmp(&key(b)), i.cmp(&j), "{a:?} {b:?}");
        }
    }
    for (a, b) in [("[1]", "[1.0]"), ("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"), ("1", "1.0")] {
        assert!(equal(&raw(a), &raw(b)));
        assert_eq!(key(&raw(a)), key(&raw(b)));
        assert_eq!(compare(&raw(a), &raw(b)), Ordering::Equal);
    }
    assert_eq!(compare(&raw("[9]"), &raw("{}")), Ordering::Less);
    assert_eq!(compare(&raw("\"z\""), &raw("[]")), Ordering::Less);
}

#[test]
fn no_number_stands_before_all_numbers_and_equals_nothing() {
    let nan = Value::number(f64::NAN);
    assert_eq!(compare(&nan, &raw("-1e308")), Ordering::Less);
    assert_eq!(compare(&nan, &raw("true")), Ordering::Greater);
    assert!(!equal(&nan, &nan));
    assert!(key(&nan) < key(&Value::number(f64::NEG_INFINITY)));
    assert_eq!(nan.to_json(), "");
    assert_eq!(Value::array(vec![Value::int(1), nan, Value::int(2)]).to_json(), "[1,2]");
}

#[test]
fn of_repeated_names_the_last_counts() {
    let object = raw("{\"a\":1,\"b\":2,\"a\":3}");
    assert_eq!(object.member("a").to_json(), "3");
    let names: Vec<String> = object
        .members()
        .unwrap()
        .map(|(name, value)| format!("{name}{}", value.to_json()))
        .collect();
    assert_eq!(names, ["b2", "a3"]);
    assert!(equal(&object, &raw("{\"b\":2,\"a\":3}")));
}

#[test]
fn what_is_undefined_falls_out() {
    let object = Value::object(vec![("a".into(), Value::Undefined), ("b".into(), Value::Null)]);
    assert_eq!(object.to_json(), "{\"b\":null}");
    assert_eq!(Value::array(vec![Value::Undefined, Value::Null]).to_json(), "[null]");
    assert_eq!(Value::Undefined.to_json(), "");
}

#[test]
fn computed_numbers_are_written_whole_where_they_are() {
    assert_eq!(Value::number(6.0).to_json(), "6");
    assert_eq!(Value::number(0.1 + 0.2).to_json(), "0.30000000000000004");
    assert_eq!(Value::int(i64::MAX).to_json(), "9223372036854775807");
    assert_eq!(raw("5.0").as_int(), Some(5));
    assert_eq!(raw("5.5").as_int(), None);
    assert_eq!(raw("1e19").as_int(), None);
}
