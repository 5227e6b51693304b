//! Accounts that tell where to go: regions, and addresses that do not work.

use std::time::Duration;

use client::{ItemOptions, Options, Retry};
use serde_json::json;

use crate::proxy::{Fate, Proxy};
use crate::support::{Home, client_of, fill, soon};

fn quick() -> Options {
    let retry = Retry { pause: Duration::from_millis(1), ..Retry::default() };
    Options { retry, connect_timeout: Duration::from_millis(500), ..Options::default() }
}

/// The account document of one that has these regions.
fn account(writes: &[(&str, &str)], reads: &[(&str, &str)]) -> Fate {
    let list = |locations: &[(&str, &str)]| -> Vec<_> {
        let location = |(name, endpoint): &(&str, &str)| json!({"name": name, "databaseAccountEndpoint": endpoint});
        locations.iter().map(location).collect()
    };
    let document = json!({"id": "a", "_self": "", "_rid": "a",
        "writableLocations": list(writes), "readableLocations": list(reads)});
    Fate::Answer(200, Vec::new(), document.to_string())
}

#[tokio::test]
async fn writes_and_reads_go_where_the_account_says() {
    let home = Home::new();
    fill(&home.container(1).await, "i", 1).await;
    let [given, east, west] = [
        Proxy::before(&home.server.endpoint).await,
        Proxy::before(&home.server.endpoint).await,
        Proxy::before(&home.server.endpoint).await,
    ];
    let (e, w) = (east.endpoint.clone(), west.endpoint.clone());
    given.script(move |head| match head.path.as_str() {
        "/" => account(&[("East", &e)], &[("East", &e), ("West", &w)]),
        _ => Fate::Pass,
    });
    let options = Options { preferred_regions: vec!["west".into()], ..quick() };
    let container = client_of(&given.endpoint, options).container("d", "c");
    container.read_item("key-0", "i0", ItemOptions::default()).await.unwrap();
    container.upsert_item("a", r#"{"id":"a","pk":"a"}"#, ItemOptions::default()).await.unwrap();
    assert_eq!((given.seen().len(), east.seen().len(), west.seen().len()), (0, 1, 1));

    // The write region moves: the old one refuses, and the account tells the new one.
    let (e, w) = (east.endpoint.clone(), west.endpoint.clone());
    given.script(move |head| match head.path.as_str() {
        "/" => account(&[("West", &w)], &[("East", &e), ("West", &w)]),
        _ => Fate::Pass,
    });
    for region in [&east, &west] {
        let (e, w) = (east.endpoint.clone(), west.endpoint.clone());
        let is_east = std::ptr::eq(region, &east);
        region.script(move |head| match (head.path.as_str(), head.method.as_str()) {
            ("/", _) => account(&[("West", &w)], &[("East", &e), ("West", &w)]),
            (_, "POST") if is_east => {
                let body = r#"{"code":"Forbidden","message":"no writes here"}"#;
                Fate::Answer(403, vec![("x-ms-substatus", "3".into())], body.into())
            }
            _ => Fate::Pass,
        });
    }
    container.upsert_item("a", r#"{"id":"a","pk":"a"}"#, ItemOptions::default()).await.unwrap();
    assert_eq!((given.seen().len(), east.seen().len(), west.seen().len()), (0, 1, 1));
}

#[tokio::test]
async fn an_address_that_cannot_be_reached_is_passed_over() {
    let home = Home::new();
    fill(&home.container(1).await, "i", 1).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dead = format!("http://127.0.0.1:{port}/");
    proxy.script(move |head| match head.path.as_str() {
        "/" => account(&[("Dead", &dead)], &[("Dead", &dead), ("Odd", "no address")]),
        _ => Fate::Pass,
    });
    let container = client_of(&proxy.endpoint, quick()).container("d", "c");
    soon(container.read_item("key-0", "i0", ItemOptions::default())).await.unwrap();
    soon(container.upsert_item("a", r#"{"id":"a","pk":"a"}"#, ItemOptions::default()))
        .await
        .unwrap();
    assert_eq!(proxy.seen().len(), 2);
}

#[tokio::test]
async fn an_account_that_does_not_tell_is_used_as_given() {
    let home = Home::new();
    fill(&home.container(1).await, "i", 1).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    proxy.script(|head| match head.path.as_str() {
        "/" => Fate::Answer(403, Vec::new(), r#"{"code":"Forbidden","message":"no"}"#.into()),
        _ => Fate::Pass,
    });
    let container = client_of(&proxy.endpoint, quick()).container("d", "c");
    container.read_item("key-0", "i0", ItemOptions::default()).await.unwrap();
    let options = Options { region_discovery: false, ..quick() };
    let container = client_of(&proxy.endpoint, options).container("d", "c");
    proxy.script(|head| if head.path == "/" { Fate::CutBefore } else { Fate::Pass });
    container.read_item("key-0", "i0", ItemOptions::default()).await.unwrap();
}
