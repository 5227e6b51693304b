//! The change feed processor: a client library that shares a feed among workers.
//!
//! - **It knows only the wire.** Continuation tokens are opaque, and what works against this
//!   server works against the real service.
//! - **It stands on two traits**, [`Feed`] and [`LeaseStore`], each with an implementation over HTTP
//!   and one in memory. Time comes in through a third, [`Env`]; a simulation holds all three.
//! - **Decisions are pure**: who should have which lease ([`balance`]), what follows a split
//!   ([`cut`]), what a write that got no answer means ([`tenure`]), up to where all is done
//!   ([`window`]), what to do with a failure ([`policy`]). The loops that carry them out are
//!   [`Processor`]'s.
//! - **At least once, in order.** Changes of one partition key reach the handler in their order; a
//!   position is saved only after the handler has returned, so a crash repeats and never skips.
//! - **A lease is held by its etag.** Whoever finds it changed has lost the lease, stops, and
//!   writes no checkpoint. A split range hands its saved position to its children.

mod admin;
pub mod balance;
mod change;
mod control;
pub mod cut;
pub mod env;
pub mod estimate;
mod feed;
mod fence;
mod host;
mod http;
pub mod lease;
pub mod letter;
mod member;
pub mod monitor;
mod names;
mod observer;
mod options;
pub mod policy;
mod position;
mod processor;
mod range;
mod shared;
mod sight;
pub mod span;
mod store;
pub mod tenure;
pub mod window;

pub use admin::{AdminError, Fleet, Status};
pub use change::Change;
pub use control::{Control, Seek};
pub use env::{Env, Later};
pub use feed::{Ask, Feed, FeedError, FeedPage, Lag};
pub use host::{Report, StartError};
pub use http::{ConnectError, HttpStore, Site};
pub use lease::Mode;
pub use member::{Member, State};
pub use monitor::{Event, Monitor};
pub use names::{Names, Sort};
pub use observer::{CloseReason, Context, Factory, Fencing, HandlerError, LeaseLost, Observer};
pub use options::{CheckpointFrequency, Contradiction, Options};
pub use position::Start;
pub use processor::{BuildError, Builder, Processor, Subject};
pub use store::{LeaseStore, Stirred, StoreError, Stored};
