//! The user-defined functions of one query.

use crate::frame::{Encoder, Malformed};
use crate::lane::Taken;
use crate::message::{self, Reply};
use crate::{Error, ErrorKind, Limits, Result, Script, Value, converse, pool};

/// Functions, ready to be called many times at once.
#[derive(Debug)]
pub struct Functions<'p> {
    taken: Taken<'p>,
    limits: Limits,
    /// Whether the worker still has them.
    loaded: bool,
}

/// Calls that travel together. They are kept as they travel, so that the bytes of a call, which say
/// all about it, can also be what it is remembered by.
#[derive(Debug, Default)]
pub struct Calls {
    bytes: Encoder,
    count: u32,
}

impl Calls {
    /// Writes a call of a function, named by its place among the scripts loaded, in the bytes by
    /// which it travels.
    pub fn encode(out: &mut Vec<u8>, function: usize, arguments: &[Value<'_>]) {
        let mut to = Encoder::with(std::mem::take(out));
        message::invocation(&mut to, short(function), short(arguments.len()));
        for argument in arguments {
            message::value(&mut to, argument);
        }
        *out = to.take();
    }

    /// Adds a call that [`Calls::encode`] wrote.
    pub fn add(&mut self, encoded: &[u8]) {
        self.bytes.raw(encoded);
        self.count = self.count.saturating_add(1);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bytes they have together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// There are never so many functions or arguments; a number that no function has is refused.
fn short(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What came of calls.
#[derive(Debug, Default)]
pub struct Answers {
    /// The values of the first calls, in their order: of all of them, unless one failed or took so
    /// long that the rest is left for another time.
    pub values: Vec<Value<'static>>,
    /// Why the call after those gave no value.
    pub failed: Option<Error>,
    bytes: usize,
}

impl<'p> Functions<'p> {
    pub(crate) fn load(taken: Taken<'p>, limits: Limits, scripts: &[Script<'_>]) -> Result<Self> {
        let mut functions = Self { taken, limits, loaded: true };
        let deadline = converse::deadline(&limits);
        let heard = converse::ask(&mut functions.taken, &message::load(scripts), deadline)?;
        match Reply::read(&heard) {
            Ok(Reply::Done { .. }) => Ok(functions),
            reply => Err(functions.failed(reply)),
        }
    }

    /// Makes calls, in their order. Many at a time are much cheaper than one.
    ///
    /// Fails where it cannot be said which call is to blame: the worker is gone, or never got them.
    pub fn call(&mut self, calls: &Calls) -> Result<Answers> {
        if calls.is_empty() {
            return Ok(Answers::default());
        }
        pool::fits(&self.limits, calls.bytes())?;
        let answered = self.exchange(calls);
        let failed = answered.as_ref().map_or_else(Some, |answers| answers.failed.as_ref());
        let broken = answered.is_err() || failed.is_some_and(converse::ends_worker);
        self.loaded &= !broken;
        answered
    }

    fn exchange(&mut self, calls: &Calls) -> Result<Answers> {
        let mut answers = Answers::default();
        let mut frame = message::apply(calls.count, calls.bytes());
        frame.append(&calls.bytes);
        let deadline = converse::deadline(&self.limits);
        let mut heard = converse::exchange(&mut self.taken, frame.as_slice(), deadline)?;
        loop {
            let values = match Reply::read(&heard) {
                Ok(Reply::Values(values)) => values,
                Ok(Reply::Failed(error)) if answers.values.len() < calls.len() => {
                    answers.failed = Some(converse::failed(&mut self.taken, error));
                    return Ok(answers);
                }
                reply => return Err(self.failed(reply)),
            };
            if values.is_empty() {
                return Ok(answers);
            }
            self.take(values, calls.len(), &mut answers)?;
            if answers.values.len() == calls.len() {
                return Ok(answers);
            }
            heard = converse::hear(&mut self.taken, deadline)?;
        }
    }

    /// Takes one piece of the values: the worker answers so, that neither side gathers too much.
    fn take(
        &mut self,
        mut values: crate::frame::Decoder<'_>,
        expected: usize,
        answers: &mut Answers,
    ) -> Result<()> {
        answers.bytes += values.len();
        let left = expected - answers.values.len();
        if message::read_values(&mut values, left, &mut answers.values).is_err() {
            return Err(converse::confused(&mut self.taken));
        }
        if answers.bytes > self.limits.pending_bytes {
            self.taken.discard();
            let message = "The values of a function are larger than they may be together.";
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(())
    }

    fn failed(&mut self, reply: std::result::Result<Reply<'_>, Malformed>) -> crate::Error {
        match reply {
            Ok(Reply::Failed(error)) => converse::failed(&mut self.taken, error),
            _ => converse::confused(&mut self.taken),
        }
    }

    /// Whether they can still be called: a worker whose function broke a limit is gone.
    pub fn are_loaded(&self) -> bool {
        self.loaded
    }
}

impl Drop for Functions<'_> {
    fn drop(&mut self) {
        let unload = message::unload();
        let told = self.taken.process().and_then(|process| process.send(&unload, None));
        if told.is_ok() {
            self.taken.rest();
        }
    }
}
