//! Indexes: rows in `Index` that lead from a value to the items that have it.
//!
//! An item's rows follow from its body and the indexing policy alone ([`terms`]). A commit writes
//! the difference between the rows of the old body and those of the new one, in the same batch
//! ([`maintain`]); a change of policy is carried out in the background ([`build`]) while the
//! partition knows from which policies its rows may be ([`state`]).
//!
//! Invariants:
//! - Every item that is there has every row of the current policy, unless older ones are listed.
//! - No row is there that no item has under the current policy or an older one that is listed.

mod build;
mod check;
pub(crate) mod geo;
pub(crate) mod key;
mod maintain;
mod presence;
mod state;
mod terms;
pub(crate) mod vector;

use std::sync::Arc;

use model::epk::digest64;
use model::policy::{CompositePath, IndexRules, VectorIndex};

pub(crate) use key::{ROWS, is_row, item_of};
pub(crate) use maintain::{Moved, maintain};
pub(crate) use presence::Presence;
pub(crate) use state::Indexing;

use key::PathId;

/// The rules of a policy, with what is known of its indexes beforehand.
#[derive(Debug)]
pub(crate) struct Indexes {
    pub rules: Arc<IndexRules>,
    pub composites: Vec<Composite>,
    /// By path.
    pub vectors: Vec<(PathId, VectorIndex)>,
}

/// A composite index.
#[derive(Debug)]
pub(crate) struct Composite {
    id: PathId,
    /// Each path, and whether it descends.
    pub paths: Vec<(PathId, bool)>,
}

impl Indexes {
    pub fn new(rules: Arc<IndexRules>) -> Self {
        let composites = rules.composites.iter().map(|paths| Composite::new(paths)).collect();
        let vector = |index: &VectorIndex| (PathId::of_names(&index.names), index.clone());
        let vectors = rules.vectors.iter().map(vector).collect();
        Self { rules, composites, vectors }
    }
}

impl Composite {
    fn new(declared: &[CompositePath]) -> Self {
        let path = |path: &CompositePath| (PathId::of_names(&path.names), path.descending);
        Self::of(declared.iter().map(path).collect())
    }

    /// The composite index over some paths.
    pub fn of(paths: Vec<(PathId, bool)>) -> Self {
        let mut spelled = Vec::new();
        for (path, descending) in &paths {
            spelled.extend_from_slice(&path.0.to_be_bytes());
            spelled.push(u8::from(*descending));
        }
        Self { id: PathId(digest64(&spelled)), paths }
    }

    /// Appends what all its rows begin with.
    pub fn put_head(&self, out: &mut Vec<u8>) {
        key::put_head(key::COMPOSITE, self.id, out);
        out.push(u8::try_from(self.paths.len()).expect("a composite index has few paths"));
        let bits = self.paths.iter().rev().map(|(_, descending)| u8::from(*descending));
        out.push(bits.fold(0, |all, bit| all << 1 | bit));
    }
}
