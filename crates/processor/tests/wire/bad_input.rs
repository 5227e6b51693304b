//! What is wrong from outside: containers, keys, documents, endpoints. Each has one outcome.

use std::time::Duration;

use client::{Credential, Options as ClientOptions, Retry};
use processor::{Builder, CloseReason, Event, Site};
use serde_json::json;

use crate::proxy::{Fate, Proxy};
use crate::support::{Collector, Home, Sink, eventually, from_beginning, options};

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

/// Damaged documents of other sorts: a host's is written over by its owner, also when it starts; one
/// that gives orders is reported, and a paused fleet stays paused.
#[tokio::test]
async fn corrupt_host_and_control_documents_stop_nobody() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    let fleet = home.fleet().await;
    fleet.pause().await.unwrap();
    let find = async |word: &str| {
        let all = home.all_documents(&home.leases).await;
        let is_it = |body: &&serde_json::Value| body["id"].as_str().unwrap().contains(word);
        all.iter().find(is_it).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let (host, control) = (find(".host.").await, find(".control").await);
    let damage = async |id: &str, body: serde_json::Value| {
        home.leases.upsert_item(id, body, Default::default()).await.unwrap();
    };
    damage(&control, json!({"id": control, "paused": "perhaps"})).await;
    sink.until_alarm("the control document cannot be read").await;
    damage(&host, json!({"id": host, "beat": []})).await;
    eventually("it is written over", || async {
        let all = home.all_documents(&home.leases).await;
        all.iter().any(|body| body["id"] == host.as_str() && body["instance"] == "a")
    })
    .await;
    home.put("x", "k").await;
    assert!(sink.ids().is_empty(), "paused");
    damage(&control, json!({"id": control, "paused": false})).await;
    sink.until_count(1).await;
    processor.stop(STOP).await;
    damage(&host, json!({"id": host, "beat": []})).await;
    processor.start().await.unwrap();
    home.put("y", "k").await;
    sink.until_count(2).await;
    processor.stop(STOP).await;
}

/// The lease container is deleted under a running processor: that is said, nothing is handled without
/// a lease for long, and after it was made again a start begins anew.
#[tokio::test]
async fn lease_container_deleted_while_running() {
    let home = Home::new(1).await;
    let sink = Sink::new();
    let mut processor = home.start(from_beginning("a"), &sink).await;
    home.put("x", "k").await;
    sink.until_count(1).await;
    home.leases.delete().await.unwrap();
    sink.until_alarm("the container does not exist").await;
    let report = processor.stop(STOP).await;
    assert_eq!(report.error, None);
    let database = home.container.client().database("d");
    database.ensure_container("leases", "/id", Default::default()).await.unwrap();
    let again = Sink::new();
    let mut anew = home.start(from_beginning("a"), &again).await;
    again.until_count(1).await;
    anew.stop(STOP).await;
}

/// The endpoint is gone for longer than the lease lives, and comes back: nothing is lost, and the
/// host goes on by itself.
#[tokio::test]
async fn endpoint_lost_and_found() {
    let home = Home::new(1).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let key = Credential::key(conformance::WELL_KNOWN_KEY).unwrap();
    let direct =
        ClientOptions { region_discovery: false, retry: Retry::NONE, ..ClientOptions::default() };
    let site = Site::new(&proxy.endpoint, key, direct, "d", "c").unwrap();
    let sink = Sink::new();
    let (given, heard) = (sink.clone(), sink.clone());
    let (told, mut events) = tokio::sync::mpsc::unbounded_channel();
    let brief = processor::Options {
        lease_renew_interval: Duration::from_millis(500),
        lease_expiration_interval: Duration::from_secs(3),
        ..from_beginning("a")
    };
    let mut processor = Builder::connect(&site, &site.beside("d", "leases"))
        .await
        .unwrap()
        .options(brief)
        .monitor(std::sync::Arc::new(move |event: &Event| {
            heard.hear(event);
            let _ = told.send(event.clone());
        }))
        .observer(move || Collector { sink: given.clone(), instance: "a".into() })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    home.put("x", "k").await;
    sink.until_count(1).await;
    proxy.script(|_| Fate::CutBefore);
    let fenced = async {
        while let Some(event) = events.recv().await {
            if matches!(event, Event::Closed { reason: CloseReason::Fenced, .. }) {
                return;
            }
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, fenced).await.unwrap();
    home.put("y", "k").await;
    proxy.script(|_| Fate::Pass);
    sink.until_count(2).await;
    assert_eq!(processor.stop(STOP).await.error, None);
}

/// An observer that does not open is tried again later; its lease is not stuck.
#[tokio::test]
async fn an_observer_that_does_not_open_is_tried_again() {
    struct Shy(std::sync::Arc<std::sync::atomic::AtomicU32>, Sink);
    impl processor::Observer for Shy {
        async fn open(&self, _: &processor::Context) -> Result<(), processor::HandlerError> {
            match self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => Err("not yet".into()),
                1 => panic!("not at all"),
                _ => Ok(()),
            }
        }

        async fn process(
            &self,
            context: &processor::Context,
            changes: &[processor::Change],
        ) -> Result<(), processor::HandlerError> {
            let collector = Collector { sink: self.1.clone(), instance: "a".into() };
            processor::Observer::process(&collector, context, changes).await
        }
    }
    let home = Home::new(1).await;
    home.put("x", "k").await;
    let (sink, opened) = (Sink::new(), std::sync::Arc::default());
    let given = sink.clone();
    let heard = sink.clone();
    let mut processor = home
        .builder()
        .await
        .options(from_beginning("a"))
        .monitor(std::sync::Arc::new(move |event: &Event| heard.hear(event)))
        .observer(move || Shy(std::sync::Arc::clone(&opened), given.clone()))
        .build()
        .unwrap();
    processor.start().await.unwrap();
    sink.until_alarm("the observer did not open: not yet").await;
    sink.until_alarm("not at all").await;
    sink.until_count(1).await;
    processor.stop(STOP).await;
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
