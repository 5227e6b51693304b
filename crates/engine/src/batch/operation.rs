//! One operation of an atomic batch, about to be decided.

use bytes::Bytes;
use kv::Keyspace;
use model::item::Item;
use model::json::Document;
use model::token::Match;
use model::{Error, Fault, Result, charge, limits};

use super::{BatchItem, BatchKind, BatchOperation, BatchResult};
use crate::api::{Conditions, ItemWrite};
use crate::commit::{Draft, Place};
use crate::item::{
    Delete, Key, Mode, Put, Written, body_of, check_conditions, check_identity, not_found,
};
use crate::keys::Slot;
use crate::partition::Partition;
use crate::patch::Patch;

/// An operation that was understood.
pub(super) enum Prepared<'a> {
    Put(Box<Put<'a>>),
    Patch(Box<Patch<'a>>, &'a Key<'a>),
    Read(Read<'a>),
    Delete(Delete<'a>),
}

/// A read about to be decided.
pub(super) struct Read<'a> {
    id: &'a str,
    key: &'a Key<'a>,
    conditions: &'a Conditions,
}

impl<'a> Prepared<'a> {
    pub fn new(
        key: &'a Key<'a>,
        operation: &'a BatchOperation,
        partition: &Partition,
    ) -> Result<Self> {
        let BatchOperation { kind, id, body, layout, conditions, .. } = operation;
        let named =
            || id.as_deref().ok_or_else(|| Error::bad_request(format!("a {kind:?} needs an 'id'")));
        let put = |mode: Mode, id: Option<&str>| {
            let item = match layout {
                Some(layout) => Item::of(Document::laid_out(body, layout)?)?,
                None => Item::parse(body)?,
            };
            check_identity(key, &item, id)?;
            let put = Put::new(mode, key, item, conditions).prepared_for(partition);
            Ok(Self::Put(Box::new(put)))
        };
        match kind {
            BatchKind::Create => put(Mode::Create, None),
            BatchKind::Upsert => put(Mode::Upsert, None),
            BatchKind::Replace => put(Mode::Replace, Some(named()?)),
            BatchKind::Patch => {
                let patch = Patch::parse(key.definition, named()?, body, conditions)?;
                Ok(Self::Patch(Box::new(patch), key))
            }
            BatchKind::Read => Ok(Self::Read(Read { id: named()?, key, conditions })),
            BatchKind::Delete => Ok(Self::Delete(Delete::new(key, named()?, conditions))),
        }
    }

    /// Key in `Docs`.
    pub fn item_key(&self) -> Bytes {
        match self {
            Self::Put(put) => put.item_key.clone(),
            Self::Patch(patch, key) => key.item_key(patch.id),
            Self::Read(read) => read.key.item_key(read.id),
            Self::Delete(delete) => delete.identity.item_key.clone(),
        }
    }

    /// Adds what it looks at in any case.
    pub fn add_places(&self, places: &mut Vec<Place>) {
        match self {
            Self::Put(put) => put.add_places(places),
            _ => places.push((Keyspace::Docs, self.item_key())),
        }
    }

    pub fn reads_body(&self) -> bool {
        matches!(self, Self::Patch(..) | Self::Read(_))
    }

    /// Decides, and takes what it reads or writes out of the room that the batch has.
    pub fn decide(&self, draft: &mut Draft<'_>, room: &mut usize) -> Result<BatchResult> {
        let (item, charge) = match self {
            Self::Put(put) => written(put.decide(draft)?),
            Self::Patch(patch, key) => written(patch.decide(draft, key, *room)?),
            Self::Read(read) => read.decide(draft, *room)?,
            Self::Delete(delete) => {
                let row = delete.decide(draft)?;
                (BatchItem::Deleted, charge::delete(row.body_bytes as usize, 0))
            }
        };
        if let BatchItem::Written(item) | BatchItem::Read(item) = &item {
            take(room, item.body.len())?;
        }
        Ok(BatchResult { charge, retry_after_ms: None, result: Ok(item) })
    }
}

impl Read<'_> {
    fn decide(&self, draft: &mut Draft<'_>, mut room: usize) -> Result<(BatchItem, f64)> {
        let item_key = self.key.item_key(self.id);
        let stored = draft.get(&(Keyspace::Docs, item_key.clone()))?;
        let row = Slot::item(stored.as_ref())?
            .filter(|row| draft.is_alive(&item_key, row, self.key.definition.default_ttl))
            .ok_or_else(|| not_found(self.id))?;
        let Conditions { if_match, if_none_match } = self.conditions;
        check_conditions(&Conditions { if_match: *if_match, if_none_match: None }, &row.etag)?;
        if if_none_match.as_ref().is_some_and(|seen: &Match| seen.matches(Some(row.etag))) {
            return Ok((BatchItem::NotModified(row.etag), charge::read(0)));
        }
        take(&mut room, row.body_bytes as usize)?;
        let stored = draft.get(&(Keyspace::Feed, row.feed_key()))?;
        let body = body_of(&row, &item_key, stored.as_ref())?;
        let charge = charge::read(body.len());
        Ok((BatchItem::Read(ItemWrite { body, etag: row.etag, created: false }), charge))
    }
}

fn written(written: Written) -> (BatchItem, f64) {
    let Written { item, terms } = written;
    let charge = charge::upsert(item.body.len(), terms, !item.created);
    (BatchItem::Written(item), charge)
}

/// Takes bytes out of the room that is left.
pub(crate) fn take(room: &mut usize, bytes: usize) -> Result<()> {
    *room = room.checked_sub(bytes).ok_or_else(|| {
        Error::new(
            Fault::TooLarge,
            format!(
                "the items of the batch have more than {} bytes together; make it smaller",
                limits::BATCH_RESULT_BYTES
            ),
        )
    })?;
    Ok(())
}
