//! What queries read: the newest view of every partition in a scope, answering as one.
//!
//! A snapshot is taken for one page of answers. Its views do not change, and which indexes they
//! can be asked for is read from the views themselves: an index counts from the commit that
//! completed it, not from the moment its writer knew.

mod bounds;
mod entries;
mod estimate;
mod fetch;
mod heap;
mod spatial;
mod tally;
mod vector;
mod word;

use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use kv::{Keyspace, View};
use model::epk::EpkRange;
use model::policy::{ContainerDefinition, Step};
use model::token::Session;
use model::{Result, limits};
use query::source::{
    Breath, Chunk, Composite, Document, Entry, Heap, IndexPath, PathStep, Posting, Scan, Source,
    Tally, Texts,
};

use crate::Container;
use crate::api::{Scope, storage};
use crate::container::Span;
use crate::doomed::Doomed;
use crate::feed::start;
use crate::index::key::{self, PathId};
use crate::index::{Indexes, Indexing};
use crate::item::body_of;
use crate::keys::{Row, Slot};
use bounds::Columns;
use entries::{Hop, Lookup};

/// How long one page may be worked at.
const PAGE_MS: u64 = 4_000;
/// Bytes of bodies read at once.
const CHUNK_BYTES: usize = limits::PAGE_BYTES;

/// A partition's share of a scope, as it is now.
pub(crate) struct Part {
    pub span: Span,
    pub view: Arc<dyn View>,
    /// The scope has all of the partition.
    whole: bool,
    /// About how many items are in the scope, and in the partition.
    items: u64,
    items_held: u64,
    /// The commit that the view ends with.
    head_lsn: u64,
    indexing: Arc<Indexing>,
    /// Partition keys whose items are gone.
    doomed: Doomed,
}

/// See the top of this file.
pub(crate) struct Snapshot<'a> {
    container: &'a Container,
    definition: Arc<ContainerDefinition>,
    pub parts: Vec<Part>,
    composites: Vec<Composite>,
    /// Stretches of index rows that an estimate has read to their end.
    known: Mutex<Vec<Known>>,
    now_seconds: u32,
    deadline_ms: u64,
}

/// All index rows between two bounds of a part.
struct Known {
    part: u32,
    bounds: (Bound<Bytes>, Bound<Bytes>),
    rows: Vec<Bytes>,
}

/// Stretches that are kept, at most.
const KNOWN_MAX: usize = 64;

impl<'a> Snapshot<'a> {
    /// The state of what of a scope lies in some ranges, which are in order and apart, if it is as
    /// new as a session has seen it.
    pub async fn take(
        container: &'a Container,
        scope: &Scope,
        ranges: &[EpkRange],
        session: Option<&Session>,
    ) -> Result<Self> {
        let definition = container.definition();
        let mut spans = Vec::new();
        for span in container.spans_of(scope)? {
            span.partition.check_session(session)?;
            let within = ranges.iter().filter_map(|range| span.keys.intersect(range));
            let part = |keys| Span { partition: span.partition.clone(), keys };
            spans.extend(within.map(part));
        }
        let mut parts = Vec::with_capacity(spans.len());
        for span in spans {
            let (_, view, doomed) = span.partition.look().await?;
            let state = span.partition.state_of(&*view).await?;
            let (head, indexing) = (state.head, state.indexing.clone());
            let whole = span.keys == span.partition.span;
            let (items, items_held) = (head.items, head.items);
            let head_lsn = head.lsn;
            let mut part =
                Part { span, view, whole, items, items_held, head_lsn, indexing, doomed };
            part.probe_items().await?;
            parts.push(part);
        }
        let mut snapshot = Self {
            container,
            definition,
            parts,
            composites: Vec::new(),
            known: Mutex::default(),
            now_seconds: container.env.now_seconds(),
            deadline_ms: container.env.now_ms().saturating_add(PAGE_MS),
        };
        snapshot.composites = snapshot.known_composites();
        Ok(snapshot)
    }

    /// Composite indexes that all views have.
    fn known_composites(&self) -> Vec<Composite> {
        let path =
            |names: &[String]| IndexPath(names.iter().cloned().map(PathStep::Member).collect());
        let declared = &self.definition.index_rules.composites;
        let known =
            declared.iter().filter(|one| self.all_rules(|rules| rules.composites.contains(one)));
        known
            .map(|paths| paths.iter().map(|one| (path(&one.names), one.descending)).collect())
            .collect()
    }

    /// Whether something holds for the indexes of every policy that rows may be from.
    fn all_indexes(&self, holds: impl Fn(&Indexes) -> bool) -> bool {
        let of = |part: &Part| {
            let older = part.indexing.older.iter();
            older.chain([&part.indexing.current]).all(|indexes| holds(indexes))
        };
        // A partition without items has all rows that it should have.
        self.parts.iter().filter(|part| part.items_held > 0).all(of)
    }

    /// Whether something holds for every policy that rows may be from, and for the current one.
    fn all_rules(&self, holds: impl Fn(&model::policy::IndexRules) -> bool) -> bool {
        holds(&self.definition.index_rules) && self.all_indexes(|indexes| holds(&indexes.rules))
    }

    fn lookup(&self, scan: &Scan) -> Option<Arc<Lookup>> {
        let mut head = Vec::new();
        Some(Arc::new(match scan {
            Scan::Range { path, range, reverse } => {
                key::put_head(key::RANGE, PathId::of(&steps(path)), &mut head);
                Lookup {
                    head,
                    columns: Columns::one(),
                    paths: vec![hops(path)],
                    range: range.clone(),
                    reverse: *reverse,
                }
            }
            Scan::Composite { columns: composite, range, reverse } => {
                let id = |(path, descending): &(IndexPath, bool)| {
                    (PathId::of(&steps(path)), *descending)
                };
                crate::index::Composite::of(composite.iter().map(id).collect()).put_head(&mut head);
                let mask = |(_, descending): &(IndexPath, bool)| if *descending { 0xFF } else { 0 };
                Lookup {
                    head,
                    columns: Columns { masks: composite.iter().map(mask).collect() },
                    paths: composite.iter().map(|(path, _)| hops(path)).collect(),
                    range: range.clone(),
                    reverse: *reverse,
                }
            }
            Scan::Spatial { .. } | Scan::Word { .. } => return None,
        }))
    }

    /// Keeps a stretch of index rows, so that it need not be read again.
    fn keep(&self, part: &Part, bounds: &(Bound<Bytes>, Bound<Bytes>), rows: Vec<Bytes>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < KNOWN_MAX {
            known.push(Known { part: part.span.partition.number, bounds: bounds.clone(), rows });
        }
    }

    /// A stretch of index rows that was read before.
    fn kept(&self, part: &Part, bounds: &(Bound<Bytes>, Bound<Bytes>)) -> Option<Vec<Bytes>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let number = part.span.partition.number;
        let mut same = known.iter().filter(|one| one.part == number && one.bounds == *bounds);
        same.next().map(|one| one.rows.clone())
    }

    /// The part that has an item.
    fn part_of(&self, item: &[u8]) -> Option<&Part> {
        self.parts.iter().find(|part| crate::cut::holds(&part.span.keys, item))
    }

    /// The body of an item; none where it is gone.
    async fn body(&self, part: &Part, item: &Bytes) -> Result<Option<Bytes>> {
        let stored = part.view.get(Keyspace::Docs, item).await.map_err(storage)?;
        let Some(row) = Slot::item(stored.as_ref())? else { return Ok(None) };
        if !self.is_alive(part, item, &row) {
            return Ok(None);
        }
        let stored = part.view.get(Keyspace::Feed, &row.feed_key()).await.map_err(storage)?;
        body_of(&row, item, stored.as_ref()).map(Some)
    }

    /// Whether an item is there for everybody: neither past its time nor deleted with its key.
    fn is_alive(&self, part: &Part, item: &[u8], row: &Row) -> bool {
        !row.expired(self.definition.default_ttl, self.now_seconds)
            && !part.doomed.hides(item, row.etag.lsn())
    }

    /// Whether every item of a part that has rows is there for everybody.
    fn all_alive(&self, part: &Part) -> bool {
        self.definition.default_ttl.is_none() && part.doomed.len() == 0
    }

    /// Leaves out the entries of items that are gone. Where nothing goes, nothing is read.
    async fn alive(&self, part: &Part, mut entries: Vec<Entry>) -> Result<Vec<Entry>> {
        if self.all_alive(part) || entries.is_empty() {
            return Ok(entries);
        }
        let items: Vec<Bytes> = entries.iter().map(|entry| entry.item.clone()).collect();
        let stored = part.view.get_many(Keyspace::Docs, &items).await.map_err(storage)?;
        let mut alive = Vec::with_capacity(stored.len());
        for (item, slot) in items.iter().zip(stored) {
            let row = Slot::item(slot.as_ref())?;
            alive.push(row.is_some_and(|row| self.is_alive(part, item, &row)));
        }
        let mut alive = alive.into_iter();
        entries.retain(|_| alive.next().unwrap_or(false));
        Ok(entries)
    }

    async fn part_documents(
        &self,
        part: &Part,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Chunk<Document>> {
        let mut documents = Vec::new();
        let Some(mut from) = start(&part.span, after) else {
            return Ok(Chunk { rows: documents, more: false });
        };
        loop {
            let wanted = (limit - documents.len()).max(1);
            let chunk = part.view.scan(part.span.scan(from, wanted)).await.map_err(storage)?;
            let (mut live, mut bytes, mut cut) = (Vec::new(), 0, false);
            for (key, stored) in &chunk.rows {
                let Some(row) = Slot::item(Some(stored))? else { continue };
                if !self.is_alive(part, key, &row) {
                    continue;
                }
                cut = bytes > 0 && bytes + row.body_bytes as usize > CHUNK_BYTES;
                if cut {
                    break;
                }
                bytes += row.body_bytes as usize;
                live.push((key, row));
            }
            let places: Vec<Bytes> = live.iter().map(|(_, row)| row.feed_key()).collect();
            let bodies = part.view.get_many(Keyspace::Feed, &places).await.map_err(storage)?;
            for ((key, row), stored) in live.into_iter().zip(bodies) {
                let body = body_of(&row, key, stored.as_ref())?;
                documents.push(Document { key: key.clone(), body });
            }
            let more = cut || chunk.resume.is_some();
            if !more || cut || !documents.is_empty() {
                return Ok(Chunk { rows: documents, more });
            }
            // A run of items that are gone: look behind it.
            match chunk.resume {
                Some(resume) => from = std::ops::Bound::Excluded(resume),
                None => return Ok(Chunk { rows: documents, more: false }),
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Source for Snapshot<'_> {
    fn covers(&self, path: &IndexPath) -> bool {
        let steps = steps(path);
        self.definition.index_rules.indexes(&steps)
            && self.all_indexes(|indexes| indexes.covers(&steps))
    }

    fn composites(&self) -> &[Composite] {
        &self.composites
    }

    fn covers_spatial(&self, path: &IndexPath) -> bool {
        self.spatial_frame(path).is_some()
    }

    fn covers_text(&self, path: &IndexPath) -> bool {
        self.text_index(path).is_some()
    }

    fn sorts(&self) -> bool {
        // While a policy is being carried out, some indexes that it has are not there yet.
        self.parts.iter().any(|part| part.indexing.is_building())
    }

    fn documents_estimate(&self) -> u64 {
        self.items_estimate()
    }

    async fn estimate(&self, scan: &Scan) -> Result<u64> {
        match scan {
            Scan::Spatial { path, bounds } => self.places_estimate(path, bounds).await,
            Scan::Word { path, word } => self.words_estimate(path, word).await,
            Scan::Range { .. } | Scan::Composite { .. } => match self.lookup(scan) {
                Some(lookup) => self.entries_estimate(&lookup).await,
                None => Ok(0),
            },
        }
    }

    async fn count(&self, scan: &Scan) -> Result<Option<u64>> {
        match self.lookup(scan) {
            Some(lookup) => self.entries_count(&lookup).await,
            None => Ok(None),
        }
    }

    async fn tally(&self, scan: &Scan) -> Result<Option<Vec<Tally>>> {
        match self.lookup(scan) {
            Some(lookup) => self.tallies(&lookup).await,
            None => Ok(None),
        }
    }

    async fn complete(&self, path: &IndexPath) -> Result<bool> {
        let id = PathId::of(&steps(path));
        for part in &self.parts {
            if part.items_held > 0 && !part.span.partition.all_have(id, part.head_lsn).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn scan(&self, scan: &Scan, after: Option<&Entry>, limit: usize) -> Result<Chunk<Entry>> {
        match scan {
            Scan::Spatial { path, bounds } => {
                return self.places(path, bounds, after, limit).await;
            }
            Scan::Word { path, word } => return self.words(path, word, after, limit).await,
            Scan::Range { .. } | Scan::Composite { .. } => {}
        }
        let Some(lookup) = self.lookup(scan) else {
            return Ok(Chunk { rows: Vec::new(), more: false });
        };
        if let [part] = &self.parts[..] {
            return self.entries(part, &lookup, after, limit).await;
        }
        let mut chunks = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            chunks.push(self.entries(part, &lookup, after, limit).await?);
        }
        Ok(query::source::merge(chunks, limit, |a, b| lookup.before(a, b)))
    }

    async fn fetch(&self, items: &[Bytes]) -> Result<Vec<Option<Bytes>>> {
        self.bodies(items).await
    }

    async fn heap(&self, from: Option<&Bytes>, limit: usize) -> Result<Heap> {
        self.heap_chunk(from, limit).await
    }

    async fn documents(&self, after: Option<&[u8]>, limit: usize) -> Result<Chunk<Document>> {
        let after = after.map(Bytes::copy_from_slice);
        for (n, part) in self.parts.iter().enumerate() {
            let chunk = self.part_documents(part, after.as_ref(), limit).await?;
            let last = n + 1 == self.parts.len();
            if last || !chunk.rows.is_empty() {
                return Ok(Chunk { more: chunk.more || !last, ..chunk });
            }
        }
        Ok(Chunk { rows: Vec::new(), more: false })
    }

    async fn nearest(
        &self,
        path: &IndexPath,
        vector: &[f64],
        count: usize,
    ) -> Result<Option<Vec<Bytes>>> {
        self.nearest_items(path, vector, count).await
    }

    async fn postings(
        &self,
        path: &IndexPath,
        word: &str,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Chunk<Posting>> {
        self.word_postings(path, word, after, limit).await
    }

    async fn texts(&self, path: &IndexPath) -> Result<Option<Texts>> {
        self.all_texts(path).await
    }

    async fn breathe(&self) -> Result<Breath> {
        tokio::task::yield_now().await;
        self.container.check_alive()?;
        let late = self.container.env.now_ms() >= self.deadline_ms;
        Ok(if late { Breath::EndPage } else { Breath::GoOn })
    }
}

/// The next index rows of a range, without their values.
fn index_rows(from: Bound<Bytes>, to: Bound<Bytes>, rows: usize) -> kv::Scan {
    let (keyspace, bytes) = (Keyspace::Terms, usize::MAX);
    kv::Scan { keyspace, from, to, reverse: false, rows, bytes, keys_only: true }
}

fn steps(path: &IndexPath) -> Vec<Step> {
    let step = |step: &PathStep| match step {
        PathStep::Member(name) => Step::Name(name.clone()),
        PathStep::Elements => Step::Elements,
    };
    path.0.iter().map(step).collect()
}

fn hops(path: &IndexPath) -> Vec<Hop> {
    let hop = |step: &PathStep| match step {
        PathStep::Member(name) => Hop::Member(name.clone()),
        PathStep::Elements => Hop::Elements,
    };
    path.0.iter().map(hop).collect()
}

#[cfg(test)]
mod tests;
