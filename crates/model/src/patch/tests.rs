//! Patches, applied to small texts.

use super::*;

/// Applies operations, given as JSON, to an object.
#[track_caller]
fn check(object: &str, operations: &str, expect: &str) {
    let got = patched(object, operations).unwrap_or_else(|error| error.message);
    assert_eq!(got, expect, "{operations}");
}

#[track_caller]
fn refused(object: &str, operations: &str, expect: &str) {
    let error = patched(object, operations).expect_err(operations);
    assert_eq!(error.fault, crate::Fault::BadRequest);
    assert!(error.message.contains(expect), "{operations}: {}", error.message);
}

fn patched(object: &str, operations: &str) -> Result<String> {
    let body = format!("{{\"operations\":[{operations}]}}");
    let out = Patch::parse(body.as_bytes())?.apply(object.as_bytes())?;
    json::check(&out).expect("the result is JSON");
    Ok(String::from_utf8(out).expect("the result is text"))
}

fn at(op: &str, path: &str, value: &str) -> String {
    format!(r#"{{"op":"{op}","path":"{path}","value":{value}}}"#)
}

#[test]
fn bytes_that_are_not_named_stay() {
    check(
        "{ \"a\" : 1.50e+2 ,\n \"u\\u0065\":\"\\u00e9\", \"n\": 12345678901234567890.0 }",
        &at("set", "/a", "2"),
        "{ \"a\" : 2 ,\n \"u\\u0065\":\"\\u00e9\", \"n\": 12345678901234567890.0 }",
    );
    check(
        r#"{"o":{"x" : 1},"z":[ ]}"#,
        &at("add", "/o/y", "[1 ,2]"),
        r#"{"o":{"x" : 1,"y":[1 ,2]},"z":[ ]}"#,
    );
}

#[test]
fn members_are_added_and_set() {
    for op in ["add", "set"] {
        check("{}", &at(op, "/a", "null"), r#"{"a":null}"#);
        check("{ }", &at(op, "/a", "1"), r#"{"a":1 }"#);
        check(r#"{"a":1}"#, &at(op, "/a", "2"), r#"{"a":2}"#);
        check(r#"{"a":1}"#, &at(op, "/b", "{}"), r#"{"a":1,"b":{}}"#);
        check(r#"{"a":{}}"#, &at(op, "/a/b", "2"), r#"{"a":{"b":2}}"#);
        check("{}", &at(op, "/q\\\"", "2"), r#"{"q\"":2}"#);
        refused("{}", &at(op, "/a/b", "1"), "add what holds it first");
        refused(r#"{"a":5}"#, &at(op, "/a/b", "1"), "add what holds it first");
    }
}

#[test]
fn arrays_take_new_elements() {
    let array = r#"{"a":[1,2]}"#;
    check(array, &at("add", "/a/0", "9"), r#"{"a":[9,1,2]}"#);
    check(array, &at("add", "/a/1", "9"), r#"{"a":[1,9,2]}"#);
    check(array, &at("set", "/a/1", "9"), r#"{"a":[1,9]}"#);
    for op in ["add", "set"] {
        check(array, &at(op, "/a/2", "9"), r#"{"a":[1,2,9]}"#);
        check(array, &at(op, "/a/-", "9"), r#"{"a":[1,2,9]}"#);
        check(r#"{"a":[ ]}"#, &at(op, "/a/-", "9"), r#"{"a":[9 ]}"#);
        check(r#"{"a":[]}"#, &at(op, "/a/0", "9"), r#"{"a":[9]}"#);
        refused(array, &at(op, "/a/3", "9"), "an array that has 2");
        refused(array, &at(op, "/a/-1", "9"), "leads into an array");
        refused(array, &at(op, "/a/01", "9"), "leads into an array");
        refused(array, &at(op, "/a/x", "9"), "leads into an array");
        refused(array, &at(op, "/a/99999999999999999999", "9"), "leads into an array");
    }
    check(r#"{"a":[{"b":[1]}]}"#, &at("add", "/a/0/b/0", "0"), r#"{"a":[{"b":[0,1]}]}"#);
}

#[test]
fn replace_and_remove_need_something_there() {
    check(r#"{"a":1}"#, &at("replace", "/a", "[]"), r#"{"a":[]}"#);
    check(r#"{"a":[1,2]}"#, &at("replace", "/a/1", "7"), r#"{"a":[1,7]}"#);
    refused(r#"{"a":1}"#, &at("replace", "/b", "1"), "there is nothing");
    refused(r#"{"a":[1]}"#, &at("replace", "/a/1", "1"), "there is nothing");
    refused(r#"{"a":[1]}"#, &at("replace", "/a/-", "1"), "there is nothing");
    let remove = |path: &str| format!(r#"{{"op":"remove","path":"{path}"}}"#);
    check(r#"{"a":1}"#, &remove("/a"), "{}");
    check(r#"{ "a":1 , "b":2 }"#, &remove("/a"), r#"{ "b":2 }"#);
    check(r#"{ "a":1 , "b":2 }"#, &remove("/b"), r#"{ "a":1 }"#);
    check(r#"{"a":1,"b":2,"c":3}"#, &remove("/b"), r#"{"a":1,"c":3}"#);
    check(r#"{"a":[1,2,3]}"#, &remove("/a/0"), r#"{"a":[2,3]}"#);
    check(r#"{"a":[1,2,3]}"#, &remove("/a/2"), r#"{"a":[1,2]}"#);
    check(r#"{"a":[1]}"#, &remove("/a/0"), r#"{"a":[]}"#);
    check(r#"{"a":1,"b":2,"\u0061":3}"#, &remove("/a"), r#"{"b":2}"#);
    check(r#"{"a":1,"a":3}"#, &remove("/a"), "{}");
    check(&format!("{{{}\"b\":2}}", "\"a\":1,".repeat(100_000)), &remove("/a"), r#"{"b":2}"#);
    refused("{}", &remove("/a"), "there is nothing");
    refused(r#"{"a":[1]}"#, &remove("/a/1"), "there is nothing");
}

#[test]
fn increments_keep_whole_numbers_whole() {
    let incr = |value: &str| at("incr", "/n", value);
    check(r#"{"n":5}"#, &incr("-2"), r#"{"n":3}"#);
    check(r#"{"n":5}"#, &incr("0.5"), r#"{"n":5.5}"#);
    check(r#"{"n":9007199254740993}"#, &incr("2"), r#"{"n":9007199254740995}"#);
    check(r#"{"n":1.5}"#, &incr("1.5"), r#"{"n":3}"#);
    check("{}", &incr("4.0"), r#"{"n":4.0}"#);
    check(r#"{"n":[1,2]}"#, &at("incr", "/n/1", "3"), r#"{"n":[1,5]}"#);
    check(r#"{"n":9223372036854775807}"#, &incr("1"), r#"{"n":9.223372036854776e+18}"#);
    refused(r#"{"n":"5"}"#, &incr("1"), "not a number");
    refused(r#"{"n":null}"#, &incr("1"), "not a number");
    refused(r#"{"n":5}"#, &incr("\"1\""), "must be a number");
    refused(r#"{"n":1e308}"#, &incr("1e308"), "beyond");
    refused(r#"{"n":[1]}"#, &at("incr", "/n/1", "3"), "there is nothing");
    refused(r#"{"n":[1]}"#, &at("incr", "/n/-", "3"), "there is nothing");
}

#[test]
fn moves_take_and_put() {
    let mv = |from: &str, path: &str| format!(r#"{{"op":"move","from":"{from}","path":"{path}"}}"#);
    check(r#"{"a":1,"b":2}"#, &mv("/a", "/b"), r#"{"b":1}"#);
    check(r#"{"a": 1.0 ,"o":{}}"#, &mv("/a", "/o/x"), r#"{"o":{"x":1.0}}"#);
    check(r#"{"a":[1,2,3]}"#, &mv("/a/0", "/a/-"), r#"{"a":[2,3,1]}"#);
    check(r#"{"a":[1,2,3]}"#, &mv("/a/2", "/a/0"), r#"{"a":[3,1,2]}"#);
    check(r#"{"a":1}"#, &mv("/a", "/a"), r#"{"a":1}"#);
    refused("{}", &mv("/a", "/b"), "there is nothing");
    refused(r#"{"a":{"b":1}}"#, &mv("/a", "/a/b"), "inside of 'from'");
    refused(r#"{"a":1}"#, &mv("/id", "/b"), "'id' cannot be changed");
}

#[test]
fn names_are_escaped_as_in_pointers() {
    check(r#"{"a/b":1,"m~n":2}"#, &at("set", "/a~1b", "3"), r#"{"a/b":3,"m~n":2}"#);
    check(r#"{"a/b":1,"m~n":2}"#, &at("set", "/m~0n", "3"), r#"{"a/b":1,"m~n":3}"#);
    check(r#"{"":1}"#, &at("set", "/", "3"), r#"{"":3}"#);
    refused("{}", &at("set", "/a~2", "1"), "malformed");
    refused("{}", &at("set", "/a~", "1"), "malformed");
    refused("{}", &at("set", "a", "1"), "must begin with '/'");
    refused("{}", &at("set", "", "1"), "must begin with '/'");
    refused("{}", &at("set", &"/a".repeat(200), "1"), "at most");
}

#[test]
fn operations_go_in_order_and_errors_are_numbered() {
    check(
        "{}",
        &[at("add", "/a", "{}"), at("add", "/a/b", "1"), at("incr", "/a/b", "1")].join(","),
        r#"{"a":{"b":2}}"#,
    );
    refused("{}", &[at("add", "/a", "{}"), at("add", "/b/c", "1")].join(","), "For Operation(2): ");
    refused(
        "{}",
        &[at("set", "/a", "1"), at("test", "/a", "1")].join(","),
        "For Operation(2): 'test' is no operation",
    );
}

#[test]
fn what_the_server_sets_cannot_be_patched() {
    for name in ["id", "_ts", "_etag", "_rid", "_self", "_attachments", "_lsn"] {
        refused("{}", &at("set", &format!("/{name}"), "1"), "cannot be changed");
    }
    check("{}", &at("set", "/_own", "1"), r#"{"_own":1}"#);
}

#[test]
fn bodies_are_checked() {
    let parse = |body: &str| Patch::parse(body.as_bytes()).map(|patch| patch.operations.len());
    let one = at("set", "/a", "1");
    assert_eq!(parse(&format!("[{one}]")).unwrap(), 1);
    let many = |n: usize| format!(r#"{{"operations":[{}]}}"#, vec![one.clone(); n].join(","));
    assert_eq!(parse(&many(10)).unwrap(), 10);
    for body in [
        &many(0),
        &many(11),
        "{}",
        "[]",
        "5",
        "{\"operations\":{}}",
        "[5]",
        "[{}]",
        "{\"operations\":",
    ] {
        assert!(parse(body).is_err(), "{body}");
    }
    for operation in [
        r#"{"op":"set","path":"/a"}"#,
        r#"{"op":"set","value":1}"#,
        r#"{"op":"move","path":"/a"}"#,
        r#"{"op":5,"path":"/a"}"#,
    ] {
        assert!(parse(&format!("[{operation}]")).is_err(), "{operation}");
    }
    let with = |condition: &str| format!(r#"{{"operations":[{one}],"condition":{condition}}}"#);
    let text = with("\"from c where c.a = 1\"");
    assert_eq!(
        Patch::parse(text.as_bytes()).unwrap().condition.as_deref(),
        Some("from c where c.a = 1")
    );
    assert!(Patch::parse(with("null").as_bytes()).unwrap().condition.is_none());
    assert!(Patch::parse(with("5").as_bytes()).is_err());
}

#[test]
fn the_partition_key_is_recognised() {
    let body = format!("[{}]", at("set", "/a/b", "1"));
    let patch = Patch::parse(body.as_bytes()).unwrap();
    assert!(patch.touches(&["a"]) && patch.touches(&["a", "b"]));
    assert!(!patch.touches(&["a", "b", "c"]) && !patch.touches(&["b"]));
}
