//! The monitored container's feed, as far as the processor needs it.

use std::time::Duration;

use bytes::Bytes;

use crate::cut::KeyRange;
use crate::env::Later;
use crate::lease::Mode;
use crate::position::Start;
use crate::span::Span;

/// What to read.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The partition key range.
    pub range: String,
    /// The part of it; nothing for all.
    pub span: Option<Span>,
    /// From where.
    pub start: Start,
    /// Changes per page.
    pub max_item_count: Option<u32>,
    /// For how long the service may hold the answer back until there is something.
    pub wait: Option<Duration>,
    /// Which changes.
    pub mode: Mode,
    /// A session to read in.
    pub session_token: Option<String>,
}

/// A page of changes.
#[derive(Debug, Clone, Default)]
pub struct FeedPage {
    /// The changes, each as the service sent it.
    pub items: Vec<Bytes>,
    /// The etag after them.
    pub continuation: String,
    /// Whether the service held the answer back as it was asked to.
    pub waited: bool,
    /// The number of the newest commit of the range, read or not.
    pub newest: Option<u64>,
    /// Headers of the answer.
    pub headers: Vec<(String, String)>,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FeedError {
    /// The range was split or merged.
    #[error("the partition key range is gone")]
    Gone,
    /// Not now.
    #[error("the feed is throttled")]
    Throttled(Duration),
    /// The page would be too large; ask for fewer items.
    #[error("the page is too large")]
    TooLarge,
    /// The replica does not have the session yet.
    #[error("the session is not available yet")]
    Session,
    /// The container is gone, or another one has its name.
    #[error("the monitored container is gone: {0}")]
    ContainerGone(String),
    /// What follows the position is no longer kept.
    #[error("changes after this position are no longer kept: {0}")]
    HistoryLost(String),
    /// Try again.
    #[error("the feed did not answer: {0}")]
    Transient(String),
    /// No, and asking again will not help.
    #[error("the feed refuses ({status}): {message}")]
    Refused {
        /// The status.
        status: u16,
        /// The message.
        message: String,
    },
}

/// How far a reader is behind, where the service can say so.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Lag {
    /// The newest commit.
    pub newest: u64,
    /// The commit of the position.
    pub position: u64,
    /// Items changed since the position.
    pub items: u64,
    /// Age of the oldest of them, in seconds.
    pub seconds: f64,
}

/// Changes, in order.
pub trait Feed: Send + Sync {
    /// The ranges there are now.
    fn ranges(&self) -> Later<'_, Result<Vec<KeyRange>, FeedError>>;
    /// A page.
    fn read(&self, ask: Ask) -> Later<'_, Result<FeedPage, FeedError>>;
    /// How far behind a position is; nothing where the service does not tell.
    fn lag(&self, ask: Ask) -> Later<'_, Result<Option<Lag>, FeedError>>;
    /// The paths of the partition key, such as `/tenant`.
    fn key_paths(&self) -> &[String];
}
