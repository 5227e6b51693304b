//! What the client does when the network or the server fails: a proxy in between makes it so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{ChangeFeedOptions, Client, Container, Credential, ItemOptions, Kind, Options, Retry};
use conformance::WELL_KNOWN_KEY;
use serde_json::json;
use tokio::sync::Notify;

use crate::proxy::{Fate, Proxy};
use crate::support::{Home, beginning, client_of, drain, fill, names, soon};

/// A server with an item, a proxy before it, and a container seen through the proxy.
async fn scene(options: Options) -> (Home, Proxy, Container) {
    let home = Home::new();
    fill(&home.container(1).await, "i", 1).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let container = client_of(&proxy.endpoint, options).container("d", "c");
    (home, proxy, container)
}

fn quick() -> Options {
    let retry = Retry { pause: Duration::from_millis(1), ..Retry::default() };
    Options { retry, ..Options::default() }
}

fn told(status: u16, substatus: u32) -> Fate {
    let headers = vec![("x-ms-substatus", substatus.to_string())];
    Fate::Answer(status, headers, r#"{"code":"Told","message":"as told"}"#.into())
}

fn busy(status: u16, millis: u64) -> Fate {
    let headers = vec![("x-ms-retry-after-ms", millis.to_string())];
    Fate::Answer(status, headers, r#"{"code":"Busy","message":"later"}"#.into())
}

fn any() -> ItemOptions {
    ItemOptions::default()
}

async fn create(container: &Container) -> client::Result<client::Answer> {
    container.create_item("new", json!({"id": "new", "pk": "new"}), any()).await
}

#[tokio::test]
async fn reads_are_repeated_until_they_succeed() {
    let (_home, proxy, container) = scene(quick()).await;
    let fates = || {
        vec![
            Fate::CutBefore,
            Fate::CutAfter,
            Fate::CutWithin,
            Fate::Noise,
            told(503, 0),
            told(500, 0),
            told(408, 0),
            told(449, 0),
        ]
    };
    let count = fates().len() + 1;
    proxy.fates(fates());
    let read = soon(container.read_item("key-0", "i0", any())).await.unwrap();
    assert_eq!(read.status(), 200);
    assert_eq!(proxy.seen().len(), count);
    proxy.fates(fates());
    let mut changes = container.changes(beginning()).unwrap();
    assert_eq!(drain(&mut changes).await, ["i0"]);
}

#[tokio::test]
async fn a_write_whose_fate_is_unknown_is_not_repeated() {
    let (_home, proxy, container) = scene(quick()).await;
    for (fate, kind) in [
        (Fate::CutAfter, Kind::Interrupted),
        (Fate::CutWithin, Kind::Interrupted),
        (Fate::Noise, Kind::Interrupted),
        (told(408, 0), Kind::TimedOut),
        (told(503, 0), Kind::Unavailable),
        (told(500, 0), Kind::Unavailable),
    ] {
        proxy.fates(vec![fate]);
        let error = soon(create(&container)).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (kind, 1), "{error}");
        assert!(error.may_have_been_applied(), "{error}");
        assert_eq!(proxy.seen().len(), 1);
        let _ = container.delete_item("new", "new", any()).await;
        proxy.seen();
    }
    // It was done, although nobody said so.
    proxy.fates(vec![Fate::CutAfter]);
    soon(create(&container)).await.unwrap_err();
    assert_eq!(container.read_item("new", "new", any()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_write_that_was_not_done_is_repeated() {
    let (_home, proxy, container) = scene(quick()).await;
    proxy.fates(vec![busy(429, 1), told(449, 0), told(410, 1002), busy(503, 1), told(410, 1007)]);
    assert_eq!(soon(create(&container)).await.unwrap().status(), 201);
    assert_eq!(proxy.seen().len(), 6);
}

#[tokio::test]
async fn the_server_says_when_to_come_back() {
    let (_home, proxy, container) = scene(quick()).await;
    proxy.fates(vec![busy(429, 40), busy(429, 40)]);
    let began = Instant::now();
    soon(create(&container)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(80));
    // More than there is patience for: the caller is told, at once, and how long it would be.
    proxy.fates(vec![busy(429, 31_000)]);
    let error = soon(container.read_item("key-0", "i0", any())).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Throttled, 1));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(31)));
    assert!(error.is_transient() && !error.may_have_been_applied());
    assert_eq!(error.message(), "later");
}

#[tokio::test]
async fn patience_ends() {
    let retry = Retry { attempts: 3, pause: Duration::from_millis(1), ..Retry::default() };
    let (_home, proxy, container) = scene(Options { retry, ..Options::default() }).await;
    proxy.script(|head| if head.is_item() { told(503, 0) } else { Fate::Pass });
    let error = soon(container.read_item("key-0", "i0", any())).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Unavailable, 4));
    assert_eq!(proxy.seen().len(), 4);
    let impatient =
        client_of(&proxy.endpoint, Options { retry: Retry::NONE, ..Options::default() });
    let error = impatient.container("d", "c").read_item("key-0", "i0", any()).await.unwrap_err();
    assert_eq!(error.attempts(), 1);
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_asked_for_again() {
    let options = Options { request_timeout: Duration::from_millis(300), ..quick() };
    let (_home, proxy, container) = scene(options).await;
    let never = Arc::new(Notify::new());
    proxy.fates(vec![Fate::Hold(never.clone()), Fate::Hold(never.clone())]);
    let read = soon(container.read_item("key-0", "i0", any())).await.unwrap();
    assert_eq!(read.status(), 200);
    proxy.fates(vec![Fate::Hold(never)]);
    let error = soon(create(&container)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TimedOut);
    assert!(error.may_have_been_applied());
    proxy.fates(vec![Fate::Delay(Duration::from_millis(30))]);
    assert_eq!(container.read_item("new", "new", any()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn answers_that_are_none() {
    let (_home, proxy, container) = scene(quick()).await;
    let ok = |body: &str, etag: bool| {
        let headers = if etag { vec![("etag", "\"1\"".to_owned())] } else { Vec::new() };
        Fate::Answer(200, headers, body.to_owned())
    };
    for (fate, message) in [
        (ok("<html>", true), "cannot be read"),
        (ok("{}", true), "Documents"),
        (ok(r#"{"Documents":[]}"#, false), "without an etag"),
        (Fate::Answer(304, Vec::new(), String::new()), "without an etag"),
    ] {
        proxy.fates(vec![fate]);
        let mut changes = container.changes(beginning()).unwrap();
        let error = soon(changes.next_page()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Answer);
        assert!(error.message().contains(message), "{error}");
        // The reader has not moved.
        assert_eq!(drain(&mut changes).await, ["i0"]);
    }
    proxy.fates(vec![Fate::Answer(404, Vec::new(), String::new())]);
    let error = container.read_item("key-0", "i0", any()).await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::NotFound, "the server gave no reason"));
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read() {
    let options = Options { answer_bytes_max: 3_000, ..quick() };
    let (_home, proxy, container) = scene(options).await;
    fill(&container, "more", 20).await;
    let mut changes = container.changes(beginning()).unwrap();
    let error = soon(changes.next_page()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::TooLarge, 1));
    assert!(error.message().contains("fewer items"), "{error}");
    let few = ChangeFeedOptions { max_item_count: Some(3), ..beginning() };
    assert_eq!(drain(&mut container.changes(few).unwrap()).await.len(), 21);
    drop(proxy);
}

#[tokio::test]
async fn ranges_that_come_and_go() {
    let (home, proxy, container) = scene(quick()).await;
    fill(&container, "more", 20).await;
    // In the midst of a split, ranges are gone before their heirs are listed.
    proxy.fates(vec![told(410, 1007), told(410, 1002), told(410, 1008), told(410, 1002)]);
    let options = ChangeFeedOptions { max_item_count: Some(4), ..beginning() };
    let mut changes = container.changes(options).unwrap();
    let first = soon(changes.next_page()).await.unwrap();
    home.client().container("d", "c").split_range("0").await.unwrap();
    proxy.fates(vec![told(410, 1007)]);
    let mut found: Vec<String> =
        first.changes.iter().map(|change| change.id().unwrap().unwrap()).collect();
    found.extend(drain(&mut changes).await);
    found.sort();
    let mut expected = names("more", 20);
    expected.insert(0, "i0".into());
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_range_that_is_gone_for_good_is_an_error() {
    let (_home, proxy, container) = scene(quick()).await;
    proxy.script(|head| if head.is_item() { told(410, 1002) } else { Fate::Pass });
    let mut changes = container.changes(beginning()).unwrap();
    let error = soon(changes.next_page()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::RangeGone);
    proxy.script(|_| Fate::Pass);
    assert_eq!(drain(&mut changes).await, ["i0"]);
}

#[tokio::test]
async fn history_that_is_lost_is_told() {
    let (_home, proxy, container) = scene(quick()).await;
    proxy.fates(vec![told(412, 2015)]);
    let mut changes = container.changes(beginning()).unwrap();
    let error = soon(changes.next_page()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::HistoryLost, 1));
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_list_of_ranges_with_a_gap_is_read_again() {
    let (_home, proxy, container) = scene(quick()).await;
    let mut torn = 2;
    proxy.script(move |head| {
        if head.path.ends_with("/pkranges") && torn > 0 {
            torn -= 1;
            let body = r#"{"_rid":"r","PartitionKeyRanges":[{"id":"1","minInclusive":"","maxExclusive":"1F"}]}"#;
            return Fate::Answer(200, Vec::new(), body.into());
        }
        Fate::Pass
    });
    assert_eq!(drain(&mut container.changes(beginning()).unwrap()).await, ["i0"]);
}

#[tokio::test]
async fn a_wrong_key_is_told_at_once() {
    let home = Home::new();
    home.container(1).await;
    let key = Credential::key("bm90IHRoZSBrZXk=").unwrap();
    let account = client::Account::new(&home.server.endpoint, key).unwrap();
    let wrong = Client::new(account, Options::default()).unwrap().container("d", "c");
    let error = soon(wrong.read_item("a", "1", any())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.status(), error.attempts()),
        (Kind::Unauthorized, Some(401), 1)
    );
    let error = soon(wrong.changes(beginning()).unwrap().next_page()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthorized);
}

#[tokio::test]
async fn an_endpoint_that_is_not_there() {
    // A port that was free a moment ago, on this machine.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let retry = Retry { attempts: 2, pause: Duration::from_millis(1), ..Retry::default() };
    let endpoint = format!("AccountEndpoint=http://127.0.0.1:{port}/;AccountKey={WELL_KNOWN_KEY};");
    let account = client::Account::from_connection_string(&endpoint).unwrap();
    let client = Client::new(account, Options { retry, ..Options::default() }).unwrap();
    let error = soon(create(&client.container("d", "c"))).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Unreachable, 3));
    assert!(!error.may_have_been_applied());
    assert!(error.message().contains(&port.to_string()), "{error}");
}

#[tokio::test]
async fn throttled_by_a_real_server() {
    let home = Home::with(&["--memory", "--enforce-throughput"]);
    let client = home.client();
    client.create_database("d", client::Throughput::Unsaid).await.unwrap();
    let container = client
        .database("d")
        .ensure_container("c", "/pk", client::Throughput::Manual(400))
        .await
        .unwrap();
    // Each write costs several units: more than a second's worth, so some are put off.
    let writes = (0..120).map(|n| {
        let container = container.clone();
        async move {
            let key = format!("key-{n}");
            let item = json!({"id": format!("i{n}"), "pk": key, "text": "x".repeat(2000)});
            container.create_item(key, item, any()).await.unwrap();
        }
    });
    soon(futures_util::future::join_all(writes)).await;
    assert_eq!(drain(&mut container.changes(beginning()).unwrap()).await, names("i", 120));
}
