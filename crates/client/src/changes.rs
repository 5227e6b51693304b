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
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesUnordered, Stream};
use hyper::HeaderMap;
use tokio::time::Instant;

use self::change::Change;
use self::continuation::Continuation;
use self::cursor::{Cursor, Cursors};
use self::options::ChangeFeedOptions;
use self::read::{FeedPage, FeedRead};
use crate::container::Container;
use crate::error::{Error, Kind, Result};
use crate::layout::Layout;
use crate::range::FeedRange;
use crate::retry::Pauses;

/// How long a follower waits where its options do not say.
const FOLLOW_WAIT: Duration = Duration::from_secs(30);

type Reading = Pin<Box<dyn Future<Output = Brought> + Send>>;

/// What a read has brought.
struct Brought {
    id: u64,
    /// When the request was sent.
    asked_at: Instant,
    result: Result<FeedPage>,
}

/// A reader of changes.
pub struct Changes {
    container: Container,
    options: ChangeFeedOptions,
    cursors: Cursors,
    /// The rid that the container has had from the start.
    rid: String,
    reading: FuturesUnordered<Reading>,
    /// Pauses between looking for the heirs of ranges, while ranges are gone one after the other.
    gone: Option<Pauses>,
}

/// A page of changes, all from one range.
#[derive(Debug, Clone)]
pub struct Page {
    /// The changes, in their order.
    pub changes: Vec<Change>,
    /// Whether all that there was when the page was asked for has been read; then it has no
    /// changes. A page without changes that does not say so came because the wait was over.
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
        Ok(Changes {
            container,
            options,
            cursors,
            rid,
            reading: FuturesUnordered::new(),
            gone: None,
        })
    }
}

impl Changes {
    /// The next page. Without [`wait`](ChangeFeedOptions::wait) it comes at once, and if there is
    /// nothing new it says so; with it, after that time at the latest. Calling again after an error
    /// goes on where the reader was.
    pub async fn next_page(&mut self) -> Result<Page> {
        let began = Instant::now();
        let deadline = self.options.wait.and_then(|wait| began.checked_add(wait));
        loop {
            if deadline.is_none() && self.cursors.is_round_over(began) {
                return Ok(self.nothing_new(began));
            }
            self.start_reads().await?;
            let next = match deadline {
                Some(at) => tokio::time::timeout_at(at, self.reading.next()).await.ok().flatten(),
                None => self.reading.next().await,
            };
            let Some(brought) = next else { return Ok(self.nothing_new(began)) };
            if let Some(page) = self.take(brought).await? {
                return Ok(page);
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
            if let Some(brought) = self.reading.next().await {
                self.take(brought).await?;
            }
        }
    }

    /// Where the reader is.
    pub fn continuation(&self) -> String {
        let continuation = Continuation {
            rid: self.rid.clone(),
            mode: self.options.mode,
            key: self.options.partition_key.clone(),
            range_id: self.cursors.named_range().map(str::to_owned),
            ranges: self.cursors.positions(),
        };
        continuation.write()
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
            let layout = self.place().await?;
            layout.rid.clone_into(&mut self.rid);
        }
        let (most, watches) = (self.options.max_concurrency, self.options.wait.is_some());
        while let Some(cursor) = self.cursors.next_read(most, watches) {
            let reading = self.read(cursor);
            self.reading.push(reading);
        }
        Ok(())
    }

    /// Puts what is wanted into ranges. What is remembered of them serves a reader that knows which
    /// container it reads; another might get those of a container that is gone.
    async fn place(&mut self) -> Result<Arc<Layout>> {
        if let Some(known) = self.container.known_layout()
            && !known.rid.is_empty()
            && known.rid == self.rid
            && self.cursors.place(&known).is_ok()
        {
            return Ok(known);
        }
        let layout = self.container.refresh_layout().await?;
        self.check_rid(&layout.rid)?;
        self.cursors.place(&layout)?;
        Ok(layout)
    }

    /// A read of one cursor; it holds all it needs, and changes nothing.
    fn read(&self, cursor: Cursor) -> Reading {
        let rest = cursor.rests.then_some(self.options.poll_interval);
        let read = FeedRead {
            scope: cursor.scope,
            start: cursor.start,
            mode: self.options.mode,
            max_item_count: self.options.max_item_count,
            wait: self.options.wait.filter(|_| cursor.waits),
            session_token: self.options.session_token.clone(),
            rid: Some(self.rid.clone()),
        };
        let container = self.container.clone();
        Box::pin(async move {
            if let Some(rest) = rest {
                tokio::time::sleep(rest).await;
            }
            let asked_at = Instant::now();
            let result = container.read_changes(&read).await;
            Brought { id: cursor.id, asked_at, result }
        })
    }

    /// Takes in what a read has brought. A page, if there is one to hand out.
    async fn take(&mut self, brought: Brought) -> Result<Option<Page>> {
        let Brought { id, asked_at, result } = brought;
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
        self.gone = None;
        let span = self.cursors.advance(id, &page, asked_at);
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
        // The first time there is no need to wait: the heirs are there already, as a rule.
        match &mut self.gone {
            None => self.gone = Some(self.container.pauses()),
            Some(pauses) => match pauses.next(None, 1.0) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => {
                    self.gone = None;
                    return Err(error);
                }
            },
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

    fn nothing_new(&self, since: Instant) -> Page {
        Page {
            changes: Vec::new(),
            is_caught_up: self.cursors.are_quiet(since),
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
