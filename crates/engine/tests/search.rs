//! Words and vectors: the same rows in the same order by index and by scan, whatever happens to
//! items and partitions; and how many of the nearest an approximate index finds.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/account.rs"]
mod support;

use astrarium_engine::{
    Conditions, Container, CreateOptions, Kind, Link, Page, Query, QueryMetrics, Scope,
};
use model::partition_key::{Component, PartitionKey};
use serde_json::{Value, json};
use support::Account;

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    /// From -1 to 1.
    fn number(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
    }
}

fn link(container: &str) -> Link {
    Link(vec![(Kind::Database, "db".into()), (Kind::Container, container.into())])
}

fn policies(indexing: Value, dimensions: usize) -> Value {
    json!({
        "defaultTtl": -1,
        "indexingPolicy": indexing,
        "fullTextPolicy": {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text"}]},
        "vectorEmbeddingPolicy": {"vectorEmbeddings": [{"path": "/v", "dataType": "float32",
            "dimensions": dimensions, "distanceFunction": "cosine"}]},
    })
}

/// The container `c` has the indexes, `scanned` has none; both have the same items.
async fn account() -> Account {
    let indexes = json!({"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/v/*"}], "fullTextIndexes": [{"path": "/text"}],
        "vectorIndexes": [{"path": "/v", "type": "flat"}]});
    let account = Account::with(policies(indexes, 3)).await;
    let mut body = policies(json!({"indexingMode": "none", "automatic": false}), 3);
    // Nothing expires without an index, so the test deletes there what expires elsewhere.
    body.as_object_mut().unwrap().remove("defaultTtl");
    body["id"] = "scanned".into();
    body["partitionKey"] = json!({"paths": ["/pk"]});
    let database = Link(vec![(Kind::Database, "db".into())]);
    let (body, options) = (support::object(body), CreateOptions::default());
    account.engine.create(&database, Kind::Container, body, options).await.unwrap();
    account
}

fn key(id: usize) -> Option<PartitionKey> {
    Some(PartitionKey(vec![Component::String(format!("k{}", id % 5))]))
}

const WORDS: [&str; 7] = ["ship", "ships", "lake", "river", "the", "stone", "sea"];

fn some_item(dice: &mut Dice, id: usize) -> Value {
    let mut item = json!({"id": id.to_string(), "pk": format!("k{}", id % 5), "n": dice.below(10)});
    match dice.below(8) {
        0 => {}
        1 => item["text"] = json!(7),
        _ => {
            let words: Vec<&str> = (0..dice.below(9)).map(|_| WORDS[dice.below(7)]).collect();
            item["text"] = words.join(" ").into();
        }
    }
    match dice.below(8) {
        0 => {}
        1 => item["v"] = json!([1, 2]),
        _ => item["v"] = (0..3).map(|_| dice.number()).collect(),
    }
    item
}

/// Writes or deletes an item in both containers. Some go by themselves in the one and are deleted
/// in the other.
async fn write(account: &Account, dice: &mut Dice, id: usize) {
    let (mut item, fate) = (some_item(dice, id), dice.below(8));
    for name in ["c", "scanned"] {
        let container = account.engine.container("db", name).unwrap();
        let conditions = Conditions::default();
        if fate == 0 || (fate == 1 && name == "scanned") {
            let _ = container.delete_item(&id.to_string(), key(id), &conditions).await.unwrap();
            continue;
        }
        item["ttl"] = if fate == 1 { json!(1) } else { json!(-1) };
        let body = item.to_string().into();
        container.upsert_item(key(id), body, &conditions).await.unwrap().result.unwrap();
    }
}

async fn page(
    container: &Container,
    scope: &Scope,
    text: &str,
    items: usize,
    continuation: Option<String>,
) -> (Vec<String>, Option<String>, QueryMetrics) {
    let query = Query { scope, text, parameters: &[], functions: None };
    let page = Page { items: Some(items), continuation };
    let found = container.query_items(&query, &page, None).await.unwrap();
    let found = found.result.unwrap_or_else(|error| panic!("{text}: {error}"));
    let row = |row: &bytes::Bytes| String::from_utf8_lossy(row).into_owned();
    (found.rows.iter().map(row).collect(), found.continuation, found.metrics)
}

async fn rows(container: &Container, scope: &Scope, text: &str, items: usize) -> Vec<String> {
    let (mut rows, mut continuation) = (Vec::new(), None);
    loop {
        let (more, next, _) = page(container, scope, text, items, continuation).await;
        rows.extend(more);
        match next {
            Some(next) => continuation = Some(next),
            None => return rows,
        }
    }
}

fn some_query(dice: &mut Dice) -> String {
    let filter = match dice.below(6) {
        0 => "WHERE c.n < 5".to_owned(),
        1 => format!("WHERE c.n = {}", dice.below(10)),
        2 => format!("WHERE FULLTEXTCONTAINS(c.text, '{}')", WORDS[dice.below(7)]),
        3 => "WHERE c.pk IN ('k1', 'k3')".to_owned(),
        _ => String::new(),
    };
    let count = [1, 3, 10, 40, 200][dice.below(5)];
    let words = || format!("FullTextScore(c.text, '{}', '{}')", WORDS[2], WORDS[5]);
    let one = format!("FullTextScore(c.text, '{}')", WORDS[dice.below(7)]);
    let vector: Vec<String> = (0..3).map(|_| dice.number().to_string()).collect();
    let distance = format!("VectorDistance(c.v, [{}])", vector.join(", "));
    // As clients ask that rank themselves.
    let given = format!(
        "_FullTextScore(c.text, ['{}', '{} {}'], 90, 400, [30, 20]) DESC",
        WORDS[dice.below(7)],
        WORDS[2],
        WORDS[5]
    );
    let order = match dice.below(8) {
        6 | 7 => given,
        0 | 1 => format!("RANK {one}"),
        2 => format!("RANK {}", words()),
        3 => format!("RANK RRF({one}, {distance})"),
        _ => distance,
    };
    match dice.below(3) {
        0 => format!("SELECT VALUE c.id FROM c {filter} ORDER BY {order} OFFSET 2 LIMIT {count}"),
        _ => format!("SELECT TOP {count} VALUE c.id FROM c {filter} ORDER BY {order}"),
    }
}

#[tokio::test]
async fn the_best_are_the_same_by_index_and_by_scan() {
    for seed in 0..8 {
        let mut dice = Dice(seed * 31 + 7);
        let mut account = account().await;
        for round in 0..4 {
            for _ in 0..60 {
                let id = dice.below(120);
                write(&account, &mut dice, id).await;
            }
            account.pass(2_000);
            match round {
                1 => account.engine.split(&link("c"), "0").await.unwrap(),
                2 => account.restart().await,
                _ => {}
            }
            for _ in 0..30 {
                let text = some_query(&mut dice);
                let scope = match dice.below(4) {
                    0 => Scope::Key(key(dice.below(5)).unwrap()),
                    _ => Scope::Everything,
                };
                let scanned = account.engine.container("db", "scanned").unwrap();
                let expect = rows(&scanned, &scope, &text, 1_000).await;
                let items = [1_000, 1 + dice.below(7)][dice.below(2)];
                let got = rows(&account.container(), &scope, &text, items).await;
                assert_eq!(got, expect, "seed {seed}, round {round}: {text} in {scope:?}");
            }
        }
        account.housekeep().await;
        let faults = account.container().index_faults().await.unwrap();
        assert!(faults.is_empty(), "seed {seed}: {faults:?}");
    }
}

#[tokio::test]
async fn scores_of_words_read_the_best_items_alone() {
    let account = account().await;
    for id in 0..300 {
        let text =
            format!("{} {}", if id % 3 == 0 { "ship" } else { "lake" }, "sea ".repeat(id % 9));
        let item = json!({"id": id.to_string(), "pk": format!("k{}", id % 5), "text": text});
        let body = item.to_string().into();
        let container = account.container();
        let written = container.upsert_item(key(id), body, &Conditions::default()).await.unwrap();
        written.result.unwrap();
    }
    let text = "SELECT TOP 5 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.text, 'ships')";
    let (rows, _, metrics) = page(&account.container(), &Scope::Everything, text, 100, None).await;
    assert_eq!((rows.len(), metrics.documents, metrics.entries), (5, 5, 100), "{}", metrics.plan());
    assert_eq!(metrics.plan(), "best of the words of ship");
    let text = "SELECT TOP 3 VALUE c.id FROM c WHERE c.pk != 'k0' \
                ORDER BY _FullTextScore(c.text, ['ships'], 300, 1500, [100]) DESC";
    let (rows, _, metrics) = page(&account.container(), &Scope::Everything, text, 100, None).await;
    assert_eq!((rows.len(), metrics.entries), (3, 100), "{}", metrics.plan());
    assert!(metrics.plan().contains("best by a full-text index"), "{}", metrics.plan());
    assert!(metrics.documents < 100, "{} items read", metrics.documents);
}

#[tokio::test]
async fn a_filter_does_not_leave_too_few_neighbours() {
    let account = account().await;
    let mut dice = Dice(3);
    for id in 0..3_000 {
        let v: Value = (0..3).map(|_| dice.number()).collect();
        // What passes is far from what is asked for.
        let far = v[0].as_f64().unwrap() < -0.8;
        let item = json!({"id": id.to_string(), "pk": format!("k{}", id % 5), "v": v, "far": far});
        let body = item.to_string().into();
        let container = account.container();
        let written = container.upsert_item(key(id), body, &Conditions::default()).await.unwrap();
        written.result.unwrap();
    }
    // A condition that no index looks up, and one that an index finds many by.
    for filter in ["c.far ? true : false", "c.far = true", "c.far = false"] {
        let by = |brute: &str| {
            format!(
                "SELECT TOP 7 VALUE c.id FROM c WHERE {filter} \
                 ORDER BY VectorDistance(c.v, [1, 0, 0], {brute})"
            )
        };
        let exact = rows(&account.container(), &Scope::Everything, &by("true"), 100).await;
        let found = rows(&account.container(), &Scope::Everything, &by("false"), 100).await;
        assert_eq!((found.len(), &found), (7, &exact), "{filter}");
    }
}

/// How many vectors of how many numbers: `ASTRARIUM_VECTORS=20000x128` for the long run.
fn size() -> (usize, usize) {
    let text = std::env::var("ASTRARIUM_VECTORS").unwrap_or_else(|_| "11000x32".to_owned());
    let (count, dimensions) = text.split_once('x').expect("COUNTxDIMENSIONS");
    (count.parse().expect("a count"), dimensions.parse().expect("a number of dimensions"))
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Vectors in clumps, as embeddings are: of the ten nearest, nine are found, and a fraction of the
/// vectors is looked at.
#[tokio::test]
async fn recall_of_the_approximate_index() {
    let (count, dimensions) = size();
    let indexes = json!({"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/v/*"}],
        "vectorIndexes": [{"path": "/v", "type": "diskANN"}]});
    let account = Account::with(policies(indexes, dimensions)).await;
    let container = account.container();
    let mut dice = Dice(11);
    let mut around = |centre: &[f32], by: f32| -> Vec<f32> {
        centre.iter().map(|number| number + by * dice.number()).collect()
    };
    let clumps: Vec<Vec<f32>> = (0..100).map(|_| around(&vec![0.0; dimensions], 1.0)).collect();
    let all: Vec<Vec<f32>> = (0..count).map(|n| around(&clumps[n % 100], 0.5)).collect();
    for (id, vector) in all.iter().enumerate() {
        let item = json!({"id": id.to_string(), "pk": format!("k{}", id % 5), "v": vector});
        let body = item.to_string().into();
        let written = container.create_item(key(id), body, &Conditions::default()).await.unwrap();
        written.result.unwrap();
    }
    let (mut found, mut asked) = (0, 0);
    for n in 0..30 {
        let query = around(&clumps[n * 3], 0.5);
        let mut order: Vec<(f64, usize)> =
            all.iter().enumerate().map(|(id, one)| (cosine(&query, one), id)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let text = format!(
            "SELECT TOP 10 VALUE c.id FROM c ORDER BY VectorDistance(c.v, {})",
            json!(query)
        );
        let (rows, _, metrics) = page(&container, &Scope::Everything, &text, 100, None).await;
        assert!(metrics.plan().contains("nearest by a vector index"), "{}", metrics.plan());
        let nearest = order[..10].iter().map(|(_, id)| format!("\"{id}\""));
        found += nearest.filter(|id| rows.contains(id)).count();
        asked += 10;
    }
    println!("recall of {count} vectors of {dimensions}: {found} of {asked}");
    assert!(found * 10 >= asked * 9, "{found} of {asked}");
}
