//! The user-defined functions of one query.

use crate::lane::Taken;
use crate::message::{self, Batch, Reply};
use crate::process::worker;
use crate::{Error, ErrorKind, Limits, Result, Script, Value, converse, pool};

/// Rows are sent once their arguments have so many bytes.
const BATCH_BYTES: usize = 256 * 1024;

/// Functions, ready to be called many rows at a time.
#[derive(Debug)]
pub struct Functions<'p> {
    taken: Taken<'p>,
    limits: Limits,
}

impl<'p> Functions<'p> {
    pub(crate) fn load(taken: Taken<'p>, limits: Limits, scripts: &[Script<'_>]) -> Result<Self> {
        let mut functions = Self { taken, limits };
        let deadline = converse::deadline(&limits);
        let heard = converse::ask(&mut functions.taken, &message::load(scripts), deadline)?;
        match Reply::read(&heard) {
            Ok(Reply::Done { .. }) => Ok(functions),
            reply => Err(functions.failed(reply)),
        }
    }

    /// Calls a function, named by its place among the scripts loaded, once for each row.
    ///
    /// `arguments` holds those of all rows, one row after the other, each with equally many. Gives
    /// one value for each row. Many rows at a time are much cheaper than one; those that travel
    /// together have the time of one run together.
    pub fn call(
        &mut self,
        function: usize,
        rows: usize,
        arguments: &[Value],
    ) -> Result<Vec<Value>> {
        let function = u32::try_from(function).map_err(|_| worker("no such function"))?;
        let width = arguments.len() / rows.max(1);
        let mut results = Results { values: Vec::new(), bytes: 0 };
        let mut frame = Batch::new(function);
        for row in 0..rows {
            frame.add(arguments.get(row * width..(row + 1) * width).unwrap_or_default());
            if frame.bytes() > BATCH_BYTES || row + 1 == rows {
                let batch = std::mem::replace(&mut frame, Batch::new(function));
                self.exchange(&batch, &mut results)?;
            }
        }
        Ok(results.values)
    }

    /// Has one batch done. The worker answers in pieces, so that neither side gathers too much.
    fn exchange(&mut self, batch: &Batch, results: &mut Results) -> Result<()> {
        pool::fits(&self.limits, batch.bytes())?;
        let (frame, rows) = batch.finish();
        let expected = results.values.len() + rows;
        let deadline = converse::deadline(&self.limits);
        let mut heard = converse::exchange(&mut self.taken, &frame, deadline)?;
        loop {
            let Ok(Reply::Values(mut values)) = Reply::read(&heard) else {
                return Err(self.failed(Reply::read(&heard)));
            };
            results.bytes += values.len();
            let left = expected - results.values.len();
            match message::read_values(&mut values, left) {
                Ok(values) if !values.is_empty() => results.values.extend(values),
                _ => return Err(converse::confused(&mut self.taken)),
            }
            if results.bytes > self.limits.pending_bytes {
                self.taken.discard();
                let message = "The values of a function are larger than they may be together.";
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            if results.values.len() == expected {
                return Ok(());
            }
            heard = converse::hear(&mut self.taken, deadline)?;
        }
    }

    fn failed(
        &mut self,
        reply: std::result::Result<Reply<'_>, crate::frame::Malformed>,
    ) -> crate::Error {
        match reply {
            Ok(Reply::Failed(error)) => converse::failed(&mut self.taken, error),
            _ => converse::confused(&mut self.taken),
        }
    }
}

/// What came back so far.
struct Results {
    values: Vec<Value>,
    bytes: usize,
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
