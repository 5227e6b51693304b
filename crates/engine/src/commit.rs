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

mod draft;
mod overlay;
mod reads;

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use kv::{CommitNo, Keyspace, Note, Op};
use model::policy::ContainerDefinition;
use model::{Error, Fault, Result};
use smallvec::SmallVec;

use crate::api::storage;
use crate::cache::{Forgotten, Key};
use crate::doomed::Doomed;
use crate::gate::Gate;
use crate::history::History;
use crate::index::{self, Indexes, Indexing, Presence};
use crate::keys::{self, Head};
use crate::listen::{Bells, bells_of};
use crate::partition::Partition;
pub(crate) use crate::places::Place;
use crate::places::{Places, Write};
use crate::shelf;
use crate::signal::Seen;
use crate::watch::{Watch, Watches};

pub(crate) use draft::Draft;
use overlay::{Overlay, remembered};
use reads::Reads;

/// How often the writer's lock is tried before it is waited for.
const ENTER_TRIES: usize = 8;

/// The state behind the writer's lock.
#[derive(Debug)]
pub(crate) struct Writer {
    head: Head,
    history: History,
    /// The history has changed since it was stored; the next commit stores it.
    history_changed: bool,
    doomed: Doomed,
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
        doomed: Doomed,
        indexing: Indexing,
        horizon: CommitNo,
    ) -> (Mutex<Self>, Arc<ArcSwap<Outlook>>) {
        let overlay = Overlay::new(horizon);
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
        self.overlay.after(commit)
    }

    /// Gives out a number for an item that may come to be. One that does not leaves a gap.
    pub(crate) fn next_ordinal(&mut self) -> u64 {
        self.head.ordinal += 1;
        self.head.ordinal
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

/// Stores what a head has counted in the block of an LSN, which is past.
fn leave_block(head: &mut Head, lsn: u64, writes: &mut Places<Write>) {
    let mut put = |key, value| writes.write((Keyspace::Index, key), Write::Put(value));
    let (rows, bytes) =
        (std::mem::take(&mut head.block_rows), std::mem::take(&mut head.log_block_bytes));
    if rows > 0 {
        put(keys::block_key(lsn), keys::encode_count(rows));
    }
    if bytes > 0 {
        put(keys::log_block_key(lsn), keys::encode_size(bytes));
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
        places: &[Place],
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
        places: &[Place],
        mut decide: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> Result<T> {
        let watch = watch.map(|watch| watch.number);
        let mut reads = Reads::default();
        let mut wants_bodies = None;
        if !reads.add_lacking(&*self.owner, places) {
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
                    reads.add(&*self.owner.published(), &[place]).await?;
                }
                Outcome::Read(place) => reads.add(&*self.owner.published(), &[place]).await?,
                Outcome::Submitted(decided, lsn, ticket) => {
                    ticket.durable().await.map_err(storage)?;
                    // Who is told of a write can read it.
                    self.listeners.durable_up_to(lsn);
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
        if !keys::same_block(lsn, writer.head.lsn) {
            leave_block(&mut head, writer.head.lsn, &mut writes);
        }
        let mut draft = Draft {
            lsn,
            head,
            history: writer.history,
            number: self.number,
            places: 0,
            versions: 0,
            doomed: Cow::Borrowed(&writer.doomed),
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
        let doomed = match doomed {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        };
        if let Some(place) = missing {
            return Ok(Outcome::Read(place));
        }
        let decided = decided?;
        let mut batch = writes.into_ops();
        let wanted = self.wants_bodies.load(Ordering::SeqCst) > 0;
        let bodies = wanted || history.images || writer.indexing.reads_bodies();
        let remembered: SmallVec<[(Place, Option<Bytes>); 2]> =
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
        let stored = shelf::keep(keys::HEAD_BYTES, |out| head.write_into(out));
        batch.push(Op::Put(Keyspace::Meta, keys::HEAD, stored));
        if writer.history_changed || history != writer.history {
            batch.push(Op::Put(Keyspace::Meta, keys::HISTORY, history.encode()));
        }
        writer.gate.note(&batch);
        let bells = bells_of(&batch);
        // Before anybody can see it.
        let doomed_now = doomed.as_ref().map_or(0, Doomed::len);
        let dooms = doomed_now.saturating_sub(writer.doomed.len()) as u64;
        if dooms > 0 {
            self.dooms.fetch_add(dooms, Ordering::SeqCst);
        }
        let ticket = self.submit_uncached(&remembered, batch, (lsn, bells)).inspect_err(|_| {
            self.absolved.fetch_add(dooms, Ordering::SeqCst);
        })?;
        writer.watches.note(&remembered, watch);
        let outlook = history.images != writer.history.images || indexing.is_some();
        (writer.history, writer.history_changed) = (history, false);
        writer.head = head;
        if let Some(doomed) = doomed {
            writer.doomed = doomed;
        }
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
        if bodies || writer.overlay.is_large() {
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
        (lsn, bells): (u64, Bells),
    ) -> Result<kv::Ticket> {
        let items = written.iter().filter(|((keyspace, _), _)| *keyspace == Keyspace::Docs);
        let items = items.map(|((_, key), _)| self.cache.forget(&Key(self.number, key.clone())));
        let forgotten: SmallVec<[Forgotten; 1]> = items.collect();
        let note = Note { number: lsn, marks: bells };
        let submitted = self.owner.submit_then(batch, Some((&self.follower, note)));
        let no = submitted.as_ref().ok().map(kv::Ticket::no);
        forgotten.into_iter().for_each(|item| self.cache.written(item, no));
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
