//! What was submitted lately, and may not be in a reader's view yet.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use kv::{CommitNo, Keyspace, Op};

use crate::places::Place;

/// Entries that the overlay may hold before it looks for some to forget.
const ENTRIES: usize = 512;

/// What was submitted lately, by key.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// Everything submitted after this commit is here.
    pub horizon: CommitNo,
    newest: HashMap<Place, (CommitNo, Option<Bytes>)>,
    order: VecDeque<(CommitNo, Place)>,
}

impl Overlay {
    pub fn new(horizon: CommitNo) -> Self {
        Self { horizon, newest: HashMap::new(), order: VecDeque::new() }
    }

    /// What was submitted last for a key.
    pub fn get(&self, place: &Place) -> Option<&Option<Bytes>> {
        self.newest.get(place).map(|(_, value)| value)
    }

    /// The keys of what was submitted after a commit.
    pub fn after(&self, commit: CommitNo) -> impl Iterator<Item = &Place> {
        self.newest.iter().filter(move |(_, (no, _))| *no > commit).map(|(place, _)| place)
    }

    /// Whether it is time to look for what can be forgotten.
    pub fn is_large(&self) -> bool {
        self.order.len() > ENTRIES
    }

    pub fn remember(&mut self, no: CommitNo, place: Place, value: Option<Bytes>) {
        self.order.push_back((no, place.clone()));
        self.newest.insert(place, (no, value));
    }

    /// Forgets what every view from now on contains.
    pub fn forget(&mut self, published: CommitNo) {
        while let Some((no, _)) = self.order.front()
            && *no <= published
        {
            let (no, place) = self.order.pop_front().expect("the front was just seen");
            if let Entry::Occupied(found) = self.newest.entry(place)
                && found.get().0 == no
            {
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
