//! The change feed: each item once at its newest change, or every version, in commit order.
//!
//! A read is a forward scan in one view ([`stream`]). It starts after the reader's LSN and ends
//! with the LSN up to which the view is complete, so a reader that found nothing has moved on all
//! the same. Rows of one LSN are one transaction and are never parted. A reader whose position is
//! below what is kept is refused ([`floor`]): it would miss changes without knowing.

mod filter;
mod floor;
mod lag;
mod page;
mod position;
pub(crate) mod stream;

use std::pin::Pin;
use std::sync::Arc;

use model::epk::{Epk, EpkRange};
use model::token::{Position, Session};
use model::{Error, Result, charge};

use crate::Container;
use crate::api::{
    Answer, Changed, ChangesMark, ChangesMode, ChangesPage, ChangesRead, ChangesStart,
};
use crate::container::Span;
use crate::doomed::Doomed;
use crate::keys::Change;
use crate::listen::Listening;
use crate::partition::Partition;
use crate::version::Version;

pub use filter::ChangesFilter;
use filter::Looking;
use page::Gathered;
use position::{check_covered, position_of};
use stream::{Kind, Merged, before};

/// Rows that a filter looks at before others may go on.
const ROWS_BETWEEN_BREATHS: usize = 256;

impl Container {
    /// The next page of changes.
    pub async fn read_changes(
        &self,
        read: &ChangesRead,
        session: Option<&Session>,
    ) -> Result<Answer<ChangesPage>> {
        self.read_changes_where(read, None, session).await
    }

    /// The next page of changes that a filter lets pass. The position moves past the others.
    pub async fn read_changes_where(
        &self,
        read: &ChangesRead,
        filter: Option<&ChangesFilter>,
        session: Option<&Session>,
    ) -> Result<Answer<ChangesPage>> {
        self.check_alive()?;
        let mut parts = self.parts_of(read).await?;
        let first = parts
            .first()
            .map_or_else(|| self.partitions()[0].clone(), |part| part.partition.clone());
        if let Some(throttled) = self.throttle(&first) {
            return Ok(throttled);
        }
        for part in &parts {
            part.partition.check_session(session)?;
        }
        let lsn = first.lsn();
        let mut page = Gathered::new(read.items);
        let mut result = Ok(());
        let life = Life { default_ttl: self.definition().default_ttl, now: self.env.now_seconds() };
        let asked = parts.clone();
        let looking = filter.map(ChangesFilter::begin);
        for part in &mut parts {
            result = part.read(read.mode, looking.as_ref(), &mut page, &life).await;
            if result.is_err() || page.full {
                break;
            }
        }
        // What is kept may have been cut under the reader.
        let result = result.and_then(|()| floor::check(read.mode, &asked));
        let charge = charge::feed(page.bytes, page.changes.len());
        let more = page.full;
        let result = result.map(|()| ChangesPage {
            position: position_of(parts),
            changes: page.changes,
            more,
        });
        Ok(self.charged(Answer { at: first.at(lsn, None), charge, retry_after_ms: None, result }))
    }

    /// What a read of latest versions depends on. `None` where it depends on more: on the time, or
    /// on how much was read before.
    pub fn changes_mark(&self) -> Option<ChangesMark> {
        if self.rate.is_some() || self.definition().default_ttl.is_some() {
            return None;
        }
        let partitions = self.partitions();
        Some(ChangesMark(partitions.iter().map(|one| (one.number, one.lsn())).collect()))
    }

    /// The next page that has changes; waits for them if need be. The caller sets the limit:
    /// dropping the future is all it takes to stop.
    pub async fn await_changes(
        &self,
        read: &ChangesRead,
        filter: Option<&ChangesFilter>,
        session: Option<&Session>,
    ) -> Result<Answer<ChangesPage>> {
        let mut read = read.clone();
        loop {
            // Listened for before reading: what can be read from here on wakes us, and so does a
            // change of the layout, after which others have what we wait for.
            let (layouts, seen) = (self.layouts(), self.layouts().seen());
            let mut bells: Vec<_> = self
                .spans_of(&read.scope)?
                .iter()
                .map(|span| span.partition.listeners.listen(&span.keys))
                .collect();
            let answer = self.read_changes_where(&read, filter, session).await?;
            let Ok(page) = &answer.result else { return Ok(answer) };
            if !page.changes.is_empty() {
                return Ok(answer);
            }
            read.start = ChangesStart::After(page.position.clone());
            if page.more {
                continue;
            }
            any_rung(&mut bells, layouts.changed(seen)).await;
        }
    }

    /// What a reader has still to read, part by part of the key space, next to serve first.
    async fn parts_of(&self, read: &ChangesRead) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let spans = self.spans_of(&read.scope)?;
        let (after, began) = match &read.start {
            ChangesStart::After(Position::Copy { began, at }) => (Some(&**at), Some(&**began)),
            ChangesStart::After(position) => (Some(position), None),
            _ => (None, None),
        };
        if let Some(position @ Position::Parts(pieces)) = after {
            for (piece, lsn) in pieces {
                for span in &spans {
                    if let Some(keys) = span.keys.intersect(piece) {
                        parts.push(Part::new(span.partition.clone(), keys, *lsn));
                    }
                }
            }
            check_covered(position, spans.iter().map(|span| &span.keys))?;
        } else {
            for span in spans {
                for keys in starts(&span, read) {
                    let mut part = Part::new(span.partition.clone(), keys, 0);
                    part.start(read, after).await?;
                    parts.push(part);
                }
            }
        }
        if let Some(began) = began.filter(|_| tells_deletes(read.mode)) {
            for part in &mut parts {
                let pieces = began.within(&part.keys);
                part.began = pieces.iter().map(|(_, lsn)| *lsn).min().unwrap_or(0);
            }
        }
        parts.iter().try_for_each(Part::check)?;
        floor::check(read.mode, &parts)?;
        Ok(parts)
    }
}

/// The keys that a reader begins with apart: each piece of merged partitions at its own floor.
fn starts(span: &Span, read: &ChangesRead) -> Vec<EpkRange> {
    let pieces = &span.partition.pieces;
    let floors = read.mode != ChangesMode::Latest { deletes: false };
    let begins = matches!(read.start, ChangesStart::Beginning | ChangesStart::Since(_));
    if !floors || !begins || pieces.is_empty() {
        return vec![span.keys.clone()];
    }
    pieces.iter().filter_map(|piece| piece.keys.intersect(&span.keys)).collect()
}

/// Resolves when any bell is rung, or the layout has changed.
async fn any_rung(bells: &mut [Listening], layout: impl Future<Output = ()>) {
    let mut layout = std::pin::pin!(layout);
    std::future::poll_fn(|context| {
        let rung = bells.iter_mut().any(|bell| Pin::new(bell).poll(context).is_ready());
        if rung || layout.as_mut().poll(context).is_ready() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

/// A part of the key space, and how far its reader has come.
#[derive(Clone)]
struct Part {
    partition: Arc<Partition>,
    keys: EpkRange,
    /// All keys of the partition are wanted.
    whole: bool,
    lsn: u64,
    /// Where the partition was when a reader began at the beginning who wants to know of deletes.
    /// It has read nothing that was deleted before.
    began: u64,
}

impl Part {
    fn new(partition: Arc<Partition>, keys: EpkRange, lsn: u64) -> Self {
        let whole = keys.min <= partition.span.min && keys.max >= partition.span.max;
        Self { partition, keys, whole, lsn, began: 0 }
    }

    /// Goes to where a read starts.
    async fn start(&mut self, read: &ChangesRead, after: Option<&Position>) -> Result<()> {
        self.lsn = match (&read.start, after) {
            (ChangesStart::Beginning, _) if tells_deletes(read.mode) => {
                self.began = self.partition.lsn();
                0
            }
            (ChangesStart::Beginning, _) => self.floor(read.mode).lsn,
            (ChangesStart::Now, _) => self.partition.lsn(),
            (ChangesStart::Since(ts_ms), _) => self.since(read.mode, *ts_ms).await?,
            (ChangesStart::After(_), Some(Position::Lsn(lsn))) => *lsn,
            (ChangesStart::After(_), _) => unreachable!("a position of parts has its own parts"),
        };
        Ok(())
    }

    /// What this reader must be told of lies after this LSN.
    fn safe(&self) -> u64 {
        self.lsn.max(self.began)
    }

    fn check(&self) -> Result<()> {
        let newest = self.partition.lsn().max(self.partition.head().lsn);
        if self.safe() <= newest {
            return Ok(());
        }
        Err(Error::bad_request(format!(
            "the etag is at LSN {}, but range {} is only at {newest}: it is from another container, or the data was reset",
            self.safe(),
            self.partition.range
        )))
    }

    /// Adds the changes after the reader's LSN to a page, and moves the LSN on.
    async fn read(
        &mut self,
        mode: ChangesMode,
        filter: Option<&Looking<'_>>,
        page: &mut Gathered,
        life: &Life,
    ) -> Result<()> {
        let (complete, view, doomed) = self.partition.look().await?;
        let mut rows = Merged::new(kinds(mode), self.lsn, complete);
        let mut whole = page.begin_part(self.lsn);
        while let Some(row) = rows.next(&*view, page.room()).await? {
            if page.ends_before(row.lsn) {
                page.full = true;
                return Ok(());
            }
            if row.lsn != self.lsn {
                whole = page.reach(self.lsn);
            }
            page.examined += 1;
            self.lsn = row.lsn;
            page.last_lsn = row.lsn;
            match (self.changed(&row, life, &doomed)?, filter) {
                (None, _) => {}
                (Some(changed), None) => page.add(changed),
                (Some(changed), Some(filter)) => {
                    filter.apply(changed)?.into_iter().for_each(|changed| page.add(changed));
                    if page.examined.is_multiple_of(ROWS_BETWEEN_BREATHS) {
                        tokio::task::yield_now().await;
                    }
                }
            }
            if page.overflows(&whole) {
                // This transaction is for the next page.
                self.lsn = page.go_back(&whole);
                return Ok(());
            }
        }
        // The view has every commit up to here, and all of them have been looked at.
        self.lsn = self.lsn.max(complete);
        Ok(())
    }

    /// A row as the reader gets it, if it is for this reader.
    fn changed(&self, row: &stream::Row, life: &Life, doomed: &Doomed) -> Result<Option<Changed>> {
        if row.kind == Kind::Live {
            let change = Change::decode(&row.stored)?;
            let wanted = self.covers(&change.item_key)
                && !change.expired(life.default_ttl, life.now)
                && !doomed.hides(&change.item_key, row.lsn);
            return Ok(wanted.then(|| Changed {
                body: change.body,
                lsn: row.lsn,
                ts_ms: change.ts_ms,
                detail: None,
            }));
        }
        let version = Version::decode(&row.stored)?;
        if self.covers(&version.item_key) { version.changed(row.lsn).map(Some) } else { Ok(None) }
    }

    fn covers(&self, item_key: &[u8]) -> bool {
        if self.whole {
            return true;
        }
        let keys = &self.keys;
        item_key >= keys.min.significant()
            && (keys.max == Epk::max() || item_key < keys.max.significant())
    }

    /// The LSN just before the first change at or after a time.
    async fn since(&self, mode: ChangesMode, ts_ms: u64) -> Result<u64> {
        let floor = self.floor(mode);
        if floor.lsn > 0 && ts_ms <= floor.ts_ms {
            // Below the floor: [`floor::check`] refuses it.
            return Ok(floor.lsn - 1);
        }
        let (complete, view) = self.partition.view();
        before(&*view, kinds(mode), floor.lsn, complete, self.partition.seam, ts_ms).await
    }
}

fn tells_deletes(mode: ChangesMode) -> bool {
    mode == ChangesMode::Latest { deletes: true }
}

/// When items end.
struct Life {
    default_ttl: Option<i32>,
    now: u32,
}

/// What a reader's changes are put together from.
fn kinds(mode: ChangesMode) -> &'static [Kind] {
    match mode {
        ChangesMode::Latest { deletes: false } => &[Kind::Live],
        ChangesMode::Latest { deletes: true } => &[Kind::Live, Kind::Deleted],
        ChangesMode::AllVersions => &[Kind::Logged],
    }
}
