//! Each protective rule switched off, to show that the simulation misses it.
//!
//! A harness that finds nothing may be blind. Here every rule of the core is taken away in turn, and
//! the seeds have to find that the promise it keeps is broken.

use processor::env::Rule;

use crate::chaos::{Kind, run_without};
use crate::room::{E, Room, SECOND};
use crate::splits;

/// So many seeds have to suffice.
const SEEDS: u64 = 60;

/// Some seed breaks one of these invariants.
fn check(rule: Rule, kind: Kind, invariants: &[u32]) {
    let words: Vec<String> =
        invariants.iter().map(|number| format!("invariant {number}")).collect();
    let found = (0..SEEDS).find(|seed| {
        let wrong = run_without(Some(rule), kind, *seed);
        wrong.iter().any(|text| words.iter().any(|word| text.starts_with(word)))
    });
    assert!(found.is_some(), "{SEEDS} seeds do not notice that {rule:?} is missing");
}

#[test]
fn writing_over_others_is_found() {
    check(Rule::IfMatch, Kind::Faults, &[1, 2, 5]);
}

#[test]
fn saving_before_the_handler_is_found() {
    check(Rule::AfterHandler, Kind::Faults, &[2]);
}

#[test]
fn saving_beyond_what_is_done_is_found() {
    check(Rule::Watermark, Kind::Faults, &[2]);
}

#[test]
fn splitting_where_reading_was_is_found() {
    check(Rule::SplitAtSaved, Kind::Graceful, &[2]);
}

#[test]
fn expiry_by_wall_clock_is_found() {
    check(Rule::SeenExpiry, Kind::Graceful, &[6]);
}

#[test]
fn moving_without_draining_is_found() {
    check(Rule::Drain, Kind::Graceful, &[6]);
}

#[test]
fn removing_the_parent_first_is_found() {
    check(Rule::ParentLast, Kind::Graceful, &[4]);
}

#[test]
fn cutting_anew_what_was_listed_is_found() {
    assert!(!splits::leases_tile(Some(Rule::Listed), 0));
}

#[test]
fn beginning_before_the_parent_is_gone_is_found() {
    assert!(!splits::leases_tile(Some(Rule::ParentGone), 2));
}

#[test]
fn beginning_what_was_made_too_late_is_found() {
    assert!(!splits::ghosts_vanish(Some(Rule::Ghost)));
}

#[test]
fn taking_what_was_joined_is_found() {
    check(Rule::Register, Kind::Merges, &[2, 3, 4, 7]);
}

/// An owner that is cut off from the lease container: how long after the new one's first call is it
/// called last?
fn overlaps(rule: Option<Rule>) -> bool {
    let mut room = Room::new(1);
    room.manner.without = rule;
    let a = room.join("a");
    room.until("owned", 10 * SECOND, || room.owners().contains_key("a"));
    let b = room.join("b");
    room.load(20, 60 * SECOND);
    room.run(3 * SECOND);
    room.world.data().no_store.insert(a);
    room.until("taken over", E + 10 * SECOND, || room.owners().contains_key("b"));
    room.run(5 * SECOND);
    let ledger = room.world.ledger();
    ledger.last_call[&(a, "0".into())] >= ledger.first_call[&(b, "0".into())]
}

#[test]
fn working_on_though_thought_dead_is_found() {
    assert!(!overlaps(None));
    assert!(overlaps(Some(Rule::Fence)));
}
