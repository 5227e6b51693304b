//! The client against a real server process, and against a proxy that misbehaves.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![expect(clippy::duplicate_mod, reason = "examples share files, and each is whole in itself")]

mod changes;
mod faults;
mod items;
mod layout;
mod lists;
mod proxy;
mod recipes;
mod regions;
mod storm;
mod support;
mod tls;
mod waiting;
