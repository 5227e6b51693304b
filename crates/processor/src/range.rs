//! One lease at work: from the moment it is taken until it is given away.

mod batch;
mod end;
mod read;
mod redrive;
mod save;
mod take;
mod worker;
mod write;

use tokio::sync::oneshot;

use crate::lease::{Lease, Owner};
use crate::observer::{CloseReason, LeaseLost};

pub(crate) use take::{Taken, pinned, take};
pub(crate) use worker::Worker;
pub(crate) use write::make;

/// What a host tells the worker of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Work.
    Work,
    /// Call no handler, keep the lease.
    Hold,
    /// Finish what runs, then hand the lease over.
    HandOver(Owner),
    /// Finish what runs, then let go of the lease.
    Release(CloseReason),
    /// Finish what runs and save the position, but stay the owner.
    Keep,
}

/// Whether handlers may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    Held,
    /// Nothing new begins and nothing is tried again.
    Draining,
}

/// What tasks of a range tell its worker.
#[derive(Debug)]
pub(crate) enum Note {
    /// A lane has finished with a batch, one way or another.
    Finished { lane: usize, sequence: u64, outcome: Outcome },
    /// A handler has acknowledged a page itself.
    Acknowledged { sequence: u64, reply: oneshot::Sender<Result<(), LeaseLost>> },
}

/// How a batch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every change was handled, or set aside. These keys are parked from now on.
    Done { parked: Vec<String> },
    /// It was cut short, by draining or by cancelling.
    Unfinished,
    /// The policy is to stop.
    Stop(String),
}

/// How a worker ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The lease as it was last stored by us.
    pub lease: Lease,
    /// The epoch of the tenure that has ended.
    pub epoch: u64,
    pub reason: CloseReason,
    /// Leases made in its place, already ours.
    pub children: Vec<Lease>,
    /// Whether the lease document is gone.
    pub removed: bool,
    /// What to tell whoever started the processor, if it has to stop.
    pub fatal: Option<String>,
}
