//! The documents of a container, page by page: as the server strings them together, or range by
//! range so that several readers can share the work.

use bytes::Bytes;
use hyper::Method;
use serde::de::DeserializeOwned;

use crate::answer::{self, Answer};
use crate::changes::read::FeedScope;
use crate::container::Container;
use crate::error::Result;
use crate::partition_key::PartitionKey;
use crate::range::FeedRange;
use crate::request::Request;
use crate::spans::Spans;

/// Which documents are read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// Documents per page; without a number, the server chooses.
    pub max_item_count: Option<u32>,
    /// Only this partition key range; after a split, its heirs.
    pub partition_key_range_id: Option<String>,
    /// Only this part of the key space.
    pub feed_range: Option<FeedRange>,
    /// Only this partition key.
    pub partition_key: Option<PartitionKey>,
    /// From where to go on: the continuation of a page.
    pub request_continuation: Option<String>,
    /// How new the answers must be at least; without one, what this client has seen itself.
    pub session_token: Option<String>,
}

/// A reader of documents.
#[derive(Debug)]
pub struct Documents {
    container: Container,
    options: ReadOptions,
    spans: Spans,
}

/// A page of documents.
#[derive(Debug, Clone)]
pub struct DocumentPage {
    /// The documents, as they came.
    pub documents: Vec<Bytes>,
    /// From where to go on; none at the end.
    pub continuation: Option<String>,
    /// What it cost, in request units.
    pub request_charge: Option<f64>,
    /// The range that answered.
    pub range_id: Option<String>,
}

impl DocumentPage {
    pub(crate) fn new(answer: &Answer, continuation: Option<String>) -> Result<Self> {
        Ok(Self {
            documents: answer::documents(&answer.body)?,
            continuation,
            request_charge: answer.request_charge(),
            range_id: answer.range_id().map(str::to_owned),
        })
    }

    /// The documents, read as a type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        self.documents.iter().map(|document| answer::parse(document)).collect()
    }
}

impl Container {
    /// A reader of the documents of this container. Nothing is sent yet.
    pub fn read_documents(&self, options: ReadOptions) -> Result<Documents> {
        let spans = Spans::begin(
            options.partition_key.as_ref(),
            options.partition_key_range_id.as_deref(),
            options.feed_range.as_ref(),
            options.request_continuation.as_deref(),
        )?;
        Ok(Documents { container: self.clone(), options, spans })
    }
}

impl Documents {
    /// The next page; none at the end. Calling again after an error goes on where the reader was.
    pub async fn next_page(&mut self) -> Result<Option<DocumentPage>> {
        let Self { container, options, spans } = self;
        let request = |scope: &FeedScope, token: Option<&str>| {
            let mut request = Request::list(Method::GET, container.link(), "docs");
            request.set_scope(scope)?;
            request.set_page(options.max_item_count, token)?;
            if let Some(token) = &options.session_token {
                request.set_text(crate::header::SESSION_TOKEN, token)?;
            }
            Ok(request)
        };
        let Some(answer) = spans.next(container, request).await? else { return Ok(None) };
        DocumentPage::new(&answer, spans.continuation()).map(Some)
    }
}
