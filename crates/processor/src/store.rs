//! The lease container, as far as the processor needs it.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::env::Later;

/// A document as the container has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its id.
    pub id: String,
    /// Its etag.
    pub etag: String,
    /// All of it.
    pub body: Map<String, Value>,
}

/// Why an operation did not succeed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// There is one of that id already.
    #[error("a document of that id exists")]
    Exists,
    /// It is not as the condition says.
    #[error("the document has changed")]
    Changed,
    /// There is none.
    #[error("there is no such document")]
    Missing,
    /// Not now; nothing has happened.
    #[error("the lease container is throttled")]
    Throttled(Duration),
    /// No answer, or one that leaves open whether it happened.
    #[error("the lease container did not answer: {0}")]
    Unknown(String),
    /// No, and asking again will not help.
    #[error("the lease container refuses ({status}): {message}")]
    Refused {
        /// The status.
        status: u16,
        /// The message.
        message: String,
    },
}

/// What a wait for changes has seen.
#[derive(Debug, Clone, Default)]
pub struct Stirred {
    /// Documents that have changed.
    pub documents: Vec<Stored>,
    /// Where to wait on.
    pub position: Option<String>,
}

/// Documents with etags. Every operation happens as a whole or not at all.
pub trait LeaseStore: Send + Sync {
    /// All documents whose ids begin so.
    fn list<'a>(&'a self, prefix: &'a str) -> Later<'a, Result<Vec<Stored>, StoreError>>;
    /// One document.
    fn read<'a>(&'a self, id: &'a str) -> Later<'a, Result<Stored, StoreError>>;
    /// A new document. Returns its etag.
    fn create<'a>(&'a self, body: &'a Map<String, Value>) -> Later<'a, Result<String, StoreError>>;
    /// Puts a document in the place of the one that has this etag. Returns the new etag.
    fn replace<'a>(
        &'a self,
        body: &'a Map<String, Value>,
        etag: &'a str,
    ) -> Later<'a, Result<String, StoreError>>;
    /// Removes the document that has this etag.
    fn delete<'a>(&'a self, stored: &'a Stored) -> Later<'a, Result<(), StoreError>>;
    /// Waits until documents have changed, from a position on or from now on. A store that cannot
    /// wait returns what it has after a while.
    fn stir<'a>(
        &'a self,
        position: Option<String>,
        wait: Duration,
    ) -> Later<'a, Result<Stirred, StoreError>>;
    /// Whether documents need a `partitionKey` of their own.
    fn keyed(&self) -> bool {
        false
    }
}
