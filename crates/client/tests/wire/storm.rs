//! Writers, splits, merges, readers that lose their memory or are interrupted, and a network that
//! fails, in any order: seeded, so that a failure can be run again.
//!
//! `ASTRARIUM_SEED=7 cargo test -p astrarium-client --test wire storm` runs one seed,
//! `ASTRARIUM_SEEDS=1000` as many.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{ChangeFeedOptions, Changes, Client, Container, ItemOptions, Options, Page, Retry};
use serde_json::{Value, json};

use crate::proxy::{Fate, Head, Proxy};
use crate::support::{Home, beginning, client_of, soon};

const SEEDS: u64 = 8;
const STEPS: u64 = 150;

/// A small generator, so that a seed replays a run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// What has been written, and what has been read of it: per item the number of its newest version.
struct Run {
    seed: u64,
    random: Random,
    written: HashMap<String, u64>,
    read: HashMap<String, u64>,
}

impl Run {
    /// Versions of an item come in their order, and none comes twice.
    fn take(&mut self, page: &Page) {
        for change in &page.changes {
            let item: Value = change.document().unwrap().unwrap();
            let (id, n) = (item["id"].as_str().unwrap().to_owned(), item["n"].as_u64().unwrap());
            let before = self.read.insert(id.clone(), n);
            let seed = self.seed;
            assert!(before.is_none_or(|before| before < n), "seed {seed}: {id} {before:?} {n}");
        }
    }

    async fn write(&mut self, container: &Container, n: u64) {
        let id = format!("i{}", self.random.below(30));
        let item = json!({"id": id, "pk": id, "n": n});
        container.upsert_item(id.as_str(), item, ItemOptions::default()).await.unwrap();
        self.written.insert(id, n);
    }

    async fn reshape(&mut self, container: &Container) {
        let ranges = container.partition_key_ranges().await.unwrap();
        let at = self.random.below(ranges.len() as u64) as usize;
        // A range without items cannot be cut; the reader does not care.
        if self.random.below(3) > 0 {
            let _ = container.split_range(&ranges[at].id).await;
        } else if at > 0 {
            container.merge_ranges(&[&ranges[at - 1].id, &ranges[at].id]).await.unwrap();
        }
    }

    /// Asks for a page. It may fail, or, unless the reader is patient, the call may be dropped
    /// half-way: the next goes on.
    async fn read(&mut self, changes: &mut Changes, patient: bool) -> bool {
        let polls = self.random.below(400);
        let next = changes.next_page();
        tokio::pin!(next);
        let mut polled = 0;
        let page = loop {
            tokio::select! {
                biased;
                page = &mut next => break page,
                () = tokio::task::yield_now() => polled += 1,
            }
            if !patient && polled > 200 && polled > polls * 5 {
                return false;
            }
        };
        match page {
            Ok(page) => {
                self.take(&page);
                page.is_caught_up
            }
            Err(error) => {
                assert!(error.is_transient() || error.status() == Some(410), "{error}");
                false
            }
        }
    }
}

/// A network that fails one time in four.
fn misfortune(random: &mut Random, head: &Head) -> Fate {
    let told = |status, substatus: &str| {
        let headers =
            vec![("x-ms-substatus", substatus.to_owned()), ("x-ms-retry-after-ms", "1".to_owned())];
        Fate::Answer(status, headers, r#"{"code":"Told","message":"as told"}"#.to_owned())
    };
    if head.path == "/" {
        return Fate::Pass;
    }
    match random.below(36) {
        0 => Fate::CutBefore,
        1 => Fate::CutAfter,
        2 => Fate::CutWithin,
        3 => Fate::Noise,
        4 => told(429, "3200"),
        5 => told(503, "0"),
        6 if head.is_item() => told(410, "1002"),
        7 if head.is_item() => told(410, "1007"),
        8 => Fate::Delay(Duration::from_millis(2)),
        _ => Fate::Pass,
    }
}

fn shaky(proxy: &Proxy) -> Client {
    let retry = Retry { attempts: 2, pause: Duration::from_millis(1), ..Retry::default() };
    client_of(&proxy.endpoint, Options { retry, ..Options::default() })
}

/// In the end, each item's newest version has been read.
async fn run(seed: u64) {
    let home = Home::new();
    let direct = home.container(1).await;
    let proxy = Proxy::before(&home.server.endpoint).await;
    let chance = Arc::new(Mutex::new(Random(!seed)));
    let fate = chance.clone();
    proxy.script(move |head| misfortune(&mut fate.lock().unwrap(), head));
    let mut run = Run { seed, random: Random(seed), written: HashMap::new(), read: HashMap::new() };
    let wait = (seed % 3 == 2).then_some(Duration::from_millis(20));
    let mut options = ChangeFeedOptions {
        max_item_count: Some(3),
        max_concurrency: 1 + (seed % 4) as usize,
        wait,
        poll_interval: Duration::from_millis(1),
        ..beginning()
    };
    let mut changes = shaky(&proxy).container("d", "c").changes(options.clone()).unwrap();
    for n in 0..STEPS {
        match run.random.below(10) {
            0..=4 => run.write(&direct, n).await,
            5..=7 => drop(soon(run.read(&mut changes, false)).await),
            8 => run.reshape(&direct).await,
            _ => {
                options.request_continuation = Some(changes.continuation());
                changes = shaky(&proxy).container("d", "c").changes(options.clone()).unwrap();
            }
        }
    }
    let end = async { while !run.read(&mut changes, true).await {} };
    soon(end).await;
    assert_eq!(run.read, run.written, "seed {seed}");
}

#[tokio::test]
async fn nothing_is_lost_and_nothing_comes_twice() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("ASTRARIUM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ASTRARIUM_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        run(seed).await;
    }
}
