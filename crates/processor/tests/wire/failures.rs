//! Handlers that fail, panic, or never return; poison, parking and redriving.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use processor::policy::{Backoff, ErrorPolicy, OnFailure};
use processor::{CloseReason, HandlerError, Options};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{Home, Sink, eventually, from_beginning};

const STOP: Duration = Duration::from_secs(20);

fn policy(then: OnFailure) -> ErrorPolicy {
    let first = Duration::from_millis(5);
    let backoff = Backoff { first, max: Duration::from_millis(50), ..Backoff::default() };
    ErrorPolicy { attempts: 3, backoff, then, deaths: 0 }
}

fn with(then: OnFailure) -> Options {
    Options { error_policy: policy(then), ..from_beginning("a") }
}

/// Fails batches that contain a poisoned item, while it is poisoned.
fn poisoned(id: &'static str, is_poison: Arc<AtomicBool>) -> Sink {
    Sink::with(move |_, items: &[Value]| -> Result<(), HandlerError> {
        let bad = items.iter().any(|item| item["id"] == id);
        if bad && is_poison.load(Ordering::SeqCst) { Err("poison".into()) } else { Ok(()) }
    })
}

/// 47: the same batch again, the lease kept.
#[tokio::test]
async fn handler_error_retries_same_batch() {
    let home = Home::new(1).await;
    let poison = Arc::new(AtomicBool::new(true));
    let sink = poisoned("x3", Arc::clone(&poison));
    home.fill("x", 5).await;
    let mut processor = home.start(with(OnFailure::Block), &sink).await;
    eventually("the lease is owned", || async {
        home.lease_documents().await[0]["Owner"].is_string()
    })
    .await;
    let owner = home.lease_documents().await[0]["Owner"].clone();
    poison.store(false, Ordering::SeqCst);
    sink.until_count(5).await;
    assert_eq!(home.lease_documents().await[0]["Owner"], owner);
    assert_eq!(sink.ids().len(), 5);
    processor.stop(STOP).await;
}

/// 49: the poisoned item goes to the dead-letter container, the others are done
/// (azure-documentdb-changefeedprocessor-dotnet 134, azure-cosmos-dotnet-v3 2801).
#[tokio::test]
async fn cfp2_134_poison_dead_letter() {
    let home = Home::new(1).await;
    let poison = Arc::new(AtomicBool::new(true));
    let sink = poisoned("x7", Arc::clone(&poison));
    home.fill("x", 20).await;
    let mut processor = home.start(with(OnFailure::DeadLetter), &sink).await;
    sink.until_count(19).await;
    eventually("the letter is there", || async { home.all_documents(&home.dead).await.len() == 1 })
        .await;
    let letter = home.all_documents(&home.dead).await.remove(0);
    assert_eq!((&letter["item"]["id"], &letter["error"]), (&"x7".into(), &"poison".into()));
    assert!(letter["lsn"].as_u64().unwrap() > 0 && letter["attempts"] == 3, "{letter}");
    // Redriven, it is handled by the host that owns its range, and the letter is gone.
    poison.store(false, Ordering::SeqCst);
    assert_eq!(home.fleet().await.redrive(&[]).await.unwrap(), 1);
    sink.until_count(20).await;
    eventually("the letter is gone", || async { home.all_documents(&home.dead).await.is_empty() })
        .await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids().len(), 20);
}

/// 50: the key of a poisoned item waits, in order; the other keys flow.
#[tokio::test]
async fn poison_park_key() {
    let home = Home::new(1).await;
    let poison = Arc::new(AtomicBool::new(true));
    let sink = poisoned("bad", Arc::clone(&poison));
    let mut processor = home.start(with(OnFailure::ParkKey), &sink).await;
    home.put("bad", "K").await;
    home.put("other", "L").await;
    home.put("behind", "K").await;
    home.put("further", "L").await;
    sink.until_count(2).await;
    eventually("two letters", || async { home.all_documents(&home.dead).await.len() == 2 }).await;
    assert_eq!(sink.ids(), ["other", "further"]);
    poison.store(false, Ordering::SeqCst);
    home.fleet().await.redrive(&[]).await.unwrap();
    sink.until_count(4).await;
    let of_key: Vec<String> =
        sink.seen().into_iter().filter(|seen| seen.key == "K").map(|seen| seen.id).collect();
    assert_eq!(of_key, ["bad", "behind"]);
    eventually("the key is free", || async {
        home.lease_documents().await[0]["properties"].get("cfx.parked").is_none()
    })
    .await;
    home.put("free", "K").await;
    sink.until_count(5).await;
    processor.stop(STOP).await;
    assert!(home.all_documents(&home.dead).await.is_empty());
}

/// A handler that panics has failed, like any other.
#[tokio::test]
async fn a_panic_is_a_failure() {
    let home = Home::new(1).await;
    let sink = Sink::with(|_, items| {
        assert!(!items.iter().any(|item| item["id"] == "x2"), "I cannot bear x2");
        Ok(())
    });
    home.fill("x", 5).await;
    let mut processor = home.start(with(OnFailure::DeadLetter), &sink).await;
    sink.until_count(4).await;
    eventually("a letter", || async { home.all_documents(&home.dead).await.len() == 1 }).await;
    let letter = home.all_documents(&home.dead).await.remove(0);
    assert!(letter["error"].as_str().unwrap().contains("panicked"), "{letter}");
    processor.stop(STOP).await;
}

/// A handler that does not return is cancelled when its time is up.
#[tokio::test]
async fn a_handler_has_a_time_limit() {
    let home = Home::new(1).await;
    let mut processor = home
        .builder()
        .await
        .options(Options {
            handler_timeout: Some(Duration::from_millis(50)),
            ..with(OnFailure::DeadLetter)
        })
        .handler(|_, _| async {
            std::future::pending::<()>().await;
            Ok(())
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    home.put("x", "k").await;
    eventually("a letter", || async { home.all_documents(&home.dead).await.len() == 1 }).await;
    processor.stop(STOP).await;
}

/// The policy to stop stops, says why, and leaves the lease where it was.
#[tokio::test]
async fn stop_policy_ends_the_processor() {
    let home = Home::new(1).await;
    let sink = poisoned("x1", Arc::new(AtomicBool::new(true)));
    home.fill("x", 3).await;
    let one = Options { max_item_count: Some(1), ..with(OnFailure::Stop) };
    let mut processor = home.start(one, &sink).await;
    let report = tokio::time::timeout(STOP, processor.ended()).await.unwrap();
    assert_eq!(report.error.as_deref(), Some("poison"));
    assert_eq!(sink.closes.lock().unwrap()[0].1, CloseReason::ObserverError);
    assert_eq!(sink.ids(), ["x0"]);
    assert!(home.lease_documents().await[0]["Owner"].is_null());
    processor.stop(STOP).await;
}

#[derive(Debug, Deserialize)]
struct Order {
    id: String,
    total: u64,
}

/// 64: what does not fit the type goes to the error policy, with its bytes.
#[tokio::test]
async fn bad_json_or_type() {
    let home = Home::new(1).await;
    for (id, total) in [("good", Value::from(5)), ("bad", Value::from("five"))] {
        let item = serde_json::json!({"id": id, "pk": "k", "total": total});
        home.container.upsert_item("k", item, Default::default()).await.unwrap();
    }
    let (given, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let mut processor = home
        .builder()
        .await
        .options(with(OnFailure::DeadLetter))
        .typed_handler(move |_, orders: Vec<Order>| {
            for order in orders {
                let _ = given.send((order.id, order.total));
            }
            async { Ok(()) }
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    assert_eq!(taken.recv().await, Some(("good".to_owned(), 5)));
    eventually("a letter", || async { home.all_documents(&home.dead).await.len() == 1 }).await;
    let letter = home.all_documents(&home.dead).await.remove(0);
    assert_eq!(letter["item"]["total"], "five");
    processor.stop(STOP).await;
}
