//! The change feed, latest version: each item once, at its newest change, in commit order.
//!
//! A read is a forward scan of `Feed` in one view. It starts after the reader's LSN, steps from
//! one block with live rows to the next ([`crate::keys`]), and ends with the LSN up to which the
//! view is complete, so a reader that found nothing has moved on all the same. Rows of one LSN
//! are one transaction and are never parted.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Keyspace, Scan, View};
use model::epk::{Epk, EpkRange};
use model::token::{Position, Session};
use model::{Error, Result, charge, limits};
use tokio::sync::watch;

use crate::Container;
use crate::api::{Answer, Changed, ChangesPage, ChangesRead, ChangesStart, storage};
use crate::keys::{self, Change};
use crate::partition::Partition;

/// Rows looked at for one page; a narrow scope ends its page here with a position further on.
const ROWS_EXAMINED: usize = 20_000;
/// Rows of one scan.
const CHUNK_ROWS: usize = 1_000;
/// Blocks looked up at once.
const CHUNK_BLOCKS: usize = 256;
/// A reader this close to the end looks for no blocks: there is nothing much to step over.
const NEAR_LSNS: u64 = 4_096;

impl Container {
    /// The next page of changes.
    pub async fn read_changes(
        &self,
        read: &ChangesRead,
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
        for part in &mut parts {
            result =
                part.read(&mut page, self.definition().default_ttl, self.env.now_seconds()).await;
            if result.is_err() || page.full {
                break;
            }
        }
        let charge = charge::feed(page.bytes, page.changes.len());
        let result =
            result.map(|()| ChangesPage { position: position_of(parts), changes: page.changes });
        Ok(self.charged(Answer { at: first.at(lsn, None), charge, retry_after_ms: None, result }))
    }

    /// The next page that has changes; waits for them if need be. The caller sets the limit:
    /// dropping the future is all it takes to stop.
    pub async fn await_changes(
        &self,
        read: &ChangesRead,
        session: Option<&Session>,
    ) -> Result<Answer<ChangesPage>> {
        let mut read = read.clone();
        loop {
            // Looked at before reading: what becomes durable from here on wakes us, and so does a
            // change of the layout, after which others have what we wait for.
            let mut layouts = self.layouts();
            let mut durable: Vec<_> = self
                .spans_of(&read.scope)?
                .iter()
                .map(|span| span.partition.owner.durable())
                .collect();
            for receiver in &mut durable {
                receiver.mark_unchanged();
            }
            let answer = self.read_changes(&read, session).await?;
            let Ok(page) = &answer.result else { return Ok(answer) };
            if !page.changes.is_empty() {
                return Ok(answer);
            }
            read.start = ChangesStart::After(page.position.clone());
            any_changed(&mut durable, &mut layouts).await;
        }
    }

    /// What a reader has still to read, part by part of the key space, next to serve first.
    async fn parts_of(&self, read: &ChangesRead) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let spans = self.spans_of(&read.scope)?;
        if let ChangesStart::After(position @ Position::Parts(pieces)) = &read.start {
            for (piece, lsn) in pieces {
                for span in &spans {
                    if let Some(keys) = span.keys.intersect(piece) {
                        parts.push(Part { partition: span.partition.clone(), keys, lsn: *lsn });
                    }
                }
            }
            check_covered(position, spans.iter().map(|span| &span.keys))?;
        } else {
            for span in spans {
                let lsn = match &read.start {
                    ChangesStart::Beginning => 0,
                    ChangesStart::Now => span.partition.lsn(),
                    ChangesStart::Since(ts_ms) => before(&span.partition, *ts_ms).await?,
                    ChangesStart::After(Position::Lsn(lsn)) => *lsn,
                    ChangesStart::After(Position::Parts(_)) => unreachable!("handled above"),
                };
                parts.push(Part { partition: span.partition, keys: span.keys, lsn });
            }
        }
        parts.iter().try_for_each(Part::check)?;
        Ok(parts)
    }
}

/// A position of another scope would silently leave out what it does not mention.
fn check_covered<'a>(position: &Position, spans: impl Iterator<Item = &'a EpkRange>) -> Result<()> {
    for span in spans {
        let mut covered = position.within(span);
        covered.sort_by(|(a, _), (b, _)| a.min.cmp(&b.min));
        let mut reached = span.min.clone();
        for (part, _) in &covered {
            if part.min > reached {
                break;
            }
            reached = part.max.clone();
        }
        if reached < span.max {
            return Err(Error::bad_request(
                "the etag is of a feed of another scope: it does not cover all that is asked for; \
                 send it with the scope it was given for",
            ));
        }
    }
    Ok(())
}

/// The next position: what was not served fully stays in front of what was.
fn position_of(parts: Vec<Part>) -> Position {
    match &parts[..] {
        [part] => Position::Lsn(part.lsn),
        _ => {
            // The part served last goes to the end, so that a busy one does not starve the others.
            let mut pieces: Vec<(EpkRange, u64)> =
                parts.into_iter().map(|part| (part.keys, part.lsn)).collect();
            if !pieces.is_empty() {
                pieces.rotate_left(1);
            }
            Position::Parts(pieces)
        }
    }
}

/// Resolves when any of the receivers has something new.
async fn any_changed(
    receivers: &mut [watch::Receiver<kv::CommitNo>],
    layouts: &mut watch::Receiver<u64>,
) {
    let mut waiting: Vec<_> =
        receivers.iter_mut().map(|receiver| Box::pin(receiver.changed())).collect();
    let mut layout = std::pin::pin!(layouts.changed());
    std::future::poll_fn(|context| {
        // An error means that the partition is gone; the next read says so.
        let ready = waiting.iter_mut().any(|changed| changed.as_mut().poll(context).is_ready())
            || layout.as_mut().poll(context).is_ready();
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// A part of the key space, and how far its reader has come.
struct Part {
    partition: Arc<Partition>,
    keys: EpkRange,
    lsn: u64,
}

impl Part {
    fn check(&self) -> Result<()> {
        let newest = self.partition.lsn().max(self.partition.head().lsn);
        if self.lsn <= newest {
            return Ok(());
        }
        Err(Error::bad_request(format!(
            "the etag is at LSN {}, but range {} is only at {newest}: it is from another container, or the data was reset",
            self.lsn, self.partition.range
        )))
    }

    /// Adds the changes after the reader's LSN to a page, and moves the LSN on.
    async fn read(
        &mut self,
        page: &mut Gathered,
        default_ttl: Option<i32>,
        now: u32,
    ) -> Result<()> {
        let (complete, view) = self.partition.view();
        let mut blocks = Blocks::new(self.lsn, complete);
        while let Some(run) = blocks.next(&*view).await? {
            let mut from = run.from;
            loop {
                let scan = Scan {
                    keyspace: Keyspace::Feed,
                    from,
                    to: run.to.clone(),
                    reverse: false,
                    rows: page.room().min(CHUNK_ROWS),
                    bytes: limits::PAGE_BYTES,
                    keys_only: false,
                };
                let chunk = view.scan(scan).await.map_err(storage)?;
                for (key, stored) in &chunk.rows {
                    let lsn = keys::feed_lsn(key)?;
                    if page.ends_before(lsn) {
                        page.full = true;
                        return Ok(());
                    }
                    let change = Change::decode(stored)?;
                    page.examined += 1;
                    self.lsn = lsn;
                    page.last_lsn = lsn;
                    if self.wants(&change, default_ttl, now) {
                        page.add(Changed { body: change.body, lsn, ts_ms: change.ts_ms });
                    }
                }
                match chunk.resume {
                    Some(resume) => from = Bound::Excluded(resume),
                    None => break,
                }
            }
        }
        // The view has every commit up to here, and all of them have been looked at.
        self.lsn = self.lsn.max(complete);
        Ok(())
    }

    fn wants(&self, change: &Change, default_ttl: Option<i32>, now: u32) -> bool {
        let keys = &self.keys;
        let within = change.item_key[..] >= *keys.min.significant()
            && (keys.max == Epk::max() || change.item_key[..] < *keys.max.significant());
        within && !change.expired(default_ttl, now)
    }
}

/// The LSN just before the first change at or after a time.
async fn before(partition: &Partition, ts_ms: u64) -> Result<u64> {
    let (complete, view) = partition.view();
    if let Some(lsn) = before_seam(partition, &*view, ts_ms).await? {
        return Ok(lsn);
    }
    let (mut low, mut high) = (partition.seam.map_or(0, |seam| seam.lsn), complete);
    // Times never go back along the feed, so the first live row after an LSN tells which way to go.
    while low < high {
        let middle = low + (high - low) / 2;
        match first_after(&*view, middle, complete).await? {
            Some((_, change)) if change.ts_ms < ts_ms => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The same among the rows of merged partitions, whose times go back and forth: the first of them
/// that is not too old. Nothing is left out; older changes of the other partitions may come along.
async fn before_seam(partition: &Partition, view: &dyn View, ts_ms: u64) -> Result<Option<u64>> {
    let Some(seam) = partition.seam.filter(|seam| ts_ms <= seam.ts_ms) else { return Ok(None) };
    let mut from = Bound::Unbounded;
    loop {
        let scan = Scan {
            keyspace: Keyspace::Feed,
            from,
            to: Bound::Excluded(keys::feed_start(seam.lsn + 1)),
            reverse: false,
            rows: CHUNK_ROWS,
            bytes: limits::PAGE_BYTES,
            keys_only: false,
        };
        let chunk = view.scan(scan).await.map_err(storage)?;
        for (key, stored) in &chunk.rows {
            if Change::decode(stored)?.ts_ms >= ts_ms {
                return Ok(Some(keys::feed_lsn(key)?.saturating_sub(1)));
            }
        }
        match chunk.resume {
            Some(resume) => from = Bound::Excluded(resume),
            None => return Ok(None),
        }
    }
}

async fn first_after(view: &dyn View, lsn: u64, complete: u64) -> Result<Option<(u64, Change)>> {
    let mut blocks = Blocks::new(lsn, complete);
    while let Some(run) = blocks.next(view).await? {
        let scan = Scan {
            keyspace: Keyspace::Feed,
            from: run.from,
            to: run.to,
            reverse: false,
            rows: 1,
            bytes: usize::MAX,
            keys_only: false,
        };
        let chunk = view.scan(scan).await.map_err(storage)?;
        if let Some((key, stored)) = chunk.rows.first() {
            return Ok(Some((keys::feed_lsn(key)?, Change::decode(stored)?)));
        }
    }
    Ok(None)
}

/// Runs of `Feed` that hold live rows, in order.
struct Blocks {
    /// Everything up to this LSN is done with.
    after: u64,
    /// Up to where the reader knows the view to be complete.
    complete: u64,
    done: bool,
}

/// A run of keys in `Feed`.
struct Run {
    from: Bound<Bytes>,
    to: Bound<Bytes>,
}

impl Blocks {
    fn new(after: u64, complete: u64) -> Self {
        Self { after, complete, done: false }
    }

    async fn next(&mut self, view: &dyn View) -> Result<Option<Run>> {
        if self.done {
            return Ok(None);
        }
        let from = Bound::Included(keys::feed_start(self.after + 1));
        if self.complete.saturating_sub(self.after) <= NEAR_LSNS {
            self.done = true;
            return Ok(Some(Run { from, to: Bound::Unbounded }));
        }
        let scan = Scan {
            keyspace: Keyspace::Index,
            from: Bound::Included(keys::block_key(self.after + 1)),
            to: Bound::Excluded(keys::BLOCKS_END),
            reverse: false,
            rows: CHUNK_BLOCKS,
            bytes: usize::MAX,
            keys_only: true,
        };
        let chunk = view.scan(scan).await.map_err(storage)?;
        let mut blocks = chunk.rows.iter().map(|(key, _)| keys::block_span(key));
        let Some(first) = blocks.next().transpose()? else {
            self.done = true;
            return Ok(None);
        };
        let start = first.0.max(self.after + 1);
        let mut end = first.1;
        for block in blocks {
            let (from, to) = block?;
            if from != end + 1 {
                break;
            }
            end = to;
        }
        self.after = end;
        let to = Bound::Excluded(keys::feed_start(end + 1));
        Ok(Some(Run { from: Bound::Included(keys::feed_start(start)), to }))
    }
}

/// A page being filled.
struct Gathered {
    changes: Vec<Changed>,
    bytes: usize,
    wanted: usize,
    examined: usize,
    last_lsn: u64,
    full: bool,
}

impl Gathered {
    fn new(items: Option<usize>) -> Self {
        let wanted = items.unwrap_or(limits::PAGE_ITEMS_DEFAULT).clamp(1, limits::PAGE_ITEMS);
        Self { changes: Vec::new(), bytes: 0, wanted, examined: 0, last_lsn: 0, full: false }
    }

    /// Rows worth asking for: one more tells whether the last transaction has ended.
    fn room(&self) -> usize {
        (self.wanted + 1).saturating_sub(self.changes.len()).max(16)
    }

    /// Whether a row of this LSN is for the next page.
    fn ends_before(&self, lsn: u64) -> bool {
        let enough = self.changes.len() >= self.wanted
            || self.bytes >= limits::PAGE_BYTES
            || self.examined >= ROWS_EXAMINED;
        enough && lsn != self.last_lsn
    }

    fn add(&mut self, change: Changed) {
        self.bytes += change.body.len();
        self.changes.push(change);
    }
}
