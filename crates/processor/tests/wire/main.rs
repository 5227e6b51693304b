//! The processor against a real server process. Numbers in comments are those of the behaviours
//! that any change feed processor should show (`tests/CASES.md`); threads named are where users met their absence.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod bad_input;
mod delivery;
mod failures;
mod fleet;
mod layout;
mod library;
mod processes;
#[expect(dead_code, reason = "the client's tests do more with it")]
#[path = "../../../client/tests/wire/proxy.rs"]
mod proxy;
mod recipes;
mod start;
mod support;
mod telemetry;
mod terminal;
mod wire_facts;
