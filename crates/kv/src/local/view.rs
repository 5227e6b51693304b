//! A published state, read through the eyes of one partition.
//!
//! Rows of Feed and Log are read in two steps: the pointers first, then the values from their
//! segments. Values that lie close together come with one read, and share its buffer.

use std::future::ready;
use std::ops::Bound;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use fjall::Readable;

use super::apply::{Published, prefixed};
use super::recent::Value;
use super::scan::{self, Merge};
use super::tree::{Pointer, Tree, failed};
use crate::{Chunk, CommitNo, Keyspace, PartitionId, Pending, Result, Scan, View};

/// Bytes between two values that are rather read along than skipped.
const GAP_BYTES: u64 = 16 << 10;
/// Most bytes in one read; larger values are read alone.
const SPAN_BYTES: u64 = 1 << 20;
/// Keys up to this length are looked up without an allocation.
const SHORT_KEY_BYTES: usize = 248;

/// What keys begin with.
const PARTITION_BYTES: usize = 8;

/// So many sorted keys are looked for in one walk.
const MANY_KEYS: usize = 8;

/// Rows that a chunk passes over, beside those it returns.
const PASSED_ROWS_MAX: usize = 4096;

/// A row that exists.
pub(crate) enum Row {
    Value(Bytes),
    Pointer(Pointer),
}

impl Published {
    /// The row of a key that begins with its partition: from the newest layer that knows it.
    pub(crate) fn row(&self, tree: &Tree, keyspace: Keyspace, key: &[u8]) -> Result<Option<Row>> {
        let known = self.layers.iter().find_map(|layer| layer.get(keyspace, key, self.state));
        match known {
            Some(Value::Put(value)) => return Ok(Some(Row::Value(value))),
            Some(Value::Point(pointer)) => return Ok(Some(Row::Pointer(pointer))),
            Some(Value::Gone) => return Ok(None),
            None => {}
        }
        let row = self.base.snapshot.get(tree.space(keyspace), key);
        match row.map_err(|error| failed(&error))? {
            None => Ok(None),
            Some(row) if is_pointed(keyspace) => Ok(Some(Row::Pointer(Pointer::decode(&row)?))),
            Some(row) => Ok(Some(Row::Value(row.into()))),
        }
    }
}

/// See the top of this file.
pub(crate) struct LocalView {
    pub tree: Arc<Tree>,
    pub published: Arc<Published>,
    pub partition: PartitionId,
}

impl View for LocalView {
    fn commit(&self) -> CommitNo {
        self.published.commit
    }

    fn get<'a>(&'a self, keyspace: Keyspace, key: &'a [u8]) -> Pending<'a, Option<Bytes>> {
        Box::pin(ready(self.value(keyspace, key)))
    }

    fn get_many<'a>(
        &'a self,
        keyspace: Keyspace,
        keys: &'a [Bytes],
    ) -> Pending<'a, Vec<Option<Bytes>>> {
        Box::pin(ready(self.values(keyspace, keys)))
    }

    fn scan(&self, scan: Scan) -> Pending<'_, Chunk> {
        Box::pin(ready(self.chunk(&scan)))
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

    fn values(&self, keyspace: Keyspace, keys: &[Bytes]) -> Result<Vec<Option<Bytes>>> {
        if keys.len() >= MANY_KEYS && !is_pointed(keyspace) && keys.is_sorted() {
            let (values, known) = self.values_by_walk(keyspace, keys)?;
            let mut values: Vec<_> = values.into_iter().take(known).collect();
            for key in &keys[known..] {
                values.push(self.value(keyspace, key)?);
            }
            return Ok(values);
        }
        let mut values = Vec::with_capacity(keys.len());
        let (mut pointers, mut places) = (Vec::new(), Vec::new());
        for (i, key) in keys.iter().enumerate() {
            values.push(match self.row(keyspace, key)? {
                None => None,
                Some(Row::Value(value)) => Some(value),
                Some(Row::Pointer(pointer)) => {
                    pointers.push(pointer);
                    places.push(i);
                    None
                }
            });
        }
        for (place, value) in places.into_iter().zip(self.read_all(&pointers)?) {
            values[place] = Some(value);
        }
        Ok(values)
    }

    /// The values of sorted keys by a walk from the first to the last of them: where few other keys
    /// lie between them that is less work than to look for each, above all where there are none.
    /// Returns how many were come by before the walk became too long.
    fn values_by_walk(
        &self,
        keyspace: Keyspace,
        keys: &[Bytes],
    ) -> Result<(Vec<Option<Bytes>>, usize)> {
        let mut values = vec![None; keys.len()];
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok((values, 0));
        };
        let range = (
            Bound::Included(prefixed(self.partition, first)),
            Bound::Included(prefixed(self.partition, last)),
        );
        let mut merge = Merge::new(&self.published, Some(&self.tree), keyspace, range, false)?;
        let (mut known, mut passed) = (0, 0);
        while let Some((key, value)) = merge.next()? {
            let key = &key[PARTITION_BYTES..];
            known += keys[known..].partition_point(|wanted| wanted[..] < *key);
            let before = known;
            while keys.get(known).is_some_and(|wanted| wanted[..] == *key) {
                if let Value::Put(value) = &value {
                    values[known] = Some(value.clone());
                }
                known += 1;
            }
            passed += usize::from(before == known);
            if passed > keys.len() {
                return Ok((values, known));
            }
        }
        Ok((values, keys.len()))
    }

    /// The next rows of a scan.
    pub(crate) fn chunk(&self, scan: &Scan) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        let range = self.range(scan);
        if scan::is_empty(&range) {
            return Ok(chunk);
        }
        let tree = (!self.is_above_tree(scan.keyspace, &range.0)).then_some(&*self.tree);
        let mut merge = Merge::new(&self.published, tree, scan.keyspace, range, scan.reverse)?;
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
        for (row, value) in chunk.rows.iter_mut().zip(self.read_all(&pointers)?) {
            row.1 = value;
        }
        Ok(chunk)
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
        if key.len() <= SHORT_KEY_BYTES {
            let mut full = [0; 8 + SHORT_KEY_BYTES];
            full[..8].copy_from_slice(&self.partition.0.to_be_bytes());
            full[8..8 + key.len()].copy_from_slice(key);
            self.published.row(&self.tree, keyspace, &full[..8 + key.len()])
        } else {
            self.published.row(&self.tree, keyspace, &prefixed(self.partition, key))
        }
    }

    fn read(&self, pointer: &Pointer) -> Result<Bytes> {
        let bytes = self.segment(pointer)?.read(u64::from(pointer.at), pointer.bytes as usize)?;
        self.verify(pointer, bytes)
    }

    /// Reads values, in the order of their pointers.
    fn read_all(&self, pointers: &[Pointer]) -> Result<Vec<Bytes>> {
        let place = |i: &usize| (pointers[*i].segment, pointers[*i].at);
        let mut order: Vec<usize> = (0..pointers.len()).collect();
        if !order.is_sorted_by_key(place) {
            order.sort_unstable_by_key(place);
        }
        let mut values = vec![Bytes::new(); pointers.len()];
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let (span, later) = rest.split_at(span_of(pointers, rest));
            self.read_span(pointers, span, &mut values)?;
            rest = later;
        }
        Ok(values)
    }

    fn read_span(&self, pointers: &[Pointer], span: &[usize], values: &mut [Bytes]) -> Result<()> {
        let (Some(first), Some(last)) = (span.first(), span.last()) else { return Ok(()) };
        let (first, last) = (&pointers[*first], &pointers[*last]);
        let from = u64::from(first.at);
        let bytes = u64::from(last.at) + u64::from(last.bytes) - from;
        let buffer = self.segment(first)?.read(from, bytes as usize)?;
        for i in span {
            let pointer = &pointers[*i];
            let at = (pointer.at - first.at) as usize;
            values[*i] = self.verify(pointer, buffer.slice(at..at + pointer.bytes as usize))?;
        }
        Ok(())
    }

    fn segment(&self, pointer: &Pointer) -> Result<&Arc<super::segment::Segment>> {
        self.published.segments.get(&pointer.segment).ok_or_else(|| {
            crate::Error::Corrupt(format!(
                "a row points into segment {}, which does not exist",
                super::segment::file_name(pointer.segment)
            ))
        })
    }

    fn verify(&self, pointer: &Pointer, bytes: Bytes) -> Result<Bytes> {
        if crc32fast::hash(&bytes) == pointer.crc {
            return Ok(bytes);
        }
        Err(self.segment(pointer)?.corrupt(u64::from(pointer.at), "holds a value that was altered"))
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
