//! What a query reads: documents by key, and index entries in the order of their values.
//!
//! The engine implements [`Source`] for the scope of one request: a logical partition, a range, or
//! a whole container. Over several partitions it answers as one: documents in the order of their
//! keys, entries in the order of values and then keys ([`merge`] puts sorted lists together).
//! Queries see nothing else of storage, so a position in a scan holds across splits.

use std::fmt;
use std::future::Future;
use std::ops::Bound;

use bytes::Bytes;
use model::Result;

mod merge;
mod path;

pub use merge::merge;
pub use path::{IndexPath, PathStep};

/// A document and the key by which it is found again. Keys order documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The key: opaque bytes.
    pub key: Bytes,
    /// The stored text: one JSON object.
    pub body: Bytes,
}

/// An index entry: a value and the item that has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The sort keys of the indexed values, one after the other (`value::sort_key_into`).
    pub value: Bytes,
    /// The key of the item.
    pub item: Bytes,
}

/// A word in the text of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// The key of the item.
    pub item: Bytes,
    /// How often the text has the word.
    pub count: u32,
    /// How many words the text has in all.
    pub length: u32,
}

/// All texts at a path, which words are weighed against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Texts {
    /// How many items have a text there.
    pub texts: u64,
    /// How many words those have together.
    pub words: u64,
}

/// Some rows, and whether there are more after them.
#[derive(Debug, Clone)]
pub struct Chunk<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether a further read would find more.
    pub more: bool,
}

/// Some documents in no order that matters, and the place behind them.
#[derive(Debug, Clone)]
pub struct Heap {
    /// The documents.
    pub rows: Vec<Document>,
    /// Where to go on; none at the end.
    pub next: Option<Bytes>,
}

/// A stretch of values, as bounds on their sort keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub from: Bound<Bytes>,
    /// Where it ends.
    pub to: Bound<Bytes>,
}

/// What an index is asked for.
///
/// Contract of range indexes: an item has one entry for each different value at the path, for
/// arrays and objects too (their sort keys hold a digest), and none where the path is undefined.
/// `/a/?` is the value itself, `/a/[]/?` the elements of the array there.
#[derive(Debug, Clone, PartialEq)]
pub enum Scan {
    /// Entries of a range index: values in the range, in order or in reverse order.
    Range {
        /// The path.
        path: IndexPath,
        /// The values.
        range: KeyRange,
        /// Largest first; then the keys of items are reversed too.
        reverse: bool,
    },
    /// Entries of a composite index in its own order (a descending path has its sort key's bytes
    /// inverted), undefined values included.
    Composite {
        /// Which one: one of [`Source::composites`].
        columns: Composite,
        /// The values, as concatenated sort keys, or the beginnings of such.
        range: KeyRange,
        /// Last first.
        reverse: bool,
    },
    /// Items whose geometry at the path may touch a box; more may come than do. No order.
    Spatial {
        /// The path.
        path: IndexPath,
        /// The box.
        bounds: Bounds,
    },
    /// Items whose text at the path has a word, after tokenising and stemming. Ordered by key.
    Word {
        /// The path.
        path: IndexPath,
        /// The stemmed word.
        word: String,
    },
}

/// A box on the map, or on the plane. `west` may exceed `east` where it crosses the date line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Smallest longitude or x.
    pub west: f64,
    /// Smallest latitude or y.
    pub south: f64,
    /// Largest longitude or x.
    pub east: f64,
    /// Largest latitude or y.
    pub north: f64,
}

/// A composite index: its paths, and whether each is descending.
pub type Composite = Vec<(IndexPath, bool)>;

/// What the source says when a query stops to breathe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breath {
    /// Go on.
    GoOn,
    /// The time of this page is over: end it where it is.
    EndPage,
}

/// A value of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// The sort key of the value.
    pub value: Bytes,
    /// One of the items that have it.
    pub item: Bytes,
    /// How many entries have it.
    pub entries: u64,
}

/// What a query reads.
pub trait Source: Sync {
    /// Whether a range index covers the path.
    fn covers(&self, path: &IndexPath) -> bool;

    /// The composite indexes.
    fn composites(&self) -> &[Composite];

    /// Whether a spatial index covers the path.
    fn covers_spatial(&self, path: &IndexPath) -> bool;

    /// Whether a full-text index covers the path.
    fn covers_text(&self, path: &IndexPath) -> bool;

    /// Whether an `ORDER BY` that no index serves is sorted instead of refused.
    fn sorts(&self) -> bool;

    /// About how many documents there are.
    fn documents_estimate(&self) -> u64;

    /// About how many entries a scan would give.
    fn estimate(&self, scan: &Scan) -> impl Future<Output = Result<u64>> + Send;

    /// How many entries a scan has, exactly, if the source knows without reading them.
    fn count(&self, scan: &Scan) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// The values that a scan meets, each once and in no order, if the source can count their entries
    /// without giving them.
    fn tally(&self, _scan: &Scan) -> impl Future<Output = Result<Option<Vec<Tally>>>> + Send {
        async { Ok(None) }
    }

    /// Whether every document is known to have a value at the path, which must not be plural: then
    /// the entries of the range index are all documents, and sorting by it needs no others.
    fn complete(&self, _path: &IndexPath) -> impl Future<Output = Result<bool>> + Send {
        async { Ok(false) }
    }

    /// Entries after the one given, in the order of the scan.
    fn scan(
        &self,
        scan: &Scan,
        after: Option<&Entry>,
        limit: usize,
    ) -> impl Future<Output = Result<Chunk<Entry>>> + Send;

    /// The bodies of items, in the order of the keys given; none for those that are gone. Of many
    /// large ones only the first are given, at least one: the caller asks for the others again.
    fn fetch(&self, keys: &[Bytes]) -> impl Future<Output = Result<Vec<Option<Bytes>>>> + Send;

    /// Documents after a key, in the order of keys.
    fn documents(
        &self,
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Chunk<Document>>> + Send;

    /// Documents in whatever order they are read soonest, from a place on that an earlier call gave.
    /// All of them come, each once.
    fn heap(
        &self,
        from: Option<&Bytes>,
        limit: usize,
    ) -> impl Future<Output = Result<Heap>> + Send {
        async move {
            let chunk = self.documents(from.map(|key| &key[..]), limit).await?;
            let last = chunk.rows.last().map(|document| document.key.clone());
            Ok(Heap { rows: chunk.rows, next: last.filter(|_| chunk.more) })
        }
    }

    /// The nearest vectors by the vector index on a path: keys, nearest first, at least as many as
    /// asked for where there are that many; none where no vector index covers the path.
    fn nearest(
        &self,
        path: &IndexPath,
        vector: &[f64],
        count: usize,
    ) -> impl Future<Output = Result<Option<Vec<Bytes>>>> + Send;

    /// Items whose text at a path has a word, after an item, in the order of keys. Asked only where
    /// a full-text index covers the path.
    fn postings(
        &self,
        _path: &IndexPath,
        _word: &str,
        _after: Option<&Bytes>,
        _limit: usize,
    ) -> impl Future<Output = Result<Chunk<Posting>>> + Send {
        async { Ok(Chunk { rows: Vec::new(), more: false }) }
    }

    /// How many texts and words there are at a path; none where no full-text index says so.
    fn texts(&self, _path: &IndexPath) -> impl Future<Output = Result<Option<Texts>>> + Send {
        async { Ok(None) }
    }

    /// Lets others go on. Called often during long work; dropping the query there cancels it.
    fn breathe(&self) -> impl Future<Output = Result<Breath>> + Send;
}

impl KeyRange {
    /// All values.
    pub const ALL: Self = Self { from: Bound::Unbounded, to: Bound::Unbounded };

    /// Exactly the values with this sort key.
    pub fn exactly(key: impl Into<Bytes>) -> Self {
        let key = key.into();
        Self { from: Bound::Included(key.clone()), to: Bound::Included(key) }
    }

    /// The values whose sort keys begin with these bytes.
    pub fn beginning(prefix: Vec<u8>) -> Self {
        let to = Self::end(prefix.clone());
        Self { from: Bound::Included(prefix.into()), to }
    }

    /// Where the sort keys end that begin with some bytes.
    pub(crate) fn end(mut prefix: Vec<u8>) -> Bound<Bytes> {
        while let Some(last) = prefix.pop() {
            if last < 0xFF {
                prefix.push(last + 1);
                return Bound::Excluded(prefix.into());
            }
        }
        Bound::Unbounded
    }

    /// Whether a sort key lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        let after = match &self.from {
            Bound::Included(from) => key >= &from[..],
            Bound::Excluded(from) => key > &from[..],
            Bound::Unbounded => true,
        };
        after
            && match &self.to {
                Bound::Included(to) => key <= &to[..],
                Bound::Excluded(to) => key < &to[..],
                Bound::Unbounded => true,
            }
    }

    /// Whether it is one value.
    pub fn is_point(&self) -> bool {
        matches!((&self.from, &self.to), (Bound::Included(a), Bound::Included(b)) if a == b)
    }

    /// What lies in both.
    pub fn intersect(&self, other: &Self) -> Self {
        let from = tighter(&self.from, &other.from, |a, b| a > b);
        let to = tighter(&self.to, &other.to, |a, b| a < b);
        Self { from, to }
    }

    /// Whether nothing can lie in it.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                a >= b
            }
        }
    }
}

fn tighter(a: &Bound<Bytes>, b: &Bound<Bytes>, wins: fn(&Bytes, &Bytes) -> bool) -> Bound<Bytes> {
    let key = |bound: &Bound<Bytes>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
        Bound::Unbounded => None,
    };
    match (key(a), key(b)) {
        (None, _) => b.clone(),
        (_, None) => a.clone(),
        (Some(x), Some(y)) if x == y => {
            if matches!(a, Bound::Excluded(_)) {
                a.clone()
            } else {
                b.clone()
            }
        }
        (Some(x), Some(y)) => {
            if wins(&x, &y) {
                a.clone()
            } else {
                b.clone()
            }
        }
    }
}

/// `(/a ASC, /b DESC)`
fn composite_name(columns: &Composite, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, (path, descending)) in columns.iter().enumerate() {
        let path = path.to_string();
        let path = path.strip_suffix("/?").unwrap_or(&path);
        let direction = if *descending { "DESC" } else { "ASC" };
        write!(f, "{}{path} {direction}", if at == 0 { "(" } else { ", " })?;
    }
    f.write_str(")")
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { path, range, reverse } => {
                let kind = if range.is_point() { "seek" } else { "range" };
                write!(f, "{kind} {path}{}", if *reverse { " backwards" } else { "" })
            }
            Self::Composite { columns, range, reverse } => {
                let kind = if range.is_point() { "seek" } else { "range" };
                write!(f, "{kind} ")?;
                composite_name(columns, f)?;
                f.write_str(if *reverse { " backwards" } else { "" })
            }
            Self::Spatial { path, .. } => write!(f, "spatial {path}"),
            Self::Word { path, word } => write!(f, "word {path} '{word}'"),
        }
    }
}
