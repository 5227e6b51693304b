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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use kv::{CommitNo, Keyspace, Op, View};
use model::policy::ContainerDefinition;
use model::token::Etag;
use model::{Error, Fault, Result};

use crate::api::storage;
use crate::cache::Key;
use crate::doomed::Doomed;
use crate::gate::Gate;
use crate::history::History;
use crate::index::{self, Beforehand, Indexes, Indexing, Moved, Presence};
use crate::keys::{self, Head, Row, Slot};
use crate::listen::{Bell, bells_of};
use crate::partition::Partition;
pub(crate) use crate::places::Place;
use crate::places::{Places, Write};
use crate::signal::Seen;
use crate::watch::{Watch, Watches};

/// Entries that the overlay may hold before it looks for some to forget.
const OVERLAY_ENTRIES: usize = 512;

/// How often the writer's lock is tried before it is waited for.
const ENTER_TRIES: usize = 8;

/// The state behind the writer's lock.
#[derive(Debug)]
pub(crate) struct Writer {
    head: Head,
    history: History,
    /// The history has changed since it was stored; the next commit stores it.
    history_changed: bool,
    doomed: Arc<Doomed>,
    indexing: Indexing,
    outlook: Arc<ArcSwap<Outlook>>,
    /// So has what is indexed.
    indexing_changed: bool,
    /// Paths whose rows are counted.
    pub(crate) presence: Presence,
    overlay: Overlay,
    pub(crate) gate: Gate,
    pub(crate) watches: Watches,
}

/// What is known of a writer without its lock. It may have changed by the time the lock is taken.
#[derive(Debug)]
pub(crate) struct Outlook {
    /// Whether bodies that are submitted stay in the overlay.
    bodies: bool,
    /// What is indexed.
    pub indexes: Arc<Indexes>,
}

impl Outlook {
    fn of(history: &History, indexing: &Indexing) -> Arc<Self> {
        let bodies = history.images || indexing.reads_bodies();
        Arc::new(Self { bodies, indexes: indexing.current.clone() })
    }
}

impl Writer {
    pub(crate) fn new(
        head: Head,
        history: History,
        doomed: Arc<Doomed>,
        indexing: Indexing,
        horizon: CommitNo,
    ) -> (Mutex<Self>, Arc<ArcSwap<Outlook>>) {
        let overlay = Overlay { horizon, newest: HashMap::new(), order: VecDeque::new() };
        let outlook = Arc::new(ArcSwap::new(Outlook::of(&history, &indexing)));
        let writer = Mutex::new(Self {
            head,
            history,
            history_changed: false,
            doomed,
            indexing,
            outlook: outlook.clone(),
            indexing_changed: false,
            presence: Presence::default(),
            overlay,
            gate: Gate::default(),
            watches: Watches::default(),
        });
        (writer, outlook)
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
        self.outlook.store(Outlook::of(&self.history, &self.indexing));
    }

    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// What was submitted after a commit, as far as decisions look at it.
    pub(crate) fn submitted_after(&self, commit: CommitNo) -> impl Iterator<Item = &Place> {
        let newest = self.overlay.newest.iter();
        newest.filter(move |(_, (no, _))| *no > commit).map(|(place, _)| place)
    }

    /// Gives out a number for an item that may come to be. One that does not leaves a gap.
    pub(crate) fn next_ordinal(&mut self) -> u64 {
        self.head.ordinal += 1;
        self.head.ordinal
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
    /// Versions added to the feed within this commit.
    pub versions: u16,
    /// Partition keys whose items are gone, as they will be.
    pub doomed: Arc<Doomed>,
    overlay: Option<&'a Overlay>,
    reads: &'a Places<Option<Bytes>>,
    /// A key it looked at that has not been read yet.
    pub missing: Option<Place>,
    pub writes: Places<Write>,
    /// What was replaced among the writes, where they may be undone.
    pub replaced: Option<Vec<(Place, Write)>>,
    /// Absent where nobody submits: nothing is indexed then.
    indexing: Option<&'a Indexing>,
    /// What the indexes have to follow.
    moved: Vec<Moved>,
    /// How far a build of indexes will have come; to the end where there is no key.
    built: Option<Option<Bytes>>,
}

impl<'a> Draft<'a> {
    /// A draft that nobody submits: of a transaction that tries what it is going to do.
    pub fn trial(
        (lsn, number): (u64, u32),
        (head, history): (Head, History),
        doomed: Arc<Doomed>,
        reads: &'a Places<Option<Bytes>>,
        writes: Places<Write>,
    ) -> Self {
        Self {
            lsn,
            head,
            history,
            number,
            places: 0,
            versions: 0,
            doomed,
            overlay: None,
            reads,
            missing: None,
            writes,
            replaced: Some(Vec::new()),
            indexing: None,
            moved: Vec::new(),
            built: None,
        }
    }
}

impl Draft<'_> {
    /// The value of a key, earlier writes of this draft included. Fails when the key has to be
    /// read first: the decision then ends with this error, and runs again.
    pub fn get(&mut self, place: &Place) -> Result<Option<Bytes>> {
        if let Some(own) = self.writes.get(place) {
            return Ok(match own {
                Write::Put(value) => Some(value.clone()),
                Write::Delete | Write::DeleteOnce => None,
            });
        }
        if let Some((_, value)) = self.overlay.and_then(|overlay| overlay.newest.get(place)) {
            return Ok(value.clone());
        }
        if let Some(value) = self.reads.get(place) {
            return Ok(value.clone());
        }
        self.missing = Some(place.clone());
        Err(Error::new(Fault::Internal, "a key has to be read first"))
    }

    /// Whether it has come upon a key that has to be read first: its error is not the last word.
    pub fn is_unfinished(&self) -> bool {
        self.missing.is_some()
    }

    /// Whether an item is there for everybody: neither past its time nor deleted with its key.
    pub fn is_alive(&self, item_key: &[u8], row: &Row, default_ttl: Option<i32>) -> bool {
        let now = u32::try_from(self.head.ts_ms / 1000).unwrap_or(u32::MAX);
        !row.expired(default_ttl, now) && !self.doomed.hides(item_key, row.etag.lsn())
    }

    /// The etag of the next version of this commit.
    pub fn next_etag(&mut self, ts: u32) -> Etag {
        let etag = Etag::new(self.lsn, self.number, self.versions, ts);
        self.versions = self.versions.checked_add(1).expect("a commit has few versions");
        etag
    }

    /// Adds a version to the feed.
    pub fn add_version(
        &mut self,
        etag: Etag,
        stored: Bytes,
        rows: Option<Beforehand>,
    ) -> Result<()> {
        self.count(etag.lsn(), 1)?;
        self.moved.push(Moved::Added(stored.clone(), rows));
        self.put(Keyspace::Feed, keys::feed_key(etag), stored);
        Ok(())
    }

    /// Takes a version out of the feed.
    pub fn remove_version(&mut self, etag: Etag) -> Result<()> {
        self.count(etag.lsn(), -1)?;
        let key = keys::feed_key(etag);
        if self.indexing.is_some_and(Indexing::reads_bodies) {
            // Missing only for what was written just before anything was indexed.
            let stored = self.get(&(Keyspace::Feed, key.clone()))?;
            self.moved.extend(stored.map(Moved::Removed));
        }
        self.delete_once(Keyspace::Feed, key);
        Ok(())
    }

    /// From which policies index rows are.
    pub fn indexing(&self) -> Option<&Indexing> {
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
        self.write((keyspace, key), Write::Put(value));
    }

    /// Removes a key that may have been put many times.
    pub fn delete(&mut self, keyspace: Keyspace, key: Bytes) {
        self.write((keyspace, key), Write::Delete);
    }

    /// Removes a key that was put once.
    pub fn delete_once(&mut self, keyspace: Keyspace, key: Bytes) {
        self.write((keyspace, key), Write::DeleteOnce);
    }

    fn write(&mut self, place: Place, write: Write) {
        match &mut self.replaced {
            None => drop(self.writes.write(place, write)),
            Some(replaced) => {
                let old = self.writes.write(place.clone(), write);
                replaced.extend(old.map(|old| (place, old)));
            }
        }
    }
}

/// What a decision has read so far.
#[derive(Default)]
struct Reads {
    values: Places<Option<Bytes>>,
    /// The oldest view that a value is from.
    oldest: Option<CommitNo>,
}

impl Reads {
    async fn add(&mut self, view: &dyn View, places: Vec<Place>) -> Result<()> {
        for run in places.chunk_by(|a, b| a.0 == b.0) {
            if let [place] = run {
                let value = view.get(place.0, &place.1).await.map_err(storage)?;
                self.values.set(place.clone(), value);
                continue;
            }
            let keys: Vec<Bytes> = run.iter().map(|(_, key)| key.clone()).collect();
            let values = view.get_many(run[0].0, &keys).await.map_err(storage)?;
            run.iter().cloned().zip(values).for_each(|(place, value)| {
                self.values.set(place, value);
            });
        }
        self.oldest = Some(self.oldest.map_or(view.commit(), |oldest| oldest.min(view.commit())));
        Ok(())
    }

    /// Reads what a new version of the items that were found, or their end, will want to see.
    async fn follow(&mut self, view: &dyn View, bodies: bool) -> Result<()> {
        let mut places = Vec::new();
        for ((keyspace, _), value) in self.values.entries() {
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
        let places = std::mem::take(self).values.into_places().collect();
        self.add(view, places).await
    }
}

/// Says, while it lasts, that somebody reads bodies to decide: those that are submitted meanwhile
/// stay in the overlay.
struct WantsBodies<'a>(&'a AtomicUsize);

impl<'a> WantsBodies<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for WantsBodies<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What came of an attempt to decide.
enum Outcome<T> {
    /// The partition's rows are changing hands.
    Wait,
    /// A transaction holds what would be changed; one that ends after this may release it.
    Held(Seen),
    /// The reads are too old.
    ReadAgain,
    /// The decision looked at a key that was not read.
    Read(Place),
    /// Decided, and on its way to the disk.
    Submitted(T, u64, kv::Ticket),
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
        decide: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        self.commit_under(None, now_ms, places, decide).await
    }

    /// The same for a transaction with a watch of its own. `Fault::RetryWith` says that somebody
    /// has changed what it is about.
    pub(crate) async fn commit_under<T>(
        self: &Arc<Self>,
        watch: Option<&Watch>,
        now_ms: u64,
        places: Vec<Place>,
        mut decide: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        let watch = watch.map(|watch| watch.number);
        let mut reads = Reads::default();
        let mut wants_bodies = None;
        {
            let (view, bodies) = (self.owner.published(), self.keeps_bodies());
            reads.add(&*view, places).await?;
            reads.follow(&*view, bodies).await?;
        }
        loop {
            let outcome = {
                let mut writer = self.enter().await;
                if !writer.gate.is_open() {
                    Outcome::Wait
                } else if reads.oldest < Some(writer.overlay.horizon) && !reads.values.is_empty() {
                    // Somebody's write has been published and forgotten since we read.
                    Outcome::ReadAgain
                } else {
                    self.submit(&mut writer, watch, now_ms, &reads.values, &mut decide)?
                }
            };
            match outcome {
                Outcome::Wait => self.pass_gate().await?,
                Outcome::Held(seen) => self.released.changed(seen).await,
                Outcome::ReadAgain => reads.renew(&*self.owner.published()).await?,
                Outcome::Read(place) if place.0 == Keyspace::Feed && !self.keeps_bodies() => {
                    // The overlay has no body of what was submitted so far, and no view may have it
                    // yet. It has those of what is submitted from here on.
                    wants_bodies.get_or_insert_with(|| WantsBodies::new(&self.wants_bodies));
                    self.mark()?.durable().await.map_err(storage)?;
                    reads.add(&*self.owner.published(), vec![place]).await?;
                }
                Outcome::Read(place) => reads.add(&*self.owner.published(), vec![place]).await?,
                Outcome::Submitted(decided, lsn, ticket) => {
                    ticket.durable().await.map_err(storage)?;
                    // Who is told of a write can read it.
                    self.durable_up_to(lsn);
                    return Ok(decided);
                }
            }
        }
    }

    fn submit<T>(
        self: &Arc<Self>,
        writer: &mut Writer,
        watch: Option<u64>,
        now_ms: u64,
        reads: &Places<Option<Bytes>>,
        decide: &mut impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<Outcome<T>> {
        if watch.is_some_and(|watch| writer.watches.is_marked(watch)) {
            return Err(Error::new(Fault::RetryWith, "somebody has changed an item meanwhile"));
        }
        let lsn = writer.head.lsn + 1;
        let mut head = Head { lsn, ts_ms: now_ms.max(writer.head.ts_ms), ..writer.head };
        let mut writes = Places::with_capacity(8);
        if !keys::same_block(lsn, writer.head.lsn) && head.log_block_bytes > 0 {
            let bytes = keys::encode_size(std::mem::take(&mut head.log_block_bytes));
            writes
                .write((Keyspace::Index, keys::log_block_key(writer.head.lsn)), Write::Put(bytes));
        }
        let mut draft = Draft {
            lsn,
            head,
            history: writer.history,
            number: self.number,
            places: 0,
            versions: 0,
            doomed: writer.doomed.clone(),
            overlay: Some(&writer.overlay),
            reads,
            missing: None,
            writes,
            replaced: None,
            indexing: Some(&writer.indexing),
            moved: Vec::new(),
            built: None,
        };
        let decided = decide(&mut draft);
        let Draft { head, history, doomed, missing, writes, moved, built, .. } = draft;
        if let Some(place) = missing {
            return Ok(Outcome::Read(place));
        }
        let decided = decided?;
        let mut batch = writes.into_ops();
        let wanted = self.wants_bodies.load(Ordering::SeqCst) > 0;
        let bodies = wanted || history.images || writer.indexing.reads_bodies();
        let remembered: Vec<(Place, Option<Bytes>)> =
            batch.iter().filter_map(|op| remembered(op, bodies)).collect();
        if writer.watches.stop(&remembered, watch) {
            return Ok(Outcome::Held(self.released.seen()));
        }
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
        let bells = bells_of(&batch);
        // Before anybody can see it.
        let dooms = (doomed.len().saturating_sub(writer.doomed.len())) as u64;
        self.dooms.fetch_add(dooms, Ordering::SeqCst);
        let ticket = self.submit_uncached(&remembered, batch, (lsn, bells)).inspect_err(|_| {
            self.absolved.fetch_add(dooms, Ordering::SeqCst);
        })?;
        writer.watches.note(&remembered, watch);
        let outlook = history.images != writer.history.images || indexing.is_some();
        (writer.history, writer.history_changed) = (history, false);
        (writer.head, writer.doomed) = (head, doomed);
        writer.indexing_changed = false;
        if let Some(indexing) = indexing {
            writer.indexing = indexing;
        }
        if outlook {
            writer.outlook.store(Outlook::of(&writer.history, &writer.indexing));
        }
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
        Ok(Outcome::Submitted(decided, lsn, ticket))
    }

    /// Submits, with the items written taken out of the cache before anybody can see them change.
    fn submit_uncached(
        self: &Arc<Self>,
        written: &[(Place, Option<Bytes>)],
        batch: Vec<Op>,
        (lsn, bells): (u64, Vec<Bell>),
    ) -> Result<kv::Ticket> {
        let items = written.iter().filter(|((keyspace, _), _)| *keyspace == Keyspace::Docs);
        let items: Vec<Key> = items.map(|((_, key), _)| Key(self.number, key.clone())).collect();
        items.iter().for_each(|item| self.cache.forget(item));
        // Whoever waits for changes is woken from outside of the runtime, and so beside the writer
        // and not behind it; and whatever becomes of the writer.
        let partition = self.clone();
        let announce = move || {
            partition.durable_up_to(lsn);
            partition.listeners.ring(&bells);
        };
        let submitted = self.owner.submit_then(batch, Box::new(announce));
        let no = submitted.as_ref().ok().map(kv::Ticket::no);
        items.iter().for_each(|item| self.cache.written(item, no));
        submitted.map_err(storage)
    }

    /// Whether bodies that are submitted stay in the overlay.
    fn keeps_bodies(&self) -> bool {
        self.outlook.load().bodies
    }

    /// Submits a batch that changes nothing. A view that has it has all that was submitted before.
    pub(crate) fn mark(&self) -> Result<kv::Ticket> {
        self.mark_under(&self.writer())
    }

    /// The same, for who holds the writer's lock.
    pub(crate) fn mark_under(&self, writer: &Writer) -> Result<kv::Ticket> {
        let head = Op::Put(Keyspace::Meta, keys::HEAD, writer.head.encode());
        self.owner.submit(vec![head]).map_err(storage)
    }

    /// Takes the writer's lock. While somebody else has it this thread serves others: that is
    /// over sooner than a thread has gone to sleep and woken up.
    async fn enter(&self) -> MutexGuard<'_, Writer> {
        for _ in 0..ENTER_TRIES {
            if let Some(writer) = self.try_enter() {
                return writer;
            }
            tokio::task::yield_now().await;
        }
        self.writer()
    }

    fn try_enter(&self) -> Option<MutexGuard<'_, Writer>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic inside a decision leaves the writer as it was: nothing is assigned before submit.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What later decisions may look at: heads and index rows are not among it, and bodies only where
/// somebody reads them to decide, or index rows follow from them.
fn remembered(op: &Op, bodies: bool) -> Option<(Place, Option<Bytes>)> {
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
