//! The workers, and how calls get one.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::lane::Lane;
use crate::message::{self, Reply};
use crate::{Call, Error, ErrorKind, Functions, Host, Limits, Outcome, Result, Script, converse};

/// How a worker is started: with a program that then calls [`worker::main`](crate::worker::main).
#[derive(Debug, Clone)]
pub struct Program {
    /// The file, with its whole path; usually this program itself.
    pub path: PathBuf,
    /// What tells it to be a worker.
    pub arguments: Vec<OsString>,
}

/// What a pool is made of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How a worker is started.
    pub program: Program,
    /// How many procedures and triggers may run at once.
    pub workers: usize,
    /// How many queries may have functions loaded at once. Apart from the above, since a procedure
    /// may query and the query call functions.
    pub function_workers: usize,
    /// How many of either are started at once; the others when they are needed.
    pub ahead: usize,
    /// How many callers may wait for a worker, of either sort.
    pub waiting: usize,
    /// What each script may take.
    pub limits: Limits,
}

/// Worker processes, started ahead, used one call at a time and replaced when they die.
#[derive(Debug)]
pub struct Pool {
    limits: Limits,
    runs: Lane,
    functions: Lane,
}

impl Pool {
    /// Starts the workers.
    pub fn new(settings: &Settings) -> Self {
        Self {
            limits: settings.limits,
            runs: Lane::new(settings, settings.workers, false),
            functions: Lane::new(settings, settings.function_workers, true),
        }
    }

    /// Runs a script to its end and answers what it asks from the host. Blocks the thread.
    pub fn run(&self, call: &Call<'_>, host: &mut dyn Host) -> Result<Outcome> {
        fits(&self.limits, call.size())?;
        converse::run(&mut self.runs.take()?, &self.limits, call, host)
    }

    /// Whether the text is a function, without calling it. The message of the error says where it
    /// is not.
    pub fn check(&self, script: Script<'_>) -> Result<()> {
        fits(&self.limits, script.source.len())?;
        let mut taken = self.runs.take()?;
        let deadline = converse::deadline(&self.limits);
        let frame = message::check(script.id, script.source);
        let heard = converse::ask(&mut taken, &frame, deadline)?;
        match Reply::read(&heard) {
            Ok(Reply::Done { .. }) => {
                taken.rest();
                Ok(())
            }
            Ok(Reply::Failed(error)) => Err(converse::failed(&mut taken, error)),
            _ => Err(converse::confused(&mut taken)),
        }
    }

    /// Loads functions for one query. They keep a worker until dropped.
    pub fn functions(&self, scripts: &[Script<'_>]) -> Result<Functions<'_>> {
        fits(&self.limits, scripts.iter().map(|script| script.source.len()).sum())?;
        Functions::load(self.functions.take()?, self.limits, scripts)
    }
}

/// Refuses what is too large to be sent to a worker.
pub(crate) fn fits(limits: &Limits, bytes: usize) -> Result<()> {
    if bytes > limits.message_bytes {
        let message = format!(
            "The script and what it is given have {bytes} bytes, and may have {}.",
            limits.message_bytes
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}
