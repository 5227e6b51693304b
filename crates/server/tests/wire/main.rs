//! The server over real sockets: what SDKs send, what nobody should send, and both at once.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod ask;
mod auth;
mod bad_input;
mod changes;
mod resources;
mod support;
mod transport;
