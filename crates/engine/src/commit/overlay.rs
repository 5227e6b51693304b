//! What was submitted lately, and may not be in a reader's view yet.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use kv::{CommitNo, Keyspace, Op};

use crate::places::Place;

/// Entries that the overlay may hold before it looks for some to forget.
const ENTRIES: usize = 512;

/// What was submitted lately, by key.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// Everything submitted after this commit is here.
    pub horizon: CommitNo,
    newest: HashTable<Submitted>,
    /// In which order it was submitted; the hash tells of which place.
    order: VecDeque<(CommitNo, u64)>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Submitted {
    no: CommitNo,
    hash: u64,
    place: Place,
    value: Option<Bytes>,
}

impl Overlay {
    pub fn new(horizon: CommitNo) -> Self {
        let (newest, order) = (HashTable::new(), VecDeque::new());
        Self { horizon, newest, order, hasher: RandomState::default() }
    }

    /// What was submitted last for a key.
    pub fn get(&self, place: &Place) -> Option<&Option<Bytes>> {
        let hash = self.hasher.hash_one(place);
        let same = |found: &Submitted| found.hash == hash && found.place == *place;
        self.newest.find(hash, same).map(|found| &found.value)
    }

    /// The keys of what was submitted after a commit.
    pub fn after(&self, commit: CommitNo) -> impl Iterator<Item = &Place> {
        self.newest.iter().filter(move |found| found.no > commit).map(|found| &found.place)
    }

    /// Whether it is time to look for what can be forgotten.
    pub fn is_large(&self) -> bool {
        self.order.len() > ENTRIES
    }

    pub fn remember(&mut self, no: CommitNo, place: Place, value: Option<Bytes>) {
        let Self { newest, order, hasher, .. } = self;
        let hash = hasher.hash_one(&place);
        order.push_back((no, hash));
        let same = |found: &Submitted| found.hash == hash && found.place == place;
        match newest.entry(hash, same, |found| found.hash) {
            Entry::Occupied(mut found) => {
                let found = found.get_mut();
                (found.no, found.value) = (no, value);
            }
            Entry::Vacant(room) => drop(room.insert(Submitted { no, hash, place, value })),
        }
    }

    /// Forgets what every view from now on contains.
    pub fn forget(&mut self, published: CommitNo) {
        while let Some((no, hash)) = self.order.front().copied()
            && no <= published
        {
            self.order.pop_front();
            // Should two places of one commit have one hash, both are forgotten now, whichever is
            // found first. What was submitted again since has another number, and stays.
            let same = |found: &Submitted| found.hash == hash && found.no == no;
            if let Ok(found) = self.newest.find_entry(hash, same) {
                found.remove();
            }
        }
        self.horizon = self.horizon.max(published);
    }
}

/// What later decisions may look at: heads and index rows are not among it, and bodies only where
/// somebody reads them to decide, or index rows follow from them.
pub(super) fn remembered(op: &Op, bodies: bool) -> Option<(Place, Option<Bytes>)> {
    let (keyspace, key, value) = match op {
        Op::Put(keyspace, key, value) => (*keyspace, key, Some(value.clone())),
        Op::Delete(keyspace, key) | Op::DeleteOnce(keyspace, key) => (*keyspace, key, None),
    };
    let looked_at = match keyspace {
        Keyspace::Docs | Keyspace::Index => true,
        Keyspace::Feed => bodies,
        Keyspace::Log | Keyspace::Meta | Keyspace::Terms => false,
    };
    looked_at.then(|| ((keyspace, key.clone()), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(n: u64) -> Place {
        (Keyspace::Docs, Bytes::copy_from_slice(&n.to_be_bytes()))
    }

    #[test]
    fn what_was_submitted_again_stays() {
        let mut overlay = Overlay::new(CommitNo(0));
        for n in 0..100 {
            overlay.remember(CommitNo(1), place(n), None);
        }
        overlay.remember(CommitNo(2), place(7), Some(Bytes::from_static(b"new")));
        overlay.remember(CommitNo(3), place(200), None);
        overlay.forget(CommitNo(1));
        assert_eq!(overlay.horizon, CommitNo(1));
        assert_eq!(overlay.get(&place(7)), Some(&Some(Bytes::from_static(b"new"))));
        assert_eq!(overlay.get(&place(8)), None);
        assert_eq!(overlay.after(CommitNo(2)).collect::<Vec<_>>(), [&place(200)]);
        overlay.forget(CommitNo(3));
        assert_eq!((overlay.newest.len(), overlay.order.len()), (0, 0));
    }
}
