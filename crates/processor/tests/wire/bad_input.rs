//! What is wrong from outside: containers, keys, documents, endpoints. Each has one outcome.

use std::time::Duration;

use client::{Credential, Options as ClientOptions, Retry};
use processor::{Builder, CloseReason, Site};
use serde_json::json;

use crate::support::{Home, Sink, from_beginning, options};

const STOP: Duration = Duration::from_secs(20);

async fn refusal(monitored: &Site, leases: &Site) -> String {
    Builder::connect(monitored, leases).await.unwrap_err().to_string()
}

#[tokio::test]
async fn containers_that_do_not_fit_are_refused_at_once() {
    let home = Home::new(1).await;
    let leases = home.site.beside("d", "leases");
    let missing = home.site.beside("d", "nowhere");
    let wrong = refusal(&home.site, &missing).await;
    assert!(wrong.contains("the lease container d/nowhere does not exist"), "{wrong}");
    let wrong = refusal(&missing, &leases).await;
    assert!(wrong.contains("the monitored container d/nowhere does not exist"), "{wrong}");
    let wrong = refusal(&home.site, &home.site).await;
    assert!(wrong.contains("partitioned by /pk; it must be by /id or /partitionKey"), "{wrong}");
}

#[tokio::test]
async fn a_wrong_key_and_an_unreachable_endpoint_say_so() {
    let home = Home::new(1).await;
    let brief = ClientOptions { retry: Retry::NONE, ..ClientOptions::default() };
    let key = Credential::key("d3Jvbmc=").unwrap();
    let wrong_key = Site::new(&home.server.endpoint, key.clone(), brief.clone(), "d", "c").unwrap();
    let wrong = refusal(&wrong_key, &wrong_key).await;
    assert!(wrong.contains("401"), "{wrong}");
    let nobody = Site::new("http://127.0.0.1:1/", key, brief, "d", "c").unwrap();
    let wrong = refusal(&nobody, &nobody).await;
    assert!(wrong.contains("the monitored container d/c"), "{wrong}");
}

/// A damaged lease document is reported and left alone; its range gets a lease again after the
/// audit; the other ranges go on.
#[tokio::test]
async fn a_corrupt_lease_document_is_reported_and_kept() {
    let home = Home::new(2).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    processor.stop(STOP).await;
    let lease = home.lease_documents().await.remove(0);
    let id = lease["id"].as_str().unwrap();
    let torn = json!({"id": id, "LeaseToken": 7, "version": 0});
    home.leases.upsert_item(id, torn, Default::default()).await.unwrap();
    processor.start().await.unwrap();
    sink.until_alarm("cannot be read").await;
    processor.stop(STOP).await;
    let kept = home.lease_documents().await;
    assert!(kept.iter().any(|body| body["LeaseToken"] == 7), "{kept:?}");
}

/// 63: the monitored container is deleted and made again under its name: the old positions mean
/// nothing there, so nothing is read; the next start begins with leases of its own.
#[tokio::test]
async fn container_deleted_and_recreated() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.put("x", "k").await;
    sink.until_count(1).await;
    home.container.delete().await.unwrap();
    sink.until_alarm("the monitored container is gone").await;
    let database = home.container.client().database("d");
    database.ensure_container("c", "/pk", Default::default()).await.unwrap();
    home.put("y", "k").await;
    processor.stop(STOP).await;
    assert_eq!(sink.ids(), ["x"], "what belongs to another container is not delivered");
    let closes = sink.closes.lock().unwrap().clone();
    assert!(closes.iter().any(|(_, reason)| *reason == CloseReason::ResourceGone), "{closes:?}");
    let again = Sink::new();
    let mut anew = home.start(from_beginning("b"), &again).await;
    again.until_count(1).await;
    anew.stop(STOP).await;
    assert_eq!(again.ids(), ["y"]);
}

/// Contradictions are told before anything is sent.
#[tokio::test]
async fn options_that_contradict_are_refused_when_built() {
    let home = Home::new(1).await;
    let both = processor::Options {
        start_from_beginning: true,
        start_time: Some(Duration::ZERO),
        ..options("a")
    };
    let built = home.builder().await.options(both).handler(|_, _| async { Ok(()) }).build();
    assert!(built.unwrap_err().to_string().contains("set one"));
    let built = home.builder().await.options(options("a")).build();
    assert!(built.unwrap_err().to_string().contains("no observer"));
}
