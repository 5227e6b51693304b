//! The change feed over HTTP.

use std::time::Duration;

use client::{Container, FeedRange, FeedRead, FeedScope, Kind};

use crate::cut::KeyRange;
use crate::env::Later;
use crate::feed::{Ask, Feed, FeedError, FeedPage, Lag};
use crate::lease::Mode;
use crate::position::Start;
use crate::span::Span;

/// A wait where the service asks for one without saying how long.
const THROTTLE_WAIT: Duration = Duration::from_millis(100);

/// The feed of a container.
#[derive(Debug)]
pub struct HttpFeed {
    container: Container,
    rid: String,
    key_paths: Vec<String>,
}

impl HttpFeed {
    pub(super) fn new(container: Container, rid: String, key_paths: Vec<String>) -> Self {
        Self { container, rid, key_paths }
    }
}

fn scope(ask: &Ask) -> Result<FeedScope, FeedError> {
    match &ask.span {
        None => Ok(FeedScope::Range(ask.range.clone())),
        Some(span) => {
            let span = FeedRange::new(&span.min, &span.max).map_err(refusal)?;
            Ok(FeedScope::Part { range_id: ask.range.clone(), span })
        }
    }
}

fn start(start: Start) -> client::Start {
    match start {
        // Accounts with several write regions refuse the header of a time; the beginning needs none.
        Start::Beginning | Start::Time(Duration::ZERO) => client::Start::Beginning,
        Start::Time(at) => client::Start::Time(at.as_secs()),
        Start::Now => client::Start::Now,
        Start::After(etag) => client::Start::After(etag),
    }
}

fn mode(mode: Mode) -> client::Mode {
    match mode {
        Mode::Latest => client::Mode::Latest,
        Mode::LatestWithDeletes => client::Mode::LatestWithDeletes,
        Mode::AllVersions => client::Mode::AllVersions,
    }
}

fn refusal(error: client::Error) -> FeedError {
    let message = error.to_string();
    match error.kind() {
        Kind::RangeGone => FeedError::Gone,
        Kind::Throttled | Kind::RetryWith => {
            FeedError::Throttled(error.retry_after().unwrap_or(THROTTLE_WAIT))
        }
        Kind::TooLarge => FeedError::TooLarge,
        Kind::BadRequest if message.contains("Reduce page size") => FeedError::TooLarge,
        Kind::SessionNotAvailable => FeedError::Session,
        Kind::NotFound | Kind::ContainerReplaced => FeedError::ContainerGone(message),
        Kind::HistoryLost => FeedError::HistoryLost(message),
        _ if error.is_transient() || error.status().is_none() => FeedError::Transient(message),
        _ => FeedError::Refused { status: error.status().unwrap_or(0), message },
    }
}

impl Feed for HttpFeed {
    fn ranges(&self) -> Later<'_, Result<Vec<KeyRange>, FeedError>> {
        Box::pin(async move {
            let ranges = self.container.partition_key_ranges().await.map_err(refusal)?;
            let ours = |range: client::PartitionKeyRange| {
                let span = Span::new(range.span.min(), range.span.max())?;
                Some(KeyRange { id: range.id, span, parents: range.parents })
            };
            Ok(ranges.into_iter().filter_map(ours).collect())
        })
    }

    fn read(&self, ask: Ask) -> Later<'_, Result<FeedPage, FeedError>> {
        Box::pin(async move {
            let read = FeedRead {
                mode: mode(ask.mode),
                max_item_count: ask.max_item_count,
                wait: ask.wait,
                session_token: ask.session_token.clone(),
                rid: Some(self.rid.clone()),
                ..FeedRead::new(scope(&ask)?, start(ask.start))
            };
            let page = self.container.read_changes(&read).await.map_err(refusal)?;
            let headers = page.headers.iter().map(|(name, value)| {
                (name.to_string(), value.to_str().unwrap_or_default().to_owned())
            });
            Ok(FeedPage {
                // More was looked at than there was to return: go on at once.
                waited: page.has_waited || !page.is_not_modified,
                items: page.changes.iter().map(|change| change.bytes().clone()).collect(),
                continuation: page.etag,
                newest: page.lsn,
                headers: headers.collect(),
            })
        })
    }

    fn lag(&self, ask: Ask) -> Later<'_, Result<Option<Lag>, FeedError>> {
        Box::pin(async move {
            let etag = match &ask.start {
                Start::After(etag) => Some(etag.as_str()),
                _ => None,
            };
            let found = match self.container.lag(&scope(&ask)?, etag).await {
                Ok(found) => found,
                Err(error) if error.is_transient() || error.kind() == Kind::RangeGone => {
                    return Err(refusal(error));
                }
                // A service that does not know the question.
                Err(_) => return Ok(None),
            };
            let newest = found.ranges.iter().map(|range| range.lsn).max().unwrap_or(0);
            let position = found.ranges.iter().map(|range| range.position).min().unwrap_or(0);
            let seconds = found.ranges.iter().filter_map(|range| range.age_seconds);
            Ok(Some(Lag {
                newest,
                position,
                items: found.items,
                seconds: seconds.fold(0.0, f64::max),
            }))
        })
    }

    fn key_paths(&self) -> &[String] {
        &self.key_paths
    }
}
