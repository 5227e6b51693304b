//! Tests of JSON text; agreement with another parser is tested from outside of the crate.

use super::*;

fn refusal(text: &[u8]) -> String {
    let error = Document::parse(text).unwrap_err();
    assert_eq!(error.fault.status(), 400);
    error.message
}

#[test]
fn members_are_slices_of_the_text() {
    let text = " {\"a\" : 1.50 ,\"b\":[1, {\"c\":2}],\"\\u0063\":\"\\n\" } ".as_bytes();
    let document = Document::parse(text).unwrap();
    let found: Vec<_> =
        document.members().iter().map(|member| (&*member.key, member.value)).collect();
    assert_eq!(found, [("a", &b"1.50"[..]), ("b", &b"[1, {\"c\":2}]"[..]), ("c", &b"\"\\n\""[..])]);
    assert_eq!(&text[document.members()[0].span.clone()], b"\"a\" : 1.50");
    assert_eq!(document.text(), text.trim_ascii());
}

#[test]
fn the_last_of_several_wins() {
    let document = Document::parse(br#"{"a":1,"b":{"x":1,"x":2},"\u0061":3}"#).unwrap();
    assert_eq!(document.get("a"), Some(&b"3"[..]));
    assert!(document.duplicate("a") && !document.duplicate("b") && !document.duplicate("z"));
    assert_eq!(document.at_path(&["b", "x"]), Some(&b"2"[..]));
}

#[test]
fn paths_lead_through_objects_only() {
    let document = Document::parse(br#"{"a":{"b":{"c":"\"}"},"":[{"d":1}]},"n":null}"#).unwrap();
    assert_eq!(document.at_path(&["a", "b", "c"]), Some(&br#""\"}""#[..]));
    assert_eq!(document.at_path(&["a", ""]), Some(&br#"[{"d":1}]"#[..]));
    assert_eq!(document.at_path(&["a", "", "d"]), None);
    assert_eq!(document.at_path(&["n", "x"]), None);
    assert_eq!(document.at_path(&["x"]), None);
    assert_eq!(document.at_path(&[] as &[&str]), Some(document.text()));
}

#[test]
fn refusals_say_where() {
    assert_eq!(refusal(b"{\"a\":tru}"), "the body is not valid JSON: expected a value at byte 5");
    assert_eq!(refusal(b"{\"a\":1"), "the body is not valid JSON: it ends too early at byte 6");
    assert_eq!(
        refusal(b"{\"a\":\"\xFF\"}"),
        "the body is not valid JSON: it is not UTF-8 at byte 6"
    );
    assert_eq!(refusal(b" [1]"), "the body is not a JSON object: expected '{' at byte 1");
    assert!(refusal(b"").contains("it ends too early at byte 0"));
}

#[test]
fn what_is_not_json_is_refused() {
    for value in [
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x1",
        "1e999",
        "-1e999",
        "NaN",
        "Infinity",
        "True",
        "nul",
        "'a'",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "\"\t\"",
        "\"\u{0}\"",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,}",
        "{,}",
        "{1:2}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1]",
        "",
        " ",
        "/**/1",
    ] {
        refusal(format!("{{\"v\":{value}}}").as_bytes());
    }
    for text in ["{} {}", "{},", "{}x", "\u{feff}{}", "}", "nul"] {
        refusal(text.as_bytes());
    }
    let zeros = format!("{{\"v\":1{}}}", "0".repeat(400));
    assert!(refusal(zeros.as_bytes()).contains("out of range"));
}

#[test]
fn what_is_json_is_taken() {
    for value in [
        "0",
        "-0",
        "-0.0",
        "1e-999",
        "1E+5",
        "12.340",
        "true",
        "false",
        "null",
        "\"\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "\"\\ud83d\\ude00\"",
        "\"\\u0000\"",
        "\"é😀\u{7f}\"",
        "[[[{}],1],\"]\"]",
        "\"0123456\\\"\"",
        "\"01234567\"",
        "\"012345678\\\\\"",
    ] {
        let text = format!("\t{{ \"v\" :\r{value}\n}} ");
        assert_eq!(Document::parse(text.as_bytes()).unwrap().get("v"), Some(value.as_bytes()));
    }
}

#[test]
fn nesting_is_bounded() {
    let nested =
        |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    use crate::limits::JSON_DEPTH;
    assert!(Document::parse(nested(JSON_DEPTH).as_bytes()).is_ok());
    assert!(object(nested(JSON_DEPTH).as_bytes()).is_ok());
    assert!(refusal(nested(JSON_DEPTH + 1).as_bytes()).contains("nested too deeply"));
    refusal(nested(1_000_000).as_bytes());
}

#[test]
fn strings_read_back() {
    for text in
        ["", "a", "\"\\/\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}é😀", "12345678\"", "\\\\\\\\\\\\\\\\"]
    {
        let mut raw = Vec::new();
        escape_into(&mut raw, text);
        check(&raw).unwrap();
        assert_eq!(unescape(&raw).as_deref(), Some(text));
    }
    assert_eq!(unescape(br#""\ud83d\ude00\/\u00e9""#).as_deref(), Some("😀/é"));
    for raw in ["", "\"", "a", "5", "\"a\"b\"", "\"\\\"", "\"\\q\"", "\"\n\"", "\"\\ud800\""] {
        assert_eq!(unescape(raw.as_bytes()), None, "{raw}");
    }
}

#[test]
fn numbers_are_the_nearest_doubles() {
    assert_eq!(number(b"1e2"), Some(100.0));
    assert_eq!(number(b"9007199254740993"), Some(9_007_199_254_740_992.0));
    assert_eq!(number(b"0.1"), Some(0.1));
    for raw in ["", "-", "inf", "-inf", "nan", "+1", "x", "\"1\"", "1e999", ".5"] {
        assert_eq!(number(raw.as_bytes()), None, "{raw}");
    }
    let spelled = |value| {
        let mut out = Vec::new();
        number_into(&mut out, value);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(spelled(3.0), "3");
    assert_eq!(spelled(-1.5), "-1.5");
    assert_eq!(spelled(-0.0), "-0.0");
    assert_eq!(spelled(f64::NAN), "null");
    assert_eq!(number(spelled(1e300).as_bytes()), Some(1e300));
}

#[test]
fn containers_are_walked() {
    let inside: Vec<_> = elements(b"[ 1 ,\"a,]\", [2,3] , {\"x\":[]} ]").collect();
    assert_eq!(inside, [&b"1"[..], b"\"a,]\"", b"[2,3]", b"{\"x\":[]}"]);
    let pairs: Vec<_> = members(b"{ \"a\" : 1 , \"b:\":{\"c\":2}}").collect();
    assert_eq!(pairs, [("a".into(), &b"1"[..]), ("b:".into(), &b"{\"c\":2}"[..])]);
    assert_eq!(elements(b"[]").count() + elements(b"{\"a\":1}").count(), 0);
    assert_eq!(members(b"{}").count() + members(b"[1,2]").count() + members(b"").count(), 0);
}

#[test]
fn small_bodies_become_trees() {
    let tree = object(br#"{"b":[1,{"c":null}],"a":"x","b":2}"#).unwrap();
    assert_eq!(Value::Object(tree), serde_json::json!({"b": 2, "a": "x"}));
    assert!(object(b"[]").is_err() && object(b"{").is_err());
    assert_eq!(check(b" [1, 2] ").unwrap(), b"[1, 2]");
    assert!(check(b"[1, 2").is_err());
}

#[test]
fn a_list_is_checked_and_cut_in_one_pass() {
    let text = r#" [ {"op":"Create", "body" : { "id":"1" , "n":{"x":[{"y":2}]},"\u0061":null } },5,[{"z":1}],{},
        {"body":{},"body":[{"k":1}], "b": {"c":1}} ] "#;
    let listed = check_list(text.as_bytes(), 9).unwrap().unwrap();
    let names = |listed: &Listed<'_>| -> Vec<String> {
        let name = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        listed
            .members
            .iter()
            .map(|(key, _, layout)| name(key) + if layout.is_some() { "+" } else { "" })
            .collect()
    };
    let all: Vec<_> = listed.iter().map(names).collect();
    assert_eq!(
        all,
        [
            vec!["\"op\"", "\"body\"+"],
            vec![],
            vec![],
            vec![],
            vec!["\"body\"", "\"body\"", "\"b\"+"]
        ]
    );
    let (_, body, layout) = &listed[0].members[1];
    let known = Document::laid_out(body, layout.as_ref().unwrap()).unwrap();
    let parsed = Document::parse(body).unwrap();
    assert_eq!(known.text(), parsed.text());
    assert_eq!(format!("{:?}", known.members()), format!("{:?}", parsed.members()));
    assert_eq!(known.members().len(), 3);
    // What lies elsewhere is refused, not read.
    assert!(Document::laid_out(b"{}", layout.as_ref().unwrap()).is_err());
    assert_eq!(check_list(text.as_bytes(), 2).unwrap().unwrap().len(), 2);
    assert!(check_list(br#"{"a":{"b":1}}"#, 9).unwrap().is_none());
    assert!(check_list(b"[]", 9).unwrap().unwrap().is_empty());
    for wrong in ["", "[", "[{]", "[{\"a\":{\"b\":1,}}]", "[1] 2"] {
        assert!(check_list(wrong.as_bytes(), 0).is_err(), "{wrong}");
    }
}
