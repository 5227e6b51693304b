//! Containers: their definition and their partition key ranges.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use crate::answer::{self, Answer};
use crate::body::IntoBody;
use crate::client::{Client, LIST_PAGES_MAX};
use crate::error::{Error, Kind, Result};
use crate::layout::{Known, Layout, RANGES_MAX, RangeList};
use crate::range::{FeedRange, PartitionKeyRange};
use crate::request::{Link, Request};
use crate::retry::Pauses;
use crate::session::Session;

/// How often a list of ranges that does not fit together is read again.
const LAYOUT_ATTEMPTS: u32 = 5;
const LAYOUT_PAUSE: Duration = Duration::from_millis(100);

/// A container, whether it is there or not. Clones and handles of the same name share what is
/// remembered of it.
#[derive(Debug, Clone)]
pub struct Container {
    client: Client,
    link: Link,
    remembered: Arc<Remembered>,
}

/// What a client remembers of a container.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    session: Session,
    layout: Known,
}

/// The definition of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerProperties {
    /// The rid: another container of the same name has another one.
    pub rid: String,
    /// The paths of the partition key, outermost first.
    pub key_paths: Vec<String>,
    /// Everything.
    pub definition: Value,
}

impl Container {
    pub(crate) fn new(client: Client, link: Link) -> Self {
        let remembered = client.remembered(&link);
        Self { client, link, remembered }
    }

    /// The client it came from.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// `dbs/{name}/colls/{name}`.
    pub fn path(&self) -> String {
        self.link.text()
    }

    /// Reads its definition.
    pub async fn read(&self) -> Result<ContainerProperties> {
        let answer = self.send(&Request::one(Method::GET, &self.link)).await?;
        let definition: Value = answer.parse()?;
        let rid = definition["_rid"].as_str().unwrap_or("").to_owned();
        let paths = definition["partitionKey"]["paths"].as_array();
        let key_paths = paths.map_or_else(Vec::new, |paths| {
            paths.iter().filter_map(|path| Some(path.as_str()?.to_owned())).collect()
        });
        Ok(ContainerProperties { rid, key_paths, definition })
    }

    /// Replaces its definition.
    pub async fn replace(&self, definition: impl IntoBody) -> Result<Answer> {
        let request = Request::one(Method::PUT, &self.link).json(definition.into_body()?);
        self.send(&request).await
    }

    /// Deletes it with everything in it.
    pub async fn delete(&self) -> Result<Answer> {
        self.send(&Request::one(Method::DELETE, &self.link)).await
    }

    /// Its partition key ranges as they are now, in the order of their keys.
    pub async fn partition_key_ranges(&self) -> Result<Vec<PartitionKeyRange>> {
        Ok(self.refresh_layout().await?.ranges.clone())
    }

    /// The same as spans, which go on to mean something after a split.
    pub async fn feed_ranges(&self) -> Result<Vec<FeedRange>> {
        let ranges = self.partition_key_ranges().await?;
        Ok(ranges.into_iter().map(|range| range.span).collect())
    }

    /// The ranges as they were read last, if they were.
    pub(crate) fn known_layout(&self) -> Option<Arc<Layout>> {
        self.remembered.layout.layout()
    }

    /// The same, read if they were not.
    pub(crate) async fn layout(&self) -> Result<Arc<Layout>> {
        match self.known_layout() {
            Some(layout) => Ok(layout),
            None => self.refresh_layout().await,
        }
    }

    /// Reads the ranges. In the midst of a split a list may not fit together; it soon will.
    pub(crate) async fn refresh_layout(&self) -> Result<Arc<Layout>> {
        let mut attempts = 1;
        loop {
            let (rid, ranges) = self.read_ranges().await?;
            match Layout::new(rid, ranges) {
                Ok(layout) => {
                    let layout = Arc::new(layout);
                    let is_live = |id: &str| layout.ranges.iter().any(|range| range.id == id);
                    self.remembered.session.retain(is_live);
                    self.remembered.layout.set(layout.clone());
                    return Ok(layout);
                }
                Err(error) if attempts == LAYOUT_ATTEMPTS => {
                    return Err(error.with_attempts(attempts));
                }
                Err(_) => attempts += 1,
            }
            tokio::time::sleep(LAYOUT_PAUSE * attempts).await;
        }
    }

    async fn read_ranges(&self) -> Result<(String, Vec<PartitionKeyRange>)> {
        let (mut ranges, mut continuation) = (Vec::new(), None::<String>);
        for _ in 0..LIST_PAGES_MAX {
            let mut request = Request::list(Method::GET, &self.link, "pkranges");
            request.set_page(None, continuation.as_deref())?;
            let answer = self.send(&request).await?;
            let list: RangeList = answer::parse(&answer.body)?;
            ranges.extend(list.ranges);
            if ranges.len() > RANGES_MAX {
                break;
            }
            match answer.continuation() {
                Some(more) => continuation = Some(more.to_owned()),
                None => return Ok((list.rid, ranges)),
            }
        }
        let message = format!("there are more than {RANGES_MAX} partition key ranges");
        Err(Error::new(Kind::Answer, message))
    }

    /// The pauses that the client allows itself.
    pub(crate) fn pauses(&self) -> Pauses {
        Pauses::new(self.client.sender.retry)
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    pub(crate) fn item_link(&self, id: &str) -> Result<Link> {
        let link = self.link.child("docs", id);
        link.check()?;
        Ok(link)
    }

    /// Sends a request about the container or something in it.
    pub(crate) async fn send(&self, request: &Request) -> Result<Answer> {
        self.link.check()?;
        self.client.sender.send(request, Some(&self.remembered.session)).await
    }
}
