//! Where everything lies in the key space of a partition.
//!
//! ```text
//! Docs   <epk> [<key>] <id>          → Slot     one per item; <key> only where the hash is V1,
//!                                               whose short hash can collide; a deleted item
//!                                               leaves its place for a while
//! Feed   <lsn u64> <number u32> <seq u16> → Change   the newest version of each item, once;
//!                                               number is that of the partition it was written in
//! Index  'u' <n u8> <epk> [<key>] <digest 16> → item key    n-th unique key of the container
//! Log    <lsn u64> <number u32> <seq u16> → Version  every version and delete, where they are kept
//! Index  'b' <block u64>             → u32      how many rows of Feed have an LSN in the block, once it
//!                                               is past
//! Index  'd' <lsn u64> <number u32> <seq u16> → Version  what is left of a deleted item
//! Index  'e'…'j'                     → …        index rows of items: see `index::key`
//! Index  't' <second u32> <item key> → ""       when an item with a time to live of its own expires
//! Index  'v' <block u64>             → u64      bytes of Log in the block, once it is past
//! Index  'x' <epk> [<key>]           → Sentence items of a partition key that are gone
//! Meta   'h'                         → Head     last LSN and counters
//! Meta   'i'                         → Indexing from which policies the index rows are
//! Meta   'l'                         → History  what is kept in Log and 'd', and from where on
//! Meta   'm'                         → Seam     only where rows of merged partitions are
//! Meta   'p'                         → Pieces   floors of merged partitions, where they differ
//! ```
//!
//! Integers are big-endian, so byte order is number order. The effective partition key comes
//! first, so a key range of a container is a key range of `Docs`, in every partition alike.
//! A key of `Feed` is the beginning of the item's etag.
//!
//! Blocks let a reader of `Feed` step over LSNs whose rows are all gone: without them it would
//! pass the tombstones of every version that has been replaced.

use bytes::{BufMut, Bytes, BytesMut};
use model::epk::{self, Epk};
use model::partition_key::{Definition, PartitionKey};
use model::token::Etag;
use model::{Error, Fault, Result};
use smallvec::SmallVec;

/// Key of the [`Head`] in `Meta`.
pub const HEAD: Bytes = Bytes::from_static(b"h");

/// Key of the [`Indexing`](crate::index::Indexing) in `Meta`.
pub const INDEXING: Bytes = Bytes::from_static(b"i");

/// Key of the [`History`](crate::history::History) in `Meta`.
pub const HISTORY: Bytes = Bytes::from_static(b"l");
/// Key of the [`Seam`] in `Meta`.
pub const SEAM: Bytes = Bytes::from_static(b"m");

/// Key of the [`Piece`](crate::pieces::Piece)s in `Meta`.
pub const PIECES: Bytes = Bytes::from_static(b"p");

/// LSNs of one block, as a power of two. A reader passes at most a block of dead rows per live one.
const BLOCK_BITS: u32 = 8;

/// Bytes of the hash of one level of a partition key.
pub const HASH_BYTES: usize = 16;

/// Bytes of a stored [`Head`].
pub const HEAD_BYTES: usize = 60;

/// The LSN, the partition's number and the place within the commit.
pub const FEED_KEY_BYTES: usize = 14;

/// The beginning of keys in `Docs`. Three levels are as long as it gets, but for version 1.
pub type Prefix = SmallVec<[u8; 64]>;

/// What all items of a partition key begin with in `Docs`.
pub fn key_prefix(definition: &Definition, key: &PartitionKey) -> Prefix {
    key_prefix_at(definition, key, &definition.epk(key))
}

/// The same, for who knows the hash of the key.
pub fn key_prefix_at(definition: &Definition, key: &PartitionKey, epk: &Epk) -> Prefix {
    let mut prefix = Prefix::from_slice(epk.as_bytes());
    if key.0.is_empty() {
        // The lowest place has no bytes; spelled out, items lie where it is and not by their ids.
        prefix.resize(HASH_BYTES * definition.paths.len(), 0);
    }
    if definition.version == 1 {
        let mut encoded = Vec::new();
        key.encode(&mut encoded);
        prefix.extend_from_slice(&encoded);
    }
    prefix
}

/// Key of an item in `Docs`.
pub fn item_key(prefix: &[u8], id: &str) -> Bytes {
    let mut key = BytesMut::with_capacity(prefix.len() + id.len());
    write_item_key(&mut key, prefix, id);
    key.freeze()
}

/// Appends the key of an item in `Docs`.
pub fn write_item_key(out: &mut BytesMut, prefix: &[u8], id: &str) {
    out.put_slice(prefix);
    out.put_slice(id.as_bytes());
}

/// Key of a version in `Feed`.
pub fn feed_key(etag: Etag) -> Bytes {
    Bytes::copy_from_slice(&etag.0[..FEED_KEY_BYTES])
}

/// Key in `Index` of the block that an LSN is in.
pub fn block_key(lsn: u64) -> Bytes {
    block_key_of(b'b', lsn)
}

fn block_key_of(kind: u8, lsn: u64) -> Bytes {
    let mut key = BytesMut::with_capacity(9);
    key.put_u8(kind);
    key.put_u64(lsn >> BLOCK_BITS);
    key.freeze()
}

/// The LSN that a key of `Feed` begins with.
pub fn lsn_of(feed_key: &[u8]) -> Result<u64> {
    let lsn = feed_key.first_chunk().ok_or_else(|| corrupt("a key of the feed"))?;
    Ok(u64::from_be_bytes(*lsn))
}

/// The end of all blocks in `Index`.
pub const BLOCKS_END: Bytes = Bytes::from_static(b"c");

/// Where what is left of deleted items begins and ends in `Index`.
pub const TOMBSTONES: (Bytes, Bytes) = (Bytes::from_static(b"d"), Bytes::from_static(b"e"));

/// Where the rows of items that expire begin in `Index`.
pub const EXPIRIES: Bytes = Bytes::from_static(b"t");

/// Where the sizes of the log's blocks begin and end in `Index`.
pub const LOG_BLOCKS: (Bytes, Bytes) = (Bytes::from_static(b"v"), Bytes::from_static(b"w"));

/// Where the partition keys that are deleted as a whole begin and end in `Index`.
pub const DOOMED: (Bytes, Bytes) = (Bytes::from_static(b"x"), Bytes::from_static(b"y"));

/// Key in `Index` of a partition key that is deleted as a whole.
pub fn doomed_key(prefix: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(1 + prefix.len());
    key.put_u8(b'x');
    key.put_slice(prefix);
    key.freeze()
}

/// What the items of such a key begin with.
pub fn doomed_prefix(key: &Bytes) -> Bytes {
    key.slice(1.min(key.len())..)
}

/// Key in `Index` of what is left of an item that was deleted under this etag.
pub fn tombstone_key(etag: Etag) -> Bytes {
    tombstone_start(&etag.0[..FEED_KEY_BYTES])
}

/// Where what was deleted at a place of the feed, or after it, begins in `Index`.
pub fn tombstone_start(feed_key: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(1 + feed_key.len());
    key.put_u8(b'd');
    key.put_slice(feed_key);
    key.freeze()
}

/// The last second that an item lives, where it has a time to live of its own.
pub fn last_second(ts: u32, ttl: i32) -> Option<u32> {
    u32::try_from(ttl).ok().filter(|ttl| *ttl > 0).map(|ttl| ts.saturating_add(ttl))
}

/// Key in `Index` under which an item is found once it has expired.
pub fn expiry_key(last_second: u32, item_key: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(5 + item_key.len());
    key.put_u8(b't');
    key.put_u32(last_second);
    key.put_slice(item_key);
    key.freeze()
}

/// The item key that a key of [`expiry_key`] ends with.
pub fn expiring_item(key: &Bytes) -> Result<Bytes> {
    if key.len() < 5 { Err(corrupt("an expiry")) } else { Ok(key.slice(5..)) }
}

/// Key in `Index` of the size of the log in the block of an LSN.
pub fn log_block_key(lsn: u64) -> Bytes {
    block_key_of(b'v', lsn)
}

/// Whether two LSNs are in the same block.
pub fn same_block(a: u64, b: u64) -> bool {
    a >> BLOCK_BITS == b >> BLOCK_BITS
}

/// The stored form of a size.
pub fn encode_size(bytes: u64) -> Bytes {
    Bytes::copy_from_slice(&bytes.to_be_bytes())
}

/// Reads a size.
pub fn decode_size(stored: &[u8]) -> Result<u64> {
    stored.try_into().map(u64::from_be_bytes).map_err(|_| corrupt("the size of a log block"))
}

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

/// What `Docs` holds under an item's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot {
    /// The item.
    Item(Row),
    /// The item was deleted, and readers of changes can still be told: this names the row.
    Deleted(Etag),
}

const DELETED_VERSION: u8 = 2;

impl Slot {
    /// The stored form of a deleted item's place.
    pub fn encode_deleted(etag: Etag) -> Bytes {
        let mut out = BytesMut::with_capacity(17);
        out.put_u8(DELETED_VERSION);
        out.put_slice(&etag.0);
        out.freeze()
    }

    /// Reads the stored form.
    pub fn decode(stored: &Bytes) -> Result<Self> {
        match stored.split_first() {
            Some((&DELETED_VERSION, etag)) => {
                let etag = etag.try_into().map_err(|_| corrupt("a deleted item's place"))?;
                Ok(Self::Deleted(Etag(etag)))
            }
            _ => Row::decode(stored).map(Self::Item),
        }
    }

    /// The item that is there, if any.
    pub fn item(stored: Option<&Bytes>) -> Result<Option<Row>> {
        match stored.map(Self::decode).transpose()? {
            Some(Self::Item(row)) => Ok(Some(row)),
            Some(Self::Deleted(_)) | None => Ok(None),
        }
    }
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
    /// How long the stored form is.
    pub fn encoded_bytes(&self) -> usize {
        ROW_BYTES + self.unique.iter().map(|key| key.len() + 2).sum::<usize>()
    }

    /// Appends the stored form.
    pub fn write_into(&self, out: &mut impl BufMut) {
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
    /// Bytes held in the log.
    pub log_bytes: u64,
    /// Those of them that are in the block of the newest commit.
    pub log_block_bytes: u64,
    /// Rows of the feed that are in the block of the newest commit.
    pub block_rows: u32,
}

impl Head {
    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEAD_BYTES);
        self.write_into(&mut out);
        out.freeze()
    }

    /// Appends the stored form.
    pub fn write_into(&self, out: &mut impl BufMut) {
        let Self { lsn, ordinal, items, bytes, ts_ms, log_bytes, log_block_bytes, .. } = *self;
        for number in [lsn, ordinal, items, bytes, ts_ms, log_bytes, log_block_bytes] {
            out.put_u64(number);
        }
        out.put_u32(self.block_rows);
    }

    /// Reads the stored form.
    pub fn decode(stored: &[u8]) -> Result<Self> {
        let mut reader = Reader { rest: stored };
        Self::read(&mut reader).ok_or_else(|| corrupt("a partition head"))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut number = || reader.take().map(u64::from_be_bytes);
        Some(Self {
            lsn: number()?,
            ordinal: number()?,
            items: number()?,
            bytes: number()?,
            ts_ms: number()?,
            log_bytes: number()?,
            log_block_bytes: number()?,
            block_rows: u32::from_be_bytes(reader.take()?),
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

/// Reads stored bytes from the front.
pub(crate) struct Reader<'a> {
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The next bytes, as many as the array holds.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    /// The next bytes.
    pub fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(row: &Row) -> Bytes {
        let mut out = BytesMut::new();
        row.write_into(&mut out);
        assert_eq!(out.len(), row.encoded_bytes());
        out.freeze()
    }

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
        assert_eq!(Row::decode(&encoded(&row())).unwrap(), row());
    }

    #[test]
    fn a_torn_row_is_reported_not_served() {
        let stored = encoded(&row());
        for length in 0..stored.len() {
            assert!(Row::decode(&stored.slice(..length)).is_err(), "{length}");
        }
        let mut longer = stored.to_vec();
        longer.push(0);
        assert!(Row::decode(&longer.into()).is_err());
    }

    #[test]
    fn a_deleted_item_leaves_its_place() {
        let stored = Slot::encode_deleted(Etag([7; 16]));
        assert_eq!(Slot::decode(&stored).unwrap(), Slot::Deleted(Etag([7; 16])));
        assert_eq!(Slot::decode(&encoded(&row())).unwrap(), Slot::Item(row()));
        for length in 0..stored.len() {
            assert!(Slot::decode(&stored.slice(..length)).is_err(), "{length}");
        }
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
