//! A fleet in virtual time, for stories that are told one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use processor::Options;
use processor::lease::{Lease, Owner, document};

use crate::executor::{Process, Sim, WORLD};
use crate::fleet::{self, Manner, SimHost, options};
use crate::world::World;

/// The expiration interval of the hosts here.
pub const E: Duration = Duration::from_secs(15);
pub const SECOND: Duration = Duration::from_secs(1);
pub const KEYS: usize = 64;
/// How often is looked whether something holds.
const LOOK: Duration = Duration::from_millis(20);

pub struct Room {
    pub sim: Sim,
    pub world: Arc<World>,
    pub hosts: Vec<SimHost>,
    pub manner: Manner,
}

impl Room {
    pub fn new(ranges: usize) -> Self {
        let sim = Sim::new(7);
        let world = World::new(&sim, KEYS, ranges);
        Self { sim, world, hosts: Vec::new(), manner: Manner::default() }
    }

    pub fn join(&mut self, name: &str) -> Process {
        self.join_with(options(name))
    }

    pub fn join_with(&mut self, options: Options) -> Process {
        let process = self.hosts.len() as Process + 1;
        self.hosts.push(fleet::start(&self.world, process, options, self.manner));
        process
    }

    pub fn host(&self, process: Process) -> &SimHost {
        &self.hosts[process as usize - 1]
    }

    /// Writes that go on for so long, so many a second.
    pub fn load(&self, per_second: u64, time: Duration) {
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

    pub fn run(&self, time: Duration) {
        self.sim.run_until(self.sim.now() + time, || false);
    }

    /// Runs until something holds. Returns how long it took.
    pub fn until(&self, what: &str, limit: Duration, holds: impl Fn() -> bool) -> Duration {
        let began = self.sim.now();
        while !holds() {
            let took = self.sim.now() - began;
            assert!(took < limit, "{what}: not within {limit:?}");
            self.run(LOOK.min(limit - took));
        }
        self.sim.now() - began
    }

    pub fn leases(&self) -> Vec<Lease> {
        let data = self.world.data();
        let leases = data.documents.iter().filter(|(id, _)| id.contains(".."));
        leases.filter_map(|(_, (body, _))| document::read(body, None).ok()).collect()
    }

    /// Leases by instance name; those of nobody under the empty name.
    pub fn owners(&self) -> BTreeMap<String, usize> {
        let mut owners = BTreeMap::new();
        for lease in self.leases().iter().filter(|lease| !lease.is_closed()) {
            let owner = lease.owner.as_deref().unwrap_or_default();
            let name = owner.parse::<Owner>().map_or(owner.to_owned(), |owner| owner.name);
            *owners.entry(name).or_default() += 1;
        }
        owners
    }

    pub fn moves(&self) -> u64 {
        self.world.ledger().moves
    }

    pub fn all_done(&self) -> bool {
        let ledger = self.world.ledger();
        self.world.data().log.iter().all(|change| ledger.acked.contains(&change.serial))
    }

    /// Nothing that must hold was broken.
    pub fn check(&self) {
        let ledger = self.world.ledger();
        assert!(ledger.violations.is_empty(), "{:#?}", &ledger.violations[..1]);
    }

    pub fn alarmed(&self, text: &str) -> bool {
        let said = |host: &SimHost| {
            host.alarms.lock().expect("alarms").iter().any(|alarm| alarm.contains(text))
        };
        self.hosts.iter().any(said)
    }
}

/// 100 leases, evenly with four hosts.
pub fn four_of_hundred() -> Room {
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
