//! One seed: a fleet at work while things go wrong, then rest, then the reckoning.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::dotnet::{self, PeerHandle};
use crate::executor::{Process, Sim, WORLD};
use crate::fleet::{self, Manner, SimHost, options};
use crate::world::World;

use processor::env::Rule;

/// What may happen in a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything.
    Faults,
    /// Hosts join and leave in good order, ranges split and merge; nothing fails.
    Graceful,
    /// Ranges are split and merged all the time while hosts crash, pause and are cut off.
    Merges,
    /// Hosts of ours and of .NET on the same leases.
    Mixed,
    /// Only .NET, only planned moves.
    Reference,
}

const KEYS: usize = 24;

#[derive(Default)]
struct Fleet {
    hosts: Vec<SimHost>,
    peers: Vec<PeerHandle>,
    next: Process,
}

struct Script {
    world: Arc<World>,
    fleet: Mutex<Fleet>,
    kind: Kind,
    manner: Manner,
    lanes: usize,
}

/// Runs a seed. Returns what was violated.
pub fn run(kind: Kind, seed: u64) -> Vec<String> {
    run_without(None, kind, seed)
}

/// Runs a seed with hosts that do without a rule.
pub fn run_without(rule: Option<Rule>, kind: Kind, seed: u64) -> Vec<String> {
    let (world, script) = play(rule, kind, seed);
    let mut ledger = world.ledger();
    let now = world.sim.now();
    let fleet = script.fleet.lock().expect("fleet");
    let running = fleet.hosts.iter().filter(|host| !host.has_ended(&world.sim));
    let mut names: Vec<String> = running.map(|host| host.name.clone()).collect();
    let peers = fleet.peers.iter().filter(|peer| !world.sim.is_dead(peer.process));
    names.extend(peers.map(|peer| format!("net{}", peer.process)));
    if kind != Kind::Reference {
        let strict = kind != Kind::Mixed;
        ledger.check_rest(now, &world.data(), &world.keys, &names, strict);
    }
    if matches!(kind, Kind::Graceful | Kind::Reference) && ledger.duplicates() > 0 {
        let count = ledger.duplicates();
        ledger.violations.push(format!("invariant 6: {count} changes came twice in planned moves"));
    }
    let mut violations = std::mem::take(&mut ledger.violations);
    drop((ledger, fleet));
    world.sim.clear();
    violations.truncate(8);
    violations
}

/// A summary that differs if anything happens differently.
pub fn story(kind: Kind, seed: u64) -> String {
    let (world, _) = play(None, kind, seed);
    let ledger = world.ledger();
    let told = format!(
        "{} {} {} {:?}",
        world.data().history.len(),
        ledger.moves,
        ledger.duplicates(),
        world.sim.random()
    );
    drop(ledger);
    world.sim.clear();
    told
}

fn play(rule: Option<Rule>, kind: Kind, seed: u64) -> (Arc<World>, Arc<Script>) {
    let sim = Sim::new(seed);
    let world = World::new(&sim, KEYS, 1 + sim.below(5) as usize);
    let failures = if kind == Kind::Faults { [0, 20, 100][sim.below(3) as usize] } else { 0 };
    let manner = Manner {
        millis: [2, 50, 400][sim.below(3) as usize],
        failures,
        skewed: kind == Kind::Faults || rule == Some(Rule::SeenExpiry),
        without: rule,
        ..Manner::default()
    };
    world.ledger().has_peers = matches!(kind, Kind::Mixed | Kind::Reference);
    let lanes = if sim.chance(400) { 4 } else { 1 };
    let script = Arc::new(Script {
        world: Arc::clone(&world),
        fleet: Mutex::new(Fleet { next: 1, ..Fleet::default() }),
        kind,
        manner,
        lanes,
    });
    let (active, rest) = match kind {
        Kind::Faults => (90, 90),
        Kind::Graceful => (60, 40),
        Kind::Merges => (120, 90),
        Kind::Mixed => (240, 180),
        Kind::Reference => (200, 10),
    };
    let (active, rest) = (Duration::from_secs(active), Duration::from_secs(rest));
    for _ in 0..1 + sim.below(4) {
        script.join();
    }
    if kind == Kind::Mixed {
        script.join_peer();
    }
    let writer = Arc::clone(&script);
    sim.spawn(WORLD, Box::pin(async move { writer.write(active + rest / 3).await }));
    let actor = Arc::clone(&script);
    sim.spawn(WORLD, Box::pin(async move { actor.act(active).await }));
    sim.run_until(active + rest, || false);
    (world, script)
}

impl Script {
    fn sim(&self) -> &Sim {
        &self.world.sim
    }

    fn fleet(&self) -> std::sync::MutexGuard<'_, Fleet> {
        self.fleet.lock().expect("fleet")
    }

    fn next_process(&self) -> Process {
        let mut fleet = self.fleet();
        fleet.next += 1;
        fleet.next
    }

    fn join(&self) {
        if self.kind == Kind::Reference {
            return self.join_peer();
        }
        let process = self.next_process();
        self.join_as(&format!("h{process}"), process);
    }

    fn join_as(&self, name: &str, process: Process) {
        let mut options = options(name);
        options.lanes = self.lanes;
        let host = fleet::start(&self.world, process, options, self.manner);
        self.fleet().hosts.push(host);
    }

    fn join_peer(&self) {
        let process = self.next_process();
        let peer = dotnet::start(&self.world, process, &format!("net{process}"), self.manner);
        self.fleet().peers.push(peer);
    }

    fn live(&self) -> Vec<(String, Process)> {
        let fleet = self.fleet();
        let live = fleet.hosts.iter().filter(|host| !host.has_ended(self.sim()));
        live.map(|host| (host.name.clone(), host.process)).collect()
    }

    fn one(&self) -> Option<(String, Process)> {
        let live = self.live();
        if live.is_empty() {
            None
        } else {
            Some(live[self.sim().below(live.len() as u64) as usize].clone())
        }
    }

    fn leave(&self) {
        if self.kind == Kind::Reference {
            let fleet = self.fleet();
            let live: Vec<&PeerHandle> =
                fleet.peers.iter().filter(|peer| !self.sim().is_dead(peer.process)).collect();
            if live.len() > 1 {
                live[0].stop();
            }
            return;
        }
        let fleet = self.fleet();
        let staying: Vec<&SimHost> =
            fleet.hosts.iter().filter(|host| host.stays(self.sim())).collect();
        if staying.len() < 2 {
            return;
        }
        let host = staying[self.sim().below(staying.len() as u64) as usize];
        self.world.trace(|| format!("p{} is asked to stop", host.process));
        host.stop(Duration::from_secs(60));
    }

    async fn write(&self, until: Duration) {
        while self.sim().now() < until {
            self.sim().sleep(self.sim().millis(5, 150)).await;
            let key = self.sim().below(KEYS as u64) as usize;
            let items = if self.sim().chance(50) { 12 } else { 1 };
            self.world.write(key, items);
        }
    }

    async fn act(self: &Arc<Self>, until: Duration) {
        while self.sim().now() < until {
            self.sim().sleep(self.sim().millis(500, 8000)).await;
            match self.kind {
                Kind::Graceful => self.planned(),
                Kind::Reference => match self.sim().below(2) {
                    0 => self.join(),
                    _ => self.leave(),
                },
                Kind::Mixed => match self.sim().below(12) {
                    0 => self.join(),
                    1 => self.join_peer(),
                    2 => self.leave(),
                    3 => self.crash(false),
                    _ => {}
                },
                Kind::Faults => self.mishap().await,
                Kind::Merges => match self.sim().below(10) {
                    0..=3 => self.world.merge(self.sim().below(100) as usize),
                    4 | 5 if self.world.data().ranges.len() < 6 => {
                        self.world.split(self.sim().below(100) as usize);
                    }
                    6 => self.crash(true),
                    _ => self.mishap().await,
                },
            }
        }
        self.calm();
        // The last one may yet find out that a namesake, dead by now, had taken its place; and one
        // that was asked to stop does so, though it may be paused until then.
        for _ in 0..2 {
            if !self.fleet().hosts.iter().any(|host| host.stays(self.sim())) {
                self.join();
            }
            self.sim().sleep(Duration::from_secs(20)).await;
        }
    }

    /// The last fault is over.
    fn calm(&self) {
        let mut data = self.world.data();
        data.no_store.clear();
        data.no_feed.clear();
        (data.store_faults, data.feed_faults) = (0, 0);
        (data.slow, data.read_only) = (false, false);
    }

    fn planned(&self) {
        match self.sim().below(5) {
            0 if self.live().len() < 6 => self.join(),
            1 => self.leave(),
            2 if self.world.data().ranges.len() < 10 => {
                self.world.split(self.sim().below(100) as usize)
            }
            3 => self.world.merge(self.sim().below(100) as usize),
            _ => {}
        }
    }

    fn crash(&self, restart: bool) {
        let Some((name, process)) = self.one() else { return };
        self.world.trace(|| format!("p{process} is killed"));
        self.sim().kill(process);
        self.world.ledger().crashed(process);
        if restart {
            let name = if self.sim().chance(500) { name } else { format!("{name}x") };
            let process = self.next_process();
            self.join_as(&name, process);
        }
    }

    async fn mishap(self: &Arc<Self>) {
        let sim = self.sim().clone();
        match sim.below(13) {
            0 => self.crash(true),
            1 => self.crash(sim.chance(500)),
            2 => {
                let Some((_, process)) = self.one() else { return };
                let time = sim.millis(1, [500, 5_000, 40_000][sim.below(3) as usize]);
                sim.pause(process, true);
                self.later(time, move |script| script.sim().pause(process, false));
            }
            3 => {
                let Some((_, process)) = self.one() else { return };
                self.world.data().no_store.insert(process);
                self.later(sim.millis(100, 30_000), move |script| {
                    script.world.data().no_store.remove(&process);
                });
            }
            4 => {
                let Some((_, process)) = self.one() else { return };
                self.world.data().no_feed.insert(process);
                self.later(sim.millis(100, 30_000), move |script| {
                    script.world.data().no_feed.remove(&process);
                });
            }
            5 => {
                let storm = 50 + sim.below(600);
                self.world.data().store_faults = storm;
                self.later(sim.millis(100, 15_000), |script| script.world.data().store_faults = 0);
            }
            6 => {
                let storm = 50 + sim.below(600);
                self.world.data().feed_faults = storm;
                self.later(sim.millis(100, 15_000), |script| script.world.data().feed_faults = 0);
            }
            7 => {
                self.world.data().read_only = true;
                self.later(sim.millis(100, 20_000), |script| script.world.data().read_only = false);
            }
            8 => {
                self.world.data().slow = true;
                self.later(sim.millis(100, 20_000), |script| script.world.data().slow = false);
            }
            9 => self.world.touch_all(),
            // A second process of a name that is running.
            10 => {
                let Some((name, _)) = self.one() else { return };
                let process = self.next_process();
                self.join_as(&name, process);
            }
            _ => self.planned(),
        }
    }

    fn later(self: &Arc<Self>, time: Duration, act: impl FnOnce(&Self) + Send + 'static) {
        let script = Arc::clone(self);
        let sim = self.sim().clone();
        self.sim().spawn(
            WORLD,
            Box::pin(async move {
                sim.sleep(time).await;
                act(&script);
            }),
        );
    }
}
