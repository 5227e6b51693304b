//! What people do with a fleet: look at it, pause it, send it elsewhere, redrive, export, import.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::control::{Control, Seek};
use crate::env::{Env, Machine};
use crate::estimate::{Estimate, estimate};
use crate::feed::Feed;
use crate::host::FleetView;
use crate::lease::{Lease, Owner, document, extra, foreign};
use crate::letter::{self, Letter};
use crate::member::Member;
use crate::names::{Names, Sort};
use crate::position::Start;
use crate::store::{LeaseStore, StoreError, Stored};

/// How often a document that others write too is tried to be changed.
const ATTEMPTS: u32 = 20;
/// How often is looked whether a fleet has let go.
const POLL: Duration = Duration::from_millis(200);

/// Why a command failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AdminError {
    /// The lease container did not do as asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The feed did not do as asked.
    #[error(transparent)]
    Feed(#[from] crate::feed::FeedError),
    /// Something stands in the way.
    #[error("{0}")]
    Refused(String),
}

/// A processor's fleet, seen from outside.
pub struct Fleet {
    store: Arc<dyn LeaseStore>,
    feed: Arc<dyn Feed>,
    letters: Option<Arc<dyn LeaseStore>>,
    names: Names,
    env: Arc<dyn Env>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("names", &self.names).finish_non_exhaustive()
    }
}

/// How a fleet is.
#[derive(Debug, Clone)]
pub struct Status {
    /// What it is told.
    pub control: Control,
    /// Its hosts, as they said last.
    pub members: Vec<Member>,
    /// For how many seconds each host has not written, by instance name. Compares the clock here with
    /// the service's: for people, and for nothing else.
    pub silent: BTreeMap<String, u64>,
    /// Its leases.
    pub leases: Vec<Lease>,
    /// How far behind each lease is.
    pub estimates: Vec<Estimate>,
    /// Changes that were set aside.
    pub letters: usize,
}

impl Fleet {
    /// Over the containers of a processor.
    pub fn new(
        store: Arc<dyn LeaseStore>,
        feed: Arc<dyn Feed>,
        letters: Option<Arc<dyn LeaseStore>>,
        names: Names,
    ) -> Self {
        Self { store, feed, letters, names, env: Arc::new(Machine::default()) }
    }

    async fn view(&self) -> Result<FleetView, AdminError> {
        Ok(self.view_of(&self.store.list(&self.names.all()).await?))
    }

    fn view_of(&self, documents: &[Stored]) -> FleetView {
        let mut view = FleetView::new(self.names.clone(), Duration::from_secs(15));
        view.replace(documents, self.env.now());
        view
    }

    /// Hosts, leases, lags, dead letters.
    pub async fn status(&self) -> Result<Status, AdminError> {
        let documents = self.store.list(&self.names.all()).await?;
        let view = self.view_of(&documents);
        let wall = self.env.wall().as_secs();
        let silence = |(member, _): &(Member, String)| {
            let stored = documents.iter().find(|stored| stored.id == member.id)?;
            let written = stored.body.get("_ts")?.as_u64()?;
            Some((member.instance.clone(), wall.saturating_sub(written)))
        };
        let silent = view.members.values().filter_map(silence).collect();
        let ranges = self.feed.ranges().await?;
        let leases: Vec<Lease> = view.live_leases().cloned().collect();
        let mut estimates = Vec::with_capacity(leases.len());
        for lease in &leases {
            let wall = self.env.wall().as_secs();
            estimates.push(estimate(self.feed.as_ref(), lease, &ranges, wall).await);
        }
        let members = view.members.values().map(|(member, _)| member.clone()).collect();
        let letters = self.letters().await?.len();
        Ok(Status { control: view.control, members, silent, leases, estimates, letters })
    }

    /// Changes the control document, against whoever else does.
    async fn order(&self, change: impl Fn(&mut Control)) -> Result<Control, AdminError> {
        let id = self.names.control();
        for _ in 0..ATTEMPTS {
            let (mut control, etag) = match self.store.read(&id).await {
                Ok(stored) => {
                    let control = Control::read(&stored.body).ok_or_else(|| {
                        AdminError::Refused(format!("the control document '{id}' cannot be read"))
                    })?;
                    (control, Some(stored.etag))
                }
                Err(StoreError::Missing) => {
                    let partition_key = self.store.keyed().then(|| id.clone());
                    (Control { id: id.clone(), partition_key, ..Control::default() }, None)
                }
                Err(wrong) => return Err(wrong.into()),
            };
            change(&mut control);
            let written = match etag {
                Some(etag) => self.store.replace(&control.write(), &etag).await,
                None => self.store.create(&control.write()).await,
            };
            match written {
                Ok(_) => return Ok(control),
                Err(StoreError::Changed | StoreError::Exists | StoreError::Missing) => {}
                Err(wrong) => return Err(wrong.into()),
            }
        }
        Err(AdminError::Refused("the control document is changed by others all the time".into()))
    }

    /// No handler is called until [`Self::resume`].
    pub async fn pause(&self) -> Result<(), AdminError> {
        self.order(|control| control.paused = true).await.map(drop)
    }

    /// Goes on after a pause.
    pub async fn resume(&self) -> Result<(), AdminError> {
        self.order(|control| control.paused = false).await.map(drop)
    }

    /// Sends the fleet, or some of its leases by token, to another position. Waits until every host
    /// has let go; `patience` is how long. May be run again if it was interrupted.
    pub async fn seek(
        &self,
        start: &Start,
        tokens: Option<Vec<String>>,
        patience: Duration,
    ) -> Result<usize, AdminError> {
        let text = start.to_string();
        let ordered = self
            .order(|control| {
                let same = control
                    .seek
                    .as_ref()
                    .is_some_and(|seek| seek.start == text && seek.tokens == tokens);
                if !same {
                    control.seeks = control.seeks.saturating_add(1);
                    let (serial, start) = (control.seeks, text.clone());
                    control.seek = Some(Seek { serial, start, tokens: tokens.clone() });
                }
            })
            .await?;
        let serial = ordered.seeks;
        let deadline = self.env.now() + patience;
        let mut view = self.view().await?;
        loop {
            let now = self.env.now();
            let held: Vec<&Lease> = view
                .live_leases()
                .filter(|lease| ordered.holds(&lease.token))
                .filter(|lease| view.life(lease, now) == crate::host::Life::Live)
                .collect();
            if held.is_empty() {
                break;
            }
            if now >= deadline {
                let names: Vec<&str> = held.iter().map(|lease| lease.token.as_str()).collect();
                return Err(AdminError::Refused(format!(
                    "these leases were not let go of in time: {}; the order stands, run the command again",
                    names.join(", ")
                )));
            }
            self.env.sleep(POLL).await;
            let documents = self.store.list(&self.names.all()).await?;
            view.replace(&documents, self.env.now());
        }
        let moved = self.rewrite(&view, &ordered, start, serial).await?;
        self.order(|control| {
            if control.seek.as_ref().is_some_and(|seek| seek.serial == serial) {
                control.seek = None;
            }
        })
        .await?;
        Ok(moved)
    }

    /// Puts leases that nobody owns at another position, in a new epoch.
    async fn rewrite(
        &self,
        view: &FleetView,
        ordered: &Control,
        start: &Start,
        serial: u64,
    ) -> Result<usize, AdminError> {
        let ranges = self.feed.ranges().await?;
        let mut moved = 0;
        for lease in view.live_leases().filter(|lease| ordered.holds(&lease.token)) {
            if lease.number(extra::SOUGHT) == serial {
                continue;
            }
            let mut sought = lease.clone();
            sought.owner = None;
            sought.continuation = None;
            sought.unset(extra::START);
            match self.pinned(lease, &ranges, start).await? {
                Start::After(etag) => sought.continuation = Some(etag),
                other => sought.set(extra::START, other),
            }
            sought.set(extra::EPOCH, lease.epoch().saturating_add(1));
            sought.set(extra::SOUGHT, serial);
            sought.set(extra::ATTEMPTS, 0);
            self.store.replace(&document::write(&sought), &lease.etag).await?;
            moved += 1;
        }
        Ok(moved)
    }

    async fn pinned(
        &self,
        lease: &Lease,
        ranges: &[crate::cut::KeyRange],
        start: &Start,
    ) -> Result<Start, AdminError> {
        if *start != Start::Now {
            return Ok(start.clone());
        }
        let range = crate::cut::holder(lease, ranges).ok_or_else(|| {
            AdminError::Refused(format!(
                "the range of lease {} was just split: try again",
                lease.token
            ))
        })?;
        let ask = crate::feed::Ask {
            range: range.id.clone(),
            span: lease.span.clone().filter(|_| lease.kind == crate::lease::Kind::Span),
            start: Start::Now,
            max_item_count: Some(1),
            wait: None,
            mode: lease.mode.unwrap_or_default(),
            session_token: None,
        };
        Ok(Start::After(self.feed.read(ask).await?.continuation))
    }

    /// Forgets all positions: the next start makes the leases anew. Refused while hosts run; where
    /// they have ended without a word it waits until they count as dead.
    pub async fn reset(&self) -> Result<usize, AdminError> {
        self.wait_for_silence().await?;
        let documents = self.store.list(&self.names.all()).await?;
        let mut removed = 0;
        for stored in &documents {
            if matches!(self.names.sort(&stored.id), Sort::Lease | Sort::Info) {
                self.store.delete(stored).await?;
                removed += usize::from(self.names.sort(&stored.id) == Sort::Lease);
            }
        }
        Ok(removed)
    }

    /// Waits until no lease has an owner that may live. An owner that shows a sign of life is told of.
    async fn wait_for_silence(&self) -> Result<(), AdminError> {
        let mut documents = self.store.list(&self.names.all()).await?;
        let mut view = self.view_of(&documents);
        let first: BTreeMap<String, String> =
            documents.into_iter().map(|stored| (stored.id, stored.etag)).collect();
        let stirs = |id: &str, etag: &str| first.get(id).is_none_or(|first| first != etag);
        loop {
            let now = self.env.now();
            let live = |lease: &&Lease| view.life(lease, now) == crate::host::Life::Live;
            let owned: Vec<&Lease> = view.live_leases().filter(live).collect();
            if owned.is_empty() {
                return Ok(());
            }
            for lease in owned {
                let owner = lease.owner.as_deref().unwrap_or_default();
                let name = owner.parse::<Owner>().map_or(owner.to_owned(), |owner| owner.name);
                let host = view.members.get(&name);
                if stirs(&lease.id, &lease.etag)
                    || host.is_some_and(|(member, etag)| stirs(&member.id, etag))
                {
                    return Err(AdminError::Refused(format!(
                        "lease {} is owned by {owner}: stop the fleet first, or use seek",
                        lease.token,
                    )));
                }
            }
            self.env.sleep(POLL).await;
            documents = self.store.list(&self.names.all()).await?;
            view.replace(&documents, self.env.now());
        }
    }

    /// Changes that were set aside, in the order of their commits.
    pub async fn letters(&self) -> Result<Vec<(Letter, Stored)>, AdminError> {
        match &self.letters {
            Some(letters) => Ok(letter::all(letters.as_ref(), &self.names.all()).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Has dead letters handled again by the hosts that own their ranges: all of them, or those
    /// whose ids begin with one of these.
    pub async fn redrive(&self, ids: &[String]) -> Result<usize, AdminError> {
        let Some(store) = &self.letters else {
            return Err(AdminError::Refused("no dead-letter container was named".into()));
        };
        let mut flagged = 0;
        for (letter, stored) in self.letters().await? {
            let wanted = ids.is_empty() || ids.iter().any(|id| letter.id.contains(id.as_str()));
            if wanted {
                let again = Letter { redrive: true, ..letter };
                store.replace(&again.write(), &stored.etag).await?;
                flagged += 1;
            }
        }
        self.order(|control| control.redrive = control.redrive.saturating_add(1)).await?;
        Ok(flagged)
    }

    /// All leases as a JSON list, as .NET reads and writes them.
    pub async fn export(&self) -> Result<Value, AdminError> {
        let view = self.view().await?;
        let leases = view.leases.values().map(|lease| Value::Object(document::write(lease)));
        Ok(Value::Array(leases.collect()))
    }

    /// Writes leases of any library as ours. With `dry` nothing is written. Refused while hosts run,
    /// and where a lease of that token exists.
    pub async fn import(&self, leases: &[Value], dry: bool) -> Result<Vec<Lease>, AdminError> {
        let refused = |why: String| Err(AdminError::Refused(why));
        let mut imported = Vec::new();
        for value in leases {
            let Value::Object(body) = value else {
                return refused("a lease must be a JSON object".into());
            };
            match foreign::import(body, &self.names) {
                Ok(mut lease) => {
                    lease.partition_key = self.store.keyed().then(|| lease.id.clone());
                    imported.push(lease);
                }
                Err(why) => return refused(why),
            }
        }
        let view = self.view().await?;
        if let Some(twice) = imported.iter().find(|lease| view.leases.contains_key(&lease.id)) {
            return refused(format!("lease '{}' exists already; reset first", twice.id));
        }
        if dry {
            return Ok(imported);
        }
        for lease in &imported {
            self.store.create(&document::write(lease)).await?;
        }
        let info = self.names.info();
        let mut body = Map::from_iter([("id".to_owned(), json!(info))]);
        if self.store.keyed() {
            body.insert("partitionKey".into(), json!(info));
        }
        match self.store.create(&body).await {
            Ok(_) | Err(StoreError::Exists) => Ok(imported),
            Err(wrong) => Err(wrong.into()),
        }
    }
}
