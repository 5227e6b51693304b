//! Rows of changes in commit order, fetched a chunk at a time from one view.
//!
//! `Feed` is read from one block with live rows to the next ([`crate::keys`]); the log and what
//! deleted items left behind have no holes worth stepping over, and are read as they lie.

use std::ops::Bound;

use bytes::Bytes;
use kv::{Keyspace, Scan, View};
use model::{Result, limits};

use crate::api::storage;
use crate::keys::{self, Change, Seam};
use crate::partition::head_of;
use crate::version::Version;

/// Rows of one scan: a page of a thousand, and the row behind it that tells where it ends.
const CHUNK_ROWS: usize = 1_024;
/// Blocks looked up at once.
const CHUNK_BLOCKS: usize = 256;
/// A reader this close to the end looks for no blocks: there is nothing much to step over.
const NEAR_LSNS: u64 = 4_096;

/// Where rows of changes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `Feed`: the newest version of each item.
    Live,
    /// What deleted items left behind.
    Deleted,
    /// `Log`: every version.
    Logged,
}

impl Kind {
    fn keyspace(self) -> Keyspace {
        match self {
            Self::Live => Keyspace::Feed,
            Self::Deleted => Keyspace::Index,
            Self::Logged => Keyspace::Log,
        }
    }

    /// The part of a row's key that is its place in the order of commits.
    fn place(self, key: &Bytes) -> Bytes {
        if self == Self::Deleted { key.slice(1..) } else { key.clone() }
    }

    fn after(self, lsn: u64) -> Bound<Bytes> {
        let start = keys::feed_start(lsn + 1);
        Bound::Included(match self {
            Self::Deleted => keys::tombstone_start(&start),
            Self::Live | Self::Logged => start,
        })
    }

    fn end(self) -> Bound<Bytes> {
        match self {
            Self::Deleted => Bound::Excluded(keys::TOMBSTONES.1),
            Self::Live | Self::Logged => Bound::Unbounded,
        }
    }

    /// When the change of a row was made.
    pub fn ts_ms(self, stored: &Bytes) -> Result<u64> {
        Ok(match self {
            Self::Live => Change::decode(stored)?.ts_ms,
            Self::Deleted | Self::Logged => Version::decode(stored)?.ts_ms,
        })
    }
}

/// A row of changes.
pub(crate) struct Row {
    pub kind: Kind,
    pub lsn: u64,
    /// The LSN, the partition's number and the place within the commit.
    pub place: Bytes,
    pub stored: Bytes,
}

/// Rows of several kinds in one order.
pub(crate) struct Merged {
    streams: Vec<Stream>,
}

impl Merged {
    /// The rows after an LSN, in a view that is complete up to another.
    pub fn new(kinds: &[Kind], after: u64, complete: u64) -> Self {
        Self { streams: kinds.iter().map(|kind| Stream::new(*kind, after, complete)).collect() }
    }

    /// The next row. `rows` is how many the caller may still want.
    pub async fn next(&mut self, view: &dyn View, rows: usize) -> Result<Option<Row>> {
        if let [stream] = &mut self.streams[..] {
            let kind = stream.kind;
            let Some((key, stored)) = stream.next(view, rows).await? else { return Ok(None) };
            let place = if kind == Kind::Live { key } else { kind.place(&key) };
            return Ok(Some(Row { kind, lsn: keys::lsn_of(&place)?, place, stored }));
        }
        let mut first: Option<(usize, Bytes)> = None;
        for (n, stream) in self.streams.iter_mut().enumerate() {
            let Some(place) = stream.peek(view, rows).await? else { continue };
            if first.as_ref().is_none_or(|(_, least)| place < *least) {
                first = Some((n, place));
            }
        }
        let Some((n, place)) = first else { return Ok(None) };
        let stored = self.streams[n].take();
        Ok(Some(Row { kind: self.streams[n].kind, lsn: keys::lsn_of(&place)?, place, stored }))
    }
}

/// Rows of one kind.
struct Stream {
    kind: Kind,
    runs: Runs,
    /// What is left of the run being read.
    run: Option<(Bound<Bytes>, Bound<Bytes>)>,
    rows: std::iter::Peekable<std::vec::IntoIter<(Bytes, Bytes)>>,
}

impl Stream {
    fn new(kind: Kind, after: u64, complete: u64) -> Self {
        let runs = match kind {
            Kind::Live => Runs::Blocks(Blocks::new(after, complete)),
            Kind::Deleted | Kind::Logged => Runs::One(Some((kind.after(after), kind.end()))),
        };
        Self { kind, runs, run: None, rows: Vec::new().into_iter().peekable() }
    }

    /// The place of the next row, which is then there to be taken.
    async fn peek(&mut self, view: &dyn View, rows: usize) -> Result<Option<Bytes>> {
        self.fill(view, rows).await?;
        Ok(self.rows.peek().map(|(key, _)| self.kind.place(key)))
    }

    /// The next row, with its key.
    async fn next(&mut self, view: &dyn View, rows: usize) -> Result<Option<(Bytes, Bytes)>> {
        if self.rows.len() == 0 {
            self.fill(view, rows).await?;
        }
        Ok(self.rows.next())
    }

    /// Reads on until there is a row, or no more.
    async fn fill(&mut self, view: &dyn View, rows: usize) -> Result<()> {
        loop {
            if self.rows.peek().is_some() {
                return Ok(());
            }
            let Some((from, to)) = self.run.take() else {
                self.run = self.runs.next(view).await?;
                if self.run.is_none() {
                    return Ok(());
                }
                continue;
            };
            let scan = Scan {
                keyspace: self.kind.keyspace(),
                from,
                to: to.clone(),
                reverse: false,
                rows: rows.min(CHUNK_ROWS),
                bytes: limits::PAGE_BYTES,
                keys_only: false,
            };
            let chunk = view.scan(scan).await.map_err(storage)?;
            self.run = chunk.resume.map(|resume| (Bound::Excluded(resume), to));
            self.rows = chunk.rows.into_iter().peekable();
        }
    }

    fn take(&mut self) -> Bytes {
        self.rows.next().map(|(_, stored)| stored).unwrap_or_default()
    }
}

/// The runs of keys that a stream reads.
enum Runs {
    One(Option<(Bound<Bytes>, Bound<Bytes>)>),
    Blocks(Blocks),
}

impl Runs {
    async fn next(&mut self, view: &dyn View) -> Result<Option<(Bound<Bytes>, Bound<Bytes>)>> {
        match self {
            Self::One(run) => Ok(run.take()),
            Self::Blocks(blocks) => blocks.next(view).await,
        }
    }
}

/// Runs of `Feed` that hold live rows, in order.
struct Blocks {
    /// Everything up to this LSN is done with.
    after: u64,
    /// Up to where the reader knows the view to be complete.
    complete: u64,
    done: bool,
}

impl Blocks {
    fn new(after: u64, complete: u64) -> Self {
        Self { after, complete, done: false }
    }

    async fn next(&mut self, view: &dyn View) -> Result<Option<(Bound<Bytes>, Bound<Bytes>)>> {
        if self.done {
            return Ok(None);
        }
        let from = Kind::Live.after(self.after);
        if self.complete.saturating_sub(self.after) <= NEAR_LSNS {
            self.done = true;
            return Ok(Some((from, Bound::Unbounded)));
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
            // What is left is the block of the newest commit, which has no row yet.
            self.done = true;
            let (start, _) = keys::block_span(&keys::block_key(head_of(view).await?.lsn))?;
            let start = keys::feed_start(start.max(self.after + 1));
            return Ok(Some((Bound::Included(start), Bound::Unbounded)));
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
        Ok(Some((Bound::Included(keys::feed_start(start)), to)))
    }
}

/// An LSN with all rows after `after` and up to it before a time, and all of that time or later
/// behind it.
pub(crate) async fn before(
    view: &dyn View,
    kinds: &[Kind],
    after: u64,
    complete: u64,
    seam: Option<Seam>,
    ts_ms: u64,
) -> Result<u64> {
    let mut lsn = after;
    if let Some(seam) = seam.filter(|seam| after < seam.lsn) {
        if let Some(row) = first_since(view, kinds, after, seam, ts_ms).await? {
            return Ok(row.lsn.saturating_sub(1));
        }
        lsn = seam.lsn;
    }
    let mut last = lsn;
    for kind in kinds {
        last = last.max(before_in_order(view, *kind, lsn, complete, ts_ms).await?);
    }
    Ok(last)
}

/// The first row of merged partitions that is of a time or later. Their times go back and forth, so
/// older ones may follow; nothing is left out.
async fn first_since(
    view: &dyn View,
    kinds: &[Kind],
    after: u64,
    seam: Seam,
    ts_ms: u64,
) -> Result<Option<Row>> {
    if ts_ms > seam.ts_ms {
        return Ok(None);
    }
    let mut rows = Merged::new(kinds, after, seam.lsn);
    while let Some(row) = rows.next(view, CHUNK_ROWS).await? {
        if row.lsn > seam.lsn {
            break;
        }
        if row.kind.ts_ms(&row.stored)? >= ts_ms {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The LSN of the last row of a kind before a time, or `after` where there is none.
async fn before_in_order(
    view: &dyn View,
    kind: Kind,
    after: u64,
    complete: u64,
    ts_ms: u64,
) -> Result<u64> {
    let (mut low, mut high) = (after, complete.max(after));
    // Times never go back along the feed, so the first row after an LSN tells which way to go.
    while low < high {
        let middle = low + (high - low) / 2;
        match first_after(view, kind, middle, complete).await? {
            Some(row) if kind.ts_ms(&row.stored)? < ts_ms => low = row.lsn.min(high),
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The first row of a kind after an LSN.
pub(crate) async fn first_after(
    view: &dyn View,
    kind: Kind,
    lsn: u64,
    complete: u64,
) -> Result<Option<Row>> {
    Merged::new(&[kind], lsn, complete).next(view, 1).await
}

/// Not before the time of any row of a kind after an LSN and up to another; `None` where there are
/// none. Rows of merged partitions are looked at one by one.
pub(crate) async fn newest_ts(
    view: &dyn View,
    kind: Kind,
    after: u64,
    up_to: u64,
    seam: Option<Seam>,
) -> Result<Option<u64>> {
    let mut newest = None;
    if let Some(seam) = seam.filter(|seam| after < seam.lsn) {
        let end = seam.lsn.min(up_to);
        let mut rows = Merged::new(&[kind], after, end);
        while let Some(row) = rows.next(view, CHUNK_ROWS).await?.filter(|row| row.lsn <= end) {
            newest = newest.max(Some(kind.ts_ms(&row.stored)?));
        }
    }
    let scan = Scan {
        keyspace: kind.keyspace(),
        from: kind.after(after),
        to: match kind.after(up_to) {
            Bound::Included(key) => Bound::Excluded(key),
            bound => bound,
        },
        reverse: true,
        rows: 1,
        bytes: usize::MAX,
        keys_only: false,
    };
    let chunk = view.scan(scan).await.map_err(storage)?;
    let last = chunk.rows.first().map(|(_, stored)| kind.ts_ms(stored)).transpose()?;
    Ok(newest.max(last))
}
