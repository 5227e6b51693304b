//! Patches of items.
//!
//! A patch reads the item's body to decide, unlike other writes, and is then a replace.

use bytes::Bytes;
use kv::Keyspace;
use model::item::Item;
use model::partition_key::PartitionKey;
use model::policy::ContainerDefinition;
use model::{Error, Fault, Result, charge, limits};

use crate::Container;
use crate::api::{Answer, Conditions, ItemWrite, storage};
use crate::batch;
use crate::commit::{Draft, Place};
use crate::item::{Key, Mode, Put, Written, body_of, check_conditions, not_found};
use crate::keys::{self, Slot};
use crate::partition::Partition;
use crate::predicate::Predicate;

impl Container {
    /// Changes parts of an item, as the body of a patch says.
    pub async fn patch_item(
        &self,
        id: &str,
        key: Option<PartitionKey>,
        body: &[u8],
        conditions: &Conditions,
    ) -> Result<Answer<ItemWrite>> {
        self.check_alive()?;
        let definition = self.definition();
        let key = Key::of(self, &definition, key)?;
        let patch = Patch::parse(&definition, id, body, conditions)?;
        let partition = self.partition_of(&key.epk);
        if let Some(throttled) = self.throttle(&partition) {
            return Ok(throttled);
        }
        let item_key = key.item_key(id);
        let places = places_with_body(&partition, item_key).await?;
        let mut terms = 0;
        let (partition, done) = self
            .commit(partition, &key.epk, &places, |draft| {
                let written = patch.decide(draft, &key, limits::BATCH_RESULT_BYTES)?;
                terms = written.terms;
                Ok((written.item, draft.lsn))
            })
            .await;
        let charge = match &done {
            Ok((written, _)) => charge::replace(written.body.len(), terms),
            Err(_) => charge::refused(),
        };
        Ok(self.answer(&partition, charge, done))
    }
}

/// What a write that reads an item's body is going to look at.
async fn places_with_body(partition: &Partition, item_key: Bytes) -> Result<Vec<Place>> {
    let view = partition.owner.published();
    let stored = view.get(Keyspace::Docs, &item_key).await.map_err(storage)?;
    let mut places = vec![(Keyspace::Docs, item_key)];
    if let Some(row) = Slot::item(stored.as_ref())? {
        places.push((Keyspace::Feed, row.feed_key()));
        places.push((Keyspace::Index, keys::block_key(row.etag.lsn())));
    }
    Ok(places)
}

/// A patch about to be decided.
pub(crate) struct Patch<'a> {
    pub id: &'a str,
    conditions: &'a Conditions,
    patch: model::patch::Patch<'a>,
    predicate: Option<Predicate>,
}

impl<'a> Patch<'a> {
    pub fn parse(
        definition: &ContainerDefinition,
        id: &'a str,
        body: &'a [u8],
        conditions: &'a Conditions,
    ) -> Result<Self> {
        let patch = model::patch::Patch::parse(body)?;
        for path in &definition.partition_key.paths {
            if patch.touches(&path.segments) {
                return Err(Error::bad_request(format!(
                    "a patch cannot change the partition key, '{}'",
                    path.text
                )));
            }
        }
        let predicate = patch.condition.as_deref().map(Predicate::parse).transpose()?;
        Ok(Self { id, conditions, patch, predicate })
    }

    /// Decides; the item may have no more bytes than there is room for.
    pub fn decide(&self, draft: &mut Draft<'_>, key: &Key<'_>, mut room: usize) -> Result<Written> {
        let item_key = key.item_key(self.id);
        let stored = draft.get(&(Keyspace::Docs, item_key.clone()))?;
        let row = Slot::item(stored.as_ref())?
            .filter(|row| draft.is_alive(&item_key, row, key.definition.default_ttl))
            .ok_or_else(|| not_found(self.id))?;
        check_conditions(self.conditions, &row.etag)?;
        batch::take(&mut room, row.body_bytes as usize)?;
        let stored = draft.get(&(Keyspace::Feed, row.feed_key()))?;
        let body = body_of(&row, &item_key, stored.as_ref())?;
        let holds = self.predicate.as_ref().map_or(Ok(true), |predicate| predicate.holds(&body))?;
        if !holds {
            return Err(Error::new(
                Fault::PreconditionFailed,
                "the condition of the patch does not hold for the item as it is",
            ));
        }
        let patched = self.patch.apply(&body)?;
        let item = Item::parse(&patched)?;
        if key.definition.partition_key.extract(&item.document)? != key.key {
            return Err(Error::bad_request("a patch cannot change the partition key"));
        }
        Put::new(Mode::Replace, key, item, self.conditions).decide(draft)
    }
}
