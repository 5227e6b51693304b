//! The bytes of a segment file: its header, and the records that follow it.
//!
//! Invariants:
//! - All integers are little endian. A record's header is covered by its own checksum, which
//!   also takes in the segment's salt: bytes left over from another file are never a record.
//! - A record says where its *group* began. A group is synced before the next one is
//!   written, so a broken record in front of a later group is damage, while a broken record
//!   in the last group is only a write that was never acknowledged.
//! - Nothing here trusts a length before it is checked against the bytes at hand.
//! - A row of [`Keyspace::Terms`] holds only what tells its key from the one before it in the
//!   same body: rows of one item begin and end alike, and would outweigh the item otherwise.

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
    pub(crate) fn of(ops: &[Op]) -> Self {
        let mut out = Vec::new();
        push_ops(&mut out, ops);
        Self { crc: crc32fast::hash(&out), bytes: Bytes::from(out) }
    }
}

/// Appends operations as they stand in the body of a record.
pub(crate) fn push_ops(out: &mut Vec<u8>, ops: &[Op]) {
    out.reserve(ops.iter().map(encoded_bytes_max).sum());
    let mut last_term: &[u8] = &[];
    for op in ops {
        match op {
            Op::Put(Keyspace::Terms, key, value) => {
                push_term(out, Change::Put, (last_term, key), value);
                last_term = key;
            }
            Op::Delete(Keyspace::Terms, key) => {
                push_term(out, Change::Delete, (last_term, key), &[]);
                last_term = key;
            }
            Op::DeleteOnce(Keyspace::Terms, key) => {
                push_term(out, Change::DeleteOnce, (last_term, key), &[]);
                last_term = key;
            }
            _ => push_op(out, op),
        }
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
    /// How many bytes the key has in common with the last one of [`Keyspace::Terms`], at its
    /// beginning and at its end.
    pub shared: (usize, usize),
    key_at: usize,
    key_bytes: usize,
    pub value_at: usize,
    pub value_bytes: usize,
    pub value_crc: u32,
}

impl Row {
    /// The key, or what of it stands here: without what it shares.
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
            0 | PUT_EMPTY => Change::Put,
            1 => Change::Delete,
            2 => Change::DeleteOnce,
            _ => return None,
        };
        let key_bytes = usize::from(u16_at(self.body, self.at + 1)?);
        let mut key_at = self.at + 3;
        let mut shared = (0, 0);
        if keyspace == Keyspace::Terms {
            shared =
                (usize::from(*self.body.get(key_at)?), usize::from(*self.body.get(key_at + 1)?));
            key_at += 2;
        }
        let (mut value_bytes, mut value_crc) = (0, 0);
        if tag >> 4 == 0 {
            value_bytes = u32_at(self.body, key_at)? as usize;
            key_at += 4;
            if keyspace != Keyspace::Terms {
                value_crc = u32_at(self.body, key_at)?;
                key_at += 4;
            }
        }
        let value_at = key_at + key_bytes;
        self.at = value_at + value_bytes;
        (self.at <= self.body.len()).then_some(Row {
            change,
            keyspace,
            shared,
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

/// What stands above the keyspace in the tag of a put without a value.
const PUT_EMPTY: u8 = 3;

fn encoded_bytes_max(op: &Op) -> usize {
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

fn push_term(out: &mut Vec<u8>, change: Change, (last, key): (&[u8], &[u8]), value: &[u8]) {
    let change = match change {
        Change::Put if value.is_empty() => PUT_EMPTY,
        Change::Put => 0,
        Change::Delete => 1,
        Change::DeleteOnce => 2,
    };
    let (before, after) = shared(last, key);
    let own = &key[before..key.len() - after];
    out.push(Keyspace::Terms as u8 | change << 4);
    out.extend_from_slice(&(own.len() as u16).to_le_bytes());
    out.extend_from_slice(&[before as u8, after as u8]);
    if change == 0 {
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(own);
    out.extend_from_slice(value);
}

/// What two keys have in common at their beginnings and at their ends.
fn shared(a: &[u8], b: &[u8]) -> (usize, usize) {
    let most = a.len().min(b.len()).min(usize::from(u8::MAX));
    let before = alike(a[..most].chunks_exact(8), b[..most].chunks_exact(8));
    let before = before + (before..most).take_while(|i| a[*i] == b[*i]).count();
    let most = (a.len().min(b.len()) - before).min(usize::from(u8::MAX));
    let (a, b) = (&a[a.len() - most..], &b[b.len() - most..]);
    let after = alike(a.rchunks_exact(8), b.rchunks_exact(8));
    let after = after + (after..most).take_while(|i| a[most - 1 - i] == b[most - 1 - i]).count();
    (before, after)
}

/// How many bytes are equal, in whole chunks of eight: those are compared at once.
fn alike<'a>(a: impl Iterator<Item = &'a [u8]>, b: impl Iterator<Item = &'a [u8]>) -> usize {
    8 * a.zip(b).take_while(|(a, b)| a == b).count()
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
    fn terms_hold_what_tells_them_from_the_last_one() {
        let keys: [&[u8]; 5] = [b"path-1 item", b"path-23 item", b"path-2", b"", b"x"];
        let put = |key: &&'static [u8]| {
            let value = if key.is_empty() { &b"value"[..] } else { b"" };
            Op::Put(Keyspace::Terms, Bytes::from_static(key), Bytes::from_static(value))
        };
        let mut ops: Vec<Op> = keys.iter().map(put).collect();
        ops.insert(1, Op::Delete(Keyspace::Meta, Bytes::from_static(b"between")));
        ops.push(Op::Delete(Keyspace::Terms, Bytes::from_static(b"xy")));
        let body = Body::of(&ops);
        let rows = Rows::of(&body.bytes).map(|row| row.unwrap());
        let rows: Vec<Row> = rows.filter(|row| row.keyspace == Keyspace::Terms).collect();
        let mut last: Vec<u8> = Vec::new();
        let mut read = Vec::new();
        for row in &rows {
            let (before, after) = row.shared;
            last = [&last[..before], row.key(&body.bytes), &last[last.len() - after..]].concat();
            read.push(last.clone());
        }
        assert_eq!(read, [&keys[..], &[&b"xy"[..]]].concat());
        assert_eq!(rows[1].key(&body.bytes), b"23");
        assert_eq!(rows[3].value(&body.bytes), b"value");
        assert_eq!((rows[4].change, rows[5].change), (Change::Put, Change::Delete));
        for cut in 1..body.bytes.len() {
            // A cut between two rows is found by the checksum alone.
            let _ = Rows::of(&body.bytes[..cut]).count();
        }
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
