//! The one place where LSNs are handed out.
//!
//! A write reads what it needs from the published view, without a lock, then enters the
//! partition's writer for the short moment in which it decides, takes the next LSN and
//! submits one batch; it leaves before the batch is on disk and waits outside. What has been
//! submitted but may not be in a reader's view yet stands in the [`Overlay`].
//!
//! Invariants:
//! - LSN order is submission order: both are taken under the same lock.
//! - A decision sees every earlier decision of the partition. The overlay keeps all writes
//!   after its horizon; a read taken from a view older than the horizon is done again.
//! - A refused decision leaves no trace: no LSN, no row.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use kv::{CommitNo, Keyspace, Op, View};
use model::policy::ContainerDefinition;
use model::token::Etag;
use model::{Error, Fault, Result};

use crate::api::storage;
use crate::cache::Key;
use crate::gate::Gate;
use crate::history::History;
use crate::index::{self, Indexing, Moved, Presence};
use crate::keys::{self, Head, Slot};
use crate::listen::{Landing, bells_of};
use crate::partition::Partition;

/// Entries that the overlay may hold before it looks for some to forget.
const OVERLAY_ENTRIES: usize = 512;

/// A key in one of the keyspaces.
pub(crate) type Place = (Keyspace, Bytes);

/// The state behind the writer's lock.
#[derive(Debug)]
pub(crate) struct Writer {
    head: Head,
    history: History,
    /// The history has changed since it was stored; the next commit stores it.
    history_changed: bool,
    indexing: Indexing,
    /// So has what is indexed.
    indexing_changed: bool,
    /// Paths whose rows are counted.
    pub(crate) presence: Presence,
    overlay: Overlay,
    pub(crate) gate: Gate,
}

impl Writer {
    pub(crate) fn new(
        head: Head,
        history: History,
        indexing: Indexing,
        horizon: CommitNo,
    ) -> Mutex<Self> {
        let overlay = Overlay { horizon, newest: HashMap::new(), order: VecDeque::new() };
        Mutex::new(Self {
            head,
            history,
            history_changed: false,
            indexing,
            indexing_changed: false,
            presence: Presence::default(),
            overlay,
            gate: Gate::default(),
        })
    }

    pub(crate) fn indexing(&self) -> &Indexing {
        &self.indexing
    }

    pub(crate) fn history(&self) -> History {
        self.history
    }

    /// Whether what is kept, or indexed, has still to be stored.
    pub(crate) fn has_changed(&self) -> bool {
        self.history_changed || self.indexing_changed
    }

    /// Keeps history and indexes as policies ask, from the next commit on.
    pub(crate) fn follow(&mut self, definition: &ContainerDefinition) {
        let history = self.history.following(&definition.change_feed, &self.head);
        self.history_changed |= history != self.history;
        self.history = history;
        if let Some(indexing) = self.indexing.following(&definition.index_rules, self.head.items) {
            self.indexing = indexing;
            self.indexing_changed = true;
            self.presence.forget();
        }
    }

    pub(crate) fn head(&self) -> Head {
        self.head
    }
}

/// What was submitted lately, by key.
#[derive(Debug)]
struct Overlay {
    /// Everything submitted after this commit is here.
    horizon: CommitNo,
    newest: HashMap<Place, (CommitNo, Option<Bytes>)>,
    order: VecDeque<(CommitNo, Place)>,
}

impl Overlay {
    fn remember(&mut self, no: CommitNo, place: Place, value: Option<Bytes>) {
        self.order.push_back((no, place.clone()));
        self.newest.insert(place, (no, value));
    }

    /// Forgets what every view from now on contains.
    fn forget(&mut self, published: CommitNo) {
        while let Some((no, _)) = self.order.front()
            && *no <= published
        {
            let (no, place) = self.order.pop_front().expect("the front was just seen");
            if self.newest.get(&place).is_some_and(|(newest, _)| *newest == no) {
                self.newest.remove(&place);
            }
        }
        self.horizon = self.horizon.max(published);
    }
}

/// A decision in the making: what it reads, and what it would write.
pub(crate) struct Draft<'a> {
    /// The LSN it will have.
    pub lsn: u64,
    /// Counters as they will be.
    pub head: Head,
    /// What is kept for readers of changes, as it will be.
    pub history: History,
    /// The number of the partition it is made in.
    pub number: u32,
    /// Places given out within this commit.
    pub places: u16,
    overlay: &'a Overlay,
    reads: &'a [(Place, Option<Bytes>)],
    /// A key it looked at that has not been read yet.
    missing: Option<Place>,
    batch: Vec<Op>,
    indexing: &'a Indexing,
    /// What the indexes have to follow.
    moved: Vec<Moved>,
    /// How far a build of indexes will have come; to the end where there is no key.
    built: Option<Option<Bytes>>,
}

impl Draft<'_> {
    /// The value of a key, earlier writes of this draft included. Fails when the key has to be
    /// read first: the decision then ends with this error, and runs again.
    pub fn get(&mut self, place: &Place) -> Result<Option<Bytes>> {
        let own = self.batch.iter().rev().find(|op| touches(op, place));
        if let Some(op) = own {
            return Ok(match op {
                Op::Put(_, _, value) => Some(value.clone()),
                Op::Delete(..) | Op::DeleteOnce(..) => None,
            });
        }
        if let Some((_, value)) = self.overlay.newest.get(place) {
            return Ok(value.clone());
        }
        if let Some((_, value)) = self.reads.iter().find(|(read, _)| read == place) {
            return Ok(value.clone());
        }
        self.missing = Some(place.clone());
        Err(Error::new(Fault::Internal, "a key has to be read first"))
    }

    /// Adds a version to the feed.
    pub fn add_version(&mut self, etag: Etag, stored: Bytes) -> Result<()> {
        self.count(etag.lsn(), 1)?;
        self.moved.push(Moved::Added(stored.clone()));
        self.put(Keyspace::Feed, keys::feed_key(etag), stored);
        Ok(())
    }

    /// Takes a version out of the feed.
    pub fn remove_version(&mut self, etag: Etag) -> Result<()> {
        self.count(etag.lsn(), -1)?;
        let key = keys::feed_key(etag);
        if self.indexing.reads_bodies() {
            // Missing only for what was written just before anything was indexed.
            let stored = self.get(&(Keyspace::Feed, key.clone()))?;
            self.moved.extend(stored.map(Moved::Removed));
        }
        self.delete_once(Keyspace::Feed, key);
        Ok(())
    }

    /// From which policies index rows are.
    pub fn indexing(&self) -> &Indexing {
        self.indexing
    }

    /// Gives a version that stays the index rows of the current policy.
    pub fn rebuild(&mut self, stored: Bytes) {
        self.moved.push(Moved::Rebuilt(stored));
    }

    /// All items up to this one, or all there are, have the rows of the current policy.
    pub fn built_up_to(&mut self, cursor: Option<Bytes>) {
        self.built = Some(cursor);
    }

    /// Keeps the count of a block of the feed.
    fn count(&mut self, lsn: u64, change: i32) -> Result<()> {
        let place = (Keyspace::Index, keys::block_key(lsn));
        let count = match self.get(&place)? {
            Some(stored) => keys::decode_count(&stored)?,
            None => 0,
        };
        match count.saturating_add_signed(change) {
            0 => self.delete(place.0, place.1),
            count => self.put(place.0, place.1, keys::encode_count(count)),
        }
        Ok(())
    }

    /// Sets a key.
    pub fn put(&mut self, keyspace: Keyspace, key: Bytes, value: Bytes) {
        self.batch.push(Op::Put(keyspace, key, value));
    }

    /// Removes a key that may have been put many times.
    pub fn delete(&mut self, keyspace: Keyspace, key: Bytes) {
        self.batch.push(Op::Delete(keyspace, key));
    }

    /// Removes a key that was put once.
    pub fn delete_once(&mut self, keyspace: Keyspace, key: Bytes) {
        self.batch.push(Op::DeleteOnce(keyspace, key));
    }
}

fn touches(op: &Op, (keyspace, key): &Place) -> bool {
    match op {
        Op::Put(k, at, _) | Op::Delete(k, at) | Op::DeleteOnce(k, at) => k == keyspace && at == key,
    }
}

/// What a decision has read so far.
#[derive(Default)]
struct Reads {
    values: Vec<(Place, Option<Bytes>)>,
    /// The oldest view that a value is from.
    oldest: Option<CommitNo>,
}

impl Reads {
    async fn add(&mut self, view: &dyn View, places: Vec<Place>) -> Result<()> {
        for place in places {
            let value = view.get(place.0, &place.1).await.map_err(storage)?;
            self.values.push((place, value));
        }
        self.oldest = Some(self.oldest.map_or(view.commit(), |oldest| oldest.min(view.commit())));
        Ok(())
    }

    /// Reads what a new version of the items that were found, or their end, will want to see.
    async fn follow(&mut self, view: &dyn View, bodies: bool) -> Result<()> {
        let mut places = Vec::new();
        for ((keyspace, _), value) in &self.values {
            if *keyspace == Keyspace::Docs
                && let Some(row) = Slot::item(value.as_ref())?
            {
                places.push((Keyspace::Index, keys::block_key(row.etag.lsn())));
                places.extend(bodies.then(|| (Keyspace::Feed, row.feed_key())));
            }
        }
        self.add(view, places).await
    }

    async fn renew(&mut self, view: &dyn View) -> Result<()> {
        let places = std::mem::take(self).values.into_iter().map(|(place, _)| place).collect();
        self.add(view, places).await
    }
}

/// What came of an attempt to decide.
enum Outcome<T> {
    /// The partition's rows are changing hands.
    Wait,
    /// The reads are too old.
    ReadAgain,
    /// The decision looked at a key that was not read.
    Read(Place),
    /// Decided, and on its way to the disk.
    Submitted(T, Landing),
}

impl Partition {
    /// Reads `places`, decides, and makes the decision durable. Returns what was decided; a
    /// refusal comes with nothing written. `decide` may look at further keys: it then runs again
    /// once they are read, so it must have no effects of its own. `Fault::RangeGone` says that
    /// the partition has been split or merged: nothing was written, others own its keys now.
    pub(crate) async fn commit<T>(
        self: &Arc<Self>,
        now_ms: u64,
        places: Vec<Place>,
        mut decide: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut reads = Reads::default();
        {
            let (view, bodies) = (self.owner.published(), self.writer().indexing.reads_bodies());
            reads.add(&*view, places).await?;
            reads.follow(&*view, bodies).await?;
        }
        loop {
            let outcome = {
                let mut writer = self.writer();
                if !writer.gate.is_open() {
                    Outcome::Wait
                } else if reads.oldest < Some(writer.overlay.horizon) && !reads.values.is_empty() {
                    // Somebody's write has been published and forgotten since we read.
                    Outcome::ReadAgain
                } else {
                    self.submit(&mut writer, now_ms, &reads.values, &mut decide)?
                }
            };
            match outcome {
                Outcome::Wait => self.pass_gate().await?,
                Outcome::ReadAgain => reads.renew(&*self.owner.published()).await?,
                Outcome::Read(place) => reads.add(&*self.owner.published(), vec![place]).await?,
                Outcome::Submitted(decided, landing) => {
                    landing.landed().await?;
                    return Ok(decided);
                }
            }
        }
    }

    fn submit<T>(
        self: &Arc<Self>,
        writer: &mut Writer,
        now_ms: u64,
        reads: &[(Place, Option<Bytes>)],
        decide: &mut impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<Outcome<T>> {
        let lsn = writer.head.lsn + 1;
        let mut head = Head { lsn, ts_ms: now_ms.max(writer.head.ts_ms), ..writer.head };
        let mut batch = Vec::with_capacity(6);
        if !keys::same_block(lsn, writer.head.lsn) && head.log_block_bytes > 0 {
            let bytes = keys::encode_size(std::mem::take(&mut head.log_block_bytes));
            batch.push(Op::Put(Keyspace::Index, keys::log_block_key(writer.head.lsn), bytes));
        }
        let mut draft = Draft {
            lsn,
            head,
            history: writer.history,
            number: self.number,
            places: 0,
            overlay: &writer.overlay,
            reads,
            missing: None,
            batch,
            indexing: &writer.indexing,
            moved: Vec::new(),
            built: None,
        };
        let decided = decide(&mut draft);
        let Draft { head, history, missing, mut batch, moved, built, .. } = draft;
        if let Some(place) = missing {
            return Ok(Outcome::Read(place));
        }
        let decided = decided?;
        let mut turns = Vec::new();
        let idle = writer.presence.is_idle();
        index::maintain(&writer.indexing, &moved, &mut batch, |old, new| {
            if !idle {
                turns.push((old.map(<[_]>::to_vec), new.map(<[_]>::to_vec)));
            }
        })?;
        let indexing = built.map(|cursor| writer.indexing.built_up_to(cursor));
        if writer.indexing_changed || indexing.is_some() {
            let stored = indexing.as_ref().unwrap_or(&writer.indexing).encode();
            batch.push(Op::Put(Keyspace::Meta, keys::INDEXING, stored));
        }
        batch.push(Op::Put(Keyspace::Meta, keys::HEAD, head.encode()));
        if writer.history_changed || history != writer.history {
            batch.push(Op::Put(Keyspace::Meta, keys::HISTORY, history.encode()));
        }
        writer.gate.note(&batch);
        let bodies = history.images || writer.indexing.reads_bodies();
        let remembered: Vec<(Place, Option<Bytes>)> =
            batch.iter().filter_map(|op| remembered(op, bodies)).collect();
        let bells = bells_of(&batch);
        let ticket = self.submit_uncached(&remembered, batch)?;
        (writer.history, writer.history_changed) = (history, false);
        writer.indexing_changed = false;
        if let Some(indexing) = indexing {
            writer.indexing = indexing;
        }
        writer.head = head;
        for (old, new) in &turns {
            writer.presence.note(lsn, old.as_deref(), new.as_deref());
        }
        // Bodies are too large to be held for longer than they have to.
        if bodies || writer.overlay.order.len() > OVERLAY_ENTRIES {
            writer.overlay.forget(self.owner.published().commit());
        }
        for (place, value) in remembered {
            writer.overlay.remember(ticket.no(), place, value);
        }
        Ok(Outcome::Submitted(decided, Landing::new(self, lsn, bells, ticket)))
    }

    /// Submits, with the items written taken out of the cache before anybody can see them change.
    fn submit_uncached(
        &self,
        written: &[(Place, Option<Bytes>)],
        batch: Vec<Op>,
    ) -> Result<kv::Ticket> {
        let items = written.iter().filter(|((keyspace, _), _)| *keyspace == Keyspace::Docs);
        let items: Vec<Key> = items.map(|((_, key), _)| Key(self.number, key.clone())).collect();
        items.iter().for_each(|item| self.cache.forget(item));
        let submitted = self.owner.submit(batch);
        let no = submitted.as_ref().ok().map(kv::Ticket::no);
        items.iter().for_each(|item| self.cache.written(item, no));
        submitted.map_err(storage)
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic inside a decision leaves the writer as it was: nothing is assigned before submit.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What later decisions may look at: heads and index rows are not among it, and bodies only where
/// a version is kept together with the one before, or index rows follow from them.
fn remembered(op: &Op, bodies: bool) -> Option<(Place, Option<Bytes>)> {
    let (keyspace, key, value) = match op {
        Op::Put(keyspace, key, value) => (*keyspace, key, Some(value.clone())),
        Op::Delete(keyspace, key) | Op::DeleteOnce(keyspace, key) => (*keyspace, key, None),
    };
    let looked_at = match keyspace {
        Keyspace::Docs => true,
        Keyspace::Index => !index::is_row(key),
        Keyspace::Feed => bodies,
        Keyspace::Log | Keyspace::Meta => false,
    };
    looked_at.then(|| ((keyspace, key.clone()), value))
}
