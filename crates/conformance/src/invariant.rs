//! What every answer must hold, whatever the case says of it.
//!
//! Each line is something an SDK breaks on, or that the protocol promises everywhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::http::Response;
use crate::json::Json;
use crate::render::list;

/// What is wrong with an answer to a request of that path; empty where all is well.
pub fn violations(path: &str, response: &Response) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    must(
        response.header("x-ms-activity-id").is_some_and(|id| !id.is_empty()),
        "no x-ms-activity-id",
    );
    if let Some(session) = response.header("x-ms-session-token") {
        must(session.split(',').all(is_session), "x-ms-session-token is not <range>:-1#<lsn>");
    }
    let body = Json::parse(&response.text()).ok();
    match response.status {
        204 | 304 => must(response.body.is_empty(), "a body where none may be"),
        400.. => {
            let has = |name| {
                body.as_ref()
                    .and_then(|b| b.get(name))
                    .and_then(Json::text)
                    .is_some_and(|t| !t.is_empty())
            };
            must(has("code") && has("message"), "an error without code and message");
        }
        _ => {
            must(charge(response).is_some_and(|charge| charge >= 0.0), "no x-ms-request-charge");
            wrong.extend(body_violations(response, body.as_ref()));
            wrong.extend(item_violations(path, response));
        }
    }
    wrong
}

fn charge(response: &Response) -> Option<f64> {
    response.header("x-ms-request-charge")?.parse().ok()
}

/// `0:-1#12`.
fn is_session(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split_once(":-1#").is_some_and(|(range, lsn)| is_number(range) && is_number(lsn))
}

fn body_violations(response: &Response, body: Option<&Json>) -> Vec<String> {
    let mut wrong = Vec::new();
    if response.body.is_empty() {
        return wrong;
    }
    if !response.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        wrong.push("a body that is not application/json".to_owned());
    }
    let Some(body) = body else {
        wrong.push("a body that is no JSON".to_owned());
        return wrong;
    };
    if let Some(entries) = list(body) {
        if body.get("_count") != Some(&Json::Number(entries.len().to_string())) {
            wrong.push("_count is not the number of entries".to_owned());
        }
        if let Some(count) = response.header("x-ms-item-count")
            && count != entries.len().to_string()
        {
            wrong.push("x-ms-item-count is not the number of entries".to_owned());
        }
        wrong.extend(entries.iter().flat_map(resource_violations));
    } else {
        wrong.extend(resource_violations(body));
        let etag = body.get("_etag").and_then(Json::text);
        if etag.is_some() && etag != response.header("etag") {
            wrong.push("the etag header is not the _etag of the body".to_owned());
        }
    }
    wrong
}

/// System properties, where a value has any.
fn resource_violations(resource: &Json) -> Vec<String> {
    let mut wrong = Vec::new();
    let text = |name| resource.get(name).and_then(Json::text);
    if let Some(etag) = text("_etag")
        && !(etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'))
    {
        wrong.push(format!("_etag is not a quoted string: {etag}"));
    }
    if let (Some(link), Some(rid)) = (text("_self"), text("_rid"))
        && !link.is_empty()
        && !link.ends_with(&format!("/{rid}/"))
    {
        wrong.push(format!("_self does not end in the _rid: {link} {rid}"));
    }
    if let Some(ts) = resource.get("_ts")
        && !matches!(ts, Json::Number(text) if text.len() == 10)
    {
        wrong.push(format!("_ts is not a time in seconds: {ts}"));
    }
    wrong
}

/// The headers that SDKs keep sessions and routes by.
fn item_violations(path: &str, response: &Response) -> Vec<String> {
    let steps: Vec<&str> =
        path.split('?').next().unwrap_or("").split('/').filter(|s| !s.is_empty()).collect();
    if !matches!(steps.as_slice(), ["dbs", _, "colls", _, "docs", _]) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for name in [
        "x-ms-documentdb-partitionkeyrangeid",
        "x-ms-session-token",
        "x-ms-alt-content-path",
        "lsn",
    ] {
        if response.header(name).is_none_or(str::is_empty) {
            wrong.push(format!("no {name} on an item's answer"));
        }
    }
    let owner = response.header("x-ms-content-path").unwrap_or("").replace('-', "/");
    if STANDARD.decode(owner).map(|bytes| bytes.len()).ok() != Some(8) {
        wrong.push("x-ms-content-path is not the rid of a container".to_owned());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, status: u16, headers: &[(&str, &str)], body: &str, expected: &[&str]) {
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let response = Response { status, headers, body: body.as_bytes().to_vec() };
        assert_eq!(violations(path, &response), expected);
    }

    #[test]
    fn an_error_needs_a_code_and_a_message() {
        let headers = [("x-ms-activity-id", "a")];
        check("/dbs/x", 404, &headers, "", &["an error without code and message"]);
        check("/dbs/x", 404, &headers, r#"{"code":"NotFound","message":"no"}"#, &[]);
        check(
            "/dbs/x",
            404,
            &[],
            r#"{"code":"NotFound","message":"no"}"#,
            &["no x-ms-activity-id"],
        );
    }

    #[test]
    fn an_item_needs_what_sessions_live_by() {
        let headers = [
            ("x-ms-activity-id", "a"),
            ("x-ms-request-charge", "1"),
            ("content-type", "application/json"),
            ("x-ms-session-token", "0:-1#7"),
            ("x-ms-documentdb-partitionkeyrangeid", "0"),
            ("x-ms-alt-content-path", "dbs/d/colls/c"),
            ("x-ms-content-path", "AAAAAIAAAAA="),
            ("lsn", "7"),
            ("etag", "\"e\""),
        ];
        check("/dbs/d/colls/c/docs/1", 200, &headers, r#"{"_etag":"\"e\""}"#, &[]);
        let wrong = ["the etag header is not the _etag of the body"];
        check("/dbs/d/colls/c/docs/1", 200, &headers, r#"{"_etag":"\"f\""}"#, &wrong);
        check(
            "/dbs/d/colls/c/docs/1",
            200,
            &headers[..7],
            r#"{"_etag":"\"e\""}"#,
            &["the etag header is not the _etag of the body", "no lsn on an item's answer"],
        );
    }
}
