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

use super::file::{Faults, JournalFile};
use super::format::{
    RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentId, SegmentKind,
};
use super::queue::{Entry, Group};
use super::segment::{OpenFiles, Placed, Segment, file_name, sync_dir};
use super::spare::{Spare, Spares};
use crate::Durability;

/// A store that has written less than this needs no spare.
const SMALL_BYTES: u32 = 256 << 10;
/// What the kernel caches files in. A group is filled up with zeros to a whole page: writing a
/// part of one that is not in memory would have to read it first.
pub(crate) const PAGE_BYTES: usize = 4096;

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
}

/// Records of a group, with bodies that are still in memory.
type Records<'a> = Vec<Placed<&'a [u8]>>;

impl Journal {
    pub(crate) fn new(ground: Arc<Ground>, spares: Arc<Spares>, current: Option<Current>) -> Self {
        Self { ground, spares, current }
    }

    /// Writes a group. When this returns it is as durable as was asked for.
    pub(crate) fn append<'a>(
        &mut self,
        group: &'a mut Group,
    ) -> io::Result<(Arc<Segment>, Records<'a>)> {
        let group_bytes: usize = group.entries.iter().map(Entry::bytes).sum();
        let mut current = match self.current.take() {
            Some(current) if self.stays(&current, group_bytes) => current,
            old => self.roll(old)?,
        };
        let headers = write_headers(&current, group);
        let end = current.end as usize + group_bytes;
        let padded = end.next_multiple_of(PAGE_BYTES);
        if current.prepared && padded <= self.ground.segment_bytes as usize {
            group.buffer.resize(group.buffer.len() + padded - end, 0);
        }
        let (group, first) = (&*group, current.segment.header.encode());
        let (first, at) = match current.end as usize {
            SEGMENT_HEADER_BYTES => (&first[..], 0),
            _ => (&[][..], current.end),
        };
        current.file.write(&mut slices(first, group), u64::from(at))?;
        if self.ground.durability == Durability::Synced {
            current.file.sync()?;
        }
        current.end += group_bytes as u32;
        self.want_spare(&current);
        let segment = current.segment.clone();
        self.current = Some(current);
        let bodies = group.placed().map(|(header, entry)| group.body(header, entry));
        let record = |((header, at), body)| Placed { header, at, body };
        Ok((segment, headers.into_iter().zip(bodies).map(record).collect()))
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

    fn want_spare(&self, current: &Current) {
        let enough = if current.prepared { self.ground.segment_bytes / 2 } else { SMALL_BYTES };
        if current.end > enough {
            self.spares.want();
        }
    }
}

/// Puts the headers of records in their places in the buffer; returns them, and where in the file they are.
fn write_headers(current: &Current, group: &mut Group) -> Vec<(RecordHeader, u32)> {
    let mut at = current.end;
    let headers = group.entries.iter().map(|entry| {
        let header = RecordHeader {
            kind: entry.kind,
            commit: entry.no.0,
            partition: group.partition(entry).id.0,
            epoch: entry.epoch.0,
            body_bytes: entry.body_bytes as u32,
            body_crc: entry.body_crc,
            group_at: current.end,
        };
        let record = (header, at);
        at += entry.bytes() as u32;
        record
    });
    let headers: Vec<_> = headers.collect();
    let mut place = 0;
    for (entry, (header, _)) in group.entries.iter().zip(&headers) {
        let encoded = header.encode(current.segment.header.salt);
        group.buffer[place..][..RECORD_HEADER_BYTES].copy_from_slice(&encoded);
        place += entry.buffered();
    }
    headers
}

/// What is written, in order: what comes first, and the buffer with the bodies in between that are not in it.
fn slices<'a>(first: &'a [u8], group: &'a Group) -> Vec<IoSlice<'a>> {
    let mut slices = Vec::new();
    if !first.is_empty() {
        slices.push(IoSlice::new(first));
    }
    let mut from = 0;
    for (header, entry) in group.placed() {
        if let Some(body) = &entry.alone {
            let to = header + RECORD_HEADER_BYTES;
            slices.push(IoSlice::new(&group.buffer[from..to]));
            slices.push(IoSlice::new(body));
            from = to;
        }
    }
    slices.push(IoSlice::new(&group.buffer[from..]));
    slices
}

/// A number that no other segment is likely to have. It only has to differ, not to be secret.
pub(crate) fn salt() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}
