//! How a script reaches the database.

use bytes::Bytes;
use model::Result;

/// The transaction that a script runs in, scoped to one logical partition.
///
/// Everything is asked in the order in which the script asked. What is refused reaches the
/// script's callback as an error with the status of the fault as its number; the script may go
/// on. A host that cannot go on (its storage failed, say) refuses everything from then on and
/// refuses to commit.
pub trait Host {
    /// Stores a new item. `body` is JSON text as the script wrote it, at most
    /// [`Limits::message_bytes`](crate::Limits::message_bytes) long, otherwise unchecked.
    /// Gives the item as stored.
    fn create(&mut self, body: &str, options: &WriteOptions) -> Result<Bytes>;

    /// Stores an item, whether there is one or not. Gives the item as stored, and whether it is new.
    fn upsert(&mut self, body: &str, options: &WriteOptions) -> Result<(Bytes, bool)>;

    /// Puts another in the place of an item. Gives the item as stored.
    fn replace(&mut self, item: &Item, body: &str, options: &WriteOptions) -> Result<Bytes>;

    /// Takes an item away.
    fn delete(&mut self, item: &Item, if_match: Option<&str>) -> Result<()>;

    /// An item as stored, or `None` where it still has the etag given.
    fn read(&mut self, item: &Item, if_none_match: Option<&str>) -> Result<Option<Bytes>>;

    /// A page of all items.
    fn list(&mut self, page: &PageRequest) -> Result<Page>;

    /// A page of what a query selects.
    fn query(&mut self, query: &Query, page: &PageRequest) -> Result<Page>;

    /// Whether the script may ask for more. Once this is false its calls return false too, and it
    /// is expected to come to an end; what it has asked for until then is still answered.
    fn accepts(&self) -> bool {
        true
    }
}

/// How a script names an item: from its link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// By name.
    Id(String),
    /// By resource id, as in `_self`.
    Rid {
        /// The resource id.
        rid: String,
        /// The name under which this run has seen the item, so that it need not be searched. The
        /// item of that name may have another resource id by now; then there is no such item.
        id: Option<String>,
    },
}

/// What a write may bring beside the body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The etag that the item must have.
    pub if_match: Option<String>,
    /// Whether to index it.
    pub indexing: Indexing,
}

/// Whether an item is indexed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Indexing {
    /// As the container's policy says.
    #[default]
    Policy,
    /// In any case.
    Include,
    /// Not at all.
    Exclude,
}

/// A query in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Its text.
    pub text: String,
    /// JSON text of an array of `{"name": …, "value": …}`, as the script gave it.
    pub parameters: Option<String>,
}

/// Which page of a list or of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// At most so many; at least 1.
    pub size: u32,
    /// Where the page before ended, as the host said; empty for the first.
    pub continuation: String,
    /// The script agrees to a scan where no index helps.
    pub enable_scan: bool,
}

/// A page of a list or of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// JSON text of each.
    pub items: Vec<Bytes>,
    /// Where the next page begins, unless this is the last.
    pub continuation: Option<String>,
}
