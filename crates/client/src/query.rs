//! Queries: sent as they are and answered by the server, range by range where it cannot otherwise.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answer::{self};
use crate::changes::read::FeedScope;
use crate::container::Container;
use crate::error::{Error, Result};
use crate::header;
use crate::partition_key::PartitionKey;
use crate::range::FeedRange;
use crate::request::Request;
use crate::spans::Spans;

/// A query: its text, and values for the parameters in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    text: String,
    parameters: Vec<(String, Value)>,
}

impl Query {
    /// A query without parameters.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), parameters: Vec::new() }
    }

    /// Gives a parameter (`@name`) its value.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    pub(crate) fn body(&self) -> Bytes {
        #[derive(Serialize)]
        struct Parameter<'a> {
            name: &'a str,
            value: &'a Value,
        }
        let parameters: Vec<Parameter<'_>> =
            self.parameters.iter().map(|(name, value)| Parameter { name, value }).collect();
        json!({ "query": self.text, "parameters": parameters }).to_string().into()
    }
}

impl From<&str> for Query {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// How a query is answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryOptions {
    /// Results per page; without a number, the server chooses.
    pub max_item_count: Option<u32>,
    /// Only items of this partition key.
    pub partition_key: Option<PartitionKey>,
    /// Only items of this part of the key space.
    pub feed_range: Option<FeedRange>,
    /// From where to go on: the continuation of a page of the same query.
    pub request_continuation: Option<String>,
    /// How new the answers must be at least; without one, what this client has seen itself.
    pub session_token: Option<String>,
}

/// The results of a query.
#[derive(Debug)]
pub struct Rows {
    container: Container,
    body: Bytes,
    options: QueryOptions,
    spans: Spans,
}

/// A page of results.
#[derive(Debug, Clone)]
pub struct QueryPage {
    /// The results, as they came.
    pub rows: Vec<Bytes>,
    /// From where to go on; none at the end.
    pub continuation: Option<String>,
    /// What it cost, in request units.
    pub request_charge: Option<f64>,
}

impl QueryPage {
    /// The results, read as a type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        self.rows.iter().map(|row| answer::parse(row)).collect()
    }
}

impl Container {
    /// Asks a query. Nothing is sent yet.
    pub fn query(&self, query: impl Into<Query>, options: QueryOptions) -> Result<Rows> {
        let spans = Spans::begin(
            options.partition_key.as_ref(),
            None,
            options.feed_range.as_ref(),
            options.request_continuation.as_deref(),
        )?;
        Ok(Rows { container: self.clone(), body: query.into().body(), options, spans })
    }
}

impl Rows {
    /// The next page; none at the end. A page may be empty and not the last. Calling again after
    /// an error goes on where the query was.
    pub async fn next_page(&mut self) -> Result<Option<QueryPage>> {
        let was_fresh = self.spans.is_fresh_whole();
        let answer = match self.ask().await {
            Err(error) if was_fresh && error.asks_for_ranges() => {
                can_be_strung_together(&error)?;
                self.spans.by_range();
                self.ask().await?
            }
            other => other?,
        };
        let Some(answer) = answer else { return Ok(None) };
        Ok(Some(QueryPage {
            rows: answer::documents(&answer.body)?,
            continuation: self.spans.continuation(),
            request_charge: answer.request_charge(),
        }))
    }

    /// All results, read as a type, up to a number; more are an error.
    pub async fn collect<T: DeserializeOwned>(mut self, most: usize) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(page) = self.next_page().await? {
            if all.len() + page.rows.len() > most {
                return Err(Error::setting(format!("the query has more than {most} results")));
            }
            all.extend(page.parse::<T>()?);
        }
        Ok(all)
    }

    async fn ask(&mut self) -> Result<Option<answer::Answer>> {
        let Self { container, body, options, spans } = self;
        let request = |scope: &FeedScope, token: Option<&str>| {
            let mut request = Request::list(Method::POST, container.link(), "docs");
            request.is_read = true;
            request.body = body.clone();
            let kind = HeaderValue::from_static("application/query+json");
            request.headers.insert(CONTENT_TYPE, kind);
            request.set(header::IS_QUERY, "True");
            request.set(header::CROSS_PARTITION, "True");
            request.set_scope(scope)?;
            request.set_page(options.max_item_count, token)?;
            if let Some(token) = &options.session_token {
                request.set_text(header::SESSION_TOKEN, token)?;
            }
            Ok(request)
        };
        spans.next(container, request).await
    }
}

/// Whether the results of the ranges, one after the other, are the result of the query. The server
/// tells with its refusal what would have to be done with them.
fn can_be_strung_together(error: &Error) -> Result<()> {
    let plan: Value =
        error.detail().and_then(|detail| serde_json::from_str(detail).ok()).unwrap_or(Value::Null);
    let info = &plan["queryInfo"];
    let is_empty = |name: &str| match &info[name] {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty() || text == "None",
        _ => false,
    };
    let merges = [
        "distinctType",
        "top",
        "offset",
        "limit",
        "orderBy",
        "aggregates",
        "groupByExpressions",
        "groupByAliases",
        "groupByAliasToAggregateType",
        "dCountInfo",
        "rewrittenQuery",
    ];
    let hybrid = &plan["hybridSearchQueryInfo"];
    if info.is_object() && hybrid.is_null() && merges.into_iter().all(is_empty) {
        return Ok(());
    }
    Err(error.clone())
}
