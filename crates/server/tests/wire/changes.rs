//! The change feed: pages, readers that wait, readers that listen.

use std::time::{Duration, Instant};

use serde_json::Value;
use server::Options;
use tokio::net::TcpStream;

use crate::support::{Answer, Client, Request, Running, many_files, soon, start, start_with};

const DOCS: &str = "/dbs/d/colls/c/docs";

fn feed(headers: &[(&str, &str)]) -> Request {
    let request = Request::new(&format!("GET {DOCS}")).header("a-im", "Incremental Feed");
    headers.iter().fold(request, |request, (name, value)| request.header(name, *value))
}

async fn put(running: &Running, id: &str, pk: &str) {
    let body = format!(r#"{{"id":"{id}","pk":"{pk}"}}"#);
    running.send(Request::new(&format!("POST {DOCS}")).pk(pk).body(body)).await.is(201);
}

fn ids(answer: &Answer) -> Vec<String> {
    let documents = answer.json()["Documents"].as_array().unwrap().clone();
    documents.iter().map(|each| each["id"].as_str().unwrap().to_owned()).collect()
}

fn etag(answer: &Answer) -> String {
    answer.header("etag").expect("every page has a position").to_owned()
}

#[tokio::test]
async fn pages_until_there_is_nothing_more() {
    let running = start().await.with_container().await;
    for id in ["1", "2", "3"] {
        put(&running, id, "a").await;
    }
    let first = running.send(feed(&[("x-ms-max-item-count", "2")])).await.is(200);
    assert_eq!(ids(&first), ["1", "2"]);
    assert_eq!(first.header("x-ms-item-count"), Some("2"));
    assert!(first.header("x-ms-session-token").is_some());
    assert!(first.json()["Documents"][0]["_lsn"].is_u64());
    let second = running.send(feed(&[("if-none-match", &etag(&first))])).await.is(200);
    assert_eq!(ids(&second), ["3"]);
    let last = running.send(feed(&[("if-none-match", &etag(&second))])).await.is(304);
    assert!(last.body.is_empty());
    assert_eq!(etag(&last), etag(&second));
}

/// The page behind a large one is read ahead; what is written meanwhile shows in it all the same.
#[tokio::test]
async fn a_page_read_ahead_is_what_reading_it_now_gives() {
    let running = start().await.with_container().await;
    let mut client = running.connect().await;
    for n in 0..600 {
        let body = format!(r#"{{"id":"{n}","pk":"a"}}"#);
        client.send(Request::new(&format!("POST {DOCS}")).pk("a").body(body)).await.is(201);
    }
    let next = |etag: &str| feed(&[("x-ms-max-item-count", "200"), ("if-none-match", etag)]);
    let first = client.send(feed(&[("x-ms-max-item-count", "200")])).await.is(200);
    // One of the next page goes, one of it moves to the end.
    client.send(Request::new(&format!("DELETE {DOCS}/250")).pk("a")).await.is(204);
    let upsert = Request::new(&format!("POST {DOCS}")).header("x-ms-documentdb-is-upsert", "true");
    client.send(upsert.pk("a").body(r#"{"id":"251","pk":"a","new":true}"#)).await.is(200);
    let second = client.send(next(&etag(&first))).await.is(200);
    let found = ids(&second);
    assert!(!found.contains(&"250".to_owned()) && !found.contains(&"251".to_owned()));
    assert_eq!((found.len(), &*found[199]), (200, "401"));
    // Nothing is written from here on: the pages are those that were read ahead.
    let third = client.send(next(&etag(&second))).await.is(200);
    assert_eq!(ids(&third).len(), 199);
    assert_eq!(ids(&third).last().map(String::as_str), Some("251"));
    client.send(next(&etag(&third))).await.is(304);
    let pages = async |from: &mut Client, waits: bool| {
        let (mut found, mut position) = (Vec::new(), None);
        loop {
            let request =
                position.as_deref().map_or_else(|| feed(&[("x-ms-max-item-count", "200")]), next);
            let request = if waits { request.header("prefer", "wait=1") } else { request };
            let page = from.send(request).await;
            if page.status == 304 {
                return found;
            }
            found.extend(ids(&page));
            position = Some(etag(&page));
        }
    };
    let mut other = running.connect().await;
    let (one, another) = (pages(&mut client, false).await, pages(&mut other, false).await);
    assert_eq!(one.len(), 599);
    assert_eq!(one, another);
    // Whoever would wait gets what is there as well.
    assert_eq!(one, pages(&mut other, true).await);
}

/// The little that a reader wants may lie behind much that it does not.
#[tokio::test]
async fn a_key_behind_many_others() {
    let running = start().await.with_container().await;
    let mut client = running.connect().await;
    for n in 0..20_050 {
        let body = format!(r#"{{"id":"{n}","pk":"others"}}"#);
        client.send(Request::new(&format!("POST {DOCS}")).pk("others").body(body)).await.is(201);
    }
    put(&running, "mine", "a").await;
    let page = running.send(feed(&[]).pk("a")).await.is(200);
    assert_eq!(ids(&page), ["mine"]);
    let waited = running.send(feed(&[("prefer", "wait=20")]).pk("a")).await.is(200);
    assert_eq!(ids(&waited), ["mine"]);
}

async fn waiting(running: &Running, headers: &[(&str, &str)]) -> Client {
    let mut client = running.connect().await;
    client.write(&feed(headers).bytes()).await;
    client
}

/// Until the server has taken the requests of all clients in hand.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(300)).await;
}

#[tokio::test]
async fn a_waiting_reader_is_woken_by_a_write() {
    let running = start().await.with_container().await;
    put(&running, "before", "a").await;
    let mut client = waiting(&running, &[("if-none-match", "*"), ("prefer", "wait=20")]).await;
    settle().await;
    let written = Instant::now();
    put(&running, "after", "a").await;
    let answer = client.answer().await.unwrap().is(200);
    assert!(written.elapsed() < Duration::from_secs(5));
    assert_eq!(ids(&answer), ["after"]);
    assert_eq!(answer.header("preference-applied"), Some("wait=20"));
    // What is there already is not waited for.
    let at_once = running.send(feed(&[("prefer", "return=minimal, wait=20")])).await.is(200);
    assert_eq!(ids(&at_once), ["before", "after"]);
    // The connection goes on.
    client.send(feed(&[("if-none-match", &etag(&answer))])).await.is(304);
}

#[tokio::test]
async fn a_wait_ends_with_the_position() {
    let running = start().await.with_container().await;
    put(&running, "1", "a").await;
    let begun = Instant::now();
    let answer = running.send(feed(&[("if-none-match", "*"), ("prefer", "wait=1")])).await.is(304);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(answer.header("preference-applied"), Some("wait=1"));
    put(&running, "2", "a").await;
    let next = running.send(feed(&[("if-none-match", &etag(&answer))])).await.is(200);
    assert_eq!(ids(&next), ["2"]);
    for wrong in ["wait=0", "wait=61", "wait=x"] {
        running.send(feed(&[("prefer", wrong)])).await.refused(400, "1 to 60 seconds");
    }
}

#[tokio::test]
async fn a_shutdown_ends_waiting_and_listening() {
    let running = start().await.with_container().await;
    let mut waits = waiting(&running, &[("if-none-match", "*"), ("prefer", "wait=60")]).await;
    let mut listens = waiting(&running, &[("accept", "text/event-stream")]).await;
    listens.text_to("id: ").await;
    settle().await;
    let begun = Instant::now();
    let stopped = running.stop();
    let answer = waits.answer().await.unwrap().is(304);
    etag(&answer);
    listens.text_to("\r\n0\r\n\r\n").await;
    soon(stopped).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn who_hangs_up_waits_no_more() {
    let options = Options { connections_max: 1, ..Options::default() };
    let running = start_with(options).await;
    let mut client = running.connect().await;
    client.send(Request::new("POST /dbs").body(r#"{"id":"d"}"#)).await.is(201);
    let container = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    client.send(Request::new("POST /dbs/d/colls").body(container)).await.is(201);
    for accept in ["application/json", "text/event-stream"] {
        client.write(&feed(&[("prefer", "wait=60"), ("accept", accept)]).bytes()).await;
        settle().await;
        // The only place that there is becomes free when the server has noticed.
        client = running.connect().await;
        client.send(Request::new("GET /dbs")).await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiting_readers() {
    many_files();
    let running = start().await.with_container().await;
    let mut clients = Vec::new();
    for _ in 0..1000 {
        clients.push(waiting(&running, &[("if-none-match", "*"), ("prefer", "wait=60")]).await);
    }
    settle().await;
    settle().await;
    put(&running, "1", "a").await;
    for client in &mut clients {
        assert_eq!(ids(&client.answer().await.unwrap().is(200)), ["1"]);
    }
}

/// Begins to listen, and reads the head of the answer.
async fn listening(running: &Running, headers: &[(&str, &str)]) -> Client {
    let mut all = vec![("accept", "text/event-stream")];
    all.extend_from_slice(headers);
    let mut client = waiting(running, &all).await;
    let head = client.text_to("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    client
}

/// The value of the last line of an event stream that begins with a word.
fn last<'a>(text: &'a str, word: &str) -> &'a str {
    text.lines().filter_map(|line| line.strip_prefix(word)).next_back().expect(word)
}

#[tokio::test]
async fn events_as_they_happen_and_from_where_one_left() {
    let running = start().await.with_container().await;
    put(&running, "1", "a").await;
    put(&running, "2", "a").await;
    let mut client = listening(&running, &[]).await;
    let text = client.text_to("\n\nid: ").await + &client.text_to("\n\n").await;
    assert_eq!(text.matches("event: change\n").count(), 2, "{text}");
    let id = last(&text, "id: ").to_owned();
    let item: Value = serde_json::from_str(last(&text, "data: ")).unwrap();
    assert_eq!(item["id"], "2");
    // A stored item may have line breaks.
    let body = "{\"id\":\"3\",\n\"pk\":\"a\"}";
    running.send(Request::new(&format!("POST {DOCS}")).pk("a").body(body)).await.is(201);
    let text = client.text_to("\n\n").await;
    assert!(text.contains("data: {\"id\":\"3\",\ndata: \"pk\":\"a\""), "{text}");
    drop(client);
    // Whoever comes back goes on after the last event, whatever else it says.
    let resumed = [("last-event-id", id.as_str()), ("if-none-match", "*")];
    let mut client = listening(&running, &resumed).await;
    let text = client.text_to("\n\n").await;
    assert!(text.contains("data: {\"id\":\"3\""), "{text}");
}

#[tokio::test]
async fn a_silent_stream_has_heartbeats_and_its_container_an_end() {
    let options = Options {
        heartbeat: Duration::from_millis(50),
        idle_timeout: Duration::from_millis(100),
        header_timeout: Duration::from_millis(100),
        ..Options::default()
    };
    let running = start_with(options).await.with_container().await;
    let mut client = listening(&running, &[("if-none-match", "*")]).await;
    let pinned = client.text_to("\n\n").await;
    assert!(pinned.contains("id: \"0\"\n"), "{pinned}");
    for _ in 0..10 {
        assert!(client.text_to("\n\n").await.ends_with(":\n\n"));
    }
    put(&running, "1", "a").await;
    assert!(client.text_to("\n\n").await.contains("event: change\n"));
    running.ask("DELETE /dbs/d/colls/c", "").await.is(204);
    put_other(&running).await;
    let text = client.text_to("\r\n0\r\n\r\n").await;
    assert!(text.contains("event: error\n") && text.contains("\"code\":\"NotFound\""), "{text}");
}

/// Whoever waits for changes of a container that is deleted has nothing more to wait for.
#[tokio::test]
async fn the_end_of_a_container_wakes_who_waits() {
    let options = Options { heartbeat: Duration::from_secs(600), ..Options::default() };
    let running = start_with(options).await.with_container().await;
    let now = ("if-none-match", "*");
    let mut listens = listening(&running, &[now]).await;
    listens.text_to("\n\n").await;
    let mut all = waiting(&running, &[now, ("prefer", "wait=60")]).await;
    let one = [now, ("prefer", "wait=60"), ("x-ms-documentdb-partitionkey", "[\"a\"]")];
    let mut one = waiting(&running, &one).await;
    settle().await;
    running.ask("DELETE /dbs/d/colls/c", "").await.is(204);
    all.answer().await.unwrap().is(404);
    one.answer().await.unwrap().is(404);
    let text = listens.text_to("\r\n0\r\n\r\n").await;
    assert!(text.contains("\"code\":\"NotFound\""), "{text}");
}

async fn put_other(running: &Running) {
    running.ask("POST /dbs", r#"{"id":"other"}"#).await.is(201);
}

#[tokio::test]
async fn a_stream_is_refused_as_any_request() {
    let running = start().await.with_container().await;
    let accept = ("accept", "text/event-stream");
    running.send(feed(&[accept, ("if-none-match", "x")])).await.refused(400, "etag");
    running.send(feed(&[accept, ("last-event-id", "x")])).await.refused(400, "etag");
    let unsigned = feed(&[accept]).signer(crate::support::Signer::Nobody);
    running.send(unsigned).await.is(401);
    // A head has no body, not even an endless one.
    let head = Request::new(&format!("HEAD {DOCS}")).header("a-im", "Incremental feed");
    running.send(head.header("accept", "text/event-stream")).await.is(200);
}

#[tokio::test]
async fn what_is_still_to_be_read() {
    let running = start().await.with_container().await;
    put(&running, "1", "a").await;
    let first = running.send(feed(&[])).await.is(200);
    put(&running, "2", "a").await;
    put(&running, "3", "b").await;
    let lag = |etag: &str| Request::new("GET /dbs/d/colls/c/lag").header("if-none-match", etag);
    let answer = running.send(Request::new("GET /dbs/d/colls/c/lag")).await.is(200).json();
    assert_eq!(answer["items"], 3);
    let answer = running.send(lag(&etag(&first))).await.is(200).json();
    assert_eq!(answer["items"], 2);
    assert_eq!(answer["ranges"][0]["id"], "0");
    assert!(answer["ranges"][0]["oldestUnread"].as_f64().unwrap() > 1e9);
    let last = running.send(feed(&[("if-none-match", "*")])).await.is(304);
    let answer = running.send(lag(&etag(&last))).await.is(200).json();
    assert_eq!((&answer["items"], &answer["ranges"][0]["ageSeconds"]), (&0.into(), &0.0.into()));
    assert!(answer["ranges"][0]["oldestUnread"].is_null());
    running.send(lag("*")).await.refused(400, "position");
}

/// Streams by HTTP/2 end with the server as well.
#[tokio::test]
async fn events_by_http2() {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let running = start().await.with_container().await;
    put(&running, "1", "a").await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut request = hyper::Request::get(format!("http://db.example:9{DOCS}"));
    for (name, value) in feed(&[("accept", "text/event-stream")]).signed_headers() {
        request = request.header(name, value);
    }
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let mut response = soon(sender.send_request(request)).await.unwrap();
    let first = soon(response.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("event: change\n"));
    put(&running, "2", "a").await;
    let second = soon(response.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&second).contains("\"id\":\"2\""));
    let stopped = running.stop();
    let rest = soon(response.collect()).await.expect("a stream that ends well").to_bytes();
    assert!(rest.is_empty(), "{rest:?}");
    drop(sender);
    soon(stopped).await.unwrap();
}
