//! Where a script's operations leave the process, and their answers arrive.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::Limits;
use crate::clock::Deadline;
use crate::frame::Encoder;
use crate::message::{self, Answer, Request};
use crate::operation::Asked;
use crate::pipe::Pipe;
use crate::worker::failure::Description;

/// Of a script's time, the part in which operations are accepted. The rest is for coming to an end.
const ACCEPTING: f64 = 0.8;

/// What becomes of an operation that a script asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It will not be done.
    Refused = 0,
    /// It will be answered.
    Accepted = 1,
    /// It is larger than any operation may be.
    TooLarge = 2,
}

/// An answer that the script has not seen yet.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) status: u32,
    pub(crate) text: String,
    pub(crate) continuation: Option<String>,
}

/// The pool is gone, or not to be understood.
#[derive(Debug)]
pub(crate) struct Lost;

/// One end of the pipe, and everything about the run that is not the engine's.
#[derive(Debug)]
pub(crate) struct Port {
    pipe: Rc<Pipe>,
    pub(crate) limits: Limits,
    deadline: Cell<Deadline>,
    accepting_until: Cell<Deadline>,
    accepting: Cell<bool>,
    outgoing: RefCell<Encoder>,
    /// Operations that have no answer yet, those in `outgoing` included.
    unanswered: Cell<usize>,
    arrived: RefCell<VecDeque<Arrived>>,
    arrived_bytes: Cell<usize>,
    pub(crate) log: RefCell<String>,
    /// What `abort` was told, once it was.
    pub(crate) aborted: RefCell<Option<Description>>,
    /// Whether the engine was told to stop.
    pub(crate) stopped: Cell<bool>,
    /// Whether memory ran out where the script could not notice.
    pub(crate) exhausted: Cell<bool>,
}

impl Port {
    pub(crate) fn new(pipe: Rc<Pipe>, limits: Limits) -> Self {
        Self {
            pipe,
            limits,
            deadline: Cell::new(Deadline::after(limits.time)),
            accepting_until: Cell::new(Deadline::after(limits.time.mul_f64(ACCEPTING))),
            accepting: Cell::new(true),
            outgoing: RefCell::new(message::operations()),
            unanswered: Cell::new(0),
            arrived: RefCell::default(),
            arrived_bytes: Cell::new(0),
            log: RefCell::default(),
            aborted: RefCell::default(),
            stopped: Cell::new(false),
            exhausted: Cell::new(false),
        }
    }

    /// Starts the clock.
    pub(crate) fn begin(&self) {
        self.deadline.set(Deadline::after(self.limits.time));
        self.accepting_until.set(Deadline::after(self.limits.time.mul_f64(ACCEPTING)));
    }

    /// Whether the time is up.
    pub(crate) fn late(&self) -> bool {
        self.deadline.get().passed()
    }

    /// Whether the engine should stop now: its time is up, or the script asked for it.
    pub(crate) fn should_stop(&self) -> bool {
        let stop = self.late() || self.aborted.borrow().is_some();
        if stop {
            self.stopped.set(true);
        }
        stop
    }

    /// Takes an operation, to be sent when the script's turn is over.
    pub(crate) fn ask(&self, asked: &Asked<'_>) -> Sent {
        let mut outgoing = self.outgoing.borrow_mut();
        if asked.text.len() + asked.name.len() > self.limits.message_bytes {
            return Sent::TooLarge;
        }
        let bytes = outgoing.len() + asked.text.len() + self.arrived_bytes.get();
        let full = self.unanswered.get() + self.arrived.borrow().len()
            >= self.limits.pending_operations
            || bytes > self.limits.pending_bytes;
        if full || !self.accepting.get() || self.accepting_until.get().passed() {
            return Sent::Refused;
        }
        asked.write(&mut outgoing);
        self.unanswered.set(self.unanswered.get() + 1);
        Sent::Accepted
    }

    /// The next answer, which is waited for. `None` when all operations have been answered.
    pub(crate) fn next(&self) -> Result<Option<Arrived>, Lost> {
        loop {
            if let Some(arrived) = self.arrived.borrow_mut().pop_front() {
                self.arrived_bytes.set(self.arrived_bytes.get() - arrived.text.len());
                return Ok(Some(arrived));
            }
            if self.unanswered.get() == 0 {
                return Ok(None);
            }
            self.exchange()?;
        }
    }

    /// The answer to the operation asked for last. Those before keep theirs for later.
    pub(crate) fn last(&self) -> Result<Arrived, Lost> {
        while self.unanswered.get() > 0 {
            self.exchange()?;
        }
        let arrived = self.arrived.borrow_mut().pop_back().ok_or(Lost)?;
        self.arrived_bytes.set(self.arrived_bytes.get() - arrived.text.len());
        Ok(arrived)
    }

    fn exchange(&self) -> Result<(), Lost> {
        let operations = self.outgoing.replace(message::operations());
        self.pipe.send(operations.as_slice(), None).map_err(|_| Lost)?;
        let frame = self.pipe.receive(None).map_err(|_| Lost)?;
        let Ok(Request::Answers { accepting, mut answers }) = Request::read(&frame) else {
            return Err(Lost);
        };
        self.accepting.set(accepting);
        while !answers.is_empty() {
            let answer = Answer::read(&mut answers).map_err(|_| Lost)?;
            self.unanswered.set(self.unanswered.get().checked_sub(1).ok_or(Lost)?);
            self.arrived_bytes.set(self.arrived_bytes.get() + answer.text.len());
            self.arrived.borrow_mut().push_back(Arrived {
                status: answer.status,
                text: answer.text.to_owned(),
                continuation: answer.continuation.map(str::to_owned),
            });
        }
        Ok(())
    }
}
