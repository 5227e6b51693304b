//! The processor against a real server process. Numbers in comments are those of the behaviours
//! that any change feed processor should show; threads named are where users met their absence.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod bad_input;
mod delivery;
mod failures;
mod fleet;
mod layout;
mod processes;
mod recipes;
mod start;
mod support;
