//! A store that forgets on command, for simulations.
//!
//! Nothing here has a thread or a clock: a batch becomes durable when [`Crashing::sync`] says
//! so, and a crash happens when [`Crashing::crash`] is called. The same calls in the same order
//! give the same outcome.
//!
//! Invariant: rows hold durable batches only. What is not durable is in the queue, and a crash
//! is the loss of the queue.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use crate::versions::Versions;
use crate::{
    Claim, CommitNo, Epoch, Error, Follow, Keyspace, Limits, Note, Op, Owner, PartitionId, Pending,
    Result, Stores, Then, Ticket, View,
};

const LIMITS: Limits = Limits { key_bytes: 8 << 10, value_bytes: 5 << 20, batch_bytes: 64 << 20 };

/// A simulated store. Clones are the same store.
#[derive(Clone)]
pub struct Crashing {
    state: Arc<Mutex<State>>,
    versions: Arc<Versions>,
}

struct State {
    auto: bool,
    /// Why nothing can be done just now.
    down: Option<Error>,
    /// Owners of an earlier life are closed.
    life: u64,
    last: CommitNo,
    durable: CommitNo,
    queue: VecDeque<Queued>,
    epochs: HashMap<PartitionId, Epoch>,
    risen: HashMap<PartitionId, watch::Sender<CommitNo>>,
    /// Of all that was ever submitted, in its order.
    submitted: DefaultHasher,
}

struct Queued {
    no: CommitNo,
    partition: PartitionId,
    batch: Vec<Op>,
    done: oneshot::Sender<Result<()>>,
    then: Option<(Arc<dyn Follow>, Note)>,
}

impl Crashing {
    /// A store that makes nothing durable by itself.
    pub fn manual() -> Self {
        Self::new(false)
    }

    /// A store that makes each batch durable as it is submitted.
    pub fn auto() -> Self {
        Self::new(true)
    }

    fn new(auto: bool) -> Self {
        let state = State {
            auto,
            down: None,
            life: 0,
            last: CommitNo(0),
            durable: CommitNo(0),
            queue: VecDeque::new(),
            epochs: HashMap::new(),
            risen: HashMap::new(),
            submitted: DefaultHasher::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), versions: Arc::default() }
    }

    /// Tells histories apart: two stores to which the same was submitted in the same order have
    /// the same.
    pub fn digest(&self) -> u64 {
        self.state().submitted.finish()
    }

    /// Batches that a crash would lose.
    pub fn queued(&self) -> usize {
        self.state().queue.len()
    }

    /// Makes the first `batches` of the queue durable and acknowledges them. Returns how many
    /// there were.
    pub fn sync(&self, batches: usize) -> usize {
        let mut state = self.state();
        let count = batches.min(state.queue.len());
        let kept: Vec<Queued> = (0..count).filter_map(|_| self.keep_first(&mut state)).collect();
        drop(state);
        for queued in kept {
            let _ = queued.done.send(Ok(()));
            if let Some((follower, note)) = queued.then {
                follower.durable(&[note]);
            }
        }
        count
    }

    /// Crashes between a sync and its acknowledgements: the first `keep` batches of the queue
    /// are durable though nobody was told, the others are lost. All owners are closed.
    pub fn crash(&self, keep: usize) {
        let mut state = self.state();
        for _ in 0..keep.min(state.queue.len()) {
            self.keep_first(&mut state);
        }
        state.queue.clear();
        state.risen.clear();
        state.last = state.durable;
        state.life += 1;
        state.down = Some(Error::Closed);
    }

    /// Starts again after a crash or a close.
    pub fn reopen(&self) {
        let mut state = self.state();
        state.life += 1;
        state.down = None;
    }

    fn keep_first(&self, state: &mut State) -> Option<Queued> {
        let queued = state.queue.pop_front()?;
        self.versions.apply(queued.partition, queued.no, &queued.batch);
        state.durable = queued.no;
        state.rise(queued.partition).send_replace(queued.no);
        Some(queued)
    }

    fn claim(&self, partition: PartitionId, claim: Claim) -> Result<Arc<dyn Owner>> {
        let mut state = self.state();
        state.up()?;
        let now = state.epoch(partition);
        if let Claim::Expect(expected) = claim
            && expected != now
        {
            return Err(Error::Fenced);
        }
        let epoch = Epoch(now.0 + 1);
        state.epochs.insert(partition, epoch);
        state.fence(partition);
        let life = state.life;
        Ok(Arc::new(CrashingOwner { stores: self.clone(), partition, epoch, life }))
    }

    async fn remove_all(&self, partition: PartitionId) -> Result<()> {
        let owner = self.claim(partition, Claim::Take)?;
        for keyspace in Keyspace::ALL {
            let deletes = self.versions.deletes(partition, keyspace, None);
            owner.submit(deletes)?.durable().await?;
        }
        Ok(())
    }

    fn submit(
        &self,
        owner: &CrashingOwner,
        batch: Vec<Op>,
        then: Option<Then<'_>>,
    ) -> Result<Ticket> {
        let mut state = self.state();
        state.may_write(owner)?;
        let no = CommitNo(state.last.0 + 1);
        state.last = no;
        let (ticket, done) = Ticket::new(no);
        (owner.partition, &batch).hash(&mut state.submitted);
        let then = then.map(|(follower, note)| (follower.clone(), note));
        state.queue.push_back(Queued { no, partition: owner.partition, batch, done, then });
        let auto = state.auto;
        drop(state);
        if auto {
            self.sync(usize::MAX);
        }
        Ok(ticket)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn up(&self) -> Result<()> {
        self.down.clone().map_or(Ok(()), Err)
    }

    fn epoch(&self, partition: PartitionId) -> Epoch {
        self.epochs.get(&partition).copied().unwrap_or(Epoch(0))
    }

    fn may_write(&self, owner: &CrashingOwner) -> Result<()> {
        self.up()?;
        if self.life != owner.life {
            return Err(Error::Closed);
        }
        if self.epoch(owner.partition) != owner.epoch {
            return Err(Error::Fenced);
        }
        Ok(())
    }

    fn rise(&mut self, partition: PartitionId) -> &watch::Sender<CommitNo> {
        self.risen.entry(partition).or_insert_with(|| watch::Sender::new(CommitNo(0)))
    }

    /// Fails what the former owner has queued.
    fn fence(&mut self, partition: PartitionId) {
        let (kept, fenced): (VecDeque<_>, VecDeque<_>) =
            self.queue.drain(..).partition(|queued| queued.partition != partition);
        self.queue = kept;
        for queued in fenced {
            let _ = queued.done.send(Err(Error::Fenced));
        }
    }
}

impl Stores for Crashing {
    fn open_owner(&self, partition: PartitionId, claim: Claim) -> Pending<'_, Arc<dyn Owner>> {
        Pending::ready(self.claim(partition, claim))
    }

    fn destroy(&self, partition: PartitionId) -> Pending<'_, ()> {
        Pending::later(self.remove_all(partition))
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn close(&self) -> Pending<'_, ()> {
        self.sync(usize::MAX);
        self.state().down = Some(Error::Closed);
        Pending::ready(Ok(()))
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let state = self.state();
        vec![("commits", state.durable.0), ("queued_batches", state.queue.len() as u64)]
    }
}

/// See [`Owner`].
struct CrashingOwner {
    stores: Crashing,
    partition: PartitionId,
    epoch: Epoch,
    life: u64,
}

impl Owner for CrashingOwner {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn submit_then(&self, batch: Vec<Op>, then: Option<Then<'_>>) -> Result<Ticket> {
        LIMITS.check(&batch)?;
        self.stores.submit(self, batch, then)
    }

    fn published(&self) -> Arc<dyn View> {
        Arc::new(self.stores.versions.view(self.partition))
    }

    /// Always knows.
    fn lacks(&self, keyspace: Keyspace, key: &[u8]) -> Option<CommitNo> {
        let view = self.stores.versions.view(self.partition);
        view.value(keyspace, key).is_none().then(|| view.commit())
    }

    fn durable(&self) -> watch::Receiver<CommitNo> {
        self.stores.state().rise(self.partition).subscribe()
    }

    fn trim(&self, keyspace: Keyspace, below: Bytes) -> Result<()> {
        self.stores.state().may_write(self)?;
        let deletes = self.stores.versions.deletes(self.partition, keyspace, Some(below));
        if !deletes.is_empty() {
            self.stores.submit(self, deletes, None)?;
        }
        Ok(())
    }
}
