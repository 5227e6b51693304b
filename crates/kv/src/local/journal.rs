//! Writes groups of records to the current segment and makes them durable.
//!
//! Invariants:
//! - Only the committer writes, and a group is synced before the next one is written.
//! - A segment's name is durable before the first group in it is acknowledged; its header is
//!   written with that group, so a file that begins with zeros was never used.
//! - The committer never waits for a spare: without one it lets a new file grow.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;

use super::file::{Faults, JournalFile};
use super::format::{
    RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentId, SegmentKind,
};
use super::queue::Entry;
use super::segment::{OpenFiles, Placed, Segment, file_name, sync_dir};
use super::spare::{Spare, Spares};
use crate::Durability;

/// A store that has written less than this needs no spare.
const SMALL_BYTES: u32 = 256 << 10;
/// What the kernel caches files in. A group is filled up with zeros to a whole page: writing a
/// part of one that is not in memory would have to read it first.
pub(crate) const PAGE_BYTES: usize = 4096;
/// A body of this size is not worth a copy.
const ALONE_BYTES: usize = 16 << 10;
/// Memory kept for the next group.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

/// What stays the same for all segments of a store.
pub(crate) struct Ground {
    pub dir: PathBuf,
    pub segment_bytes: u32,
    pub durability: Durability,
    pub faults: Option<Arc<Faults>>,
    pub opened: Arc<OpenFiles>,
    pub next_id: AtomicU32,
}

impl Ground {
    pub(crate) fn new_id(&self) -> SegmentId {
        SegmentId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates the file of a segment and makes its name durable.
    pub(crate) fn create(&self, id: SegmentId) -> io::Result<File> {
        let path = self.dir.join(file_name(id));
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        if self.durability == Durability::Synced {
            sync_dir(&self.dir)?;
        }
        Ok(file)
    }
}

/// The segment that is being written.
pub(crate) struct Current {
    pub segment: Arc<Segment>,
    pub file: JournalFile,
    pub end: u32,
    pub prepared: bool,
}

/// The writing end of the journal.
pub(crate) struct Journal {
    ground: Arc<Ground>,
    spares: Arc<Spares>,
    current: Option<Current>,
    buffer: Vec<u8>,
}

impl Journal {
    pub(crate) fn new(ground: Arc<Ground>, spares: Arc<Spares>, current: Option<Current>) -> Self {
        Self { ground, spares, current, buffer: Vec::new() }
    }

    /// Writes entries as one group, and takes their bodies. When this returns they are as durable as was
    /// asked for.
    pub(crate) fn append(
        &mut self,
        entries: &mut [Entry],
    ) -> io::Result<(Arc<Segment>, Vec<Placed>)> {
        let group_bytes: usize = entries.iter().map(Entry::bytes).sum();
        let mut current = match self.current.take() {
            Some(current) if self.stays(&current, group_bytes) => current,
            old => self.roll(old)?,
        };
        let (placed, alone) = self.encode(&current, entries);
        let at = if current.end as usize == SEGMENT_HEADER_BYTES { 0 } else { current.end };
        let end = current.end as usize + group_bytes;
        let padded = end.next_multiple_of(PAGE_BYTES);
        if current.prepared && padded <= self.ground.segment_bytes as usize {
            self.buffer.resize(self.buffer.len() + padded - end, 0);
        }
        current.file.write(&mut slices(&self.buffer, &alone), u64::from(at))?;
        if self.ground.durability == Durability::Synced {
            current.file.sync()?;
        }
        current.end += group_bytes as u32;
        self.want_spare(&current);
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES);
        let segment = current.segment.clone();
        self.current = Some(current);
        Ok((segment, placed))
    }

    /// Gives back what was prepared but not used.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        match self.current.take() {
            Some(current) => current.file.cut(u64::from(current.end)),
            None => Ok(()),
        }
    }

    /// A segment is left when it is full, or when it still grows and a prepared one is ready.
    fn stays(&self, current: &Current, group_bytes: usize) -> bool {
        let full = current.end as usize + group_bytes > self.ground.segment_bytes as usize;
        !full && (current.prepared || !self.spares.is_ready())
    }

    fn roll(&mut self, old: Option<Current>) -> io::Result<Current> {
        let prepared = self.spares.take();
        let is_prepared = prepared.is_some();
        let Spare { id, file } = match prepared {
            Some(spare) => spare,
            None => {
                let id = self.ground.new_id();
                Spare { id, file: self.ground.create(id)? }
            }
        };
        let previous = old.as_ref().map_or(id, |old| old.segment.id());
        let header = SegmentHeader { id, kind: SegmentKind::Journal, previous, salt: salt() };
        if let Some(old) = old {
            old.file.cut(u64::from(old.end))?;
        }
        Ok(Current {
            segment: Segment::new(header, &self.ground.dir, self.ground.opened.clone()),
            file: JournalFile::new(file, self.ground.faults.clone()),
            end: SEGMENT_HEADER_BYTES as u32,
            prepared: is_prepared,
        })
    }

    /// Brings headers and small bodies into the buffer; each of the others, with the place there that it
    /// comes behind, is written from where it is.
    fn encode(&mut self, current: &Current, entries: &mut [Entry]) -> (Vec<Placed>, Vec<Alone>) {
        let mut alone = Vec::new();
        self.buffer.clear();
        if current.end as usize == SEGMENT_HEADER_BYTES {
            self.buffer.extend_from_slice(&current.segment.header.encode());
        }
        let mut at = current.end;
        let mut placed = Vec::with_capacity(entries.len());
        for entry in entries {
            let header = RecordHeader {
                kind: entry.kind,
                commit: entry.no.0,
                partition: entry.partition.id.0,
                epoch: entry.epoch.0,
                body_bytes: entry.body_bytes as u32,
                body_crc: entry.body.crc,
                group_at: current.end,
            };
            self.buffer.extend_from_slice(&header.encode(current.segment.header.salt));
            let body = std::mem::take(&mut entry.body.bytes);
            match body.len() {
                ..ALONE_BYTES => self.buffer.extend_from_slice(&body),
                _ => alone.push((self.buffer.len(), body.clone())),
            }
            placed.push(Placed { header, at, body });
            at += RECORD_HEADER_BYTES as u32 + header.body_bytes;
        }
        (placed, alone)
    }

    fn want_spare(&self, current: &Current) {
        let enough = if current.prepared { self.ground.segment_bytes / 2 } else { SMALL_BYTES };
        if current.end > enough {
            self.spares.want();
        }
    }
}

/// Bytes that are written from where they are, and the place in the buffer that they come behind.
type Alone = (usize, Bytes);

/// What is written, in order.
fn slices<'a>(buffer: &'a [u8], alone: &'a [Alone]) -> Vec<IoSlice<'a>> {
    let mut slices = Vec::with_capacity(2 * alone.len() + 1);
    let mut from = 0;
    for (behind, bytes) in alone {
        slices.push(IoSlice::new(&buffer[from..*behind]));
        slices.push(IoSlice::new(bytes));
        from = *behind;
    }
    slices.push(IoSlice::new(&buffer[from..]));
    slices
}

/// A number that no other segment is likely to have. It only has to differ, not to be secret.
pub(crate) fn salt() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}
