//! Documents and queries, page by page.

use client::{FeedRange, Kind, Query, QueryOptions, ReadOptions};
use serde_json::{Value, json};

use crate::proxy::{Fate, Proxy};
use crate::support::{Home, client_of, fill, names, soon};

fn ids(documents: Vec<Value>) -> Vec<String> {
    documents.into_iter().map(|document| document["id"].as_str().unwrap().to_owned()).collect()
}

/// All ids, sorted, with a new reader for every page.
async fn read_all(container: &client::Container, options: ReadOptions) -> Vec<String> {
    let mut found = Vec::new();
    let mut options = options;
    loop {
        let mut documents = container.read_documents(options.clone()).unwrap();
        let Some(page) = soon(documents.next_page()).await.unwrap() else { break };
        found.extend(ids(page.parse().unwrap()));
        options.request_continuation = page.continuation;
        if options.request_continuation.is_none() {
            break;
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn documents_in_one_piece_and_by_range() {
    let home = Home::new();
    let container = home.container(3).await;
    fill(&container, "i", 40).await;
    let few = ReadOptions { max_item_count: Some(7), ..ReadOptions::default() };
    assert_eq!(read_all(&container, few.clone()).await, names("i", 40));
    let mut found = Vec::new();
    let ranges = container.partition_key_ranges().await.unwrap();
    assert_eq!(ranges.len(), 3);
    for range in ranges {
        let options = ReadOptions { partition_key_range_id: Some(range.id), ..few.clone() };
        found.extend(read_all(&container, options).await);
    }
    found.sort();
    assert_eq!(found, names("i", 40));
    let all = ReadOptions { feed_range: Some(FeedRange::full()), ..few.clone() };
    assert_eq!(read_all(&container, all).await, names("i", 40));
    let key = ReadOptions { partition_key: Some("key-3".into()), ..few };
    assert_eq!(read_all(&container, key).await, ["i3"]);
}

#[tokio::test]
async fn documents_through_a_split_and_a_merge() {
    let home = Home::new();
    let container = home.container(1).await;
    fill(&container, "i", 60).await;
    let options = ReadOptions {
        max_item_count: Some(9),
        partition_key_range_id: Some("0".into()),
        ..ReadOptions::default()
    };
    let mut documents = container.read_documents(options).unwrap();
    let mut found = Vec::new();
    let mut pages = 0;
    while let Some(page) = soon(documents.next_page()).await.unwrap() {
        found.extend(ids(page.parse().unwrap()));
        pages += 1;
        if pages == 2 {
            container.split_range("0").await.unwrap();
        }
        if pages == 5 {
            let ranges = container.partition_key_ranges().await.unwrap();
            let ids: Vec<&str> = ranges.iter().map(|range| range.id.as_str()).collect();
            container.merge_ranges(&ids).await.unwrap();
        }
    }
    found.sort();
    assert_eq!(found, names("i", 60));
}

#[tokio::test]
async fn queries_with_parameters() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "i", 30).await;
    let query = Query::new("SELECT * FROM c WHERE c.n = @n").with("@n", 17);
    let rows = container.query(query, QueryOptions::default()).unwrap();
    assert_eq!(ids(rows.collect(10).await.unwrap()), ["i17"]);
    let rows = container.query("SELECT * FROM c", QueryOptions::default()).unwrap();
    let too_many = rows.collect::<Value>(29).await.unwrap_err();
    assert_eq!(too_many.kind(), Kind::Setting);
    let key = QueryOptions { partition_key: Some("key-4".into()), ..QueryOptions::default() };
    let rows = container.query("SELECT * FROM c", key).unwrap();
    assert_eq!(ids(rows.collect(10).await.unwrap()), ["i4"]);
    let wrong =
        container.query("SELEC", QueryOptions::default()).unwrap().collect::<Value>(1).await;
    assert_eq!(wrong.unwrap_err().kind(), Kind::BadRequest);
}

/// What a gateway answers that does not put the results of several ranges together.
fn unservable(plan: Value) -> Fate {
    let body = json!({"code": "BadRequest", "message": "Cross partition query only supports",
        "additionalErrorInfo": plan.to_string()});
    Fate::Answer(400, vec![("x-ms-substatus", "1004".into())], body.to_string())
}

fn plan(member: &str, value: Value) -> Value {
    let mut info = json!({"distinctType": "None", "top": null, "orderBy": [], "aggregates": [], "rewrittenQuery": ""});
    info[member] = value;
    json!({"queryInfo": info, "queryRanges": []})
}

#[tokio::test]
async fn queries_by_range_where_the_server_wants_it() {
    let home = Home::new();
    fill(&home.container(3).await, "i", 30).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let container = client_of(&proxy.endpoint, Default::default()).container("d", "c");
    proxy.script(|head| {
        match head.is_item() && head.header("x-ms-documentdb-partitionkeyrangeid").is_none() {
            true => unservable(plan("top", Value::Null)),
            false => Fate::Pass,
        }
    });
    let options = QueryOptions { max_item_count: Some(4), ..QueryOptions::default() };
    let mut found = Vec::new();
    let mut continuation = None;
    loop {
        let options = QueryOptions { request_continuation: continuation, ..options.clone() };
        let mut rows = container.query("SELECT * FROM c", options).unwrap();
        let Some(page) = soon(rows.next_page()).await.unwrap() else { break };
        found.extend(ids(page.parse().unwrap()));
        continuation = page.continuation;
        if continuation.is_none() {
            break;
        }
    }
    found.sort();
    assert_eq!(found, names("i", 30));
}

#[tokio::test]
async fn queries_whose_results_would_have_to_be_merged_are_refused() {
    let home = Home::new();
    home.container(2).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let container = client_of(&proxy.endpoint, Default::default()).container("d", "c");
    for plan in [plan("orderBy", json!(["Ascending"])), plan("top", json!(5)), Value::Null] {
        proxy.fates(vec![unservable(plan)]);
        let mut rows = container.query("SELECT * FROM c", QueryOptions::default()).unwrap();
        let refused = rows.next_page().await.unwrap_err();
        assert_eq!((refused.kind(), refused.substatus()), (Kind::BadRequest, 1004));
    }
}
