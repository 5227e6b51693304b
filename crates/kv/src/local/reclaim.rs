//! Gives back the space of values that nobody can read any more.
//!
//! A sealed segment without live values is retired. One with few is compacted: the live values
//! are copied in their order into a new segment, synced, and only then do rows point to the new
//! place, each only if it still points to the old one. The old file goes last, once the tree
//! that no longer names it is flushed and synced.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;

use super::apply::{Applier, Published, prefixed};
use super::chores::Stop;
use super::commit::{at_path, lock};
use super::flush::Flusher;
use super::format::{
    Body, Change, RECORD_HEADER_BYTES, RecordHeader, RecordKind, Rows, SEGMENT_HEADER_BYTES,
    SegmentHeader, SegmentId, SegmentKind,
};
use super::journal::{Ground, salt};
use super::segment::Segment;
use super::tree::{Account, Pointer, Tree};
use super::view::{Row, is_pointed};
use crate::{Keyspace, Op, PartitionId, Result};

/// A segment is worth compacting when less than this part of it is alive.
const LIVE_PERCENT: u64 = 50;
/// Copied values are written in records of about this size.
const RECORD_BYTES: usize = 256 << 10;
/// Rows that change their place in one step; commits wait for no more than one step.
const MOVES_MAX: usize = 256;
/// Copying takes no more of the disk than this.
const COPY_BYTES_PER_SECOND: u64 = 64 << 20;

/// See the top of this file.
pub(crate) struct Reclaimer {
    pub ground: Arc<Ground>,
    pub tree: Arc<Tree>,
    pub applier: Arc<Mutex<Applier>>,
    pub published: Arc<ArcSwap<Published>>,
    pub flusher: Arc<Flusher>,
    /// Segments that could not be read. They are left alone, for a person to look at.
    pub damaged: HashSet<SegmentId>,
}

/// What should be done next.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Retire(Vec<SegmentId>),
    Compact(Vec<(SegmentId, u32)>),
}

impl Reclaimer {
    /// Does what there is to do. Returns the number of segments given back.
    pub(crate) fn run(&mut self, stop: &Stop) -> Result<usize> {
        let mut freed = 0;
        loop {
            match self.plan() {
                Plan::Nothing => return Ok(freed),
                Plan::Retire(dead) => freed += self.retire(&dead)?,
                Plan::Compact(victims) => {
                    if !self.compact(&victims, stop)? {
                        return Ok(freed);
                    }
                }
            }
        }
    }

    fn plan(&self) -> Plan {
        let applier = lock(&self.applier);
        let applied = applier.applied().filter(|_| applier.is_settled());
        let Some(applied) = applied else { return Plan::Nothing };
        let sealed = applier.accounts().iter().filter(|(id, account)| {
            let written = account.kind == SegmentKind::Journal && **id >= applied.segment;
            let left_alone = written || self.damaged.contains(id);
            !left_alone
        });
        let sealed: Vec<_> = sealed.map(|(id, account)| (*id, *account)).collect();
        plan(&sealed, u64::from(self.ground.segment_bytes))
    }

    fn retire(&self, dead: &[SegmentId]) -> Result<usize> {
        let mut gone = Vec::new();
        for id in dead {
            gone.extend(lock(&self.applier).retire(*id));
        }
        self.flusher.flush_all()?;
        self.tree.sync()?;
        for segment in &gone {
            segment.doom();
        }
        Ok(gone.len())
    }

    /// Moves the live values of some segments into a new one. `false` if stopped.
    fn compact(&mut self, victims: &[(SegmentId, u32)], stop: &Stop) -> Result<bool> {
        let mut copy = Copy::create(&self.ground)?;
        for (id, used) in victims {
            let Some(segment) = lock(&self.applier).segment(*id) else { continue };
            match self.copy_live(&segment, *used, &mut copy, stop) {
                Ok(true) => {}
                Ok(false) => return copy.abandon().map(|()| false),
                Err(error) => {
                    tracing::error!(%error, "a segment cannot be compacted");
                    self.damaged.insert(*id);
                    copy.forget_from(*id);
                }
            }
        }
        copy.finish()?;
        self.move_rows(&copy)?;
        self.set_aside(victims);
        Ok(true)
    }

    /// A victim that is still in use after all its live values were moved would be chosen again
    /// and again. It should not exist.
    fn set_aside(&mut self, victims: &[(SegmentId, u32)]) {
        let applier = lock(&self.applier);
        for (id, _) in victims {
            if applier.accounts().get(id).is_some_and(|account| account.live > 0)
                && self.damaged.insert(*id)
            {
                tracing::error!(segment = id.0, "a compacted segment is still in use; it is kept");
            }
        }
    }

    fn copy_live(
        &self,
        segment: &Arc<Segment>,
        used: u32,
        copy: &mut Copy,
        stop: &Stop,
    ) -> Result<bool> {
        let mut walk = segment.walk(0)?;
        while walk.at() < u64::from(used) {
            let at = walk.at();
            let record = walk.next()?;
            let record = record.ok_or_else(|| segment.corrupt(at, "holds a broken record"))?;
            let before = copy.written();
            let partition = PartitionId(record.header.partition);
            for row in Rows::of(&record.body) {
                let row = row.ok_or_else(|| segment.corrupt(at, "holds a broken record"))?;
                if row.change != Change::Put || !is_pointed(row.keyspace) {
                    continue;
                }
                let key = row.key(&record.body);
                let at = record.at + (RECORD_HEADER_BYTES + row.value_at) as u32;
                let old = (segment.id(), at);
                if self.points_to(row.keyspace, &prefixed(partition, key), old)? {
                    let put = Op::Put(
                        row.keyspace,
                        Bytes::copy_from_slice(key),
                        Bytes::copy_from_slice(row.value(&record.body)),
                    );
                    copy.add(partition, put, old)?;
                }
            }
            if stop.wait(pace(copy.written() - before)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asked without a lock: what is deleted meanwhile is copied in vain, and not moved.
    fn points_to(&self, keyspace: Keyspace, key: &[u8], place: (SegmentId, u32)) -> Result<bool> {
        let row = self.published.load().row(keyspace, key)?;
        Ok(matches!(row, Some(Row::Pointer(pointer)) if (pointer.segment, pointer.at) == place))
    }

    fn move_rows(&self, copy: &Copy) -> Result<()> {
        let mut moves = Vec::with_capacity(MOVES_MAX);
        let mut olds = copy.olds.iter();
        let mut walk = copy.segment.walk(0)?;
        while let Some(record) = walk.next()? {
            let partition = PartitionId(record.header.partition);
            for row in Rows::of(&record.body).flatten() {
                let Some((segment, at)) = olds.next().copied() else { break };
                let new = Pointer {
                    segment: copy.segment.id(),
                    at: record.at + (RECORD_HEADER_BYTES + row.value_at) as u32,
                    bytes: row.value_bytes as u32,
                    crc: row.value_crc,
                };
                let old = Pointer { segment, at, ..new };
                moves.push((row.keyspace, prefixed(partition, row.key(&record.body)), old, new));
                if moves.len() == MOVES_MAX {
                    lock(&self.applier).move_rows(&copy.segment, copy.end, &moves)?;
                    moves.clear();
                }
            }
        }
        lock(&self.applier).move_rows(&copy.segment, copy.end, &moves)
    }
}

/// Decides from sealed segments alone. Dead ones first: they cost nothing.
fn plan(sealed: &[(SegmentId, Account)], segment_bytes: u64) -> Plan {
    let dead: Vec<_> =
        sealed.iter().filter(|(_, account)| account.live == 0).map(|(id, _)| *id).collect();
    if !dead.is_empty() {
        return Plan::Retire(dead);
    }
    let mut copied = 0;
    let victims: Vec<_> = sealed
        .iter()
        .filter(|(_, account)| account.live * 100 < u64::from(account.used) * LIVE_PERCENT)
        .take_while(|(_, account)| {
            let first = copied == 0;
            copied += account.live;
            first || copied <= segment_bytes
        })
        .map(|(id, account)| (*id, account.used))
        .collect();
    if victims.is_empty() { Plan::Nothing } else { Plan::Compact(victims) }
}

fn pace(bytes: u64) -> Duration {
    Duration::from_nanos(bytes * 1_000_000_000 / COPY_BYTES_PER_SECOND)
}

/// The new segment while it is being written.
struct Copy {
    segment: Arc<Segment>,
    file: File,
    end: u32,
    partition: PartitionId,
    waiting: Vec<Op>,
    waiting_bytes: usize,
    /// Where each value came from, in the order of the copy.
    olds: Vec<(SegmentId, u32)>,
}

impl Copy {
    fn create(ground: &Ground) -> Result<Self> {
        let id = ground.new_id();
        let header = SegmentHeader { id, kind: SegmentKind::Moved, previous: id, salt: salt() };
        let segment = Segment::new(header, &ground.dir, ground.opened.clone());
        let file = at_path(segment.path(), ground.create(id))?;
        at_path(segment.path(), file.write_all_at(&header.encode(), 0))?;
        Ok(Self {
            segment,
            file,
            end: SEGMENT_HEADER_BYTES as u32,
            partition: PartitionId(0),
            waiting: Vec::new(),
            waiting_bytes: 0,
            olds: Vec::new(),
        })
    }

    fn add(&mut self, partition: PartitionId, put: Op, old: (SegmentId, u32)) -> Result<()> {
        if partition != self.partition || self.waiting_bytes >= RECORD_BYTES {
            self.write()?;
        }
        self.partition = partition;
        if let Op::Put(_, key, value) = &put {
            self.waiting_bytes += key.len() + value.len();
        }
        self.waiting.push(put);
        self.olds.push(old);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let body = Body::of(&self.waiting);
        let header = RecordHeader {
            kind: RecordKind::Batch,
            commit: 0,
            partition: self.partition.0,
            epoch: 0,
            body_bytes: body.bytes.len() as u32,
            body_crc: body.crc,
            group_at: self.end,
        };
        let head = header.encode(self.segment.header.salt);
        let path = self.segment.path();
        at_path(path, self.file.write_all_at(&head, u64::from(self.end)))?;
        let body_at = u64::from(self.end) + RECORD_HEADER_BYTES as u64;
        at_path(path, self.file.write_all_at(&body.bytes, body_at))?;
        self.end += (RECORD_HEADER_BYTES + body.bytes.len()) as u32;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }

    fn written(&self) -> u64 {
        u64::from(self.end) + self.waiting_bytes as u64
    }

    /// Values of a damaged segment keep their old place: a place that no row names moves none.
    fn forget_from(&mut self, id: SegmentId) {
        for old in self.olds.iter_mut().filter(|old| old.0 == id) {
            *old = (id, 0);
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.write()?;
        at_path(self.segment.path(), self.file.sync_all())
    }

    fn abandon(self) -> Result<()> {
        at_path(self.segment.path(), std::fs::remove_file(self.segment.path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(rows: &[(u32, u32, u64)]) -> Vec<(SegmentId, Account)> {
        let account = |used, live| Account { kind: SegmentKind::Journal, used, live };
        rows.iter().map(|(id, used, live)| (SegmentId(*id), account(*used, *live))).collect()
    }

    #[test]
    fn dead_segments_go_first() {
        let rows = sealed(&[(1, 100, 10), (2, 100, 0), (3, 100, 0)]);
        assert_eq!(plan(&rows, 100), Plan::Retire(vec![SegmentId(2), SegmentId(3)]));
    }

    #[test]
    fn sparse_segments_are_joined_up_to_one_new_segment() {
        let rows = sealed(&[(1, 100, 40), (2, 100, 60), (3, 100, 45), (4, 100, 30)]);
        assert_eq!(plan(&rows, 100), Plan::Compact(vec![(SegmentId(1), 100), (SegmentId(3), 100)]));
    }

    #[test]
    fn dense_segments_stay() {
        assert_eq!(plan(&sealed(&[(1, 100, 50), (2, 100, 90)]), 100), Plan::Nothing);
    }
}
