//! A create, upsert or replace: what it looks at, and what comes of it.

use std::sync::Arc;

use bytes::Bytes;
use kv::Keyspace;
use model::item::{Item, Stamp, is_system_property};
use model::policy::ContainerDefinition;
use model::rid::ItemRid;
use model::{Error, Fault, Result, json};
use smallvec::SmallVec;

use super::{Key, check_conditions, identity, not_found, seconds};
use crate::api::{Conditions, ItemWrite, Operation};
use crate::commit::{Draft, Place};
use crate::index::OwnRows;
use crate::keys::{self, Change, Row, Slot};
use crate::partition::Partition;
use crate::remove::{Identity, remove_item, remove_version};
use crate::version::Version;

/// Items of one partition number that can be told apart by rid: the rest of its 60 bits.
const ORDINAL_BITS: u32 = 36;

/// What a put does when the item exists, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    Upsert,
    Replace,
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
    pub fn places(&self) -> SmallVec<[Place; 1]> {
        let mut places = SmallVec::new();
        self.add_places(&mut places);
        places
    }

    /// Adds what it is going to look at.
    pub fn add_places(&self, places: &mut impl Extend<Place>) {
        let unique = self.unique.iter().map(|key| (Keyspace::Index, key.clone()));
        places.extend(std::iter::once((Keyspace::Docs, self.item_key.clone())).chain(unique));
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
        let container = self.key.container;
        let rid = ItemRid { container: container.rid, ordinal };
        let stamp = Stamp { rid, container: &container.self_link, etag, ts };
        let room = self.item.document.text().len() + 256;
        let mut stored = Change::begin(&self.item_key, draft.head.ts_ms, ttl, room);
        let start = stored.len();
        let stamped = self.item.write(&stamp, &mut stored)?;
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
        draft.put_row(self.item_key.clone(), &row);
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
