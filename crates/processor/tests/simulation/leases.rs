//! Leases that are made, taken, lost and won back; observers that open and close.
//!
//! Numbers are those of the behaviours that any change feed processor should show.

use std::time::Duration;

use processor::{CloseReason, Options};

use crate::fleet::options;
use crate::room::{E, KEYS, Room, SECOND};

fn from_now(name: &str) -> Options {
    Options { start_from_beginning: false, ..options(name) }
}

/// 5: where leases cannot be made, the start fails, the lock is released and nothing says that
/// they were made; when they can be, the next start makes them.
#[test]
fn bootstrap_release_on_error() {
    let mut room = Room::new(4);
    room.world.data().no_new_leases = true;
    let first = room.join("a");
    room.until("the start fails", 30 * SECOND, || room.host(first).has_ended(&room.sim));
    let report = room.host(first).ended.borrow().clone().expect("a report");
    assert!(report.error.is_some_and(|error| error.contains("403")));
    let left: Vec<String> = room.world.data().documents.keys().cloned().collect();
    assert!(!left.iter().any(|id| id.ends_with(".lock") || id.ends_with(".info")), "{left:?}");
    room.world.data().no_new_leases = false;
    room.join("b");
    room.until("owned", 10 * SECOND, || room.owners().get("b") == Some(&4));
    room.check();
}

/// 9: the first page is read, its host dies before it saves anything, and whoever comes later gets
/// the page.
#[test]
fn takeover_before_first_checkpoint() {
    let mut room = Room::new(1);
    room.manner.millis = 1_000_000;
    let first = room.join_with(from_now("a"));
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    room.world.write(0, 3);
    room.until("in hand", 10 * SECOND, || room.world.ledger().begun.len() == 3);
    room.sim.kill(first);
    room.world.ledger().crashed(first);
    room.run(60 * SECOND);
    room.manner.millis = 5;
    room.join_with(from_now("b"));
    room.until("all done", E + 20 * SECOND, || room.all_done());
    room.check();
}

/// 13: two hosts of different opinions about where to begin: what was stored first counts
/// (azure-cosmos-dotnet-v3 pull request 5931).
#[test]
fn net3_5931_conflicting_start_times() {
    let mut room = Room::new(4);
    for key in 0..KEYS {
        room.world.write(key, 1);
    }
    let old = room.world.data().next_serial;
    room.join_with(from_now("now"));
    room.until("owned", 10 * SECOND, || room.owners().get("now") == Some(&4));
    room.join("beginning");
    room.until("shared", 10 * SECOND, || room.owners().get("beginning") == Some(&2));
    room.load(50, 20 * SECOND);
    room.run(30 * SECOND);
    let ledger = room.world.ledger();
    assert!((1..=old).all(|serial| !ledger.acked.contains(&serial)), "history was replayed");
    let newest = room.world.data().next_serial;
    assert!((old + 1..=newest).all(|serial| ledger.acked.contains(&serial)), "changes were lost");
}

/// 26: a lease that nobody owns is taken at once, however old its timestamp.
#[test]
fn owner_unset_acquired() {
    let mut room = Room::new(3);
    let first = room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().get("a") == Some(&3));
    room.host(first).stop(10 * SECOND);
    room.until("free", 10 * SECOND, || room.owners().get("") == Some(&3));
    room.run(3600 * SECOND);
    room.join("b");
    room.until("owned", SECOND, || room.owners().get("b") == Some(&3));
}

/// 28: one lease cannot be written and listings fail: the others are taken, and that one too when
/// it can be.
#[test]
fn balancer_survives_errors() {
    let mut room = Room::new(6);
    let first = room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().get("a") == Some(&6));
    room.host(first).stop(10 * SECOND);
    room.until("free", 10 * SECOND, || room.owners().get("") == Some(&6));
    let broken = room.leases().remove(2).id;
    room.world.data().broken = Some(broken);
    room.world.data().store_faults = 300;
    room.join("b");
    room.until("five are taken", 120 * SECOND, || room.owners().get("b") == Some(&5));
    assert!(room.alarmed("cannot be taken"));
    room.world.data().broken = None;
    room.world.data().store_faults = 0;
    room.until("all are taken", 60 * SECOND, || room.owners().get("b") == Some(&6));
    room.check();
}

/// 31: a host loses a lease and wins it back: nothing of its first tenure lands in the second.
#[test]
fn aba_same_host_in_the_fleet() {
    let mut room = Room::new(1);
    room.manner.millis = 400;
    let a = room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    room.load(20, 120 * SECOND);
    let b = room.join("b");
    room.run(2 * SECOND);
    for _ in 0..3 {
        let epoch = room.leases()[0].epoch();
        let (away, here) = if room.owners().contains_key("a") { (a, "b") } else { (b, "a") };
        room.sim.pause(away, true);
        room.until("moved", E + 10 * SECOND, || room.owners().contains_key(here));
        room.sim.pause(away, false);
        room.run(5 * SECOND);
        assert!(room.leases()[0].epoch() > epoch);
    }
    room.until("all done", 200 * SECOND, || room.all_done());
    room.check();
}

/// 35: a checkpoint with every change, for minutes, beside the heartbeats: the lease is never lost.
#[test]
fn renew_vs_checkpoint() {
    let mut room = Room::new(1);
    room.manner.millis = 1;
    room.join_with(Options { max_item_count: Some(1), ..options("a") });
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    let (before, epoch) = (room.moves(), room.leases()[0].epoch());
    room.load(150, 120 * SECOND);
    room.run(150 * SECOND);
    assert!(room.all_done());
    assert_eq!((room.moves(), room.leases()[0].epoch()), (before, epoch));
    assert!(room.world.ledger().closes.is_empty());
    room.check();
}

/// 36: a thief thinks a lease expired, its owner writes first: the thief gives up.
#[test]
fn expired_but_renewed() {
    let mut room = Room::new(2);
    let a = room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().get("a") == Some(&2));
    room.sim.kill(a);
    room.world.ledger().crashed(a);
    // From here on somebody writes each lease just before it is taken.
    room.world.data().renews_first = true;
    room.join("b");
    room.run(4 * E);
    assert_eq!(room.owners().get("b"), None, "nobody is robbed of what was written meanwhile");
    room.world.data().renews_first = false;
    room.until("taken", E + 10 * SECOND, || room.owners().get("b") == Some(&2));
    room.check();
}

/// 37, 38: a lease is lost in mid-batch: one close, last, with its reason; and whatever happens,
/// every observer that was opened is closed once.
#[test]
fn open_close_pairs() {
    let mut room = Room::new(6);
    room.manner.millis = 800;
    let (a, b) = (room.join("a"), room.join("b"));
    room.until("owned", 20 * SECOND, || room.owners().get("b") == Some(&3));
    room.load(30, 60 * SECOND);
    room.run(3 * SECOND);
    room.sim.pause(a, true);
    room.until("taken over", E + 5 * SECOND, || !room.owners().contains_key("a"));
    room.sim.pause(a, false);
    room.world.split(1);
    room.run(10 * SECOND);
    let c = room.join("c");
    room.run(10 * SECOND);
    for process in [a, b, c] {
        room.host(process).stop(30 * SECOND);
    }
    room.until("all have stopped", 60 * SECOND, || {
        [a, b, c].iter().all(|process| room.host(*process).has_ended(&room.sim))
    });
    let ledger = room.world.ledger();
    assert!(ledger.all_closed());
    let of_a = |(process, _, reason): &&(u32, String, CloseReason)| {
        *process == a && matches!(reason, CloseReason::LeaseLost | CloseReason::Fenced)
    };
    assert_eq!(ledger.closes.iter().filter(of_a).count(), 3, "{:?}", ledger.closes);
    drop(ledger);
    room.check();
}

/// 46: 64 keys while hosts come and go: no key's changes are done out of order.
#[test]
fn ordering_under_rebalance() {
    let mut room = Room::new(8);
    let lanes = |name: &str| Options { lanes: 4, ..options(name) };
    room.join_with(lanes("a"));
    room.load(100, 60 * SECOND);
    for n in 0..6 {
        let process = room.join_with(lanes(&format!("h{n}")));
        room.run(4 * SECOND);
        if n % 2 == 0 {
            room.host(process).stop(20 * SECOND);
        }
        room.run(3 * SECOND);
    }
    room.until("all done", 60 * SECOND, || room.all_done());
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// A host dies in every step of a join; another one finds out what has become of it.
#[test]
fn join_crash_midway() {
    for step in 0..8 {
        let mut room = Room::new(2);
        let a = room.join("a");
        room.load(20, 60 * SECOND);
        room.run(5 * SECOND);
        room.world.merge(0);
        let seen = |room: &Room| {
            let marks = room.world.data().history.len();
            let joining = room.leases().iter().any(|lease| lease.property("cfx.joining").is_some());
            (joining || room.leases().len() == 3).then_some(marks)
        };
        room.sim.run_until(room.sim.now() + 60 * SECOND, || seen(&room).is_some());
        let begun = room.world.data().history.len();
        room.sim.run_until(room.sim.now() + 10 * SECOND, || {
            room.world.data().history.len() >= begun + step
        });
        room.sim.kill(a);
        room.world.ledger().crashed(a);
        room.join("b");
        room.until("all done", 120 * SECOND, || room.all_done());
        room.until("one lease", 120 * SECOND, || {
            room.owners().get("b") == Some(&1) && room.leases().len() == 1
        });
        room.check();
    }
}

/// 24: one range of ten becomes hot: its host comes to have few of the others, and then rests.
#[test]
fn load_aware_move_in_the_fleet() {
    let mut room = Room::new(10);
    let by_load = |name: &str| Options { balance_by_load: true, ..options(name) };
    room.join_with(by_load("a"));
    room.join_with(by_load("b"));
    room.load(10, 600 * SECOND);
    room.run(60 * SECOND);
    let before = room.owners();
    assert!(before.values().all(|count| (3..=7).contains(count)), "{before:?}");
    let world = std::sync::Arc::clone(&room.world);
    let work = async move {
        loop {
            world.sim.sleep(Duration::from_millis(100)).await;
            world.write(0, 1);
        }
    };
    room.sim.spawn(crate::executor::WORLD, Box::pin(work));
    let hot = |room: &Room| {
        let lease = room.leases().into_iter().find(|lease| lease.token == "0");
        let owner = lease.and_then(|lease| lease.owner).unwrap_or_default();
        owner.split('~').next().unwrap_or_default().to_owned()
    };
    room.until("the hot host sheds", 300 * SECOND, || {
        room.owners().get(&hot(&room)).is_some_and(|count| *count <= 2)
    });
    let before = room.moves();
    room.run(60 * SECOND);
    assert!(room.moves() - before <= 6, "it swings: {} moves", room.moves() - before);
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}
