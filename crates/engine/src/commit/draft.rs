//! A decision in the making.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes};
use kv::Keyspace;
use model::token::Etag;
use model::{Error, Fault, Result};

use crate::doomed::Doomed;
use crate::history::History;
use crate::index::{Beforehand, Indexing, Moved};
use crate::keys::{self, Head, Row};
use crate::places::{Place, Places, Write};
use crate::shelf;

use super::overlay::Overlay;

/// A decision in the making: what it reads, and what it would write.
pub(crate) struct Draft<'a> {
    /// The LSN it will have.
    pub lsn: u64,
    /// Counters as they will be.
    pub head: Head,
    /// What is kept for readers of changes, as it will be.
    pub history: History,
    /// The number of the partition it is made in.
    pub number: u32,
    /// Places given out within this commit.
    pub places: u16,
    /// Versions added to the feed within this commit.
    pub versions: u16,
    /// Partition keys whose items are gone, as they will be.
    pub doomed: Cow<'a, Doomed>,
    pub(super) overlay: Option<&'a Overlay>,
    pub(super) reads: &'a Places<Option<Bytes>>,
    /// A key it looked at that has not been read yet.
    pub missing: Option<Place>,
    pub writes: Places<Write>,
    /// What was replaced among the writes, where they may be undone.
    pub replaced: Option<Vec<(Place, Write)>>,
    /// Absent where nobody submits: nothing is indexed then.
    pub(super) indexing: Option<&'a Indexing>,
    /// What the indexes have to follow.
    pub(super) moved: Vec<Moved>,
    /// How far a build of indexes will have come; to the end where there is no key.
    pub(super) built: Option<Option<Bytes>>,
}

impl<'a> Draft<'a> {
    /// A draft that nobody submits: of a transaction that tries what it is going to do.
    pub fn trial(
        (lsn, number): (u64, u32),
        (head, history): (Head, History),
        doomed: &'a Doomed,
        reads: &'a Places<Option<Bytes>>,
        writes: Places<Write>,
    ) -> Self {
        Self {
            lsn,
            head,
            history,
            number,
            places: 0,
            versions: 0,
            doomed: Cow::Borrowed(doomed),
            overlay: None,
            reads,
            missing: None,
            writes,
            replaced: Some(Vec::new()),
            indexing: None,
            moved: Vec::new(),
            built: None,
        }
    }
}

impl Draft<'_> {
    /// The value of a key, earlier writes of this draft included. Fails when the key has to be
    /// read first: the decision then ends with this error, and runs again.
    pub fn get(&mut self, place: &Place) -> Result<Option<Bytes>> {
        if let Some(own) = self.writes.get(place) {
            return Ok(match own {
                Write::Put(value) => Some(value.clone()),
                Write::Delete { .. } => None,
            });
        }
        if let Some(value) = self.overlay.and_then(|overlay| overlay.get(place)) {
            return Ok(value.clone());
        }
        if let Some(value) = self.reads.get(place) {
            return Ok(value.clone());
        }
        self.missing = Some(place.clone());
        Err(Error::new(Fault::Internal, "a key has to be read first"))
    }

    /// Whether it has come upon a key that has to be read first: its error is not the last word.
    pub fn is_unfinished(&self) -> bool {
        self.missing.is_some()
    }

    /// Whether an item is there for everybody: neither past its time nor deleted with its key.
    pub fn is_alive(&self, item_key: &[u8], row: &Row, default_ttl: Option<i32>) -> bool {
        let now = u32::try_from(self.head.ts_ms / 1000).unwrap_or(u32::MAX);
        !row.expired(default_ttl, now) && !self.doomed.hides(item_key, row.etag.lsn())
    }

    /// The etag of the next version of this commit.
    pub fn next_etag(&mut self, ts: u32) -> Etag {
        let etag = Etag::new(self.lsn, self.number, self.versions, ts);
        self.versions = self.versions.checked_add(1).expect("a commit has few versions");
        etag
    }

    /// Adds a version to the feed.
    pub fn add_version(
        &mut self,
        etag: Etag,
        stored: Bytes,
        rows: Option<Beforehand>,
    ) -> Result<()> {
        self.count(etag.lsn(), 1)?;
        if self.indexing.is_some_and(Indexing::reads_bodies) {
            self.moved.push(Moved::Added(stored.clone(), rows));
        }
        let key = &etag.0[..keys::FEED_KEY_BYTES];
        let key = shelf::keep(key.len(), |out| out.put_slice(key));
        self.put(Keyspace::Feed, key, stored);
        Ok(())
    }

    /// Takes a version out of the feed.
    pub fn remove_version(&mut self, etag: Etag) -> Result<()> {
        self.count(etag.lsn(), -1)?;
        let key = keys::feed_key(etag);
        if self.indexing.is_some_and(Indexing::reads_bodies) {
            // Missing only for what was written just before anything was indexed.
            let stored = self.get(&(Keyspace::Feed, key.clone()))?;
            self.moved.extend(stored.map(Moved::Removed));
        }
        self.delete_once(Keyspace::Feed, key);
        Ok(())
    }

    /// From which policies index rows are.
    pub fn indexing(&self) -> Option<&Indexing> {
        self.indexing
    }

    /// Gives a version that stays the index rows of the current policy.
    pub fn rebuild(&mut self, stored: Bytes) {
        self.moved.push(Moved::Rebuilt(stored));
    }

    /// All items up to this one, or all there are, have the rows of the current policy.
    pub fn built_up_to(&mut self, cursor: Option<Bytes>) {
        self.built = Some(cursor);
    }

    /// Keeps the count of a block of the feed.
    fn count(&mut self, lsn: u64, change: i32) -> Result<()> {
        if keys::same_block(lsn, self.lsn) {
            self.head.block_rows = self.head.block_rows.saturating_add_signed(change);
            return Ok(());
        }
        let place = (Keyspace::Index, keys::block_key(lsn));
        let count = match self.get(&place)? {
            Some(stored) => keys::decode_count(&stored)?,
            None => 0,
        };
        match count.saturating_add_signed(change) {
            0 => self.delete(place.0, place.1),
            count => self.put(place.0, place.1, keys::encode_count(count)),
        }
        Ok(())
    }

    /// Sets the row of an item.
    pub fn put_row(&mut self, item_key: Bytes, row: &Row) {
        let bytes = row.encoded_bytes();
        let stored = shelf::keep(bytes, |out| row.write_into(out));
        self.put(Keyspace::Docs, item_key, stored);
    }

    /// Sets a key.
    pub fn put(&mut self, keyspace: Keyspace, key: Bytes, value: Bytes) {
        self.write((keyspace, key), Write::Put(value));
    }

    /// Removes a key that may have been put many times.
    pub fn delete(&mut self, keyspace: Keyspace, key: Bytes) {
        self.write((keyspace, key), Write::Delete { once: false });
    }

    /// Removes a key that was put once.
    pub fn delete_once(&mut self, keyspace: Keyspace, key: Bytes) {
        self.write((keyspace, key), Write::Delete { once: true });
    }

    fn write(&mut self, place: Place, write: Write) {
        match &mut self.replaced {
            None => drop(self.writes.write(place, write)),
            Some(replaced) => {
                let old = self.writes.write(place.clone(), write);
                replaced.extend(old.map(|old| (place, old)));
            }
        }
    }
}
