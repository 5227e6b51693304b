//! What a partition keeps for readers of its changes beside the newest version of each item.
//!
//! Invariants:
//! - Whether versions and deletes are kept is a state of the partition's writer, changed under
//!   its lock. A decision never asks the container: a write that began under the old policy
//!   would leave a gap that nobody knows of.
//! - Everything after a floor is there. A floor is durable before what is below it is removed.
//! - A change of the state is stored with the next commit; until then there is no commit that it
//!   could be wrong about, and opening the partition comes to the same state again. A change of
//!   policy is acknowledged after such a commit ([`Container::settle_policies`]): before, a crash
//!   could take back commits below the floor, and their LSNs would be given again.

use bytes::{BufMut, Bytes, BytesMut};
use kv::Keyspace;
use model::Result;
use model::policy::ChangeFeedPolicy;
use model::token::Etag;

use crate::Container;
use crate::commit::Draft;
use crate::keys::{self, Change, Head, Reader, Row};
use crate::pieces::Piece;
use crate::version::Version;

const STORED_VERSION: u8 = 1;

/// From where on something is complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Floor {
    /// Everything after this LSN is there.
    pub lsn: u64,
    /// Time of that commit, in milliseconds.
    pub ts_ms: u64,
}

impl Floor {
    /// A floor that is good for both.
    pub fn highest(self, other: Self) -> Self {
        Self { lsn: self.lsn.max(other.lsn), ts_ms: self.ts_ms.max(other.ts_ms) }
    }

    fn lowest(self, other: Self) -> Self {
        if other.lsn < self.lsn { other } else { self }
    }
}

/// What is kept, and from where on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Every version and delete goes to the log.
    pub logs: bool,
    /// With the body that it replaced.
    pub images: bool,
    /// Deleted items leave something behind.
    pub tombstones: bool,
    /// Of the log.
    pub log: Floor,
    /// Of what deleted items leave behind.
    pub deletes: Floor,
}

impl History {
    /// What is to be kept from now on.
    #[must_use]
    pub fn following(self, policy: &ChangeFeedPolicy, head: &Head) -> Self {
        let now = Floor { lsn: head.lsn, ts_ms: head.ts_ms };
        let logs = policy.retention_minutes > 0;
        let tombstones = policy.tombstone_minutes > 0;
        Self {
            logs,
            images: logs && policy.previous_images,
            tombstones,
            log: if logs && !self.logs { now } else { self.log },
            deletes: if tombstones && !self.tombstones { now } else { self.deletes },
        }
    }

    /// What is kept of some pieces ([`crate::pieces`]): the floors of the whole are the lowest.
    #[must_use]
    pub fn over(self, pieces: &[Piece]) -> Self {
        let log = pieces.iter().map(|piece| piece.log).reduce(Floor::lowest);
        let deletes = pieces.iter().map(|piece| piece.deletes).reduce(Floor::lowest);
        Self { log: log.unwrap_or(self.log), deletes: deletes.unwrap_or(self.deletes), ..self }
    }

    /// What all of several partitions keep.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self {
            logs: self.logs && other.logs,
            images: self.images && other.images,
            tombstones: self.tombstones && other.tombstones,
            ..self
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(34);
        out.put_u8(STORED_VERSION);
        let flags = [self.logs, self.images, self.tombstones];
        out.put_u8(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag)));
        for Floor { lsn, ts_ms } in [self.log, self.deletes] {
            out.put_u64(lsn);
            out.put_u64(ts_ms);
        }
        out.freeze()
    }

    /// Reads the stored form.
    pub fn decode(stored: &[u8]) -> Result<Self> {
        let mut reader = Reader { rest: stored };
        let history = Self::read(&mut reader).filter(|_| reader.rest.is_empty());
        history.ok_or_else(|| keys::corrupt("what is kept of changes"))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [STORED_VERSION, flags @ 0..8] = reader.take()? else { return None };
        let mut floor = || {
            let lsn = u64::from_be_bytes(reader.take()?);
            Some(Floor { lsn, ts_ms: u64::from_be_bytes(reader.take()?) })
        };
        Some(Self {
            logs: flags & 1 != 0,
            images: flags & 2 != 0,
            tombstones: flags & 4 != 0,
            log: floor()?,
            deletes: floor()?,
        })
    }
}

impl Container {
    /// Makes a change of what is kept or indexed durable, where there is one.
    pub(crate) async fn settle_policies(&self) -> Result<()> {
        for partition in self.partitions().iter() {
            if partition.writer().has_changed() {
                partition.commit(self.env.now_ms(), &[], |_| Ok(())).await?;
            }
        }
        Ok(())
    }
}

impl Draft<'_> {
    /// A place of its own within the commit.
    fn place(&mut self) -> Etag {
        let ts = u32::try_from(self.head.ts_ms / 1000).unwrap_or(u32::MAX);
        let etag = Etag::new(self.lsn, self.number, self.places, ts);
        self.places = self.places.checked_add(1).expect("a commit has few changes");
        etag
    }

    /// Whether anybody will want to know of a delete.
    pub fn tells_deletes(&self) -> bool {
        self.history.logs || self.history.tombstones
    }

    /// Keeps a version, where versions are kept.
    pub fn log(&mut self, version: &Version) {
        if !self.history.logs {
            return;
        }
        let key = keys::feed_key(self.place());
        let stored = version.encode();
        let bytes = (key.len() + stored.len()) as u64;
        self.head.log_bytes += bytes;
        self.head.log_block_bytes += bytes;
        self.put(Keyspace::Log, key, stored);
    }

    /// Leaves something behind of a deleted item, where that is wanted; names it.
    pub fn bury(&mut self, version: Version) -> Option<Etag> {
        if !self.history.tombstones {
            return None;
        }
        let etag = self.place();
        let stored = Version { previous: None, ..version }.encode();
        self.put(Keyspace::Index, keys::tombstone_key(etag), stored);
        Some(etag)
    }

    /// The body that a row stands for, where it goes to the log with the version after it. It
    /// may be missing for what was written just before that was asked for.
    pub fn image(&mut self, row: Option<&Row>) -> Result<Option<Bytes>> {
        let Some(row) = row.filter(|_| self.history.images) else { return Ok(None) };
        let stored = self.get(&(Keyspace::Feed, row.feed_key()))?;
        Ok(stored.as_ref().map(Change::decode).transpose()?.map(|change| change.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: ChangeFeedPolicy = ChangeFeedPolicy {
        retention_minutes: 0,
        retention_bytes: None,
        previous_images: true,
        tombstone_minutes: 0,
    };
    const ON: ChangeFeedPolicy =
        ChangeFeedPolicy { retention_minutes: 5, tombstone_minutes: 5, ..OFF };

    fn at(lsn: u64) -> Head {
        Head { lsn, ts_ms: lsn * 10, ..Head::default() }
    }

    #[test]
    fn a_floor_is_where_keeping_began() {
        let on = History::default().following(&ON, &at(7));
        assert_eq!(
            (on.log, on.deletes),
            (Floor { lsn: 7, ts_ms: 70 }, Floor { lsn: 7, ts_ms: 70 })
        );
        assert_eq!(on.following(&ON, &at(9)), on);
        let off = on.following(&OFF, &at(9));
        assert!(!off.logs && !off.images && !off.tombstones);
        assert_eq!(off.following(&ON, &at(11)).log.lsn, 11);
    }

    #[test]
    fn it_comes_back_as_it_was() {
        let history = History::default().following(&ON, &at(7));
        let stored = history.encode();
        assert_eq!(History::decode(&stored).unwrap(), history);
        for length in 0..stored.len() {
            assert!(History::decode(&stored[..length]).is_err(), "{length}");
        }
    }
}
