//! The client against a real server process, and against a proxy that misbehaves.

#![allow(clippy::unwrap_used)]

mod changes;
mod faults;
mod items;
mod layout;
mod lists;
mod proxy;
mod regions;
mod support;
mod tls;
mod waiting;
