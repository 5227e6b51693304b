//! Where a query goes on: written into continuations, read back from whoever sends them.

use bytes::Bytes;
use model::{Error, Result};

/// Bytes of a value in a place. Places travel in headers, and a value may be as large as an item:
/// of a longer one a place has the beginning and a digest, and the rest is read from its item.
pub(crate) const KEY_BYTES: usize = 1_024;

/// Where the last row stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing was given yet.
    Start,
    /// In the order of items: after this row of this item.
    Item { item: Bytes, row: u32 },
    /// In the order of an index that the plan chose: after this row of this entry.
    Entry { scan: String, value: Bytes, item: Bytes, row: u32 },
    /// In the order of `ORDER BY`: after this row. Rows that are equal in it stand in the order of
    /// their items, or backwards: other plans than the one that began have to follow.
    Ordered { key: Bytes, item: Bytes, row: u32, backwards: bool },
    /// In the order of groups: after this one.
    Group { identity: Bytes },
    /// In an order made for each page: after this many rows.
    Count { rows: u64 },
}

/// The row number that stands for all rows of an item.
pub(crate) const ALL_ROWS: u32 = u32::MAX;

/// A place, and what `OFFSET`, `LIMIT` and `TOP` still ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resume {
    pub place: Place,
    pub skip: u64,
    pub take: Option<u64>,
}

impl Resume {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        let (kind, parts, number): (u8, Vec<&[u8]>, u64) = match &self.place {
            Place::Start => (0, vec![], 0),
            Place::Item { item, row } => (1, vec![item], u64::from(*row)),
            Place::Entry { scan, value, item, row } => {
                (2, vec![scan.as_bytes(), value, item], u64::from(*row))
            }
            Place::Ordered { key, item, row, backwards } => {
                (if *backwards { 6 } else { 3 }, vec![key, item], u64::from(*row))
            }
            Place::Group { identity } => (4, vec![identity], 0),
            Place::Count { rows } => (5, vec![], *rows),
        };
        out.push(kind);
        out.extend_from_slice(&self.skip.to_be_bytes());
        // No limit is written as the largest, which no limit can be.
        out.extend_from_slice(&self.take.unwrap_or(u64::MAX).to_be_bytes());
        out.extend_from_slice(&number.to_be_bytes());
        for part in parts {
            out.extend_from_slice(&(part.len() as u32).to_be_bytes());
            out.extend_from_slice(part);
        }
        out.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader { rest: bytes };
        let resume = reader.resume().filter(|_| reader.rest.is_empty());
        resume.ok_or_else(foreign)
    }
}

/// A value as places have it: itself, or its beginning and digest where it is long.
pub(crate) fn shortened(value: Bytes) -> Bytes {
    if value.len() <= KEY_BYTES {
        return value;
    }
    let mut short = value[..KEY_BYTES].to_vec();
    short.extend_from_slice(&model::epk::digest(&value));
    short.into()
}

/// Whether a value of a place was shortened.
pub(crate) fn is_shortened(value: &Bytes) -> bool {
    value.len() > KEY_BYTES
}

/// The refusal of a place that no query of ours gave out.
pub(crate) fn foreign() -> Error {
    Error::bad_request(
        "the continuation token does not belong to this query: start again without one",
    )
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl Reader<'_> {
    fn resume(&mut self) -> Option<Resume> {
        let kind = self.bytes(1)?[0];
        let skip = self.number()?;
        let take = self.number()?;
        let number = self.number()?;
        let row = u32::try_from(number).unwrap_or(ALL_ROWS);
        let place = match kind {
            0 => Place::Start,
            1 => Place::Item { item: self.part()?, row },
            2 => Place::Entry {
                scan: String::from_utf8(self.part()?.to_vec()).ok()?,
                value: self.part()?,
                item: self.part()?,
                row,
            },
            3 | 6 => {
                let backwards = kind == 6;
                Place::Ordered { key: self.part()?, item: self.part()?, row, backwards }
            }
            4 => Place::Group { identity: self.part()? },
            5 => Place::Count { rows: number },
            _ => return None,
        };
        Some(Resume { place, skip, take: (take != u64::MAX).then_some(take) })
    }

    fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_be_bytes)
    }

    fn part(&mut self) -> Option<Bytes> {
        let length = u32::from_be_bytes(self.bytes(4)?.try_into().ok()?);
        self.bytes(usize::try_from(length).ok()?).map(Bytes::copy_from_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        let (item, key) = (Bytes::from_static(b"item"), Bytes::from_static(b"key"));
        let places = [
            Place::Start,
            Place::Item { item: item.clone(), row: 3 },
            Place::Entry { scan: "/a/?".into(), value: key.clone(), item: item.clone(), row: 0 },
            Place::Ordered { key: key.clone(), item: item.clone(), row: ALL_ROWS, backwards: true },
            Place::Ordered { key: key.clone(), item, row: 1, backwards: false },
            Place::Group { identity: key },
            Place::Count { rows: 7 },
        ];
        for place in places {
            for take in [None, Some(5)] {
                let resume = Resume { place: place.clone(), skip: 2, take };
                let bytes = resume.encode();
                assert_eq!(Resume::decode(&bytes).unwrap(), resume);
                for cut in 0..bytes.len() {
                    assert!(Resume::decode(&bytes[..cut]).is_err());
                }
            }
        }
        assert!(Resume::decode(&[9; 40]).is_err());
    }
}
