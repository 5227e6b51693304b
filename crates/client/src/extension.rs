//! What Astrarium offers beyond the protocol; other servers refuse it.

use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::changes::read::FeedScope;
use crate::container::Container;
use crate::error::Result;
use crate::header;
use crate::partition_key::PartitionKey;
use crate::query::Query;
use crate::request::Request;

/// How far a reader of changes is behind.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Lag {
    /// Range by range.
    pub ranges: Vec<RangeLag>,
    /// Items that have changed since, in all ranges.
    pub items: u64,
}

/// How far a reader of changes is behind in one range.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RangeLag {
    /// The range.
    pub id: String,
    /// The number of its newest commit.
    pub lsn: u64,
    /// The number of the last commit that was read.
    pub position: u64,
    /// Items that have changed since.
    pub items: u64,
    /// When the oldest change that was not read was made, in seconds since 1970.
    pub oldest_unread: Option<f64>,
    /// How long ago that is.
    pub age_seconds: Option<f64>,
}

impl Container {
    /// How far a reader of changes at an etag is behind; without one, a reader at the beginning.
    pub async fn lag(&self, scope: &FeedScope, etag: Option<&str>) -> Result<Lag> {
        let mut request = Request::about(Method::GET, self.link(), "lag");
        request.set_scope(scope)?;
        if let Some(etag) = etag {
            request.set_text(IF_NONE_MATCH, etag)?;
        }
        self.send(&request).await?.parse()
    }

    /// How the first page of a query would be found, and what that takes.
    pub async fn explain(
        &self,
        query: impl Into<Query>,
        partition_key: Option<&PartitionKey>,
    ) -> Result<Value> {
        let mut request = Request::list(Method::POST, self.link(), "docs");
        request.is_read = true;
        request.body = query.into().body();
        let kind = HeaderValue::from_static("application/query+json");
        request.headers.insert(CONTENT_TYPE, kind);
        request.set(header::IS_QUERY, "True");
        request.set(header::EXPLAIN, "True");
        request.set_scope(&match partition_key {
            Some(key) => FeedScope::Key(key.clone()),
            None => FeedScope::Container,
        })?;
        self.send(&request).await?.parse()
    }

    /// Cuts a partition key range in two.
    pub async fn split_range(&self, id: &str) -> Result<()> {
        self.operate("operations/split", &json!({ "range": id })).await
    }

    /// Makes one partition key range of neighbours.
    pub async fn merge_ranges(&self, ids: &[&str]) -> Result<()> {
        self.operate("operations/merge", &json!({ "ranges": ids })).await
    }

    async fn operate(&self, word: &str, body: &serde_json::Value) -> Result<()> {
        let body = body.to_string().into();
        let request = Request::about(Method::POST, self.link(), word).json(body);
        self.send(&request).await.map(drop)
    }
}
