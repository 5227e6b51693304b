//! A version or a delete, as the log keeps it; also what is left of a deleted item.
//!
//! ```text
//! operation u8 · item key (u16 length) · ts_ms u64 · previous LSN u64, 0: none
//! id (u16 length) · partition key (u16 length) · previous body (u32 length, all ones: none) · body
//! ```
//!
//! Only deletes carry id and partition key: the bodies of the others say them.

use bytes::{BufMut, Bytes, BytesMut};
use model::Result;

use crate::api::{Changed, Detail, Operation};
use crate::keys::{Reader, corrupt};

/// The length of a body that is not there.
const ABSENT: u32 = u32::MAX;

/// What happened to an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub operation: Operation,
    /// It was deleted because its time was over.
    pub expired: bool,
    /// Key in `Docs`.
    pub item_key: Bytes,
    /// When, in milliseconds; never less than that of the version before.
    pub ts_ms: u64,
    /// LSN of the version that was replaced or deleted; 0 where there was none.
    pub previous_lsn: u64,
    pub id: Bytes,
    /// The partition key as a JSON array.
    pub key: Bytes,
    /// The body that was replaced or deleted, where it is kept.
    pub previous: Option<Bytes>,
    /// The item with its system properties; empty for a delete.
    pub body: Bytes,
}

impl Version {
    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let Self { item_key, id, key, body, .. } = self;
        let previous = self.previous.as_ref().map_or(0, Bytes::len);
        let room = 27 + item_key.len() + id.len() + key.len() + previous + body.len();
        let mut out = BytesMut::with_capacity(room);
        out.put_u8(match (self.operation, self.expired) {
            (Operation::Create, _) => 1,
            (Operation::Replace, _) => 2,
            (Operation::Delete, false) => 3,
            (Operation::Delete, true) => 4,
        });
        put_short(&mut out, item_key);
        out.put_u64(self.ts_ms);
        out.put_u64(self.previous_lsn);
        put_short(&mut out, id);
        put_short(&mut out, key);
        match &self.previous {
            Some(previous) => {
                out.put_u32(u32::try_from(previous.len()).expect("an item is at most 2 MB"));
                out.put_slice(previous);
            }
            None => out.put_u32(ABSENT),
        }
        out.put_slice(body);
        out.freeze()
    }

    /// Reads the stored form without copying it.
    pub fn decode(stored: &Bytes) -> Result<Self> {
        let mut reader = Reader { rest: stored };
        let version = Self::read(&mut reader, stored);
        // A delete leaves no body, everything else has one.
        version
            .filter(|v| v.body.is_empty() == (v.operation == Operation::Delete))
            .ok_or_else(|| corrupt("a version"))
    }

    fn read(reader: &mut Reader<'_>, stored: &Bytes) -> Option<Self> {
        let (operation, expired) = match reader.take()? {
            [1] => (Operation::Create, false),
            [2] => (Operation::Replace, false),
            [3] => (Operation::Delete, false),
            [4] => (Operation::Delete, true),
            _ => return None,
        };
        let item_key = short(reader, stored)?;
        let ts_ms = u64::from_be_bytes(reader.take()?);
        let previous_lsn = u64::from_be_bytes(reader.take()?);
        let id = short(reader, stored)?;
        let key = short(reader, stored)?;
        let previous = match u32::from_be_bytes(reader.take()?) {
            ABSENT => None,
            length => Some(stored.slice_ref(reader.slice(length as usize)?)),
        };
        let body = stored.slice_ref(reader.rest);
        Some(Self { operation, expired, item_key, ts_ms, previous_lsn, id, key, previous, body })
    }

    /// As readers of changes see it.
    pub fn changed(self, lsn: u64) -> Result<Changed> {
        let text = |bytes: &Bytes| {
            let text = std::str::from_utf8(bytes).map_err(|_| corrupt("a version"))?;
            Ok((!text.is_empty()).then(|| text.to_owned()))
        };
        let detail = Detail {
            operation: self.operation,
            expired: self.expired,
            previous_lsn: Some(self.previous_lsn).filter(|lsn| *lsn > 0),
            id: text(&self.id)?,
            key: text(&self.key)?,
            previous: self.previous,
        };
        let detail = Some(Box::new(detail));
        Ok(Changed { body: self.body, lsn, ts_ms: self.ts_ms, detail })
    }
}

fn put_short(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u16(u16::try_from(bytes.len()).expect("keys and ids are shorter than 64 KB"));
    out.put_slice(bytes);
}

fn short(reader: &mut Reader<'_>, stored: &Bytes) -> Option<Bytes> {
    let length = usize::from(u16::from_be_bytes(reader.take()?));
    Some(stored.slice_ref(reader.slice(length)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete() -> Version {
        Version {
            operation: Operation::Delete,
            expired: true,
            item_key: Bytes::from_static(b"key"),
            ts_ms: 5,
            previous_lsn: 4,
            id: Bytes::from_static(b"i"),
            key: Bytes::from_static(b"[1]"),
            previous: Some(Bytes::from_static(b"{}")),
            body: Bytes::new(),
        }
    }

    #[test]
    fn a_version_comes_back_as_it_was() {
        let body = Bytes::from_static(b"{\"a\":1}");
        let replace = Version { operation: Operation::Replace, expired: false, body, ..delete() };
        let create = Version { operation: Operation::Create, previous: None, ..replace.clone() };
        for version in [delete(), replace, create] {
            assert_eq!(Version::decode(&version.encode()).unwrap(), version);
        }
    }

    #[test]
    fn a_torn_version_is_reported_not_served() {
        let stored = delete().encode();
        for length in 0..stored.len() {
            assert!(Version::decode(&stored.slice(..length)).is_err(), "{length}");
        }
        let mut longer = stored.to_vec();
        longer.push(0);
        assert!(Version::decode(&longer.into()).is_err());
    }
}
