//! Input that nobody should send: the right refusal, bounded memory, and the next request works.

use std::time::{Duration, Instant};

use server::Options;

use crate::support::{Request, Running, Signer, soon, start, start_with};

const DOCS: &str = "POST /dbs/d/colls/c/docs";

async fn still_serves(running: &Running) {
    running.ask("GET /dbs/d", "").await.is(200);
}

#[tokio::test]
async fn bodies_that_are_not_items() {
    let running = start().await.with_container().await;
    let deep = format!(
        "{{\"id\":\"1\",\"pk\":\"a\",\"x\":{}1{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"{\"id\":1,\"pk\":\"a\"}".to_vec(),
        b"{\"id\":\"1\",\"pk\":\"\xff\xfe\"}".to_vec(),
        b"\x80\xED\x0D\x03\x82id".to_vec(),
        b"\x80".to_vec(),
        deep.into_bytes(),
    ];
    let mut client = running.connect().await;
    for body in bodies {
        client.send(Request::new(DOCS).pk("a").body(body)).await.is(400);
    }
    client.send(Request::new(DOCS).pk("a").body(r#"{"id":"1","pk":"a"}"#)).await.is(201);
}

#[tokio::test]
async fn bodies_that_are_not_resources_or_queries() {
    let running = start().await.with_container().await;
    let deep = "[".repeat(200_000);
    for body in ["", "x", "[]", "{}", r#"{"id":7}"#, r#"{"id":"a/b"}"#, &deep] {
        running.ask("POST /dbs", body).await.is(400);
    }
    for body in ["", "[]", "{}", r#"{"query":7}"#, r#"{"query":"SELECT","parameters":7}"#, &deep] {
        running.ask(&format!("{DOCS} x-ms-documentdb-isquery=True"), body).await.is(400);
    }
    still_serves(&running).await;
}

#[tokio::test]
async fn headers_of_wrong_type() {
    let running = start().await.with_container().await;
    for line in [
        "GET /dbs x-ms-max-item-count=many",
        "GET /dbs x-ms-continuation=rubbish",
        "GET /dbs/d/colls/c/docs x-ms-session-token=rubbish",
        "GET /dbs/d/colls/c/docs x-ms-consistency-level=Firm",
        "GET /dbs/d/colls/c/docs x-ms-documentdb-partitionkey=rubbish",
        "GET /dbs/d/colls/c/docs x-ms-start-epk=0",
        "GET /dbs/d/colls/c/docs x-ms-start-epk=xx x-ms-end-epk=FF",
        "GET /dbs/d/colls/c/docs/1 x-ms-documentdb-partitionkey={}",
        "GET /dbs/d/colls/c/docs/1",
    ] {
        running.ask(line, "").await.is(400);
    }
    running.ask("POST /dbs x-ms-documentdb-is-upsert=maybe", "{}").await.is(400);
    running.ask("POST /dbs x-ms-offer-throughput=lots", r#"{"id":"x"}"#).await.is(400);
    running.ask("GET /dbs/d/colls/c/docs x-ms-documentdb-partitionkeyrangeid=99", "").await.is(410);
    running.ask(&format!("GET /dbs x-ms-activity-id={}", "x".repeat(5000)), "").await.is(200);
    running.ask(&format!("GET /dbs x-ms-continuation={}", "x".repeat(60_000)), "").await.is(400);
}

#[tokio::test]
async fn heads_that_are_not_http() {
    let running = start().await.with_container().await;
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /dbs HTTP/9.9\r\n\r\n",
        b"GET /dbs HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /dbs HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrubbish that is no frame at all",
    ] {
        let mut client = running.connect().await;
        client.write(bytes).await;
        // Whatever the answer, the connection ends.
        while client.has_more().await {}
    }
    still_serves(&running).await;
}

#[tokio::test]
async fn a_body_cut_short() {
    let running = start().await.with_container().await;
    let mut client = running.connect().await;
    client.write(Request::new(DOCS).pk("a").head("content-length: 100").as_bytes()).await;
    client.write(b"{\"id\":").await;
    drop(client);
    still_serves(&running).await;
}

#[tokio::test]
async fn a_body_that_never_comes() {
    let options = Options { body_timeout: Duration::from_millis(200), ..Options::default() };
    let running = start_with(options).await.with_container().await;
    let mut client = running.connect().await;
    client.write(Request::new(DOCS).pk("a").head("content-length: 100").as_bytes()).await;
    client.answer().await.expect("an answer").refused(408, "too long");
    still_serves(&running).await;
}

#[tokio::test]
async fn a_head_that_never_ends() {
    let options = Options { header_timeout: Duration::from_millis(200), ..Options::default() };
    let running = start_with(options).await.with_container().await;
    let mut idle = running.connect().await;
    let mut slow = running.connect().await;
    slow.write(b"GET /dbs HTTP/1.1\r\nx-slow: ").await;
    let start = Instant::now();
    assert!(slow.answer().await.is_none(), "the connection should be closed");
    assert!(start.elapsed() >= Duration::from_millis(200));
    // A connection that has not begun a request is only idle.
    idle.send(Request::new("GET /dbs/d")).await.is(200);
}

#[tokio::test]
async fn idle_connections_end_at_last() {
    let options = Options {
        header_timeout: Duration::from_millis(100),
        idle_timeout: Duration::from_millis(300),
        ..Options::default()
    };
    let running = start_with(options).await.with_container().await;
    let mut client = running.connect().await;
    client.send(Request::new("GET /dbs/d")).await.is(200);
    assert!(client.answer().await.is_none());
}

#[tokio::test]
async fn a_hundred_megabytes_announced() {
    let running = start().await.with_container().await;
    let mut client = running.connect().await;
    client.write(Request::new(DOCS).pk("a").head("content-length: 104857600").as_bytes()).await;
    client.answer().await.expect("an answer").is(413);
    let mut unsigned = running.connect().await;
    let request = Request::new(DOCS).signer(Signer::Nobody);
    unsigned.write(request.head("content-length: 104857600").as_bytes()).await;
    unsigned.answer().await.expect("an answer").is(401);
    still_serves(&running).await;
}

#[tokio::test]
async fn too_much_without_announcement() {
    let running = start().await.with_container().await;
    let mut client = running.connect().await;
    client.write(Request::new(DOCS).pk("a").head("transfer-encoding: chunked").as_bytes()).await;
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    for _ in 0..80 {
        client.write(&chunk).await;
    }
    client.write(b"0\r\n\r\n").await;
    client.answer().await.expect("an answer").is(413);
    // All of it was read, so even this connection goes on.
    client.send(Request::new("GET /dbs/d")).await.is(200);
}

#[tokio::test]
async fn an_item_too_large_gets_its_own_message() {
    let running = start().await.with_container().await;
    let item = format!(r#"{{"id":"1","pk":"a","x":"{}"}}"#, "x".repeat(3 << 20));
    running.send(Request::new(DOCS).pk("a").body(item)).await.is(413);
}

#[tokio::test]
async fn clients_wait_for_consent() {
    let running = start().await.with_container().await;
    let mut client = running.connect().await;
    let request = Request::new(DOCS).pk("a").header("expect", "100-continue");
    client.write(request.head("content-length: 104857600").as_bytes()).await;
    client.answer().await.expect("an answer").is(413);
}

/// More bodies at once than the budget holds: they take turns.
#[tokio::test(flavor = "multi_thread")]
async fn memory_for_bodies_is_shared() {
    let options = Options { body_memory_bytes: 1, ..Options::default() };
    let running = start_with(options).await.with_container().await;
    let item = |n: usize| format!(r#"{{"id":"{n}","pk":"a","x":"{}"}}"#, "x".repeat(1 << 20));
    let requests = (0..16).map(|n| {
        let request = Request::new(DOCS).pk("a").body(item(n));
        let connecting = running.connect();
        async move { connecting.await.send(request).await.is(201) }
    });
    soon(join(requests)).await;
}

async fn join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(Box::pin).map(|future| (Some(future), None)).collect();
    std::future::poll_fn(move |cx| {
        for (future, outcome) in &mut futures {
            if let Some(running) = future
                && let std::task::Poll::Ready(value) = running.as_mut().poll(cx)
            {
                (*future, *outcome) = (None, Some(value));
            }
        }
        match futures.iter().all(|(future, _)| future.is_none()) {
            true => std::task::Poll::Ready(
                futures.iter_mut().filter_map(|(_, outcome)| outcome.take()).collect(),
            ),
            false => std::task::Poll::Pending,
        }
    })
    .await
}
