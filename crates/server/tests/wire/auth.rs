//! Who may do what.

use serde_json::json;
use server::date;

use crate::support::{READ_ONLY_KEY, Request, Running, Signer, start};

#[tokio::test]
async fn signatures_are_required_and_checked() {
    let running = start().await;
    let read = || Request::new("GET /dbs");
    running.send(read()).await.is(200);
    running
        .send(read().signer(Signer::Nobody))
        .await
        .refused(401, "authorization header is missing");
    running.send(read().signer(Signer::Key(vec![1; 64]))).await.refused(401, "get\\ndbs");
    for header in ["Bearer x", "type=master&ver=1.0&sig=short", "type=master&sig=x", "%zz", ""] {
        running.send(read().signer(Signer::Header(header.into()))).await.is(401);
    }
    let aad = read().signer(Signer::Header("type=aad&ver=1.0&sig=a.b.c".into()));
    running.send(aad).await.refused(401, "Entra");
}

#[tokio::test]
async fn dates_must_be_near() {
    let running = start().await;
    let now = date::now();
    for distance in [0, 14 * 60] {
        running.send(Request::new("GET /dbs").at(now - distance)).await.is(200);
        running.send(Request::new("GET /dbs").at(now + distance)).await.is(200);
    }
    for distance in [16 * 60, 86_400] {
        running.send(Request::new("GET /dbs").at(now - distance)).await.refused(403, "minutes");
        running.send(Request::new("GET /dbs").at(now + distance)).await.is(403);
    }
}

/// By the protocol: a signature covers method, resource and date only.
#[tokio::test]
async fn a_request_may_be_repeated_within_its_time() {
    let running = start().await;
    let request = Request::new("GET /dbs");
    running.send(request.clone()).await.is(200);
    running.send(request).await.is(200);
}

#[tokio::test]
async fn a_read_only_key_only_reads() {
    let running = start().await.with_container().await;
    let with = |line: &str| Request::new(line).signer(Signer::Key(READ_ONLY_KEY.to_vec()));
    running.send(with("GET /dbs/d")).await.is(200);
    let query =
        with("POST /dbs x-ms-documentdb-isquery=true").body(r#"{"query":"SELECT * FROM c"}"#);
    running.send(query).await.is(200);
    running.send(with("POST /dbs").body(r#"{"id":"e"}"#)).await.refused(403, "read-only");
    running.send(with("DELETE /dbs/d")).await.is(403);
}

/// Makes a permission and returns its link and token.
async fn permission(running: &Running, id: &str, body: serde_json::Value) -> (String, String) {
    let mut body = body;
    body["id"] = id.into();
    let made =
        running.ask("POST /dbs/d/users/u/permissions", &body.to_string()).await.is(201).json();
    (format!("/dbs/d/users/u/permissions/{id}"), made["_token"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_resource_token_opens_what_its_permission_names() {
    let running = start().await.with_container().await;
    running.ask("POST /dbs/d/users", r#"{"id":"u"}"#).await.is(201);
    let item = |line: &str| Request::new(line).pk("a").body(r#"{"id":"1","pk":"a"}"#);
    let (link, all) =
        permission(&running, "p", json!({ "permissionMode": "All", "resource": "dbs/d/colls/c" }))
            .await;
    let with = |request: Request| request.signer(Signer::Header(all.clone()));
    running.send(with(item("POST /dbs/d/colls/c/docs"))).await.is(201);
    for line in
        ["GET /", "GET /dbs/d/colls/c", "GET /dbs/d/colls/c/pkranges", "GET /dbs/d/colls/c/docs"]
    {
        running.send(with(Request::new(line))).await.is(200);
    }
    for line in
        ["GET /dbs", "GET /dbs/d", "GET /dbs/d/users", "GET /offers", "GET /dbs/d/colls/x/docs"]
    {
        running.send(with(Request::new(line))).await.is(403);
    }
    let read_again = running.ask(&format!("GET {link}"), "").await.is(200).json();
    assert!(read_again["_token"].as_str().unwrap().starts_with("type=resource&ver=1&sig="));
    let by_reader =
        Request::new(&format!("GET {link}")).signer(Signer::Key(READ_ONLY_KEY.to_vec()));
    assert!(running.send(by_reader).await.is(200).json().get("_token").is_none());
    running.ask(&format!("DELETE {link}"), "").await.is(204);
    running.send(with(Request::new("GET /"))).await.refused(403, "deleted or changed");
}

#[tokio::test]
async fn a_token_may_be_narrow() {
    let running = start().await.with_container().await;
    running.ask("POST /dbs/d/users", r#"{"id":"u"}"#).await.is(201);
    for key in ["a", "b"] {
        let body = json!({ "id": "1", "pk": key }).to_string();
        running.send(Request::new("POST /dbs/d/colls/c/docs").pk(key).body(body)).await.is(201);
    }
    let own = running.ask("GET /dbs/d/colls/c", "").await.json()["_self"].clone();
    let narrow =
        json!({ "permissionMode": "Read", "resource": own, "resourcePartitionKey": ["a"] });
    let (link, token) = permission(&running, "p", narrow).await;
    let with = |line: &str| Request::new(line).signer(Signer::Header(token.clone()));
    running.send(with("GET /dbs/d/colls/c/docs/1").pk("a")).await.is(200);
    running.send(with("GET /dbs/d/colls/c/docs/1").pk("b")).await.refused(403, "partition key");
    running.send(with("GET /dbs/d/colls/c/docs")).await.is(403);
    running
        .send(with("DELETE /dbs/d/colls/c/docs/1").pk("a"))
        .await
        .refused(403, "only allows to read");
    let expiry = format!("GET {link} x-ms-documentdb-expiry-seconds=");
    running.ask(&(expiry.clone() + "18000"), "").await.is(200);
    for wrong in ["0", "18001", "soon"] {
        running.ask(&(expiry.clone() + wrong), "").await.is(400);
    }
}
