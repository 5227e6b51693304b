//! The shipped examples, run as their readers would.

#[expect(dead_code, reason = "an example is a program as well")]
#[path = "../../examples/call_api.rs"]
mod call_api;
#[expect(dead_code, reason = "an example is a program as well")]
#[path = "../../examples/get_changes.rs"]
mod get_changes;
#[expect(dead_code, reason = "an example is a program as well")]
#[path = "../../examples/leaderboard.rs"]
mod leaderboard;
#[expect(dead_code, reason = "an example is a program as well")]
#[path = "../../examples/replicate.rs"]
mod replicate;

use std::collections::{BTreeMap, BTreeSet};

use client::{Container, ItemOptions, ReadOptions, Throughput, Typed};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::support::{Home, fill, names, soon};

fn any() -> ItemOptions {
    ItemOptions::default()
}

async fn put(container: &Container, key: &str, item: Value) {
    container.upsert_item(item[key].clone(), item, any()).await.unwrap();
}

#[tokio::test]
async fn get_changes_with_checkpoints() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "old", 5).await;
    let mut checkpoints = get_changes::Checkpoints::new();
    let first = get_changes::get_changes(&container, &mut checkpoints).await.unwrap();
    assert_eq!(first, names("old", 5));
    assert_eq!(checkpoints.len(), 2);
    // Between the two, one range becomes two and all become one.
    let ranges = container.partition_key_ranges().await.unwrap();
    container.split_range(&ranges[0].id).await.unwrap();
    fill(&container, "new", 2).await;
    let since = get_changes::get_changes(&container, &mut checkpoints).await.unwrap();
    assert_eq!(since, names("new", 2));
    let ranges = container.partition_key_ranges().await.unwrap();
    let ids: Vec<&str> = ranges.iter().map(|range| range.id.as_str()).collect();
    container.merge_ranges(&ids).await.unwrap();
    fill(&container, "last", 3).await;
    let since = get_changes::get_changes(&container, &mut checkpoints).await.unwrap();
    assert_eq!(since, names("last", 3));
}

#[tokio::test]
async fn a_leaderboard_from_scores() {
    let home = Home::new();
    let client = home.client();
    client.create_database("arcade", Throughput::Unsaid).await.unwrap();
    let database = client.database("arcade");
    let scores =
        database.ensure_container("scores", "/player", Throughput::Manual(20_000)).await.unwrap();
    let board = database.ensure_container("board", "/board", Throughput::Unsaid).await.unwrap();
    let score = async |id: &str, player: &str, score: u64| {
        let score = leaderboard::Score { id: id.into(), player: player.into(), score };
        scores.create_item(player, Typed(&score), any()).await.unwrap();
    };
    for n in 0..20 {
        score(&format!("g{n}"), &format!("p{}", n % 4), n * 10 % 70).await;
    }
    let checkpoint = || leaderboard::Checkpoint::at(home.scratch.path().join("board"));
    let mut first = leaderboard::reader(&scores, &checkpoint()).unwrap();
    let mut second = scores
        .changes(client::ChangeFeedOptions { start_from_beginning: true, ..Default::default() })
        .unwrap();
    // Two at a time, each with a checkpoint of its own, do not harm each other.
    let other = leaderboard::Checkpoint::at(home.scratch.path().join("other"));
    let own = checkpoint();
    let (a, b) = tokio::join!(
        leaderboard::catch_up(&mut first, &board, &own),
        leaderboard::catch_up(&mut second, &board, &other),
    );
    a.unwrap();
    b.unwrap();
    let shown = async || -> Vec<(String, u64)> {
        let top = leaderboard::top(&board, 3).await.unwrap();
        top.into_iter().map(|entry| (entry.player().to_owned(), entry.best)).collect()
    };
    let mut best = BTreeMap::<String, u64>::new();
    for n in 0..20 {
        let held = best.entry(format!("p{}", n % 4)).or_default();
        *held = (*held).max(n * 10 % 70);
    }
    let mut expected: Vec<(String, u64)> = best.into_iter().collect();
    expected.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    assert_eq!(shown().await, expected[..3]);
    // A new process goes on at the checkpoint.
    score("late", "p9", 1000).await;
    let mut again = leaderboard::reader(&scores, &checkpoint()).unwrap();
    leaderboard::catch_up(&mut again, &board, &checkpoint()).await.unwrap();
    assert_eq!(shown().await[0], ("p9".to_owned(), 1000));
}

/// An API that refuses every third call and hangs up on every fifth, and tells of those it took.
async fn api(calls: mpsc::UnboundedSender<Value>) -> hyper::Uri {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/orders", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        let mut count = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            count += 1;
            let mut text = Vec::new();
            let body = loop {
                let mut chunk = [0; 4096];
                let read = stream.read(&mut chunk).await.unwrap();
                text.extend_from_slice(&chunk[..read]);
                let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") else {
                    continue;
                };
                if let Ok(body) = serde_json::from_slice::<Value>(&text[end + 4..]) {
                    break body;
                }
            };
            if count % 5 == 0 {
                continue;
            }
            let status = if count % 3 == 0 { "500 No" } else { "204 Yes" };
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            if count % 3 != 0 {
                let _ = calls.send(body);
            }
        }
    });
    address
}

#[tokio::test]
async fn an_api_is_called_on_each_change() {
    let home = Home::new();
    let container = home.container(2).await;
    fill(&container, "before", 3).await;
    let (sender, mut calls) = mpsc::unbounded_channel();
    let address = api(sender).await;
    let file = home.scratch.path().join("calls");
    // Twice: the second process goes on where the first stopped, and misses nothing in between.
    let mut called = BTreeSet::new();
    let rounds = [names("r0-", 6), [names("between", 3), names("r1-", 6)].concat()];
    for (round, expected) in rounds.iter().enumerate() {
        let (stop, stopped) = oneshot::channel::<()>();
        let checkpoint = call_api::Checkpoint::at(&file);
        let work = call_api::run(&container, &address, &checkpoint, async {
            let _ = stopped.await;
        });
        let checkpoint = call_api::Checkpoint::at(&file);
        let watch = async {
            // Without a checkpoint nobody has begun yet.
            while checkpoint.load().unwrap().is_none() {
                tokio::task::yield_now().await;
            }
            fill(&container, &format!("r{round}-"), 6).await;
            while !expected.iter().all(|id| called.contains(id)) {
                called.insert(calls.recv().await.unwrap()["id"].as_str().unwrap().to_owned());
            }
            let _ = stop.send(());
        };
        let (done, ()) = soon(async { tokio::join!(work, watch) }).await;
        done.unwrap();
        if round == 0 {
            fill(&container, "between", 3).await;
        }
    }
    // What was there before the first of them was started is not called about.
    assert_eq!(called, rounds.concat().into_iter().collect());
}

/// All items of a container by id and some property.
async fn contents(container: &Container) -> Vec<String> {
    let mut documents = container.read_documents(ReadOptions::default()).unwrap();
    let mut all = Vec::new();
    while let Some(page) = documents.next_page().await.unwrap() {
        for item in page.parse::<Value>().unwrap() {
            all.push(format!("{} {} {} {}", item["id"], item["pk"], item["city"], item["n"]));
        }
    }
    all.sort();
    all
}

#[tokio::test]
async fn a_container_is_copied_under_another_key_while_writes_go_on() {
    let home = Home::new();
    let source = home.container(2).await;
    let database = home.client().database("d");
    let target = database.ensure_container("t", "/city", Throughput::Manual(20_000)).await.unwrap();
    let item = |n: u64, city: &str, version: u64| json!({"id": format!("i{n}"), "pk": format!("k{}", n % 7), "city": city, "n": version});
    for n in 0..40 {
        put(&source, "pk", item(n, "Ulm", 0)).await;
    }
    let file = home.scratch.path().join("copy");
    let open = || replicate::Copy::new(&source, &target, replicate::Checkpoint::at(&file));
    let mut copy = open().await.unwrap();
    let writer = async {
        for n in 0..30 {
            put(&source, "pk", item(n, ["Ulm", "Bonn", "Rom"][n as usize % 3], 1)).await;
            if n % 4 == 0 {
                let id = format!("i{n}");
                source.delete_item(format!("k{}", n % 7), &id, any()).await.unwrap();
            }
            if n == 15 {
                source.split_range("0").await.unwrap();
            }
        }
    };
    let (first, ()) = tokio::join!(copy.catch_up(), writer);
    assert!(first.unwrap() >= 40);
    // The process ends; another one brings the copy to its end after the writers have stopped.
    drop(copy);
    let mut copy = open().await.unwrap();
    copy.catch_up().await.unwrap();
    assert_eq!(contents(&target).await, contents(&source).await);
    assert_eq!(copy.catch_up().await.unwrap(), 0);
    // Two items of one id, apart by the old key, would fall together by the new one.
    put(&source, "pk", json!({"id": "i39", "pk": "other", "city": "Ulm", "n": 9})).await;
    let refused = copy.catch_up().await.unwrap_err().to_string();
    assert!(refused.contains("two items would become one"), "{refused}");
    assert_eq!(contents(&target).await.len(), contents(&source).await.len() - 1);
}
