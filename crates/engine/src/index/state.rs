//! From which policies a partition's index rows are, and how far a change of policy has come.
//!
//! The state is one of the partition's writer, changed under its lock and stored with the next
//! commit: a write that began under the old policy would else leave rows that nobody knows of.
//!
//! ```text
//! version u8 · cursor (u16 length) · for each, the current one first: rules (u32 length)
//! ```

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use model::policy::IndexRules;
use model::{Error, Fault, Result};

use super::Indexes;
use crate::keys::{self, Reader};

/// Of rows and of what is said of them: 2 since words have counts and lengths.
const STORED_VERSION: u8 = 2;
/// Policies that rows may be from at the same time. Policies change seldom and the work is quick;
/// whoever changes them faster than that waits.
pub(crate) const OLDER_MAX: usize = 16;

/// What rows there are.
#[derive(Debug, Clone)]
pub(crate) struct Indexing {
    /// All that is written from now on follows this.
    pub current: Arc<Indexes>,
    /// Items that the build has not come to may have rows of these instead.
    pub older: Vec<Arc<Indexes>>,
    /// The build has come to this item.
    pub cursor: Bytes,
}

impl Indexing {
    /// Of a partition that says nothing of indexes: it has items without rows, or none.
    pub fn unknown() -> Self {
        let nothing = Arc::new(Indexes::new(Arc::new(IndexRules::nothing())));
        Self { current: nothing, older: Vec::new(), cursor: Bytes::new() }
    }

    /// What is to be from now on. A partition without items has no rows of anything.
    #[must_use]
    pub fn following(&self, rules: &Arc<IndexRules>, items: u64) -> Option<Self> {
        if self.current.rules == *rules {
            return None;
        }
        let current = Arc::new(Indexes::new(rules.clone()));
        let mut older = Vec::new();
        if items > 0 {
            older.extend(self.older.iter().chain([&self.current]).cloned());
            older.retain(|one| one.rules != *rules);
        }
        Some(Self { current, older, cursor: Bytes::new() })
    }

    /// Whether another policy has still to be carried out.
    pub fn is_building(&self) -> bool {
        !self.older.is_empty()
    }

    /// Whether rows follow from bodies at all.
    pub fn reads_bodies(&self) -> bool {
        let reads = |indexes: &Arc<Indexes>| !indexes.rules.none;
        reads(&self.current) || self.older.iter().any(reads)
    }

    /// Of a partition that takes over rows of several.
    #[must_use]
    pub fn joined(self, other: &Self) -> Self {
        let mut older = self.older;
        if self.current.rules != other.current.rules {
            older.extend([self.current.clone(), other.current.clone()]);
        }
        older.extend(other.older.iter().cloned());
        let mut kept: Vec<Arc<Indexes>> = Vec::new();
        for one in older {
            if kept.iter().all(|known| known.rules != one.rules) {
                kept.push(one);
            }
        }
        Self { current: self.current, older: kept, cursor: Bytes::new() }
    }

    /// The same, with a build begun anew where one is under way: rows lie elsewhere now.
    #[must_use]
    pub fn joined_anew(self) -> Self {
        Self { cursor: Bytes::new(), ..self }
    }

    /// The same after a step of the build: up to this item, or to the end.
    #[must_use]
    pub fn built_up_to(&self, cursor: Option<Bytes>) -> Self {
        let current = self.current.clone();
        match cursor {
            Some(cursor) => Self { current, older: self.older.clone(), cursor },
            None => Self { current, older: Vec::new(), cursor: Bytes::new() },
        }
    }

    /// Refuses a change of policy while too many are still being carried out.
    pub fn check_room(&self, rules: &IndexRules) -> Result<()> {
        if self.older.len() < OLDER_MAX || *self.current.rules == *rules {
            return Ok(());
        }
        Err(Error::new(
            Fault::TooManyRequests,
            "the indexing policy has changed too often: wait until the index transformation is done",
        ))
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(STORED_VERSION);
        out.put_u16(u16::try_from(self.cursor.len()).expect("an item key is shorter than 64 KB"));
        out.put_slice(&self.cursor);
        for indexes in std::iter::once(&self.current).chain(&self.older) {
            let source = indexes.rules.source();
            out.put_u32(u32::try_from(source.len()).expect("a definition is at most 4 MB"));
            out.put_slice(source.as_bytes());
        }
        out.freeze()
    }

    /// Reads the stored form.
    pub fn decode(stored: &[u8]) -> Result<Self> {
        if let Some(version) = stored.first().filter(|version| **version < STORED_VERSION) {
            return Err(Error::new(
                Fault::Internal,
                format!(
                    "the indexes were written in form {version} by an earlier version; this one \
                     has form {STORED_VERSION}: copy the items into a new store"
                ),
            ));
        }
        Self::read(stored).ok_or_else(|| keys::corrupt("the state of indexes"))
    }

    fn read(stored: &[u8]) -> Option<Self> {
        let mut reader = Reader { rest: stored };
        if reader.take::<1>()? != [STORED_VERSION] {
            return None;
        }
        let length = usize::from(u16::from_be_bytes(reader.take()?));
        let cursor = Bytes::copy_from_slice(reader.slice(length)?);
        let mut all = Vec::new();
        while !reader.rest.is_empty() {
            let length = u32::from_be_bytes(reader.take()?) as usize;
            let source = std::str::from_utf8(reader.slice(length)?).ok()?;
            all.push(Arc::new(Indexes::new(Arc::new(IndexRules::from_source(source)?))));
        }
        let mut all = all.into_iter();
        Some(Self { current: all.next()?, older: all.collect(), cursor })
    }
}
