//! Readers of changes through splits, merges and restarts.

use client::{ChangeFeedOptions, Changes, Container, Kind};

use crate::support::{Home, beginning, drain, fill, ids, names, soon};

async fn split_all(container: &Container) {
    for range in container.partition_key_ranges().await.unwrap() {
        container.split_range(&range.id).await.unwrap();
    }
}

async fn merge_all(container: &Container) {
    let ranges = container.partition_key_ranges().await.unwrap();
    let ids: Vec<&str> = ranges.iter().map(|range| range.id.as_str()).collect();
    container.merge_ranges(&ids).await.unwrap();
}

/// Reads a page and gives its ids.
async fn step(changes: &mut Changes) -> Vec<String> {
    ids(&soon(changes.next_page()).await.unwrap())
}

#[tokio::test]
async fn a_split_in_the_middle() {
    let home = Home::new();
    let container = home.container(1).await;
    fill(&container, "i", 40).await;
    let options = ChangeFeedOptions { max_item_count: Some(7), ..beginning() };
    let mut changes = container.changes(options).unwrap();
    let mut found = step(&mut changes).await;
    let before = changes.continuation();
    // Another client splits: this one learns of it by being refused.
    split_all(&home.client().container("d", "c")).await;
    found.extend(step(&mut changes).await);
    split_all(&home.client().container("d", "c")).await;
    found.extend(drain(&mut changes).await);
    found.sort();
    assert_eq!(found, names("i", 40));
    // A position from before both splits still holds, for a client that knows nothing.
    let options = ChangeFeedOptions { request_continuation: Some(before), ..Default::default() };
    let fresh = home.client().container("d", "c");
    assert_eq!(drain(&mut fresh.changes(options).unwrap()).await.len(), 33);
}

#[tokio::test]
async fn a_merge_in_the_middle() {
    let home = Home::new();
    let container = home.container(4).await;
    fill(&container, "i", 60).await;
    let options = ChangeFeedOptions { max_item_count: Some(5), ..beginning() };
    let mut changes = container.changes(options).unwrap();
    let mut found = Vec::new();
    for _ in 0..6 {
        found.extend(step(&mut changes).await);
    }
    merge_all(&home.client().container("d", "c")).await;
    fill(&container, "more", 10).await;
    found.extend(drain(&mut changes).await);
    found.sort();
    let mut expected = [names("i", 60), names("more", 10)].concat();
    expected.sort();
    assert_eq!(found, expected);
    // And in two again, with positions that are no longer those of ranges.
    split_all(&home.client().container("d", "c")).await;
    fill(&container, "last", 10).await;
    assert_eq!(drain(&mut changes).await, names("last", 10));
}

#[tokio::test]
async fn a_range_that_was_split_is_read_at_its_heirs() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "i", 30).await;
    let ranges = container.partition_key_ranges().await.unwrap();
    let of =
        |id: &str| ChangeFeedOptions { partition_key_range_id: Some(id.to_owned()), ..beginning() };
    let mut changes = container.changes(of(&ranges[0].id)).unwrap();
    let own = drain(&mut changes).await;
    let kept = changes.continuation();
    container.split_range(&ranges[0].id).await.unwrap();
    let fresh = home.client().container("d", "c");
    assert_eq!(drain(&mut fresh.changes(of(&ranges[0].id)).unwrap()).await, own);
    let options = ChangeFeedOptions { request_continuation: Some(kept), ..of(&ranges[0].id) };
    assert_eq!(drain(&mut fresh.changes(options).unwrap()).await, [""; 0]);
    // By name alone, a single read does not guess.
    let read = client::FeedRead::new(
        client::FeedScope::Range(ranges[0].id.clone()),
        client::Start::Beginning,
    );
    let gone = fresh.read_changes(&read).await.unwrap_err();
    assert_eq!((gone.kind(), gone.substatus(), gone.attempts()), (Kind::RangeGone, 1002, 1));
}

#[tokio::test]
async fn a_restart_in_the_middle() {
    let mut home = Home::with(&[]);
    let container = home.container(2).await;
    fill(&container, "i", 40).await;
    let options = ChangeFeedOptions { max_item_count: Some(6), ..beginning() };
    let mut changes = container.changes(options).unwrap();
    let mut found = step(&mut changes).await;
    home.server.restart().unwrap();
    found.extend(step(&mut changes).await);
    home.server.kill();
    let lost = container.client().container("d", "c");
    let impatient = client::Options { retry: client::Retry::NONE, ..Default::default() };
    let unreachable = crate::support::client_of(&home.server.endpoint, impatient);
    let error = unreachable.container("d", "c").read().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(!error.may_have_been_applied());
    // The reader asks again and again while the server is away.
    let (rest, ()) =
        tokio::join!(soon(changes.next_page()), async { home.server.restart().unwrap() });
    found.extend(ids(&rest.unwrap()));
    found.extend(drain(&mut changes).await);
    found.sort();
    assert_eq!(found, names("i", 40));
    assert_eq!(lost.partition_key_ranges().await.unwrap().len(), 2);
}
