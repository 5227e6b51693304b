//! The gate of a partition: what its writers touch while its rows are copied, and where they wait
//! while the rows change hands.
//!
//! Invariants:
//! - While a [`Hold`] lasts, every key that a writer submits is noted before it is submitted.
//! - Nothing is submitted by a writer while the gate is closed, and never again once it is gone.
//! - A gate is gone only after the container shows the new owners of the keys, so whoever finds it
//!   so can go to them at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use kv::{Keyspace, Op, Owner, Ticket, View};
use model::{Fault, Result};
use tokio::sync::mpsc;

use crate::api::storage;
use crate::commit::Place;
use crate::container::range_gone;
use crate::partition::Partition;

/// What a writer finds at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// It may go on.
    #[default]
    Open,
    /// It waits: the rows are changing hands.
    Closed,
    /// Others own the keys now.
    Gone,
}

/// The gate, behind the writer's lock.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: State,
    /// What was touched since somebody last asked; `None` when nobody does.
    touched: Option<BTreeSet<Place>>,
}

impl Gate {
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Notes what a batch touches.
    pub fn note(&mut self, batch: &[Op]) {
        if let Some(touched) = &mut self.touched {
            touched.extend(batch.iter().filter_map(copied));
        }
    }
}

/// The place of an operation, where it is one that is copied: blocks and what is in
/// `Meta` are made anew.
fn copied(op: &Op) -> Option<Place> {
    let (Op::Put(keyspace, key, _) | Op::Delete(keyspace, key) | Op::DeleteOnce(keyspace, key)) =
        op;
    let made_anew = match keyspace {
        Keyspace::Meta => true,
        Keyspace::Index => matches!(key.first(), Some(b'b' | b'v')),
        Keyspace::Docs | Keyspace::Feed | Keyspace::Log | Keyspace::Terms => false,
    };
    (!made_anew).then(|| (*keyspace, key.clone()))
}

impl Partition {
    /// Waits until the gate is open; fails when it is gone.
    pub(crate) async fn pass_gate(&self) -> Result<()> {
        match self.gate.wait_for(|state| state != State::Closed).await {
            State::Open => Ok(()),
            _ => Err(range_gone(&self.range)),
        }
    }

    /// How many keys were touched since they were last taken.
    pub(crate) fn touched(&self) -> usize {
        self.writer().gate.touched.as_ref().map_or(0, BTreeSet::len)
    }

    /// What was touched since this was last asked, with a view that has all of it.
    pub(crate) async fn take_touched(&self) -> Result<(BTreeSet<Place>, Arc<dyn View>)> {
        let (touched, ticket) = loop {
            match self.try_take() {
                Err(error) if error.fault == Fault::TooManyRequests => breathe().await,
                taken => break taken?,
            }
        };
        ticket.durable().await.map_err(storage)?;
        Ok((touched, self.owner.published()))
    }

    fn try_take(&self) -> Result<(BTreeSet<Place>, Ticket)> {
        let mut writer = self.writer();
        // What is noted was submitted before the mark, under this lock.
        let ticket = self.mark_under(&writer)?;
        let touched = writer.gate.touched.replace(BTreeSet::new()).unwrap_or_default();
        Ok((touched, ticket))
    }

    fn set_gate(&self, state: State, touched: Option<BTreeSet<Place>>) {
        self.writer().gate = Gate { state, touched };
        self.gate.set(state);
    }

    fn close_gate(&self) {
        self.writer().gate.state = State::Closed;
        self.gate.set(State::Closed);
    }
}

/// Submits, however much is waiting to be written.
pub(crate) async fn submit(owner: &dyn Owner, batch: Vec<Op>) -> Result<Ticket> {
    loop {
        match owner.submit(batch.clone()) {
            Err(kv::Error::Busy) => breathe().await,
            submitted => return submitted.map_err(storage),
        }
    }
}

/// Lets the storage write for a moment. Copying is in no hurry, and nothing tells when there is room.
async fn breathe() {
    const MOMENT: std::time::Duration = std::time::Duration::from_millis(5);
    // Fails only when the runtime stops, and then nobody waits any more.
    let _ = tokio::task::spawn_blocking(|| std::thread::sleep(MOMENT)).await;
}

/// Partitions whose rows are being copied. Dropped before it is sealed, it leaves them as they were.
pub(crate) struct Hold {
    partitions: Vec<Arc<Partition>>,
    sealed: bool,
}

impl Hold {
    /// Begins to note what is touched.
    pub fn new(partitions: &[Arc<Partition>]) -> Self {
        for partition in partitions {
            partition.set_gate(State::Open, Some(BTreeSet::new()));
        }
        Self { partitions: partitions.to_vec(), sealed: false }
    }

    /// Makes writers wait.
    pub fn close(&self) {
        self.partitions.iter().for_each(|partition| partition.close_gate());
    }

    /// From here on it must be said how it ended: while nobody knows which partitions own the
    /// keys, a writer that is let in could write where nobody will look.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// It came to nothing: writers go on.
    pub fn reopen(mut self) {
        self.sealed = false;
    }

    /// Sends writers to the new owners.
    pub fn gone(self) {
        self.partitions.iter().for_each(|partition| partition.set_gate(State::Gone, None));
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.sealed {
            self.partitions.iter().for_each(|partition| partition.set_gate(State::Open, None));
        }
    }
}

/// Has the rows of a partition removed when it is dropped with the partition.
pub(crate) struct Remover {
    pub number: u32,
    pub sender: mpsc::UnboundedSender<u32>,
}

impl Drop for Remover {
    fn drop(&mut self) {
        // Fails only when stopping; it is on record, so the next start removes them.
        let _ = self.sender.send(self.number);
    }
}
