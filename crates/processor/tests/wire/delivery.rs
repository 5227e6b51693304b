//! What is delivered, how often, and in which order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use processor::monitor::Counters;
use processor::{CheckpointFrequency, Context, LeaseLost, Options};
use tokio::sync::mpsc;

use crate::support::{Home, Seen, Sink, eventually, from_beginning, options};

const STOP: Duration = Duration::from_secs(20);

/// Changes of one key come in the order of their commits.
pub fn assert_ordered(seen: &[Seen]) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for each in seen {
        let before = last.insert(&each.key, each.lsn).unwrap_or(0);
        assert!(before <= each.lsn, "{each:?} came after {before}");
    }
}

/// 45: two hosts, every item, per-key order; planned moves repeat nothing (39).
#[tokio::test]
async fn two_hosts_count_and_graceful_handoff() {
    let home = Home::new(4).await;
    let sink = Sink::new();
    let mut first = home.start(from_beginning("a"), &sink).await;
    home.fill("one", 100).await;
    sink.until_count(100).await;
    let mut second = home.start(from_beginning("b"), &sink).await;
    home.fill("two", 100).await;
    sink.until_count(200).await;
    eventually("both have half of the leases", || async {
        let leases = home.lease_documents().await;
        let of = |name: &str| {
            leases
                .iter()
                .filter(|l| l["Owner"].as_str().is_some_and(|o| o.starts_with(name)))
                .count()
        };
        of("a~") == 2 && of("b~") == 2
    })
    .await;
    home.fill("three", 100).await;
    sink.until_count(300).await;
    first.stop(STOP).await;
    home.fill("four", 100).await;
    sink.until_count(400).await;
    second.stop(STOP).await;
    assert_eq!(sink.ids().len(), 400, "planned moves repeat nothing");
    assert_ordered(&sink.seen());
    let by: std::collections::BTreeSet<String> =
        sink.seen().into_iter().map(|seen| seen.instance).collect();
    assert_eq!(by.len(), 2);
}

/// 42: stopped in the middle, started again: nothing is missing, nothing comes twice.
#[tokio::test]
async fn stop_at_full_speed() {
    let home = Home::new(2).await;
    let sink = Sink::new();
    home.fill("x", 200).await;
    let small = Options { max_item_count: Some(5), ..from_beginning("a") };
    let mut processor = home.start(small.clone(), &sink).await;
    sink.until_count(20).await;
    processor.stop(STOP).await;
    processor.start().await.unwrap();
    sink.until_count(200).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 200);
}

/// 43: a handler that never returns does not hold a stop up.
#[tokio::test]
async fn stop_has_deadline() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    sink.pause.send_replace(true);
    let quick = Options { drain_timeout: Duration::from_secs(60), ..from_beginning("a") };
    let mut processor = home.start(quick, &sink).await;
    home.put("x", "k").await;
    eventually("the lease is owned", || async {
        home.lease_documents().await.iter().any(|lease| lease["Owner"].is_string())
    })
    .await;
    // The handler has the item, or will never get it; both must not matter.
    let report = tokio::time::timeout(STOP, processor.stop(Duration::from_secs(2))).await.unwrap();
    assert!(report.stuck.len() <= 1, "{report:?}");
}

/// 22: one physical range, eight sub-ranges: more hosts than ranges can work.
#[tokio::test]
async fn sub_ranges_use_more_hosts() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let pieces = |name: &str| Options { ranges_per_partition: 8, ..from_beginning(name) };
    let mut first = home.start(pieces("a"), &sink).await;
    let mut second = home.start(pieces("b"), &sink).await;
    assert_eq!(home.lease_documents().await.len(), 8);
    home.fill("x", 100).await;
    sink.until_count(100).await;
    first.stop(STOP).await;
    second.stop(STOP).await;
    assert_eq!(sink.ids().len(), 100, "no overlap");
    let leases: std::collections::BTreeSet<String> =
        sink.seen().into_iter().map(|seen| seen.lease).collect();
    assert!(leases.len() > 1, "{leases:?}");
}

/// 53: lanes keep each key's order, and run beside each other.
#[tokio::test]
async fn key_lanes_order() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let lanes = Options { lanes: 8, ..from_beginning("a") };
    for round in 0..10 {
        home.fill(&format!("r{round}-"), 16).await;
    }
    let mut processor = home.start(lanes, &sink).await;
    sink.until_count(160).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 160);
    assert_ordered(&sink.seen());
}

/// 89: a checkpoint is one request.
#[tokio::test]
async fn checkpoint_costs_one_request() {
    let home = Home::new(1).await;
    let counters = Arc::new(Counters::default());
    let handled = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&handled);
    let mut processor = home
        .builder()
        .await
        .options(from_beginning("a"))
        .monitor(counters.clone())
        .handler(move |_, changes| {
            seen.fetch_add(changes.len() as u64, Ordering::SeqCst);
            async { Ok(()) }
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    for n in 0..20 {
        home.put(&format!("x{n}"), "k").await;
        eventually("it was handled and saved", || async {
            handled.load(Ordering::SeqCst) > n && counters.get("checkpoints_total") > n
        })
        .await;
    }
    let lease = home.lease_documents().await.remove(0);
    processor.stop(STOP).await;
    // Every write of a tenure has its own number: as many writes as checkpoints.
    let writes = lease["properties"]["cfx.wid"].as_str().unwrap().rsplit('/').next().unwrap();
    let checkpoints = counters.get("checkpoints_total");
    let writes: u64 = writes.parse().unwrap();
    assert!(writes <= checkpoints + 1, "{writes} writes for {checkpoints} checkpoints");
    assert_eq!(counters.get("retries_total"), 0);
}

/// 33, 55: a position is saved when the handler says so, never backwards; a split begins at the
/// saved position (the hole of the other libraries: manual checkpoints and a split lose changes).
#[tokio::test]
async fn manual_checkpoint_split() {
    let home = Home::new(1).await;
    let (given, mut contexts) = mpsc::unbounded_channel::<(Context, Vec<u64>)>();
    let manual = Options {
        checkpoint_frequency: CheckpointFrequency {
            explicit_checkpoint: true,
            ..Default::default()
        },
        max_item_count: Some(1),
        ..from_beginning("a")
    };
    let mut processor = home
        .builder()
        .await
        .options(manual)
        .handler(move |context, changes| {
            let _ = given.send((context, changes.iter().map(|change| change.lsn()).collect()));
            async { Ok(()) }
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    for n in 0..3 {
        home.put(&format!("x{n}"), &format!("k{n}")).await;
    }
    let mut pages = Vec::new();
    while pages.len() < 3 {
        pages.push(contexts.recv().await.unwrap());
    }
    let (second, first) = (pages[1].0.clone(), pages[0].0.clone());
    second.checkpoint().await.unwrap();
    first.checkpoint().await.unwrap();
    let lease = home.lease_documents().await.remove(0);
    assert_eq!(lease["ContinuationToken"], second.continuation(), "it stays at the second");
    // The third page was handed out and not acknowledged. After the split it comes again.
    let range = home.ranges().await.remove(0);
    home.container.split_range(&range).await.unwrap();
    let again = loop {
        let (context, lsns) = contexts.recv().await.unwrap();
        if context.lease_token() != range {
            break lsns;
        }
    };
    assert_eq!(again, pages[2].1);
    assert_eq!(second.checkpoint().await, Err(LeaseLost));
    processor.stop(STOP).await;
}

/// 88: after idleness a write reaches the handler at once, because the server holds the read.
#[tokio::test]
async fn long_poll_latency() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let patient = Options { feed_poll_delay: Duration::from_secs(50), ..options("a") };
    let mut processor = home.start(patient, &sink).await;
    home.put("warm", "k").await;
    sink.until_count(1).await;
    // With polls 50 seconds apart none of these would come in time.
    let began = std::time::Instant::now();
    for n in 0..10 {
        home.put(&format!("x{n}"), "k").await;
        sink.until_count(2 + n).await;
    }
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    processor.stop(STOP).await;
}
