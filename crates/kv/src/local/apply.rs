//! Brings durable records into memory and publishes what can be read.
//!
//! Rows go into the newest layer ([`Recent`]); a layer that is full is sealed, and flushed into
//! the tree behind the commits ([`super::flush`]).
//!
//! Invariants:
//! - One holder at a time (it lives behind a mutex), records in the order of their commit.
//! - A layer, the accounts of segments as they were when it was sealed, and the place in the
//!   journal that it reaches to are flushed together. Live bytes are exact at any point where a
//!   crash can put us, but for the middle of a flush: then they are counted anew ([`super::count`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Bound, Deref};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use bytes::Bytes;
// Looked up with every row of a feed, where the standard hasher shows.
use foldhash::{HashMap, HashMapExt};
use smallvec::SmallVec;

use super::count::{Live, Since};
use super::format::{
    Change, RECORD_HEADER_BYTES, RecordKind, Row, Rows, SEGMENT_HEADER_BYTES, SegmentId,
    SegmentKind,
};
use super::keys::Keys;
use super::recent::{Recent, State, Value};
use super::runs::Gathered;
use super::segment::{Placed, Segment, SegmentSet};
use super::shelf::Shelf;
use super::stems::Tables;
use super::tree::{Account, Applied, Pointer, TableNumbers, Tree};
use crate::{CommitNo, Epoch, Error, Keyspace, PartitionId, Result};

/// A layer that stands for this much of the journal is full: a reopen has to read that again.
const LAYER_JOURNAL_BYTES: u64 = 256 << 20;
/// Views that are remembered before those which are gone are looked for among all.
const VIEWS_MAX: usize = 4096;

/// For each feed, a key that none in it is above.
pub(crate) type Tails = HashMap<(PartitionId, Keyspace), Bytes>;

/// The tree as it was after a flush.
pub(crate) struct Base {
    pub snapshot: fjall::Snapshot,
    pub tails: Tails,
    /// What the snapshot sees of Terms is in these tables.
    pub terms: Tables,
    /// Tells the tables of all keyspaces from others.
    numbers: TableNumbers,
}

impl Base {
    /// The tree as it is; only between two flushes.
    fn of(tree: &Tree, tails: Tails) -> Arc<Self> {
        // Tables that come after these are noticed, if not at once.
        let numbers = tree.table_numbers();
        Arc::new(Self { snapshot: tree.snapshot(), tails, terms: tree.term_tables(), numbers })
    }
}

/// What readers see: layers in memory, newest first, and the tree beneath them.
pub(crate) struct Published {
    pub commit: CommitNo,
    pub state: State,
    pub layers: Arc<[Arc<Recent>]>,
    pub base: Arc<Base>,
    pub segments: Arc<SegmentSet>,
    pub tree: Arc<Tree>,
    /// Tells which rows of `Docs` are not there. Perhaps newer than the rest.
    pub keys: Arc<Keys>,
}

/// A layer that is to be flushed, with what belongs to it.
#[derive(Clone)]
pub(crate) struct Sealed {
    pub layer: Arc<Recent>,
    pub applied: Option<Applied>,
    pub accounts: Vec<(SegmentId, Option<Account>)>,
    pub epochs: Vec<(PartitionId, Epoch)>,
    /// Whether the accounts are to be relied on.
    pub settled: bool,
    /// Whether live bytes are counted from here on.
    counted: bool,
    tails: Tails,
}

/// A row that every commit of a partition writes anew, such as its head: of a group, only the last is put.
struct LateRow<'a> {
    place: (Keyspace, PartitionId, &'a [u8]),
    value: &'a [u8],
}

/// Such rows of a group, as long as they can wait.
#[derive(Default)]
struct Late<'a>(SmallVec<[LateRow<'a>; LATE_ROWS]>);

/// How many of them wait.
const LATE_ROWS: usize = 8;
/// Rows that are written often have short keys.
const OFTEN_KEY_BYTES: usize = 9;

impl<'a> Late<'a> {
    /// Has a row wait, in the place of the one that it replaces. Returns another that can wait no longer.
    fn keep(&mut self, row: LateRow<'a>) -> Option<LateRow<'a>> {
        self.take(row.place);
        let other = (self.0.len() == LATE_ROWS).then(|| self.0.swap_remove(0));
        self.0.push(row);
        other
    }

    /// Takes a row out, if it waits.
    fn take(&mut self, place: (Keyspace, PartitionId, &[u8])) -> Option<LateRow<'a>> {
        let at = self.0.iter().rposition(|row| row.place == place)?;
        Some(self.0.swap_remove(at))
    }
}

fn is_often(keyspace: Keyspace, key: &[u8]) -> bool {
    matches!(keyspace, Keyspace::Meta | Keyspace::Index) && key.len() <= OFTEN_KEY_BYTES
}

/// Applies groups; see the top of this file.
pub(crate) struct Applier {
    tree: Arc<Tree>,
    published: Arc<ArcSwap<Published>>,
    segments: Arc<SegmentSet>,
    accounts: BTreeMap<SegmentId, Account>,
    applied: Option<Applied>,
    layer_bytes: usize,
    tails: Tails,
    epochs: HashMap<PartitionId, Epoch>,
    state: State,
    layers: Arc<[Arc<Recent>]>,
    base: Arc<Base>,
    shelf: Shelf,
    keys: Arc<Keys>,
    /// Layers to be flushed, the oldest first.
    sealed: VecDeque<Sealed>,
    /// What has changed since the last seal, beside rows.
    touched: BTreeSet<SegmentId>,
    claimed: BTreeSet<PartitionId>,
    journal_bytes: u64,
    /// Published states that somebody may still read, the oldest first.
    views: VecDeque<(State, Weak<Published>)>,
    /// Rows of the newest layer that can go once every view sees them gone.
    graves: VecDeque<(State, Keyspace, Bytes)>,
    live: Live,
}

impl Applier {
    pub(crate) fn new(
        tree: Arc<Tree>,
        segments: SegmentSet,
        accounts: BTreeMap<SegmentId, Account>,
        live: Live,
        applied: Option<Applied>,
        layer_bytes: usize,
    ) -> Self {
        let segments = Arc::new(segments);
        let base = Base::of(&tree, Tails::new());
        let layers: Arc<[Arc<Recent>]> = Arc::new([Arc::default()]);
        let keys = Arc::<Keys>::default();
        let published = Arc::new(Published {
            commit: CommitNo(applied.map_or(0, |applied| applied.commit)),
            state: State(0),
            layers: layers.clone(),
            base: base.clone(),
            segments: segments.clone(),
            tree: tree.clone(),
            keys: keys.clone(),
        });
        Self {
            tree,
            views: VecDeque::from([(State(0), Arc::downgrade(&published))]),
            published: Arc::new(ArcSwap::new(published)),
            segments,
            accounts,
            applied,
            layer_bytes,
            tails: Tails::new(),
            epochs: HashMap::new(),
            state: State(0),
            layers,
            base,
            shelf: Shelf::default(),
            keys,
            sealed: VecDeque::new(),
            touched: BTreeSet::new(),
            claimed: BTreeSet::new(),
            journal_bytes: 0,
            live,
            graves: VecDeque::new(),
        }
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

    /// The epoch of a partition.
    pub(crate) fn epoch(&self, partition: PartitionId) -> Result<Epoch> {
        match self.epochs.get(&partition) {
            Some(epoch) => Ok(*epoch),
            None => self.tree.epoch(partition),
        }
    }

    /// Whether the accounts are to be relied on.
    pub(crate) fn is_settled(&self) -> bool {
        self.live.is_known()
    }

    /// Memory that layers take.
    pub(crate) fn layer_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bytes()).sum()
    }

    /// Applies records of one segment and publishes the outcome.
    pub(crate) fn apply<B: Deref<Target = [u8]>>(
        &mut self,
        segment: &Arc<Segment>,
        records: &[Placed<B>],
    ) -> Result<()> {
        let Some(last) = records.last() else { return Ok(()) };
        self.know(segment);
        self.begin();
        let (mut terms, mut late) = (Gathered::default(), Late::default());
        for record in records {
            self.apply_record(segment, record, &mut terms, &mut late)?;
            self.journal_bytes += u64::from(record.header.body_bytes);
        }
        late.0.into_iter().for_each(|row| self.put_late(row));
        if !terms.is_empty() {
            self.layers[0].add_terms(terms.into_run(self.state), self.oldest());
        }
        self.account(segment.id()).used = last.end();
        let applied =
            Applied { segment: segment.id(), end: last.end(), commit: last.header.commit };
        self.applied = Some(applied);
        if let Some(keys) = self.keys.successors() {
            self.keys = Arc::new(keys);
        }
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
        self.begin();
        self.account(to.id()).used = used;
        for (keyspace, key, old, new) in moves {
            if self.stored(*keyspace, key)?.is_some_and(|now| now.same_place(old)) {
                self.release(*old);
                self.hold(*new);
                self.put(*keyspace, key.clone(), Value::Point(*new), false);
            }
        }
        self.publish();
        Ok(())
    }

    /// Forgets a segment that nothing points to. The caller flushes and syncs before the file
    /// goes.
    pub(crate) fn retire(&mut self, id: SegmentId) -> Option<Arc<Segment>> {
        let current = self.applied.map(|applied| applied.segment) == Some(id);
        let kept = current || !self.is_settled();
        if kept || self.accounts.get(&id).is_none_or(|account| account.live > 0) {
            return None;
        }
        self.accounts.remove(&id);
        self.touched.insert(id);
        let mut segments = SegmentSet::clone(&self.segments);
        let gone = segments.remove(&id);
        self.segments = Arc::new(segments);
        self.publish();
        gone
    }

    /// Whether the newest layer should be sealed.
    pub(crate) fn is_full(&self) -> bool {
        self.layers[0].bytes() >= self.layer_bytes || self.journal_bytes >= LAYER_JOURNAL_BYTES
    }

    /// How many layers wait to be flushed.
    pub(crate) fn sealed_layers(&self) -> usize {
        self.sealed.len()
    }

    /// Seals the newest layer, if anything has changed since the last one, and begins another.
    pub(crate) fn seal(&mut self) {
        let changed = self.touched.iter().map(|id| (*id, self.accounts.get(id).copied()));
        let claimed = self.claimed.iter().filter_map(|id| Some((*id, *self.epochs.get(id)?)));
        let sealed = Sealed {
            layer: self.layers[0].clone(),
            applied: self.applied,
            accounts: changed.collect(),
            epochs: claimed.collect(),
            settled: self.is_settled(),
            counted: false,
            tails: self.tails.clone(),
        };
        if sealed.layer.is_empty() && sealed.accounts.is_empty() && sealed.epochs.is_empty() {
            return;
        }
        self.sealed.push_back(sealed);
        self.touched.clear();
        self.claimed.clear();
        self.graves.clear();
        self.journal_bytes = 0;
        let next = Arc::new(self.layers[0].next());
        self.layers = std::iter::once(next).chain(self.layers.iter().cloned()).collect();
        self.publish();
    }

    /// The layer to be flushed next.
    pub(crate) fn next_sealed(&self) -> Option<Sealed> {
        self.sealed.front().cloned()
    }

    /// Readers find the oldest layer in the tree from now on.
    pub(crate) fn flushed(&mut self) {
        let Some(sealed) = self.sealed.pop_front() else { return };
        self.base = Base::of(&self.tree, sealed.tails);
        if let Live::Counting(since) = &mut self.live
            && sealed.counted
        {
            since.base = Some(self.base.clone());
        }
        self.layers = self.layers[..self.layers.len() - 1].into();
        self.publish();
    }

    /// Has readers go to the tables that compaction has made, and lets those go that it was made
    /// from. Only between two flushes.
    pub(crate) fn follow_compaction(&mut self) {
        if self.tree.table_numbers() != self.base.numbers {
            self.base = Base::of(&self.tree, self.base.tails.clone());
            self.publish();
        }
    }

    /// Flushes what has been applied, while nobody else does anything.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.seal();
        while let Some(sealed) = self.next_sealed() {
            super::flush::write(&self.tree, &sealed)?;
            self.flushed();
        }
        Ok(())
    }

    /// Has live bytes counted from what has been applied so far.
    pub(crate) fn begin_count(&mut self) {
        self.seal();
        let mut since = Since::default();
        match self.sealed.back_mut() {
            Some(last) => last.counted = true,
            None => since.base = Some(self.base.clone()),
        }
        self.live = Live::Counting(since);
    }

    /// Hands over what is to be counted, once it is in the tree.
    pub(crate) fn counted_from(&mut self) -> Option<Arc<Base>> {
        match &mut self.live {
            Live::Counting(since) => since.base.take(),
            Live::Known | Live::Unknown => None,
        }
    }

    /// Takes over what was counted. With the next flush it is on disk.
    pub(crate) fn settle(&mut self, counted: &BTreeMap<SegmentId, u64>) -> Result<()> {
        if let Live::Counting(since) = std::mem::replace(&mut self.live, Live::Unknown) {
            since.settle(counted, &mut self.accounts)?;
            self.touched.extend(self.accounts.keys());
            self.live = Live::Known;
        }
        Ok(())
    }

    /// Begins the next state, and takes out what no view can see any more.
    fn begin(&mut self) {
        self.state.0 += 1;
        while let Some((_, view)) = self.views.front()
            && view.strong_count() == 0
        {
            self.views.pop_front();
        }
        if self.views.len() > VIEWS_MAX {
            self.views.retain(|(_, view)| view.strong_count() > 0);
        }
        let oldest = self.oldest();
        while let Some((since, ..)) = self.graves.front()
            && *since <= oldest
            && let Some((since, keyspace, key)) = self.graves.pop_front()
        {
            self.layers[0].bury(keyspace, &key, since);
        }
    }

    /// The oldest state that somebody may read.
    fn oldest(&self) -> State {
        self.views.front().map_or(self.state, |(state, _)| *state)
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

    fn apply_record<'a, B: Deref<Target = [u8]>>(
        &mut self,
        segment: &Arc<Segment>,
        record: &'a Placed<B>,
        terms: &mut Gathered,
        late: &mut Late<'a>,
    ) -> Result<()> {
        let partition = PartitionId(record.header.partition);
        if record.header.kind == RecordKind::Claim {
            self.epochs.insert(partition, Epoch(record.header.epoch));
            self.claimed.insert(partition);
            return Ok(());
        }
        for row in Rows::of(&record.body) {
            let unreadable =
                || segment.corrupt(u64::from(record.at), "holds a record that cannot be read");
            let row = row.ok_or_else(unreadable)?;
            if row.keyspace == Keyspace::Terms {
                let (before, after) = row.shared;
                let key = (before, row.key(&record.body), after);
                let value = (row.change == Change::Put).then(|| row.value(&record.body));
                terms.add(partition, key, value).ok_or_else(unreadable)?;
                continue;
            }
            let key = row.key(&record.body);
            if is_often(row.keyspace, key) {
                let place = (row.keyspace, partition, key);
                let put = row.change == Change::Put;
                let due = match put {
                    true => late.keep(LateRow { place, value: row.value(&record.body) }),
                    // What is removed has to be there first.
                    false => late.take(place),
                };
                if let Some(due) = due {
                    self.put_late(due);
                }
                if put {
                    continue;
                }
            }
            let key = self.shelf.put([&partition.0.to_be_bytes(), key]);
            match (row.keyspace, row.change) {
                (Keyspace::Feed | Keyspace::Log, _) => {
                    self.apply_pointer(segment, record, &row, key)?;
                }
                (keyspace, Change::Put) => {
                    // A copy: memory must not keep the whole record for one small row.
                    let value = self.shelf.put([row.value(&record.body), &[]]);
                    if keyspace == Keyspace::Docs {
                        self.keys.add(partition, row.key(&record.body));
                    }
                    self.put(keyspace, key, Value::Put(value), false);
                }
                (keyspace, change) => self.remove(keyspace, key, change == Change::DeleteOnce),
            }
        }
        Ok(())
    }

    /// Puts a row that could wait.
    fn put_late(&mut self, LateRow { place: (keyspace, partition, key), value }: LateRow<'_>) {
        let key = self.shelf.put([&partition.0.to_be_bytes(), key]);
        let value = self.shelf.put([value, &[]]);
        self.put(keyspace, key, Value::Put(value), false);
    }

    fn apply_pointer<B>(
        &mut self,
        segment: &Arc<Segment>,
        record: &Placed<B>,
        row: &Row,
        key: Bytes,
    ) -> Result<()> {
        let old = self.stored(row.keyspace, &key)?;
        if let Some(old) = old {
            self.release(old);
        }
        if row.change != Change::Put {
            self.remove(row.keyspace, key, false);
            return Ok(());
        }
        let pointer = Pointer {
            segment: segment.id(),
            at: record.at + (RECORD_HEADER_BYTES + row.value_at) as u32,
            bytes: row.value_bytes as u32,
            crc: row.value_crc,
        };
        if old.is_some_and(|old| old.same_place(&pointer)) {
            // The tree holds more than it says: it has forgotten a flush, and what that flush did to accounts.
            self.live = Live::Unknown;
        }
        self.hold(pointer);
        self.raise_tail(row.keyspace, &key);
        self.put(row.keyspace, key, Value::Point(pointer), old.is_none());
        Ok(())
    }

    fn put(&mut self, keyspace: Keyspace, key: Bytes, value: Value, fresh: bool) {
        self.layers[0].put(keyspace, key, value, fresh, (self.state, self.oldest()));
    }

    fn remove(&mut self, keyspace: Keyspace, key: Bytes, once: bool) {
        let now = (self.state, self.oldest());
        if self.layers[0].remove(keyspace, key.clone(), once, now) {
            self.graves.push_back((self.state, keyspace, key));
        }
    }

    fn publish(&mut self) {
        let published = Arc::new(Published {
            commit: CommitNo(self.applied.map_or(0, |applied| applied.commit)),
            state: self.state,
            layers: self.layers.clone(),
            base: self.base.clone(),
            segments: self.segments.clone(),
            tree: self.tree.clone(),
            keys: self.keys.clone(),
        });
        self.views.push_back((self.state, Arc::downgrade(&published)));
        self.published.store(published);
    }

    fn account(&mut self, id: SegmentId) -> &mut Account {
        self.touched.insert(id);
        let unknown = Account { kind: SegmentKind::Journal, used: 0, live: 0 };
        self.accounts.entry(id).or_insert(unknown)
    }

    fn hold(&mut self, new: Pointer) {
        self.account(new.segment).live += u64::from(new.bytes);
        self.live.changed(new.segment, i64::from(new.bytes));
    }

    fn release(&mut self, old: Pointer) {
        let account = self.account(old.segment);
        // Below zero only while accounts are not to be relied on.
        account.live = account.live.saturating_sub(u64::from(old.bytes));
        self.live.changed(old.segment, -i64::from(old.bytes));
    }

    /// The pointer that a key has now. A key beyond the tail needs no lookup: that is every
    /// write of a feed.
    fn stored(&mut self, keyspace: Keyspace, key: &Bytes) -> Result<Option<Pointer>> {
        let partition = partition_of(key)?;
        if !self.tails.contains_key(&(partition, keyspace)) {
            let tail = self.last_key(keyspace, partition)?;
            self.tails.insert((partition, keyspace), tail);
        }
        if self.tails.get(&(partition, keyspace)).is_some_and(|tail| key > tail) {
            return Ok(None);
        }
        match self.layers.iter().find_map(|layer| layer.get(keyspace, key, self.state)) {
            Some(Value::Point(pointer)) => Ok(Some(pointer)),
            Some(_) => Ok(None),
            None => self.tree.pointer(keyspace, key),
        }
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
        let first = partition.0.to_be_bytes();
        let next = partition.0.checked_add(1).map(u64::to_be_bytes);
        let end = next.as_ref().map_or(Bound::Unbounded, |next| Bound::Excluded(&next[..]));
        let mut rows = Vec::new();
        for layer in self.layers.iter() {
            layer.range(keyspace, (Bound::Included(&first), end), true, self.state, 1, &mut rows);
        }
        let stored = self.tree.last_key(keyspace, partition)?;
        let keys = rows.into_iter().map(|(key, _)| key).chain(stored);
        Ok(keys.max().unwrap_or_else(|| Bytes::copy_from_slice(&first)))
    }
}

/// A key as layers and the tree hold it: the partition first.
pub(crate) fn prefixed(partition: PartitionId, key: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(8 + key.len());
    out.extend_from_slice(&partition.0.to_be_bytes());
    out.extend_from_slice(key);
    Bytes::from(out)
}

pub(crate) fn partition_of(key: &[u8]) -> Result<PartitionId> {
    let prefix = key.get(..8).and_then(|prefix| prefix.try_into().ok());
    prefix
        .map(|prefix| PartitionId(u64::from_be_bytes(prefix)))
        .ok_or_else(|| Error::Corrupt("a row without a partition".into()))
}
