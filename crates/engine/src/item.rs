//! Items: create, upsert, replace, delete, read.
//!
//! Each operation says which keys it must look at, and decides from what it finds there
//! ([`Put::decide`], [`Delete::decide`]); the commit does the rest.

mod put;

use bytes::{BufMut as _, Bytes};
use kv::Keyspace;
use model::epk::Epk;
use model::item::Item;
use model::partition_key::PartitionKey;
use model::policy::ContainerDefinition;
use model::token::{Etag, Match, Session};
use model::{Error, Fault, Result, charge};

use crate::Container;
use crate::api::{Answer, At, Conditions, ItemWrite, storage};
use crate::cache::{self, Cached};
use crate::commit::Draft;
use crate::keys::{self, Change, Row, Slot};
use crate::partition::Partition;
use crate::remove::{Identity, remove_item};
use crate::shelf;

pub(crate) use put::{Mode, Put, Written, full_ordinal};

/// The partition key that a request is about, and where its items lie.
pub(crate) struct Key<'a> {
    pub container: &'a Container,
    pub definition: &'a ContainerDefinition,
    pub key: PartitionKey,
    pub epk: Epk,
    /// What all its items begin with in `Docs`.
    pub prefix: Bytes,
}

impl<'a> Key<'a> {
    /// The whole key that a request must name.
    pub fn of(
        container: &'a Container,
        definition: &'a ContainerDefinition,
        key: Option<PartitionKey>,
    ) -> Result<Self> {
        let key = container.item_partition_key(key)?;
        let epk = definition.partition_key.epk(&key);
        let prefix = keys::key_prefix_at(&definition.partition_key, &key, &epk);
        let prefix = shelf::keep(prefix.len(), |out| out.put_slice(&prefix));
        Ok(Self { container, definition, key, epk, prefix })
    }

    pub fn item_key(&self, id: &str) -> Bytes {
        let bytes = self.prefix.len() + id.len();
        shelf::keep(bytes, |out| keys::write_item_key(out, &self.prefix, id))
    }
}

impl Container {
    /// Stores a new item.
    pub async fn create_item(
        &self,
        key: Option<PartitionKey>,
        body: Bytes,
        conditions: &Conditions,
    ) -> Result<Answer<ItemWrite>> {
        self.put_item(Mode::Create, None, key, body, conditions).await
    }

    /// Stores an item, new or not.
    pub async fn upsert_item(
        &self,
        key: Option<PartitionKey>,
        body: Bytes,
        conditions: &Conditions,
    ) -> Result<Answer<ItemWrite>> {
        self.put_item(Mode::Upsert, None, key, body, conditions).await
    }

    /// Stores a new version of an item.
    pub async fn replace_item(
        &self,
        id: &str,
        key: Option<PartitionKey>,
        body: Bytes,
        conditions: &Conditions,
    ) -> Result<Answer<ItemWrite>> {
        self.put_item(Mode::Replace, Some(id), key, body, conditions).await
    }

    async fn put_item(
        &self,
        mode: Mode,
        id: Option<&str>,
        key: Option<PartitionKey>,
        body: Bytes,
        conditions: &Conditions,
    ) -> Result<Answer<ItemWrite>> {
        self.check_alive()?;
        let definition = self.definition();
        let key = Key::of(self, &definition, key)?;
        let item = Item::parse(&body)?;
        check_identity(&key, &item, id)?;
        let partition = self.partition_of(&key.epk);
        if let Some(throttled) = self.throttle(&partition) {
            return Ok(throttled);
        }
        let put = Put::new(mode, &key, item, conditions).prepared_for(&partition);
        let mut terms = 0;
        let (partition, done) = self
            .commit(partition, &key.epk, &put.places(), |draft| {
                let written = put.decide(draft)?;
                terms = written.terms;
                Ok((written.item, draft.lsn))
            })
            .await;
        let charge = match &done {
            Ok((written, _)) => charge::upsert(written.body.len(), terms, !written.created),
            Err(_) => charge::refused(),
        };
        Ok(self.answer(&partition, charge, done))
    }

    /// Removes an item.
    pub async fn delete_item(
        &self,
        id: &str,
        key: Option<PartitionKey>,
        conditions: &Conditions,
    ) -> Result<Answer<ItemWrite>> {
        self.check_alive()?;
        let definition = self.definition();
        let key = Key::of(self, &definition, key)?;
        let partition = self.partition_of(&key.epk);
        if let Some(throttled) = self.throttle(&partition) {
            return Ok(throttled);
        }
        let delete = Delete::new(&key, id, conditions);
        let places = [(Keyspace::Docs, delete.identity.item_key.clone())];
        let mut bytes = 0;
        let (partition, done) = self
            .commit(partition, &key.epk, &places, |draft| {
                let row = delete.decide(draft)?;
                bytes = row.body_bytes as usize;
                Ok((ItemWrite { body: Bytes::new(), etag: row.etag, created: false }, draft.lsn))
            })
            .await;
        let charge = if done.is_ok() { charge::delete(bytes, 0) } else { charge::refused() };
        Ok(self.answer(&partition, charge, done))
    }

    /// Reads an item as it is now.
    pub async fn read_item(
        &self,
        id: &str,
        key: Option<PartitionKey>,
        session: Option<&Session>,
    ) -> Result<Answer<ItemWrite>> {
        self.check_alive()?;
        let definition = self.definition();
        let key = self.item_partition_key(key)?;
        let epk = definition.partition_key.epk(&key);
        let prefix = keys::key_prefix_at(&definition.partition_key, &key, &epk);
        let partition = self.partition_of(&epk);
        if let Some(throttled) = self.throttle(&partition) {
            return Ok(throttled);
        }
        let lsn = partition.lsn();
        let item_key = keys::item_key(&prefix, id);
        let found = match partition.check_session(session) {
            Ok(()) => self.find(&partition, item_key, definition.default_ttl).await,
            Err(behind) => Err(behind),
        };
        let found = found.and_then(|item| item.ok_or_else(|| not_found(id)));
        let charge = charge::read(found.as_ref().map_or(0, |(item, _)| item.body.len()));
        let item_lsn = found.as_ref().ok().map(|(_, item_lsn)| *item_lsn);
        Ok(self.charged(Answer {
            // An item in the view may be newer than the LSN that was acknowledged when we looked.
            at: partition.at(lsn.max(item_lsn.unwrap_or(0)), item_lsn),
            charge,
            retry_after_ms: None,
            result: found.map(|(item, _)| item),
        }))
    }

    /// An item and its LSN, from the cache or from the newest view.
    async fn find(
        &self,
        partition: &Partition,
        item_key: Bytes,
        default_ttl: Option<i32>,
    ) -> Result<Option<(ItemWrite, u64)>> {
        let peace = partition.peace();
        let key = cache::Key(partition.number, item_key);
        // While items are gone that have their rows, only a view can tell.
        let cached = partition.cache.get(&key).filter(|_| partition.is_calm_since(peace));
        let cached = match cached {
            Some(cached) => cached,
            None => {
                let view = partition.owner.published();
                let Some(cached) = read(&*view, &key.1).await? else { return Ok(None) };
                let doomed = partition.doomed_in(&*view, peace).await?;
                if doomed.hides(&key.1, cached.row.etag.lsn()) {
                    return Ok(None);
                }
                // What a view shows is durable, though its writer may not have woken to say so.
                partition.listeners.durable_up_to(cached.row.etag.lsn());
                partition.cache.put(key, cached.clone(), view.commit());
                cached
            }
        };
        let Cached { row, body } = cached;
        if row.expired(default_ttl, self.env.now_seconds()) {
            return Ok(None);
        }
        Ok(Some((ItemWrite { body, etag: row.etag, created: false }, row.etag.lsn())))
    }

    pub(crate) fn answer(
        &self,
        partition: &Partition,
        charge: f64,
        done: Result<(ItemWrite, u64)>,
    ) -> Answer<ItemWrite> {
        let at = match &done {
            Ok((_, lsn)) => partition.at(*lsn, Some(*lsn)),
            Err(_) => partition.at(partition.lsn(), None),
        };
        self.charged(Answer {
            at,
            charge,
            retry_after_ms: None,
            result: done.map(|(written, _)| written),
        })
    }

    /// The answer for a request that its throughput does not admit now.
    pub(crate) fn throttle<T>(&self, partition: &Partition) -> Option<Answer<T>> {
        let wait_ms = self.rate.as_ref()?.admit(self.env.now_ms()).err()?;
        let error = Error::new(
            Fault::TooManyRequests,
            "the request rate is above the provisioned throughput; wait as long as x-ms-retry-after-ms says, \
             or raise the throughput",
        );
        let at = At { range: partition.range.clone(), lsn: partition.lsn(), item_lsn: None };
        Some(Answer { at, charge: 0.0, retry_after_ms: Some(wait_ms), result: Err(error) })
    }

    /// Takes an answer's charge out of the container's throughput.
    pub(crate) fn charged<T>(&self, answer: Answer<T>) -> Answer<T> {
        if let Some(rate) = &self.rate {
            rate.spend(answer.charge);
        }
        answer
    }
}

/// Reads an item out of a view.
async fn read(view: &dyn kv::View, item_key: &Bytes) -> Result<Option<Cached>> {
    let stored = view.get(Keyspace::Docs, item_key).await.map_err(storage)?;
    let Some(row) = Slot::item(stored.as_ref())? else { return Ok(None) };
    let stored = view.get(Keyspace::Feed, &row.feed_key()).await.map_err(storage)?;
    let body = body_of(&row, item_key, stored.as_ref())?;
    // What is cached must not hold on to the memory that the row was found in.
    let row = Row { unique: Vec::new(), ..row };
    Ok(Some(Cached { row, body }))
}

/// The body that a row points to; what the two say of each other must agree.
pub(crate) fn body_of(row: &Row, item_key: &Bytes, stored: Option<&Bytes>) -> Result<Bytes> {
    let change = Change::decode(stored.ok_or_else(|| keys::corrupt("an item's body"))?)?;
    if change.item_key != item_key || change.body.len() != row.body_bytes as usize {
        return Err(keys::corrupt("an item's body"));
    }
    Ok(change.body)
}

fn identity(item_key: Bytes, id: &str, key: &PartitionKey) -> Identity {
    let id = Bytes::copy_from_slice(id.as_bytes());
    Identity { item_key, id, key: key.to_header().into() }
}

/// The item must be what the request says it is.
pub(crate) fn check_identity(key: &Key<'_>, item: &Item<'_>, id: Option<&str>) -> Result<()> {
    if let Some(id) = id
        && item.id != id
    {
        return Err(Error::bad_request(format!(
            "the id of the body is '{}', that of the link is '{id}': an item's id cannot be changed",
            item.id
        )));
    }
    if key.definition.partition_key.plainly_has(&item.document, &key.key) {
        return Ok(());
    }
    let within = key.definition.partition_key.extract(&item.document)?;
    if within != key.key {
        return Err(Error::new(
            Fault::PartitionKeyMismatch,
            format!(
                "the partition key of the header, {}, is not the one in the body, {}",
                key.key.to_header(),
                within.to_header()
            ),
        ));
    }
    Ok(())
}

/// A delete about to be decided.
pub(crate) struct Delete<'a> {
    id: &'a str,
    conditions: &'a Conditions,
    default_ttl: Option<i32>,
    pub identity: Identity,
}

impl<'a> Delete<'a> {
    pub fn new(key: &Key<'_>, id: &'a str, conditions: &'a Conditions) -> Self {
        let identity = identity(key.item_key(id), id, &key.key);
        Self { id, conditions, default_ttl: key.definition.default_ttl, identity }
    }

    /// Deletes; returns the row of what was deleted.
    pub fn decide(&self, draft: &mut Draft<'_>) -> Result<Row> {
        let stored = draft.get(&(Keyspace::Docs, self.identity.item_key.clone()))?;
        let row = Slot::item(stored.as_ref())?
            .filter(|row| draft.is_alive(&self.identity.item_key, row, self.default_ttl))
            .ok_or_else(|| not_found(self.id))?;
        check_conditions(self.conditions, &row.etag)?;
        remove_item(draft, &self.identity, &row, false)?;
        Ok(row)
    }
}

/// Both etag conditions against the etag there is.
pub(crate) fn check_conditions(conditions: &Conditions, current: &Etag) -> Result<()> {
    let matches = |wanted: &Match| match wanted {
        Match::Any => true,
        Match::Etag(etag) => etag == current,
        Match::Foreign => false,
    };
    let holds = conditions.if_match.as_ref().is_none_or(matches)
        && !conditions.if_none_match.as_ref().is_some_and(matches);
    if holds {
        return Ok(());
    }
    Err(Error::new(
        Fault::PreconditionFailed,
        "the etag condition does not hold: somebody has changed it meanwhile; read it again and retry",
    ))
}

pub(crate) fn not_found(id: &str) -> Error {
    Error::new(Fault::NotFound, format!("there is no item with id '{id}' under this partition key"))
}

/// Milliseconds as items carry time.
pub(crate) fn seconds(ms: u64) -> u32 {
    u32::try_from(ms / 1000).unwrap_or(u32::MAX)
}
