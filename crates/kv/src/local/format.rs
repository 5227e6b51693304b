//! The bytes of a segment file: its header, and the records that follow it.
//!
//! Invariants:
//! - All integers are little endian. A record's header is covered by its own checksum, which
//!   also takes in the segment's salt: bytes left over from another file are never a record.
//! - A record says where its *group* began. A group is synced before the next one is
//!   written, so a broken record in front of a later group is damage, while a broken record
//!   in the last group is only a write that was never acknowledged.
//! - Nothing here trusts a length before it is checked against the bytes at hand.

use bytes::Bytes;

use crate::{Keyspace, Op};

/// Bytes of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 48;
/// Bytes of a record's header.
pub(crate) const RECORD_HEADER_BYTES: usize = 48;

const SEGMENT_MAGIC: [u8; 8] = *b"astrseg1";
const RECORD_MAGIC: u32 = 0x6372_7341;

/// Names a segment file. Grows with creation; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SegmentId(pub u32);

/// What a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// Batches in the order of their commit: the source of truth.
    Journal,
    /// Values that were still alive when their segment was compacted.
    Moved,
}

/// The first bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub id: SegmentId,
    pub kind: SegmentKind,
    /// The journal segment written before this one; its own number if it is the first.
    pub previous: SegmentId,
    pub salt: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&SEGMENT_MAGIC);
        out[8..12].copy_from_slice(&self.id.0.to_le_bytes());
        out[12..16].copy_from_slice(&self.previous.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.salt.to_le_bytes());
        out[24] = match self.kind {
            SegmentKind::Journal => 0,
            SegmentKind::Moved => 1,
        };
        let crc = crc32fast::hash(&out[..SEGMENT_HEADER_BYTES - 4]);
        out[SEGMENT_HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..SEGMENT_HEADER_BYTES)?;
        let crc = u32_at(head, SEGMENT_HEADER_BYTES - 4)?;
        if head[..8] != SEGMENT_MAGIC || crc32fast::hash(&head[..SEGMENT_HEADER_BYTES - 4]) != crc {
            return None;
        }
        Some(Self {
            id: SegmentId(u32_at(head, 8)?),
            previous: SegmentId(u32_at(head, 12)?),
            salt: u64_at(head, 16)?,
            kind: match head[24] {
                0 => SegmentKind::Journal,
                1 => SegmentKind::Moved,
                _ => return None,
            },
        })
    }
}

/// What a record asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// Rows to change.
    Batch,
    /// The partition has a new owner, of the epoch given.
    Claim,
}

/// The fixed part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub kind: RecordKind,
    pub commit: u64,
    pub partition: u64,
    pub epoch: u64,
    pub body_bytes: u32,
    pub body_crc: u32,
    /// Where in the file the group of this record began.
    pub group_at: u32,
}

impl RecordHeader {
    pub(crate) fn encode(&self, salt: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = [0; RECORD_HEADER_BYTES];
        out[..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[8..12].copy_from_slice(&self.body_crc.to_le_bytes());
        out[12..16].copy_from_slice(&self.group_at.to_le_bytes());
        out[16..24].copy_from_slice(&self.commit.to_le_bytes());
        out[24..32].copy_from_slice(&self.partition.to_le_bytes());
        out[32..40].copy_from_slice(&self.epoch.to_le_bytes());
        out[40] = match self.kind {
            RecordKind::Batch => 0,
            RecordKind::Claim => 1,
        };
        let crc = header_crc(&out, salt);
        out[44..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8], salt: u64) -> Option<Self> {
        let head = bytes.get(..RECORD_HEADER_BYTES)?;
        if u32_at(head, 0)? != RECORD_MAGIC || u32_at(head, 44)? != header_crc(head, salt) {
            return None;
        }
        Some(Self {
            body_bytes: u32_at(head, 4)?,
            body_crc: u32_at(head, 8)?,
            group_at: u32_at(head, 12)?,
            commit: u64_at(head, 16)?,
            partition: u64_at(head, 24)?,
            epoch: u64_at(head, 32)?,
            kind: match head[40] {
                0 => RecordKind::Batch,
                1 => RecordKind::Claim,
                _ => return None,
            },
        })
    }
}

/// Bytes that every record begins with, for a search after damage.
pub(crate) fn record_mark() -> [u8; 4] {
    RECORD_MAGIC.to_le_bytes()
}

/// The operations of a batch as they stand in a record, with their checksum.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub bytes: Bytes,
    pub crc: u32,
}

impl Body {
    /// A record without operations.
    pub(crate) fn empty() -> Self {
        Self { bytes: Bytes::new(), crc: crc32fast::hash(&[]) }
    }

    pub(crate) fn of(ops: &[Op]) -> Self {
        let total: usize = ops.iter().map(encoded_bytes).sum();
        let mut out = Vec::with_capacity(total);
        for op in ops {
            push_op(&mut out, op);
        }
        debug_assert_eq!(out.len(), total);
        Self { crc: crc32fast::hash(&out), bytes: Bytes::from(out) }
    }
}

/// What is done to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Put,
    Delete,
    DeleteOnce,
}

/// One operation, by the places of its parts within the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub change: Change,
    pub keyspace: Keyspace,
    key_at: usize,
    key_bytes: usize,
    pub value_at: usize,
    pub value_bytes: usize,
    pub value_crc: u32,
}

impl Row {
    pub(crate) fn key<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        &body[self.key_at..self.key_at + self.key_bytes]
    }

    pub(crate) fn value<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        &body[self.value_at..self.value_at + self.value_bytes]
    }
}

/// Walks the operations of a body. `None` inside the walk means that it is not well formed.
pub(crate) struct Rows<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(body: &'a [u8]) -> Self {
        Self { body, at: 0 }
    }

    fn read(&mut self) -> Option<Row> {
        let tag = *self.body.get(self.at)?;
        let keyspace = *Keyspace::ALL.get(usize::from(tag & 0x0f))?;
        let change = match tag >> 4 {
            0 => Change::Put,
            1 => Change::Delete,
            2 => Change::DeleteOnce,
            _ => return None,
        };
        let key_bytes = usize::from(u16_at(self.body, self.at + 1)?);
        let mut key_at = self.at + 3;
        let (mut value_bytes, mut value_crc) = (0, 0);
        if change == Change::Put {
            value_bytes = u32_at(self.body, key_at)? as usize;
            value_crc = u32_at(self.body, key_at + 4)?;
            key_at += 8;
        }
        let value_at = key_at + key_bytes;
        self.at = value_at + value_bytes;
        (self.at <= self.body.len()).then_some(Row {
            change,
            keyspace,
            key_at,
            key_bytes,
            value_at,
            value_bytes,
            value_crc,
        })
    }
}

impl Iterator for Rows<'_> {
    type Item = Option<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.body.len() {
            return None;
        }
        let row = self.read();
        if row.is_none() {
            self.at = self.body.len();
        }
        Some(row)
    }
}

fn encoded_bytes(op: &Op) -> usize {
    match op {
        Op::Put(_, key, value) => 11 + key.len() + value.len(),
        Op::Delete(_, key) | Op::DeleteOnce(_, key) => 3 + key.len(),
    }
}

fn push_op(out: &mut Vec<u8>, op: &Op) {
    let (tag, key) = match op {
        Op::Put(keyspace, key, _) => (*keyspace as u8, key),
        Op::Delete(keyspace, key) => (*keyspace as u8 | 0x10, key),
        Op::DeleteOnce(keyspace, key) => (*keyspace as u8 | 0x20, key),
    };
    out.push(tag);
    // Keys are bounded by `Limits` before they come here.
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    if let Op::Put(_, _, value) = op {
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(value).to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    } else {
        out.extend_from_slice(key);
    }
}

fn header_crc(head: &[u8], salt: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&head[..44]);
    hasher.finalize()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_reads_back_as_written() {
        let ops = vec![
            Op::Put(Keyspace::Feed, Bytes::from_static(b"k1"), Bytes::from_static(b"value")),
            Op::Delete(Keyspace::Meta, Bytes::from_static(b"")),
            Op::DeleteOnce(Keyspace::Index, Bytes::from_static(b"gone")),
        ];
        let body = Body::of(&ops);
        let rows: Vec<Row> = Rows::of(&body.bytes).map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].value(&body.bytes), b"value");
        assert_eq!(rows[0].value_crc, crc32fast::hash(b"value"));
        assert_eq!((rows[1].change, rows[1].keyspace), (Change::Delete, Keyspace::Meta));
        assert_eq!((rows[2].change, rows[2].key(&body.bytes)), (Change::DeleteOnce, &b"gone"[..]));
    }

    #[test]
    fn a_cut_body_is_refused_and_not_read_past() {
        let ops =
            [Op::Put(Keyspace::Docs, Bytes::from_static(b"key"), Bytes::from_static(b"value"))];
        let body = Body::of(&ops);
        for cut in 1..body.bytes.len() {
            assert!(Rows::of(&body.bytes[..cut]).any(|row| row.is_none()), "cut at {cut}");
        }
    }

    #[test]
    fn another_segments_salt_makes_a_header_invalid() {
        let header = RecordHeader {
            kind: RecordKind::Batch,
            commit: 7,
            partition: 1,
            epoch: 2,
            body_bytes: 3,
            body_crc: 4,
            group_at: 48,
        };
        let bytes = header.encode(99);
        assert_eq!(RecordHeader::decode(&bytes, 99), Some(header));
        assert_eq!(RecordHeader::decode(&bytes, 98), None);
    }
}
