//! Brings durable records into the tree and publishes what can be read.
//!
//! Invariants:
//! - One holder at a time (it lives behind a mutex), records in the order of their commit.
//! - Rows, live bytes per segment and the mark of how far the journal is applied change in one
//!   fjall batch. So live bytes are exact at any point where a crash can put us.
//! - A weak tombstone meets exactly one put: Feed and Log rows carry that knowledge in their
//!   pointer; for other keyspaces a key that is deleted and put within one group gets its
//!   tombstone in a batch of its own first.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
// Keys are hashed several times per write, where the standard hasher shows.
use foldhash::{HashMap, HashMapExt};

use super::format::{
    Change, RECORD_HEADER_BYTES, RecordKind, Row, Rows, SEGMENT_HEADER_BYTES, SegmentId,
};
use super::segment::{Placed, Segment, SegmentSet};
use super::tree::{Account, Applied, Pointer, Tree, failed};
use crate::{CommitNo, Epoch, Error, Keyspace, PartitionId, Result};

/// What readers see.
pub(crate) struct Published {
    pub commit: CommitNo,
    pub snapshot: fjall::Snapshot,
    pub segments: Arc<SegmentSet>,
}

/// Applies groups; see the top of this file.
pub(crate) struct Applier {
    tree: Arc<Tree>,
    published: Arc<ArcSwap<Published>>,
    segments: Arc<SegmentSet>,
    accounts: BTreeMap<SegmentId, Account>,
    /// No key above this one exists in the partition's keyspace.
    tails: HashMap<(PartitionId, Keyspace), Bytes>,
    applied: Option<Applied>,
}

/// What a group does to one key.
#[derive(Clone)]
enum Effect {
    Put(Bytes),
    Point(Pointer),
    Remove,
    RemoveOnce,
}

/// What a group does, one effect per key.
#[derive(Default)]
struct Effects {
    rows: [HashMap<Bytes, Effect>; 5],
    /// Keys that were deleted before they were put again: they need a tombstone beneath.
    reborn: Vec<(Keyspace, Bytes)>,
    epochs: HashMap<PartitionId, Epoch>,
    accounts: BTreeMap<SegmentId, Account>,
}

impl Applier {
    pub(crate) fn new(
        tree: Arc<Tree>,
        segments: SegmentSet,
        accounts: BTreeMap<SegmentId, Account>,
        applied: Option<Applied>,
    ) -> Self {
        let segments = Arc::new(segments);
        let published = Arc::new(ArcSwap::from_pointee(Published {
            commit: CommitNo(applied.map_or(0, |applied| applied.commit)),
            snapshot: tree.snapshot(),
            segments: segments.clone(),
        }));
        Self { tree, published, segments, accounts, tails: HashMap::new(), applied }
    }

    pub(crate) fn published(&self) -> Arc<ArcSwap<Published>> {
        self.published.clone()
    }

    pub(crate) fn applied(&self) -> Option<Applied> {
        self.applied
    }

    pub(crate) fn accounts(&self) -> &BTreeMap<SegmentId, Account> {
        &self.accounts
    }

    pub(crate) fn segment(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.segments.get(&id).cloned()
    }

    /// Applies records of one segment and publishes the outcome.
    pub(crate) fn apply(&mut self, segment: &Arc<Segment>, records: &[Placed]) -> Result<()> {
        let Some(last) = records.last() else { return Ok(()) };
        self.know(segment);
        let mut effects = Effects::default();
        for record in records {
            self.gather(&mut effects, segment, record)?;
        }
        let applied =
            Applied { segment: segment.id(), end: last.end(), commit: last.header.commit };
        let account = self.account(&mut effects, segment.id());
        account.used = last.end();
        self.write(effects, Some(applied))?;
        self.applied = Some(applied);
        self.publish();
        Ok(())
    }

    /// Points rows that still name the old place to the new one. Rows that were deleted or
    /// written anew in the meantime stay as they are.
    pub(crate) fn move_rows(
        &mut self,
        to: &Arc<Segment>,
        used: u32,
        moves: &[(Keyspace, Bytes, Pointer, Pointer)],
    ) -> Result<()> {
        self.know(to);
        let mut effects = Effects::default();
        self.account(&mut effects, to.id()).used = used;
        for (keyspace, key, old, new) in moves {
            if self.stored(*keyspace, key)?.is_some_and(|now| now.same_place(old)) {
                self.release(&mut effects, *old);
                self.account(&mut effects, new.segment).live += u64::from(new.bytes);
                effects.rows[*keyspace as usize].insert(key.clone(), Effect::Point(*new));
            }
        }
        self.write(effects, None)?;
        self.publish();
        Ok(())
    }

    /// Forgets a segment that nothing points to. The caller syncs the tree before the file goes.
    pub(crate) fn retire(&mut self, id: SegmentId) -> Result<Option<Arc<Segment>>> {
        let current = self.applied.map(|applied| applied.segment);
        if current == Some(id) || self.accounts.get(&id).is_none_or(|account| account.live > 0) {
            return Ok(None);
        }
        let mut batch = self.tree.batch(1);
        self.tree.remove_account(&mut batch, id);
        batch.commit().map_err(|error| failed(&error))?;
        self.accounts.remove(&id);
        let mut segments = SegmentSet::clone(&self.segments);
        let gone = segments.remove(&id);
        self.segments = Arc::new(segments);
        self.publish();
        Ok(gone)
    }

    fn know(&mut self, segment: &Arc<Segment>) {
        if !self.segments.contains_key(&segment.id()) {
            let mut segments = SegmentSet::clone(&self.segments);
            segments.insert(segment.id(), segment.clone());
            self.segments = Arc::new(segments);
        }
        self.accounts.entry(segment.id()).or_insert(Account {
            kind: segment.header.kind,
            used: SEGMENT_HEADER_BYTES as u32,
            live: 0,
        });
    }

    fn gather(
        &mut self,
        effects: &mut Effects,
        segment: &Arc<Segment>,
        record: &Placed,
    ) -> Result<()> {
        let partition = PartitionId(record.header.partition);
        if record.header.kind == RecordKind::Claim {
            effects.epochs.insert(partition, Epoch(record.header.epoch));
            return Ok(());
        }
        for row in Rows::of(&record.body) {
            let row = row.ok_or_else(|| {
                segment.corrupt(u64::from(record.at), "holds a record that cannot be read")
            })?;
            let key = prefixed(partition, row.key(&record.body));
            match row.keyspace {
                Keyspace::Feed | Keyspace::Log => {
                    self.gather_pointer(effects, segment, record, &row, key)?;
                }
                Keyspace::Docs | Keyspace::Index | Keyspace::Meta => {
                    gather_row(effects, record, &row, key);
                }
            }
        }
        Ok(())
    }

    fn gather_pointer(
        &mut self,
        effects: &mut Effects,
        segment: &Arc<Segment>,
        record: &Placed,
        row: &Row,
        key: Bytes,
    ) -> Result<()> {
        let seen = effects.rows[row.keyspace as usize].get(&key).cloned();
        let old = match &seen {
            Some(Effect::Point(pointer)) => Some(*pointer),
            Some(_) => None,
            None => self.stored(row.keyspace, &key)?,
        };
        if let Some(old) = old {
            self.release(effects, old);
        }
        let effect = if row.change == Change::Put {
            let pointer = Pointer {
                segment: segment.id(),
                at: record.at + (RECORD_HEADER_BYTES + row.value_at) as u32,
                bytes: row.value_bytes as u32,
                crc: row.value_crc,
                once: seen.is_none() && old.is_none(),
            };
            self.account(effects, segment.id()).live += u64::from(pointer.bytes);
            self.raise_tail(row.keyspace, &key);
            Effect::Point(pointer)
        } else if seen.is_none() && old.is_some_and(|old| old.once) {
            Effect::RemoveOnce
        } else {
            Effect::Remove
        };
        effects.rows[row.keyspace as usize].insert(key, effect);
        Ok(())
    }

    fn write(&mut self, effects: Effects, applied: Option<Applied>) -> Result<()> {
        if !effects.reborn.is_empty() {
            let mut tombstones = self.tree.batch(effects.reborn.len());
            for (keyspace, key) in effects.reborn {
                tombstones.remove(self.tree.space(keyspace), key);
            }
            tombstones.commit().map_err(|error| failed(&error))?;
        }
        let rows = effects.rows.iter().map(HashMap::len).sum::<usize>();
        let mut batch = self.tree.batch(rows + effects.accounts.len() + effects.epochs.len() + 1);
        for (keyspace, rows) in Keyspace::ALL.into_iter().zip(effects.rows) {
            let space = self.tree.space(keyspace);
            for (key, effect) in rows {
                match effect {
                    Effect::Put(value) => batch.insert(space, key, value),
                    Effect::Point(pointer) => batch.insert(space, key, pointer.encode()),
                    Effect::Remove => batch.remove(space, key),
                    Effect::RemoveOnce => batch.remove_weak(space, key),
                }
            }
        }
        for (partition, epoch) in effects.epochs {
            self.tree.put_epoch(&mut batch, partition, epoch);
        }
        for (id, account) in &effects.accounts {
            self.tree.put_account(&mut batch, *id, *account);
        }
        if let Some(applied) = applied {
            self.tree.put_applied(&mut batch, applied);
        }
        batch.commit().map_err(|error| failed(&error))?;
        self.accounts.extend(effects.accounts);
        Ok(())
    }

    fn publish(&self) {
        self.published.store(Arc::new(Published {
            commit: CommitNo(self.applied.map_or(0, |applied| applied.commit)),
            snapshot: self.tree.snapshot(),
            segments: self.segments.clone(),
        }));
    }

    fn account<'a>(&self, effects: &'a mut Effects, id: SegmentId) -> &'a mut Account {
        let known = self.accounts.get(&id).copied();
        effects.accounts.entry(id).or_insert_with(|| {
            known.unwrap_or(Account { kind: super::format::SegmentKind::Journal, used: 0, live: 0 })
        })
    }

    fn release(&self, effects: &mut Effects, old: Pointer) {
        let account = self.account(effects, old.segment);
        debug_assert!(account.live >= u64::from(old.bytes), "more bytes die than were alive");
        account.live = account.live.saturating_sub(u64::from(old.bytes));
    }

    /// The pointer that the tree holds for a key. A key beyond the tail needs no lookup: that
    /// is every write of a feed.
    fn stored(&mut self, keyspace: Keyspace, key: &Bytes) -> Result<Option<Pointer>> {
        let partition = partition_of(key)?;
        if !self.tails.contains_key(&(partition, keyspace)) {
            let tail = self.last_key(keyspace, partition)?;
            self.tails.insert((partition, keyspace), tail);
        }
        if self.tails.get(&(partition, keyspace)).is_some_and(|tail| key > tail) {
            return Ok(None);
        }
        let row = self.tree.space(keyspace).get(key).map_err(|error| failed(&error))?;
        row.map(|row| Pointer::decode(&row)).transpose()
    }

    fn raise_tail(&mut self, keyspace: Keyspace, key: &Bytes) {
        if let Ok(partition) = partition_of(key)
            && let Some(tail) = self.tails.get_mut(&(partition, keyspace))
            && key > tail
        {
            *tail = key.clone();
        }
    }

    fn last_key(&self, keyspace: Keyspace, partition: PartitionId) -> Result<Bytes> {
        let mut rows = self.tree.space(keyspace).prefix(partition.0.to_be_bytes());
        match rows.next_back() {
            None => Ok(Bytes::copy_from_slice(&partition.0.to_be_bytes())),
            Some(row) => Ok(row.key().map_err(|error| failed(&error))?.into()),
        }
    }
}

fn gather_row(effects: &mut Effects, record: &Placed, row: &Row, key: Bytes) {
    let rows = &mut effects.rows[row.keyspace as usize];
    let seen = rows.get(&key);
    let effect = match (row.change, seen) {
        (Change::Put, seen) => {
            if matches!(seen, Some(Effect::Remove | Effect::RemoveOnce)) {
                effects.reborn.push((row.keyspace, key.clone()));
            }
            // A copy: the tree must not keep the whole record in memory for one small row.
            Effect::Put(Bytes::copy_from_slice(row.value(&record.body)))
        }
        (Change::DeleteOnce, None) => Effect::RemoveOnce,
        (Change::Delete | Change::DeleteOnce, _) => Effect::Remove,
    };
    rows.insert(key, effect);
}

/// A key as the tree holds it: the partition first.
pub(crate) fn prefixed(partition: PartitionId, key: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(8 + key.len());
    out.extend_from_slice(&partition.0.to_be_bytes());
    out.extend_from_slice(key);
    Bytes::from(out)
}

fn partition_of(key: &[u8]) -> Result<PartitionId> {
    let prefix = key.get(..8).and_then(|prefix| prefix.try_into().ok());
    prefix
        .map(|prefix| PartitionId(u64::from_be_bytes(prefix)))
        .ok_or_else(|| Error::Corrupt("a row without a partition".into()))
}
