//! The user-defined functions of one query.

use crate::lane::Taken;
use crate::message::{self, Reply};
use crate::{Limits, Result, Script, Value, converse, pool};

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
    /// one value for each row. Many rows at a time are much cheaper than one, and have the time of
    /// one run together.
    pub fn call(
        &mut self,
        function: usize,
        rows: usize,
        arguments: &[Value],
    ) -> Result<Vec<Value>> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        let (Ok(function), Ok(count)) = (u32::try_from(function), u32::try_from(rows)) else {
            return Err(crate::process::worker("there are not that many functions or rows"));
        };
        let frame = message::apply(function, count, arguments);
        pool::fits(&self.limits, frame.len())?;
        let deadline = converse::deadline(&self.limits);
        let heard = converse::exchange(&mut self.taken, &frame, deadline)?;
        match Reply::read(&heard) {
            Ok(Reply::Values(mut values)) => match message::read_values(&mut values, rows) {
                Ok(values) if values.len() == rows => Ok(values),
                _ => Err(converse::confused(&mut self.taken)),
            },
            reply => Err(self.failed(reply)),
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

impl Drop for Functions<'_> {
    fn drop(&mut self) {
        let unload = message::unload();
        let told = self.taken.process().and_then(|process| process.send(&unload, None));
        if told.is_ok() {
            self.taken.rest();
        }
    }
}
