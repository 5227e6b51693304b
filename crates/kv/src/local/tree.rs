//! The derived side of the store: a fjall database that can be made again from the journal.
//!
//! It holds every row of Docs, Index, Meta and Terms, and for Feed and Log a [`Pointer`] to the value
//! in its segment. Commits never touch it: whole layers of rows come here from memory
//! ([`super::flush`]), long after they are durable in the journal. What makes that safe:
//!
//! - A layer is taken in keyspace by keyspace. Then one batch brings the accounts of segments
//!   and the row that says how far the journal is [`Applied`]. Until that batch has come, replay
//!   does the same rows again, to the same end.
//! - Accounts cannot be found by doing rows again. So a mark is set before pointers are taken
//!   in, and goes with that batch; where it is found, live bytes are counted anew
//!   ([`super::count`]).
//! - Before a segment is removed, everything applied so far is flushed and synced.
//! - Snapshots are taken only between two flushes, by the one thread that flushes.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    HashRatioPolicy, PinningPolicy,
};
use fjall::{AbstractTree as _, Database, KeyspaceCreateOptions, PersistMode};

use super::format::{SegmentId, SegmentKind, u32_at, u64_at};
use super::recent::{Recent, Value};
use super::repair;
use super::stems::{self, Gathered, Stems, Tables};
use crate::{Epoch, Error, Keyspace, PartitionId, Result};

const APPLIED: &[u8] = b"applied";
const SEGMENT_PREFIX: u8 = b's';
const EPOCH_PREFIX: u8 = b'e';
const FLUSHING: &[u8] = b"flushing";
/// Only accounts and marks pass through fjall's memtables.
const MEMTABLE_BYTES: u64 = 4 << 20;
/// Tables that gather at the top before they are merged: each merge rewrites a part of the next
/// level, so the more of them at once the better.
const TOP_TABLES: u8 = 8;
/// Of keys that are looked up, which takes a look at the filter of each of them.
const POINT_TOP_TABLES: u8 = 12;
/// Of keys that come in order.
const RUN_TOP_TABLES: u8 = 32;
const TABLE_BYTES: u64 = 32 << 20;
/// Rows of Terms are most of what is written, and each merge at the top rewrites the next level: with
/// twice as many tables at once a load of 1.5 million items takes 86 seconds instead of 101. Twice
/// as many again makes it 71, but then whoever scans a range has all of them to look into.
const TERMS_TOP_TABLES: u8 = 16;
const TERMS_BLOCK_BYTES: u32 = 16 << 10;
/// fjall's smallest bound: old journals are what a reopen has to read.
const FJALL_JOURNAL_BYTES: u64 = 64 << 20;
const FJALL_FILES_MAX: usize = 256;

/// Where the value of a Feed or Log row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub segment: SegmentId,
    pub at: u32,
    pub bytes: u32,
    pub crc: u32,
}

impl Pointer {
    const BYTES: usize = 16;

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&self.segment.0.to_le_bytes());
        out[4..8].copy_from_slice(&self.at.to_le_bytes());
        out[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        out[12..16].copy_from_slice(&self.crc.to_le_bytes());
        Bytes::copy_from_slice(&out)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let read = || {
            (bytes.len() == Self::BYTES).then_some(())?;
            Some(Self {
                segment: SegmentId(u32_at(bytes, 0)?),
                at: u32_at(bytes, 4)?,
                bytes: u32_at(bytes, 8)?,
                crc: u32_at(bytes, 12)?,
            })
        };
        read()
            .ok_or_else(|| Error::Corrupt("a row that should point into a segment does not".into()))
    }

    /// Whether both name the same bytes.
    pub(crate) fn same_place(&self, other: &Self) -> bool {
        (self.segment, self.at, self.bytes) == (other.segment, other.at, other.bytes)
    }
}

/// How far the journal has reached the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Applied {
    pub segment: SegmentId,
    pub end: u32,
    pub commit: u64,
}

/// What is known of a segment: how much of it is used, and how much of that is still alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub kind: SegmentKind,
    pub used: u32,
    pub live: u64,
}

/// See [`Tree::table_numbers`].
pub(crate) type TableNumbers = [u64; Keyspace::ALL.len()];

/// The database and its keyspaces.
pub(crate) struct Tree {
    db: Database,
    spaces: [fjall::Keyspace; 6],
    internal: fjall::Keyspace,
    /// Of Terms, where values are looked up.
    stems: Stems,
}

impl Tree {
    pub(crate) fn open(dir: &Path, cache_bytes: u64) -> Result<Self> {
        let (db, is_cut) = repair::open_database(dir, || {
            Database::builder(dir)
                .cache_size(cache_bytes)
                .max_journaling_size(FJALL_JOURNAL_BYTES)
                .max_cached_files(Some(FJALL_FILES_MAX))
                .manual_journal_persist(true)
                // With two, the first spins for as long as the second compacts.
                .worker_threads(1)
                .open()
        })?;
        let open = |name: &str, options: fn() -> KeyspaceCreateOptions| {
            db.keyspace(name, options).map_err(|error| failed(&error))
        };
        let spaces = [
            open("docs", point_reads)?,
            open("feed", sure_hits)?,
            open("log", sure_hits)?,
            open("index", ranges)?,
            open("meta", point_reads)?,
            open("terms", runs)?,
        ];
        let internal = open("internal", point_reads)?;
        let tree = Self { db, spaces, internal, stems: Stems::default() };
        if is_cut {
            tree.begin_pointers()?;
            repair::settled(dir)?;
        }
        Ok(tree)
    }

    pub(crate) fn space(&self, keyspace: Keyspace) -> &fjall::Keyspace {
        &self.spaces[keyspace as usize]
    }

    /// Starts a batch; only who flushes may.
    pub(crate) fn batch(&self, rows: usize) -> fjall::OwnedWriteBatch {
        fjall::OwnedWriteBatch::with_capacity(self.db.clone(), rows)
    }

    /// Takes a snapshot; only between two flushes.
    pub(crate) fn snapshot(&self) -> fjall::Snapshot {
        self.db.snapshot()
    }

    /// Takes in rows of a keyspace, in the order of their keys.
    pub(crate) fn take_in(&self, keyspace: Keyspace, layer: &Recent) -> Result<()> {
        if layer.is_empty_space(keyspace) {
            return Ok(());
        }
        let space = self.space(keyspace);
        let mut gathered = (keyspace == Keyspace::Terms).then(Gathered::default);
        let newest = stems::newest(space);
        let mut taken = space.start_ingestion().map_err(|error| failed(&error))?;
        layer
            .each(keyspace, |key, value| {
                if let Some(gathered) = &mut gathered {
                    gathered.add(key);
                }
                match value {
                    Value::Put(value) => taken.write(key.clone(), value.clone()),
                    Value::Point(pointer) => taken.write(key.clone(), pointer.encode()),
                    Value::Gone => taken.write_tombstone(key.clone()),
                }
            })
            .and_then(|()| taken.finish())
            .map_err(|error| failed(&error))?;
        if let Some(gathered) = gathered {
            self.stems.know(space, newest, gathered.filter());
        }
        Ok(())
    }

    /// The tables that values are looked up in, as they are now.
    pub(crate) fn term_tables(&self) -> Tables {
        self.stems.tables(self.space(Keyspace::Terms))
    }

    /// What changes with every change of tables.
    pub(crate) fn table_numbers(&self) -> TableNumbers {
        std::array::from_fn(|n| self.spaces[n].tree.current_version().id())
    }

    /// The row of a key as it was flushed last.
    pub(crate) fn pointer(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Pointer>> {
        let row = self.space(keyspace).get(key).map_err(|error| failed(&error))?;
        row.map(|row| Pointer::decode(&row)).transpose()
    }

    /// The highest key of a partition.
    pub(crate) fn last_key(
        &self,
        keyspace: Keyspace,
        partition: PartitionId,
    ) -> Result<Option<Bytes>> {
        let mut rows = self.space(keyspace).prefix(partition.0.to_be_bytes());
        rows.next_back()
            .map(|row| Ok(row.key().map_err(|error| failed(&error))?.into()))
            .transpose()
    }

    /// Says that pointers are about to be taken in. Durable when it returns.
    pub(crate) fn begin_pointers(&self) -> Result<()> {
        self.internal.insert(FLUSHING, []).map_err(|error| failed(&error))?;
        self.sync()
    }

    pub(crate) fn end_pointers(&self, batch: &mut fjall::OwnedWriteBatch) {
        batch.remove(&self.internal, FLUSHING);
    }

    /// Whether a crash came while pointers were taken in: accounts are not to be relied on.
    pub(crate) fn is_unsettled(&self) -> Result<bool> {
        self.internal.contains_key(FLUSHING).map_err(|error| failed(&error))
    }

    /// Gives what is written to the operating system, so that a crash of the process keeps it.
    pub(crate) fn hand_over(&self) -> Result<()> {
        self.db.persist(PersistMode::Buffer).map_err(|error| failed(&error))
    }

    /// Makes everything flushed so far survive a loss of power.
    pub(crate) fn sync(&self) -> Result<()> {
        self.db.persist(PersistMode::SyncAll).map_err(|error| failed(&error))
    }

    pub(crate) fn applied(&self) -> Result<Option<Applied>> {
        let Some(row) = self.internal.get(APPLIED).map_err(|error| failed(&error))? else {
            return Ok(None);
        };
        let read = || {
            Some(Applied {
                segment: SegmentId(u32_at(&row, 0)?),
                end: u32_at(&row, 4)?,
                commit: u64_at(&row, 8)?,
            })
        };
        read().map(Some).ok_or_else(|| malformed("applied"))
    }

    pub(crate) fn accounts(&self) -> Result<Vec<(SegmentId, Account)>> {
        let rows = self.internal.prefix([SEGMENT_PREFIX]);
        rows.map(|row| {
            let (key, value) = row.into_inner().map_err(|error| failed(&error))?;
            read_account(&key, &value).ok_or_else(|| malformed("segment"))
        })
        .collect()
    }

    pub(crate) fn epoch(&self, partition: PartitionId) -> Result<Epoch> {
        let row = self.internal.get(epoch_key(partition)).map_err(|error| failed(&error))?;
        match row {
            None => Ok(Epoch(0)),
            Some(row) => u64_at(&row, 0).map(Epoch).ok_or_else(|| malformed("epoch")),
        }
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.db.disk_space().unwrap_or(0)
    }

    pub(crate) fn put_applied(&self, batch: &mut fjall::OwnedWriteBatch, applied: Applied) {
        let mut row = [0; 16];
        row[..4].copy_from_slice(&applied.segment.0.to_le_bytes());
        row[4..8].copy_from_slice(&applied.end.to_le_bytes());
        row[8..].copy_from_slice(&applied.commit.to_le_bytes());
        batch.insert(&self.internal, APPLIED, row.as_slice());
    }

    pub(crate) fn put_account(
        &self,
        batch: &mut fjall::OwnedWriteBatch,
        id: SegmentId,
        account: Account,
    ) {
        let mut row = [0; 13];
        row[0] = u8::from(account.kind == SegmentKind::Moved);
        row[1..5].copy_from_slice(&account.used.to_le_bytes());
        row[5..].copy_from_slice(&account.live.to_le_bytes());
        batch.insert(&self.internal, account_key(id).as_slice(), row.as_slice());
    }

    /// Has every account say the same.
    #[cfg(test)]
    pub(crate) fn set_live(&self, live: u64) {
        let mut batch = self.batch(0);
        for (id, account) in self.accounts().unwrap() {
            self.put_account(&mut batch, id, Account { live, ..account });
        }
        batch.commit().unwrap();
    }

    pub(crate) fn remove_account(&self, batch: &mut fjall::OwnedWriteBatch, id: SegmentId) {
        batch.remove(&self.internal, account_key(id).as_slice());
    }

    pub(crate) fn put_epoch(
        &self,
        batch: &mut fjall::OwnedWriteBatch,
        partition: PartitionId,
        epoch: Epoch,
    ) {
        batch.insert(
            &self.internal,
            epoch_key(partition).as_slice(),
            epoch.0.to_le_bytes().as_slice(),
        );
    }
}

/// A fjall error in the words of this crate.
pub(crate) fn failed(error: &fjall::Error) -> Error {
    Error::Io(format!("the index failed: {error}"))
}

fn malformed(what: &str) -> Error {
    Error::Corrupt(format!("the index holds a malformed {what} row"))
}

/// Rows are hashes, numbers and checksums: compression gains nothing on them and costs each read
/// that is not in the cache. Filters and indexes of tables are small beside the rows they find.
fn base() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .manual_journal_persist(true)
        .compaction_strategy(leveled(TOP_TABLES))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .index_block_pinning_policy(PinningPolicy::all(true))
}

fn leveled(top_tables: u8) -> Arc<Leveled> {
    let leveled = Leveled::default().with_l0_threshold(top_tables);
    Arc::new(leveled.with_table_target_size(TABLE_BYTES))
}

/// Keys that are looked up one by one, and are often missing.
fn point_reads() -> KeyspaceCreateOptions {
    base()
        .compaction_strategy(leveled(POINT_TOP_TABLES))
        .data_block_hash_ratio_policy(HashRatioPolicy::all(0.75))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
            BloomConstructionPolicy::BitsPerKey(10.0),
        )))
}

/// Keys that exist when they are looked up: the last level needs no filter. They come in order, so
/// tables have no keys in common, however many there are.
fn sure_hits() -> KeyspaceCreateOptions {
    base().compaction_strategy(leveled(RUN_TOP_TABLES)).expect_point_read_hits(true)
}

/// Keys that are only scanned.
fn ranges() -> KeyspaceCreateOptions {
    base().filter_policy(FilterPolicy::disabled())
}

/// Keys that are many and alike, and only scanned. What finds a block is kept in memory, so blocks
/// are large.
fn runs() -> KeyspaceCreateOptions {
    ranges()
        .compaction_strategy(leveled(TERMS_TOP_TABLES))
        .data_block_size_policy(BlockSizePolicy::all(TERMS_BLOCK_BYTES))
}

fn account_key(id: SegmentId) -> [u8; 5] {
    let mut key = [SEGMENT_PREFIX; 5];
    key[1..].copy_from_slice(&id.0.to_be_bytes());
    key
}

fn read_account(key: &[u8], row: &[u8]) -> Option<(SegmentId, Account)> {
    let id = SegmentId(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?));
    let kind = if *row.first()? == 1 { SegmentKind::Moved } else { SegmentKind::Journal };
    Some((id, Account { kind, used: u32_at(row, 1)?, live: u64_at(row, 5)? }))
}

fn epoch_key(partition: PartitionId) -> [u8; 9] {
    let mut key = [EPOCH_PREFIX; 9];
    key[1..].copy_from_slice(&partition.0.to_be_bytes());
    key
}
