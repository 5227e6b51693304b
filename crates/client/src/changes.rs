//! The change feed of a container, all its ranges together, through splits and merges.
//!
//! A reader follows a set of *cursors*: a span of keys and a position each. Reads are under way
//! for some of them; a position moves only when the page that comes after it is handed out. So a
//! call may be dropped at any moment, and a continuation is never ahead of what was returned.
//!
//! A reader that begins *now* asks every range for its position before it reads any: whoever
//! keeps its continuation misses nothing that was written since.

pub mod change;
mod continuation;
mod cursor;
pub mod options;
pub mod read;

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesUnordered, Stream};
use hyper::HeaderMap;
use tokio::time::Instant;

use self::change::Change;
use self::continuation::Continuation;
use self::cursor::{Cursor, Cursors};
use self::options::ChangeFeedOptions;
use self::read::{FeedPage, FeedRead, Start};
use crate::container::Container;
use crate::error::{Error, Kind, Result};
use crate::range::FeedRange;

/// Ranges that are watched at once while waiting. With more ranges, servers are asked again and
/// again instead.
const WATCHED_MAX: usize = 64;
/// How often in a row a range may be gone before the reader gives up.
const GONE_MAX: u32 = 20;
const GONE_PAUSE: Duration = Duration::from_millis(50);
/// How long a follower waits where its options do not say.
const FOLLOW_WAIT: Duration = Duration::from_secs(30);

type Reading = Pin<Box<dyn Future<Output = (u64, Result<FeedPage>)> + Send>>;

/// A reader of changes.
pub struct Changes {
    container: Container,
    options: ChangeFeedOptions,
    cursors: Cursors,
    /// The rid that the container has had from the start.
    rid: String,
    reading: FuturesUnordered<Reading>,
    gone: u32,
}

/// A page of changes, all from one range.
#[derive(Debug, Clone)]
pub struct Page {
    /// The changes, in their order.
    pub changes: Vec<Change>,
    /// Whether all that there was has been read; then the page has no changes.
    pub is_caught_up: bool,
    /// Where the reader is after this page, for
    /// [`request_continuation`](ChangeFeedOptions::request_continuation). Keep it when the work on
    /// the page is done.
    pub continuation: String,
    /// The part of the key space that the changes are from.
    pub span: Option<FeedRange>,
    /// The range that answered.
    pub range_id: Option<String>,
    /// The position in that range.
    pub etag: Option<String>,
    /// The number of the newest commit of that range, read or not.
    pub lsn: Option<u64>,
    /// The session token of the answer.
    pub session_token: Option<String>,
    /// What it cost, in request units.
    pub request_charge: Option<f64>,
    /// The headers of the answer.
    pub headers: HeaderMap,
}

/// A change out of a stream.
#[derive(Debug, Clone)]
pub struct ItemChange {
    /// The change.
    pub change: Change,
    /// Where the reader is after it. Only the last of a page has one: those before it share its
    /// page, and come again if the reader goes on from an older one.
    pub continuation: Option<String>,
}

impl Container {
    /// A reader of the changes of this container. Nothing is sent yet.
    pub fn changes(&self, options: ChangeFeedOptions) -> Result<Changes> {
        options.check()?;
        let continuation = match &options.request_continuation {
            Some(text) => Continuation::parse(text)?,
            None => None,
        };
        let (rid, cursors) = Cursors::begin(&options, continuation)?;
        let container = self.clone();
        Ok(Changes { container, options, cursors, rid, reading: FuturesUnordered::new(), gone: 0 })
    }
}

impl Changes {
    /// The next page. Without [`wait`](ChangeFeedOptions::wait) it comes at once, and if there is
    /// nothing new it says so; with it, after that time at the latest. Calling again after an error
    /// goes on where the reader was.
    pub async fn next_page(&mut self) -> Result<Page> {
        let deadline = self.options.wait.and_then(|wait| Instant::now().checked_add(wait));
        loop {
            self.start_reads().await?;
            let next = match deadline {
                Some(at) => tokio::time::timeout_at(at, self.reading.next()).await.ok().flatten(),
                None => self.reading.next().await,
            };
            let Some((id, result)) = next else { return Ok(self.nothing_new()) };
            if let Some(page) = self.take(id, result).await? {
                return Ok(page);
            }
            if deadline.is_none() && self.cursors.are_caught_up() {
                return Ok(self.nothing_new());
            }
        }
    }

    /// Makes sure that a reader that begins now has begun: what is written after this call is read.
    pub async fn pin(&mut self) -> Result<()> {
        loop {
            self.start_reads().await?;
            if !self.cursors.are_starting_now() {
                return Ok(());
            }
            if let Some((id, result)) = self.reading.next().await {
                self.take(id, result).await?;
            }
        }
    }

    /// Where the reader is.
    pub fn continuation(&self) -> String {
        let ranges = self.cursors.positions();
        let key = self.options.partition_key.clone();
        Continuation { rid: self.rid.clone(), mode: self.options.mode, key, ranges }.write()
    }

    /// Pages up to where nothing is new; the last says so. After an error the stream ends.
    pub fn into_pages(self) -> Pin<Box<dyn Stream<Item = Result<Page>> + Send>> {
        self.stream(|page| page.is_caught_up)
    }

    /// Pages for ever. Those without changes tell that all has been read. After an error the
    /// stream ends; go on from the last continuation.
    pub fn follow_pages(mut self) -> Pin<Box<dyn Stream<Item = Result<Page>> + Send>> {
        self.options.wait.get_or_insert(FOLLOW_WAIT);
        self.stream(|_| false)
    }

    /// Changes one by one, up to where nothing is new. After an error the stream ends.
    pub fn into_items(self) -> Pin<Box<dyn Stream<Item = Result<ItemChange>> + Send>> {
        Box::pin(self.into_pages().flat_map(items))
    }

    /// Changes one by one, for ever. After an error the stream ends.
    pub fn follow_items(self) -> Pin<Box<dyn Stream<Item = Result<ItemChange>> + Send>> {
        Box::pin(self.follow_pages().flat_map(items))
    }

    fn stream(
        self,
        is_last: fn(&Page) -> bool,
    ) -> Pin<Box<dyn Stream<Item = Result<Page>> + Send>> {
        Box::pin(stream::unfold(Some(self), move |reader| async move {
            let mut reader = reader?;
            let page = reader.next_page().await;
            let goes_on = page.as_ref().is_ok_and(|page| !is_last(page));
            Some((page, goes_on.then_some(reader)))
        }))
    }

    /// Lets reads begin for cursors that have none under way, the longest untouched first.
    async fn start_reads(&mut self) -> Result<()> {
        if self.cursors.need_layout() {
            let layout = self.container.layout().await?;
            self.check_rid(&layout.rid)?;
            let layout = match self.cursors.place(&layout) {
                Ok(()) => layout,
                // What is remembered may be older than what the caller knows.
                Err(_) => {
                    let layout = self.container.refresh_layout().await?;
                    self.check_rid(&layout.rid)?;
                    self.cursors.place(&layout)?;
                    layout
                }
            };
            layout.rid.clone_into(&mut self.rid);
        }
        let watches = self.options.wait.is_some();
        let most = if watches { WATCHED_MAX } else { self.options.max_concurrency };
        while self.reading.len() < most
            && let Some(cursor) = self.cursors.next_idle(watches)
        {
            let reading = self.read(cursor);
            self.reading.push(reading);
        }
        Ok(())
    }

    /// A read of one cursor; it holds all it needs, and changes nothing.
    fn read(&self, cursor: Cursor) -> Reading {
        let is_pinning = cursor.start == Start::Now;
        let is_watched = self.cursors.len() <= WATCHED_MAX && !is_pinning;
        let pause = cursor.pause.then_some(self.options.poll_interval);
        let read = FeedRead {
            scope: cursor.scope,
            start: cursor.start,
            mode: self.options.mode,
            max_item_count: self.options.max_item_count,
            wait: self.options.wait.filter(|_| is_watched),
            session_token: self.options.session_token.clone(),
            rid: Some(self.rid.clone()),
        };
        let container = self.container.clone();
        Box::pin(async move {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            (cursor.id, container.read_changes(&read).await)
        })
    }

    /// Takes in what a read has brought. A page, if there is one to hand out.
    async fn take(&mut self, id: u64, result: Result<FeedPage>) -> Result<Option<Page>> {
        let page = match result {
            Ok(page) => page,
            Err(error) => {
                self.cursors.failed(id);
                if error.kind() != Kind::RangeGone {
                    return Err(error);
                }
                return self.find_heirs(id, error).await.map(|()| None);
            }
        };
        self.gone = 0;
        let span = self.cursors.advance(id, &page);
        if page.changes.is_empty() {
            return Ok(None);
        }
        Ok(Some(Page {
            changes: page.changes,
            is_caught_up: false,
            continuation: self.continuation(),
            span,
            range_id: page.range_id,
            etag: Some(page.etag),
            lsn: page.lsn,
            session_token: page.session_token,
            request_charge: page.request_charge,
            headers: page.headers,
        }))
    }

    /// After a split or a merge: the same position, in the ranges that there are now.
    async fn find_heirs(&mut self, id: u64, error: Error) -> Result<()> {
        self.gone += 1;
        if self.gone > GONE_MAX {
            self.gone = 0;
            return Err(error);
        }
        if self.gone > 1 {
            tokio::time::sleep(GONE_PAUSE * self.gone).await;
        }
        let layout = self.container.refresh_layout().await?;
        self.check_rid(&layout.rid)?;
        tracing::debug!(link = self.container.path(), %error, "a range is gone; its heirs are read");
        self.cursors.cut(id, &layout);
        Ok(())
    }

    fn check_rid(&self, found: &str) -> Result<()> {
        if self.rid.is_empty() || found.is_empty() || self.rid == found {
            return Ok(());
        }
        Err(Error::new(
            Kind::ContainerReplaced,
            format!(
                "{} was deleted and created again (its rid was {} and is {found}): \
                 what was read of the old one says nothing about the new one",
                self.container.path(),
                self.rid
            ),
        ))
    }

    fn nothing_new(&mut self) -> Page {
        let is_caught_up = self.cursors.are_caught_up();
        self.cursors.look_again();
        Page {
            changes: Vec::new(),
            is_caught_up,
            continuation: self.continuation(),
            span: None,
            range_id: None,
            etag: None,
            lsn: None,
            session_token: None,
            request_charge: None,
            headers: HeaderMap::new(),
        }
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Changes({} {})", self.container.path(), self.continuation())
    }
}

/// The changes of a page, one by one.
fn items(page: Result<Page>) -> stream::Iter<std::vec::IntoIter<Result<ItemChange>>> {
    let page = match page {
        Ok(page) => page,
        Err(error) => return stream::iter(vec![Err(error)]),
    };
    let last = page.changes.len().saturating_sub(1);
    let mut continuation = Some(page.continuation);
    let changes = page.changes.into_iter().enumerate().map(|(n, change)| {
        let continuation = if n == last { continuation.take() } else { None };
        Ok(ItemChange { change, continuation })
    });
    stream::iter(changes.collect::<Vec<_>>())
}
