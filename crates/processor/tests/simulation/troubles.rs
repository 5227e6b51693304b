//! Clocks, pauses, cut lines, throttles and poison, one at a time.
//!
//! Numbers are those of the behaviours that any change feed processor should show.

use std::sync::atomic::Ordering;

use processor::policy::{ErrorPolicy, OnFailure};
use processor::{FeedError, Options};

use crate::fleet::options;
use crate::room::{E, KEYS, Room, SECOND};

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

/// 54: while the handler stands still, reading does too.
#[test]
fn prefetch_backpressure() {
    let mut room = Room::new(1);
    room.manner.millis = 1_000_000_000;
    room.join("a");
    room.run(5 * SECOND);
    for n in 0..500 {
        room.world.write(n % KEYS, 1);
    }
    let before = room.world.data().pages;
    room.run(60 * SECOND);
    // One page is with the handler, two wait.
    let read = room.world.data().pages - before;
    assert!((1..=3).contains(&read), "{read} pages were read");
}

/// 62: a session that a replica does not have yet is asked for again; the lease stays.
#[test]
fn session_not_available() {
    let mut room = Room::new(1);
    room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    let before = room.moves();
    room.world.data().refusals = vec![FeedError::Session; 5];
    room.load(5, 10 * SECOND);
    room.run(20 * SECOND);
    assert!(room.world.data().refusals.is_empty() && room.all_done());
    assert_eq!(room.moves(), before);
    assert!(room.world.ledger().closes.is_empty());
    room.check();
}

/// 56: a page that would be too large is asked for in halves; all comes in order, and the size
/// recovers.
#[test]
fn page_too_big_is_halved() {
    let mut room = Room::new(1);
    room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    room.world.data().page_items_max = Some(2);
    room.load(30, 10 * SECOND);
    room.run(5 * SECOND);
    assert!(room.world.data().asked_items <= Some(4), "{:?}", room.world.data().asked_items);
    room.until("all done", 20 * SECOND, || room.all_done());
    room.world.data().page_items_max = None;
    room.load(30, 10 * SECOND);
    room.run(12 * SECOND);
    assert!(room.all_done());
    assert_eq!(room.world.data().asked_items, Some(8), "as it was set");
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// 73: what follows the position is no longer kept: an alarm, no jump, nothing handled, and the
/// lease stays; work goes on when a person has seen to it.
#[test]
fn retention_gone() {
    let mut room = Room::new(1);
    room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    room.world.data().refusals = vec![FeedError::HistoryLost("too old".into()); 3];
    for key in 0..4 {
        room.world.write(key, 1);
    }
    let position = room.leases()[0].continuation.clone();
    room.run(50 * SECOND);
    assert!(room.alarmed("no longer kept") && room.world.ledger().begun.is_empty());
    assert_eq!(room.leases()[0].continuation, position);
    room.until("all done", 120 * SECOND, || room.all_done());
    room.check();
}

/// The key stops working while a host runs: an alarm, nothing is skipped, and when it works again so
/// does the host.
#[test]
fn a_key_that_stops_working() {
    let mut room = Room::new(1);
    room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    let refused = FeedError::Refused { status: 401, message: "the key is not valid".into() };
    room.world.data().refusals = vec![refused; 2];
    for key in 0..4 {
        room.world.write(key, 1);
    }
    room.run(20 * SECOND);
    assert!(room.alarmed("401") && room.world.ledger().begun.is_empty());
    room.until("all done", 120 * SECOND, || room.all_done());
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// 87: ten quiet minutes: the host says that it lives and reads, and asks little.
#[test]
fn idle_heartbeat() {
    let mut room = Room::new(100);
    let a = room.join("a");
    room.until("owned", 30 * SECOND, || room.owners().get("a") == Some(&100));
    room.run(30 * SECOND);
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (beats, reads) = (count(&room.host(a).beats), count(&room.host(a).reads));
    let requests = room.world.data().requests[&a];
    room.run(600 * SECOND);
    assert!(count(&room.host(a).beats) - beats >= 100, "a beat every five seconds or so");
    assert!(count(&room.host(a).reads) - reads >= 100 * 15, "every lease is read, empty or not");
    let asked = room.world.data().requests[&a] - requests;
    assert!(asked <= 600, "{asked} requests to the lease container in 600 seconds");
}

/// 60: a read that is never answered is given up, and sent again.
#[test]
fn hung_read() {
    let mut room = Room::new(1);
    room.world.data().hangs = true;
    room.join("a");
    room.run(5 * SECOND);
    room.world.write(0, 1);
    room.run(5 * SECOND);
    assert!(!room.all_done());
    room.world.data().hangs = false;
    room.until("read again", 100 * SECOND, || room.all_done());
    room.check();
}
