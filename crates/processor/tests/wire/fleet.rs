//! Commands to a fleet: pause, seek, reset, status, export and import; and leases of others.

use std::time::Duration;

use processor::{Options, Start};
use serde_json::{Value, json};

use crate::support::{Home, Sink, eventually, from_beginning, options};

const STOP: Duration = Duration::from_secs(20);

/// 86: no handler is called while the fleet is paused; leases are kept
/// (azure-cosmos-dotnet-v3 1376).
#[tokio::test]
async fn net3_1376_pause_fleet() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.put("one", "k").await;
    sink.until_count(1).await;
    let fleet = home.fleet().await;
    fleet.pause().await.unwrap();
    // A processor that starts into a pause holds as well, which can be seen without waiting.
    processor.stop(STOP).await;
    home.put("two", "k").await;
    processor.start().await.unwrap();
    eventually("the lease is owned", || async {
        home.lease_documents().await[0]["Owner"].is_string()
    })
    .await;
    let status = fleet.status().await.unwrap();
    assert!(status.control.paused);
    assert_eq!(status.estimates[0].items, Some(1));
    assert_eq!(sink.ids(), ["one"]);
    fleet.resume().await.unwrap();
    sink.until_count(2).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids(), ["one", "two"]);
}

/// 85: a running fleet is sent back to the beginning (azure-cosmos-dotnet-v3 510, 2588).
#[tokio::test]
async fn net3_510_seek_and_replay() {
    let home = Home::new(2).await;
    let sink = Sink::new();
    let mut processor = home.start(options("a"), &sink).await;
    home.fill("x", 20).await;
    sink.until_count(20).await;
    let epochs = |leases: &[Value]| -> u64 {
        let epoch =
            |lease: &Value| lease["properties"]["cfx.epoch"].as_str().unwrap().parse::<u64>();
        leases.iter().map(|lease| epoch(lease).unwrap()).min().unwrap()
    };
    let before = epochs(&home.lease_documents().await);
    let moved = home.fleet().await.seek(&Start::Beginning, None, STOP).await.unwrap();
    assert_eq!(moved, 2);
    sink.until("everything comes again", |seen| seen.len() >= 40).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 40);
    assert!(epochs(&home.lease_documents().await) > before);
}

/// A reset is refused while a host runs, and makes the next start a first one.
#[tokio::test]
async fn reset_needs_a_stopped_fleet() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.put("x", "k").await;
    sink.until_count(1).await;
    let fleet = home.fleet().await;
    eventually("the lease is owned", || async {
        home.lease_documents().await[0]["Owner"].is_string()
    })
    .await;
    let refused = fleet.reset().await.unwrap_err().to_string();
    assert!(refused.contains("stop the fleet first"), "{refused}");
    processor.stop(STOP).await;
    assert_eq!(fleet.reset().await.unwrap(), 1);
    processor.start().await.unwrap();
    sink.until("it comes again", |seen| seen.len() == 2).await;
    processor.stop(STOP).await;
}

/// 84, 83: lag in commits, items and time, right before the first checkpoint and after a split.
#[tokio::test]
async fn estimator_counts_items_and_time() {
    let home = Home::new(1).await;
    let mut processor = home.start(from_beginning("a"), &Sink::new()).await;
    processor.stop(STOP).await;
    let fleet = home.fleet().await;
    let lag = |status: &processor::Status| -> (Option<u64>, f64) {
        let items = status.estimates.iter().map(|each| each.items).sum();
        let seconds = status.estimates.iter().filter_map(|each| each.seconds);
        (items, seconds.fold(0.0, f64::max))
    };
    assert_eq!(lag(&fleet.status().await.unwrap()).0, Some(0));
    home.fill("x", 25).await;
    let (items, seconds) = lag(&fleet.status().await.unwrap());
    assert_eq!(items, Some(25));
    assert!((0.0..60.0).contains(&seconds), "{seconds}");
    let range = home.ranges().await.remove(0);
    home.container.split_range(&range).await.unwrap();
    assert_eq!(lag(&fleet.status().await.unwrap()).0, Some(25));
}

/// 74, 75: leases left by .NET are continued at their positions; ours keep what .NET needs.
#[tokio::test]
async fn read_dotnet_v3_leases() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    home.fill("old", 5).await;
    let mut processor = home.start(from_beginning("a"), &sink).await;
    sink.until_count(5).await;
    processor.stop(STOP).await;
    // As .NET would have left it: no properties of ours, its own owner, an old timestamp.
    let mut lease = home.lease_documents().await.remove(0);
    lease["properties"] = json!({"mine": "kept"});
    lease["Owner"] = Value::Null;
    lease["timestamp"] = json!("2023-11-14T22:13:20.1234567Z");
    let id = lease["id"].as_str().unwrap().to_owned();
    home.leases.upsert_item(&*id, lease, Default::default()).await.unwrap();
    home.fill("new", 5).await;
    let mut processor = home.start(options("b"), &sink).await;
    sink.until_count(10).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 10);
    let lease = home.lease_documents().await.remove(0);
    assert_eq!(lease["properties"]["mine"], "kept");
    assert_eq!((&lease["version"], &lease["Mode"]), (&json!(0), &json!("Incremental Feed")));
    assert!(lease["timestamp"].as_str().unwrap().ends_with('Z'));
}

/// 78: leases of Java are refused where they are, and imported elsewhere.
#[tokio::test]
async fn java_import() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    home.fill("old", 5).await;
    let mut processor = home.start(from_beginning("a"), &sink).await;
    sink.until_count(5).await;
    processor.stop(STOP).await;
    let ours = home.lease_documents().await.remove(0);
    let etag = ours["ContinuationToken"].as_str().unwrap();
    let fleet = home.fleet().await;
    fleet.reset().await.unwrap();
    let state = json!({"V": 1, "Mode": "INCREMENTAL", "Continuation": {"Continuation": [{"token": etag, "range": {"min": "", "max": "FF"}}]}});
    use base64::Engine as _;
    let state = base64::engine::general_purpose::URL_SAFE.encode(state.to_string());
    let id = ours["id"].as_str().unwrap().replace("..0", "..-FF");
    let java = json!({"id": id, "LeaseToken": "-FF", "ContinuationToken": state, "Owner": "jvm", "version": 1, "feedRange": {"Range": {"min": "", "max": "FF"}}});
    home.leases.create_item(&*id, java.clone(), Default::default()).await.unwrap();
    let built = home.builder().await.options(options("b")).handler(|_, _| async { Ok(()) }).build();
    let refused = built.unwrap().start().await.unwrap_err().to_string();
    assert!(refused.contains("written by the Java library"), "{refused}");
    home.leases.delete_item(&*id, &id, Default::default()).await.unwrap();

    assert_eq!(fleet.import(std::slice::from_ref(&java), true).await.unwrap().len(), 1);
    assert!(home.lease_documents().await.is_empty(), "a dry run writes nothing");
    fleet.import(&[java], false).await.unwrap();
    home.fill("new", 5).await;
    let mut processor = home.start(options("b"), &sink).await;
    sink.until_count(10).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 10, "it goes on where Java was");
    assert_eq!(fleet.export().await.unwrap()[0]["LeaseToken"], "-FF");
}

/// 25: a second process of the same name takes the place of the first, which says so and stops.
#[tokio::test]
async fn duplicate_name_fenced() {
    let home = Home::new(1).await;
    let (first_sink, second_sink) = (Sink::new(), Sink::new());
    let quick =
        || Options { lease_renew_interval: Duration::from_millis(300), ..from_beginning("same") };
    let first = home.start(quick(), &first_sink).await;
    let mut second = home.start(quick(), &second_sink).await;
    let report = tokio::time::timeout(STOP, first.ended()).await.unwrap();
    assert!(report.error.unwrap().contains("another process"), "it says why");
    home.put("x", "k").await;
    second_sink.until_count(1).await;
    second.stop(STOP).await;
}
