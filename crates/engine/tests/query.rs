//! The same query gives the same rows by index and by scan, on one page and on many, whatever
//! happens to partitions and process between two pages.

#![allow(clippy::unwrap_used)] // A test that fails to unwrap has failed.

#[path = "support/account.rs"]
mod support;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use astrarium_engine::{Conditions, Container, CreateOptions, Kind, Link, Page, Query, Scope};
use model::partition_key::{Component, PartitionKey};
use query::value;
use serde_json::{Value, json};
use support::Account;

/// Entries that queries have read from indexes.
static ENTRIES: AtomicU64 = AtomicU64::new(0);

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

fn link(container: &str) -> Link {
    Link(vec![(Kind::Database, "db".into()), (Kind::Container, container.into())])
}

/// The container `c` has all indexes, `scanned` has none; both have the same items.
async fn account() -> Account {
    let account = Account::with(json!({"indexingPolicy": {"compositeIndexes": [
        [{"path": "/a"}, {"path": "/b", "order": "descending"}],
    ]}}))
    .await;
    let body = json!({"id": "scanned", "partitionKey": {"paths": ["/pk"]},
        "indexingPolicy": {"indexingMode": "none", "automatic": false}});
    let database = Link(vec![(Kind::Database, "db".into())]);
    let options = CreateOptions::default();
    let body = support::object(body);
    account.engine.create(&database, Kind::Container, body, options).await.unwrap();
    account
}

fn some_scalar(dice: &mut Dice) -> Value {
    match dice.below(9) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2..5 => json!(dice.below(5)),
        5 => json!(dice.below(40) as f64 / 8.0 - 2.0),
        6 => json!(format!("{}{}", "long ".repeat(60), dice.below(4))),
        _ => json!(dice.of(&["", "a", "ab", "abc", "b", "é", "Z"])),
    }
}

fn some_item(dice: &mut Dice, id: usize) -> Value {
    let mut item = json!({"id": id.to_string(), "pk": format!("k{}", id % 7), "n": id});
    for name in ["a", "b"] {
        match dice.below(6) {
            0 => {}
            1 => item[name] = json!([some_scalar(dice)]),
            _ => item[name] = some_scalar(dice),
        }
    }
    item["l"] = (0..dice.below(4)).map(|_| some_scalar(dice)).collect();
    if dice.below(3) > 0 {
        item["o"] =
            json!({"x": some_scalar(dice), "t": [{"k": dice.below(3), "v": some_scalar(dice)}]});
    }
    item
}

async fn write(account: &Account, dice: &mut Dice, id: usize) {
    let item = some_item(dice, id);
    let key = || Some(PartitionKey(vec![Component::String(format!("k{}", id % 7))]));
    let gone = dice.below(6) == 0;
    for name in ["c", "scanned"] {
        let container = account.engine.container("db", name).unwrap();
        let conditions = Conditions::default();
        if gone {
            let _ = container.delete_item(&id.to_string(), key(), &conditions).await.unwrap();
        } else {
            let body = item.to_string().into();
            container.upsert_item(key(), body, &conditions).await.unwrap().result.unwrap();
        }
    }
}

fn some_predicate(dice: &mut Dice, depth: usize) -> String {
    let path = dice.of(&["c.a", "c.b", "c.o.x", "c.n", "c.l", "c.missing", "c.l[0]"]);
    let value = some_scalar(dice);
    if depth > 0 && dice.below(3) == 0 {
        let (a, b) = (some_predicate(dice, depth - 1), some_predicate(dice, depth - 1));
        return match dice.below(4) {
            0 => format!("({a} AND {b})"),
            1 => format!("({a} OR {b})"),
            2 => format!("({a} AND {b} AND c.n < {})", dice.below(80)),
            _ => format!("NOT ({a})"),
        };
    }
    match dice.below(15) {
        0..3 => format!("{path} = {value}"),
        3 => format!("{path} {} {value}", dice.of(&["<", "<=", ">", ">="])),
        4 => format!("{path} != {value}"),
        5 => format!("{path} IN ({value}, {}, {})", some_scalar(dice), some_scalar(dice)),
        6 => format!("{path} BETWEEN {value} AND {}", some_scalar(dice)),
        7 => format!("IS_DEFINED({path})"),
        8 => format!("{path} LIKE '{}%'", dice.of(&["a", "long", "", "z"])),
        9 => format!("ARRAY_CONTAINS(c.l, {value})"),
        10 => format!("EXISTS(SELECT VALUE t FROM t IN c.o.t WHERE t.k = {})", dice.below(3)),
        11 => format!("c.pk = 'k{}'", dice.below(8)),
        12 => format!("IS_{}({path})", dice.of(&["NUMBER", "STRING", "NULL", "BOOL", "ARRAY"])),
        13 => format!("c.n >= {} AND c.n < {}", dice.below(60), dice.below(80)),
        _ => format!("c.o.t[0].v = {value}"),
    }
}

/// A query, and by which members its rows must be in order, descending or not.
struct Asked {
    text: String,
    order: Vec<(&'static str, bool)>,
}

fn some_query(dice: &mut Dice) -> Asked {
    let filter = match dice.below(5) {
        0 => String::new(),
        _ => format!(" WHERE {}", some_predicate(dice, 2)),
    };
    let (text, order) = match dice.below(9) {
        0 => (format!("SELECT VALUE COUNT(1) FROM c{filter}"), vec![]),
        1 => (
            format!("SELECT c.a, COUNT(1) AS n, MAX(c.n) AS m FROM c{filter} GROUP BY c.a"),
            vec![],
        ),
        2 => (format!("SELECT DISTINCT VALUE c.a FROM c{filter}"), vec![]),
        3 => (format!("SELECT c.id, v FROM c JOIN v IN c.l{filter}"), vec![]),
        4 => (format!("SELECT MIN(c.n) AS a, MAX(c.n) AS b, SUM(c.n) AS s FROM c{filter}"), vec![]),
        5 => (format!("SELECT c.id, c.a FROM c{filter} ORDER BY c.a"), vec![("a", false)]),
        6 => (format!("SELECT c.id, c.a FROM c{filter} ORDER BY c.a DESC"), vec![("a", true)]),
        7 => (
            format!("SELECT c.id, c.a, c.b FROM c{filter} ORDER BY c.a ASC, c.b DESC"),
            vec![("a", false), ("b", true)],
        ),
        _ => (format!("SELECT * FROM c{filter}"), vec![]),
    };
    Asked { text, order }
}

async fn page(
    container: &Container,
    scope: &Scope,
    text: &str,
    items: usize,
    continuation: Option<String>,
) -> (Vec<String>, Option<String>) {
    let query = Query { scope, text, parameters: &[], functions: None };
    let page = Page { items: Some(items), continuation };
    let answer = container.query_items(&query, &page, None).await.unwrap();
    let found = answer.result.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(found.rows.len() <= items);
    ENTRIES.fetch_add(found.metrics.entries, Relaxed);
    let rows = found.rows.iter().map(|row| without_system(row)).collect();
    (rows, found.continuation)
}

/// Rows of both containers differ in what the server adds to items.
fn without_system(row: &[u8]) -> String {
    let mut row: Value = serde_json::from_slice(row).unwrap();
    if let Some(item) = row.as_object_mut() {
        item.retain(|name, _| !name.starts_with('_'));
    }
    row.to_string()
}

/// What may happen between two pages.
async fn disturb(account: &mut Account, dice: &mut Dice) {
    match dice.below(12) {
        0 => account.restart().await,
        1 => {
            let ranges = account.container().ranges().ranges;
            let range = dice.of(&ranges).id.to_string();
            // A range of one key is not split.
            let _ = account.engine.split(&link("c"), &range).await;
        }
        2 => {
            let ranges = account.container().ranges().ranges;
            if let [first, second, ..] = &ranges[..] {
                account.engine.merge(&link("c"), &[&first.id, &second.id]).await.unwrap();
            }
        }
        _ => {}
    }
}

async fn all_pages(
    account: &mut Account,
    dice: &mut Dice,
    scope: &Scope,
    text: &str,
) -> Vec<String> {
    let (mut rows, mut continuation) = (Vec::new(), None);
    loop {
        let items = 1 + dice.below(12);
        let (more, next) = page(&account.container(), scope, text, items, continuation).await;
        rows.extend(more);
        match next {
            Some(next) => continuation = Some(next),
            None => return rows,
        }
        disturb(account, dice).await;
    }
}

/// Whether rows are in the order of some members.
fn in_order(rows: &[String], order: &[(&str, bool)]) -> bool {
    let rows: Vec<Value> = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    let key = |row: &Value, name: &str| match row.get(name) {
        Some(found) => value::Value::from_tree(found),
        None => value::Value::Undefined,
    };
    rows.is_sorted_by(|a, b| {
        let orders = order.iter().map(|(name, descending)| {
            let found = value::compare(&key(a, name), &key(b, name));
            if *descending { found.reverse() } else { found }
        });
        orders.fold(Ordering::Equal, Ordering::then) != Ordering::Greater
    })
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

#[tokio::test]
async fn rows_are_the_same_by_index_and_by_scan() {
    for seed in 0..6 {
        let mut dice = Dice(seed * 77 + 1);
        let mut account = account().await;
        for round in 0..5 {
            for _ in 0..40 {
                let id = dice.below(90);
                write(&account, &mut dice, id).await;
            }
            for _ in 0..40 {
                let Asked { text, order } = some_query(&mut dice);
                let scope = match dice.below(4) {
                    0 => Scope::Key(PartitionKey(vec![Component::String(format!(
                        "k{}",
                        dice.below(7)
                    ))])),
                    _ => Scope::Everything,
                };
                let rows = all_pages(&mut account, &mut dice, &scope, &text).await;
                let context = format!("seed {seed}, round {round}: {text} in {scope:?}");
                assert!(in_order(&rows, &order), "{context}: {rows:?}");
                // Without an index no order is served; the rows are the same in any.
                let plain = text.split(" ORDER BY ").next().unwrap();
                let scanned = account.engine.container("db", "scanned").unwrap();
                let (expect, more) = page(&scanned, &scope, plain, 1000, None).await;
                assert_eq!(more, None);
                assert_eq!(sorted(rows), sorted(expect), "{context}");
            }
        }
        let faults = account.container().index_faults().await.unwrap();
        assert!(faults.is_empty(), "seed {seed}: {faults:?}");
    }
    assert!(ENTRIES.load(Relaxed) > 1_000, "indexes have been read");
}

/// The groups by their keys, as a query counts them; and how many items it read for it.
async fn counted_groups(account: &Account) -> (BTreeMap<String, u64>, u64) {
    let text = "SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g";
    let query = Query { scope: &Scope::Everything, text, parameters: &[], functions: None };
    let page = Page { items: Some(1000), continuation: None };
    let answer = account.container().query_items(&query, &page, None).await.unwrap();
    let found = answer.result.unwrap();
    assert_eq!(found.continuation, None);
    let group = |row: &bytes::Bytes| {
        let row: Value = serde_json::from_slice(row).unwrap();
        (row["g"].to_string(), row["n"].as_u64().unwrap())
    };
    (found.rows.iter().map(group).collect(), found.metrics.documents)
}

/// Pieces of an index are counted by tasks of their own, and put together nothing is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn groups_of_many_items_are_counted_in_pieces() {
    let account = account().await;
    let group = |n: usize| match n % 25 {
        0 => Value::Null,
        1 => json!(true),
        2 => json!([1]),
        3..9 => json!(n % 3),
        _ => json!(format!("group {}", n * n % 19)),
    };
    let write = async |n: usize, group: Value| {
        let key = format!("k{}", n % 7);
        let item = json!({"id": n.to_string(), "pk": key, "g": group}).to_string();
        let key = Some(PartitionKey(vec![Component::String(key)]));
        let container = account.container();
        let conditions = Conditions::default();
        container.upsert_item(key, item.into(), &conditions).await.unwrap().result.unwrap();
    };
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for n in 0..7_000 {
        write(n, group(n)).await;
        *expected.entry(group(n).to_string()).or_default() += 1;
    }
    let (groups, documents) = counted_groups(&account).await;
    assert_eq!(groups, expected);
    assert_eq!(documents, expected.len() as u64, "one item tells how a value is spelled");
    // Over several partitions.
    let range = account.container().ranges().ranges[0].id.to_string();
    account.engine.split(&link("c"), &range).await.unwrap();
    assert_eq!(counted_groups(&account).await.0, expected);
    // A long text stands in the index with its beginning only.
    let long = json!("long ".repeat(400));
    write(7_000, long.clone()).await;
    expected.insert(long.to_string(), 1);
    assert_eq!(counted_groups(&account).await.0, expected);
    // Values that have few items each.
    for n in 0..6_000 {
        write(n, json!(n)).await;
        *expected.get_mut(&group(n).to_string()).unwrap() -= 1;
        *expected.entry(n.to_string()).or_default() += 1;
    }
    expected.retain(|_, count| *count > 0);
    let text = "SELECT VALUE COUNT(1) FROM (SELECT c.g FROM c GROUP BY c.g)";
    let (rows, _) = page(&account.container(), &Scope::Everything, text, 10, None).await;
    assert_eq!(rows, [expected.len().to_string()]);
}

/// Items that are too large to be read all at once are read one after the other, and none is left out.
#[tokio::test]
async fn large_items_are_all_found() {
    const LARGE: usize = 30;
    let account = account().await;
    let write = async |item: Value| {
        let key = Some(PartitionKey(vec![Component::String("a".into())]));
        let container = account.container();
        let conditions = Conditions::default();
        let written = container.upsert_item(key, item.to_string().into(), &conditions).await;
        written.unwrap().result.unwrap();
    };
    for n in 0..LARGE {
        let item = json!({"id": format!("large {n}"), "pk": "a", "kind": "large", "n": n, "one": 1,
            "group": n % 3, "tags": ["t"], "text": "x".repeat(400_000)});
        write(item).await;
        for small in 0..10 {
            let id = format!("small {n} {small}");
            write(json!({"id": id, "pk": "a", "kind": "small", "n": 1_000 + n})).await;
        }
    }
    let sum = (0..LARGE).sum::<usize>().to_string();
    let each: Vec<String> = (0..LARGE).map(|n| n.to_string()).collect();
    let cases: [(&str, &[String]); 10] = [
        ("SELECT VALUE c.n FROM c WHERE c.kind = 'large'", &each),
        ("SELECT VALUE c.n FROM c WHERE c.n < 30", &each),
        ("SELECT VALUE c.n FROM c WHERE STARTSWITH(c.id, 'large')", &each),
        ("SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(c.tags, 't')", &each),
        ("SELECT VALUE c.n FROM c WHERE c.kind = 'large' AND LENGTH(c.text) > 5", &each),
        ("SELECT VALUE c.n FROM c WHERE c.kind = 'large' ORDER BY c.n", &each),
        ("SELECT DISTINCT VALUE c.n FROM c WHERE c.kind = 'large'", &each),
        ("SELECT VALUE c.n FROM c JOIN t IN c.tags WHERE c.kind = 'large'", &each),
        ("SELECT VALUE SUM(c.n) FROM c WHERE c.kind = 'large'", &[sum]),
        ("SELECT VALUE MAX(c.n) FROM c WHERE c.kind = 'large' AND c.one = 1", &["29".into()]),
    ];
    for (text, expected) in cases {
        for items in [1_000, 7] {
            let (mut rows, mut continuation) = (Vec::new(), None);
            loop {
                let container = account.container();
                let scope = Scope::Everything;
                let (more, next) = page(&container, &scope, text, items, continuation).await;
                rows.extend(more);
                continuation = next;
                if continuation.is_none() {
                    break;
                }
            }
            assert_eq!(sorted(rows), sorted(expected.to_vec()), "{text}, {items} at a time");
        }
    }
}

/// The index holds the first 128 bytes of a text; one that has just those stands beside longer ones.
#[tokio::test]
async fn texts_that_are_just_not_cut_are_found_once() {
    let account = account().await;
    let mut items = Vec::new();
    for (n, bytes) in (120..137).chain([128, 128, 200, 128]).enumerate() {
        items.push(json!({"id": format!("{n:02}"), "pk": "a", "t": "x".repeat(bytes), "one": 1}));
    }
    // Enough others that the index is worth a look.
    for n in 0..300 {
        items.push(json!({"id": format!("other {n}"), "pk": "a", "t": n, "one": 0}));
    }
    for item in &items {
        let key = Some(PartitionKey(vec![Component::String("a".into())]));
        let container = account.container();
        let conditions = Conditions::default();
        let written = container.upsert_item(key, item.to_string().into(), &conditions).await;
        written.unwrap().result.unwrap();
    }
    let number = |item: &Value| item["id"].as_str().unwrap().to_owned();
    let xs =
        items.iter().filter(|item| item["one"] == 1).map(|item| json!(number(item)).to_string());
    let xs: Vec<String> = sorted(xs.collect());
    let conditions = ["c.t > '' AND c.one = 1", "STARTSWITH(c.t, 'x')", "c.t >= 'x' AND c.t < 'y'"];
    for condition in conditions {
        for order in ["", " ORDER BY c.t", " ORDER BY c.t DESC"] {
            for items in [1_000, 7, 3, 1] {
                let text = format!("SELECT VALUE c.id FROM c WHERE {condition}{order}");
                let (mut rows, mut continuation) = (Vec::new(), None);
                loop {
                    let (container, scope) = (account.container(), Scope::Everything);
                    let (more, next) = page(&container, &scope, &text, items, continuation).await;
                    rows.extend(more);
                    continuation = next;
                    if continuation.is_none() {
                        break;
                    }
                }
                assert_eq!(sorted(rows), xs, "{text}, {items} at a time");
            }
        }
    }
    let sum = "SELECT VALUE SUM(c.one) FROM c WHERE c.t > ''";
    let container = account.container();
    let (rows, _) = page(&container, &Scope::Everything, sum, 10, None).await;
    assert_eq!(rows, [xs.len().to_string()]);
}
