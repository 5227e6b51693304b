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
mod own;
mod presence;
mod state;
mod terms;
pub(crate) mod vector;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use model::Result;
use model::epk::digest64;
use model::policy::{
    CompositePath, ComputedProperty, FullTextIndex, IndexRules, Step, VectorIndex,
};
use query::Statement;
use query::function::text::Language;
use query::world::Settings;

pub(crate) use key::item_of;
pub(crate) use maintain::{Beforehand, Moved, maintain};
pub(crate) use own::OwnRows;
pub(crate) use presence::Presence;
pub(crate) use state::Indexing;

use key::PathId;

/// The rules of a policy, with what is known of its indexes beforehand.
pub(crate) struct Indexes {
    pub rules: Arc<IndexRules>,
    pub composites: Vec<Composite>,
    /// By path.
    pub vectors: Vec<(PathId, VectorIndex)>,
    /// By path, in their languages.
    pub full_text: Vec<(PathId, Language)>,
    /// Computed properties that are indexed, by name.
    pub computed: Vec<(String, Statement)>,
}

impl fmt::Debug for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexes").field("rules", &self.rules.source()).finish_non_exhaustive()
    }
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
        // One that this version cannot compute is not indexed: queries that use it say so.
        let statement = |property: &ComputedProperty| {
            let made = Statement::new(&property.query, &[], &Settings::default()).ok()?;
            Some((property.name.clone(), made))
        };
        let indexed = rules.computed.iter().filter(|property| property.indexed);
        let computed = indexed.filter_map(statement).collect();
        let full_text = rules.full_text.iter().map(text_index).collect();
        Self { rules, composites, vectors, full_text, computed }
    }

    /// An item as queries see it: with its computed properties, where some are indexed.
    pub fn with_computed(&self, body: Bytes) -> Result<Bytes> {
        if self.computed.is_empty() {
            return Ok(body);
        }
        let end = body.iter().rposition(|byte| *byte == b'}').unwrap_or(body.len());
        let mut out = body[..end].to_vec();
        for (name, value) in terms::computed_values(self, &body)? {
            // Of equal names the last one counts. Stored items are never empty.
            out.push(b',');
            model::json::escape_into(&mut out, &name);
            out.push(b':');
            out.extend_from_slice(&value);
        }
        out.push(b'}');
        Ok(out.into())
    }

    /// Whether the value at the end of a path has a range index.
    pub fn covers(&self, steps: &[Step]) -> bool {
        let computed = match steps.first() {
            Some(Step::Name(name)) => self.rules.computed_named(name),
            _ => None,
        };
        let known =
            computed.is_none_or(|one| self.computed.iter().any(|(name, _)| *name == one.name));
        known && self.rules.indexes(steps)
    }
}

fn text_index(index: &FullTextIndex) -> (PathId, Language) {
    let code = index.language.as_deref();
    let language =
        code.map_or(Language::English, |code| Language::of_code(code).unwrap_or(Language::Other));
    (PathId::of_names(&index.names), language)
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
