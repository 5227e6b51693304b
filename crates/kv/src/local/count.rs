//! Counts live bytes anew where a crash has left the accounts of segments wrong; behind the commits,
//! so that a large store opens as fast as a small one.
//!
//! A layer is sealed, and what changes from then on is noted beside the accounts. The tree as it is
//! once that layer is in it is gone through, a few rows at a time. Both together are the accounts.
//!
//! Invariants:
//! - As long as accounts may be wrong, no segment is given back.
//! - That they may be wrong is on disk until the right ones are: whoever took wrong ones for right
//!   would remove values that are needed. Who opens the store before that begins anew.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fjall::Readable as _;

use super::apply::{Applier, Base};
use super::commit::lock;
use super::flush::Flusher;
use super::format::SegmentId;
use super::tree::{Account, Pointer, Tree, failed};
use crate::{Error, Keyspace, Result};

/// Rows that are counted in one step.
const STEP_ROWS: usize = 4096;

/// Whether the live bytes in accounts are to be relied on.
pub(crate) enum Live {
    /// They are exact.
    Known,
    /// A crash has left them wrong.
    Unknown,
    /// They are being counted.
    Counting(Since),
}

/// What is known while live bytes are counted.
#[derive(Default)]
pub(crate) struct Since {
    /// What the count goes through, once it is in the tree.
    pub base: Option<Arc<Base>>,
    /// What has changed since then.
    changes: BTreeMap<SegmentId, i64>,
}

impl Live {
    pub(crate) fn is_known(&self) -> bool {
        matches!(self, Self::Known)
    }

    /// Notes that live bytes have come, or gone.
    pub(crate) fn changed(&mut self, id: SegmentId, by: i64) {
        if let Self::Counting(since) = self {
            *since.changes.entry(id).or_default() += by;
        }
    }
}

impl Since {
    /// Puts into the accounts what was counted, and what has changed since.
    pub(crate) fn settle(
        &self,
        counted: &BTreeMap<SegmentId, u64>,
        accounts: &mut BTreeMap<SegmentId, Account>,
    ) -> Result<()> {
        if let Some(id) = counted.keys().find(|id| !accounts.contains_key(id)) {
            return Err(Error::Corrupt(format!(
                "rows point into segment {}, which is missing",
                id.0
            )));
        }
        for (id, account) in accounts {
            let counted = counted.get(id).copied().unwrap_or(0);
            let by = self.changes.get(id).copied().unwrap_or(0);
            account.live = counted.checked_add_signed(by).ok_or_else(|| {
                Error::Corrupt(format!("of segment {}, more was released than it held", id.0))
            })?;
        }
        Ok(())
    }
}

/// See the top of this file.
pub(crate) struct Count {
    tree: Arc<Tree>,
    applier: Arc<Mutex<Applier>>,
    flusher: Arc<Flusher>,
    pass: Option<Pass>,
    /// Some rows cannot be read. Space is not given back, then.
    given_up: bool,
}

impl Count {
    pub(crate) fn new(
        tree: Arc<Tree>,
        applier: Arc<Mutex<Applier>>,
        flusher: Arc<Flusher>,
    ) -> Self {
        Self { tree, applier, flusher, pass: None, given_up: false }
    }

    /// Whether there is something to count.
    pub(crate) fn is_due(&self) -> bool {
        !self.given_up && !lock(&self.applier).is_settled()
    }

    /// Counts the next rows; whether there are more.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let stepped = self.try_step();
        self.given_up |= stepped.is_err();
        stepped
    }

    fn try_step(&mut self) -> Result<bool> {
        let mut pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.begin()?,
        };
        if pass.step(&self.tree)? {
            self.pass = Some(pass);
            return Ok(true);
        }
        lock(&self.applier).settle(&pass.live)?;
        self.flusher.flush_all()?;
        Ok(false)
    }

    fn begin(&self) -> Result<Pass> {
        lock(&self.applier).begin_count();
        self.flusher.flush_all()?;
        let base = lock(&self.applier).counted_from();
        let base = base.ok_or_else(|| Error::Io("a layer was not flushed".into()))?;
        Ok(Pass { base, keyspace: Keyspace::Feed, from: Bound::Unbounded, live: BTreeMap::new() })
    }
}

/// One way through all rows that point into segments.
struct Pass {
    base: Arc<Base>,
    keyspace: Keyspace,
    from: Bound<Bytes>,
    live: BTreeMap<SegmentId, u64>,
}

impl Pass {
    /// Counts the next rows; whether there are more.
    fn step(&mut self, tree: &Tree) -> Result<bool> {
        let from = std::mem::replace(&mut self.from, Bound::Unbounded);
        let space = tree.space(self.keyspace);
        let rows = self.base.snapshot.range(space, (from, Bound::Unbounded));
        let mut last = None;
        let mut count = 0;
        for row in rows.take(STEP_ROWS) {
            let (key, value) = row.into_inner().map_err(|error| failed(&error))?;
            let pointer = Pointer::decode(&value)?;
            *self.live.entry(pointer.segment).or_default() += u64::from(pointer.bytes);
            last = Some(key);
            count += 1;
        }
        match (last, self.keyspace) {
            (Some(key), _) if count == STEP_ROWS => self.from = Bound::Excluded(key.into()),
            (_, Keyspace::Feed) => self.keyspace = Keyspace::Log,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use super::super::format::SegmentKind;
    use super::*;
    use crate::suite::rows;
    use crate::{Claim, Durability, Local, LocalOptions, Op, Owner, PartitionId, Stores as _};

    const KEYS: u64 = 5 * STEP_ROWS as u64;

    fn open(dir: &Path) -> Arc<Local> {
        let options = LocalOptions {
            segment_bytes: 64 << 10,
            layer_bytes: 256 << 10,
            durability: Durability::Os,
            ..LocalOptions::default()
        };
        Local::open(dir, options).unwrap()
    }

    fn figure(store: &Local, name: &str) -> u64 {
        store.figures().into_iter().find(|figure| figure.0 == name).unwrap().1
    }

    /// Puts one row of each keyspace, and deletes another.
    async fn write(owner: &dyn Owner, n: u64) {
        let key = |n: u64| {
            let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS;
            Bytes::copy_from_slice(&spread.to_be_bytes())
        };
        let value = Bytes::from(vec![n as u8; 20 + n as usize % 30]);
        let mut batch = vec![
            Op::Put(Keyspace::Feed, key(n), value.clone()),
            Op::Put(Keyspace::Log, key(2 * n), value),
        ];
        if n.is_multiple_of(3) {
            batch.push(Op::Delete(Keyspace::Feed, key(n / 3)));
            batch.push(Op::Delete(Keyspace::Log, key(n / 2)));
        }
        owner.submit(batch).unwrap().durable().await.unwrap();
    }

    /// What the rows that can be read take, all of which are read.
    async fn held(owner: &dyn Owner) -> u64 {
        let view = owner.published();
        let mut held = 0;
        for keyspace in [Keyspace::Feed, Keyspace::Log] {
            let rows = rows(&*view, keyspace).await;
            held += rows.iter().map(|(_, value)| value.len() as u64).sum::<u64>();
        }
        held
    }

    /// Has every account lie, and says that they may.
    fn lie(dir: &Path, live: u64) {
        let tree = Tree::open(&dir.join("index"), 1 << 20).unwrap();
        tree.begin_pointers().unwrap();
        tree.set_live(live);
        tree.sync().unwrap();
    }

    #[tokio::test]
    async fn live_bytes_are_counted_beside_writers() {
        let dir = TempDir::new().unwrap();
        let store = open(dir.path());
        let owner = store.open_owner(PartitionId(1), Claim::Take).await.unwrap();
        let mut n = 0;
        while n < KEYS {
            write(&*owner, n).await;
            n += 1;
        }
        drop((owner, store));
        for lied in [0, 1, u64::from(u32::MAX)] {
            lie(dir.path(), lied);
            let store = open(dir.path());
            let owner = store.open_owner(PartitionId(1), Claim::Take).await.unwrap();
            let begun = n;
            while n < begun + 500 || figure(&store, "segments_uncounted") > 0 {
                write(&*owner, n).await;
                n += 1;
            }
            store.reclaim().unwrap();
            let held = held(&*owner).await;
            assert_eq!(figure(&store, "segment_live_bytes"), held, "after {lied}");
            drop((owner, store));
            let tree = Tree::open(&dir.path().join("index"), 1 << 20).unwrap();
            assert!(!tree.is_unsettled().unwrap());
            let accounts = tree.accounts().unwrap();
            assert_eq!(accounts.iter().map(|(_, account)| account.live).sum::<u64>(), held);
        }
    }

    #[test]
    fn accounts_that_cannot_be_are_not_taken_over() {
        let id = SegmentId(7);
        let account = Account { kind: SegmentKind::Journal, used: 100, live: 3 };
        let mut live = Live::Counting(Since::default());
        live.changed(id, -50);
        let Live::Counting(since) = live else { panic!() };
        let mut accounts = BTreeMap::from([(id, account)]);
        let mut settle = |counted| since.settle(&BTreeMap::from(counted), &mut accounts);
        assert!(settle([(id, 49)]).is_err());
        assert!(settle([(SegmentId(8), 1)]).is_err());
        settle([(id, 60)]).unwrap();
        assert_eq!(accounts[&id].live, 10);
    }
}
