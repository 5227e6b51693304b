//! The words of the database: JSON text, partition keys, resource ids, tokens, policies, faults.
//!
//! Pure values and functions. Nothing here does I/O, waits, or reads a clock; what can be
//! wrong with an input is decided here once, so that the crates above can trust the types.

pub mod binary;
pub mod charge;
pub mod digits;
pub mod epk;
pub mod fault;
pub mod item;
pub mod json;
pub mod limits;
pub mod partition_key;
pub mod patch;
pub mod policy;
pub mod rid;
pub mod throughput;
pub mod token;

pub use fault::{Error, Fault, Result};
