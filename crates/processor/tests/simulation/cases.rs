//! Single stories, in virtual time. Numbers are those of the behaviours that any change feed
//! processor should show.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use processor::Options;
use processor::lease::{Lease, Owner, document};
use processor::policy::{ErrorPolicy, OnFailure};

use crate::executor::{Process, Sim, WORLD};
use crate::fleet::{self, Manner, SimHost, options};
use crate::world::World;

/// The expiration interval of the hosts here.
const E: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);
const KEYS: usize = 64;
/// How often is looked whether something holds.
const LOOK: Duration = Duration::from_millis(20);

struct Room {
    sim: Sim,
    world: Arc<World>,
    hosts: Vec<SimHost>,
    manner: Manner,
}

impl Room {
    fn new(ranges: usize) -> Self {
        let sim = Sim::new(7);
        let world = World::new(&sim, KEYS, ranges);
        Self { sim, world, hosts: Vec::new(), manner: Manner::default() }
    }

    fn join(&mut self, name: &str) -> Process {
        self.join_with(options(name))
    }

    fn join_with(&mut self, options: Options) -> Process {
        let process = self.hosts.len() as Process + 1;
        self.hosts.push(fleet::start(&self.world, process, options, self.manner));
        process
    }

    fn host(&self, process: Process) -> &SimHost {
        &self.hosts[process as usize - 1]
    }

    /// Writes that go on for so long, so many a second.
    fn load(&self, per_second: u64, time: Duration) {
        let world = Arc::clone(&self.world);
        let until = self.sim.now() + time;
        let work = async move {
            while world.sim.now() < until {
                world.sim.sleep(Duration::from_micros(1_000_000 / per_second)).await;
                world.write(world.sim.below(KEYS as u64) as usize, 1);
            }
        };
        self.sim.spawn(WORLD, Box::pin(work));
    }

    fn run(&self, time: Duration) {
        self.sim.run_until(self.sim.now() + time, || false);
    }

    /// Runs until something holds. Returns how long it took.
    fn until(&self, what: &str, limit: Duration, holds: impl Fn() -> bool) -> Duration {
        let began = self.sim.now();
        while !holds() {
            let took = self.sim.now() - began;
            assert!(took < limit, "{what}: not within {limit:?}");
            self.run(LOOK.min(limit - took));
        }
        self.sim.now() - began
    }

    fn leases(&self) -> Vec<Lease> {
        let data = self.world.data();
        let leases = data.documents.iter().filter(|(id, _)| id.contains(".."));
        leases.filter_map(|(_, (body, _))| document::read(body, None).ok()).collect()
    }

    /// Leases by instance name; those of nobody under the empty name.
    fn owners(&self) -> BTreeMap<String, usize> {
        let mut owners = BTreeMap::new();
        for lease in self.leases().iter().filter(|lease| !lease.is_closed()) {
            let owner = lease.owner.as_deref().unwrap_or_default();
            let name = owner.parse::<Owner>().map_or(owner.to_owned(), |owner| owner.name);
            *owners.entry(name).or_default() += 1;
        }
        owners
    }

    fn moves(&self) -> u64 {
        self.world.ledger().moves
    }

    fn all_done(&self) -> bool {
        let ledger = self.world.ledger();
        self.world.data().log.iter().all(|change| ledger.acked.contains(&change.serial))
    }

    /// Nothing that must hold was broken.
    fn check(&self) {
        let ledger = self.world.ledger();
        assert!(ledger.violations.is_empty(), "{:#?}", &ledger.violations[..1]);
    }

    fn alarmed(&self, text: &str) -> bool {
        let said = |host: &SimHost| {
            host.alarms.lock().expect("alarms").iter().any(|alarm| alarm.contains(text))
        };
        self.hosts.iter().any(said)
    }
}

/// 100 leases, evenly with four hosts.
fn four_of_hundred() -> Room {
    let mut room = Room::new(100);
    for name in ["a", "b", "c", "d"] {
        room.join(name);
    }
    room.until("balanced", 30 * SECOND, || {
        room.owners().values().all(|count| *count == 25) && room.owners().len() == 4
    });
    room.run(2 * SECOND);
    room
}

/// 3
#[test]
fn bootstrap_race() {
    let mut room = Room::new(4);
    for n in 0..10 {
        room.join(&format!("h{n}"));
    }
    room.until("all have joined", 2 * SECOND, || {
        room.hosts.iter().all(|host| *host.started.borrow())
    });
    room.run(5 * SECOND);
    assert_eq!(room.leases().len(), 4);
    room.check();
}

/// 6, 17: a lease that somebody deleted is made again.
#[test]
fn audit_repairs_hole() {
    let mut room = Room::new(3);
    room.join("a");
    room.load(5, 10 * SECOND);
    room.until("owned", 20 * SECOND, || room.owners().get("a") == Some(&3));
    let id = room.leases().remove(1).id;
    room.world.data().documents.remove(&id);
    room.until("made again", 300 * SECOND, || room.leases().len() == 3);
    assert!(room.alarmed("no lease covers"));
    room.until("all done", 60 * SECOND, || room.all_done());
}

/// 16
#[test]
fn join_balances_fast() {
    let mut room = four_of_hundred();
    room.load(200, 20 * SECOND);
    let before = room.moves();
    room.join("e");
    room.until("balanced", 3 * SECOND, || room.owners().get("e") == Some(&20));
    room.run(10 * SECOND);
    assert_eq!(room.moves() - before, 20);
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// 17
#[test]
fn graceful_leave_fast() {
    let room = four_of_hundred();
    room.load(200, 10 * SECOND);
    room.run(SECOND);
    let before = room.moves();
    room.host(1).stop(10 * SECOND);
    room.until("served again", SECOND, || {
        let owners = room.owners();
        !owners.contains_key("a") && !owners.contains_key("")
    });
    room.run(20 * SECOND);
    assert_eq!(room.moves() - before, 25);
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// 18
#[test]
fn crash_detected() {
    let room = four_of_hundred();
    room.load(100, 30 * SECOND);
    room.sim.kill(2);
    room.world.ledger().crashed(2);
    room.until("served again", E + 5 * SECOND, || !room.owners().contains_key("b"));
    room.until("all done", 40 * SECOND, || room.all_done());
    room.check();
}

/// 19: named hosts that come back in time find their leases: no moves, nothing twice.
#[test]
fn rolling_restart_static() {
    let mut room = Room::new(8);
    let named = |name: &str| Options { rejoin_grace: 45 * SECOND, ..options(name) };
    for name in ["a", "b", "c", "d"] {
        room.join_with(named(name));
    }
    room.until("balanced", 30 * SECOND, || {
        room.owners().values().all(|count| *count == 2) && room.owners().len() == 4
    });
    room.load(50, 60 * SECOND);
    let owners = |room: &Room| -> Vec<String> {
        let name = |lease: &Lease| {
            lease.owner.as_deref().and_then(|o| o.split('~').next()).unwrap_or("").to_owned()
        };
        room.leases().iter().map(name).collect()
    };
    let before = owners(&room);
    for (process, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        room.host(process).stop(10 * SECOND);
        room.until("stopped", 15 * SECOND, || room.host(process).has_ended(&room.sim));
        room.run(5 * SECOND);
        room.join_with(named(name));
        room.run(3 * SECOND);
        assert_eq!(owners(&room), before, "{name} has its leases again, and nobody else's");
    }
    room.until("all done", 60 * SECOND, || room.all_done());
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// 21
#[test]
fn more_hosts_than_leases() {
    let mut room = Room::new(3);
    for n in 0..10 {
        room.join(&format!("h{n}"));
    }
    room.run(30 * SECOND);
    assert_eq!(room.owners().len(), 3);
    let before = room.world.data().requests.clone();
    room.run(100 * SECOND);
    let after = room.world.data().requests.clone();
    let idle = room.hosts.iter().filter(|host| !room.owners().contains_key(&host.name));
    for host in idle {
        let asked = after[&host.process] - before[&host.process];
        assert!(asked <= 100, "{} has asked {asked} times in 100 seconds", host.name);
    }
    room.check();
}

/// 29: clocks an hour apart, running 5 % fast and slow: nobody is robbed.
#[test]
fn skewed_clocks() {
    let mut room = Room::new(6);
    room.manner.skewed = true;
    for name in ["a", "b", "c"] {
        room.join(name);
    }
    room.run(20 * SECOND);
    room.load(5, 590 * SECOND);
    let before = room.moves();
    room.run(600 * SECOND);
    assert_eq!(room.moves(), before);
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// 30
#[test]
fn paused_owner_fenced() {
    let mut room = Room::new(2);
    let (a, _) = (room.join("a"), room.join("b"));
    room.run(10 * SECOND);
    room.load(20, 60 * SECOND);
    room.run(2 * SECOND);
    room.sim.pause(a, true);
    room.until("taken over", E + 5 * SECOND, || !room.owners().contains_key("a"));
    room.run(E);
    room.sim.pause(a, false);
    room.until("all done", 90 * SECOND, || room.all_done());
    // Whatever it had in hand when it woke did not land: invariants 1, 2 and 5 were watched.
    room.check();
}

/// 34: an owner that is cut off from the lease container stops before others begin.
#[test]
fn cut_off_owner_stops() {
    let mut room = Room::new(1);
    let a = room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    let b = room.join("b");
    room.load(20, 60 * SECOND);
    room.run(3 * SECOND);
    room.world.data().no_store.insert(a);
    room.until("taken over", E + 10 * SECOND, || room.owners().contains_key("b"));
    room.run(5 * SECOND);
    let ledger = room.world.ledger();
    let (last, first) = (ledger.last_call[&(a, "0".into())], ledger.first_call[&(b, "0".into())]);
    assert!(last < first, "the old owner was called at {last:?}, the new one since {first:?}");
    drop(ledger);
    room.check();
}

/// 59: the lease container refuses all writes for a while: work goes on inside the fence, nothing
/// is skipped (azure-sdk-for-java 43701).
#[test]
fn java_43701_throttled_lease_store() {
    let mut room = Room::new(2);
    room.join("a");
    room.run(10 * SECOND);
    room.load(20, 60 * SECOND);
    room.run(2 * SECOND);
    room.world.data().read_only = true;
    let before = room.world.ledger().acked.len();
    room.run(8 * SECOND);
    assert!(room.world.ledger().acked.len() > before + 50, "work goes on");
    room.run(20 * SECOND);
    room.world.data().read_only = false;
    room.until("all done", 90 * SECOND, || room.all_done());
    room.check();
}

/// 58: a throttled feed does not cost the lease.
#[test]
fn throttled_feed_keeps_lease() {
    let mut room = Room::new(2);
    room.join("a");
    room.run(10 * SECOND);
    let before = room.moves();
    room.world.data().feed_faults = 1000;
    room.load(5, 100 * SECOND);
    room.run(300 * SECOND);
    room.world.data().feed_faults = 0;
    room.until("all done", 60 * SECOND, || room.all_done());
    assert_eq!(room.moves(), before);
    room.check();
}

/// 61: a handler may take 20 minutes; the lease stays (the other libraries differ).
#[test]
fn slow_handler_keeps_lease() {
    let mut room = Room::new(1);
    room.manner.millis = 1_200_000;
    room.join("a");
    room.run(5 * SECOND);
    let before = room.moves();
    room.world.write(0, 1);
    room.until("done", 1300 * SECOND, || room.all_done());
    assert_eq!((room.moves(), room.world.ledger().duplicates()), (before, 0));
    room.check();
}

/// 40: a handler that outlasts the drain limit is cancelled; what was done is saved.
#[test]
fn handoff_timeout() {
    let mut room = Room::new(2);
    room.manner.millis = 60_000;
    room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().get("a") == Some(&2));
    room.load(2, 20 * SECOND);
    room.run(5 * SECOND);
    room.join("b");
    room.until("moved", 30 * SECOND, || room.owners().get("b") == Some(&1));
    room.until("all done", 900 * SECOND, || room.all_done());
    room.check();
}

/// 52: while the dead-letter container is down the range waits, and nothing is lost.
#[test]
fn dead_letter_write_fails() {
    let mut room = Room::new(1);
    room.manner.poison = 3;
    let policy = ErrorPolicy { then: OnFailure::DeadLetter, ..ErrorPolicy::default() };
    room.world.data().no_letters = true;
    room.join_with(Options { error_policy: policy, ..options("a") });
    room.run(5 * SECOND);
    for key in 0..8 {
        room.world.write(key, 1);
    }
    room.run(60 * SECOND);
    assert!(!room.all_done() && room.alarmed("dead-letter container does not take"));
    room.world.data().no_letters = false;
    room.until("all done", 60 * SECOND, || room.all_done());
    room.check();
}

/// 51: a change that kills its process is found by counting the deaths, and set aside.
#[test]
fn poison_counter_survives_crash() {
    let mut room = Room::new(1);
    room.manner.poison = 3;
    room.manner.deadly = true;
    let policy = ErrorPolicy { then: OnFailure::DeadLetter, deaths: 3, ..ErrorPolicy::default() };
    for key in 0..8 {
        room.world.write(key, 1);
    }
    for life in 0..12 {
        let process = room
            .join_with(Options { error_policy: policy.clone(), ..options(&format!("h{life}")) });
        room.sim.run_until(room.sim.now() + 60 * SECOND, || {
            room.sim.is_dead(process) || room.all_done()
        });
        if room.all_done() {
            room.check();
            return;
        }
    }
    panic!("it kills on");
}

/// 68: where the parent of a split cannot be deleted it is closed, and its history not replayed
/// (azure-cosmos-dotnet-v3 5604).
#[test]
fn net3_5604_split_parent_delete_forbidden() {
    let mut room = Room::new(1);
    room.join("a");
    room.load(10, 40 * SECOND);
    room.run(10 * SECOND);
    room.world.data().keeps_all = true;
    room.world.split(0);
    room.until("divided", 30 * SECOND, || room.leases().len() == 3);
    room.until("all done", 60 * SECOND, || room.all_done());
    assert!(room.alarmed("cannot be deleted"));
    assert_eq!(room.leases().iter().filter(|lease| lease.is_closed()).count(), 1);
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// 71
#[test]
fn split_storm() {
    let mut room = Room::new(1);
    room.join("a");
    room.join("b");
    room.load(30, 80 * SECOND);
    for n in 0..31 {
        room.run(2 * SECOND);
        room.world.split(n * 7);
        if n % 10 == 5 {
            room.join(&format!("j{n}"));
        }
    }
    room.until("all done", 120 * SECOND, || room.all_done());
    room.until("all divided", 60 * SECOND, || room.leases().len() == 32);
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}
