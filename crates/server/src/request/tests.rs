//! Headers and bodies, right and wrong.

use hyper::header::HeaderValue;

use super::*;

fn headers(lines: &[(&HeaderName, &str)]) -> HeaderMap {
    let pairs = lines.iter();
    pairs.map(|(name, value)| ((*name).clone(), HeaderValue::from_str(value).unwrap())).collect()
}

#[track_caller]
fn check<T: std::fmt::Debug>(
    lines: &[(&HeaderName, &str)],
    read: impl Fn(Headers<'_>) -> Result<T>,
    expect: &str,
) {
    let map = headers(lines);
    let got = match read(Headers::of(&map)) {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{} {}", error.fault.status(), error.message),
    };
    assert!(got.contains(expect), "expected {expect}, got {got}");
}

#[test]
fn page_sizes() {
    let page = |text| [(&header::MAX_ITEM_COUNT, text)];
    check(&page("-1"), |h| h.page(), "items: None");
    check(&page("7"), |h| h.page(), "items: Some(7)");
    for wrong in ["0", "-2", "x", "1.5", "99999999999999999999999"] {
        check(&page(wrong), |h| h.page(), "400 header x-ms-max-item-count");
    }
}

#[test]
fn scopes() {
    check(&[], |h| h.scope(), "Everything");
    check(&[(&header::RANGE_ID, "3")], |h| h.scope(), "Range(\"3\")");
    check(&[(&header::PARTITION_KEY, "[\"a\"]")], |h| h.scope(), "Key(");
    let span = [(&header::START_EPK, "00"), (&header::END_EPK, "FF")];
    check(&span, |h| h.scope(), "Epk(");
    check(&[span[0], span[1], (&header::RANGE_ID, "0")], |h| h.scope(), "Epk(");
    check(
        &[span[0], span[1], (&header::PARTITION_KEY, "[1]")],
        |h| h.scope(),
        "400 a request names",
    );
    check(&span[..1], |h| h.scope(), "400 x-ms-start-epk and");
    let kind = (&header::READ_KEY_TYPE, "EffectivePartitionKey");
    check(&[span[0], span[1], kind], |h| h.scope(), "400 header x-ms-read-key-type");
    let reversed = [(&header::START_EPK, "FF"), (&header::END_EPK, "00")];
    check(&reversed, |h| h.scope(), "400 x-ms-start-epk must be below");
    check(&[(&header::PARTITION_KEY, "oops")], |h| h.scope(), "400");
}

#[test]
fn consistency_may_only_be_weakened() {
    let read = |headers: Headers<'_>| headers.consistency(Consistency::Session);
    check(&[], read, "Session");
    check(&[(&header::CONSISTENCY, "eventual")], read, "Eventual");
    check(&[(&header::CONSISTENCY, "Strong")], read, "400 header x-ms-consistency-level");
    check(&[(&header::CONSISTENCY, "Firm")], read, "is not a consistency level");
}

#[test]
fn a_header_that_is_not_text() {
    let mut map = HeaderMap::new();
    map.insert(&header::PREFER, HeaderValue::from_bytes(b"\xff").unwrap());
    assert!(Headers::of(&map).wants_minimal().is_err());
}

#[test]
fn query_bodies() {
    let parse = |text: &'static str| QueryBody::parse(&Bytes::from_static(text.as_bytes()));
    let query = parse(r#"{"query":"q","parameters":[{"name":"@a","value":1}]}"#).unwrap();
    assert_eq!(query.parameters, [("@a".to_owned(), Value::from(1))]);
    assert!(parse(r#"{"query":"q"}"#).unwrap().parameters.is_empty());
    for wrong in [
        "{}",
        r#"{"query":1}"#,
        r#"{"query":"q","resumeFilter":{"value":[0],"rid":"x","exclude":false}}"#,
        r#"{"query":"q","parameters":{}}"#,
        r#"{"query":"q","parameters":[1]}"#,
        r#"{"query":"q","parameters":[{"name":1,"value":1}]}"#,
        r#"{"query":"q","parameters":[{"name":"@a"}]}"#,
        "[",
    ] {
        assert_eq!(parse(wrong).unwrap_err().fault, Fault::BadRequest, "{wrong}");
    }
}
