//! One lease at work: from the moment it is taken until it is given away.

mod batch;
mod child;
mod end;
mod ghost;
mod join;
mod obey;
mod read;
mod redrive;
mod save;
mod split;
mod take;
mod worker;
mod write;

use tokio::sync::oneshot;

use crate::lease::{Lease, Owner};
use crate::observer::{CloseReason, LeaseLost};
use crate::tenure::Tenure;

pub(crate) use join::join;
pub(crate) use take::{Taken, pinned, take};
pub(crate) use worker::Worker;
pub(crate) use write::{NotWritten, make};

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
    Keep(CloseReason),
    /// Work up to this position exactly, save it, and stay the owner.
    Until(Goal),
}

/// A position to stop at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Goal {
    /// The number of the last commit before it.
    pub commit: u64,
    /// The etag after that.
    pub etag: String,
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
    /// The tenure, with the lease as it was last stored by us.
    pub tenure: Tenure,
    /// The epoch of the tenure that has ended.
    pub epoch: u64,
    pub reason: CloseReason,
    /// Leases made in its place, already ours.
    pub children: Vec<Lease>,
    /// Whether the lease was saved and is still ours.
    pub kept: bool,
    /// Whether the lease document is gone.
    pub removed: bool,
    /// What to tell whoever started the processor, if it has to stop.
    pub fatal: Option<String>,
}
