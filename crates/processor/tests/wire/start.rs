//! Where a processor begins, and where it goes on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use processor::{Mode, Options};
use serde_json::json;

use crate::support::{Home, Sink, eventually, from_beginning, options};

const STOP: Duration = Duration::from_secs(20);

/// 1: all leases are made, the mark is left, the lock is gone.
#[tokio::test]
async fn bootstrap_creates_all() {
    let home = Home::new(4).await;
    let mut processor = home.start(options("a"), &Sink::new()).await;
    assert_eq!(home.lease_documents().await.len(), 4);
    let all = home.all_documents(&home.leases).await;
    let ids: Vec<&str> = all.iter().filter_map(|body| body["id"].as_str()).collect();
    assert!(ids.iter().any(|id| id.ends_with(".info")), "{ids:?}");
    assert!(!ids.iter().any(|id| id.ends_with(".lock")), "{ids:?}");
    assert_eq!(processor.stop(STOP).await.stuck, Vec::<String>::new());
    // Stopping released them, and kept their positions.
    for lease in home.lease_documents().await {
        assert!(lease["Owner"].is_null(), "{lease}");
        assert!(lease["ContinuationToken"].is_string(), "{lease}");
    }
}

/// 4: a bootstrap that died holds nobody up, though the container has no time to live
/// (azure-documentdb-changefeedprocessor-dotnet 94, azure-webjobs-sdk-extensions 858).
#[tokio::test]
async fn cfp2_94_a_dead_bootstrap_is_taken_over() {
    let home = Home::new(1).await;
    let mut processor = home.start(options("a"), &Sink::new()).await;
    processor.stop(STOP).await;
    let all = home.all_documents(&home.leases).await;
    let info = all.iter().find(|body| body["id"].as_str().unwrap().ends_with(".info")).unwrap();
    let id = info["id"].as_str().unwrap();
    home.leases.delete_item(id, id, Default::default()).await.unwrap();
    let lock = id.replace(".info", ".lock");
    home.leases
        .create_item(&*lock, json!({"id": lock, "ttl": 30}), Default::default())
        .await
        .unwrap();
    let brief = Options {
        lease_renew_interval: Duration::from_millis(300),
        lease_expiration_interval: Duration::from_secs(1),
        ..options("b")
    };
    let mut processor = home.start(brief, &Sink::new()).await;
    let all = home.all_documents(&home.leases).await;
    assert!(!all.iter().any(|body| body["id"] == json!(lock)), "the lock is still there");
    processor.stop(STOP).await;
}

/// 7: what is written right after `start` returns is delivered (azure-cosmos-dotnet-v3 5268).
#[tokio::test]
async fn net3_5268_now_is_pinned() {
    let home = Home::new(2).await;
    home.fill("before", 10).await;
    let sink = Sink::new();
    let mut processor = home.start(options("a"), &sink).await;
    home.fill("after", 10).await;
    sink.until_count(10).await;
    processor.stop(STOP).await;
    assert!(sink.ids().iter().all(|id| id.starts_with("after")), "{:?}", sink.ids());
}

/// 8: started from now, nothing ever seen, stopped; what is written meanwhile is not skipped
/// (azure-cosmos-dotnet-v3 4342, 2667).
#[tokio::test]
async fn net3_4342_offline_writes_not_lost() {
    let home = Home::new(2).await;
    let sink = Sink::new();
    let mut processor = home.start(options("a"), &sink).await;
    processor.stop(STOP).await;
    home.fill("offline", 10).await;
    // Even if the first host to come back says otherwise: the position that was stored counts.
    let mut processor = home.start(options("b"), &sink).await;
    sink.until_count(10).await;
    processor.stop(STOP).await;
}

/// 48: the first batch after a start from now fails: it is tried again, not skipped
/// (azure-cosmos-dotnet-v3 2525).
#[tokio::test]
async fn net3_2525_first_batch_failure() {
    let home = Home::new(1).await;
    let calls = std::sync::atomic::AtomicU32::new(0);
    let sink =
        Sink::with(move |_, _| match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 | 1 => Err("not yet".into()),
            _ => Ok(()),
        });
    let mut processor = home.start(options("a"), &sink).await;
    home.put("first", "k").await;
    sink.until_count(1).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids(), ["first"]);
}

/// 10: a start time is a second.
#[tokio::test]
async fn start_time_exclusive_seconds() {
    let home = Home::new(1).await;
    home.put("old", "k").await;
    let old = home.container.read_item("k", "old", Default::default()).await.unwrap();
    let ts = old.parse::<serde_json::Value>().unwrap()["_ts"].as_u64().unwrap();
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    eventually("the second is over", || async { wall() > ts + 1 }).await;
    home.put("new", "k").await;
    let sink = Sink::new();
    let options = Options { start_time: Some(Duration::from_secs(ts + 1)), ..options("a") };
    let mut processor = home.start(options, &sink).await;
    sink.until_count(1).await;
    home.put("newer", "k").await;
    sink.until_count(2).await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids(), ["new", "newer"]);
}

/// 12: a stored position counts, whatever the options say.
#[tokio::test]
async fn options_ignored_when_token() {
    let home = Home::new(1).await;
    home.fill("a", 5).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    sink.until_count(5).await;
    processor.stop(STOP).await;
    home.put("b", "k").await;
    let again = Sink::new();
    let mut processor = home.start(from_beginning("a"), &again).await;
    again.until_count(1).await;
    processor.stop(STOP).await;
    assert_eq!(again.ids(), ["b"]);
}

/// 14: leases of one mode are not used for the other.
#[tokio::test]
async fn mode_switch_refused() {
    let home = Home::with(1, "/id", json!({"changeFeedPolicy": {"retentionDuration": 60}})).await;
    let mut processor = home.start(options("a"), &Sink::new()).await;
    processor.stop(STOP).await;
    let before = home.lease_documents().await;
    let other = Options { mode: Mode::AllVersions, ..options("b") };
    let built = home.builder().await.options(other).handler(|_, _| async { Ok(()) }).build();
    let refused = built.unwrap().start().await.unwrap_err().to_string();
    assert!(refused.contains("another lease prefix"), "{refused}");
    assert_eq!(home.lease_documents().await, before);
}

/// 44: the same instance starts again; a second start while it runs is an error.
#[tokio::test]
async fn start_stop_start() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let mut processor = home.start(options("a"), &sink).await;
    assert!(processor.start().await.is_err());
    processor.stop(STOP).await;
    home.put("x", "k").await;
    processor.start().await.unwrap();
    sink.until_count(1).await;
    processor.stop(STOP).await;
}

/// 81: lease containers keyed by `/partitionKey`.
#[tokio::test]
async fn lease_pk_variants() {
    let home = Home::with(2, "/partitionKey", json!({})).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.fill("a", 10).await;
    sink.until_count(10).await;
    processor.stop(STOP).await;
    for lease in home.lease_documents().await {
        assert_eq!(lease["partitionKey"], lease["id"]);
        assert!(lease["Owner"].is_null());
    }
}
