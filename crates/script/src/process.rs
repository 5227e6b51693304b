//! One worker process, as the pool holds it.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::clock::Deadline;
use crate::message;
use crate::pipe::{Broken, Pipe};
use crate::{Error, ErrorKind, Limits, Program, Result};

/// A worker that waits to be told what to do. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pipe: Pipe,
}

impl Process {
    /// Starts a worker and tells it its limits. It makes itself ready while nobody waits for it.
    pub(crate) fn start(program: &Program, limits: &Limits, functions: bool) -> Result<Self> {
        // Nothing of this process is of use to a script: neither its variables, which may hold
        // keys, nor where it was started.
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .env_clear()
            .current_dir("/")
            // An interrupt at the keyboard is for the server, which ends what it has begun first.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| worker(format!("cannot start a script worker: {e}")))?;
        let ends = child.stdout.take().zip(child.stdin.take());
        let (input, output) = ends.ok_or_else(|| worker("a script worker has no pipes"))?;
        let pipe = Pipe::new(input.into(), output.into());
        let pipe = pipe.map_err(|e| worker(format!("cannot speak to a script worker: {e}")))?;
        let process = Self { child, pipe };
        process.send(&message::hello(limits, functions), None)?;
        Ok(process)
    }

    /// Whether it is still there.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Says something.
    pub(crate) fn send(&self, frame: &[u8], deadline: Option<Deadline>) -> Result<()> {
        self.pipe.send(frame, deadline).map_err(explain)
    }

    /// Hears something.
    pub(crate) fn receive(&self, deadline: Deadline) -> Result<Vec<u8>> {
        self.pipe.receive(Some(deadline)).map_err(explain)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A worker holds nothing worth saving. One that is gone already needs only be waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn explain(broken: Broken) -> Error {
    match broken {
        Broken::Late => timeout(),
        Broken::Closed => worker("the script broke off: its worker ended without an answer"),
        Broken::TooLarge => {
            Error::new(ErrorKind::TooLarge, "what goes to or comes from the script is too large")
        }
    }
}

pub(crate) fn timeout() -> Error {
    Error::new(ErrorKind::Timeout, "The script ran longer than it may and was ended.")
}

pub(crate) fn worker(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Worker, message)
}
