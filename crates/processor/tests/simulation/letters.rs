//! Dead letters that are handled again: by whom, when, and until when.

use std::sync::Arc;

use processor::policy::{ErrorPolicy, OnFailure};
use processor::{AdminError, CloseReason, Fleet, Later, Options};

use crate::executor::WORLD;
use crate::fleet::options;
use crate::ledger::names;
use crate::room::{KEYS, Room, SECOND};
use crate::world::{SimFeed, SimStore};

/// A key of the upper half.
const POISON: usize = KEYS - 4;

fn policy(name: &str) -> Options {
    let then = OnFailure::DeadLetter;
    let error_policy = ErrorPolicy { then, attempts: 1, ..ErrorPolicy::default() };
    Options { error_policy, drain_timeout: 60 * SECOND, ..options(name) }
}

fn letters(room: &Room) -> usize {
    room.world.data().documents.keys().filter(|id| id.contains(".dead.")).count()
}

/// A fleet without hosts that has left a letter behind.
fn one_letter(ranges: usize) -> Room {
    let mut room = Room::new(ranges);
    room.manner.poison = POISON;
    let a = room.join_with(policy("a"));
    room.until("owned", 10 * SECOND, || room.owners().get("a") == Some(&ranges));
    room.world.write(POISON, 1);
    room.until("set aside", 10 * SECOND, || letters(&room) == 1);
    room.run(5 * SECOND);
    room.host(a).stop(10 * SECOND);
    room.run(10 * SECOND);
    room.manner.poison = usize::MAX;
    room
}

/// Somebody gives the fleet an order.
fn order(room: &Room, work: impl FnOnce(Fleet) -> Later<'static, Result<(), AdminError>>) {
    let store = || Arc::new(SimStore { world: Arc::clone(&room.world), process: WORLD });
    let feed = SimFeed { world: Arc::clone(&room.world), process: WORLD, key_paths: vec![] };
    let fleet = Fleet::new(store(), Arc::new(feed), Some(store()), names());
    let work = work(fleet);
    room.sim.spawn(WORLD, Box::pin(async move { work.await.expect("an order") }));
    room.run(SECOND);
}

fn redrive(room: &Room) {
    order(room, |fleet| Box::pin(async move { fleet.redrive(&[]).await.map(drop) }));
}

/// A letter whose lease was joined with another belongs to what both have become.
#[test]
fn letters_are_redriven_after_a_join() {
    let mut room = one_letter(2);
    room.join_with(policy("b"));
    room.until("owned", 10 * SECOND, || room.owners().get("b") == Some(&2));
    room.load(10, 60 * SECOND);
    room.world.merge(0);
    room.until("joined", 60 * SECOND, || room.leases().len() == 1);
    redrive(&room);
    room.until("handled", 20 * SECOND, || letters(&room) == 0);
}

/// A fleet that is paused calls no handler, for letters neither.
#[test]
fn letters_wait_while_the_fleet_is_paused() {
    let mut room = one_letter(1);
    order(&room, |fleet| Box::pin(async move { fleet.pause().await }));
    room.join_with(policy("b"));
    redrive(&room);
    room.run(20 * SECOND);
    assert_eq!(letters(&room), 1, "handled though nothing may be");
    order(&room, |fleet| Box::pin(async move { fleet.resume().await }));
    room.until("handled", 20 * SECOND, || letters(&room) == 0);
}

/// A host that may be thought dead cancels the handler of a letter like any other.
#[test]
fn redriving_ends_with_its_host() {
    let mut room = one_letter(1);
    room.manner.millis = 1_000_000_000;
    let b = room.join_with(policy("b"));
    room.until("owned", 20 * SECOND, || room.owners().contains_key("b"));
    redrive(&room);
    let called = || room.world.ledger().last_call.contains_key(&(b, "0".to_owned()));
    room.until("called", 10 * SECOND, called);
    room.world.data().no_store.insert(b);
    let fenced = (b, "0".to_owned(), CloseReason::Fenced);
    room.until("cancelled", 15 * SECOND, || room.world.ledger().closes.contains(&fenced));
}

/// However many letters others have, those of a lease are found.
#[test]
fn letters_of_others_are_passed_over() {
    let mut room = one_letter(2);
    let mine = {
        let data = room.world.data();
        let (id, (body, _)) =
            data.documents.iter().find(|(id, _)| id.contains(".dead.")).expect("a letter");
        (id.clone(), body.clone())
    };
    for nth in 0..10_001 {
        let (id, mut body) = mine.clone();
        let id = id.replace("1.00000.", &format!("0.{nth:05}."));
        body.insert("id".into(), id.clone().into());
        body.insert("span".into(), "40-50".into());
        body.insert("leaseToken".into(), "9".into());
        assert!(room.world.put_late(&id, body));
    }
    order(&room, |fleet| {
        Box::pin(
            async move { fleet.redrive(&[".dead.00000000000000000001.".into()]).await.map(drop) },
        )
    });
    room.join_with(policy("b"));
    room.until("handled", 60 * SECOND, || letters(&room) == 10_001);
}
