//! A host: says that it lives, watches the lease container, and gives each lease its worker.
//!
//! One loop. Whatever happens changes what is known; then the plan is made anew and carried out:
//! free leases that are planned for us are taken, ours that are planned for others are handed over.

mod beat;
mod fleet;
mod hear;
mod join;
mod leave;
mod lookout;
mod plan;
mod start;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::env::{Later, Task};
use crate::fence::Spell;
use crate::lease::{Lease, Owner};
use crate::member::{Member, State};
use crate::range::{Ended, NotWritten, Order};
use crate::shared::Shared;
use crate::store::Stored;

use beat::{Beaten, beat};
pub(crate) use fleet::{FleetView, Life};
pub use start::StartError;

/// Full listings happen at least this often, to see deletes, and the coverage is looked over.
const AUDIT_INTERVAL: Duration = Duration::from_secs(60);
/// A lease that could not be worked on is left alone for so long.
const REST: Duration = Duration::from_secs(10);
/// How long a host that leaves waits for its farewell to arrive before it gives leases away.
const FAREWELL_WAIT: Duration = Duration::from_secs(1);
/// How often per expiration interval the plan is made when nothing is heard.
const PLANS_PER_EXPIRATION: u32 = 10;
/// Batches of changed documents that may wait to be taken in.
const STIR_QUEUE: usize = 16;

/// How a processor has ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Why it ended, if not because it was asked to.
    pub error: Option<String>,
    /// Leases that could not be given back in time: they expire by themselves.
    pub stuck: Vec<String>,
}

/// A request to stop.
pub(crate) struct Stop {
    pub deadline: Duration,
    pub done: oneshot::Sender<Report>,
}

struct Slot {
    orders: watch::Sender<Order>,
    token: String,
    _task: Task,
}

/// All documents, if they could be read.
type Listed = Result<Vec<Stored>, StartError>;

enum Happened {
    Listed(Spell, Listed),
    Beaten(Beaten),
    Stirred(Spell, Vec<Stored>),
    Told(Told),
    Audited(u32),
    Joined(Result<Lease, NotWritten>),
    Stop(Stop),
    Time,
}

/// What workers tell their host.
pub(crate) enum Told {
    Taken(Box<Lease>),
    NotTaken { id: String, why: Option<String> },
    Ended(Box<Ended>),
}

pub(crate) struct Host {
    shared: Arc<Shared>,
    fleet: FleetView,
    member: Member,
    etag: String,
    slots: BTreeMap<String, Slot>,
    /// The highest epoch of each lease that a tenure of ours has had.
    epochs: HashMap<String, u64>,
    /// Leases that are left alone until then.
    resting: HashMap<String, Duration>,
    redrives: watch::Sender<u64>,
    told: mpsc::UnboundedReceiver<Told>,
    tell: mpsc::UnboundedSender<Told>,
    listing: Option<Later<'static, (Spell, Listed)>>,
    list_at: Duration,
    /// When all leases were last read. A lease that was ours before may be another's now.
    known_in: Spell,
    beating: Option<Later<'static, Beaten>>,
    beat_at: Duration,
    auditing: Option<Later<'static, u32>>,
    audit_at: Duration,
    holes: u32,
    steal_at: Duration,
    joining: Option<join::Joining>,
    join_at: Duration,
    merging: Option<Later<'static, Result<Lease, NotWritten>>>,
    /// When each lease was first seen to be free, for those planned for others.
    free_since: HashMap<String, Duration>,
    /// Whether something has happened that bears on the plan, and when it is made in any case.
    is_stale: bool,
    plan_at: Duration,
    stop: Option<Stop>,
    /// Until when leases are kept though we leave: others must know first, or they would level
    /// the fleet by giving us theirs.
    keep_until: Duration,
    error: Option<String>,
}

async fn finished<T>(running: &mut Option<Later<'static, T>>) -> T {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}

impl Host {
    /// Makes the leases if need be, and joins.
    pub async fn begin(shared: Arc<Shared>) -> Result<Self, StartError> {
        let mut fleet = FleetView::new(shared.names.clone(), shared.expiration());
        start::bootstrap(&shared, &mut fleet).await?;
        let (member, etag) = start::join(&shared, &mut fleet).await?;
        let now = shared.env.now();
        let (tell, told) = mpsc::unbounded_channel();
        fleet.members.insert(member.instance.clone(), (member.clone(), etag.clone()));
        Ok(Self {
            beat_at: now + shared.options.beat_interval(),
            known_in: shared.fence.spell(),
            redrives: watch::channel(fleet.control.redrive).0,
            shared,
            fleet,
            member,
            etag,
            slots: BTreeMap::new(),
            epochs: HashMap::new(),
            resting: HashMap::new(),
            told,
            tell,
            listing: None,
            list_at: now,
            beating: None,
            auditing: None,
            audit_at: now,
            holes: 0,
            steal_at: now,
            joining: None,
            join_at: now,
            merging: None,
            free_since: HashMap::new(),
            is_stale: true,
            plan_at: now,
            stop: None,
            keep_until: now,
            error: None,
        })
    }

    fn owner(&self) -> Owner {
        self.member.owner()
    }

    /// Works until told to stop, or until it cannot go on.
    pub async fn run(mut self, mut stops: mpsc::Receiver<Stop>) -> Report {
        let (stirred_in, mut stirred) = mpsc::channel(STIR_QUEUE);
        let watching = lookout::watch(Arc::clone(&self.shared), stirred_in);
        let _watcher = self.shared.env.spawn(Box::pin(watching));
        loop {
            self.start();
            if self.is_over() {
                break;
            }
            let now = self.shared.env.now();
            let nap = self.next_time().saturating_sub(now).max(Duration::from_millis(1));
            let sleep = self.shared.env.sleep(nap);
            let happened = tokio::select! {
                biased;
                Some(told) = self.told.recv() => Happened::Told(told),
                beaten = finished(&mut self.beating) => Happened::Beaten(beaten),
                Some(stop) = stops.recv(), if self.stop.is_none() => Happened::Stop(stop),
                (spell, listed) = finished(&mut self.listing) => Happened::Listed(spell, listed),
                Some((spell, documents)) = stirred.recv() => Happened::Stirred(spell, documents),
                findings = finished(&mut self.auditing) => Happened::Audited(findings),
                joined = finished(&mut self.merging) => Happened::Joined(joined),
                () = sleep => Happened::Time,
            };
            self.take_in(happened);
        }
        self.leave().await
    }

    fn take_in(&mut self, happened: Happened) {
        let now = self.shared.env.now();
        // Checkpoints and heartbeats of others are most of what is heard, and change nothing.
        self.is_stale |=
            !matches!(happened, Happened::Time | Happened::Stirred(..) | Happened::Audited(_));
        match happened {
            Happened::Time => {}
            Happened::Told(told) => self.hear(told),
            // The watch has begun anew: what happened before it did is not known.
            Happened::Stirred(_, documents) if documents.is_empty() => self.list_at = now,
            Happened::Stirred(spell, _) if spell != self.shared.fence.spell() => self.list_at = now,
            Happened::Stirred(_, documents) => {
                self.is_stale |= self.fleet.merge(&documents, now);
                self.complain();
            }
            Happened::Stop(stop) => {
                self.stop = Some(stop);
                self.keep_until = now + FAREWELL_WAIT;
                self.member.state = State::Leaving;
                self.put_self();
                self.beat_at = now;
            }
            Happened::Beaten(beaten) => {
                self.beating = None;
                self.beaten(beaten);
            }
            Happened::Joined(joined) => {
                self.merging = None;
                self.joined(joined, now);
            }
            Happened::Audited(holes) => {
                self.auditing = None;
                self.holes = holes;
            }
            Happened::Listed(spell, listed) => {
                self.listing = None;
                match listed {
                    Ok(_) if spell != self.shared.fence.spell() => {
                        self.fleet.listing(false);
                        self.list_at = now;
                    }
                    Ok(documents) => {
                        self.known_in = spell;
                        self.fleet.replace(&documents, now);
                        self.put_self();
                        self.complain();
                    }
                    Err(wrong) => {
                        self.fleet.listing(false);
                        self.shared.alarm(None, wrong.to_string());
                    }
                }
            }
        }
    }

    fn complain(&mut self) {
        for complaint in std::mem::take(&mut self.fleet.complaints) {
            self.shared.alarm(None, complaint);
        }
    }

    /// What we said of ourselves last is newer than what was read.
    fn put_self(&mut self) {
        let entry = (self.member.clone(), self.etag.clone());
        self.fleet.members.insert(self.member.instance.clone(), entry);
    }

    /// Starts whatever is due, then carries the plan out.
    fn start(&mut self) {
        let now = self.shared.env.now();
        if self.beating.is_none() && now >= self.beat_at {
            let shared = Arc::clone(&self.shared);
            self.beating = Some(Box::pin(beat(shared, self.member.clone(), self.etag.clone())));
        }
        if self.listing.is_none() && now >= self.list_at {
            let shared = Arc::clone(&self.shared);
            self.list_at = now + self.shared.options.lease_acquire_interval.min(AUDIT_INTERVAL);
            self.fleet.listing(true);
            let spell = self.shared.fence.spell();
            self.listing = Some(Box::pin(async move { (spell, start::list(&shared).await) }));
        }
        if self.auditing.is_none() && now >= self.audit_at && self.stop.is_none() {
            self.audit_at = now + AUDIT_INTERVAL;
            self.start_audit();
        }
        if self.is_stale || now >= self.plan_at {
            self.is_stale = false;
            // Others expire, and leases have rested, without telling.
            self.plan_at = now + self.shared.expiration() / PLANS_PER_EXPIRATION;
            if self.keep_until > now {
                self.plan_at = self.plan_at.min(self.keep_until);
            }
            self.carry_out(now);
        }
    }

    fn start_audit(&mut self) {
        let shared = Arc::clone(&self.shared);
        let leases: Vec<Lease> = self.fleet.leases.values().cloned().collect();
        let (epoch, findings) = (self.fleet.epoch_seen, self.holes);
        self.auditing = Some(Box::pin(lookout::audit(shared, leases, epoch, findings)));
        let now = self.shared.env.now();
        for gone in self.fleet.forgettable(now) {
            let shared = Arc::clone(&self.shared);
            let forgetting = async move {
                let _ = shared.store.delete(&gone).await;
            };
            // Whether it works does not matter; somebody will try again.
            std::mem::forget(self.shared.env.spawn(Box::pin(forgetting)));
        }
    }

    fn next_time(&self) -> Duration {
        let mut next = self.audit_at;
        if self.beating.is_none() {
            next = next.min(self.beat_at);
        }
        if self.listing.is_none() {
            next = next.min(self.list_at);
        }
        if let Some(stop) = &self.stop {
            next = next.min(stop.deadline);
        }
        next.min(self.plan_at)
    }
}
