//! A host that follows the rules of version 3 of the .NET library: steals, wall clocks, no
//! hand-off. The reference that repeats changes when leases move, and a peer in mixed fleets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use processor::balance::equal;
use processor::cut::holder;
use processor::lease::{Lease, document, stamp};
use processor::{Ask, Change, Feed, LeaseStore, Mode, Names, Sort, Start, StoreError};

use crate::executor::{Process, Sim};
use crate::fleet::{Manner, facts};
use crate::world::{SimFeed, SimStore, World};

const ACQUIRE: Duration = Duration::from_secs(13);
const RENEW: Duration = Duration::from_secs(17);
const EXPIRATION: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_secs(5);

struct Peer {
    world: Arc<World>,
    name: String,
    process: Process,
    manner: Manner,
    store: SimStore,
    feed: SimFeed,
    working: Mutex<BTreeMap<String, Vec<u64>>>,
}

pub struct PeerHandle {
    pub process: Process,
    peer: Arc<Peer>,
}

fn names() -> Names {
    Names::new("sim", "host", "d", "c")
}

fn wall(sim: &Sim) -> Duration {
    Duration::from_secs(1_700_003_600) + sim.now()
}

/// Starts a peer.
pub fn start(world: &Arc<World>, process: Process, name: &str, manner: Manner) -> PeerHandle {
    let peer = Arc::new(Peer {
        world: Arc::clone(world),
        name: name.to_owned(),
        process,
        manner,
        store: SimStore { world: Arc::clone(world), process },
        feed: SimFeed { world: Arc::clone(world), process, key_paths: vec![] },
        working: Mutex::default(),
    });
    let running = Arc::clone(&peer);
    world.sim.spawn(process, Box::pin(async move { running.balance().await }));
    PeerHandle { process, peer }
}

impl PeerHandle {
    /// Cancels the workers and releases what it owns, as `StopAsync` does.
    pub fn stop(&self) {
        let peer = Arc::clone(&self.peer);
        let sim = peer.world.sim.clone();
        sim.spawn(
            crate::executor::WORLD,
            Box::pin(async move {
                let working = std::mem::take(&mut *peer.working.lock().expect("working"));
                for (id, tasks) in working {
                    tasks.into_iter().for_each(|task| peer.world.sim.cancel(task));
                    peer.change(&id, |lease| lease.owner = None).await;
                }
                peer.world.sim.kill(peer.process);
            }),
        );
    }
}

impl Peer {
    async fn leases(&self) -> Option<Vec<Lease>> {
        let documents = self.store.list(&names().all()).await.ok()?;
        let leases = documents.iter().filter(|document| names().sort(&document.id) == Sort::Lease);
        let read =
            |stored: &processor::Stored| document::read(&stored.body, Some(&stored.etag)).ok();
        Some(leases.filter_map(read).collect())
    }

    async fn bootstrap(&self) {
        let Ok(ranges) = self.feed.ranges().await else { return };
        for range in ranges {
            let id = names().lease(&range.id);
            let text = serde_json::json!({
                "id": id, "version": 0, "_etag": null, "LeaseToken": range.id,
                "FeedRange": {"Range": {"min": range.span.min, "max": range.span.max}},
                "Owner": null, "ContinuationToken": null, "properties": {}, "timestamp": null,
                "_ts": 0, "Mode": "Incremental Feed"
            });
            let _ = self.store.create(text.as_object().expect("an object")).await;
        }
    }

    async fn balance(self: Arc<Self>) {
        if self.leases().await.is_some_and(|leases| leases.is_empty()) {
            self.bootstrap().await;
        }
        loop {
            if let Some(leases) = self.leases().await {
                let now = wall(&self.world.sim);
                let live = |lease: &Lease| {
                    let at = lease.timestamp.as_deref().and_then(stamp::parse);
                    at.is_some_and(|at| at + EXPIRATION >= now)
                };
                let seen: Vec<equal::Seen<'_>> = leases
                    .iter()
                    .map(|lease| {
                        let owner = lease.owner.as_deref().filter(|_| live(lease));
                        equal::Seen { id: &lease.id, owner }
                    })
                    .collect();
                for id in equal::take(&seen, &self.name, 0, 0) {
                    let lease = leases.iter().find(|lease| lease.id == id).expect("one of them");
                    self.acquire(lease).await;
                }
            }
            self.world.sim.sleep(ACQUIRE).await;
        }
    }

    async fn acquire(self: &Arc<Self>, lease: &Lease) {
        let before = lease.owner.clone();
        let mut lease = lease.clone();
        for _ in 0..5 {
            let mut taken = lease.clone();
            taken.owner = Some(self.name.clone());
            taken.timestamp = Some(stamp::format(wall(&self.world.sim)));
            match self.store.replace(&document::write(&taken), &lease.etag).await {
                Ok(_) => return self.work(lease.id.clone()),
                Err(StoreError::Changed) => {}
                Err(_) => return,
            }
            let Ok(stored) = self.store.read(&lease.id).await else { return };
            let Ok(current) = document::read(&stored.body, Some(&stored.etag)) else { return };
            if current.owner != before {
                return;
            }
            lease = current;
        }
    }

    fn work(self: &Arc<Self>, id: String) {
        let (worker, renewer) = (Arc::clone(self), Arc::clone(self));
        let (worked, renewed) = (id.clone(), id.clone());
        let sim = &self.world.sim;
        let working =
            sim.spawn(self.process, Box::pin(async move { worker.process(worked).await }));
        let renewing =
            sim.spawn(self.process, Box::pin(async move { renewer.renew(renewed).await }));
        self.working.lock().expect("working").insert(id, vec![working, renewing]);
    }

    /// Reads, checks the owner, writes; tries again on conflict. False if it is not ours.
    async fn change(&self, id: &str, change: impl Fn(&mut Lease)) -> bool {
        loop {
            let stored = match self.store.read(id).await {
                Ok(stored) => stored,
                Err(StoreError::Missing) => return false,
                Err(_) => continue,
            };
            let Ok(mut lease) = document::read(&stored.body, Some(&stored.etag)) else {
                return false;
            };
            if lease.owner.as_deref() != Some(&self.name) {
                return false;
            }
            change(&mut lease);
            lease.timestamp = Some(stamp::format(wall(&self.world.sim)));
            match self.store.replace(&document::write(&lease), &stored.etag).await {
                Ok(_) => return true,
                Err(StoreError::Missing) => return false,
                Err(_) => {}
            }
        }
    }

    fn lost(&self, id: &str) {
        let tasks = self.working.lock().expect("working").remove(id);
        tasks.into_iter().flatten().for_each(|task| self.world.sim.cancel(task));
    }

    async fn renew(self: Arc<Self>, id: String) {
        self.world.sim.sleep(RENEW / 2).await;
        while self.change(&id, |_| ()).await {
            self.world.sim.sleep(RENEW).await;
        }
        self.lost(&id);
    }

    async fn process(self: Arc<Self>, id: String) {
        let sim = self.world.sim.clone();
        let Ok(stored) = self.store.read(&id).await else { return self.lost(&id) };
        let Ok(lease) = document::read(&stored.body, None) else { return self.lost(&id) };
        let mut start = lease.continuation.clone().map_or(Start::Beginning, Start::After);
        loop {
            let ranges = self.world.data().ranges.clone();
            let Some(range) = holder(&lease, &ranges) else { return self.lost(&id) };
            let ask = Ask {
                range: range.id.clone(),
                span: None,
                start: start.clone(),
                max_item_count: Some(8),
                wait: None,
                mode: Mode::Latest,
                session_token: None,
            };
            let Ok(page) = self.feed.read(ask).await else {
                sim.sleep(POLL).await;
                continue;
            };
            if page.items.is_empty() {
                sim.sleep(POLL).await;
                continue;
            }
            let changes: Vec<Change> =
                page.items.into_iter().map(|raw| Change::new(raw, &[])).collect();
            for change in &changes {
                *self.world.ledger().begun.entry(facts(change).1).or_default() += 1;
            }
            sim.sleep(sim.millis(0, self.manner.millis)).await;
            for change in &changes {
                self.world.ledger().acked.insert(facts(change).1);
            }
            let etag = page.continuation;
            start = Start::After(etag.clone());
            if !self.change(&id, |lease| lease.continuation = Some(etag.clone())).await {
                return self.lost(&id);
            }
        }
    }
}
