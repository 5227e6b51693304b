//! The JSON shapes of the protocol. They are promises to clients, and live nowhere else.

pub mod account;
pub mod batch;
pub mod changes;
pub mod error;
pub mod query;
pub mod range;
pub mod resource;
