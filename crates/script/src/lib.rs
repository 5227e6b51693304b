//! Server-side JavaScript: stored procedures, triggers and user-defined functions.
//!
//! Nothing runs yet; this is the place where it will. What is settled:
//!
//! - **Only this crate knows the JavaScript engine.** No type of the engine appears in what it
//!   offers, so that the engine can be changed without anybody noticing.
//! - **A script sees the database through a `Host`.** The trait is defined here, in words of
//!   items, queries and results; the transaction of the database implements it. A script has no
//!   other way out: no files, no network, no clock of its own.
//! - **Scripts run in worker processes.** A script that loops, exhausts memory or finds a hole in
//!   the engine takes its worker with it and nothing else. The `Host` is spoken to over a pipe;
//!   every call, answer, log line and run time has a limit.
//! - **A script is one transaction.** What it wrote becomes visible together when it ends, and
//!   not at all when it throws, is aborted, or its worker dies. It runs inside one logical
//!   partition.
//! - **The code is plain and synchronous.** Waiting for a worker is the caller's affair.
