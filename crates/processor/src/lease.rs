//! A lease: which part of the feed, who has it, and how far it is done.

pub mod document;
pub mod foreign;
pub mod stamp;

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::position::Start;
use crate::span::Span;

/// Our extras live among the `properties` under these names, because .NET keeps those and nothing
/// else when it writes a lease.
pub mod extra {
    /// Counts the changes of ownership.
    pub const EPOCH: &str = "cfx.epoch";
    /// Identifies the last write, so that one whose answer was lost is recognised.
    pub const WRITE: &str = "cfx.wid";
    /// Where to begin while there is no continuation.
    pub const START: &str = "cfx.start";
    /// How often the lease was taken without any progress since.
    pub const ATTEMPTS: &str = "cfx.attempts";
    /// Changes per second, smoothed.
    pub const RATE: &str = "cfx.rate";
    /// Set on a span that stood for a whole range before a merge: it may be joined with its neighbour.
    pub const WHOLE: &str = "cfx.whole";
    /// The token of the lease that this one is about to become a part of.
    pub const JOINING: &str = "cfx.joining";
    /// The tokens of the leases that this one has taken the place of, until they are gone.
    pub const JOINS: &str = "cfx.joins";
    /// What this lease is being divided into: nobody reads by it any more.
    pub const CHILDREN: &str = "cfx.children";
    /// The token of the lease that this one came from: it has to be gone before this one begins.
    pub const PARENT: &str = "cfx.parent";
    /// In which epoch of the parent its children were listed; in the parent, and in each child until
    /// it begins.
    pub const LISTED: &str = "cfx.listed";
    /// Set on a parent that could not be deleted after a split, and on a lease that is only proposed.
    pub const CLOSED: &str = "cfx.closed";
    /// Keys whose changes wait in the dead-letter container, a JSON list of texts.
    pub const PARKED: &str = "cfx.parked";
    /// Serial number of the last seek that this lease has followed.
    pub const SOUGHT: &str = "cfx.sought";
    /// When the newest change below the checkpoint was made, in seconds since 1970.
    pub const DONE_AT: &str = "cfx.done";
    /// Changes and commits seen by this range, to turn a distance in commits into items.
    pub const ITEMS_PER_COMMIT: &str = "cfx.ipc";
}

/// What the changes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Each item at its latest version.
    #[default]
    Latest,
    /// Each item at its latest version, and deletes where the service tells of them. Positions are
    /// those of [`Self::Latest`], and leases do not tell the two apart.
    LatestWithDeletes,
    /// All versions, and deletes.
    AllVersions,
}

impl Mode {
    /// As .NET writes it, which is also the value of the header `A-IM`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Latest | Self::LatestWithDeletes => "Incremental Feed",
            Self::AllVersions => "Full-Fidelity Feed",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Latest, Self::AllVersions]
            .into_iter()
            .find(|mode| mode.text().eq_ignore_ascii_case(text))
    }
}

/// Who a process is: its instance name, and which life of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The instance name.
    pub name: String,
    /// Grows with each process of that name.
    pub generation: u64,
    /// Tells processes apart that chose the same generation.
    pub nonce: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}.{:08x}", self.name, self.generation, self.nonce)
    }
}

impl FromStr for Owner {
    type Err = ();

    /// Owners of other libraries have no `~` and are no `Owner`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, life) = text.rsplit_once('~').ok_or(())?;
        let (generation, nonce) = life.split_once('.').ok_or(())?;
        Ok(Self {
            name: name.to_owned(),
            generation: generation.parse().map_err(|_| ())?,
            nonce: u32::from_str_radix(nonce, 16).map_err(|_| ())?,
        })
    }
}

/// What a lease covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Version 0: a whole partition key range, whose id is the token.
    Range,
    /// Version 1: a span of keys, whose bounds are the token.
    Span,
}

/// One lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// The id of its document.
    pub id: String,
    /// The document's partition key, where the container is keyed by `/partitionKey`.
    pub partition_key: Option<String>,
    /// A range's id or the bounds of a span.
    pub token: String,
    /// Whether the token has to be kept as `PartitionId` too, for v2 of the .NET library.
    pub from_v2: bool,
    /// What the token names.
    pub kind: Kind,
    /// The keys it covers; leases of older libraries do not say.
    pub span: Option<Span>,
    /// Who has it.
    pub owner: Option<String>,
    /// The etag up to which everything is done.
    pub continuation: Option<String>,
    /// User data, and our extras.
    pub properties: Map<String, Value>,
    /// When its owner last wrote it, by its owner's clock.
    pub timestamp: Option<String>,
    /// The server's time of the last write.
    pub ts: i64,
    /// What its continuation is a position of; older leases do not say.
    pub mode: Option<Mode>,
    /// The etag of the document.
    pub etag: String,
}

impl Lease {
    /// A lease that is not stored yet, of nobody and without a position.
    pub fn new(id: String, token: &str, kind: Kind, span: Option<Span>) -> Self {
        Self {
            id,
            partition_key: None,
            token: token.to_owned(),
            from_v2: false,
            kind,
            span,
            owner: None,
            continuation: None,
            properties: Map::new(),
            timestamp: None,
            ts: 0,
            mode: None,
            etag: String::new(),
        }
    }

    /// The tenure counter; 0 where none was written or another library lost it.
    pub fn epoch(&self) -> u64 {
        self.number(extra::EPOCH)
    }

    /// Whether it has the owner and the epoch of another document of it.
    pub fn is_of_tenure(&self, other: &Self) -> bool {
        self.owner == other.owner && self.epoch() == other.epoch()
    }

    /// How late in the history of its keys it came: whatever follows a lease by a split or by a join
    /// ranks higher, and however often a lease that has not begun is taken, its rank stays.
    pub fn rank(&self) -> u64 {
        if self.property(extra::LISTED).is_some() {
            self.number(extra::LISTED)
        } else {
            self.epoch()
        }
    }

    /// It begins: where it came from does not matter any more.
    pub fn begin(&mut self) {
        self.unset(extra::PARENT);
        self.unset(extra::LISTED);
    }

    /// Takings without progress.
    pub fn attempts(&self) -> u64 {
        self.number(extra::ATTEMPTS)
    }

    /// Where to read from: the continuation, or the start that was pinned when it was made.
    pub fn position(&self) -> Option<Start> {
        match &self.continuation {
            Some(etag) => Some(Start::After(etag.clone())),
            None => self.property(extra::START).and_then(|text| text.parse().ok()),
        }
    }

    /// The number of the commit up to which everything is done, where its etag is one.
    pub fn commit(&self) -> Option<u64> {
        commit_of(self.continuation.as_deref()?)
    }

    /// The texts of a property that is a JSON list of them.
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.property(name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// A tombstone: its children have taken over.
    pub fn is_closed(&self) -> bool {
        self.property(extra::CLOSED).is_some()
    }

    /// A property's text.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).and_then(Value::as_str)
    }

    /// Sets a property.
    pub fn set(&mut self, name: &str, value: impl fmt::Display) {
        self.properties.insert(name.to_owned(), Value::String(value.to_string()));
    }

    /// Takes a property away. The order of the others stays.
    pub fn unset(&mut self, name: &str) {
        self.properties.shift_remove(name);
    }

    /// A property that is a number; 0 if it is none.
    pub fn number(&self, name: &str) -> u64 {
        self.property(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// A property that is a finite number; 0 if it is none.
    pub fn measure(&self, name: &str) -> f64 {
        let value = self.property(name).and_then(|text| text.parse::<f64>().ok());
        value.filter(|value| value.is_finite()).unwrap_or(0.0)
    }

    /// Keys whose changes wait in the dead-letter container.
    pub fn parked(&self) -> Vec<String> {
        self.texts(extra::PARKED)
    }
}

/// The number of the commit that an etag stands for, if it is one. Etags are opaque: whoever gets
/// nothing here goes on without.
pub fn commit_of(etag: &str) -> Option<u64> {
    etag.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_names_and_lives() {
        let owner = Owner { name: "a~b".into(), generation: 3, nonce: 0xbeef };
        assert_eq!(owner.to_string(), "a~b~3.0000beef");
        assert_eq!(owner.to_string().parse(), Ok(owner));
        for foreign in ["host-1", "", "x~y", "x~1", "x~1.zz"] {
            assert_eq!(foreign.parse::<Owner>(), Err(()), "{foreign}");
        }
    }
}
