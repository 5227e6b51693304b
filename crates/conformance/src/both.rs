//! Every query of a case goes both ways: evaluated on the server, and by a client that fans out.

use crate::fan_out::{self, Answer};
use crate::http::{Client, Request, Response};
use crate::json::Json;
use crate::{date, sign};

/// Queries for which there is no plan say so in these words.
const UNPLANNED: [&str; 3] = [
    "Compositions of aggregates and other expressions are not allowed",
    "are planned for several partitions only where",
    "ORDER BY RANK over several partitions needs TOP or LIMIT",
];
/// Headers that make a request more than a query over all items.
const NARROW: [&str; 9] = [
    "x-ms-documentdb-partitionkey",
    "x-ms-documentdb-partitionkeyrangeid",
    "x-ms-start-epk",
    "x-ms-continuation",
    "x-ms-max-item-count",
    "x-ms-cosmos-is-query-plan-request",
    "x-astrarium-explain",
    "x-ms-session-token",
    "a-im",
];
/// Small, so that pages are put together too.
const PER_PAGE: usize = 3;

/// What is wrong with the answer to a request, if it is a query whose rows a client that fans out
/// gets otherwise.
pub fn violation(
    client: &mut Client,
    key: &str,
    request: &Request,
    response: &Response,
) -> Option<String> {
    let is_query = request.method == "POST"
        && request.path.ends_with("/docs")
        && request.has("x-ms-documentdb-isquery");
    let narrow = NARROW.iter().any(|name| request.has(name));
    let whole = response.status == 200 && response.header("x-ms-continuation").is_none();
    if !is_query || narrow || !whole {
        return None;
    }
    match compared(client, key, request, response) {
        Ok(difference) => difference,
        Err(error) => Some(format!("a client that fans out fails: {error}")),
    }
}

fn compared(
    client: &mut Client,
    key: &str,
    request: &Request,
    response: &Response,
) -> Result<Option<String>, String> {
    let asked = Json::parse(&String::from_utf8_lossy(&request.body))?;
    let text = asked.get("query").and_then(Json::text).ok_or("no query")?;
    let parameters = asked.get("parameters").map_or("[]".to_owned(), Json::to_string);
    let answered = Json::parse(&response.text())?;
    let expected = answered.get("Documents").and_then(Json::items).ok_or("no Documents")?;
    let container = request.path.strip_suffix("/docs").unwrap_or(&request.path);
    let ranges = send(client, key, "GET", &format!("{container}/pkranges"), &[], "")?;
    let ranges = fan_out::range_ids(&ranges.text())?;
    let mut ask = |headers: &[(&str, &str)], body: &str| {
        send(client, key, "POST", &request.path, headers, body)
    };
    match fan_out::rows(&mut ask, &ranges, text, &parameters, PER_PAGE)? {
        Answer::NoPlan(reason) if UNPLANNED.iter().any(|known| reason.contains(known)) => Ok(None),
        Answer::NoPlan(reason) => Err(format!("no plan: {reason}")),
        Answer::Rows(rows, certainty) => Ok(certainty
            .difference(expected, &rows)
            .map(|difference| format!("a client that fans out gets other rows {difference}"))),
    }
}

fn send(
    client: &mut Client,
    key: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Response, String> {
    let date = date::now(0);
    let (kind, link) = sign::resource(path);
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
    };
    request.set("authorization", sign::master(key, method, &kind, &link, &date));
    request.set("x-ms-date", date);
    request.set("x-ms-version", "2020-07-15");
    headers.iter().for_each(|(name, value)| request.set(name, *value));
    client.send(&request).map_err(|error| error.to_string())
}
