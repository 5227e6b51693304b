//! Splits that a host has left half done, and what the ranges become meanwhile.

use processor::Options;
use processor::env::Rule;
use processor::span::holes;
use serde_json::{Map, Value, json};

use crate::chaos::{self, Kind};
use crate::executor::Process;
use crate::fleet::options;
use crate::ledger::names;
use crate::room::{Room, SECOND};

/// One host whose range was split, and who dies so many writes after it has said into what.
fn dies_after(step: usize) -> Room {
    let (room, a) = divides_until(step);
    room.sim.kill(a);
    room.world.ledger().crashed(a);
    room
}

/// One host whose range was split, so many writes after it has said into what.
fn divides_until(step: usize) -> (Room, Process) {
    let mut room = Room::new(1);
    let a = room.join("a");
    room.load(20, 60 * SECOND);
    room.run(5 * SECOND);
    room.world.split(0);
    let is_listed = || room.leases().iter().any(|lease| lease.property("cfx.children").is_some());
    room.sim.run_until(room.sim.now() + 30 * SECOND, is_listed);
    assert!(is_listed());
    let begun = room.world.data().history.len();
    room.sim.run_until(room.sim.now() + 10 * SECOND, || {
        room.world.data().history.len() >= begun + step
    });
    (room, a)
}

/// Whether every key is covered, and by one lease.
fn tiles(room: &Room) -> bool {
    let live = room.leases().into_iter().filter(|lease| !lease.is_closed());
    let mut spans: Vec<_> = live.filter_map(|lease| lease.span).collect();
    spans.sort();
    holes(&spans).is_empty() && spans.windows(2).all(|pair| pair[0].max == pair[1].min)
}

/// 67: its host dies in any step of a split: another one does the rest.
#[test]
fn split_crash_midway() {
    for step in 0..6 {
        let mut room = dies_after(step);
        room.join("b");
        room.until("all done", 120 * SECOND, || room.all_done());
        room.until("two children", 30 * SECOND, || room.owners().get("b") == Some(&2));
        assert!(tiles(&room) && room.leases().len() == 2, "the parent is gone");
        room.check();
    }
}

/// The ranges are merged again before somebody finds the split half done: it is finished as it was
/// begun, then the children are joined.
#[test]
fn split_crash_midway_then_merge() {
    for step in 0..6 {
        let mut room = dies_after(step);
        room.world.merge(0);
        room.join("b");
        room.until("all done", 120 * SECOND, || room.all_done());
        room.until("one lease", 120 * SECOND, || {
            room.owners().get("b") == Some(&1) && room.leases().len() == 1
        });
        assert!(tiles(&room));
        room.check();
    }
}

/// The ranges are split further before somebody finds the split half done.
#[test]
fn split_crash_midway_then_split() {
    for step in 0..6 {
        let mut room = dies_after(step);
        room.world.split(0);
        room.world.split(2);
        room.join("b");
        room.until("all done", 120 * SECOND, || room.all_done());
        room.until("four leases", 60 * SECOND, || {
            room.owners().get("b") == Some(&4) && tiles(&room)
        });
        room.check();
    }
}

/// Its host is cut off in the middle of a split; another one finishes it, and the children are joined;
/// then the first one is back, and believes that it has some left to make.
#[test]
fn maker_that_was_replaced_makes_nothing() {
    // When it is back decides whether it hears first that it lives, or what became of its request.
    for seconds in 0..8 {
        let (mut room, a) = divides_until(1);
        room.world.data().no_store.insert(a);
        room.join("b");
        room.run(20 * SECOND);
        assert_eq!(room.owners().get("b"), Some(&2), "{seconds}: finished by another");
        room.world.merge(0);
        room.run(20 * SECOND);
        assert_eq!(room.leases().len(), 1, "{seconds}: joined");
        room.run(SECOND * seconds);
        room.world.data().no_store.remove(&a);
        room.until("all done", 120 * SECOND, || room.all_done());
        room.run(30 * SECOND);
        assert!(tiles(&room) && room.leases().len() == 1, "{seconds}: {:?}", room.leases());
        room.check();
        assert_eq!(room.world.ledger().duplicates(), 0, "{seconds}");
    }
}

/// The last child of a split is on its way while its maker is thought dead, and arrives when another one
/// has finished the split and has joined the child of that name with a neighbour: the maker is told
/// that it was made.
#[test]
fn child_that_arrives_when_it_is_over() {
    let mut room = Room::new(2);
    let brisk = |name| Options { lease_renew_interval: SECOND, ..options(name) };
    let a = room.join_with(brisk("a"));
    room.join_with(brisk("b"));
    let has = |token: &str| room.leases().into_iter().find(|lease| lease.token == token);
    let is_of = |token: &str, owner: &str| {
        has(token).and_then(|lease| lease.owner).is_some_and(|found| found.starts_with(owner))
    };
    room.until("balanced", 10 * SECOND, || is_of("0", "a~") && is_of("1", "b~"));
    room.load(20, 60 * SECOND);
    room.run(2 * SECOND);
    // From now on it is silent. It begins nothing 12 seconds later; the lease is taken 15 seconds
    // after it was written last.
    room.world.data().broken = Some(names().host("a"));
    room.run(SECOND * 26 / 10);
    room.world.data().late = Some((a, SECOND * 87 / 10));
    room.world.split(0);
    room.until("listed", SECOND, || {
        has("0").is_some_and(|lease| lease.property("cfx.children").is_some())
    });
    room.world.merge(1);
    room.until("joined by b", 20 * SECOND, || is_of("4", "b~"));
    // It is heard of again before its child arrives.
    room.world.data().broken = None;
    room.until("made by a", 3 * SECOND, || is_of("3", "a~"));
    room.world.data().late = None;
    room.run(60 * SECOND);
    room.until("all done", 120 * SECOND, || room.all_done());
    assert!(tiles(&room) && room.leases().len() == 2, "{:?}", room.leases());
    room.check();
    assert_eq!(room.world.ledger().duplicates(), 0);
}

/// Whether all is well after a split was left with one of two children made, the ranges were merged
/// and perhaps split otherwise, and the parent could not be taken for a while though the child could.
pub fn leases_tile(rule: Option<Rule>, splits: usize) -> bool {
    let mut room = dies_after(1);
    assert_eq!(room.leases().len(), 2, "the parent and one child");
    let parent = room.leases().into_iter().find(|lease| lease.token == "0").expect("the parent");
    room.world.data().broken = Some(parent.id);
    room.world.merge(0);
    room.manner.without = rule;
    room.join("b");
    room.run(45 * SECOND);
    for _ in 0..splits {
        room.world.split(0);
        room.run(10 * SECOND);
    }
    room.world.data().broken = None;
    room.run(120 * SECOND);
    assert!(room.all_done());
    tiles(&room)
}

/// A child that is worked on, divided and gone would be made again when its parent is found.
#[test]
fn child_waits_for_its_parent() {
    assert!(leases_tile(None, 0));
    assert!(leases_tile(None, 2));
}

/// Where nothing may be deleted, ranges that are split and merged again and again need leases whose
/// names have tombstones: those give way.
#[test]
fn tombstones_give_way_to_children() {
    let mut room = Room::new(1);
    room.world.data().keeps_all = true;
    room.join("a");
    room.load(20, 160 * SECOND);
    room.run(5 * SECOND);
    // Twice the same: the second time the spans of the children have tombstones.
    for _ in 0..2 {
        room.world.split(0);
        room.run(20 * SECOND);
        room.world.merge(0);
        room.run(60 * SECOND);
        assert!(tiles(&room), "{:?}", room.owners());
    }
    let closed = room.leases().into_iter().filter(|lease| lease.is_closed());
    assert!(closed.count() >= 5, "the parents, and the children that were joined");
    room.until("all done", 120 * SECOND, || room.all_done());
    assert!(tiles(&room));
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// A document, by its id.
type Stored = (String, Map<String, Value>);

/// The documents of leases that were made and had not begun, by the token of the parent.
fn children_of(room: &Room, parent: &str) -> Vec<Stored> {
    let is_child = |body: &Map<String, Value>| body["properties"]["cfx.parent"] == parent;
    let data = room.world.data();
    let leases = data.documents.iter().filter(|(id, _)| id.contains(".."));
    let children = leases.filter(|(_, (body, _))| is_child(body));
    children.map(|(id, (body, _))| (id.clone(), body.clone())).collect()
}

/// One host, whose lease has just been divided into two that have not begun.
fn just_divided(rule: Option<Rule>) -> (Room, Vec<Stored>) {
    let mut room = Room::new(1);
    room.manner.without = rule;
    room.join("a");
    room.load(20, 60 * SECOND);
    room.run(5 * SECOND);
    room.world.split(0);
    room.sim.run_until(room.sim.now() + 30 * SECOND, || children_of(&room, "0").len() == 2);
    let children = children_of(&room, "0");
    assert_eq!(children.len(), 2);
    (room, children)
}

/// A request of a process that is dead is carried out late.
fn arrives(room: &Room, (id, body): &Stored) {
    let mut body = body.clone();
    body.insert("Owner".into(), json!("gone~1.00000001"));
    let put = room.world.put_late(id, body);
    assert!(put, "{id} is there already");
}

/// Whether a child that is made again after it was divided, or joined, goes by itself.
pub fn ghosts_vanish(rule: Option<Rule>) -> bool {
    let (mut room, children) = just_divided(rule);
    room.run(5 * SECOND);
    // Divided further; then joined, so that one lease has more than the ghost.
    room.world.split(0);
    room.run(10 * SECOND);
    arrives(&room, &children[0]);
    room.join("b");
    room.run(60 * SECOND);
    let mut all_well = tiles(&room);
    room.world.merge(1);
    room.run(60 * SECOND);
    arrives(&room, &children[1]);
    room.run(60 * SECOND);
    all_well &= tiles(&room) && room.world.ledger().duplicates() == 0;
    assert!(room.all_done());
    all_well
}

/// A child that a late request has made goes when its keys have others.
#[test]
fn late_child_vanishes() {
    assert!(ghosts_vanish(None));
}

/// The late child has the name of one that is just being made: it is not taken for it.
#[test]
fn late_child_gives_way_to_a_real_one() {
    let mut room = Room::new(2);
    room.join("a");
    room.load(20, 200 * SECOND);
    room.run(5 * SECOND);
    // Twice the same: what the merged ranges leave has the same name both times.
    room.world.merge(0);
    room.sim.run_until(room.sim.now() + 30 * SECOND, || !children_of(&room, "0").is_empty());
    let ghost = children_of(&room, "0").remove(0);
    room.run(60 * SECOND);
    room.world.split(0);
    room.until("two leases", 30 * SECOND, || room.leases().len() == 2 && tiles(&room));
    let parent = room.leases().remove(0).token;
    room.run(5 * SECOND);
    room.world.merge(0);
    let is_listed = || {
        let parent = room.leases().into_iter().find(|lease| lease.token == parent);
        parent.is_some_and(|lease| lease.property("cfx.children").is_some())
    };
    room.sim.run_until(room.sim.now() + 30 * SECOND, is_listed);
    assert!(is_listed());
    arrives(&room, &ghost);
    room.run(60 * SECOND);
    assert!(tiles(&room) && room.leases().len() == 1, "{:?}", room.leases());
    room.until("all done", 200 * SECOND, || room.all_done());
    assert_eq!(room.world.ledger().duplicates(), 0);
    room.check();
}

/// Seeds that once left leases that overlap, or keys that nobody covers, or two hosts at work on one
/// lease.
#[test]
fn seeds_that_left_splits_half_done() {
    for (kind, seed) in [
        (Kind::Merges, 168),
        (Kind::Faults, 312),
        (Kind::Merges, 47),
        (Kind::Merges, 84),
        (Kind::Merges, 20943),
        (Kind::Faults, 35),
        (Kind::Faults, 78),
        (Kind::Merges, 21636),
    ] {
        let wrong = chaos::run(kind, seed);
        assert!(wrong.is_empty(), "{kind:?} {seed}: {}", wrong.join("\n"));
    }
}
