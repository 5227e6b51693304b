//! Index rows that are worked out before a write enters its partition's writer.
//!
//! A walk over an item takes longer than all else that is done under the writer's lock, and hardly
//! any of it depends on what is decided there: only the few members that the server adds do.

use std::sync::Arc;

use model::Result;

use super::Indexes;
use super::terms::{self, Row};

/// The rows of what an item says itself.
#[derive(Debug)]
pub(crate) struct OwnRows {
    indexes: Arc<Indexes>,
    rows: Vec<Row>,
}

impl OwnRows {
    /// `None` where an index may join what an item says with what the server adds, or where the
    /// item cannot be indexed: whoever decides finds out why.
    pub fn new(indexes: &Arc<Indexes>, item_key: &[u8], document: &[u8]) -> Option<Self> {
        if indexes.rules.none || !indexes.composites.is_empty() || !indexes.computed.is_empty() {
            return None;
        }
        let rows = terms::own_rows(indexes, item_key, document).ok()?;
        Some(Self { indexes: indexes.clone(), rows })
    }

    /// All rows, in order, once the server has added its members, which end the stored text.
    /// `None` if they are those of another policy.
    pub fn rows(
        &self,
        indexes: &Arc<Indexes>,
        item_key: &[u8],
        added: &[u8],
    ) -> Result<Option<Vec<Row>>> {
        if !Arc::ptr_eq(indexes, &self.indexes) {
            return Ok(None);
        }
        let added = [b"{", added].concat();
        let mut rows = terms::rows(indexes, item_key, &added)?;
        rows.extend_from_slice(&self.rows);
        rows.sort_unstable();
        Ok(Some(rows))
    }
}
