//! An answer as text that can be compared: what matters, with made-up values by name.

use crate::http::Response;
use crate::json::Json;
use crate::names::{Names, fold_runs, kind_of};

/// What of an answer is compared beside its status.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Show {
    /// The whole body, one line an entry if it is a list.
    pub body: bool,
    /// System properties too.
    pub system: bool,
    /// The names of the body's members.
    pub keys: bool,
    /// The message of an error.
    pub message: bool,
    /// The body as its bytes are, without names.
    pub raw: bool,
    /// JSON pointers into the body.
    pub pointers: Vec<String>,
    /// Headers.
    pub headers: Vec<String>,
}

impl Show {
    /// Reads `show=a,b`. Where nothing is said, reads show their body and writes do not.
    pub fn parse(option: Option<&str>, reads: bool) -> Self {
        let Some(option) = option else { return Self { body: reads, ..Self::default() } };
        let mut show = Self::default();
        for word in option.split(',').filter(|word| !word.is_empty()) {
            match word {
                "body" => show.body = true,
                "none" => {}
                "system" => (show.body, show.system) = (true, true),
                "keys" => show.keys = true,
                "message" => show.message = true,
                "raw" => show.raw = true,
                pointer if pointer.starts_with('/') => show.pointers.push(pointer.to_owned()),
                header => show.headers.push(header.to_ascii_lowercase()),
            }
        }
        show
    }
}

/// Properties that the server adds and that only `show=system` tells apart.
const SYSTEM: [&str; 12] = [
    "_rid",
    "_self",
    "_ts",
    "_attachments",
    "_colls",
    "_users",
    "_docs",
    "_sprocs",
    "_triggers",
    "_udfs",
    "_conflicts",
    "_permissions",
];

/// The answer, a line each for status, headers asked for, and body.
pub fn render(response: &Response, show: &Show, names: &mut Names) -> Vec<String> {
    let body = Json::parse(&response.text()).ok();
    let mut lines = vec![status_line(response, body.as_ref(), names)];
    for name in &show.headers {
        let value = response
            .header(name)
            .map_or("absent".to_owned(), |value| header_value(name, value, names));
        lines.push(format!("{name}: {value}"));
    }
    if let Some(body) = &body {
        body_lines(response, body, show, names, &mut lines);
    }
    if show.raw {
        lines.push(response.text());
    }
    lines.iter().map(|line| fold_runs(line)).collect()
}

/// `201 etag#1`, `400/1001 BadRequest`, `200 continuation#1`.
fn status_line(response: &Response, body: Option<&Json>, names: &mut Names) -> String {
    let mut line = response.status.to_string();
    if let Some(substatus) = response.header("x-ms-substatus").filter(|value| *value != "0") {
        line.push_str(&format!("/{substatus}"));
    }
    if response.status >= 400 {
        let code = body.and_then(|body| body.get("code")).and_then(Json::text);
        line.push_str(&format!(" {}", code.unwrap_or("without a code")));
        return line;
    }
    if let Some(etag) = response.header("etag") {
        line.push_str(&format!(" {}", names.name("etag", etag)));
    }
    if let Some(continuation) = response.header("x-ms-continuation") {
        line.push_str(&format!(" {}", names.name("continuation", continuation)));
    }
    line
}

fn header_value(name: &str, value: &str, names: &mut Names) -> String {
    kind_of(name).map_or_else(|| value.to_owned(), |kind| names.name(kind, value))
}

fn body_lines(
    response: &Response,
    body: &Json,
    show: &Show,
    names: &mut Names,
    lines: &mut Vec<String>,
) {
    if show.message && response.status >= 400 {
        let message = body.get("message").and_then(Json::text).unwrap_or("without a message");
        lines.push(message.lines().next().unwrap_or("").to_owned());
    }
    if show.keys
        && let Json::Object(members) = body
    {
        let keys: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        lines.push(keys.join(" "));
    }
    if show.body && response.status < 400 {
        match list(body) {
            Some(entries) => lines
                .extend(entries.iter().map(|entry| member("", entry, show.system, true, names))),
            None => lines.push(member("", body, show.system, show.system, names)),
        }
    }
    for pointer in &show.pointers {
        let name = pointer.rsplit('/').next().unwrap_or("");
        let value = body
            .pointer(pointer)
            .map_or("absent".to_owned(), |value| member(name, value, true, true, names));
        lines.push(format!("{pointer} {value}"));
    }
}

/// The entries of a list answer: the one array beside `_rid` and `_count`.
pub fn list(body: &Json) -> Option<&[Json]> {
    body.get("_count")?;
    let Json::Object(members) = body else { return None };
    members.iter().find_map(|(_, value)| value.items())
}

/// A value under that name, made-up ones by their name.
fn member(name: &str, value: &Json, system: bool, etag: bool, names: &mut Names) -> String {
    match value {
        Json::Text(text) if kind_of(name).is_some() => {
            names.name(kind_of(name).expect("just asked"), text)
        }
        Json::Number(text) if kind_of(name).is_some() => {
            names.name(kind_of(name).expect("just asked"), text)
        }
        Json::Text(text) if name == "resource" && text.starts_with("dbs/") => {
            names.name("self", text)
        }
        Json::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| member("", item, system, etag, names)).collect();
            format!("[{}]", items.join(","))
        }
        Json::Object(members) => {
            let shown = members.iter().filter(|(name, _)| {
                (system || !SYSTEM.contains(&name.as_str())) && (etag || name != "_etag")
            });
            let members: Vec<String> = shown
                .map(|(name, value)| {
                    format!(
                        "{}:{}",
                        Json::Text(name.clone()),
                        member(name, value, system, etag, names)
                    )
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(response: Response, show: &str, expected: &[&str]) {
        let lines = render(&response, &Show::parse(Some(show), true), &mut Names::default());
        assert_eq!(lines, expected);
    }

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Response { status, headers, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn an_item_shows_what_the_user_wrote() {
        let item = r#"{"id":"1","n":1.50,"_rid":"r","_self":"s","_etag":"\"e\"","_ts":5}"#;
        check(
            answer(200, &[("etag", "\"e\"")], item),
            "body",
            &["200 etag#1", r#"{"id":"1","n":1.50}"#],
        );
        let shown = r#"{"id":"1","n":1.50,"_rid":rid#1,"_self":self#1,"_etag":etag#1,"_ts":ts#1}"#;
        check(answer(200, &[("etag", "\"e\"")], item), "system", &["200 etag#1", shown]);
    }

    #[test]
    fn a_list_shows_an_entry_a_line() {
        let list = r#"{"_rid":"r","Documents":[{"id":"1","_etag":"a"},{"id":"2","_etag":"b"}],"_count":2}"#;
        let expected =
            ["200 continuation#1", r#"{"id":"1","_etag":etag#1}"#, r#"{"id":"2","_etag":etag#2}"#];
        check(answer(200, &[("x-ms-continuation", "c")], list), "body", &expected);
    }

    #[test]
    fn a_refusal_shows_its_code() {
        let body = r#"{"code":"BadRequest","message":"no"}"#;
        check(answer(400, &[("x-ms-substatus", "1001")], body), "body", &["400/1001 BadRequest"]);
        check(answer(404, &[("x-ms-substatus", "0")], ""), "message", &["404 without a code"]);
    }

    #[test]
    fn pointers_and_headers_are_shown_or_absent() {
        let body = r#"{"a":{"b":[1]},"_count":7}"#;
        let expected =
            ["200", "x-ms-item-count: 1", "lsn: lsn#1", "date: absent", "/a/b [1]", "/c absent"];
        let headers = [("x-ms-item-count", "1"), ("lsn", "9")];
        check(answer(200, &headers, body), "x-ms-item-count,lsn,date,/a/b,/c", &expected);
    }
}
