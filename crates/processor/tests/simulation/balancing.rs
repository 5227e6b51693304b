//! Hosts that come and go, ranges that are cut: who has what, how soon, with how many moves.
//!
//! Numbers are those of the behaviours that any change feed processor should show.

use processor::Options;
use processor::lease::Lease;

use crate::fleet::options;
use crate::room::{E, Room, SECOND, four_of_hundred};

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

/// A lease is deleted while its owner dies: whoever makes it again does not begin in an epoch that it had.
#[test]
fn what_is_made_again_is_of_a_new_epoch() {
    let mut room = Room::new(4);
    let a = room.join("a");
    room.until("owned", 20 * SECOND, || room.owners().get("a") == Some(&4));
    room.join("b");
    room.load(5, 10 * SECOND);
    room.until("shared", 20 * SECOND, || room.owners().get("b") == Some(&2));
    let of_a = |lease: &Lease| lease.owner.as_ref().is_some_and(|owner| owner.starts_with("a~"));
    let lost = room.leases().into_iter().find(of_a).expect("a lease of a");
    room.run(5 * SECOND);
    room.sim.kill(a);
    room.world.ledger().crashed(a);
    room.world.data().documents.remove(&lost.id);
    room.until("made again", 300 * SECOND, || room.owners().get("b") == Some(&4));
    room.run(5 * SECOND);
    let again = room.leases().into_iter().find(|lease| lease.id == lost.id).expect("made again");
    assert!(again.epoch() > lost.epoch(), "{} after {}", again.epoch(), lost.epoch());
    room.until("all done", 60 * SECOND, || room.all_done());
}

/// A host that is silent for longer than another one would be is not thought dead by that.
#[test]
fn hosts_of_different_patience() {
    let mut room = Room::new(4);
    let calm = Options {
        lease_renew_interval: 17 * SECOND,
        lease_expiration_interval: 60 * SECOND,
        ..options("a")
    };
    room.join_with(calm);
    room.join("b");
    room.until("shared", 30 * SECOND, || room.owners().get("b") == Some(&2));
    room.run(5 * SECOND);
    let before = room.moves();
    room.run(200 * SECOND);
    assert_eq!(room.moves() - before, 0, "{:?}", room.owners());
    room.check();
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

/// 20: a host that comes and goes all the time moves no more than its share each time.
#[test]
fn flapping_host() {
    let mut room = Room::new(12);
    for name in ["a", "b", "c"] {
        room.join(name);
    }
    let even =
        |room: &Room| room.owners().len() == 3 && room.owners().values().all(|count| *count == 4);
    room.until("balanced", 30 * SECOND, || even(&room));
    room.load(20, 200 * SECOND);
    let before = room.moves();
    for _ in 0..20 {
        let process = room.join("flapping");
        room.run(5 * SECOND);
        room.host(process).stop(5 * SECOND);
        room.run(5 * SECOND);
    }
    // Three leases come and three go, each time.
    assert!(room.moves() - before <= 20 * 6, "{} moves", room.moves() - before);
    room.until("all done", 60 * SECOND, || room.all_done());
    assert!(even(&room), "{:?}", room.owners());
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}
