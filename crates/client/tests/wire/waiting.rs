//! Readers that wait for changes: the server holds its answer back, or they ask again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use client::{ChangeFeedOptions, FeedRead, FeedScope, ItemOptions, Start};
use serde_json::json;
use tokio::sync::Notify;

use crate::proxy::{Fate, Proxy};
use crate::support::{Home, beginning, client_of, drain, fill, names, soon};

const LONG: Duration = Duration::from_secs(50);

fn waiting(wait: Duration) -> ChangeFeedOptions {
    ChangeFeedOptions { wait: Some(wait), ..Default::default() }
}

#[tokio::test]
async fn a_change_ends_the_wait() {
    let home = Home::new();
    let container = home.container(3).await;
    fill(&container, "old", 5).await;
    let mut changes = container.changes(waiting(LONG)).unwrap();
    changes.pin().await.unwrap();
    let began = Instant::now();
    for n in 0..5 {
        let id = format!("new{n}");
        let write = async {
            let item = json!({"id": id, "pk": id});
            container.create_item(id.as_str(), item, ItemOptions::default()).await.unwrap();
        };
        let (page, ()) = tokio::join!(soon(changes.next_page()), write);
        let page = page.unwrap();
        assert_eq!(page.changes[0].id().unwrap(), Some(id));
        assert!(!page.is_caught_up);
    }
    assert!(began.elapsed() < LONG, "nobody waited for the end of the wait");
}

#[tokio::test]
async fn a_wait_without_changes_ends() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "i", 5).await;
    let options =
        ChangeFeedOptions { start_from_beginning: true, ..waiting(Duration::from_secs(2)) };
    let mut changes = container.changes(options).unwrap();
    assert_eq!(drain(&mut changes).await, names("i", 5));
    let kept = changes.continuation();
    let page = soon(changes.next_page()).await.unwrap();
    assert!(page.is_caught_up && page.changes.is_empty());
    assert_eq!(page.continuation, kept);
}

#[tokio::test]
async fn a_single_read_waits_where_the_server_can() {
    let home = Home::new();
    let container = home.container(1).await;
    let mut read = FeedRead::new(FeedScope::Range("0".into()), Start::Now);
    let now = container.read_changes(&read).await.unwrap();
    read.start = Start::After(now.etag);
    read.wait = Some(Duration::from_secs(1));
    let page = container.read_changes(&read).await.unwrap();
    assert!(page.is_not_modified && page.has_waited);
}

/// Waits for a change while something happens, then writes an item and sees it come.
async fn through(home: &mut Home, happens: impl AsyncFnOnce(&mut Home)) {
    let container = home.container(2).await;
    let mut changes = container.changes(waiting(LONG)).unwrap();
    changes.pin().await.unwrap();
    let page = {
        let next = changes.next_page();
        tokio::pin!(next);
        let work = async {
            happens(home).await;
            fill(&home.client().container("d", "c"), "i", 1).await;
        };
        let (page, ()) = tokio::join!(soon(&mut next), work);
        page.unwrap()
    };
    assert_eq!(page.changes[0].id().unwrap().as_deref(), Some("i0"));
    assert_eq!(drain(&mut container.changes(from(&page.continuation)).unwrap()).await, [""; 0]);
}

fn from(continuation: &str) -> ChangeFeedOptions {
    ChangeFeedOptions { request_continuation: Some(continuation.to_owned()), ..Default::default() }
}

#[tokio::test]
async fn a_wait_goes_on_through_splits_and_merges() {
    through(&mut Home::new(), async |home: &mut Home| {
        let container = home.client().container("d", "c");
        for _ in 0..2 {
            for range in container.partition_key_ranges().await.unwrap() {
                container.split_range(&range.id).await.unwrap();
            }
        }
        let ranges = container.partition_key_ranges().await.unwrap();
        let ids: Vec<&str> = ranges.iter().map(|range| range.id.as_str()).collect();
        container.merge_ranges(&ids[1..]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_wait_goes_on_through_a_restart() {
    through(&mut Home::with(&[]), async |home: &mut Home| home.server.restart().unwrap()).await;
}

#[tokio::test]
async fn more_ranges_than_connections() {
    let home = Home::new();
    let container = home.container(70).await;
    let options = ChangeFeedOptions { poll_interval: Duration::from_millis(50), ..waiting(LONG) };
    let mut changes = container.changes(options).unwrap();
    changes.pin().await.unwrap();
    for n in 0..3 {
        let id = format!("new{n}");
        let item = json!({"id": id, "pk": id});
        container.create_item(id.as_str(), item, ItemOptions::default()).await.unwrap();
        let page = soon(changes.next_page()).await.unwrap();
        assert_eq!(page.changes[0].id().unwrap(), Some(id));
    }
}

#[tokio::test]
async fn a_server_that_does_not_wait_is_asked_again() {
    let home = Home::new();
    let container = home.container(2).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    // As a server answers that has never heard of waiting.
    let polls = Arc::new(AtomicU32::new(0));
    let count = polls.clone();
    let etags = Arc::new(std::sync::Mutex::new(true));
    let deaf = etags.clone();
    proxy.script(move |head| {
        let etag = head.header("if-none-match").filter(|etag| *etag != "*");
        match etag {
            Some(etag) if *deaf.lock().unwrap() => {
                count.fetch_add(1, Ordering::SeqCst);
                Fate::Answer(304, vec![("etag", etag.to_owned())], String::new())
            }
            _ => Fate::Pass,
        }
    });
    let far = client_of(&proxy.endpoint, Default::default()).container("d", "c");
    let options = ChangeFeedOptions { poll_interval: Duration::from_millis(20), ..waiting(LONG) };
    let mut changes = far.changes(options).unwrap();
    changes.pin().await.unwrap();
    let write = async {
        while polls.load(Ordering::SeqCst) < 10 {
            tokio::task::yield_now().await;
        }
        fill(&container, "i", 1).await;
        *etags.lock().unwrap() = false;
    };
    let (page, ()) = tokio::join!(soon(changes.next_page()), write);
    assert_eq!(page.unwrap().changes[0].id().unwrap().as_deref(), Some("i0"));
}

#[tokio::test]
async fn a_call_may_be_dropped_at_any_moment() {
    let home = Home::new();
    let container = home.container(3).await;
    fill(&container, "i", 30).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let far = client_of(&proxy.endpoint, Default::default()).container("d", "c");
    let options = ChangeFeedOptions { max_item_count: Some(4), max_concurrency: 2, ..beginning() };
    let mut changes = far.changes(options).unwrap();
    let mut found = Vec::new();
    for round in 0..40 {
        let held = Arc::new(Notify::new());
        let gate = held.clone();
        proxy.script(move |head| match head.is_item() && round % 2 == 0 {
            true => Fate::Hold(gate.clone()),
            false => Fate::Pass,
        });
        let page = {
            let next = changes.next_page();
            tokio::pin!(next);
            // Polled a little, then dropped, while answers are held back or come in.
            let mut polls = 0;
            loop {
                tokio::select! {
                    biased;
                    page = &mut next => break Some(page.unwrap()),
                    () = tokio::task::yield_now() => polls += 1,
                }
                if polls > round * 20 {
                    break None;
                }
            }
        };
        held.notify_waiters();
        held.notify_one();
        if let Some(page) = page {
            found.extend(page.changes.iter().map(|change| change.id().unwrap().unwrap()));
        }
    }
    proxy.script(|_| Fate::Pass);
    // What was held back belongs to calls that are gone; whoever reads on gets everything.
    let options = ChangeFeedOptions {
        request_continuation: Some(changes.continuation()),
        ..Default::default()
    };
    drop(changes);
    found.extend(drain(&mut far.changes(options).unwrap()).await);
    found.sort();
    assert_eq!(found, names("i", 30));
}
