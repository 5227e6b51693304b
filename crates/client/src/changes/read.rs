//! One read of the change feed: one request about one range, without any following of splits.

use std::time::Duration;

use hyper::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use hyper::{HeaderMap, Method};

use crate::answer::Answer;
use crate::changes::change::Change;
use crate::changes::options::Mode;
use crate::container::Container;
use crate::error::{Error, Kind, Result};
use crate::partition_key::PartitionKey;
use crate::range::FeedRange;
use crate::request::Request;
use crate::{date, header};

/// The form of envelopes that this client understands.
const FORMAT: &str = "2021-09-15";
/// Longest wait that servers are asked for.
const WAIT_SECONDS_MAX: u64 = 60;

/// One read of the change feed.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedRead {
    /// The part of the container.
    pub scope: FeedScope,
    /// From where.
    pub start: Start,
    /// Which changes.
    pub mode: Mode,
    /// Changes per page; without a number, the server chooses.
    pub max_item_count: Option<u32>,
    /// For how long the server may hold the answer back until there is a change. Servers that
    /// cannot do so answer at once: see [`FeedPage::has_waited`].
    pub wait: Option<Duration>,
    /// How new the answer must be at least; without one, what this client has seen itself.
    pub session_token: Option<String>,
    /// The rid that the container must have. Another is [`Kind::ContainerReplaced`].
    pub rid: Option<String>,
}

impl FeedRead {
    /// A read of latest versions that answers at once.
    pub fn new(scope: FeedScope, start: Start) -> Self {
        Self {
            scope,
            start,
            mode: Mode::Latest,
            max_item_count: None,
            wait: None,
            session_token: None,
            rid: None,
        }
    }
}

/// The part of a container that a read is about.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedScope {
    /// All of it, range after range, as the server chooses.
    Container,
    /// A partition key range, by its id.
    Range(String),
    /// A part of a partition key range.
    Part {
        /// The id of the range.
        range_id: String,
        /// The part.
        span: FeedRange,
    },
    /// A partition key, or all that begin with it.
    Key(PartitionKey),
}

/// From where changes are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// From the first that is kept.
    Beginning,
    /// From now on: the answer has the position, and no changes.
    Now,
    /// From the first of this second, counted from 1970.
    Time(u64),
    /// After this etag, as it came.
    After(String),
}

/// A page of one range.
#[derive(Debug, Clone)]
pub struct FeedPage {
    /// The changes, in their order.
    pub changes: Vec<Change>,
    /// From where to go on.
    pub etag: String,
    /// Whether there was nothing new. A page without changes that does not say so is to be
    /// followed by the next.
    pub is_not_modified: bool,
    /// Whether the server has held the answer back as it was asked to.
    pub has_waited: bool,
    /// The number of the newest commit of the range, read or not.
    pub lsn: Option<u64>,
    /// The range that answered.
    pub range_id: Option<String>,
    /// The session token of the answer.
    pub session_token: Option<String>,
    /// What it cost, in request units.
    pub request_charge: Option<f64>,
    /// All headers of the answer.
    pub headers: HeaderMap,
}

impl Container {
    /// Reads one page of the change feed. A range that is gone is [`Kind::RangeGone`]: read
    /// [`Container::partition_key_ranges`] and go on at its heirs with the same etag; or let
    /// [`Container::changes`] do so.
    pub async fn read_changes(&self, read: &FeedRead) -> Result<FeedPage> {
        let answer = self.send(&self.changes_request(read)?).await?;
        page(answer, read.mode)
    }

    fn changes_request(&self, read: &FeedRead) -> Result<Request> {
        let mut request = Request::list(Method::GET, self.link(), "docs");
        match read.mode {
            Mode::Latest => request.set(header::A_IM, "Incremental Feed"),
            Mode::LatestWithDeletes => {
                request.set(header::A_IM, "Incremental Feed");
                request.set(header::FEED_DELETES, "True");
                request.set(header::FEED_FORMAT, FORMAT);
            }
            Mode::AllVersions => {
                request.set(header::A_IM, "Full-Fidelity Feed");
                request.set(header::FEED_FORMAT, FORMAT);
            }
        }
        match &read.start {
            Start::Beginning => {}
            Start::Now => request.set(IF_NONE_MATCH, "*"),
            Start::Time(seconds) => request.set_text(IF_MODIFIED_SINCE, &date::format(*seconds))?,
            Start::After(etag) => request.set_text(IF_NONE_MATCH, etag)?,
        }
        request.set_scope(&read.scope)?;
        request.set_page(read.max_item_count, None)?;
        if let Some(seconds) = read.wait.map(|wait| wait.as_secs().min(WAIT_SECONDS_MAX))
            && seconds > 0
        {
            request.set_text(header::PREFER, &format!("wait={seconds}"))?;
            request.wait = Duration::from_secs(seconds);
        }
        if let Some(token) = &read.session_token {
            request.set_text(header::SESSION_TOKEN, token)?;
        }
        if let Some(rid) = read.rid.as_deref().filter(|rid| !rid.is_empty()) {
            request.set_text(header::INTENDED_RID, rid)?;
        }
        Ok(request)
    }
}

impl Request {
    /// Adds the part of a container that the request is about.
    pub fn set_scope(&mut self, scope: &FeedScope) -> Result<()> {
        match scope {
            FeedScope::Container => Ok(()),
            FeedScope::Key(key) => self.set_text(header::PARTITION_KEY, &key.to_string()),
            FeedScope::Range(id) => {
                self.names_range = true;
                self.set_text(header::RANGE_ID, id)
            }
            FeedScope::Part { range_id, span } => {
                self.names_range = true;
                self.set_text(header::RANGE_ID, range_id)?;
                self.set(header::READ_KEY_TYPE, "EffectivePartitionKeyRange");
                self.set_text(header::START_EPK, span.min())?;
                self.set_text(header::END_EPK, span.max())
            }
        }
    }
}

fn page(answer: Answer, mode: Mode) -> Result<FeedPage> {
    let is_not_modified = answer.status == 304;
    let changes = match is_not_modified {
        true => Vec::new(),
        false => Change::page(&answer.body, mode != Mode::Latest)?,
    };
    let etag = answer.etag().filter(|etag| !etag.is_empty()).map(str::to_owned).ok_or_else(|| {
        let message = "a page of the change feed came without an etag, so that there is no position to go on from";
        Error::new(Kind::Answer, message)
    })?;
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let applied = answer.text(&header::PREFERENCE_APPLIED).unwrap_or("");
    Ok(FeedPage {
        changes,
        etag,
        is_not_modified,
        has_waited: applied.to_ascii_lowercase().contains("wait"),
        lsn: answer.lsn(),
        range_id: owned(answer.range_id()),
        session_token: owned(answer.session_token()),
        request_charge: answer.request_charge(),
        headers: answer.headers,
    })
}
