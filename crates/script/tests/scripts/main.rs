//! Scripts in real worker processes, against a host in memory.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

mod functions;
mod hostile;
mod pool;
mod procedures;
mod queries;
mod support;
mod triggers;
