//! The processor's figures beside their targets: `cargo xtask bench processor [filter]`.
//!
//! One server process; the hosts are processors of this process, each with connections of its own.
//! Every figure is measured several times where it varies; the worst is printed where the target is
//! a percentile.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Container, Credential, FeedRead, FeedScope, ItemOptions, Start, Throughput};
use conformance::WELL_KNOWN_KEY;
use conformance::server::{Scratch, Server};
use conformance::wire::Wire;
use processor::{Builder, Options, Processor, Site};
use serde_json::{Value, json};

const RANGES: u32 = 100;
const KEYS: usize = 64;
const CHANGES_PER_SECOND: u32 = 10_000;
/// Items per transaction: as many writes as a small machine carries beside five hosts.
const ITEMS_PER_WRITE: usize = 20;
const WRITERS: u32 = 8;
/// How often a fifth host joins and leaves.
const ROUNDS: usize = 20;
/// Items that are read raw and by a host, how often, and in pages of which size.
const DRAINED: usize = 500_000;
const DRAIN_ROUNDS: usize = 3;
const PAGE: u32 = 1000;

type Anything<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

struct Bench {
    site: Site,
    source: Container,
    leases: Container,
    server: Server,
    _scratch: Scratch,
}

impl Bench {
    async fn new(ranges: u32) -> Anything<Self> {
        let binary: PathBuf =
            std::env::var_os("ASTRARIUM_BIN").ok_or("ASTRARIUM_BIN is not set")?.into();
        let scratch = Scratch::new("processor-bench")?;
        let settings = ["--log-level", "error"];
        let server = Server::start(&binary, scratch.path(), &settings)?;
        let key = Credential::key(WELL_KNOWN_KEY)?;
        let site = Site::new(&server.endpoint, key, client::Options::default(), "b", "source")?;
        let handle = site.handle()?;
        handle.client().ensure_database("b", Throughput::Unsaid).await?;
        let database = handle.client().database("b");
        let source =
            database.ensure_container("source", "/pk", Throughput::Manual(ranges * 10_000)).await?;
        let leases =
            database.ensure_container("leases", "/id", Throughput::Manual(100_000)).await?;
        Ok(Self { site, source, leases, server, _scratch: scratch })
    }

    fn options(name: &str) -> Options {
        Options {
            instance_name: name.into(),
            lease_prefix: "bench".into(),
            start_from_beginning: true,
            ..Options::brisk()
        }
    }

    async fn host(
        &self,
        options: Options,
        handled: &Arc<AtomicU64>,
        work: Duration,
    ) -> Anything<Processor> {
        let handled = Arc::clone(handled);
        let mut processor = Builder::connect(&self.site, &self.site.beside("b", "leases"))
            .await?
            .options(options)
            .handler(move |_, changes| {
                let handled = Arc::clone(&handled);
                async move {
                    for _ in &changes {
                        if !work.is_zero() {
                            tokio::time::sleep(work).await;
                        }
                        handled.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                }
            })
            .build()?;
        processor.start().await?;
        Ok(processor)
    }

    /// Leases by owner's name.
    async fn owned(&self, name: &str) -> Anything<usize> {
        let mut reader = self.leases.read_documents(client::ReadOptions::default())?;
        let mut count = 0;
        while let Some(page) = reader.next_page().await? {
            let documents = page.parse::<Value>()?;
            let is_owned = |lease: &&Value| {
                let is_lease = lease["id"].as_str().is_some_and(|id| id.contains(".."));
                is_lease && lease["Owner"].as_str().unwrap_or("").split('~').next() == Some(name)
            };
            count += documents.iter().filter(is_owned).count();
        }
        Ok(count)
    }

    async fn until_owned(&self, name: &str, wanted: usize) -> Anything<Duration> {
        let began = Instant::now();
        while self.owned(name).await? != wanted {
            if began.elapsed() > Duration::from_secs(120) {
                return Err(format!("{name} does not come to own {wanted} leases").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(began.elapsed())
    }

    /// Creates so many items, by transactions, with some writers side by side.
    async fn fill(&self, count: usize, keys: usize, items_per_write: usize) -> Anything<()> {
        let writes = count.div_ceil(items_per_write);
        let writers = (0..WRITERS as usize).map(|writer| {
            let endpoint = self.server.endpoint.clone();
            tokio::task::spawn_blocking(move || {
                let mut wire = Wire::new(&endpoint);
                for n in (writer..writes).step_by(WRITERS as usize) {
                    let items = items_per_write.min(count - n * items_per_write);
                    write(&mut wire, n * items_per_write, items, n % keys)?;
                }
                Ok::<(), String>(())
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await??;
        }
        Ok(())
    }
}

/// A transaction of new items of one key.
fn write(wire: &mut Wire, first: usize, count: usize, key: usize) -> Result<(), String> {
    let create = |n: usize| {
        let item = json!({"id": format!("i{n}"), "pk": format!("k{key}"), "text": "x".repeat(200)});
        json!({"operationType": "Create", "resourceBody": item})
    };
    let body = json!((first..first + count).map(create).collect::<Vec<_>>()).to_string();
    let key = format!(r#"["k{key}"]"#);
    let headers = [
        ("x-ms-documentdb-partitionkey", key.as_str()),
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "True"),
    ];
    let answer = wire.send("POST", "/dbs/b/colls/source/docs", &headers, body.as_bytes());
    match answer {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => Err(answer.text()),
        Err(error) => Err(error.to_string()),
    }
}

fn row(what: &str, found: String, target: &str) {
    println!("{what:<52} {found:>16}   {target}");
}

async fn until(handled: &AtomicU64, count: u64) {
    while handled.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Writes new items at a steady rate until told to stop.
struct Load {
    written: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    writers: Vec<std::thread::JoinHandle<Result<(), String>>>,
}

impl Load {
    fn start(bench: &Bench, next: &Arc<AtomicU64>, written: &Arc<AtomicU64>) -> Self {
        let pause = Duration::from_secs(1) * WRITERS * ITEMS_PER_WRITE as u32 / CHANGES_PER_SECOND;
        let is_over = Arc::new(AtomicBool::new(false));
        let writers = (0..WRITERS).map(|_| {
            let (next, written) = (Arc::clone(next), Arc::clone(written));
            let is_over = Arc::clone(&is_over);
            let mut wire = Wire::new(&bench.server.endpoint);
            std::thread::spawn(move || {
                let mut due = Instant::now();
                while !is_over.load(Ordering::SeqCst) {
                    let n = next.fetch_add(ITEMS_PER_WRITE as u64, Ordering::SeqCst) as usize;
                    let key = n / ITEMS_PER_WRITE % 10_000;
                    write(&mut wire, n, ITEMS_PER_WRITE, key)?;
                    written.fetch_add(ITEMS_PER_WRITE as u64, Ordering::SeqCst);
                    due += pause;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
                Ok(())
            })
        });
        let writers = writers.collect();
        Self { written: Arc::clone(written), is_over, writers }
    }

    /// Stops, and waits until everything was handled. Returns how much was handled beyond that.
    async fn settle(self, handled: &AtomicU64) -> Anything<u64> {
        self.is_over.store(true, Ordering::SeqCst);
        for writer in self.writers {
            writer.join().map_err(|_| "a writer has panicked")??;
        }
        let written = self.written.load(Ordering::SeqCst);
        until(handled, written).await;
        // What comes twice may come late.
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(handled.load(Ordering::SeqCst) - written)
    }
}

/// The greatest of several times.
fn worst(times: &[Duration]) -> String {
    let most = times.iter().max().copied().unwrap_or_default();
    format!("{:.2} s (of {})", most.as_secs_f64(), times.len())
}

/// Join, leave and crash in a fleet of four with 100 leases, while items are written.
async fn moves() -> Anything<()> {
    let bench = Bench::new(RANGES).await?;
    let (handled, written) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut hosts = Vec::new();
    for name in ["a", "b", "c", "d"] {
        hosts.push(bench.host(Bench::options(name), &handled, Duration::ZERO).await?);
    }
    for name in ["a", "b", "c", "d"] {
        bench.until_owned(name, 25).await?;
    }
    let next = Arc::new(AtomicU64::new(0));
    let (load, began) = (Load::start(&bench, &next, &written), Instant::now());
    let (mut joins, mut leaves) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let joined = Instant::now();
        let mut fifth = bench.host(Bench::options("e"), &handled, Duration::ZERO).await?;
        bench.until_owned("e", 20).await?;
        joins.push(joined.elapsed());
        let left = Instant::now();
        fifth.stop(Duration::from_secs(30)).await;
        bench.until_owned("e", 0).await?;
        bench.until_owned("", 0).await?;
        leaves.push(left.elapsed());
    }
    let rate = written.load(Ordering::SeqCst) as f64 / began.elapsed().as_secs_f64();
    row("changes written meanwhile", format!("{rate:.0}/s"), "10,000/s");
    row("join, 4 → 5 hosts, 100 leases, balanced, worst", worst(&joins), "≤ 3 s");
    row("graceful leave, all served again, worst", worst(&leaves), "≤ 1 s");
    let moved = ROUNDS * 2 * RANGES as usize / 5;
    let all = written.load(Ordering::SeqCst);
    let twice = load.settle(&handled).await?;
    row(
        "… changes that came twice in these moves",
        format!("{twice} (of {all}, {moved} moves)"),
        "0",
    );
    let load = Load::start(&bench, &next, &written);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let began = Instant::now();
    drop(hosts.pop());
    bench.until_owned("d", 0).await?;
    row("crash, all served again", format!("{:.2} s", began.elapsed().as_secs_f64()), "≤ 20 s");
    let twice = load.settle(&handled).await?;
    row("… changes that came twice after it", twice.to_string(), "");
    for mut host in hosts {
        host.stop(Duration::from_secs(10)).await;
    }
    Ok(())
}

/// Requests that save positions, by the numbers that leases carry.
async fn checkpoints() -> Anything<()> {
    let bench = Bench::new(1).await?;
    bench.fill(1000, 10, 1).await?;
    let counters = Arc::new(processor::monitor::Counters::default());
    let leases = bench.site.beside("b", "leases");
    let options = Options { max_item_count: Some(1), ..Bench::options("a") };
    let mut host = Builder::connect(&bench.site, &leases)
        .await?
        .options(options)
        .monitor(counters.clone())
        .handler(|context, _| async move { Ok(context.checkpoint().await?) })
        .build()?;
    host.start().await?;
    while counters.get("checkpoints_total") < 1000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut reader = bench.leases.read_documents(client::ReadOptions::default())?;
    let mut writes = 0_u32;
    while let Some(page) = reader.next_page().await? {
        for lease in page.parse::<Value>()? {
            let id = lease["properties"]["cfx.wid"].as_str().unwrap_or_default().to_owned();
            writes = writes.max(id.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0));
        }
    }
    let per = f64::from(writes) / counters.get("checkpoints_total") as f64;
    row("requests per checkpoint, of 1,000", format!("{per:.2}"), "1");
    host.stop(Duration::from_secs(10)).await;
    Ok(())
}

/// From a write after idleness to the handler.
async fn latency() -> Anything<()> {
    let bench = Bench::new(1).await?;
    let (called, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let mut host = Builder::connect(&bench.site, &bench.site.beside("b", "leases"))
        .await?
        .options(Bench::options("a"))
        .handler(move |_, _| {
            let _ = called.send(Instant::now());
            async { Ok(()) }
        })
        .build()?;
    host.start().await?;
    let (mut writes, mut times, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..1000_u32 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let item = json!({"id": format!("l{n}"), "pk": "k"});
        let began = Instant::now();
        bench.source.upsert_item("k", item, ItemOptions::default()).await?;
        let answered = Instant::now();
        writes.push(answered - began);
        let called = calls.recv().await.ok_or("the host has ended")?;
        times.push(called.saturating_duration_since(began));
        after.push(called.saturating_duration_since(answered));
    }
    for times in [&mut times, &mut writes, &mut after] {
        times.sort();
    }
    let millis = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    row("idle to handler, with the write, p50", millis(times[500]), "≤ 5 ms");
    row("idle to handler, with the write, p99", millis(times[990]), "≤ 50 ms");
    row("… the write itself, p99", millis(writes[990]), "");
    row("… from its answer to the handler, p99", millis(after[990]), "");
    host.stop(Duration::from_secs(10)).await;
    Ok(())
}

/// One hot range, 64 keys, a handler of 10 ms: with one lane and with 64.
async fn lanes() -> Anything<()> {
    let count = 640;
    let bench = Bench::new(1).await?;
    bench.fill(count, KEYS, 1).await?;
    let mut times = Vec::new();
    for lanes in [1, 4096] {
        let handled = Arc::new(AtomicU64::new(0));
        let options = Options {
            lanes,
            prefetch_pages: 16,
            lease_prefix: format!("lanes{lanes}"),
            ..Bench::options("a")
        };
        let began = Instant::now();
        let mut host = bench.host(options, &handled, Duration::from_millis(10)).await?;
        until(&handled, count as u64).await;
        times.push(began.elapsed().as_secs_f64());
        host.stop(Duration::from_secs(10)).await;
    }
    row("lanes: 64 keys, handler of 10 ms", format!("{:.1} ×", times[0] / times[1]), "≥ 30 ×");
    Ok(())
}

/// One host with an empty handler against reading the feed and nothing else.
async fn drain() -> Anything<()> {
    let bench = Bench::new(1).await?;
    bench.fill(DRAINED, 10_000, 100).await?;
    let range = bench.source.partition_key_ranges().await?.remove(0).id;
    let mut ratios = Vec::new();
    for round in 0..DRAIN_ROUNDS {
        let raw = read_raw(&bench, &range).await?;
        let handled = Arc::new(AtomicU64::new(0));
        let options = Options {
            max_item_count: Some(PAGE),
            lease_prefix: format!("drain{round}"),
            ..Bench::options("a")
        };
        let began = Instant::now();
        let mut host = bench.host(options, &handled, Duration::ZERO).await?;
        until(&handled, DRAINED as u64).await;
        let ours = DRAINED as f64 / began.elapsed().as_secs_f64();
        host.stop(Duration::from_secs(10)).await;
        ratios.push((ours / raw, raw, ours));
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, raw, ours) = ratios[DRAIN_ROUNDS / 2];
    row("feed read raw", format!("{raw:.0}/s"), "");
    row("one host, empty handler", format!("{ours:.0}/s"), "");
    row("… of the raw rate", format!("{:.0} %", ratio * 100.0), "≥ 60 %");
    Ok(())
}

/// Items per second, page after page, by the client that the processor uses.
async fn read_raw(bench: &Bench, range: &str) -> Anything<f64> {
    let began = Instant::now();
    let mut read = FeedRead::new(FeedScope::Range(range.to_owned()), Start::Beginning);
    read.max_item_count = Some(PAGE);
    let mut found = 0;
    while found < DRAINED {
        let page = bench.source.read_changes(&read).await?;
        found += page.changes.len();
        read.start = Start::After(page.etag);
    }
    Ok(DRAINED as f64 / began.elapsed().as_secs_f64())
}

#[tokio::main]
async fn main() -> Anything<()> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    println!("{:<52} {:>16}   target", "", "found");
    if "moves".contains(&filter) {
        moves().await?;
    }
    if "checkpoints".contains(&filter) {
        checkpoints().await?;
    }
    if "latency".contains(&filter) {
        latency().await?;
    }
    if "lanes".contains(&filter) {
        lanes().await?;
    }
    if "drain".contains(&filter) {
        drain().await?;
    }
    Ok(())
}
