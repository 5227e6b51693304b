//! Where everything lies in the key space of a partition.
//!
//! ```text
//! Docs   <epk> [<key>] <id>          → Row      one per item; <key> only where the hash is V1,
//!                                               whose short hash can collide
//! Feed   <lsn u64> <number u32> <seq u16> → Change   the newest version of each item, once;
//!                                               number is that of the partition it was written in
//! Index  'u' <n u8> <epk> [<key>] <digest 16> → item key    n-th unique key of the container
//! Index  'b' <block u64>             → u32      how many rows of Feed have an LSN in the block
//! Meta   'h'                         → Head     last LSN and counters
//! Meta   'm'                         → Seam     only where rows of merged partitions are
//! ```
//!
//! Integers are big-endian, so byte order is number order. The effective partition key comes
//! first, so a key range of a container is a key range of `Docs`, in every partition alike.
//! A key of `Feed` is the beginning of the item's etag.
//!
//! Blocks let a reader of `Feed` step over LSNs whose rows are all gone: without them it would
//! pass the tombstones of every version that has been replaced.

use bytes::{BufMut, Bytes, BytesMut};
use model::partition_key::{Definition, PartitionKey};
use model::token::Etag;
use model::{Error, Fault, Result, epk};

/// Key of the [`Head`] in `Meta`.
pub const HEAD: Bytes = Bytes::from_static(b"h");

/// Key of the [`Seam`] in `Meta`.
pub const SEAM: Bytes = Bytes::from_static(b"m");

/// LSNs of one block, as a power of two. A reader passes at most a block of dead rows per live one.
const BLOCK_BITS: u32 = 8;

/// Bytes of the hash of one level of a partition key.
pub const HASH_BYTES: usize = 16;

/// The LSN, the partition's number and the place within the commit.
const FEED_KEY_BYTES: usize = 14;

/// What all items of a partition key begin with in `Docs`.
pub fn key_prefix(definition: &Definition, key: &PartitionKey) -> Vec<u8> {
    let epk = definition.epk(key);
    let mut prefix = Vec::with_capacity(64);
    prefix.extend_from_slice(epk.as_bytes());
    if key.0.is_empty() {
        // The lowest place has no bytes; spelled out, items lie where it is and not by their ids.
        prefix.resize(HASH_BYTES * definition.paths.len(), 0);
    }
    if definition.version == 1 {
        key.encode(&mut prefix);
    }
    prefix
}

/// Key of an item in `Docs`.
pub fn item_key(prefix: &[u8], id: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(prefix.len() + id.len());
    key.put_slice(prefix);
    key.put_slice(id.as_bytes());
    key.freeze()
}

/// Key of a version in `Feed`.
pub fn feed_key(etag: Etag) -> Bytes {
    Bytes::copy_from_slice(&etag.0[..FEED_KEY_BYTES])
}

/// Key in `Index` of the block that an LSN is in.
pub fn block_key(lsn: u64) -> Bytes {
    let mut key = BytesMut::with_capacity(9);
    key.put_u8(b'b');
    key.put_u64(lsn >> BLOCK_BITS);
    key.freeze()
}

/// The end of all blocks in `Index`.
pub const BLOCKS_END: Bytes = Bytes::from_static(b"c");

/// The first and last LSN of the block that a key in `Index` names.
pub fn block_span(key: &[u8]) -> Result<(u64, u64)> {
    let number = key.get(1..).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
    let first = number.ok_or_else(|| corrupt("a block of the feed"))? << BLOCK_BITS;
    Ok((first, first + (1 << BLOCK_BITS) - 1))
}

/// Where the rows of an LSN begin in `Feed`.
pub fn feed_start(lsn: u64) -> Bytes {
    Bytes::copy_from_slice(&lsn.to_be_bytes())
}

/// The LSN of a key of `Feed`.
pub fn feed_lsn(key: &[u8]) -> Result<u64> {
    let lsn = key.first_chunk().ok_or_else(|| corrupt("a key of the feed"))?;
    Ok(u64::from_be_bytes(*lsn))
}

/// The stored form of a block's count.
pub fn encode_count(count: u32) -> Bytes {
    Bytes::copy_from_slice(&count.to_be_bytes())
}

/// Reads a block's count.
pub fn decode_count(stored: &[u8]) -> Result<u32> {
    stored.try_into().map(u32::from_be_bytes).map_err(|_| corrupt("a block of the feed"))
}

/// Key in `Index` of the value that an item has under the n-th unique key.
pub fn unique_key(n: u8, prefix: &[u8], values: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(18 + prefix.len());
    key.put_slice(&[b'u', n]);
    key.put_slice(prefix);
    key.put_slice(&epk::digest(values));
    key.freeze()
}

/// What `Docs` says of an item: all that a write must know of it, so that none reads a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its version: which commit of which partition wrote it, and where it is in `Feed`.
    pub etag: Etag,
    /// When it was written, in seconds.
    pub ts: u32,
    /// Its own time to live: -1 never, 0 the container's.
    pub ttl: i32,
    /// Length of its body.
    pub body_bytes: u32,
    /// Number of the item within its partition of birth; the item part of its rid.
    pub ordinal: u64,
    /// Its rows in `Index` under unique keys, in the policy's order.
    pub unique: Vec<Bytes>,
}

const ROW_VERSION: u8 = 1;
const ROW_BYTES: usize = 1 + 16 + 4 + 4 + 4 + 8 + 1;

impl Row {
    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let unique: usize = self.unique.iter().map(|key| key.len() + 2).sum();
        let mut out = BytesMut::with_capacity(ROW_BYTES + unique);
        out.put_u8(ROW_VERSION);
        out.put_slice(&self.etag.0);
        out.put_u32(self.ts);
        out.put_i32(self.ttl);
        out.put_u32(self.body_bytes);
        out.put_u64(self.ordinal);
        out.put_u8(u8::try_from(self.unique.len()).expect("at most 10 unique keys"));
        for key in &self.unique {
            out.put_u16(u16::try_from(key.len()).expect("an index key is shorter than 64 KB"));
            out.put_slice(key);
        }
        out.freeze()
    }

    /// Reads the stored form.
    pub fn decode(stored: &Bytes) -> Result<Self> {
        let mut reader = Reader { rest: stored };
        let row = Self::read(&mut reader, stored);
        row.filter(|_| reader.rest.is_empty()).ok_or_else(|| corrupt("an item row"))
    }

    fn read(reader: &mut Reader<'_>, stored: &Bytes) -> Option<Self> {
        if reader.take::<1>()? != [ROW_VERSION] {
            return None;
        }
        let mut row = Self {
            etag: Etag(reader.take()?),
            ts: u32::from_be_bytes(reader.take()?),
            ttl: i32::from_be_bytes(reader.take()?),
            body_bytes: u32::from_be_bytes(reader.take()?),
            ordinal: u64::from_be_bytes(reader.take()?),
            unique: Vec::new(),
        };
        for _ in 0..reader.take::<1>()?[0] {
            let length = usize::from(u16::from_be_bytes(reader.take()?));
            row.unique.push(stored.slice_ref(reader.slice(length)?));
        }
        Some(row)
    }

    /// Key of this version in `Feed`.
    pub fn feed_key(&self) -> Bytes {
        feed_key(self.etag)
    }

    /// Whether the item is past its time to live.
    pub fn expired(&self, default_ttl: Option<i32>, now_seconds: u32) -> bool {
        expired(default_ttl, self.ttl, self.ts, now_seconds)
    }
}

/// The documented table: nothing expires where the container's default is absent; an item's own
/// value wins over the default; -1 is never.
fn expired(default_ttl: Option<i32>, own_ttl: i32, ts: u32, now_seconds: u32) -> bool {
    let Some(default) = default_ttl else { return false };
    let ttl = if own_ttl == 0 { default } else { own_ttl };
    u32::try_from(ttl).is_ok_and(|ttl| now_seconds > ts.saturating_add(ttl))
}

/// What `Feed` holds of a change: the item's key in `Docs`, when it was made, and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Key in `Docs`.
    pub item_key: Bytes,
    /// When it was made, in milliseconds; never less than that of the change before.
    pub ts_ms: u64,
    /// The item's own time to live, as in its [`Row`].
    pub ttl: i32,
    /// The item with its system properties.
    pub body: Bytes,
}

impl Change {
    /// Begins the stored form; the body is to be appended.
    pub fn begin(item_key: &[u8], ts_ms: u64, ttl: i32, body_bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 + item_key.len() + 12 + body_bytes);
        out.put_u16(u16::try_from(item_key.len()).expect("an item key is shorter than 64 KB"));
        out.put_slice(item_key);
        out.put_u64(ts_ms);
        out.put_i32(ttl);
        out
    }

    /// Whether the item is past its time to live.
    pub fn expired(&self, default_ttl: Option<i32>, now_seconds: u32) -> bool {
        let ts = u32::try_from(self.ts_ms / 1000).unwrap_or(u32::MAX);
        expired(default_ttl, self.ttl, ts, now_seconds)
    }

    /// Reads the stored form without copying it.
    pub fn decode(stored: &Bytes) -> Result<Self> {
        let mut reader = Reader { rest: stored };
        Self::read(&mut reader, stored).ok_or_else(|| corrupt("a change"))
    }

    fn read(reader: &mut Reader<'_>, stored: &Bytes) -> Option<Self> {
        let length = usize::from(u16::from_be_bytes(reader.take()?));
        let item_key = stored.slice_ref(reader.slice(length)?);
        let ts_ms = u64::from_be_bytes(reader.take()?);
        let ttl = i32::from_be_bytes(reader.take()?);
        Some(Self { item_key, ts_ms, ttl, body: stored.slice_ref(reader.rest) })
    }
}

/// The last LSN of a partition and what it holds. Written with every commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    /// The newest commit.
    pub lsn: u64,
    /// Items ever created here.
    pub ordinal: u64,
    /// Items held.
    pub items: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Time of the newest commit, in milliseconds. Never goes back, whatever the clock does.
    pub ts_ms: u64,
}

impl Head {
    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(40);
        for number in [self.lsn, self.ordinal, self.items, self.bytes, self.ts_ms] {
            out.put_u64(number);
        }
        out.freeze()
    }

    /// Reads the stored form.
    pub fn decode(stored: &[u8]) -> Result<Self> {
        let mut reader = Reader { rest: stored };
        let mut number =
            || reader.take().map(u64::from_be_bytes).ok_or_else(|| corrupt("a partition head"));
        Ok(Self {
            lsn: number()?,
            ordinal: number()?,
            items: number()?,
            bytes: number()?,
            ts_ms: number()?,
        })
    }
}

/// Up to where the feed has rows of several partitions that were merged. LSNs order the changes
/// of a key there as everywhere, but times may go back from one row to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seam {
    /// The last LSN of the longest of them.
    pub lsn: u64,
    /// Not before the time of any change up to there.
    pub ts_ms: u64,
}

impl Seam {
    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(16);
        out.put_u64(self.lsn);
        out.put_u64(self.ts_ms);
        out.freeze()
    }

    /// Reads the stored form.
    pub fn decode(stored: &[u8]) -> Result<Self> {
        let mut reader = Reader { rest: stored };
        let mut number =
            || reader.take().map(u64::from_be_bytes).ok_or_else(|| corrupt("a seam of the feed"));
        Ok(Self { lsn: number()?, ts_ms: number()? })
    }
}

/// The error for stored bytes that cannot be read.
pub fn corrupt(what: &str) -> Error {
    Error::new(Fault::Internal, format!("corrupt data: {what} cannot be read"))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            etag: Etag([9; 16]),
            ts: 1000,
            ttl: 60,
            body_bytes: 123,
            ordinal: 5,
            unique: vec![Bytes::from_static(b"u1"), Bytes::from_static(b"u22")],
        }
    }

    #[test]
    fn a_row_comes_back_as_it_was() {
        assert_eq!(Row::decode(&row().encode()).unwrap(), row());
    }

    #[test]
    fn a_torn_row_is_reported_not_served() {
        let stored = row().encode();
        for length in 0..stored.len() {
            assert!(Row::decode(&stored.slice(..length)).is_err(), "{length}");
        }
        let mut longer = stored.to_vec();
        longer.push(0);
        assert!(Row::decode(&longer.into()).is_err());
    }

    #[test]
    fn a_change_is_its_key_and_its_body() {
        let mut stored = Change::begin(b"key", 77, -1, 4);
        stored.extend_from_slice(b"body");
        let change = Change::decode(&stored.into()).unwrap();
        assert_eq!(
            (&change.item_key[..], change.ts_ms, &change.body[..]),
            (&b"key"[..], 77, &b"body"[..])
        );
        assert!(Change::decode(&Bytes::from_static(b"\x00\x05abc")).is_err());
    }

    #[test]
    fn time_to_live_follows_the_documented_table() {
        let item = |ttl| Row { ttl, ts: 100, ..row() };
        let check = |default, ttl, now, expired| {
            assert_eq!(
                item(ttl).expired(default, now),
                expired,
                "default {default:?}, ttl {ttl}, now {now}"
            );
        };
        check(None, 5, 1000, false);
        check(Some(-1), 0, 1000, false);
        check(Some(-1), 5, 105, false);
        check(Some(-1), 5, 106, true);
        check(Some(10), 0, 111, true);
        check(Some(10), -1, 1000, false);
        check(Some(10), 500, 300, false);
    }

    #[test]
    fn feed_keys_sort_by_lsn_then_place() {
        let key = |lsn, seq| feed_key(Etag::new(lsn, 3, seq, 0));
        assert!([key(1, 9), key(2, 0), key(2, 1), key(256, 0)].is_sorted());
        assert_eq!(block_key(255), block_key(0));
        assert!([block_key(255), block_key(256), block_key(1 << 40)].is_sorted());
    }
}
