//! A small client of the Azure Cosmos DB for NoSQL wire, with the pull model of the change feed.
//!
//! It works against Astrarium and against the public service alike, and depends on nothing but
//! the wire: etags and continuations are opaque, partition keys are sent and never hashed.
//!
//! ```no_run
//! use client::{Account, ChangeFeedOptions, Client, Options};
//!
//! # async fn read() -> client::Result<()> {
//! let account = Account::from_connection_string(
//!     "AccountEndpoint=http://127.0.0.1:8081/;AccountKey=c2VjcmV0;",
//! )?;
//! let client = Client::new(account, Options::default())?;
//! let orders = client.container("shop", "orders");
//! let options = ChangeFeedOptions { start_from_beginning: true, ..Default::default() };
//! let mut changes = orders.changes(options)?;
//! loop {
//!     let page = changes.next_page().await?;
//!     for change in &page.changes {
//!         println!("{}", String::from_utf8_lossy(change.bytes()));
//!     }
//!     println!("to go on from here: {}", page.continuation);
//!     if page.is_caught_up {
//!         return Ok(());
//!     }
//! }
//! # }
//! ```
//!
//! # What it does by itself
//!
//! Requests are signed, sent to the region that serves them, given up after a time, and repeated
//! where that cannot do harm (see [`Retry`]). A write whose fate is unknown is never repeated:
//! its [`Error::may_have_been_applied`] says so. Every future may be dropped at any moment.

mod account;
mod answer;
mod body;
mod changes;
mod client;
mod connector;
mod container;
mod credential;
mod database;
mod date;
mod documents;
mod error;
mod extension;
mod header;
mod item;
mod layout;
mod options;
mod partition_key;
mod query;
mod range;
mod regions;
mod request;
mod retry;
mod send;
mod session;
mod spans;
mod tls;
mod transport;

pub use account::Account;
pub use answer::Answer;
pub use body::{IntoBody, Typed};
pub use changes::change::{Change, Metadata, Operation};
pub use changes::options::{ChangeFeedOptions, Mode};
pub use changes::read::{FeedPage, FeedRead, FeedScope, Start};
pub use changes::{Changes, ItemChange, Page};
pub use client::Client;
pub use container::{Container, ContainerProperties};
pub use credential::{BearerToken, Credential};
pub use database::{Database, Throughput};
pub use documents::{DocumentPage, Documents, ReadOptions};
pub use error::{Error, Kind, Result};
pub use extension::{Lag, RangeLag};
pub use item::{Condition, ItemOptions};
pub use options::{Options, Retry, Trust};
pub use partition_key::PartitionKey;
pub use query::{Query, QueryOptions, QueryPage, Rows};
pub use range::{FeedRange, PartitionKeyRange};
pub use tls::config as tls_config;
