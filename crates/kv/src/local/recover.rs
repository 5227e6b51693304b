//! Opens what an earlier process left: finds the segments, replays what the tree lacks.
//!
//! Which files stay, and why:
//! - A journal segment from the applied mark on is replayed.
//! - An older journal segment stays while the tree keeps an account of it. Without one it was
//!   retired, and only its removal is missing.
//! - A segment of moved values without an account was never put to use.
//! - A file that begins with zeros is a spare, or its first group never became durable.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::apply::Applier;
use super::commit::at_path;
use super::count::Live;
use super::file::JournalFile;
use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentId, SegmentKind};
use super::journal::{Current, Ground};
use super::segment::{Placed, Segment, SegmentSet, file_name, id_of};
use super::tree::{Account, Applied, Tree};
use crate::{Error, Result};

/// Replayed records are applied in groups of about this many bytes.
const REPLAY_BYTES: usize = 4 << 20;

/// What recovery hands to the running store.
pub(crate) struct Recovered {
    pub applier: Applier,
    pub current: Option<Current>,
    pub replayed: u64,
}

/// Recovers the store in a directory that may be empty.
pub(crate) fn recover(ground: &Ground, tree: &Arc<Tree>, layer_bytes: usize) -> Result<Recovered> {
    let applied = tree.applied()?;
    let mut accounts: BTreeMap<SegmentId, Account> = tree.accounts()?.into_iter().collect();
    let unsettled = tree.is_unsettled()?;
    if unsettled {
        accounts.extend(moved_unaccounted(ground, &accounts)?);
    }
    let known = accounts.keys().copied().chain(applied.map(|applied| applied.segment));
    let above = known.max().map_or(1, |id| id.0 + 1);
    ground.next_id.fetch_max(above, Ordering::Relaxed);
    let headers = sort_out(ground, applied, &accounts)?;
    let segments: SegmentSet = headers
        .values()
        .map(|header| (header.id, Segment::new(*header, &ground.dir, ground.opened.clone())))
        .collect();
    require_accounted(ground, &segments, &accounts)?;
    let journal = chain(ground, &segments, applied)?;
    let known = segments.iter().filter(|(id, _)| accounts.contains_key(id));
    let known = known.map(|(id, segment)| (*id, segment.clone())).collect();
    let live = if unsettled { Live::Unknown } else { Live::Known };
    let mut applier = Applier::new(tree.clone(), known, accounts, live, applied, layer_bytes);
    let (current, replayed) = replay(ground, &mut applier, &journal, applied)?;
    if !applier.is_settled() {
        tree.begin_pointers()?;
    }
    Ok(Recovered { applier, current, replayed })
}

/// The highest number any segment file has.
pub(crate) fn last_id(dir: &Path) -> Result<u32> {
    Ok(files(dir)?.last().map_or(0, |id| id.0))
}

fn files(dir: &Path) -> Result<Vec<SegmentId>> {
    let mut ids = Vec::new();
    for entry in at_path(dir, std::fs::read_dir(dir))? {
        let name = at_path(dir, entry)?.file_name();
        ids.extend(name.to_str().and_then(id_of));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Removes the files that nobody needs, and reads the headers of the others.
fn sort_out(
    ground: &Ground,
    applied: Option<Applied>,
    accounts: &BTreeMap<SegmentId, Account>,
) -> Result<BTreeMap<SegmentId, SegmentHeader>> {
    let mut headers = BTreeMap::new();
    for id in files(&ground.dir)? {
        let path = ground.dir.join(file_name(id));
        let header = read_header(&path, id)?;
        let replayable = applied.is_none_or(|applied| id >= applied.segment);
        let wanted = accounts.contains_key(&id)
            || header.is_some_and(|header| header.kind == SegmentKind::Journal && replayable);
        match header {
            Some(header) if wanted => {
                headers.insert(id, header);
            }
            None if wanted => {
                return Err(Error::Corrupt(format!("{} has lost its header", path.display())));
            }
            _ => at_path(&path, std::fs::remove_file(&path))?,
        }
    }
    Ok(headers)
}

/// Segments of moved values that a crash left without an account. Rows may point into them.
fn moved_unaccounted(
    ground: &Ground,
    accounts: &BTreeMap<SegmentId, Account>,
) -> Result<Vec<(SegmentId, Account)>> {
    let mut moved = Vec::new();
    for id in files(&ground.dir)? {
        let path = ground.dir.join(file_name(id));
        let Some(header) = read_header(&path, id)? else { continue };
        if header.kind == SegmentKind::Moved && !accounts.contains_key(&id) {
            let bytes = at_path(&path, path.metadata())?.len();
            let used = u32::try_from(bytes).unwrap_or(u32::MAX);
            moved.push((id, Account { kind: header.kind, used, live: 0 }));
        }
    }
    Ok(moved)
}

/// `None` if the file begins with zeros.
fn read_header(path: &Path, id: SegmentId) -> Result<Option<SegmentHeader>> {
    let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES);
    let file = at_path(path, std::fs::File::open(path))?;
    at_path(path, file.take(SEGMENT_HEADER_BYTES as u64).read_to_end(&mut bytes))?;
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    match SegmentHeader::decode(&bytes) {
        Some(header) if header.id == id => Ok(Some(header)),
        // A first write that was cut short has left less than a header.
        None if bytes.len() < SEGMENT_HEADER_BYTES => Ok(None),
        _ => Err(Error::Corrupt(format!("{} has a broken header (offset 0)", path.display()))),
    }
}

fn require_accounted(
    ground: &Ground,
    segments: &SegmentSet,
    accounts: &BTreeMap<SegmentId, Account>,
) -> Result<()> {
    let missing =
        accounts.iter().find(|(id, account)| account.live > 0 && !segments.contains_key(id));
    match missing {
        None => Ok(()),
        Some((id, account)) => Err(Error::Corrupt(format!(
            "{} is missing; {} bytes in it are in use",
            ground.dir.join(file_name(*id)).display(),
            account.live
        ))),
    }
}

/// The journal segments to replay, in order, each naming the one before it.
fn chain(
    ground: &Ground,
    segments: &SegmentSet,
    applied: Option<Applied>,
) -> Result<Vec<Arc<Segment>>> {
    let from = applied.map_or(SegmentId(0), |applied| applied.segment);
    let mut journal: Vec<_> = segments
        .values()
        .filter(|segment| segment.header.kind == SegmentKind::Journal && segment.id() >= from)
        .cloned()
        .collect();
    journal.sort_unstable_by_key(|segment| segment.id());
    let mut before = applied.map(|applied| applied.segment);
    for segment in &journal {
        let id = segment.id();
        let follows = before.is_none_or(|before| before == id || segment.header.previous == before);
        let begins = before.is_some() || segment.header.previous == id;
        if !(follows && begins) {
            return Err(Error::Corrupt(format!(
                "{} is missing: {} follows it, and the index does not hold what was in it",
                ground.dir.join(file_name(segment.header.previous)).display(),
                segment.path().display()
            )));
        }
        before = Some(id);
    }
    Ok(journal)
}

fn replay(
    ground: &Ground,
    applier: &mut Applier,
    journal: &[Arc<Segment>],
    applied: Option<Applied>,
) -> Result<(Option<Current>, u64)> {
    let mut replayed = 0;
    let mut end = 0;
    for (i, segment) in journal.iter().enumerate() {
        let from = applied.filter(|applied| applied.segment == segment.id());
        let mut walk = segment.walk(from.map_or(0, |applied| u64::from(applied.end)))?;
        if walk.at() > walk.file_bytes() {
            return Err(
                segment.corrupt(walk.file_bytes(), "ends before what the index holds of it")
            );
        }
        replayed += replay_segment(applier, segment, &mut walk)?;
        end = walk.at();
        if i + 1 < journal.len() && !ends_cleanly(segment, end) || walk.later_group()? {
            return Err(segment.corrupt(end, "holds a broken record with valid ones behind it"));
        }
    }
    let current = journal.last().map(|segment| reopen(ground, segment, end)).transpose()?;
    Ok((current, replayed))
}

fn replay_segment(
    applier: &mut Applier,
    segment: &Arc<Segment>,
    walk: &mut super::segment::Walk,
) -> Result<u64> {
    let mut records: Vec<Placed> = Vec::new();
    let (mut bytes, mut count) = (0, 0);
    while let Some(record) = walk.next()? {
        bytes += record.body.len();
        count += 1;
        records.push(record);
        if bytes >= REPLAY_BYTES {
            apply(applier, segment, &records)?;
            records.clear();
            bytes = 0;
        }
    }
    apply(applier, segment, &records)?;
    Ok(count)
}

fn apply(applier: &mut Applier, segment: &Arc<Segment>, records: &[Placed]) -> Result<()> {
    applier.apply(segment, records)?;
    if applier.is_full() {
        applier.flush()?;
    }
    Ok(())
}

/// A segment with a successor was left whole: behind its records there is nothing but zeros.
fn ends_cleanly(segment: &Arc<Segment>, end: u64) -> bool {
    let file_bytes = segment.path().metadata().map_or(0, |metadata| metadata.len());
    let mut at = end;
    while at < file_bytes {
        let bytes = (file_bytes - at).min(1 << 20) as usize;
        match segment.read(at, bytes) {
            Ok(rest) if rest.iter().all(|byte| *byte == 0) => at += bytes as u64,
            _ => return false,
        }
    }
    true
}

/// Goes on writing behind the last record. What else stands there is cut off first, so that it
/// can never follow a later record.
fn reopen(ground: &Ground, segment: &Arc<Segment>, end: u64) -> Result<Current> {
    let path = segment.path();
    let file = at_path(path, OpenOptions::new().write(true).open(path))?;
    if at_path(path, file.metadata())?.len() > end {
        at_path(path, file.set_len(end))?;
        at_path(path, file.sync_all())?;
    }
    Ok(Current {
        segment: segment.clone(),
        file: JournalFile::new(file, ground.faults.clone()),
        end: u32::try_from(end).map_err(|_| segment.corrupt(end, "is too long"))?,
        prepared: false,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    use bytes::Bytes;
    use tempfile::TempDir;

    use super::super::commit::lock;
    use super::super::count::Count;
    use super::super::flush::Flusher;
    use super::*;
    use crate::{Claim, Durability, Keyspace, Local, LocalOptions, Op, PartitionId, Stores as _};

    /// A store in small segments that was killed before anything of it was flushed.
    async fn killed() -> TempDir {
        let (dir, left) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let options = LocalOptions { segment_bytes: 8192, ..LocalOptions::default() };
        let store = Local::open(dir.path(), options).unwrap();
        let owner = store.open_owner(PartitionId(1), Claim::Take).await.unwrap();
        for n in 0..100_u64 {
            let value = Bytes::from(vec![7; 500]);
            let put = Op::Put(Keyspace::Feed, Bytes::copy_from_slice(&n.to_be_bytes()), value);
            owner.submit(vec![put]).unwrap().durable().await.unwrap();
        }
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                std::fs::copy(&path, left.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        left
    }

    /// Recovers, and hands over what it finds; whatever is not stored by then is lost with the process.
    fn with<T>(
        dir: &Path,
        layer_bytes: usize,
        look: impl FnOnce(&Arc<Tree>, &Arc<Mutex<Applier>>) -> T,
    ) -> T {
        let tree = Arc::new(Tree::open(&dir.join("index"), 1 << 20).unwrap());
        let ground = Ground {
            dir: dir.to_path_buf(),
            segment_bytes: 8192,
            durability: Durability::Synced,
            faults: None,
            opened: Arc::default(),
            next_id: AtomicU32::new(last_id(dir).unwrap() + 1),
        };
        let recovered = recover(&ground, &tree, layer_bytes).unwrap();
        let looked = look(&tree, &Arc::new(Mutex::new(recovered.applier)));
        tree.hand_over().unwrap();
        looked
    }

    fn live(applier: &Applier) -> BTreeMap<SegmentId, u64> {
        applier.accounts().iter().map(|(id, account)| (*id, account.live)).collect()
    }

    /// Leaves a flush that ended in the middle: the rows may be there, and nothing else says so. Returns
    /// what the accounts should be.
    fn cut_flush(dir: &Path, taken_in: bool) -> BTreeMap<SegmentId, u64> {
        with(dir, usize::MAX, |tree, applier| {
            let mut applier = lock(applier);
            applier.seal();
            tree.begin_pointers().unwrap();
            if taken_in {
                tree.take_in(Keyspace::Feed, &applier.next_sealed().unwrap().layer).unwrap();
            }
            live(&applier)
        })
    }

    fn count_again(dir: &Path) -> BTreeMap<SegmentId, u64> {
        with(dir, usize::MAX, |tree, applier| {
            let flusher = Arc::new(Flusher::new(tree.clone(), applier.clone()));
            let mut count = Count::new(tree.clone(), applier.clone(), flusher);
            assert!(count.is_due());
            while count.step().unwrap() {}
            assert!(!count.is_due());
            live(&lock(applier))
        })
    }

    fn assert_settled(dir: &Path, all: &BTreeMap<SegmentId, u64>) {
        with(dir, usize::MAX, |_, applier| {
            assert!(lock(applier).is_settled());
            assert_eq!(live(&lock(applier)), *all);
        });
    }

    #[tokio::test]
    async fn accounts_are_unknown_until_they_are_counted_and_stored() {
        let dir = killed().await;
        let all = cut_flush(dir.path(), true);
        assert!(all.len() > 5 && all.values().sum::<u64>() == 50_000, "{all:?}");
        // Killed again before anything is counted; a part of the journal was flushed as it was replayed.
        for layer_bytes in [1, usize::MAX, usize::MAX] {
            with(dir.path(), layer_bytes, |tree, applier| {
                let mut applier = lock(applier);
                assert!(!applier.is_settled());
                applier.flush().unwrap();
                assert!(all.keys().all(|id| applier.retire(*id).is_none()));
                tree.set_live(0);
            });
        }
        assert_eq!(count_again(dir.path()), all);
        assert_settled(dir.path(), &all);
    }

    #[tokio::test]
    async fn what_is_not_in_the_tree_is_counted_too() {
        let dir = killed().await;
        let all = cut_flush(dir.path(), false);
        assert_eq!(count_again(dir.path()), all);
        assert_settled(dir.path(), &all);
    }
}
