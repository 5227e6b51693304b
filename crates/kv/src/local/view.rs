//! A published state, read through the eyes of one partition.
//!
//! Rows of Feed and Log are read in two steps: the pointers first, then the values from their
//! segments. Values that lie close together come with one read, and share its buffer.

use std::ops::Bound;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use fjall::Readable;

use super::apply::{Published, prefixed};
use super::hands;
use super::recent::Value;
use super::scan::{self, Merge};
use super::segment::{Segment, file_name};
use super::tree::{Pointer, failed};
use crate::{Chunk, CommitNo, Keyspace, PartitionId, Pending, Result, Scan, View};

/// Bytes between two values that are rather read along than skipped.
const GAP_BYTES: u64 = 16 << 10;
/// Most bytes in one read; larger values are read alone.
const SPAN_BYTES: u64 = 256 << 10;
/// Keys up to this length are looked up without an allocation.
const SHORT_KEY_BYTES: usize = 248;

/// What keys begin with.
pub(crate) const PARTITION_BYTES: usize = 8;

/// So many keys that lie close together are looked for in one walk.
const MANY_KEYS: usize = 8;

/// Rows that a chunk passes over, beside those it returns.
const PASSED_ROWS_MAX: usize = 4096;

/// A row that exists.
pub(crate) enum Row {
    Value(Bytes),
    Pointer(Pointer),
}

impl Published {
    /// Whether it is known that a row is not there.
    pub(crate) fn lacks(&self, keyspace: Keyspace, partition: PartitionId, key: &[u8]) -> bool {
        keyspace == Keyspace::Docs && self.keys.lack(partition, key)
    }

    /// The row of a key that begins with its partition: from the newest layer that knows it.
    pub(crate) fn row(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Row>> {
        let known = self.layers.iter().find_map(|layer| layer.get(keyspace, key, self.state));
        match known {
            Some(Value::Put(value)) => return Ok(Some(Row::Value(value))),
            Some(Value::Point(pointer)) => return Ok(Some(Row::Pointer(pointer))),
            Some(Value::Gone) => return Ok(None),
            None => {}
        }
        let row = self.base.snapshot.get(self.tree.space(keyspace), key);
        match row.map_err(|error| failed(&error))? {
            None => Ok(None),
            Some(row) if is_pointed(keyspace) => Ok(Some(Row::Pointer(Pointer::decode(&row)?))),
            Some(row) => Ok(Some(Row::Value(row.into()))),
        }
    }
}

/// See the top of this file.
pub(crate) struct LocalView {
    pub published: Arc<Published>,
    pub partition: PartitionId,
}

impl View for LocalView {
    fn commit(&self) -> CommitNo {
        self.published.commit
    }

    fn get<'a>(&'a self, keyspace: Keyspace, key: &'a [u8]) -> Pending<'a, Option<Bytes>> {
        Pending::ready(self.value(keyspace, key))
    }

    fn get_many<'a>(
        &'a self,
        keyspace: Keyspace,
        keys: &'a [Bytes],
    ) -> Pending<'a, Vec<Option<Bytes>>> {
        Pending::later(self.values(keyspace, keys))
    }

    fn scan(&self, scan: Scan) -> Pending<'_, Chunk> {
        Pending::later(async move {
            let (mut chunk, pointers) = self.chunk(&scan)?;
            for (row, value) in chunk.rows.iter_mut().zip(self.read_all(pointers).await?) {
                row.1 = value;
            }
            Ok(chunk)
        })
    }
}

impl LocalView {
    fn value(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        match self.row(keyspace, key)? {
            None => Ok(None),
            Some(Row::Value(value)) => Ok(Some(value)),
            Some(Row::Pointer(pointer)) => self.read(&pointer).map(Some),
        }
    }

    async fn values(&self, keyspace: Keyspace, keys: &[Bytes]) -> Result<Vec<Option<Bytes>>> {
        if let [key] = keys {
            return Ok(vec![self.value(keyspace, key)?]);
        }
        let mut values = Vec::with_capacity(keys.len());
        let (mut pointers, mut places) = (Vec::new(), Vec::new());
        for (i, row) in self.rows(keyspace, keys)?.into_iter().enumerate() {
            values.push(match row {
                None => None,
                Some(Row::Value(value)) => Some(value),
                Some(Row::Pointer(pointer)) => {
                    pointers.push(pointer);
                    places.push(i);
                    None
                }
            });
        }
        for (place, value) in places.into_iter().zip(self.read_all(pointers).await?) {
            values[place] = Some(value);
        }
        Ok(values)
    }

    /// The rows of several keys, in their order.
    fn rows(&self, keyspace: Keyspace, keys: &[Bytes]) -> Result<Vec<Option<Row>>> {
        let mut rows: Vec<Option<Row>> = Vec::new();
        rows.resize_with(keys.len(), || None);
        let possible = |i: &usize| !self.published.lacks(keyspace, self.partition, &keys[*i]);
        let mut order: Vec<usize> = (0..keys.len()).filter(possible).collect();
        let mut known = 0;
        if order.len() >= MANY_KEYS && is_near(keyspace, keys, &mut order) {
            known = self.walk(keyspace, keys, &order, &mut rows)?;
        }
        for i in &order[known..] {
            rows[*i] = self.stored_row(keyspace, &keys[*i])?;
        }
        Ok(rows)
    }

    /// The rows of keys by a walk from the first to the last of them: where few other keys lie
    /// between them that is less work than to look for each, above all where there are none.
    /// Returns how many keys, in the order given, were come by before the walk became too long.
    fn walk(
        &self,
        keyspace: Keyspace,
        keys: &[Bytes],
        order: &[usize],
        rows: &mut [Option<Row>],
    ) -> Result<usize> {
        let bound = |i: usize| Bound::Included(prefixed(self.partition, &keys[order[i]]));
        let range = (bound(0), bound(order.len() - 1));
        let tree = (!self.is_above_tree(keyspace, &range.0)).then_some(&*self.published.tree);
        let mut merge = Merge::new(&self.published, tree, keyspace, range, (false, usize::MAX))?;
        let (mut known, mut passed) = (0, 0);
        while let Some((key, value)) = merge.next()? {
            let key = &key[PARTITION_BYTES..];
            known += order[known..].partition_point(|i| keys[*i][..] < *key);
            let before = known;
            while let Some(i) = order.get(known).filter(|i| keys[**i][..] == *key) {
                rows[*i] = match &value {
                    Value::Put(value) => Some(Row::Value(value.clone())),
                    Value::Point(pointer) => Some(Row::Pointer(*pointer)),
                    Value::Gone => None,
                };
                known += 1;
            }
            passed += usize::from(before == known);
            if passed > keys.len() {
                return Ok(known);
            }
        }
        Ok(order.len())
    }

    /// The next rows of a scan, and where the values of those are that have none yet: either all
    /// or none of them.
    pub(crate) fn chunk(&self, scan: &Scan) -> Result<(Chunk, Vec<Pointer>)> {
        let mut chunk = Chunk::default();
        let range = self.range(scan);
        if scan::is_empty(&range) {
            return Ok((chunk, Vec::new()));
        }
        let tree = (!self.is_above_tree(scan.keyspace, &range.0)).then_some(&*self.published.tree);
        let manner = (scan.reverse, scan.rows);
        let mut merge = Merge::new(&self.published, tree, scan.keyspace, range, manner)?;
        let mut pointers = Vec::new();
        let (mut bytes, mut seen) = (0, 0);
        while let Some((mut key, value)) = merge.next()? {
            key.advance(PARTITION_BYTES);
            seen += 1;
            let last = seen >= scan.rows.saturating_add(PASSED_ROWS_MAX);
            let value = match value {
                Value::Gone if last => {
                    chunk.resume = Some(key);
                    break;
                }
                Value::Gone => continue,
                Value::Put(value) if !scan.keys_only => value,
                Value::Point(pointer) if !scan.keys_only => {
                    bytes += pointer.bytes as usize;
                    pointers.push(pointer);
                    Bytes::new()
                }
                Value::Put(_) | Value::Point(_) => Bytes::new(),
            };
            bytes += key.len() + value.len();
            if last || chunk.rows.len() + 1 >= scan.rows || bytes >= scan.bytes {
                chunk.resume = Some(key.clone());
                chunk.rows.push((key, value));
                break;
            }
            chunk.rows.push((key, value));
        }
        Ok((chunk, pointers))
    }

    /// The bounds of a scan as layers and the tree have them.
    fn range(&self, scan: &Scan) -> (Bound<Bytes>, Bound<Bytes>) {
        let from = match &scan.from {
            Bound::Included(key) => Bound::Included(prefixed(self.partition, key)),
            Bound::Excluded(key) => Bound::Excluded(prefixed(self.partition, key)),
            Bound::Unbounded => Bound::Included(prefixed(self.partition, &[])),
        };
        let to = match &scan.to {
            Bound::Included(key) => Bound::Included(prefixed(self.partition, key)),
            Bound::Excluded(key) => Bound::Excluded(prefixed(self.partition, key)),
            Bound::Unbounded => match self.partition.0.checked_add(1) {
                Some(next) => Bound::Excluded(prefixed(PartitionId(next), &[])),
                None => Bound::Unbounded,
            },
        };
        (from, to)
    }

    /// Whether the tree ends below a bound: who reads the end of a feed finds it in memory.
    fn is_above_tree(&self, keyspace: Keyspace, from: &Bound<Bytes>) -> bool {
        let tail = self.published.base.tails.get(&(self.partition, keyspace));
        match (tail, from) {
            (Some(tail), Bound::Included(from)) => from > tail,
            (Some(tail), Bound::Excluded(from)) => from >= tail,
            _ => false,
        }
    }

    fn row(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Row>> {
        match self.published.lacks(keyspace, self.partition, key) {
            true => Ok(None),
            false => self.stored_row(keyspace, key),
        }
    }

    fn stored_row(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Row>> {
        if key.len() <= SHORT_KEY_BYTES {
            let mut full = [0; 8 + SHORT_KEY_BYTES];
            full[..8].copy_from_slice(&self.partition.0.to_be_bytes());
            full[8..8 + key.len()].copy_from_slice(key);
            self.published.row(keyspace, &full[..8 + key.len()])
        } else {
            self.published.row(keyspace, &prefixed(self.partition, key))
        }
    }

    fn read(&self, pointer: &Pointer) -> Result<Bytes> {
        let segment = self.published.segment(pointer)?;
        let bytes = segment.read(u64::from(pointer.at), pointer.bytes as usize)?;
        verify(segment, pointer, bytes)
    }

    /// Reads values, in the order of their pointers.
    async fn read_all(&self, pointers: Vec<Pointer>) -> Result<Vec<Bytes>> {
        let place = |i: &usize| (pointers[*i].segment, pointers[*i].at);
        let count = pointers.len();
        let mut order: Vec<usize> = (0..count).collect();
        let sorted = order.is_sorted_by_key(place);
        if !sorted {
            order.sort_unstable_by_key(place);
        }
        let mut spans = Vec::new();
        let mut start = 0;
        while start < count {
            let end = start + span_of(&pointers, &order[start..]);
            spans.push(start..end);
            start = end;
        }
        let placed: Vec<Pointer> =
            if sorted { pointers } else { order.iter().map(|i| pointers[*i]).collect() };
        let (published, pieces) = (self.published.clone(), spans.len());
        let read = move |n: usize| published.read_span(&placed[spans[n].clone()]);
        let values = hands::share(pieces, read).await?.into_iter().flatten();
        if sorted {
            return Ok(values.collect());
        }
        let mut out = vec![Bytes::new(); count];
        order.into_iter().zip(values).for_each(|(i, value)| out[i] = value);
        Ok(out)
    }
}

impl Published {
    /// Reads values that lie close together, in their order.
    fn read_span(&self, span: &[Pointer]) -> Result<Vec<Bytes>> {
        let (Some(first), Some(last)) = (span.first(), span.last()) else { return Ok(Vec::new()) };
        let from = u64::from(first.at);
        let bytes = u64::from(last.at) + u64::from(last.bytes) - from;
        let segment = self.segment(first)?;
        let buffer = segment.read(from, bytes as usize)?;
        let value = |pointer: &Pointer| {
            let at = (pointer.at - first.at) as usize;
            verify(segment, pointer, buffer.slice(at..at + pointer.bytes as usize))
        };
        span.iter().map(value).collect()
    }

    fn segment(&self, pointer: &Pointer) -> Result<&Arc<Segment>> {
        self.segments.get(&pointer.segment).ok_or_else(|| {
            crate::Error::Corrupt(format!(
                "a row points into segment {}, which does not exist",
                file_name(pointer.segment)
            ))
        })
    }
}

fn verify(segment: &Segment, pointer: &Pointer, bytes: Bytes) -> Result<Bytes> {
    if crc32fast::hash(&bytes) == pointer.crc {
        return Ok(bytes);
    }
    Err(segment.corrupt(u64::from(pointer.at), "holds a value that was altered"))
}

/// Whether keys may lie close together, which are then put in order. Those of pointed keyspaces begin
/// with a number that grows with every commit; of others it is worth a try where they are sorted.
fn is_near(keyspace: Keyspace, keys: &[Bytes], order: &mut [usize]) -> bool {
    if !is_pointed(keyspace) {
        return keys.is_sorted();
    }
    let number = |i: Option<&usize>| {
        i.and_then(|i| keys[*i].first_chunk()).map(|number| u64::from_be_bytes(*number))
    };
    order.sort_unstable_by(|a, b| keys[*a].cmp(&keys[*b]));
    match (number(order.first()), number(order.last())) {
        (Some(first), Some(last)) => last - first <= 2 * keys.len() as u64,
        _ => false,
    }
}

/// Whether rows of a keyspace hold pointers in the tree.
pub(crate) fn is_pointed(keyspace: Keyspace) -> bool {
    matches!(keyspace, Keyspace::Feed | Keyspace::Log)
}

/// How many of the pointers, taken in the order of their places, are read at once.
fn span_of(pointers: &[Pointer], order: &[usize]) -> usize {
    let first = &pointers[order[0]];
    let from = u64::from(first.at);
    let mut end = from + u64::from(first.bytes);
    let more = order[1..].iter().take_while(|i| {
        let next = &pointers[**i];
        let next_end = u64::from(next.at) + u64::from(next.bytes);
        // Values of one segment never overlap, so the offsets only grow.
        let near = next.segment == first.segment
            && u64::from(next.at) >= end
            && u64::from(next.at) - end <= GAP_BYTES
            && next_end - from <= SPAN_BYTES;
        end = next_end;
        near
    });
    1 + more.count()
}
