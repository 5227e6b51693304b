//! Entries and documents against what the items themselves say.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use kv::Crashing;
use model::partition_key::{Component, PartitionKey};
use query::source::KeyRange;
use query::value::{Value as Sorted, sort_key_into};
use serde_json::{Map, Value, json};

use super::*;
use crate::{Conditions, CreateOptions, Engine, Env, Kind, Link, Options};

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object") };
    map
}

fn link(names: &[&str]) -> Link {
    let kinds = [Kind::Database, Kind::Container];
    Link(kinds.into_iter().zip(names.iter().map(|name| (*name).to_owned())).collect())
}

async fn engine(policy: Value) -> Arc<Engine> {
    let options = Options { housekeeping: None, ..Options::default() };
    let env = Env::new(|| 1_700_000_000_000, || 7);
    let engine = Engine::open(Arc::new(Crashing::auto()), env, options).await.unwrap();
    let none = CreateOptions::default();
    let database = object(json!({"id": "db"}));
    engine.create(&link(&[]), Kind::Database, database, none.clone()).await.unwrap();
    let mut body = object(json!({"id": "c", "partitionKey": {"paths": ["/pk"]}}));
    body.insert("indexingPolicy".into(), policy);
    engine.create(&link(&["db"]), Kind::Container, body, none).await.unwrap();
    engine
}

fn some_text(dice: &mut Dice) -> String {
    let base = "long text ".repeat(30);
    match dice.below(6) {
        0 => String::new(),
        1 => ["a", "b", "a\0", "é", "\u{10000}", "\u{FFFF}"][dice.below(6)].to_owned(),
        _ => format!("{}{}", &base[..250 + dice.below(12)], ["", "x", "y", "é"][dice.below(4)]),
    }
}

fn some_value(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2 | 3 => json!(dice.below(6)),
        4 => json!([1, dice.below(2)]),
        5 => json!({"x": dice.below(2)}),
        _ => json!(some_text(dice)),
    }
}

async fn fill(engine: &Engine, dice: &mut Dice, count: usize) {
    let container = engine.container("db", "c").unwrap();
    for id in 0..count {
        let pk = format!("k{}", dice.below(9));
        let mut body = object(json!({"id": id.to_string(), "pk": pk}));
        for name in ["a", "b"] {
            if dice.below(5) > 0 {
                body.insert(name.into(), some_value(dice));
            }
        }
        let list: Vec<Value> = (0..dice.below(4)).map(|_| some_value(dice)).collect();
        body.insert("l".into(), list.into());
        let key = Some(PartitionKey(vec![Component::String(pk)]));
        let body = Value::Object(body).to_string();
        let done = container.create_item(key, body.into(), &Conditions::default()).await;
        done.unwrap().result.unwrap();
    }
}

async fn all_documents(snapshot: &Snapshot<'_>, limit: usize) -> Vec<Document> {
    let mut documents: Vec<Document> = Vec::new();
    loop {
        let after = documents.last().map(|document| document.key.clone());
        let chunk = snapshot.documents(after.as_deref(), limit).await.unwrap();
        assert!(chunk.rows.len() <= limit && (!chunk.more || !chunk.rows.is_empty()));
        documents.extend(chunk.rows);
        if !chunk.more {
            return documents;
        }
    }
}

async fn all_entries(snapshot: &Snapshot<'_>, scan: &Scan, limit: usize) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let chunk = snapshot.scan(scan, entries.last(), limit).await.unwrap();
        assert!(chunk.rows.len() <= limit && (!chunk.more || !chunk.rows.is_empty()));
        entries.extend(chunk.rows);
        if !chunk.more {
            return entries;
        }
    }
}

fn sort_key(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    sort_key_into(&Sorted::from_tree(value), &mut key);
    key
}

/// What the contract of range indexes asks for.
fn expected(documents: &[Document], path: &IndexPath, range: &KeyRange) -> BTreeSet<Entry> {
    let mut entries = BTreeSet::new();
    for document in documents {
        let body: Value = serde_json::from_slice(&document.body).unwrap();
        let mut values = vec![body];
        for step in &path.0 {
            values = values
                .iter()
                .flat_map(|value| match step {
                    PathStep::Member(name) => value.get(name).into_iter().cloned().collect(),
                    PathStep::Elements => value.as_array().cloned().unwrap_or_default(),
                })
                .collect();
        }
        let keys = values.iter().map(sort_key).filter(|key| range.contains(key));
        entries.extend(keys.map(|key| Entry { value: key.into(), item: document.key.clone() }));
    }
    entries
}

fn some_range(dice: &mut Dice) -> KeyRange {
    let bound = |dice: &mut Dice| {
        let key = Bytes::from(sort_key(&some_value(dice)));
        match dice.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    };
    match dice.below(3) {
        0 => KeyRange::exactly(sort_key(&some_value(dice))),
        1 => {
            let key = sort_key(&json!(some_text(dice)));
            KeyRange::beginning(key[..key.len() - 2].to_vec())
        }
        _ => KeyRange { from: bound(dice), to: bound(dice) },
    }
}

fn paths() -> [IndexPath; 3] {
    let list = IndexPath::members(&["l"]);
    [IndexPath::members(&["a"]), list.then(PathStep::Elements), list]
}

#[tokio::test]
async fn entries_are_the_values_of_items_in_order() {
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let engine = engine(json!({})).await;
        fill(&engine, &mut dice, 80).await;
        for _ in 0..seed {
            let ranges = engine.container("db", "c").unwrap().ranges().ranges;
            engine.split(&link(&["db", "c"]), &ranges[0].id).await.unwrap();
        }
        let container = engine.container("db", "c").unwrap();
        let key = PartitionKey(vec![Component::String("k3".into())]);
        for scope in [Scope::Everything, Scope::Key(key)] {
            let snapshot =
                Snapshot::take(&container, &scope, &[EpkRange::full()], None).await.unwrap();
            let documents = all_documents(&snapshot, 7).await;
            for _ in 0..120 {
                let (path, range) = (paths()[dice.below(3)].clone(), some_range(&mut dice));
                let reverse = dice.below(2) == 0;
                assert!(snapshot.covers(&path));
                let mut expect: Vec<Entry> =
                    expected(&documents, &path, &range).into_iter().collect();
                if reverse {
                    expect.reverse();
                }
                let scan = Scan::Range { path, range, reverse };
                let found = all_entries(&snapshot, &scan, 1 + dice.below(20)).await;
                assert_eq!(found, expect, "seed {seed}, {scan:?}");
                let count = snapshot.count(&scan).await.unwrap();
                assert!(count.is_none_or(|count| count == expect.len() as u64), "{scan:?}");
                let estimate = snapshot.estimate(&scan).await.unwrap();
                assert!(scope != Scope::Everything || estimate >= expect.len() as u64);
            }
        }
    }
}

#[tokio::test]
async fn composite_entries_have_every_item() {
    let mut dice = Dice(5);
    let paths = json!([[{"path": "/a"}, {"path": "/b", "order": "descending"}]]);
    let engine = engine(json!({"compositeIndexes": paths})).await;
    fill(&engine, &mut dice, 90).await;
    engine.split(&link(&["db", "c"]), "0").await.unwrap();
    let container = engine.container("db", "c").unwrap();
    let snapshot =
        Snapshot::take(&container, &Scope::Everything, &[EpkRange::full()], None).await.unwrap();
    assert_eq!(snapshot.composites().len(), 1);
    let mut expect: Vec<Entry> = all_documents(&snapshot, 50)
        .await
        .into_iter()
        .map(|document| {
            let body: Value = serde_json::from_slice(&document.body).unwrap();
            let key = |name: &str| {
                let mut key = Vec::new();
                let value = body.get(name).map_or(Sorted::Undefined, Sorted::from_tree);
                sort_key_into(&value, &mut key);
                key
            };
            let descending: Vec<u8> = key("b").iter().map(|byte| !byte).collect();
            Entry { value: [key("a"), descending].concat().into(), item: document.key }
        })
        .collect();
    expect.sort();
    for reverse in [false, true] {
        let columns = snapshot.composites()[0].clone();
        let scan = Scan::Composite { columns: columns.clone(), range: KeyRange::ALL, reverse };
        assert_eq!(all_entries(&snapshot, &scan, 11).await, expect);
        let prefix = KeyRange::beginning(sort_key(&json!(3)));
        let within: Vec<Entry> =
            expect.iter().filter(|entry| prefix.contains(&entry.value)).cloned().collect();
        let scan = Scan::Composite { columns, range: prefix, reverse };
        assert_eq!(all_entries(&snapshot, &scan, 2).await, within);
        expect.reverse();
    }
}

#[tokio::test]
async fn an_index_counts_once_it_is_built() {
    let engine = engine(json!({"excludedPaths": [{"path": "/*"}]})).await;
    fill(&engine, &mut Dice(1), 30).await;
    let container = engine.container("db", "c").unwrap();
    let path = IndexPath::members(&["a"]);
    let covers = async || {
        Snapshot::take(&container, &Scope::Everything, &[EpkRange::full()], None)
            .await
            .unwrap()
            .covers(&path)
    };
    assert!(!covers().await);
    let mut body = object(json!({"id": "c", "partitionKey": {"paths": ["/pk"]}}));
    body.insert("indexingPolicy".into(), json!({}));
    engine.replace(&link(&["db", "c"]), body, crate::ReplaceOptions::default()).await.unwrap();
    assert!(!covers().await);
    while engine.housekeep().await {}
    assert!(covers().await);
}

#[tokio::test]
async fn a_path_is_complete_while_no_item_lacks_it() {
    let engine = engine(json!({})).await;
    let container = engine.container("db", "c").unwrap();
    let put = async |id: &str, rest: Value| {
        let mut body = object(json!({"id": id, "pk": id}));
        body.extend(object(rest));
        let key = Some(PartitionKey(vec![Component::String(id.into())]));
        let body = Value::Object(body).to_string();
        let done = container.upsert_item(key, body.into(), &Conditions::default()).await;
        done.unwrap().result.unwrap();
    };
    let complete = async || {
        let snapshot = Snapshot::take(&container, &Scope::Everything, &[EpkRange::full()], None)
            .await
            .unwrap();
        snapshot.complete(&IndexPath::members(&["a"])).await.unwrap()
    };
    for id in 0..20 {
        put(&id.to_string(), json!({"a": id})).await;
    }
    let before =
        Snapshot::take(&container, &Scope::Everything, &[EpkRange::full()], None).await.unwrap();
    assert!(complete().await);
    put("3", json!({"a": [1]})).await;
    assert!(complete().await);
    put("3", json!({})).await;
    assert!(!complete().await);
    put("20", json!({"a": null})).await;
    assert!(!complete().await);
    put("3", json!({"a": "x"})).await;
    assert!(complete().await);
    // What it was in a state that is past is known still.
    assert!(before.complete(&IndexPath::members(&["a"])).await.unwrap());
    engine.split(&link(&["db", "c"]), "0").await.unwrap();
    assert!(complete().await);
}

async fn with_policies(policies: Value) -> Arc<Engine> {
    let engine = engine(json!({})).await;
    let mut body = object(json!({"id": "v", "partitionKey": {"paths": ["/pk"]}}));
    body.extend(object(policies));
    let options = CreateOptions::default();
    engine.create(&link(&["db"]), Kind::Container, body, options).await.unwrap();
    engine
}

async fn put_in(container: &Container, id: usize, rest: Value) {
    let pk = format!("k{}", id % 5);
    let mut body = object(json!({"id": id.to_string(), "pk": pk}));
    body.extend(object(rest));
    let key = Some(PartitionKey(vec![Component::String(pk)]));
    let body = Value::Object(body).to_string();
    let done = container.upsert_item(key, body.into(), &Conditions::default()).await;
    done.unwrap().result.unwrap();
}

#[tokio::test]
async fn every_place_in_a_box_is_found_once() {
    let engine = with_policies(json!({"indexingPolicy": {
        "spatialIndexes": [{"path": "/where/*", "types": ["Point", "Polygon"]}],
    }}))
    .await;
    let container = engine.container("db", "v").unwrap();
    let mut dice = Dice(3);
    let mut places = Vec::new();
    for id in 0..120 {
        let (x, y) = (dice.below(360) as f64 - 180.0, dice.below(180) as f64 - 90.0);
        let size = [0.0, 0.5, 20.0][dice.below(3)];
        let (east, north) = ((x + size).min(180.0), (y + size).min(90.0));
        let place = match size > 0.0 {
            true => json!({"type": "Polygon",
                "coordinates": [[[x, y], [east, y], [east, north], [x, north], [x, y]]]}),
            false => json!({"type": "Point", "coordinates": [x, y]}),
        };
        put_in(&container, id, json!({"where": place})).await;
        places.push((x, y, east, north));
    }
    engine.split(&link(&["db", "v"]), "0").await.unwrap();
    let snapshot =
        Snapshot::take(&container, &Scope::Everything, &[EpkRange::full()], None).await.unwrap();
    let path = IndexPath::members(&["where"]);
    assert!(
        snapshot.covers_spatial(&path) && !snapshot.covers_spatial(&IndexPath::members(&["a"]))
    );
    for _ in 0..40 {
        let (west, south) = (dice.below(340) as f64 - 180.0, dice.below(160) as f64 - 90.0);
        let (east, north) = (west + dice.below(40) as f64, south + dice.below(40) as f64);
        let bounds = query::source::Bounds { west, south, east, north };
        let scan = Scan::Spatial { path: path.clone(), bounds };
        let found = all_entries(&snapshot, &scan, 1 + dice.below(9)).await;
        let items: BTreeSet<Bytes> = found.iter().map(|entry| entry.item.clone()).collect();
        assert_eq!(items.len(), found.len(), "each item once");
        let bodies = snapshot.fetch(&items.into_iter().collect::<Vec<_>>()).await.unwrap();
        let ids: BTreeSet<usize> = bodies
            .iter()
            .map(|body| serde_json::from_slice::<Value>(body.as_ref().unwrap()).unwrap())
            .map(|body| body["id"].as_str().unwrap().parse().unwrap())
            .collect();
        for (id, place) in places.iter().enumerate() {
            let touches =
                place.0 <= east && place.2 >= west && place.1 <= north && place.3 >= south;
            assert!(!touches || ids.contains(&id), "{place:?} in {bounds:?}");
        }
    }
    assert!(container.index_faults().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_nearest_vectors_come_first() {
    for kind in ["flat", "quantizedFlat", "diskANN"] {
        let engine = with_policies(json!({
            "indexingPolicy": {"vectorIndexes": [{"path": "/v", "type": kind}],
                "excludedPaths": [{"path": "/v/*"}], "includedPaths": [{"path": "/*"}]},
            "vectorEmbeddingPolicy": {"vectorEmbeddings": [
                {"path": "/v", "dataType": "float32", "dimensions": 8, "distanceFunction": "euclidean"}]},
        }))
        .await;
        let container = engine.container("db", "v").unwrap();
        let mut dice = Dice(11);
        let mut vectors: Vec<(usize, Vec<f64>)> = Vec::new();
        for id in 0..150 {
            let vector: Vec<f64> = (0..8).map(|_| dice.below(2000) as f64 / 1000.0 - 1.0).collect();
            put_in(&container, id, json!({"v": vector})).await;
            vectors.push((id, vector));
        }
        put_in(&container, 1000, json!({"v": [1, 2]})).await;
        engine.split(&link(&["db", "v"]), "0").await.unwrap();
        let snapshot = Snapshot::take(&container, &Scope::Everything, &[EpkRange::full()], None)
            .await
            .unwrap();
        let query = vectors[7].1.clone();
        let path = IndexPath::members(&["v"]);
        let keys = snapshot.nearest(&path, &query, 10).await.unwrap().unwrap();
        assert!(keys.len() >= 10);
        let bodies = snapshot.fetch(&keys).await.unwrap();
        let found: Vec<usize> = bodies
            .iter()
            .map(|body| serde_json::from_slice::<Value>(body.as_ref().unwrap()).unwrap())
            .map(|body| body["id"].as_str().unwrap().parse().unwrap())
            .collect();
        let far =
            |vector: &[f64]| vector.iter().zip(&query).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        vectors.sort_by(|a, b| far(&a.1).total_cmp(&far(&b.1)));
        let nearest: Vec<usize> = vectors.iter().take(10).map(|(id, _)| *id).collect();
        assert_eq!(found[0], 7, "{kind}");
        assert!(nearest.iter().all(|id| found.contains(id)), "{kind}: {nearest:?} in {found:?}");
        assert!(container.index_faults().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_word_is_found_in_every_text_that_has_it() {
    let engine = with_policies(json!({
        "indexingPolicy": {"fullTextIndexes": [{"path": "/t"}]},
        "fullTextPolicy": {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/t"}]},
    }))
    .await;
    let container = engine.container("db", "v").unwrap();
    let mut dice = Dice(2);
    let words = ["river", "lake", "running", "stone", "été"];
    let mut texts = Vec::new();
    for id in 0..60 {
        let text: Vec<&str> = (0..dice.below(4)).map(|_| words[dice.below(5)]).collect();
        put_in(&container, id, json!({"t": text.join(", ")})).await;
        texts.push(text.join(", "));
    }
    put_in(&container, 7, json!({"t": 5})).await;
    texts[7] = String::new();
    engine.split(&link(&["db", "v"]), "0").await.unwrap();
    let path = IndexPath::members(&["t"]);
    let key = PartitionKey(vec![Component::String("k3".into())]);
    for scope in [Scope::Everything, Scope::Key(key)] {
        let ranges = [EpkRange::full()];
        let snapshot = Snapshot::take(&container, &scope, &ranges, None).await.unwrap();
        assert!(snapshot.covers_text(&path));
        for (word, written) in [("river", "river"), ("run", "running"), ("sea", "sea")] {
            let scan = Scan::Word { path: path.clone(), word: word.to_owned() };
            let found = all_entries(&snapshot, &scan, 1 + dice.below(5)).await;
            assert!(found.is_sorted());
            let mine = |id: &usize| scope == Scope::Everything || id % 5 == 3;
            let expect = (0..60).filter(mine).filter(|id| texts[*id].contains(written)).count();
            assert_eq!(found.len(), expect, "{word} in {scope:?}");
            assert_eq!(snapshot.estimate(&scan).await.unwrap(), expect as u64);
        }
    }
    assert!(container.index_faults().await.unwrap().is_empty());
}

async fn whole_heap(snapshot: &Snapshot<'_>, limit: usize) -> Vec<Document> {
    let (mut documents, mut from) = (Vec::new(), None);
    loop {
        let heap = snapshot.heap(from.as_ref(), limit).await.unwrap();
        assert!(heap.rows.len() <= limit);
        documents.extend(heap.rows);
        match heap.next {
            Some(next) => from = Some(next),
            None => return documents,
        }
    }
}

#[tokio::test]
async fn the_heap_has_every_document_once() {
    for seed in 0..3 {
        let mut dice = Dice(seed + 50);
        let engine = engine(json!({})).await;
        fill(&engine, &mut dice, 60).await;
        for _ in 0..seed {
            let ranges = engine.container("db", "c").unwrap().ranges().ranges;
            engine.split(&link(&["db", "c"]), &ranges[0].id).await.unwrap();
        }
        let container = engine.container("db", "c").unwrap();
        let key = |name: &str| PartitionKey(vec![Component::String(name.into())]);
        for id in 0..20 {
            let body = json!({"id": (id % 7).to_string(), "pk": "k4", "n": id}).to_string();
            let conditions = Conditions::default();
            let done = container.upsert_item(Some(key("k4")), body.into(), &conditions).await;
            done.unwrap().result.unwrap();
        }
        container.delete_key(Some(key("k3"))).await.unwrap().result.unwrap();
        for scope in [Scope::Everything, Scope::Key(key("k3")), Scope::Key(key("k4"))] {
            let snapshot =
                Snapshot::take(&container, &scope, &[EpkRange::full()], None).await.unwrap();
            let documents = all_documents(&snapshot, 7).await;
            assert_eq!(documents.is_empty(), scope == Scope::Key(key("k3")));
            let mut found = whole_heap(&snapshot, 1 + dice.below(20)).await;
            found.sort_by(|a, b| a.key.cmp(&b.key));
            assert_eq!(found, documents, "seed {seed}, {scope:?}");
        }
    }
}

#[tokio::test]
async fn of_large_bodies_only_some_come_at_once() {
    let engine = engine(json!({})).await;
    let container = engine.container("db", "c").unwrap();
    for id in 0..6 {
        let body = json!({"id": id.to_string(), "pk": "k", "text": "x".repeat(1_500_000)});
        let key = Some(PartitionKey(vec![Component::String("k".into())]));
        let body = body.to_string().into();
        let done = container.create_item(key, body, &Conditions::default()).await;
        done.unwrap().result.unwrap();
    }
    let snapshot =
        Snapshot::take(&container, &Scope::Everything, &[EpkRange::full()], None).await.unwrap();
    let documents = all_documents(&snapshot, 1).await;
    let keys: Vec<Bytes> = documents.iter().map(|document| document.key.clone()).collect();
    let mut found = Vec::new();
    while found.len() < keys.len() {
        let bodies = snapshot.fetch(&keys[found.len()..]).await.unwrap();
        let bytes: usize = bodies.iter().flatten().map(Bytes::len).sum();
        assert!(!bodies.is_empty() && (bytes <= CHUNK_BYTES || bodies.len() == 1));
        found.extend(bodies);
    }
    let expect: Vec<Option<Bytes>> =
        documents.iter().map(|document| Some(document.body.clone())).collect();
    assert_eq!(found, expect);
}

async fn put_version(container: &Container, n: u64) {
    let key = Some(PartitionKey(vec![Component::String("k".into())]));
    let body = json!({"id": "1", "pk": "k", "n": n}).to_string().into();
    let done = container.upsert_item(key, body, &Conditions::default()).await;
    done.unwrap().result.unwrap();
}

#[tokio::test]
async fn a_guess_is_taken_only_for_the_version_that_a_view_has() {
    let engine = engine(json!({})).await;
    let container = engine.container("db", "c").unwrap();
    let mut views: Vec<(Snapshot<'_>, Option<u64>)> = Vec::new();
    let mut item = Bytes::new();
    for n in 0..6 {
        let there = n % 3 < 2;
        if there {
            put_version(&container, n).await;
        } else {
            let key = Some(PartitionKey(vec![Component::String("k".into())]));
            let done = container.delete_item("1", key, &Conditions::default()).await;
            done.unwrap().result.unwrap();
        }
        let full = [EpkRange::full()];
        let view = Snapshot::take(&container, &Scope::Everything, &full, None).await.unwrap();
        if let Some(document) = all_documents(&view, 1).await.pop() {
            item = document.key;
        }
        views.push((view, there.then_some(n)));
        // Whatever was learned from one view is wrong in the others, and does no harm there.
        for (view, expect) in views.iter().chain(views.iter().rev()) {
            let found = view.fetch(std::slice::from_ref(&item)).await.unwrap().pop().flatten();
            let version = found.map(|body| {
                let body: Value = serde_json::from_slice(&body).unwrap();
                body["n"].as_u64().unwrap()
            });
            assert_eq!(version, *expect, "after write {n}");
        }
    }
}
