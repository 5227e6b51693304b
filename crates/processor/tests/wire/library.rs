//! What the library offers, option by option: that each does what its name says.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Credential, FeedRead, FeedScope, Options as ClientOptions, Start};
use conformance::WELL_KNOWN_KEY;
use processor::CheckpointFrequency;
use processor::{
    Builder, Change, CloseReason, Context, Factory, HandlerError, Observer, Options, Site,
};

use crate::proxy::Proxy;
use crate::support::{Home, Sink, eventually, from_beginning, options};

const STOP: Duration = Duration::from_secs(20);

/// Writes down how it is treated.
struct Diary {
    number: u32,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Diary {
    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(format!("{}: {line}", self.number));
    }
}

impl Observer for Diary {
    async fn open(&self, context: &Context) -> Result<(), HandlerError> {
        let span = context.span().map(ToString::to_string).unwrap_or_default();
        self.note(format!("open {} {span}", context.lease_token()));
        Ok(())
    }

    async fn process(&self, context: &Context, changes: &[Change]) -> Result<(), HandlerError> {
        let fencing = context.fencing();
        assert_eq!((fencing.lsn, fencing.lease.as_str()), (context.lsn(), context.lease_token()));
        assert!(fencing.epoch > 0 && context.owner().starts_with("a~"));
        assert_eq!(context.header("ETag"), Some(context.continuation()));
        assert!(context.header("x-ms-session-token").is_some() && !context.is_draining());
        assert_eq!(changes.last().map(Change::lsn), Some(context.lsn()));
        context.checkpoint().await?;
        let raw: Vec<String> =
            changes.iter().map(|each| String::from_utf8_lossy(each.raw()).into_owned()).collect();
        self.note(format!("process {}", raw.join(" ")));
        Ok(())
    }

    async fn close(&self, context: &Context, reason: CloseReason) {
        self.note(format!("close {} {reason}", context.lease_token()));
    }
}

/// An observer of its own for each lease: opened, called with everything it may want to know, closed.
#[tokio::test]
async fn observers_are_made_opened_called_and_closed() {
    let home = Home::new(1).await;
    home.put("x", "k").await;
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let (made, written) = (Arc::new(AtomicU32::new(0)), Arc::clone(&lines));
    let factory = Factory::new(move || Diary {
        number: made.fetch_add(1, Ordering::SeqCst) + 1,
        lines: Arc::clone(&written),
    });
    let mut processor =
        home.builder().await.options(from_beginning("a")).factory(factory).build().unwrap();
    for line in ["1: process", "2: open"] {
        processor.start().await.unwrap();
        let is_there = || lines.lock().unwrap().iter().any(|each| each.starts_with(line));
        eventually(line, || async { is_there() }).await;
        processor.stop(STOP).await;
    }
    let lines = lines.lock().unwrap().clone();
    assert_eq!(lines[0], "1: open 0 -FF");
    assert!(lines[1].starts_with(r#"1: process {"id":"x","pk":"k""#), "{lines:?}");
    assert_eq!(lines[2], "1: close 0 Shutdown");
    assert_eq!(lines[3..], ["2: open 0 -FF", "2: close 0 Shutdown"]);
}

/// A position as the pull model gives it is where new leases begin.
#[tokio::test]
async fn begins_after_a_continuation() {
    let home = Home::new(1).await;
    home.fill("x", 3).await;
    let mut read = FeedRead::new(FeedScope::Range("0".into()), Start::Beginning);
    read.max_item_count = Some(2);
    let page = home.container.read_changes(&read).await.unwrap();
    assert_eq!(page.changes.len(), 2);
    let sink = Sink::new();
    let there = Options { request_continuation: Some(page.etag), ..options("a") };
    let mut processor = home.start(there, &sink).await;
    sink.until_count(1).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids(), ["x2"]);
}

#[tokio::test]
async fn existing_leases_are_discarded_on_demand() {
    let home = Home::new(2).await;
    home.fill("x", 10).await;
    for discard_existing_leases in [false, true] {
        let sink = Sink::new();
        let anew = Options { discard_existing_leases, ..from_beginning("a") };
        let mut processor = home.start(anew, &sink).await;
        sink.until_count(10).await;
        processor.stop(STOP).await;
    }
    assert_eq!(home.lease_documents().await.len(), 2);
}

/// Positions are saved by count, or by time, and in any case at the end.
#[tokio::test]
async fn positions_are_saved_as_often_as_said() {
    let home = Home::new(1).await;
    home.fill("x", 35).await;
    let saves = |frequency: CheckpointFrequency, prefix: &str| Options {
        max_item_count: Some(1),
        checkpoint_frequency: frequency,
        lease_prefix: prefix.into(),
        ..from_beginning("a")
    };
    let writes = async |prefix: &str| {
        let leases = home.lease_documents().await;
        let is_ours =
            |lease: &&serde_json::Value| lease["id"].as_str().unwrap().starts_with(prefix);
        let lease = leases.iter().find(is_ours).unwrap();
        let id = lease["properties"]["cfx.wid"].as_str().unwrap().to_owned();
        id.rsplit('/').next().unwrap().parse::<u32>().unwrap()
    };
    let every = CheckpointFrequency::default();
    let counted = CheckpointFrequency { processed_document_count: Some(10), ..every };
    let sink = Sink::new();
    let mut processor = home.start(saves(counted, "count"), &sink).await;
    sink.until_count(35).await;
    processor.stop(STOP).await;
    // Three by count, one at the end; pages that come while one is written are saved with the next.
    let found = writes("count").await;
    assert!((2..=4).contains(&found), "{found}");
    let timed = CheckpointFrequency { time_interval: Some(Duration::from_millis(300)), ..every };
    let sink = Sink::new();
    let mut processor = home.start(saves(timed, "time"), &sink).await;
    sink.until_count(35).await;
    let newest = sink.seen().iter().map(|seen| seen.lsn).max().unwrap();
    eventually("it is saved when its time has come", || async {
        let leases = home.lease_documents().await;
        let position = |lease: &serde_json::Value| {
            let etag = lease["ContinuationToken"].as_str().unwrap_or("0").trim_matches('"');
            etag.parse::<u64>().unwrap_or(0)
        };
        let ours = leases.iter().find(|lease| lease["id"].as_str().unwrap().starts_with("time"));
        ours.is_some_and(|lease| position(lease) >= newest)
    })
    .await;
    assert!(writes("time").await < 20);
    processor.stop(STOP).await;
}

/// A host takes no more than its limit, and another one takes the rest.
#[tokio::test]
async fn hosts_have_limits() {
    let home = Home::new(4).await;
    let limited = Options { max_partition_count: 1, ..from_beginning("a") };
    let mut a = home.start(limited, &Sink::new()).await;
    let owned = async |name: &str| {
        let leases = home.lease_documents().await;
        let is_theirs = |lease: &&serde_json::Value| {
            lease["Owner"].as_str().is_some_and(|owner| owner.starts_with(&format!("{name}~")))
        };
        leases.iter().filter(is_theirs).count()
    };
    eventually("one is taken", || async { owned("a").await == 1 }).await;
    let mut b = home.start(from_beginning("b"), &Sink::new()).await;
    eventually("the others too", || async { owned("b").await == 3 }).await;
    assert_eq!(owned("a").await, 1);
    a.stop(STOP).await;
    b.stop(STOP).await;
}

/// Where the service is not to hold requests, it is asked again and again; and the session that was
/// given is sent along.
#[tokio::test]
async fn polls_where_nothing_waits_and_reads_in_a_session() {
    let home = Home::new(1).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let key = Credential::key(WELL_KNOWN_KEY).unwrap();
    let direct = ClientOptions { region_discovery: false, ..ClientOptions::default() };
    let site = Site::new(&proxy.endpoint, key, direct, "d", "c").unwrap();
    let (given, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let asks = Options {
        long_poll: Duration::ZERO,
        session_token: Some("0:-1#1".into()),
        ..from_beginning("a")
    };
    let mut processor = Builder::connect(&site, &site.beside("d", "leases"))
        .await
        .unwrap()
        .options(asks)
        .handler(move |_, changes| {
            let _ = given.send(changes.len());
            async { Ok(()) }
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    for n in 0..3 {
        home.put(&format!("x{n}"), "k").await;
        tokio::time::timeout(STOP, taken.recv()).await.unwrap().unwrap();
    }
    processor.stop(STOP).await;
    let is_read = |path: &str| path.contains("/colls/c/docs");
    let reads: Vec<_> = proxy.seen().into_iter().filter(|head| is_read(&head.path)).collect();
    assert!(reads.len() > 3, "{}", reads.len());
    for read in &reads {
        assert_eq!(
            (read.header("prefer"), read.header("x-ms-session-token")),
            (None, Some("0:-1#1"))
        );
    }
}
