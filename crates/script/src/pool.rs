//! The workers, and how calls get one.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Call, Error, ErrorKind, Host, Limits, Outcome, Result, Script, Value};

/// How a worker is started: with a program that then calls [`worker::main`](crate::worker::main).
#[derive(Debug, Clone)]
pub struct Program {
    /// The file; usually this program itself.
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
    /// How many callers may wait for a worker, of either sort.
    pub waiting: usize,
    /// What each script may take.
    pub limits: Limits,
}

/// Worker processes, started ahead, used one call at a time and replaced when they die.
#[derive(Debug)]
pub struct Pool {
    settings: Settings,
}

impl Pool {
    /// Starts the workers.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Runs a script to its end and answers what it asks from the host. Blocks the thread.
    pub fn run(&self, call: &Call<'_>, host: &mut dyn Host) -> Result<Outcome> {
        let _ = (call, host, self.settings.workers);
        Err(Error::new(ErrorKind::Worker, "no worker can be started"))
    }

    /// Whether the text is a function, without running it.
    pub fn check(&self, script: Script<'_>) -> Result<()> {
        let _ = script;
        Err(Error::new(ErrorKind::Worker, "no worker can be started"))
    }

    /// Loads functions for one query. They keep a worker until dropped.
    pub fn functions(&self, scripts: &[Script<'_>]) -> Result<Functions<'_>> {
        let _ = scripts;
        Err(Error::new(ErrorKind::Worker, "no worker can be started"))
    }
}

/// The functions of one query, ready to be called.
#[derive(Debug)]
pub struct Functions<'p> {
    pool: &'p Pool,
}

impl Functions<'_> {
    /// Calls a function, named by its place among the scripts loaded, once for each row.
    ///
    /// `arguments` holds those of all rows, one row after the other, each with equally many. Gives
    /// one value for each row. Many rows at a time are much cheaper than one.
    pub fn call(
        &mut self,
        function: usize,
        rows: usize,
        arguments: &[Value],
    ) -> Result<Vec<Value>> {
        let _ = (function, rows, arguments, self.pool);
        Err(Error::new(ErrorKind::Worker, "no worker can be started"))
    }
}
