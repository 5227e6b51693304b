//! Workers of one sort, and the callers who wait for one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::clock::Deadline;
use crate::process::{Process, worker};
use crate::{Error, ErrorKind, Program, Result, Settings};

/// Hands out workers, one caller each, and never more than its size at once.
#[derive(Debug)]
pub(crate) struct Lane {
    program: Program,
    limits: crate::Limits,
    functions: bool,
    size: usize,
    waiting: usize,
    state: Mutex<State>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Process>,
    /// Workers that a caller has.
    taken: usize,
    /// Callers that want one.
    waiting: usize,
}

impl Lane {
    /// A lane with its first workers already started. A worker that cannot be started now is
    /// tried again when it is needed.
    pub(crate) fn new(settings: &Settings, size: usize, functions: bool) -> Self {
        let lane = Self {
            program: settings.program.clone(),
            limits: settings.limits,
            functions,
            size: size.max(1),
            waiting: settings.waiting,
            state: Mutex::default(),
            free: Condvar::new(),
        };
        let ahead = settings.ahead.min(lane.size);
        lane.state().idle = (0..ahead).filter_map(|_| lane.start().ok()).collect();
        lane
    }

    fn start(&self) -> Result<Process> {
        Process::start(&self.program, &self.limits, self.functions)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is done under the lock that could leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker, as soon as there is one.
    pub(crate) fn take(&self) -> Result<Taken<'_>> {
        let mut state = self.state();
        if state.taken >= self.size {
            if state.waiting >= self.waiting {
                return Err(busy());
            }
            state.waiting += 1;
            state = self.wait(state);
            state.waiting -= 1;
            if state.taken >= self.size {
                return Err(busy());
            }
        }
        state.taken += 1;
        let idle = state.idle.pop();
        drop(state);
        let mut taken = Taken { lane: self, process: idle, at_rest: true };
        if !taken.process.as_mut().is_some_and(Process::is_alive) {
            taken.process = Some(self.start()?);
        }
        Ok(taken)
    }

    /// Waits for a worker no longer than a script could keep it.
    fn wait<'l>(&'l self, mut state: MutexGuard<'l, State>) -> MutexGuard<'l, State> {
        let deadline = Deadline::after(self.limits.time);
        while state.taken >= self.size && !deadline.passed() {
            let waited = self.free.wait_timeout(state, deadline.left());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

fn busy() -> Error {
    Error::new(ErrorKind::Busy, "all script workers are taken; try again")
}

/// A worker that one caller has.
#[derive(Debug)]
pub(crate) struct Taken<'l> {
    lane: &'l Lane,
    process: Option<Process>,
    /// Whether the worker waits for a request. One that is left in the middle of something, by a
    /// host that panics say, is of no use to the next caller.
    at_rest: bool,
}

impl Taken<'_> {
    /// The worker, for a word that begins or goes on with something.
    pub(crate) fn process(&mut self) -> Result<&Process> {
        self.at_rest = false;
        self.process.as_ref().ok_or_else(|| worker("the script worker has ended"))
    }

    /// Says that all is over which was begun.
    pub(crate) fn rest(&mut self) {
        self.at_rest = true;
    }

    /// Ends the worker and starts another, so that it is ready when the next caller comes.
    pub(crate) fn discard(&mut self) {
        self.process = None;
        self.process = self.lane.start().ok();
        self.at_rest = true;
    }

    /// Takes a new worker in the place of one that turned out to be dead.
    pub(crate) fn renew(&mut self) -> Result<&Process> {
        self.process = None;
        self.process = Some(self.lane.start()?);
        self.process()
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.at_rest {
            self.discard();
        }
        let mut state = self.lane.state();
        state.taken -= 1;
        state.idle.extend(self.process.take());
        drop(state);
        self.lane.free.notify_one();
    }
}
