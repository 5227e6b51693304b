//! Documents one chunk after the other, by the way that the plan chose.

use bytes::Bytes;
use model::Result;

use super::Metrics;
use super::keys::KeyReader;
use crate::limits;
use crate::plan::{Access, Tests};
use crate::source::{Chunk, Document, Entry, Scan, Source};

/// A document, and the index value by which it was found.
pub(crate) struct Found {
    pub document: Document,
    /// Empty where no one index entry led to it.
    pub value: Bytes,
}

/// Reads documents in chunks that grow, so that a query for one row reads little.
pub(crate) struct Cursor<'s, S> {
    source: &'s S,
    access: Access,
    /// What the entries of a stream must be.
    tests: Option<Tests>,
    keys: KeyReader,
    after: Option<Entry>,
    /// The order does not matter: the place in the heap of documents.
    heap: Option<Option<Bytes>>,
    size: usize,
    ended: bool,
}

const FIRST_CHUNK: usize = 16;
/// Entries whose values are checked at once.
const TESTED_CHUNK: usize = 512;
/// Documents read at once where it is known that all of them are wanted.
const EXPECTED_DOCUMENTS: usize = 1_024;
/// Documents of the heap read at once.
const HEAP_DOCUMENTS: usize = 1_024;

impl<'s, S: Source> Cursor<'s, S> {
    pub(crate) fn new(source: &'s S, access: Access, tests: Option<Tests>) -> Self {
        Self {
            source,
            access,
            tests,
            keys: KeyReader::default(),
            after: None,
            heap: None,
            size: FIRST_CHUNK,
            ended: false,
        }
    }

    /// For who reads everything and does not care in which order.
    pub(crate) fn in_any_order(mut self) -> Self {
        self.heap = matches!(self.access, Access::Documents).then_some(None);
        self
    }

    /// For who is going to take so many rows, one of each document.
    pub(crate) fn expecting(mut self, rows: usize) -> Self {
        self.size = rows.clamp(1, EXPECTED_DOCUMENTS);
        self
    }

    /// Goes on after an entry; where only items count, its value is empty.
    pub(crate) fn seek(&mut self, value: Bytes, item: Bytes) {
        self.after = Some(Entry { value, item });
    }

    /// One document by its key, wherever the cursor is.
    pub(crate) async fn document(
        &self,
        item: &Bytes,
        metrics: &mut Metrics,
    ) -> Result<Option<Document>> {
        let body = self.source.fetch(std::slice::from_ref(item)).await?.into_iter().next();
        let document = body.flatten().map(|body| Document { key: item.clone(), body });
        count(metrics, document.iter());
        Ok(document)
    }

    /// Whether nothing more is to come.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next documents. Empty chunks can come before the end.
    pub(crate) async fn next(&mut self, metrics: &mut Metrics) -> Result<Vec<Found>> {
        if self.ended {
            return Ok(Vec::new());
        }
        if let Some(from) = self.heap.take() {
            return self.heap(from, metrics).await;
        }
        let size = self.size;
        self.size = (size * 2).min(limits::CHUNK_DOCUMENTS.max(size));
        let found = match self.access.clone() {
            Access::Documents => self.documents(size).await?,
            Access::Nothing => {
                self.ended = true;
                Vec::new()
            }
            Access::Stream(scan) => self.entries(&scan, size, metrics).await?,
            Access::Items(items) => {
                let after = self.after.as_ref().map(|entry| &entry.item);
                let from = after.map_or(0, |after| items.partition_point(|item| item <= after));
                let rest = items[from..].iter().take(size).cloned();
                let rows = rest.map(|item| Entry { value: Bytes::new(), item });
                let rows: Vec<Entry> = rows.collect();
                let more = from + rows.len() < items.len();
                self.fetch(Chunk { rows, more }).await?
            }
            Access::Keys(lookup) => {
                let after = self.after.as_ref().map(|entry| entry.item.clone());
                let chunk =
                    self.keys.next(self.source, &lookup, after.as_ref(), size, metrics).await?;
                if self.keys.overflowed {
                    // Both go in the order of keys, so one can take over from the other.
                    self.access = Access::Documents;
                    return Ok(Vec::new());
                }
                let entries =
                    chunk.rows.into_iter().map(|item| Entry { value: Bytes::new(), item });
                let chunk = Chunk { rows: entries.collect(), more: chunk.more };
                self.fetch(chunk).await?
            }
        };
        count(metrics, found.iter().map(|found| &found.document));
        Ok(found)
    }

    async fn heap(&mut self, from: Option<Bytes>, metrics: &mut Metrics) -> Result<Vec<Found>> {
        let heap = self.source.heap(from.as_ref(), HEAP_DOCUMENTS).await?;
        self.ended = heap.next.is_none();
        self.heap = Some(heap.next);
        count(metrics, heap.rows.iter());
        let found = |document| Found { document, value: Bytes::new() };
        Ok(heap.rows.into_iter().map(found).collect())
    }

    async fn documents(&mut self, size: usize) -> Result<Vec<Found>> {
        let after = self.after.as_ref().map(|entry| &entry.item[..]);
        let chunk = self.source.documents(after, size).await?;
        self.ended = !chunk.more;
        if let Some(last) = chunk.rows.last() {
            self.after = Some(Entry { value: Bytes::new(), item: last.key.clone() });
        }
        let found = |document| Found { document, value: Bytes::new() };
        Ok(chunk.rows.into_iter().map(found).collect())
    }

    async fn entries(
        &mut self,
        scan: &Scan,
        size: usize,
        metrics: &mut Metrics,
    ) -> Result<Vec<Found>> {
        let size = if self.tests.is_some() { TESTED_CHUNK } else { size };
        let mut chunk = self.source.scan(scan, self.after.as_ref(), size).await?;
        metrics.entries += chunk.rows.len() as u64;
        let last = chunk.rows.last().cloned();
        if let Some(tests) = &self.tests {
            tests.retain(&mut chunk.rows)?;
        }
        self.fetch_up_to(chunk, last).await
    }

    async fn fetch(&mut self, chunk: Chunk<Entry>) -> Result<Vec<Found>> {
        let last = chunk.rows.last().cloned();
        self.fetch_up_to(chunk, last).await
    }

    /// Fetches what entries stand for, of which the last one that was looked at is given.
    async fn fetch_up_to(
        &mut self,
        mut chunk: Chunk<Entry>,
        last: Option<Entry>,
    ) -> Result<Vec<Found>> {
        let keys: Vec<Bytes> = chunk.rows.iter().map(|entry| entry.item.clone()).collect();
        let bodies = if keys.is_empty() { Vec::new() } else { self.source.fetch(&keys).await? };
        let all = bodies.len() == chunk.rows.len();
        chunk.rows.truncate(bodies.len());
        // What did not come this time is found again after what did.
        let last = if all { last } else { chunk.rows.last().cloned() };
        self.after = last.or(self.after.take());
        self.ended = all && !chunk.more;
        let found = |(entry, body): (Entry, Option<Bytes>)| {
            let document = Document { key: entry.item, body: body? };
            Some(Found { document, value: entry.value })
        };
        Ok(chunk.rows.into_iter().zip(bodies).filter_map(found).collect())
    }
}

fn count<'d>(metrics: &mut Metrics, documents: impl Iterator<Item = &'d Document>) {
    for document in documents {
        metrics.documents += 1;
        metrics.document_bytes += document.body.len() as u64;
    }
}
