//! Resources and items, as SDKs ask for them.

use serde_json::json;
use server::Options;
use server::consistency::Consistency;

use crate::support::{Request, Signer, start, start_with};

#[tokio::test]
async fn the_account_names_the_address_the_client_came_by() {
    let running = start().await;
    let account = running.ask("GET /", "").await.is(200).json();
    assert_eq!(account["writableLocations"][0]["databaseAccountEndpoint"], "http://db.example:7/");
    let options = Options { advertise: Some("https://a.example/".into()), ..Options::default() };
    let account = start_with(options).await.ask("GET /", "").await.is(200).json();
    assert_eq!(account["readableLocations"][0]["databaseAccountEndpoint"], "https://a.example/");
}

#[tokio::test]
async fn the_life_of_an_item() {
    let running = start().await.with_container().await;
    let docs = "/dbs/d/colls/c/docs";
    let item = r#"{"id":"1","pk":"a","v":1}"#;
    let create = Request::new(&format!("POST {docs}/")).pk("a").body(item);
    let made = running.send(create.clone()).await.is(201);
    let body = made.json();
    assert_eq!(body["_etag"], made.header("etag").unwrap());
    assert_eq!(made.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"));
    assert_eq!(made.header("x-ms-documentdb-partitionkeyrangeid"), Some("0"));
    assert!(made.header("x-ms-session-token").unwrap().starts_with("0:-1#"));
    assert!(made.header("x-ms-request-charge").is_some());
    running
        .send(create.clone())
        .await
        .is(409)
        .header("x-ms-session-token")
        .expect("a token on refusals too");

    let read = |extra: &str| Request::new(&format!("GET {docs}/1{extra}")).pk("a");
    let found = running.send(read("/")).await.is(200);
    assert_eq!(found.json()["v"], 1);
    let etag = found.header("etag").unwrap().to_owned();
    let same = running.send(read("").header("if-none-match", &etag)).await.is(304);
    assert!(same.body.is_empty());
    running.send(Request::new(&format!("HEAD {docs}/1")).pk("a")).await.is(200);

    let upsert = create.clone().header("x-ms-documentdb-is-upsert", "True");
    let upserted = running.send(upsert.header("prefer", "return=minimal")).await.is(200);
    assert!(upserted.body.is_empty() && upserted.header("etag").is_some());
    let replace = Request::new(&format!("PUT {docs}/1")).pk("a").body(item);
    running.send(replace.clone().header("if-match", &etag)).await.is(412);
    running.send(replace).await.is(200);
    running.send(Request::new(&format!("DELETE {docs}/1")).pk("a")).await.is(204);
    let gone = running.send(read("")).await.is(404);
    assert_eq!(gone.header("x-ms-substatus"), None);
}

#[tokio::test]
async fn lists_queries_and_plans() {
    let running = start().await.with_container().await;
    let docs = "/dbs/d/colls/c/docs";
    for n in 0..5 {
        let body = json!({ "id": n.to_string(), "pk": format!("k{}", n % 2), "n": n }).to_string();
        running
            .send(Request::new(&format!("POST {docs}")).pk(&format!("k{}", n % 2)).body(body))
            .await
            .is(201);
    }
    let first = running.ask(&format!("GET {docs} x-ms-max-item-count=3"), "").await.is(200);
    assert_eq!(
        (first.json()["_count"].as_u64(), first.header("x-ms-item-count")),
        (Some(3), Some("3"))
    );
    let next = Request::new(&format!("GET {docs} x-ms-max-item-count=3"));
    let next = next.header("x-ms-continuation", first.header("x-ms-continuation").unwrap());
    let rest = running.send(next).await.is(200);
    assert_eq!(rest.json()["Documents"].as_array().unwrap().len(), 2);
    assert_eq!(rest.header("x-ms-continuation"), None);

    let query =
        r#"{"query":"SELECT * FROM c WHERE c.n = @n","parameters":[{"name":"@n","value":3}]}"#;
    let found =
        running.ask(&format!("POST {docs} x-ms-documentdb-isquery=True"), query).await.is(200);
    assert_eq!(found.json()["Documents"][0]["id"], "3");
    let plan = format!("POST {docs} x-ms-cosmos-is-query-plan-request=True");
    assert_eq!(running.ask(&plan, query).await.is(200).json()["queryRanges"][0]["max"], "FF");
    running.ask(&plan, r#"{"query":"SELECT NOSUCH(c.n) FROM c"}"#).await.is(400);
    running.ask(&format!("GET {docs} a-im=Incremental"), "").await.refused(400, "a-im");
}

/// Rows of a query whose pages are each made from all items come in large pages, unless asked
/// otherwise.
#[tokio::test]
async fn pages_that_start_over_are_large() {
    let running = start().await.with_container().await;
    let docs = "/dbs/d/colls/c/docs";
    for from in [0, 100] {
        let create = |n| json!({"operationType": "Create", "resourceBody": {"id": format!("{n}"), "pk": "a", "n": n}});
        let batch = json!((from..from + 100).map(create).collect::<Vec<_>>());
        let request = Request::new(&format!(
            "POST {docs} x-ms-cosmos-is-batch-request=True x-ms-cosmos-batch-atomic=True"
        ));
        running.send(request.pk("a").body(batch.to_string())).await.is(200);
    }
    let rows = |query: &'static str, more: &'static str| {
        let line = format!("POST {docs} x-ms-documentdb-isquery=True{more}");
        let running = &running;
        async move {
            let body = json!({ "query": query }).to_string();
            let page = running.ask(&line, &body).await.is(200);
            (page.json()["_count"].as_u64(), page.header("x-ms-continuation").is_some())
        }
    };
    let groups = "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n";
    assert_eq!(rows("SELECT * FROM c", "").await, (Some(100), true));
    // A page that has just enough room for the last row is the last one.
    let whole = " x-ms-max-item-count=200";
    assert_eq!(rows("SELECT * FROM c", whole).await, (Some(200), false));
    assert_eq!(rows("SELECT * FROM c ORDER BY c.n", whole).await, (Some(200), false));
    assert_eq!(rows(groups, "").await, (Some(200), false));
    assert_eq!(rows(groups, " x-ms-max-item-count=-1").await, (Some(200), false));
    assert_eq!(rows(groups, " x-ms-max-item-count=7").await, (Some(7), true));
    assert_eq!(rows("SELECT DISTINCT c.n, c.id FROM c ORDER BY c.n", "").await, (Some(200), false));
}

#[tokio::test]
async fn ranges_end_the_loop_of_clients() {
    let running = start().await.with_container().await;
    let ranges = running.ask("GET /dbs/d/colls/c/pkranges a-im=x", "").await.is(200);
    let body = ranges.json();
    assert_eq!(body["PartitionKeyRanges"][0]["id"], "0");
    assert_eq!(body["PartitionKeyRanges"][0]["minInclusive"], "");
    assert_eq!(body["PartitionKeyRanges"][0]["maxExclusive"], "FF");
    let seen = Request::new("GET /dbs/d/colls/c/pkranges")
        .header("if-none-match", ranges.header("etag").unwrap());
    let seen = running.send(seen).await.is(304);
    assert_eq!(seen.header("etag"), ranges.header("etag"));
}

#[tokio::test]
async fn binary_bodies_are_understood() {
    let running = start().await.with_container().await;
    let body = b"\x80\xED\x0D\x03\x82id\x81a\x82pk\x81a\x81v\x02";
    let create = Request::new("POST /dbs/d/colls/c/docs").pk("a").body(*body);
    assert_eq!(running.send(create).await.is(201).json()["v"], 2);
}

#[tokio::test]
async fn resources_of_the_control_plane() {
    let running = start().await.with_container().await;
    let databases = running.ask("GET /dbs", "").await.is(200).json();
    assert_eq!(databases["Databases"][0]["_colls"], "colls/");
    let container = running.ask("GET /dbs/d/colls/c/", "").await.is(200).json();
    let rid = container["_rid"].as_str().unwrap();
    assert_eq!(container["_docs"], "docs/");
    running.ask(&format!("GET /{}", container["_self"].as_str().unwrap()), "").await.is(200);

    let query = json!({ "query": "SELECT * FROM root r WHERE r.resource = @l",
        "parameters": [{ "name": "@l", "value": container["_self"] }] });
    let offers = running
        .ask("POST /offers x-ms-documentdb-isquery=true", &query.to_string())
        .await
        .is(200)
        .json();
    assert_eq!(offers["_count"], 1, "{offers}");
    let offer = format!("/offers/{}", offers["Offers"][0]["_rid"].as_str().unwrap());
    let read = running.ask(&format!("GET {offer}"), "").await.is(200);
    assert_eq!(read.header("x-ms-cosmos-min-throughput"), Some("400"));
    assert_eq!(read.header("x-ms-offer-replace-pending"), Some("false"));

    let stale = "x-ms-cosmos-intended-collection-rid=AAAAAAAAAAA=";
    let stale = running.ask(&format!("GET /dbs/d/colls/c/docs {stale}"), "").await.is(400);
    assert_eq!(stale.header("x-ms-substatus"), Some("1024"));
    let fitting = format!("GET /dbs/d/colls/c/pkranges x-ms-cosmos-intended-collection-rid={rid}");
    running.ask(&fitting, "").await.is(200);
    let conflicts = running.ask("GET /dbs/d/colls/c/conflicts", "").await.is(200).json();
    assert_eq!(conflicts["Conflicts"], json!([]));
    running.ask("GET /dbs/d/colls/c/conflicts/x", "").await.is(404);
    running.ask("DELETE /dbs/d", "").await.is(204);
    running.ask("GET /dbs/d", "").await.is(404);
}

#[tokio::test]
async fn strong_reads_cost_double() {
    let options = Options { consistency: Consistency::Strong, ..Options::default() };
    let running = start_with(options).await.with_container().await;
    let create = Request::new("POST /dbs/d/colls/c/docs").pk("a").body(r#"{"id":"1","pk":"a"}"#);
    running.send(create).await.is(201);
    let read = Request::new("GET /dbs/d/colls/c/docs/1").pk("a");
    assert_eq!(running.send(read.clone()).await.is(200).header("x-ms-request-charge"), Some("2"));
    let eventual = read.header("x-ms-consistency-level", "Eventual");
    assert_eq!(running.send(eventual).await.is(200).header("x-ms-request-charge"), Some("1"));
}

#[tokio::test]
async fn probes_and_figures_need_no_signature() {
    let running = start().await;
    running.send(Request::new("GET /ready").signer(Signer::Nobody)).await.is(200);
    let metrics = running.send(Request::new("GET /metrics").signer(Signer::Nobody)).await.is(200);
    let text = String::from_utf8(metrics.body).unwrap();
    assert!(
        text.contains("astrarium_requests_total{operation=\"ready\",status=\"2xx\"} 1"),
        "{text}"
    );
    let pem = running
        .send(Request::new("GET /_explorer/emulator.pem").signer(Signer::Nobody))
        .await
        .is(200);
    assert!(pem.body.starts_with(b"-----BEGIN CERTIFICATE-----"));
}

#[tokio::test]
async fn browsers_of_named_origins_are_let_in() {
    let preflight = || {
        let request = Request::new("OPTIONS /dbs origin=https://a.example").signer(Signer::Nobody);
        request.header("access-control-request-headers", "authorization")
    };
    start().await.send(preflight()).await.is(405);
    let options = Options { cors: vec!["https://a.example".into()], ..Options::default() };
    let running = start_with(options).await;
    let allowed = running.send(preflight()).await.is(204);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://a.example"));
    assert_eq!(allowed.header("access-control-allow-headers"), Some("authorization"));
    let read = running.ask("GET /dbs origin=https://a.example", "").await.is(200);
    assert!(read.header("access-control-expose-headers").unwrap().contains("x-ms-continuation"));
}
