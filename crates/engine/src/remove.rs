//! Taking items out: what a delete, an expiry and a new version have in common.

use bytes::Bytes;
use kv::Keyspace;
use model::Result;

use crate::api::Operation;
use crate::commit::Draft;
use crate::keys::{self, Row, Slot};
use crate::version::Version;

/// An item, as readers of changes are told that it is gone.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Key in `Docs`.
    pub item_key: Bytes,
    pub id: Bytes,
    /// The partition key as a JSON array.
    pub key: Bytes,
}

impl Identity {
    /// Its end.
    pub fn gone(
        &self,
        row: &Row,
        expired: bool,
        previous: Option<Bytes>,
        draft: &Draft<'_>,
    ) -> Version {
        Version {
            operation: Operation::Delete,
            expired,
            item_key: self.item_key.clone(),
            ts_ms: draft.head.ts_ms,
            previous_lsn: row.etag.lsn(),
            id: self.id.clone(),
            key: self.key.clone(),
            previous,
            body: Bytes::new(),
        }
    }
}

/// Removes an item with all its rows.
pub(crate) fn remove_item(
    draft: &mut Draft<'_>,
    item: &Identity,
    row: &Row,
    expired: bool,
) -> Result<()> {
    let image = draft.image(Some(row))?;
    remove_version(draft, &item.item_key, row)?;
    for key in &row.unique {
        draft.delete(Keyspace::Index, key.clone());
    }
    let mut left = None;
    if draft.tells_deletes() {
        let version = item.gone(row, expired, image, draft);
        draft.log(&version);
        left = draft.bury(version);
    }
    match left {
        Some(etag) => {
            draft.put(Keyspace::Docs, item.item_key.clone(), Slot::encode_deleted(etag));
        }
        None => draft.delete(Keyspace::Docs, item.item_key.clone()),
    }
    Ok(())
}

/// Takes an item's current version out of the feed, the counters and the order of expiry.
pub(crate) fn remove_version(draft: &mut Draft<'_>, item_key: &Bytes, row: &Row) -> Result<()> {
    draft.remove_version(row.etag)?;
    draft.head.items = draft.head.items.saturating_sub(1);
    draft.head.bytes = draft.head.bytes.saturating_sub(u64::from(row.body_bytes));
    if let Some(second) = keys::last_second(row.ts, row.ttl) {
        draft.delete(Keyspace::Index, keys::expiry_key(second, item_key));
    }
    Ok(())
}
