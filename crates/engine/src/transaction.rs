//! A transaction of a script: what it reads and writes between its beginning and its commit.
//!
//! It stands on one view. Each operation is decided as any write is, by the same code, but in a
//! draft that nobody submits; later operations see what earlier ones left there. On commit all
//! that succeeded is decided once more, under the writer's lock, in the draft that is submitted.
//! Nothing under the partition key may have changed since ([`crate::watch`]), so it comes out the
//! same but for the LSN, which is not known before: until then etags carry a number that no
//! partition has, and [`Committed::settle`] puts the true ones in their place.

mod host;
mod pages;
mod query;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Keyspace, View};
use model::item::Item;
use model::partition_key::PartitionKey;
use model::policy::ContainerDefinition;
use model::token::Etag;
use model::{Error, Fault, Result, charge, limits};

use crate::api::{Conditions, ItemWrite, storage};
use crate::commit::Draft;
use crate::doomed::Doomed;
use crate::history::History;
use crate::item::{Delete, Key, Mode, Put, Written, check_identity, full_ordinal};
use crate::keys::{self, Head, Row, Slot};
use crate::partition::head_of;
use crate::places::{Place, Places, Write};
use crate::watch::Watch;
use crate::{Container, QueryFunctions};

/// Partition numbers from here on are of no partition.
const NO_PARTITION: u32 = 0xFFFF_0000;

/// A transaction. It begins with its first operation.
pub(crate) struct Transaction {
    container: Arc<Container>,
    definition: Arc<ContainerDefinition>,
    key: PartitionKey,
    /// Makes writers of the key wait.
    holds: bool,
    runtime: tokio::runtime::Handle,
    ground: Option<Ground>,
    plan: Vec<Step>,
    /// Keys in `Docs` that it has written.
    touched: BTreeSet<Bytes>,
    /// Bytes of what it has written.
    bytes: usize,
    pub charge: f64,
    /// The functions that its queries may call.
    functions: Option<Arc<QueryFunctions>>,
    /// It cannot go on.
    broken: Option<Error>,
}

/// What a transaction stands on, and what it has written.
struct Ground {
    watch: Watch,
    view: Arc<dyn View>,
    now_ms: u64,
    lsn: u64,
    number: u32,
    head: Head,
    history: History,
    doomed: Arc<Doomed>,
    places: u16,
    versions: u16,
    reads: Places<Option<Bytes>>,
    read_bytes: usize,
    writes: Places<Write>,
}

/// An operation that succeeded.
struct Step {
    kind: StepKind,
    /// The number of the item, should it be new.
    ordinal: Option<u64>,
}

enum StepKind {
    Put(Mode, Bytes),
    Delete(String),
}

/// Where a transaction was committed.
pub(crate) struct Committed {
    provisional: (u64, u32),
    lsn: u64,
    number: u32,
    ts: u32,
}

impl Transaction {
    pub fn new(
        container: Arc<Container>,
        key: PartitionKey,
        holds: bool,
        functions: Option<Arc<QueryFunctions>>,
    ) -> Self {
        Self {
            definition: container.definition(),
            container,
            key,
            holds,
            runtime: tokio::runtime::Handle::current(),
            ground: None,
            plan: Vec::new(),
            touched: BTreeSet::new(),
            bytes: 0,
            charge: 0.0,
            functions,
            broken: None,
        }
    }

    /// Stores an item.
    fn put(
        &mut self,
        mode: Mode,
        id: Option<&str>,
        body: Bytes,
        conditions: &Conditions,
    ) -> Result<Written> {
        self.check_room(body.len())?;
        let (container, definition) = (self.container.clone(), self.definition.clone());
        let key = Key::of(&container, &definition, Some(self.key.clone()))?;
        let item = Item::parse(&body)?;
        check_identity(&key, &item, id)?;
        let mut put = Put::new(mode, &key, item, conditions);
        if mode != Mode::Replace {
            put.ordinal = Some(self.next_ordinal()?);
        }
        let written = self.attempt(|draft| put.decide(draft))?;
        let (item_key, ordinal) = (put.item_key.clone(), put.ordinal);
        self.touched.insert(item_key);
        self.bytes += written.item.body.len();
        self.plan.push(Step { kind: StepKind::Put(mode, body.clone()), ordinal });
        Ok(written)
    }

    /// The same, and pays for it.
    pub fn write(
        &mut self,
        mode: Mode,
        id: Option<&str>,
        body: Bytes,
        conditions: &Conditions,
    ) -> Result<ItemWrite> {
        let Written { item, terms } = self.put(mode, id, body, conditions)?;
        self.charge += charge::upsert(item.body.len(), terms, !item.created);
        Ok(item)
    }

    /// Removes an item; returns its row.
    pub fn delete(&mut self, id: &str, conditions: &Conditions) -> Result<Row> {
        self.check_room(0)?;
        let (container, definition) = (self.container.clone(), self.definition.clone());
        let key = Key::of(&container, &definition, Some(self.key.clone()))?;
        let delete = Delete::new(&key, id, conditions);
        let row = self.attempt(|draft| delete.decide(draft))?;
        self.touched.insert(delete.identity.item_key.clone());
        self.plan.push(Step { kind: StepKind::Delete(id.to_owned()), ordinal: None });
        Ok(row)
    }

    /// An item, own changes included.
    pub fn find(&mut self, id: &str) -> Result<Option<(Row, Bytes)>> {
        let prefix = self.prefix();
        let item_key = keys::item_key(&prefix, id);
        let default_ttl = self.definition.default_ttl;
        let row = self.attempt(|draft| {
            let stored = draft.get(&(Keyspace::Docs, item_key.clone()))?;
            let row = Slot::item(stored.as_ref())?;
            Ok(row.filter(|row| draft.is_alive(&item_key, row, default_ttl)))
        })?;
        row.map(|row| self.body(&item_key, &row).map(|body| (row, body))).transpose()
    }

    fn prefix(&self) -> Bytes {
        Bytes::copy_from_slice(&keys::key_prefix(&self.definition.partition_key, &self.key))
    }

    fn has_room(&self) -> bool {
        self.plan.len() < limits::SCRIPT_WRITES && self.bytes < limits::SCRIPT_BYTES
    }

    fn check_room(&self, bytes: usize) -> Result<()> {
        if self.has_room() && self.bytes + bytes <= limits::SCRIPT_BYTES {
            return Ok(());
        }
        Err(Error::new(
            Fault::TooLarge,
            format!(
                "a script writes at most {} items with {} bytes together",
                limits::SCRIPT_WRITES,
                limits::SCRIPT_BYTES
            ),
        ))
    }

    fn next_ordinal(&mut self) -> Result<u64> {
        let partition = &self.ground()?.watch.partition;
        let ordinal = partition.writer().next_ordinal();
        Ok(full_ordinal(partition.number, ordinal))
    }

    fn ground(&mut self) -> Result<&mut Ground> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if self.ground.is_none() {
            let begun =
                self.runtime.block_on(Ground::begin(&self.container, &self.key, self.holds));
            self.ground = Some(begun.inspect_err(|error| self.broken = Some(error.clone()))?);
        }
        Ok(self.ground.as_mut().expect("it was just made"))
    }

    /// Decides in the draft of this transaction; what is refused leaves no trace.
    fn attempt<T>(&mut self, decide: impl FnMut(&mut Draft<'_>) -> Result<T>) -> Result<T> {
        let runtime = self.runtime.clone();
        let attempted = self.ground()?.attempt(&runtime, decide);
        attempted.map_err(|failed| match failed {
            Failed::Refused(error) => error,
            Failed::Broken(error) => {
                self.broken = Some(error.clone());
                error
            }
        })
    }

    /// Makes everything so, at once; `None` where there was nothing to do. `Fault::RetryWith` says
    /// that somebody else has changed something under the key.
    pub async fn commit(self) -> Result<Option<Committed>> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let Some(ground) = self.ground.filter(|_| !self.plan.is_empty()) else { return Ok(None) };
        let key = Key::of(&self.container, &self.definition, Some(self.key))?;
        let places: Vec<Place> = ground.reads.places().cloned().collect();
        let provisional = (ground.lsn, ground.number);
        let partition = &ground.watch.partition;
        let (lsn, number, ts) = partition
            .commit_under(Some(&ground.watch), ground.now_ms, &places, |draft| {
                let ts = crate::item::seconds(draft.head.ts_ms);
                let committed = Committed { provisional, lsn: draft.lsn, number: draft.number, ts };
                for step in &self.plan {
                    step.decide(draft, &key, &committed)?;
                }
                Ok((draft.lsn, draft.number, ts))
            })
            .await?;
        if let Some(growth) = self.container.growth.get() {
            growth.look(&self.container, partition);
        }
        Ok(Some(Committed { provisional, lsn, number, ts }))
    }
}

/// Why an operation failed.
enum Failed {
    /// It was refused; others may go on.
    Refused(Error),
    /// Nothing can go on.
    Broken(Error),
}

impl Ground {
    async fn begin(container: &Container, key: &PartitionKey, holds: bool) -> Result<Self> {
        let definition = container.definition();
        let epk = definition.partition_key.epk(key);
        let prefix =
            Bytes::copy_from_slice(&keys::key_prefix_at(&definition.partition_key, key, &epk));
        loop {
            let partition = container.partition_of(&epk);
            match partition.pass_gate().await {
                // It has been split or merged; the new owners are in place already.
                Err(error) if error.fault == Fault::RangeGone => continue,
                passed => passed?,
            }
            let (watch, shown) = Watch::begin(&partition, &prefix, holds);
            if !shown {
                partition.mark()?.durable().await.map_err(storage)?;
            }
            let (_, view, doomed) = partition.look().await?;
            let head = head_of(&*view).await?;
            let now_ms = container.env.now_ms().max(head.ts_ms);
            let [low, high, ..] = container.env.secret();
            return Ok(Self {
                view,
                now_ms,
                lsn: head.lsn + 1,
                number: NO_PARTITION | u32::from(u16::from_le_bytes([low, high])),
                head: Head { lsn: head.lsn + 1, ts_ms: now_ms, ..head },
                history: partition.history(),
                doomed: Arc::new(doomed),
                places: 0,
                versions: 0,
                reads: Places::default(),
                read_bytes: 0,
                writes: Places::default(),
                watch,
            });
        }
    }

    fn attempt<T>(
        &mut self,
        runtime: &tokio::runtime::Handle,
        mut decide: impl FnMut(&mut Draft<'_>) -> Result<T>,
    ) -> std::result::Result<T, Failed> {
        loop {
            let writes = std::mem::take(&mut self.writes);
            let before = writes.len();
            let mut draft = Draft::trial(
                (self.lsn, self.number),
                (self.head, self.history),
                &self.doomed,
                &self.reads,
                writes,
            );
            (draft.places, draft.versions) = (self.places, self.versions);
            let decided = decide(&mut draft);
            let Draft { head, places, versions, missing, mut writes, replaced, .. } = draft;
            if missing.is_none() && decided.is_ok() {
                (self.head, self.places, self.versions) = (head, places, versions);
                self.writes = writes;
                return decided.map_err(Failed::Refused);
            }
            writes.go_back(before, replaced.unwrap_or_default());
            self.writes = writes;
            let Some(place) = missing else { return decided.map_err(Failed::Refused) };
            let read = runtime.block_on(self.view.get(place.0, &place.1));
            let value = read.map_err(|error| Failed::Broken(storage(error)))?;
            self.read_bytes += value.as_ref().map_or(0, Bytes::len);
            if self.read_bytes > limits::SCRIPT_READ_BYTES {
                let message = "the items that the script changes were too large before";
                return Err(Failed::Broken(Error::new(Fault::TooLarge, message)));
            }
            self.reads.set(place, value);
        }
    }
}

impl Step {
    fn decide(&self, draft: &mut Draft<'_>, key: &Key<'_>, committed: &Committed) -> Result<()> {
        let none = Conditions::default();
        match &self.kind {
            StepKind::Put(mode, body) => {
                let settled = committed.settle_bytes(body);
                let mut put = Put::new(*mode, key, Item::parse(&settled)?, &none);
                put.ordinal = self.ordinal;
                put.decide(draft).map(drop)
            }
            StepKind::Delete(id) => Delete::new(key, id, &none).decide(draft).map(drop),
        }
    }
}

impl Committed {
    /// The LSN.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// An item with the etag that it has now.
    pub fn settle_item(&self, item: ItemWrite) -> ItemWrite {
        let (lsn, number) = self.provisional;
        let digits = item.etag.0;
        let own = Etag::new(lsn, number, 0, 0).0;
        let etag = if digits[..12] == own[..12] {
            let place = u16::from_be_bytes([digits[12], digits[13]]);
            Etag::new(self.lsn, self.number, place, self.ts)
        } else {
            item.etag
        };
        ItemWrite { body: self.settle_bytes(&item.body), etag, created: item.created }
    }

    /// A text in which the etags of this transaction are the true ones.
    pub fn settle(&self, text: String) -> String {
        let settled = self.settle_bytes(&Bytes::from(text));
        // Etags are ASCII, and stand in place of ASCII.
        String::from_utf8(settled.into()).unwrap_or_default()
    }

    fn settle_bytes(&self, text: &Bytes) -> Bytes {
        /// Digits and dashes of an etag, and how many of them are LSN and partition.
        const ETAG: usize = 36;
        const SHARED: usize = 28;
        let (lsn, number) = self.provisional;
        let shown = Etag::new(lsn, number, 0, 0).to_string();
        let own = &shown.as_bytes()[1..=SHARED];
        let mut out: Option<Vec<u8>> = None;
        let mut at = 0;
        while let Some(found) = find(&text[at..], own) {
            at += found;
            let seq = text.get(at + SHARED..at + SHARED + 4);
            let seq =
                seq.and_then(|seq| u16::from_str_radix(std::str::from_utf8(seq).ok()?, 16).ok());
            let (Some(seq), Some(_)) = (seq, text.get(at..at + ETAG)) else { break };
            let etag = Etag::new(self.lsn, self.number, seq, self.ts).to_string();
            let out = out.get_or_insert_with(|| text.to_vec());
            out[at..at + ETAG].copy_from_slice(&etag.as_bytes()[1..=ETAG]);
            at += ETAG;
        }
        out.map_or_else(|| text.clone(), Bytes::from)
    }
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_become_what_they_are() {
        let committed = Committed { provisional: (9, NO_PARTITION | 7), lsn: 12, number: 3, ts: 5 };
        let provisional = |seq| Etag::new(9, NO_PARTITION | 7, seq, 4).to_string();
        let text = format!("[{:?},{:?},\"x\"]", provisional(0), provisional(258));
        let (first, second) = (Etag::new(12, 3, 0, 5), Etag::new(12, 3, 258, 5));
        let expected = format!("[{:?},{:?},\"x\"]", first.to_string(), second.to_string());
        assert_eq!(committed.settle(text), expected);
        let other = Etag::new(9, 7, 0, 4).to_string();
        assert_eq!(committed.settle(other.clone()), other);
        let cut = provisional(0)[..32].to_owned();
        assert_eq!(committed.settle(cut.clone()), cut);
    }
}
