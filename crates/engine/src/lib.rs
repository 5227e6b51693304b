//! The database: an account of databases, containers, partitions and items.
//!
//! [`Engine`] is the only door. Resources that people administer (databases, containers,
//! users, permissions, throughput, scripts) go through [`Engine::create`] and its kin, one
//! path for all kinds; items go through a [`Container`] to the partition that owns their
//! key, whose single writer hands out LSNs. Errors are [`model::Error`].
//!
//! Invariants:
//! - A write is answered after its batch is durable, and no reader sees it before.
//! - Item, index rows and change row are one batch under one LSN.
//! - Readers never wait for writers: they read the view that was published last.

mod api;
mod batch;
mod cache;
mod catalog;
mod changes;
mod commit;
mod container;
mod cut;
mod doomed;
mod env;
mod feed;
mod functions;
mod gate;
mod hints;
mod history;
mod housekeep;
mod index;
mod item;
mod keys;
mod kind;
mod listen;
mod offer;
mod partition;
mod patch;
mod pieces;
mod places;
mod predicate;
mod procedure;
mod rate;
mod remove;
mod select;
mod shelf;
mod signal;
mod source;
mod texts;
mod transaction;
mod transfer;
mod turns;
mod version;
mod watch;

pub use api::{
    Answer, At, Changed, ChangesMark, ChangesMode, ChangesPage, ChangesRead, ChangesStart,
    Conditions, CreateOptions, Created, Detail, ItemPage, ItemWrite, Link, Migration, Operation,
    Page, Query, QueryMetrics, QueryPage, Range, RangeLag, Ranges, ReplaceOptions, Resource,
    ResourcePage, Scope, UsedIndex,
};
pub use batch::{BatchItem, BatchKind, BatchOperation, BatchResult};
pub use catalog::{Engine, Options};
pub use changes::ChangesFilter;
pub use container::Container;
pub use env::Env;
pub use functions::QueryFunctions;
pub use kind::Kind;
pub use procedure::{Logged, ScriptWorkers, Scripts, TriggeredWrite, WriteVerb};
/// All that this program does when it is started as a worker for scripts.
pub use script::worker::main as script_worker;
