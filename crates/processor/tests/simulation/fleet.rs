//! Hosts in the simulation: each a process with a processor and a handler that keeps the ledger.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use processor::env::Rule;
use processor::{
    Builder, Change, CloseReason, Context, Event, HandlerError, Observer, Options, Report, Subject,
};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::executor::{Process, Sim, SimEnv};
use crate::world::{SimFeed, SimStore, World};

/// How handlers behave.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Longest time a batch takes, in milliseconds.
    pub millis: u64,
    /// Of a thousand batches, how many fail.
    pub failures: u64,
    /// Whether clocks are off.
    pub skewed: bool,
    /// The key whose changes always fail; no key if it is none of them.
    pub poison: usize,
    /// Whether a poisoned change kills its process instead.
    pub deadly: bool,
    /// The rule that hosts do without, to see whether it is missed.
    pub without: Option<Rule>,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            millis: 20,
            failures: 0,
            skewed: false,
            poison: usize::MAX,
            deadly: false,
            without: None,
        }
    }
}

pub struct SimObserver {
    world: Arc<World>,
    process: Process,
    manner: Manner,
}

pub fn facts(change: &Change) -> (usize, u64) {
    let item: Value = change.parse().expect("an item");
    let key = item["pk"].as_u64().expect("a key");
    let serial = item["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    (key as usize, serial)
}

impl Observer for SimObserver {
    async fn open(&self, context: &Context) -> Result<(), HandlerError> {
        let (now, epoch) = (self.world.sim.now(), context.fencing().epoch);
        self.world.ledger().opened(now, self.process, context.lease_token(), epoch);
        Ok(())
    }

    async fn process(&self, context: &Context, changes: &[Change]) -> Result<(), HandlerError> {
        let sim = &self.world.sim;
        let (lease, epoch) = (context.lease_token(), context.fencing().epoch);
        let current = self.world.epoch_of(lease);
        if !self.world.is_replaced(context.owner()) {
            self.world.ledger().called(sim.now(), self.process, lease, epoch, current);
        }
        for change in changes {
            let (_, serial) = facts(change);
            let now = sim.now();
            self.world.trace(|| {
                format!("p{} {lease}/{epoch} begins {serial} lsn {}", self.process, change.lsn())
            });
            self.world.ledger().begin(now, self.process, lease, epoch, change.lsn(), serial);
        }
        sim.sleep(sim.millis(0, self.manner.millis)).await;
        if changes.iter().any(|change| facts(change).0 == self.manner.poison) {
            if self.manner.deadly {
                self.world.ledger().crashed(self.process);
                let (sim, process) = (sim.clone(), self.process);
                // From outside: a task cannot drop itself.
                sim.clone()
                    .spawn(crate::executor::WORLD, Box::pin(async move { sim.kill(process) }));
                std::future::pending::<()>().await;
            }
            return Err("poison".into());
        }
        if sim.chance(self.manner.failures) {
            return Err("not this time".into());
        }
        for change in changes {
            let (key, serial) = facts(change);
            self.world.ledger().acked(sim.now(), self.process, lease, epoch, key, serial);
        }
        Ok(())
    }

    async fn close(&self, context: &Context, reason: CloseReason) {
        let (now, epoch) = (self.world.sim.now(), context.fencing().epoch);
        self.world.ledger().closed(now, self.process, context.lease_token(), epoch, reason);
    }
}

/// A running host.
pub struct SimHost {
    pub name: String,
    pub process: Process,
    stop: mpsc::Sender<Duration>,
    is_asked: AtomicBool,
    /// Set when it has joined.
    pub started: watch::Receiver<bool>,
    /// How often it has said that it lives, and that it has read.
    pub beats: Arc<AtomicU64>,
    pub reads: Arc<AtomicU64>,
    /// What it has complained about.
    pub alarms: Arc<Mutex<Vec<String>>>,
    /// Set when it has ended.
    pub ended: watch::Receiver<Option<Report>>,
}

impl SimHost {
    /// Asks it to stop.
    pub fn stop(&self, within: Duration) {
        self.is_asked.store(true, Ordering::Relaxed);
        let _ = self.stop.try_send(within);
    }

    /// Whether it runs, and was not asked to stop.
    pub fn stays(&self, sim: &Sim) -> bool {
        !self.is_asked.load(Ordering::Relaxed) && !self.has_ended(sim)
    }

    pub fn has_ended(&self, sim: &Sim) -> bool {
        self.ended.borrow().is_some() || sim.is_dead(self.process)
    }
}

pub fn options(name: &str) -> Options {
    Options {
        instance_name: name.into(),
        lease_prefix: "sim".into(),
        start_from_beginning: true,
        max_item_count: Some(8),
        drain_timeout: Duration::from_secs(10),
        ..Options::brisk()
    }
}

/// Starts a host in a process of its own.
pub fn start(world: &Arc<World>, process: Process, options: Options, manner: Manner) -> SimHost {
    let (stop, mut stops) = mpsc::channel::<Duration>(1);
    let (ended_in, ended) = watch::channel(None);
    let (started_in, started) = watch::channel(false);
    let alarms: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&alarms);
    let (beats, reads) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let (beat, read) = (Arc::clone(&beats), Arc::clone(&reads));
    let name = options.instance_name.clone();
    let env = Arc::new(SimEnv::new(&world.sim, process, manner.skewed, manner.without));
    let (feed_world, store_world, handler_world) =
        (Arc::clone(world), Arc::clone(world), Arc::clone(world));
    let feed = SimFeed { world: feed_world, process, key_paths: vec!["/pk".into()] };
    let store = SimStore { world: store_world, process };
    let letters = SimStore { world: Arc::clone(world), process };
    let traced = Arc::clone(world);
    let subject = Subject {
        account_host: "host".into(),
        database_rid: "d".into(),
        container_rid: "c".into(),
    };
    let built = Builder::new(Arc::new(feed), Arc::new(store), subject)
        .options(options)
        .dead_letters(Arc::new(letters))
        .env(env)
        .monitor(Arc::new(move |event: &Event| {
            traced.trace(|| format!("p{process} {event:?}"));
            match event {
                Event::Alarm { message, .. } => {
                    heard.lock().expect("alarms").push(message.clone());
                }
                Event::Beat => drop(beat.fetch_add(1, Ordering::Relaxed)),
                Event::Read { .. } => drop(read.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
        }))
        .observer(move || SimObserver { world: Arc::clone(&handler_world), process, manner })
        .build();
    let mut processor = built.expect("options");
    let work = async move {
        if let Err(wrong) = processor.start().await {
            let report = Report { error: Some(wrong.to_string()), stuck: vec![] };
            ended_in.send_replace(Some(report));
            return;
        }
        started_in.send_replace(true);
        let report = tokio::select! {
            biased;
            Some(within) = stops.recv() => processor.stop(within).await,
            report = processor.ended() => report,
        };
        ended_in.send_replace(Some(report));
    };
    world.sim.spawn(process, Box::pin(work));
    let is_asked = AtomicBool::new(false);
    SimHost { name, process, stop, is_asked, started, beats, reads, alarms, ended }
}
