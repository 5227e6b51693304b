//! Why a script did not end well.

use std::fmt;

use model::Fault;

/// Result of anything a script does.
pub type Result<T> = std::result::Result<T, Error>;

/// A run that failed: whatever it did through its host must not stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// For the person who wrote the script: what happened, and where.
    pub message: String,
    /// What was logged until then.
    pub log: String,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is not a function.
    Compile,
    /// It threw, or called `abort`; with the number of the thrown error, if it has one.
    Thrown(Option<u32>),
    /// It ran longer than it may.
    Timeout,
    /// It took more memory than it may.
    Memory,
    /// Its output, or what it was sent, is larger than allowed.
    TooLarge,
    /// All workers are taken, and too many callers wait for one.
    Busy,
    /// No worker could be started, or it broke off in a way that has no explanation.
    Worker,
}

/// Sub-status of a script that does not compile.
const COMPILE_SUBSTATUS: u32 = 0xFFFF;

impl Error {
    /// A failure of the kind given, with nothing logged.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), log: String::new() }
    }

    /// As what the request that ran the script is refused.
    pub fn fault(&self) -> Fault {
        match self.kind {
            ErrorKind::Compile | ErrorKind::Thrown(_) | ErrorKind::Memory => Fault::BadRequest,
            ErrorKind::Timeout => Fault::RequestTimeout,
            ErrorKind::TooLarge => Fault::TooLarge,
            ErrorKind::Busy => Fault::TooManyRequests,
            ErrorKind::Worker => Fault::Internal,
        }
    }

    /// The sub-status of that refusal: the number of the error that was thrown, where it has one.
    pub fn substatus(&self) -> u32 {
        match self.kind {
            ErrorKind::Compile => COMPILE_SUBSTATUS,
            ErrorKind::Thrown(number) => number.unwrap_or(0),
            _ => self.fault().substatus(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
