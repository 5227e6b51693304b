//! What the tests of the language share: a source in memory, and a way to run queries over it.
#![allow(dead_code)]

pub mod chance;
pub mod fan_out;
pub mod memory;
pub mod random;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use model::Result;
use query::world::{Settings, World};
use query::{Page, Statement, Want};
use serde_json::Value as Tree;

use memory::Memory;

/// A world that stands still.
pub struct Still;

impl World for Still {
    fn now_ticks(&self) -> i64 {
        // 2021-03-04T05:06:07.1234567Z
        16_148_343_671_234_567
    }

    fn random(&self) -> f64 {
        0.25
    }

    fn call(
        &self,
        name: &str,
        arguments: &[query::value::Value<'_>],
    ) -> Result<query::value::Value<'static>> {
        match name {
            "twice" => Ok(arguments[0]
                .as_f64()
                .map_or(query::value::Value::Undefined, |n| query::value::Value::number(n * 2.0))),
            _ => Err(model::Error::bad_request(format!(
                "there is no user-defined function '{name}'"
            ))),
        }
    }
}

/// Runs a future that never waits.
pub fn block_on<T>(future: impl Future<Output = T> + Send) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

pub fn statement(text: &str, parameters: &[(String, Tree)]) -> Result<Statement> {
    Statement::new(text, parameters, &Settings::default())
}

/// All rows of a query, in pages of so many, as JSON.
pub fn rows(statement: &Statement, source: &Memory, per_page: usize) -> Result<Vec<String>> {
    let want = Want { rows: per_page, bytes: 4 << 20 };
    let mut rows = Vec::new();
    let mut resume = None;
    for _ in 0..100_000 {
        let Page { rows: more, resume: next, .. } =
            block_on(statement.page(source, &Still, want, resume.as_deref()))?;
        assert!(more.len() <= per_page, "a page of {} rows: {}", more.len(), statement.query());
        rows.extend(more.iter().map(|row| String::from_utf8(row.to_vec()).expect("UTF-8")));
        match next {
            None => return Ok(rows),
            Some(next) => resume = Some(next),
        }
    }
    panic!("the query does not end");
}

/// The first pages of a query.
pub fn some_rows(
    statement: &Statement,
    source: &Memory,
    per_page: usize,
    pages: usize,
) -> Result<Vec<String>> {
    let want = Want { rows: per_page, bytes: 4 << 20 };
    let mut rows = Vec::new();
    let mut resume = None;
    for _ in 0..pages {
        let page = block_on(statement.page(source, &Still, want, resume.as_deref()))?;
        rows.extend(page.rows.iter().map(|row| String::from_utf8(row.to_vec()).expect("UTF-8")));
        match page.resume {
            None => break,
            Some(next) => resume = Some(next),
        }
    }
    Ok(rows)
}
