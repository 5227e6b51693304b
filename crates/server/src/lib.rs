//! The wire: HTTP, signatures, routes. The only crate that knows any of them.
//!
//! A request goes down one line: [`http`] takes bytes and time limits, [`route`] finds the
//! operation, [`auth`] asks who may, [`request`] turns headers into types, [`handle`] calls
//! the engine, [`reply`] and [`wire`] turn the outcome into an answer. Nothing here decides
//! anything about stored data.

pub mod activity_id;
mod ahead;
pub mod ask;
pub mod auth;
pub mod consistency;
pub mod date;
pub mod handle;
pub mod header;
pub mod http;
pub mod log;
pub mod metrics;
pub mod path;
pub mod push;
pub mod reply;
pub mod request;
pub mod route;
pub mod settings;
pub mod store;
pub mod tls;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::Engine;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

pub use http::brisk::before_sleep;
pub use http::serve;

use consistency::Consistency;

/// How the server behaves towards its clients.
#[derive(Debug, Clone)]
pub struct Options {
    /// The account's consistency level.
    pub consistency: Consistency,
    /// The endpoint that the account document names, instead of the one the client came by.
    pub advertise: Option<String>,
    /// Origins whose pages may read our answers; `*` is all.
    pub cors: Vec<String>,
    /// How long a client may take to send the head of a request, or for a TLS handshake.
    pub header_timeout: Duration,
    /// How long a client may take to send a body, or not take any of an answer.
    pub body_timeout: Duration,
    /// How long a connection may do nothing.
    pub idle_timeout: Duration,
    /// How long requests under way may take to finish once the server is told to stop.
    pub shutdown_timeout: Duration,
    /// Most connections; more wait to be accepted.
    pub connections_max: usize,
    /// Memory for the bodies of requests under way.
    pub body_memory_bytes: usize,
    /// How long a stream of events may be silent.
    pub heartbeat: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            consistency: Consistency::Session,
            advertise: None,
            cors: Vec::new(),
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(600),
            shutdown_timeout: Duration::from_secs(30),
            connections_max: 10_000,
            body_memory_bytes: 256 << 20,
            heartbeat: Duration::from_secs(15),
        }
    }
}

/// Everything that requests share.
pub struct Server {
    engine: Arc<Engine>,
    keys: auth::Keys,
    tokens: auth::token::Mint,
    options: Options,
    metrics: metrics::Metrics,
    tls: Option<TlsAcceptor>,
    certificate: Option<Bytes>,
    bodies: http::body::Budget,
    connections: Arc<Semaphore>,
    ahead: ahead::Ahead,
    stopping: watch::Sender<bool>,
}

impl Server {
    /// A server for an open engine.
    pub fn new(
        engine: Arc<Engine>,
        keys: auth::Keys,
        identity: Option<tls::Identity>,
        options: Options,
    ) -> Arc<Self> {
        let (tls, certificate) = identity.map(tls::Identity::into_parts).unzip();
        Arc::new(Self {
            tokens: auth::token::Mint::new(&engine.secret()),
            engine,
            keys,
            metrics: metrics::Metrics::default(),
            tls,
            certificate,
            bodies: http::body::Budget::new(options.body_memory_bytes),
            connections: Arc::new(Semaphore::new(options.connections_max)),
            ahead: ahead::Ahead::default(),
            stopping: watch::Sender::new(false),
            options,
        })
    }

    /// Ends what only waits.
    fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Resolves when the server is told to stop: whoever waits for something to happen should
    /// wait for this too.
    pub(crate) async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }
}
