//! A client of the wire protocol that owes nothing to the server it judges.
//!
//! It has its own JSON, HTTP/1.1 and signatures, and knows none of the product's crates:
//! what it agrees on with the server is what the protocol says, not what a shared type says.

pub mod both;
pub mod case;
pub mod crash;
pub mod date;
pub mod fan_out;
pub mod http;
mod hybrid;
pub mod invariant;
pub mod json;
pub mod names;
pub mod order;
pub mod queries;
pub mod random;
pub mod render;
pub mod run;
pub mod server;
pub mod sign;
pub mod wire;

/// The key that the emulator made known to everyone, and the server's default on loopback.
pub const WELL_KNOWN_KEY: &str = concat!(
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqob",
    "D4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
);
