//! The service: a lease container with real conditions, a feed that splits and merges, and a
//! network between them and the hosts that delays, loses and refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use processor::cut::KeyRange;
use processor::lease::{Owner, document};
use processor::span::Span;
use processor::{
    Ask, Feed, FeedError, FeedPage, Lag, Later, LeaseStore, Member, Start, Stirred, StoreError,
    Stored,
};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot};

use crate::executor::{Process, Sim, WORLD};
use crate::ledger::{Ledger, names};

/// How long a client waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// One change, as it was written.
#[derive(Debug, Clone)]
pub struct Written {
    pub lsn: u64,
    pub key: usize,
    pub serial: u64,
}

#[derive(Default)]
pub struct Data {
    pub documents: BTreeMap<String, (Map<String, Value>, u64)>,
    /// Which document changed when.
    pub history: Vec<String>,
    pub ranges: Vec<KeyRange>,
    pub next_range: u64,
    pub lsn: u64,
    pub log: Vec<Written>,
    pub next_serial: u64,
    /// Processes cut off from the lease container, and from the feed.
    pub no_store: BTreeSet<Process>,
    pub no_feed: BTreeSet<Process>,
    /// Of a thousand requests, how many go wrong.
    pub store_faults: u64,
    pub feed_faults: u64,
    pub read_only: bool,
    pub slow: bool,
    /// Documents that this process makes are on their way for so long.
    pub late: Option<(Process, Duration)>,
    /// New leases are refused.
    pub no_new_leases: bool,
    /// Writes of this document are refused.
    pub broken: Option<String>,
    /// Each lease is written by somebody else just before it is taken.
    pub renews_first: bool,
    /// Reads that ask for more items are told that their page would be too large.
    pub page_items_max: Option<u32>,
    /// What the next reads of the feed are told.
    pub refusals: Vec<FeedError>,
    /// The page size that was asked for last.
    pub asked_items: Option<u32>,
    /// Deletes are refused.
    pub keeps_all: bool,
    /// Dead letters are not taken.
    pub no_letters: bool,
    /// Reads of the feed are not answered.
    pub hangs: bool,
    /// Pages with changes that were handed out.
    pub pages: u64,
    /// Requests to the lease container, by process.
    pub requests: BTreeMap<Process, u64>,
}

pub struct World {
    pub sim: Sim,
    pub data: Mutex<Data>,
    pub ledger: Mutex<Ledger>,
    pub written: Notify,
    pub stirred: Notify,
    pub keys: Vec<String>,
    is_traced: bool,
}

impl World {
    pub fn new(sim: &Sim, keys: usize, ranges: usize) -> Arc<Self> {
        let keys: Vec<String> =
            (0..keys).map(|key| format!("{:04X}", (key * 0x3FFF / keys) & 0x3FFF)).collect();
        let spans = Span::whole().pieces(ranges);
        let ranges: Vec<KeyRange> = spans
            .into_iter()
            .enumerate()
            .map(|(id, span)| KeyRange { id: id.to_string(), span, parents: vec![] })
            .collect();
        let next_range = ranges.len() as u64;
        let data = Data { ranges, next_range, ..Data::default() };
        Arc::new(Self {
            sim: sim.clone(),
            data: Mutex::new(data),
            ledger: Mutex::new(Ledger::default()),
            written: Notify::new(),
            stirred: Notify::new(),
            keys,
            is_traced: std::env::var_os("ASTRARIUM_TRACE").is_some(),
        })
    }

    pub fn data(&self) -> std::sync::MutexGuard<'_, Data> {
        self.data.lock().expect("data")
    }

    /// Prints the story of a seed that is replayed with `ASTRARIUM_TRACE=1`.
    pub fn trace(&self, what: impl FnOnce() -> String) {
        if self.is_traced {
            println!("{:>10.4} {}", self.sim.now().as_secs_f64(), what());
        }
    }

    pub fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("ledger")
    }

    /// A transaction of one key.
    pub fn write(&self, key: usize, items: u64) {
        let mut data = self.data();
        data.lsn += 1;
        for _ in 0..items {
            data.next_serial += 1;
            let change = Written { lsn: data.lsn, key, serial: data.next_serial };
            data.log.push(change);
        }
        drop(data);
        self.written.notify_waiters();
    }

    pub fn split(&self, nth: usize) {
        let mut data = self.data();
        let nth = nth % data.ranges.len();
        let old = data.ranges[nth].clone();
        let halves = old.span.pieces(2);
        if halves.len() < 2 {
            return;
        }
        data.ranges.remove(nth);
        for span in halves {
            let mut parents = old.parents.clone();
            parents.push(old.id.clone());
            let id = data.next_range.to_string();
            data.next_range += 1;
            data.ranges.push(KeyRange { id, span, parents });
        }
        data.ranges.sort_by(|a, b| a.span.cmp(&b.span));
    }

    pub fn merge(&self, nth: usize) {
        let mut data = self.data();
        if data.ranges.len() < 2 {
            return;
        }
        let nth = nth % (data.ranges.len() - 1);
        let (low, high) = (data.ranges.remove(nth), data.ranges.remove(nth));
        let span = Span { min: low.span.min, max: high.span.max };
        let id = data.next_range.to_string();
        data.next_range += 1;
        data.ranges.insert(nth, KeyRange { id, span, parents: vec![low.id, high.id] });
    }

    /// Somebody writes every lease without changing it: all etags move.
    pub fn touch_all(&self) {
        let mut data = self.data();
        let ids: Vec<String> = data.documents.keys().cloned().collect();
        for id in ids {
            data.history.push(id.clone());
            let version = data.history.len() as u64;
            if let Some((_, etag)) = data.documents.get_mut(&id) {
                *etag = version;
            }
        }
        drop(data);
        self.stirred.notify_waiters();
    }

    fn delay(&self) -> Duration {
        let slow = self.data().slow;
        match self.sim.below(100) {
            0 if slow => self.sim.millis(500, 8000),
            1..=5 if slow => self.sim.millis(50, 500),
            _ => self.sim.millis(0, 6),
        }
    }
}

/// The lease container, as one process reaches it.
pub struct SimStore {
    pub world: Arc<World>,
    pub process: Process,
}

type Operation<T> = Box<dyn FnOnce(&World) -> Result<T, StoreError> + Send>;

impl SimStore {
    /// Sends a request. It travels by itself: it may arrive after its sender has given up or died.
    async fn send<T: Send + 'static>(
        &self,
        writes: bool,
        operation: Operation<T>,
    ) -> Result<T, StoreError> {
        let world = Arc::clone(&self.world);
        let (answer, result) = oneshot::channel();
        let process = self.process;
        *world.data().requests.entry(process).or_default() += 1;
        let travel = async move {
            world.sim.sleep(world.delay()).await;
            let (cut, faults, read_only) = {
                let data = world.data();
                (data.no_store.contains(&process), data.store_faults, data.read_only)
            };
            if cut {
                return;
            }
            let outcome = match world.sim.below(1000) {
                _ if read_only && writes => Err(StoreError::Throttled(Duration::from_millis(50))),
                fault if fault * 2 < faults => Err(StoreError::Throttled(world.sim.millis(1, 200))),
                fault if fault < faults => Err(StoreError::Unknown("503".into())),
                _ => operation(&world),
            };
            // The answer may be lost though the write has landed.
            let lost = world.sim.below(1000) < faults / 2;
            world.sim.sleep(world.delay()).await;
            if !lost && !world.data().no_store.contains(&process) {
                let _ = answer.send(outcome);
            }
        };
        self.world.sim.spawn(WORLD, Box::pin(travel));
        tokio::select! {
            biased;
            outcome = result => match outcome {
                Ok(outcome) => outcome,
                Err(_) => {
                    self.world.sim.sleep(TIMEOUT).await;
                    Err(StoreError::Unknown("no answer".into()))
                }
            },
            () = self.world.sim.sleep(TIMEOUT) => Err(StoreError::Unknown("timeout".into())),
        }
    }
}

fn id_of(body: &Map<String, Value>) -> String {
    body.get("id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn stored(id: &str, body: &Map<String, Value>, version: u64) -> Stored {
    Stored { id: id.to_owned(), etag: version.to_string(), body: body.clone() }
}

impl World {
    fn put(&self, body: Map<String, Value>, condition: Option<&str>) -> Result<String, StoreError> {
        let id = id_of(&body);
        let mut data = self.data();
        if data.no_letters && id.contains(".dead.") {
            return Err(StoreError::Unknown("503".into()));
        }
        let is_new_lease = condition.is_none() && id.contains("..");
        if (data.no_new_leases && is_new_lease) || data.broken.as_ref() == Some(&id) {
            return Err(StoreError::Refused { status: 403, message: "not this one".into() });
        }
        let properties = body.get("properties");
        let takes = properties.is_some_and(|all| all["cfx.wid"].to_string().contains("/take/"));
        if data.renews_first && takes {
            let (body, _) = data.documents.remove(&id).ok_or(StoreError::Missing)?;
            data.history.push(id.clone());
            let version = data.history.len() as u64;
            data.documents.insert(id.clone(), (body, version));
            return Err(StoreError::Changed);
        }
        let before = data.documents.get(&id).cloned();
        match (&before, condition) {
            (Some(_), None) => return Err(StoreError::Exists),
            (None, Some(_)) => return Err(StoreError::Missing),
            (Some((_, version)), Some(etag)) if version.to_string() != etag => {
                return Err(StoreError::Changed);
            }
            _ => {}
        }
        data.history.push(id.clone());
        let version = data.history.len() as u64;
        data.documents.insert(id.clone(), (body.clone(), version));
        let now = self.sim.now();
        self.trace(|| format!("put {}", serde_json::Value::Object(body.clone())));
        self.ledger().committed(
            now,
            &data,
            &self.keys,
            &id,
            before.map(|(body, _)| body),
            Some(&body),
        );
        drop(data);
        self.stirred.notify_waiters();
        Ok(version.to_string())
    }

    /// The epoch of a lease, if it is there.
    pub fn epoch_of(&self, token: &str) -> Option<u64> {
        let data = self.data();
        let (body, _) = data.documents.get(&names().lease(token))?;
        document::read(body, None).ok().map(|lease| lease.epoch())
    }

    /// Whether another process has taken the place of an owner, which hears of that with its next
    /// heartbeat.
    pub fn is_replaced(&self, owner: &str) -> bool {
        let Ok(owner) = owner.parse::<Owner>() else { return false };
        let data = self.data();
        let member = data.documents.get(&names().host(&owner.name));
        let member = member.and_then(|(body, _)| Member::read(body));
        member.is_some_and(|member| member.owner() != owner)
    }

    /// A document arrives that was sent long ago. False if there is one of its id.
    pub fn put_late(&self, id: &str, body: Map<String, Value>) -> bool {
        let mut data = self.data();
        if data.documents.contains_key(id) {
            return false;
        }
        data.history.push(id.to_owned());
        let version = data.history.len() as u64;
        data.documents.insert(id.to_owned(), (body, version));
        drop(data);
        self.stirred.notify_waiters();
        true
    }

    fn remove(&self, id: &str, etag: &str) -> Result<(), StoreError> {
        let mut data = self.data();
        if data.keeps_all {
            return Err(StoreError::Refused { status: 403, message: "no deletes".into() });
        }
        match data.documents.get(id) {
            None => return Err(StoreError::Missing),
            Some((_, version)) if version.to_string() != etag => return Err(StoreError::Changed),
            Some(_) => {}
        }
        let before = data.documents.remove(id).map(|(body, _)| body);
        let now = self.sim.now();
        self.trace(|| format!("delete {id}"));
        self.ledger().committed(now, &data, &self.keys, id, before, None);
        Ok(())
    }
}

impl LeaseStore for SimStore {
    fn list<'a>(&'a self, prefix: &'a str) -> Later<'a, Result<Vec<Stored>, StoreError>> {
        let prefix = prefix.to_owned();
        Box::pin(self.send(
            false,
            Box::new(move |world| {
                let data = world.data();
                let all = data.documents.iter().filter(|(id, _)| id.starts_with(&prefix));
                Ok(all.map(|(id, (body, version))| stored(id, body, *version)).collect())
            }),
        ))
    }

    fn read<'a>(&'a self, id: &'a str) -> Later<'a, Result<Stored, StoreError>> {
        let id = id.to_owned();
        Box::pin(self.send(
            false,
            Box::new(move |world| {
                let data = world.data();
                let found = data.documents.get(&id).ok_or(StoreError::Missing)?;
                Ok(stored(&id, &found.0, found.1))
            }),
        ))
    }

    fn create<'a>(&'a self, body: &'a Map<String, Value>) -> Later<'a, Result<String, StoreError>> {
        let body = body.clone();
        let late = self.world.data().late.filter(|(process, _)| *process == self.process);
        Box::pin(async move {
            if let Some((_, time)) = late {
                self.world.sim.sleep(time).await;
            }
            self.send(true, Box::new(move |world| world.put(body, None))).await
        })
    }

    fn replace<'a>(
        &'a self,
        body: &'a Map<String, Value>,
        etag: &'a str,
    ) -> Later<'a, Result<String, StoreError>> {
        let (body, etag) = (body.clone(), etag.to_owned());
        Box::pin(self.send(true, Box::new(move |world| world.put(body, Some(&etag)))))
    }

    fn delete<'a>(&'a self, stored: &'a Stored) -> Later<'a, Result<(), StoreError>> {
        let (id, etag) = (stored.id.clone(), stored.etag.clone());
        Box::pin(self.send(true, Box::new(move |world| world.remove(&id, &etag))))
    }

    fn stir<'a>(
        &'a self,
        position: Option<String>,
        wait: Duration,
    ) -> Later<'a, Result<Stirred, StoreError>> {
        Box::pin(async move {
            let until = self.world.sim.now() + wait;
            let since: Option<usize> = position.and_then(|text| text.parse().ok());
            let since = since.unwrap_or_else(|| self.world.data().history.len());
            loop {
                let stirring = self.world.stirred.notified();
                if self.world.data().no_store.contains(&self.process) {
                    self.world.sim.sleep(TIMEOUT).await;
                    return Err(StoreError::Unknown("cut off".into()));
                }
                let (ids, end) = {
                    let data = self.world.data();
                    let ids: BTreeSet<String> = data.history[since..].iter().cloned().collect();
                    (ids, data.history.len())
                };
                if !ids.is_empty() || self.world.sim.now() >= until {
                    self.world.sim.sleep(self.world.delay()).await;
                    let data = self.world.data();
                    let found = ids.iter().filter_map(|id| {
                        data.documents.get(id).map(|(body, version)| stored(id, body, *version))
                    });
                    let documents = found.collect();
                    return Ok(Stirred { documents, position: Some(end.to_string()) });
                }
                let left = until.saturating_sub(self.world.sim.now());
                tokio::select! {
                    biased;
                    () = stirring => {}
                    () = self.world.sim.sleep(left) => {}
                }
            }
        })
    }
}

/// The feed, as one process reaches it.
pub struct SimFeed {
    pub world: Arc<World>,
    pub process: Process,
    pub key_paths: Vec<String>,
}

impl SimFeed {
    /// What this read is told instead of a page.
    fn refusal(&self, ask: &Ask) -> Result<(), FeedError> {
        let mut data = self.world.data();
        data.asked_items = ask.max_item_count;
        if !data.refusals.is_empty() {
            return Err(data.refusals.remove(0));
        }
        let too_many = data.page_items_max.is_some_and(|max| ask.max_item_count > Some(max));
        if too_many { Err(FeedError::TooLarge) } else { Ok(()) }
    }

    async fn fault(&self) -> Result<(), FeedError> {
        self.world.sim.sleep(self.world.delay()).await;
        let (cut, faults) = {
            let data = self.world.data();
            (data.no_feed.contains(&self.process), data.feed_faults)
        };
        if cut {
            self.world.sim.sleep(TIMEOUT).await;
            return Err(FeedError::Transient("cut off".into()));
        }
        if self.world.sim.below(1000) >= faults {
            return Ok(());
        }
        Err(match self.world.sim.below(5) {
            0 => FeedError::Throttled(self.world.sim.millis(1, 500)),
            1 => FeedError::Gone,
            2 => FeedError::Session,
            3 => FeedError::TooLarge,
            _ => FeedError::Transient("503".into()),
        })
    }
}

impl World {
    /// The page after a position, or nothing if the range is gone.
    pub fn page(&self, ask: &Ask, after: u64) -> Option<FeedPage> {
        let data = self.data();
        let range = data.ranges.iter().find(|range| range.id == ask.range)?;
        let inside = |key: &str| {
            let within = |span: &Span| span.min.as_str() <= key && key < span.max.as_str();
            within(&range.span) && ask.span.as_ref().is_none_or(within)
        };
        let limit = ask.max_item_count.unwrap_or(8) as usize;
        let begin = data.log.partition_point(|change| change.lsn <= after);
        let mut items = Vec::new();
        let mut last = data.lsn.max(after);
        let mut open_lsn = 0;
        for change in &data.log[begin..] {
            if !inside(&self.keys[change.key]) {
                continue;
            }
            if items.len() >= limit && change.lsn != open_lsn {
                last = open_lsn;
                break;
            }
            open_lsn = change.lsn;
            let item = json!({"id": change.serial.to_string(), "pk": change.key, "_ts": 1, "_lsn": change.lsn});
            items.push(Bytes::from(item.to_string()));
        }
        let waited = ask.wait.is_some();
        Some(FeedPage {
            items,
            continuation: format!("\"{last}\""),
            waited,
            newest: Some(data.lsn),
            headers: vec![],
        })
    }
}

pub fn position(start: &Start, newest: u64) -> u64 {
    match start {
        Start::Beginning | Start::Time(_) => 0,
        Start::Now => newest,
        Start::After(etag) => etag.trim_matches('"').parse().expect("an etag of ours"),
    }
}

impl Feed for SimFeed {
    fn ranges(&self) -> Later<'_, Result<Vec<KeyRange>, FeedError>> {
        Box::pin(async move {
            match self.fault().await {
                Err(FeedError::Transient(why)) => Err(FeedError::Transient(why)),
                _ => Ok(self.world.data().ranges.clone()),
            }
        })
    }

    fn read(&self, ask: Ask) -> Later<'_, Result<FeedPage, FeedError>> {
        Box::pin(async move {
            self.fault().await?;
            if self.world.data().hangs {
                std::future::pending::<()>().await;
            }
            self.refusal(&ask)?;
            let after = position(&ask.start, self.world.data().lsn);
            let until = self.world.sim.now() + ask.wait.unwrap_or_default();
            loop {
                let writing = self.world.written.notified();
                let page = self.world.page(&ask, after).ok_or(FeedError::Gone)?;
                let now = self.world.sim.now();
                if !page.items.is_empty() || now >= until {
                    self.world.data().pages += u64::from(!page.items.is_empty());
                    self.world.sim.sleep(self.world.delay()).await;
                    return Ok(page);
                }
                tokio::select! {
                    biased;
                    () = writing => {}
                    () = self.world.sim.sleep(until - now) => {}
                }
            }
        })
    }

    fn lag(&self, _ask: Ask) -> Later<'_, Result<Option<Lag>, FeedError>> {
        Box::pin(async { Ok(None) })
    }

    fn key_paths(&self) -> &[String] {
        &self.key_paths
    }
}
