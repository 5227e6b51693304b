//! Server-side JavaScript: stored procedures, triggers and user-defined functions.
//!
//! - **Only this crate knows the JavaScript engine.** No type of the engine appears in what it
//!   offers, so that the engine can be changed without anybody noticing.
//! - **A script sees the database through a [`Host`].** The trait speaks of items, queries and
//!   pages; the transaction of the database implements it. A script has no other way out: no
//!   files, no network, no timers.
//! - **Scripts run in worker processes.** A script that loops, exhausts memory or finds a hole in
//!   the engine takes its worker with it and nothing else. The [`Host`] is spoken to over a pipe;
//!   every call, answer, log line and run time has a limit ([`Limits`]).
//! - **A script is one transaction.** What it wrote becomes visible together when
//!   [`Pool::run`] returns an [`Outcome`], and not at all when it returns an [`Error`]. Keeping
//!   that promise is the caller's: it commits what its `Host` gathered, or drops it.
//! - **The code is plain and synchronous.** [`Pool::run`] blocks its thread until the script has
//!   ended, at most a little longer than [`Limits::time`].
//!
//! A program that has a [`Pool`] must call [`worker::main`] when it is started with the arguments
//! of [`Program`]: workers are the same program in another role.

mod call;
mod clock;
mod converse;
mod error;
mod frame;
mod functions;
mod host;
mod lane;
mod limits;
mod message;
mod operation;
mod pipe;
mod pool;
mod process;
mod value;
pub mod worker;

pub use call::{Call, Container, Outcome, Script, Task, Verb};
pub use error::{Error, ErrorKind, Result};
pub use functions::{Answers, Calls, Functions};
pub use host::{Host, Indexing, Item, Page, PageRequest, Query, WriteOptions};
pub use limits::Limits;
pub use pool::{Pool, Program, Settings};
pub use value::Value;
