//! Where a script's operations leave the process, and their answers arrive.
//!
//! Operations leave when the script's turn is over, or earlier when there are many: the host then
//! works while the script goes on. Answers are always fetched before more is sent, so that the two
//! sides never both wait to be read.

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

/// Operations leave early once they have so many bytes.
const EARLY_BYTES: usize = 32 * 1024;

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
    /// Whether operations have been sent that have not been answered, so that an answer will come.
    awaited: Cell<bool>,
    /// Operations that have no answer yet, those in `outgoing` included.
    unanswered: Cell<usize>,
    arrived: RefCell<VecDeque<Arrived>>,
    arrived_bytes: Cell<usize>,
    pub(crate) log: RefCell<String>,
    /// What `abort` was told, once it was.
    pub(crate) aborted: RefCell<Option<Description>>,
    /// By how much the first line of the script was moved to the right.
    pub(crate) indent: Cell<u32>,
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
            awaited: Cell::new(false),
            unanswered: Cell::new(0),
            arrived: RefCell::default(),
            arrived_bytes: Cell::new(0),
            log: RefCell::default(),
            aborted: RefCell::default(),
            indent: Cell::new(0),
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

    /// Takes an operation, to be sent when the script's turn is over at the latest.
    pub(crate) fn ask(&self, asked: &Asked<'_>) -> Result<Sent, Lost> {
        if asked.text.len() + asked.name.len() > self.limits.message_bytes {
            return Ok(Sent::TooLarge);
        }
        let bytes = self.outgoing.borrow().len() + asked.text.len() + self.arrived_bytes.get();
        let operations = self.unanswered.get() + self.arrived.borrow().len();
        let full =
            operations >= self.limits.pending_operations || bytes > self.limits.pending_bytes;
        if full || !self.accepting.get() || self.accepting_until.get().passed() {
            return Ok(Sent::Refused);
        }
        asked.write(&mut self.outgoing.borrow_mut());
        self.unanswered.set(self.unanswered.get() + 1);
        if self.outgoing.borrow().len() > EARLY_BYTES {
            self.fetch()?;
            self.send()?;
        }
        Ok(Sent::Accepted)
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

    /// Fetches what is still to come of answers, so that the run can be said to be over.
    pub(crate) fn close(&self) -> Result<(), Lost> {
        self.fetch()
    }

    fn exchange(&self) -> Result<(), Lost> {
        if !self.awaited.get() {
            self.send()?;
        }
        self.fetch()?;
        // What is left goes at once: the host works on it while the script looks at these.
        if self.unanswered.get() > 0 { self.send() } else { Ok(()) }
    }

    /// Sends what has been asked for, be it nothing: the host then goes on with what it has.
    fn send(&self) -> Result<(), Lost> {
        let operations = self.outgoing.replace(message::operations());
        self.awaited.set(true);
        self.pipe.send(operations.as_slice(), None).map_err(|_| Lost)
    }

    /// Receives the answers that are on their way.
    fn fetch(&self) -> Result<(), Lost> {
        if !self.awaited.replace(false) {
            return Ok(());
        }
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
