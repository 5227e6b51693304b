//! What user-defined functions cost: calls for each second of processor time, that of the server and
//! of its workers together.

use std::io;
use std::time::Instant;

use conformance::json;
use conformance::server::processor_seconds;
use conformance::wire::Wire;

use crate::table::{Line, Target};
use crate::{Arguments, Ours, path};

/// Documents, and numbers in each. All are different: an answer that is remembered is no call.
const DOCUMENTS: usize = 20;
const NUMBERS: usize = 2_000;

const FUNCTION: &str = "function tax(n) { return n * 1.2; }";
const KEY: [(&str, &str); 1] = [("x-ms-documentdb-partitionkey", r#"["functions"]"#)];

/// What is asked, and by which name it is told.
const QUERIES: [(&str, &str); 2] = [
    ("in a sum", "SELECT VALUE SUM(udf.tax(x)) FROM c JOIN x IN c.list"),
    ("in WHERE", "SELECT VALUE COUNT(1) FROM c JOIN x IN c.list WHERE udf.tax(x) > 5"),
];

/// Queries whose every row calls a function.
pub fn functions(arguments: &Arguments, ours: &Ours) -> io::Result<Vec<Line>> {
    let mut wire = Wire::new(&ours.server.endpoint);
    let body = format!(r#"{{"id":"tax","body":{}}}"#, json::quoted(FUNCTION));
    send(&mut wire, &format!("{}/udfs", path("c")), &[], &body)?;
    for document in 0..DOCUMENTS {
        let numbers = (0..NUMBERS).map(|n| format!("{}.5", document * NUMBERS + n));
        let list = numbers.collect::<Vec<_>>().join(",");
        let body = format!(r#"{{"id":"list-{document}","pk":"functions","list":[{list}]}}"#);
        send(&mut wire, &format!("{}/docs", path("c")), &KEY, &body)?;
    }
    QUERIES.iter().map(|(name, query)| measured(arguments, ours, &mut wire, name, query)).collect()
}

fn measured(
    arguments: &Arguments,
    ours: &Ours,
    wire: &mut Wire,
    name: &str,
    query: &str,
) -> io::Result<Line> {
    let mut headers = KEY.to_vec();
    headers.push(("content-type", "application/query+json"));
    headers.push(("x-ms-documentdb-isquery", "True"));
    let body = format!(r#"{{"query":{}}}"#, json::quoted(query));
    let docs = format!("{}/docs", path("c"));
    send(wire, &docs, &headers, &body)?;
    let spent = || {
        processor_seconds(ours.server.pid()).ok_or_else(|| io::Error::other("no processor time"))
    };
    let (mut best, mut by_clock) = (0.0_f64, 0.0_f64);
    for _ in 0..arguments.rounds {
        let (began, before) = (Instant::now(), spent()?);
        let mut calls = 0;
        while began.elapsed() < arguments.round() {
            send(wire, &docs, &headers, &body)?;
            calls += DOCUMENTS * NUMBERS;
        }
        by_clock = by_clock.max(calls as f64 / began.elapsed().as_secs_f64());
        best = best.max(calls as f64 / (spent()? - before));
    }
    Ok(Line {
        name: format!("calls of a function, {name}, per core"),
        ours: best,
        other: Some(500_000.0),
        unit: "/s",
        target: Target::Share(1.0),
        note: format!(" {by_clock:.0}/s by the clock"),
    })
}

fn send(wire: &mut Wire, path: &str, headers: &[(&str, &str)], body: &str) -> io::Result<()> {
    let answer = wire.send("POST", path, headers, body.as_bytes())?;
    match answer.status {
        200 | 201 => Ok(()),
        status => Err(io::Error::other(format!("{path}: {status} {}", answer.text()))),
    }
}
