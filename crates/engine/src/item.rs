//! Items: create, upsert, replace, delete, read.
//!
//! Each operation says which keys it must look at, and decides from what it finds there
//! ([`Put::decide`], [`Delete::decide`]); the commit does the rest.

use std::sync::Arc;

use bytes::Bytes;
use kv::Keyspace;
use model::epk::Epk;
use model::item::{Item, Stamp, is_system_property};
use model::partition_key::PartitionKey;
use model::policy::ContainerDefinition;
use model::rid::ItemRid;
use model::token::{Etag, Match, Session};
use model::{Error, Fault, Result, charge, json};

use crate::Container;
use crate::api::{Answer, At, Conditions, ItemWrite, Operation, storage};
use crate::cache::{self, Cached};
use crate::commit::{Draft, Place};
use crate::index::OwnRows;
use crate::keys::{self, Change, Row, Slot};
use crate::partition::Partition;
use crate::remove::{Identity, remove_item, remove_version};
use crate::version::Version;

/// Items of one partition number that can be told apart by rid: the rest of its 60 bits.
const ORDINAL_BITS: u32 = 36;

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
        let prefix = keys::key_prefix(&definition.partition_key, &key).into();
        let epk = definition.partition_key.epk(&key);
        Ok(Self { container, definition, key, epk, prefix })
    }

    pub fn item_key(&self, id: &str) -> Bytes {
        keys::item_key(&self.prefix, id)
    }
}

/// What a put does when the item exists, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    Upsert,
    Replace,
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
            .commit(&key.epk, put.places(), |draft| {
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
        if let Some(throttled) = self.throttle(&self.partition_of(&key.epk)) {
            return Ok(throttled);
        }
        let delete = Delete::new(&key, id, conditions);
        let places = vec![(Keyspace::Docs, delete.identity.item_key.clone())];
        let mut bytes = 0;
        let (partition, done) = self
            .commit(&key.epk, places, |draft| {
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
        let prefix = keys::key_prefix(&definition.partition_key, &key);
        let partition = self.partition_of(&definition.partition_key.epk(&key));
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
                partition.durable_up_to(cached.row.etag.lsn());
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

/// The keys in `Index` that an item holds. A missing value counts as null.
fn unique_keys(
    definition: &ContainerDefinition,
    document: &json::Document<'_>,
    prefix: &[u8],
) -> Vec<Bytes> {
    let mut keys = Vec::with_capacity(definition.unique_keys.len());
    for (n, paths) in definition.unique_keys.iter().enumerate() {
        let mut values = Vec::new();
        for path in paths {
            unique_value(document.at_path(&path.segments), &mut values);
            values.push(0);
        }
        keys.push(keys::unique_key(
            u8::try_from(n).expect("at most 10 unique keys"),
            prefix,
            &values,
        ));
    }
    keys
}

/// One spelling per value: equal numbers and strings must give equal bytes.
fn unique_value(raw: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(raw) = raw else { return out.extend_from_slice(b"null") };
    match json::kind(raw) {
        json::Kind::String => {
            let text = json::unescape(raw).unwrap_or_default();
            json::escape_into(out, &text);
        }
        json::Kind::Number => {
            // Adding zero turns -0 into 0.
            let number = json::number(raw).unwrap_or(f64::NAN) + 0.0;
            out.push(b'#');
            out.extend_from_slice(&number.to_bits().to_be_bytes());
        }
        _ => out.extend_from_slice(raw),
    }
}

/// What a write of an item gave.
pub(crate) struct Written {
    pub item: ItemWrite,
    /// How many terms it adds to the index.
    pub terms: usize,
}

/// A create, upsert or replace about to be decided.
pub(crate) struct Put<'a> {
    mode: Mode,
    conditions: &'a Conditions,
    key: &'a Key<'a>,
    item: Item<'a>,
    pub item_key: Bytes,
    unique: Vec<Bytes>,
    /// Its index rows, as far as they are known beforehand.
    rows: Option<Arc<OwnRows>>,
    /// The number of the item, should it be new; otherwise the next one.
    pub ordinal: Option<u64>,
}

impl<'a> Put<'a> {
    pub fn new(mode: Mode, key: &'a Key<'a>, item: Item<'a>, conditions: &'a Conditions) -> Self {
        let item_key = key.item_key(&item.id);
        let unique = unique_keys(key.definition, &item.document, &key.prefix);
        Self { mode, conditions, key, item, item_key, unique, rows: None, ordinal: None }
    }

    /// Works out beforehand, and outside of the writer's lock, what a partition would index.
    #[must_use]
    pub fn prepared_for(mut self, partition: &Partition) -> Self {
        let indexes = &partition.outlook.load().indexes;
        let rows = OwnRows::new(indexes, &self.item_key, self.item.document.text());
        self.rows = rows.map(Arc::new);
        self
    }

    /// What it is going to look at.
    pub fn places(&self) -> Vec<Place> {
        let mut places = vec![(Keyspace::Docs, self.item_key.clone())];
        places.extend(self.unique.iter().map(|key| (Keyspace::Index, key.clone())));
        places
    }

    pub fn decide(&self, draft: &mut Draft<'_>) -> Result<Written> {
        let slot = draft.get(&(Keyspace::Docs, self.item_key.clone()))?;
        let (old, deleted) = match slot.as_ref().map(Slot::decode).transpose()? {
            Some(Slot::Item(row)) => (Some(row), None),
            Some(Slot::Deleted(etag)) => (None, Some(etag)),
            None => (None, None),
        };
        let ts = seconds(draft.head.ts_ms);
        // An item past its time, or deleted with its key, is gone for everybody, and its rows go
        // with this write.
        let current = old.as_ref().filter(|row| self.is_alive(draft, &self.item_key, row));
        self.check(current)?;
        self.check_unique(draft)?;
        let ordinal = match current {
            Some(row) => row.ordinal,
            None => self.ordinal.unwrap_or_else(|| next_ordinal(draft)),
        };
        let mut image = draft.image(old.as_ref())?;
        if let (Some(old), None, true) = (&old, current, draft.history.logs) {
            let expired = !draft.doomed.hides(&self.item_key, old.etag.lsn());
            let end = self.identity().gone(old, expired, image.take(), draft);
            draft.log(&end);
        }
        if let Some(etag) = deleted {
            draft.delete_once(Keyspace::Index, keys::tombstone_key(etag));
        }
        let written = self.write(draft, ordinal, ts, old.as_ref())?;
        self.log(draft, current, image, &written.body);
        let indexed = !self.key.definition.indexing.mode_none;
        let own = |member: &&json::Member<'_>| !is_system_property(&member.key);
        let terms =
            if indexed { self.item.document.members().iter().filter(own).count() } else { 0 };
        Ok(Written { item: ItemWrite { created: current.is_none(), ..written }, terms })
    }

    fn identity(&self) -> Identity {
        identity(self.item_key.clone(), &self.item.id, &self.key.key)
    }

    fn log(
        &self,
        draft: &mut Draft<'_>,
        current: Option<&Row>,
        previous: Option<Bytes>,
        body: &Bytes,
    ) {
        if !draft.history.logs {
            return;
        }
        draft.log(&Version {
            operation: if current.is_some() { Operation::Replace } else { Operation::Create },
            expired: false,
            item_key: self.item_key.clone(),
            ts_ms: draft.head.ts_ms,
            previous_lsn: current.map_or(0, |row| row.etag.lsn()),
            id: Bytes::new(),
            key: Bytes::new(),
            previous,
            body: body.clone(),
        });
    }

    fn check(&self, current: Option<&Row>) -> Result<()> {
        match (self.mode, current) {
            (Mode::Create, Some(_)) => Err(Error::new(
                Fault::Conflict,
                format!("an item with id '{}' exists under this partition key", self.item.id),
            )),
            (Mode::Replace, None) => Err(not_found(&self.item.id)),
            (_, Some(row)) => check_conditions(self.conditions, &row.etag),
            // An upsert of what does not exist has no etag to compare with: it creates.
            (_, None) => Ok(()),
        }
    }

    fn is_alive(&self, draft: &Draft<'_>, item_key: &[u8], row: &Row) -> bool {
        draft.is_alive(item_key, row, self.key.definition.default_ttl)
    }

    fn check_unique(&self, draft: &mut Draft<'_>) -> Result<()> {
        for key in &self.unique {
            let holder = draft.get(&(Keyspace::Index, key.clone()))?;
            let Some(holder) = holder.filter(|holder| *holder != self.item_key) else { continue };
            // A holder that is gone for everybody gives way.
            let row = Slot::item(draft.get(&(Keyspace::Docs, holder.clone()))?.as_ref())?;
            match row.filter(|row| !self.is_alive(draft, &holder, row)) {
                Some(row) => {
                    // Unique keys hold within a partition key, so the holder has the same.
                    let id = holder.slice(self.key.prefix.len()..);
                    let expired = !draft.doomed.hides(&holder, row.etag.lsn());
                    let holder = Identity { item_key: holder, id, ..self.identity() };
                    remove_item(draft, &holder, &row, expired)?;
                }
                None => {
                    return Err(Error::new(
                        Fault::Conflict,
                        "an item with the same unique key value exists under this partition key",
                    ));
                }
            }
        }
        Ok(())
    }

    fn write(
        &self,
        draft: &mut Draft<'_>,
        ordinal: u64,
        ts: u32,
        old: Option<&Row>,
    ) -> Result<ItemWrite> {
        let etag = draft.next_etag(ts);
        let ttl = self.item.ttl.unwrap_or(0);
        self.replace_rows(draft, old)?;
        let rid = ItemRid { container: self.key.container.rid, ordinal }.to_string();
        let self_link = format!("{}docs/{rid}/", self.key.container.self_link);
        let room = self.item.document.text().len() + 256;
        let mut stored = Change::begin(&self.item_key, draft.head.ts_ms, ttl, room);
        let start = stored.len();
        let stamped =
            self.item.write(&Stamp { rid: &rid, self_link: &self_link, etag, ts }, &mut stored)?;
        let stored = Bytes::from(stored);
        let body = stored.slice(start..);
        let row = Row {
            etag,
            ts,
            ttl,
            body_bytes: u32::try_from(body.len()).expect("an item is at most 2 MB"),
            ordinal,
            unique: self.unique.clone(),
        };
        draft.head.items += 1;
        draft.head.bytes += body.len() as u64;
        let rows = self.rows.as_ref().map(|rows| (rows.clone(), stamped));
        draft.add_version(etag, stored, rows)?;
        draft.put(Keyspace::Docs, self.item_key.clone(), row.encode());
        if let Some(second) = keys::last_second(ts, ttl) {
            draft.put(Keyspace::Index, keys::expiry_key(second, &self.item_key), Bytes::new());
        }
        Ok(ItemWrite { body, etag, created: false })
    }

    /// Removes what the old version leaves behind, and adds the rows of unique keys.
    fn replace_rows(&self, draft: &mut Draft<'_>, old: Option<&Row>) -> Result<()> {
        if let Some(old) = old {
            remove_version(draft, &self.item_key, old)?;
            for key in old.unique.iter().filter(|key| !self.unique.contains(key)) {
                draft.delete(Keyspace::Index, key.clone());
            }
        }
        for key in &self.unique {
            if old.is_none_or(|old| !old.unique.contains(key)) {
                draft.put(Keyspace::Index, key.clone(), self.item_key.clone());
            }
        }
        Ok(())
    }
}

fn next_ordinal(draft: &mut Draft<'_>) -> u64 {
    draft.head.ordinal += 1;
    full_ordinal(draft.number, draft.head.ordinal)
}

/// The number of an item by which its rid tells it from all others of its container.
pub(crate) fn full_ordinal(partition: u32, ordinal: u64) -> u64 {
    u64::from(partition) << ORDINAL_BITS | ordinal
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
