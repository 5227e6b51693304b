//! What can only be seen on the wire: which requests are sent, how many, and what pages hold.

use std::time::Duration;

use client::{Credential, FeedRead, FeedScope, Options as ClientOptions, Start};
use conformance::WELL_KNOWN_KEY;
use conformance::wire::Wire;
use processor::{Builder, Mode, Options, Site};
use serde_json::{Value, json};

use crate::proxy::{Fate, Proxy};
use crate::support::{Home, Sink, eventually, from_beginning, options};

const STOP: Duration = Duration::from_secs(20);

/// A transaction of so many items of one key, each with so much text.
fn transact(home: &Home, prefix: &str, count: usize, text: usize) {
    let create = |n: usize| {
        let item = json!({"id": format!("{prefix}{n}"), "pk": "k", "text": "x".repeat(text)});
        json!({"operationType": "Create", "resourceBody": item})
    };
    let body = json!((0..count).map(create).collect::<Vec<_>>()).to_string();
    let headers = [
        ("x-ms-documentdb-partitionkey", r#"["k"]"#),
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "True"),
    ];
    let mut wire = Wire::new(&home.server.endpoint);
    let answer = wire.send("POST", "/dbs/d/colls/c/docs", &headers, body.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// A builder whose requests go through a proxy.
async fn builder_through(proxy: &Proxy) -> Builder {
    let key = Credential::key(WELL_KNOWN_KEY).unwrap();
    // The account would tell its own address.
    let direct = ClientOptions { region_discovery: false, ..ClientOptions::default() };
    let site = Site::new(&proxy.endpoint, key, direct, "d", "c").unwrap();
    Builder::connect(&site, &site.beside("d", "leases")).await.unwrap()
}

/// 57: a transaction is larger than a page may be, and comes whole.
#[tokio::test]
async fn transaction_not_split() {
    let home = Home::new(1).await;
    let batches = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&batches);
    let sink = Sink::with(move |_, items: &[Value]| {
        noted.lock().unwrap().push(items.len());
        Ok(())
    });
    transact(&home, "x", 50, 1);
    let ten = Options { max_item_count: Some(10), ..from_beginning("a") };
    let mut processor = home.start(ten, &sink).await;
    sink.until_count(50).await;
    processor.stop(STOP).await;
    assert_eq!(*batches.lock().unwrap(), [50]);
    let lsns: std::collections::BTreeSet<u64> = sink.seen().iter().map(|seen| seen.lsn).collect();
    assert_eq!(lsns.len(), 1);
}

/// 56: three items of 1.5 MB, two of them in one transaction: all come, in order.
#[tokio::test]
async fn page_too_big() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    transact(&home, "one", 1, 1_500_000);
    // A request has 2 MB at most, so the two are just below it together.
    transact(&home, "two", 2, 950_000);
    let mut processor = home.start(from_beginning("a"), &sink).await;
    sink.until_count(3).await;
    home.put("small", "k").await;
    sink.until_count(4).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids(), ["one0", "two0", "two1", "small"]);
}

/// 11: from the beginning no header of a time is sent: accounts that write in several regions
/// refuse it.
#[tokio::test]
async fn start_from_beginning_multiwrite() {
    let home = Home::new(2).await;
    home.fill("x", 10).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    for (name, start) in [
        ("plain", from_beginning("a")),
        ("zero", { Options { start_time: Some(Duration::ZERO), ..options("a") } }),
    ] {
        let (given, mut taken) = tokio::sync::mpsc::unbounded_channel();
        let mut processor = builder_through(&proxy)
            .await
            .options(Options { lease_prefix: name.into(), ..start })
            .handler(move |_, changes| {
                for change in &changes {
                    let _ = given.send(change.lsn());
                }
                async { Ok(()) }
            })
            .build()
            .unwrap();
        processor.start().await.unwrap();
        for _ in 0..10 {
            tokio::time::timeout(STOP, taken.recv()).await.unwrap().unwrap();
        }
        processor.stop(STOP).await;
        let reads: Vec<_> =
            proxy.seen().into_iter().filter(|head| head.header("a-im").is_some()).collect();
        assert!(!reads.is_empty());
        assert!(reads.iter().all(|head| head.header("if-modified-since").is_none()));
    }
}

/// 89: a thousand checkpoints are a thousand writes of the lease, and no other request names it.
#[tokio::test]
async fn a_thousand_checkpoints_are_a_thousand_requests() {
    let home = Home::new(1).await;
    home.fill("x", 1000).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let (given, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let one = Options { max_item_count: Some(1), ..from_beginning("a") };
    let mut processor = builder_through(&proxy)
        .await
        .options(one)
        .handler(move |context, _| {
            let given = given.clone();
            async move {
                context.checkpoint().await?;
                let _ = given.send(());
                Ok(())
            }
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    for _ in 0..1000 {
        tokio::time::timeout(STOP, taken.recv()).await.unwrap().unwrap();
    }
    let of_lease = proxy
        .seen()
        .into_iter()
        .filter(|head| head.path.contains("/colls/leases/docs/") && head.path.contains(".."));
    let methods: Vec<String> = of_lease.map(|head| head.method).collect();
    processor.stop(STOP).await;
    let writes = methods.iter().filter(|method| *method == "PUT").count();
    assert_eq!(writes, methods.len(), "a lease is written without being read");
    // One took it; the very last may not be answered yet.
    assert!((1000..=1002).contains(&writes), "{writes} writes");
}

/// 60: a read that is accepted and never answered is given up, and sent again on another connection.
#[tokio::test]
async fn hung_read_is_sent_again() {
    let home = Home::new(1).await;
    home.put("x", "k").await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let never = std::sync::Arc::new(tokio::sync::Notify::new());
    let mut is_first = true;
    proxy.script(move |head| {
        let is_read = head.header("a-im").is_some() && head.path.contains("/colls/c/");
        if is_read && std::mem::take(&mut is_first) {
            return Fate::Hold(std::sync::Arc::clone(&never));
        }
        Fate::Pass
    });
    let (given, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let impatient = Options {
        read_timeout: Duration::from_millis(500),
        long_poll: Duration::ZERO,
        ..from_beginning("a")
    };
    let mut processor = builder_through(&proxy)
        .await
        .options(impatient)
        .handler(move |_, _| {
            let _ = given.send(());
            async { Ok(()) }
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    tokio::time::timeout(STOP, taken.recv()).await.unwrap().unwrap();
    processor.stop(STOP).await;
}

/// 73: all versions, and what follows the saved position is no longer kept: it is said, and nothing
/// is skipped.
#[tokio::test]
async fn avad_retention_gone() {
    let kept = json!({"changeFeedPolicy": {"retentionDuration": 60}});
    let home = Home::with(1, "/id", kept).await;
    let sink = Sink::new();
    let all = Options { mode: Mode::AllVersions, ..options("a") };
    let mut processor = home.start(all.clone(), &sink).await;
    home.put("one", "k").await;
    sink.until_count(1).await;
    processor.stop(STOP).await;
    // Nothing is kept for a while, then it is again: what happened in between is not known.
    let definition = |policy: Value| {
        json!({"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
            "changeFeedPolicy": policy})
    };
    home.container.replace(definition(json!({"retentionDuration": 0}))).await.unwrap();
    home.put("between", "k").await;
    home.container.replace(definition(json!({"retentionDuration": 60}))).await.unwrap();
    home.put("later", "k").await;
    let before = home.lease_documents().await.remove(0)["ContinuationToken"].clone();
    let mut processor = home.start(all, &sink).await;
    sink.until_alarm("no longer kept").await;
    assert_eq!(home.lease_documents().await.remove(0)["ContinuationToken"], before);
    assert_eq!(sink.ids(), ["one"], "nothing was skipped");
    // A person decides to go on with what there is.
    home.fleet().await.seek(&processor::Start::Beginning, None, STOP).await.unwrap();
    sink.until("what is kept", |seen| seen.iter().any(|seen| seen.id == "later")).await;
    processor.stop(STOP).await;
}

/// 79: scalers that read the lease documents as .NET's estimator does find the lag that we find.
#[tokio::test]
async fn keda_reads_ours() {
    let home = Home::new(2).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.fill("x", 20).await;
    sink.until_count(20).await;
    processor.stop(STOP).await;
    home.fill("y", 33).await;
    let ours = home.fleet().await.status().await.unwrap();
    let ours: u64 = ours.estimates.iter().filter_map(|each| each.commits).sum();
    let mut theirs = 0;
    for lease in home.lease_documents().await {
        let range = lease["LeaseToken"].as_str().unwrap().to_owned();
        let token = lease["ContinuationToken"].as_str().unwrap().to_owned();
        let mut read = FeedRead::new(FeedScope::Range(range), Start::After(token));
        read.max_item_count = Some(1);
        let page = home.container.read_changes(&read).await.unwrap();
        // The session token is `range:version#lsn`; the first item is one commit after what was done.
        let session = page.session_token.unwrap();
        let newest = session.split(':').next_back().unwrap().split('#').nth(1).unwrap();
        let newest: u64 = newest.parse().unwrap();
        if let Some(first) = page.changes.first() {
            let first: Value = serde_json::from_slice(first.bytes()).unwrap();
            theirs += newest - (first["_lsn"].as_u64().unwrap() - 1);
        }
    }
    assert_eq!((ours, theirs), (33, 33));
}

/// 84: the time lag is the age of the oldest change that was not handled.
#[tokio::test]
async fn time_lag() {
    let home = Home::new(1).await;
    let mut processor = home.start(from_beginning("a"), &Sink::new()).await;
    processor.stop(STOP).await;
    home.put("x", "k").await;
    let began = std::time::Instant::now();
    let fleet = home.fleet().await;
    let seconds = async || {
        let status = fleet.status().await.unwrap();
        (status.estimates[0].seconds.unwrap(), began.elapsed().as_secs_f64())
    };
    eventually("it grows", || async { seconds().await.0 >= 3.0 }).await;
    let (lag, elapsed) = seconds().await;
    assert!((lag - elapsed).abs() <= 2.0, "{lag} s of lag after {elapsed} s");
}

/// 2: who starts when the leases are there makes nothing anew.
#[tokio::test]
async fn bootstrap_only_once() {
    let home = Home::new(2).await;
    let mut first = home.start(options("a"), &Sink::new()).await;
    first.stop(STOP).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let built = builder_through(&proxy).await.options(options("b"));
    let mut second = built.handler(|_, _| async { Ok(()) }).build().unwrap();
    second.start().await.unwrap();
    eventually("owned", || async {
        home.lease_documents().await.iter().all(|lease| lease["Owner"].is_string())
    })
    .await;
    let created = proxy.seen().into_iter().filter(|head| {
        let makes = head.method == "POST" && head.header("x-ms-documentdb-isquery").is_none();
        makes && head.path.contains("/colls/leases/docs")
    });
    // Its own host document, and nothing else: neither lock nor mark nor lease.
    assert_eq!(created.count(), 1);
    second.stop(STOP).await;
    assert_eq!(home.lease_documents().await.len(), 2);
}

/// 27: old versions of .NET could make a lease twice, under different partition keys: the older one
/// counts, the fleet goes on, and somebody is told (azure-cosmos-dotnet-v3 pull request 5799).
#[tokio::test]
async fn net3_5799_duplicate_lease_docs() {
    let home = Home::with(1, "/partitionKey", json!({})).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.put("one", "k").await;
    sink.until_count(1).await;
    processor.stop(STOP).await;
    let mut twin = home.lease_documents().await.remove(0);
    twin["partitionKey"] = json!("a guid of old");
    twin["ContinuationToken"] = Value::Null;
    home.leases.create_item("a guid of old", twin, Default::default()).await.unwrap();
    home.put("two", "k").await;
    let mut processor = home.start(from_beginning("b"), &sink).await;
    sink.until_count(2).await;
    sink.until_alarm("two leases of the id").await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids(), ["one", "two"]);
}

/// 81: leases that old versions of .NET made under a partition key of their own are gone on with.
#[tokio::test]
async fn leases_under_a_key_of_their_own() {
    let home = Home::with(1, "/partitionKey", json!({})).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.put("one", "k").await;
    sink.until_count(1).await;
    processor.stop(STOP).await;
    let mut lease = home.lease_documents().await.remove(0);
    let id = lease["id"].as_str().unwrap().to_owned();
    lease["partitionKey"] = json!("a guid of old");
    home.leases.delete_item(&*id, &id, Default::default()).await.unwrap();
    home.leases.create_item("a guid of old", lease, Default::default()).await.unwrap();
    home.put("two", "k").await;
    let mut processor = home.start(from_beginning("b"), &sink).await;
    sink.until_count(2).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids(), ["one", "two"]);
    assert_eq!(home.lease_documents().await.len(), 1);
}
