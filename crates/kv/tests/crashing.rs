//! The simulated store loses exactly what it is told to lose.

#![allow(clippy::unwrap_used)]

use astrarium_kv::suite::{put, rows};
use astrarium_kv::{Claim, Crashing, Error, Keyspace, PartitionId, Stores};

const ONE: PartitionId = PartitionId(1);

#[tokio::test]
async fn nothing_is_visible_before_it_is_durable() {
    let store = Crashing::manual();
    let owner = store.open_owner(ONE, Claim::Take).await.unwrap();
    let first = owner.submit(vec![put(Keyspace::Docs, "a", "1")]).unwrap();
    let second = owner.submit(vec![put(Keyspace::Docs, "a", "2")]).unwrap();
    assert_eq!(store.queued(), 2);
    assert_eq!(rows(&*owner.published(), Keyspace::Docs).await, []);
    assert_eq!(store.sync(1), 1);
    first.durable().await.unwrap();
    assert_eq!(owner.published().get(Keyspace::Docs, b"a").await.unwrap().unwrap(), "1");
    assert_eq!(store.sync(9), 1);
    second.durable().await.unwrap();
}

#[tokio::test]
async fn a_crash_keeps_a_prefix_that_nobody_was_told_of() {
    let store = Crashing::manual();
    let owner = store.open_owner(ONE, Claim::Take).await.unwrap();
    let tickets: Vec<_> = (0..5)
        .map(|n| owner.submit(vec![put(Keyspace::Feed, &n.to_string(), "v")]).unwrap())
        .collect();
    store.sync(1);
    store.crash(2);
    for (n, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.durable().await.is_ok(), n == 0);
    }
    assert!(matches!(owner.submit(vec![]), Err(Error::Closed)));
    assert!(matches!(store.open_owner(ONE, Claim::Take).await, Err(Error::Closed)));
    store.reopen();
    assert!(matches!(owner.submit(vec![]), Err(Error::Closed)), "an owner outlived the crash");
    let again = store.open_owner(ONE, Claim::Expect(owner.epoch())).await.unwrap();
    assert_eq!(rows(&*again.published(), Keyspace::Feed).await.len(), 3);
    let next = again.submit(vec![put(Keyspace::Feed, "x", "v")]).unwrap();
    assert_eq!(next.no().0, 4);
}

#[tokio::test]
async fn a_takeover_fails_what_is_queued() {
    let store = Crashing::manual();
    let first = store.open_owner(ONE, Claim::Take).await.unwrap();
    let other = store.open_owner(PartitionId(2), Claim::Take).await.unwrap();
    let fenced = first.submit(vec![put(Keyspace::Docs, "a", "1")]).unwrap();
    let kept = other.submit(vec![put(Keyspace::Docs, "a", "1")]).unwrap();
    store.open_owner(ONE, Claim::Take).await.unwrap();
    assert!(matches!(fenced.durable().await, Err(Error::Fenced)));
    assert_eq!(store.sync(9), 1);
    kept.durable().await.unwrap();
}
