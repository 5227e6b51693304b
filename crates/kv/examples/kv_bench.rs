//! Measures the embedded adapter against what a disk can do at best.
//!
//! `cargo run --release -p astrarium-kv --example kv_bench [directory] [rounds]`
//!
//! Durable commits of 1 KB documents (one row each in Docs, Feed and Meta) by 1 and by 64
//! writers, against (a) a bare log that is written ahead with zeros and synced per group, and
//! (b) fjall with its own journal synced per group; then point reads and a drain of the feed.

use std::fs::File;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use astrarium_kv::suite::Dice;
use astrarium_kv::{Claim, Keyspace, Local, LocalOptions, Op, Owner, PartitionId, Scan, Stores};
use bytes::Bytes;
use tokio::sync::oneshot;

const BODY_BYTES: usize = 1024;
const RUN: Duration = Duration::from_millis(1500);
const ZEROED_BYTES: usize = 512 << 20;

type Waiting = (Vec<Op>, oneshot::Sender<()>);

/// What takes a batch and says when it is durable.
enum Target {
    Store(Arc<dyn Owner>),
    Bare(Mutex<Sender<Waiting>>),
}

impl Target {
    async fn commit(&self, batch: Vec<Op>) {
        match self {
            Self::Store(owner) => {
                owner.submit(batch).expect("room").durable().await.expect("durable");
            }
            Self::Bare(sender) => {
                let (done, wait) = oneshot::channel();
                sender.lock().expect("lock").send((batch, done)).expect("running");
                wait.await.expect("durable");
            }
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().unwrap_or_else(|| ".".into());
    let rounds: usize = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
    let dir = tempfile::tempdir_in(parent).expect("a directory to write to");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    runtime.expect("a runtime").block_on(run(dir.path(), rounds));
}

async fn run(dir: &Path, rounds: usize) {
    let began = Instant::now();
    let store = Local::open(&dir.join("store"), LocalOptions::default()).expect("a new store");
    println!("open an empty store      {:>9.1} ms   rss {} KB", ms(began), rss_kb());
    let owner = store.open_owner(PartitionId(1), Claim::Take).await.expect("an owner");
    let store_target = Arc::new(Target::Store(owner.clone()));
    let bare = Arc::new(spawn(bare_log(&dir.join("bare.log"))));
    let synced = Arc::new(spawn(synced_fjall(&dir.join("fjall"))));

    let mut best = [[0.0_f64; 3]; 2];
    let mut worst = [[f64::MAX; 3]; 2];
    let mut lsn = 0;
    for _ in 0..rounds {
        for (w, writers) in [1_u64, 64].into_iter().enumerate() {
            for (t, target) in [&store_target, &bare, &synced].into_iter().enumerate() {
                let (rate, next) = commits(target, writers, lsn).await;
                lsn = next;
                best[w][t] = best[w][t].max(rate);
                worst[w][t] = worst[w][t].min(rate);
            }
        }
    }
    for (w, writers) in [1, 64].into_iter().enumerate() {
        let [ours, bare, synced] = best[w];
        let [ours_worst, bare_worst, synced_worst] = worst[w];
        println!("{writers:>2} writers, commits/s, best (worst) of {rounds}");
        println!("  this store             {ours:>9.0} ({ours_worst:.0})");
        println!(
            "  bare log               {bare:>9.0} ({bare_worst:.0}): {:.0} %",
            100.0 * ours / bare
        );
        println!(
            "  fjall, synced          {synced:>9.0} ({synced_worst:.0}): {:.1} x",
            ours / synced
        );
    }
    drop((store_target, bare, synced));
    reads(&store, rounds).await;
    let began = Instant::now();
    store.close().await.expect("closed");
    println!("close                    {:>9.1} ms   rss {} KB", ms(began), rss_kb());
    drop((owner, store));
    let began = Instant::now();
    let store = Local::open(&dir.join("store"), LocalOptions::default()).expect("the same store");
    println!("open again               {:>9.1} ms   rss {} KB", ms(began), rss_kb());
    for (name, value) in store.figures() {
        println!("  {name} {value}");
    }
}

fn batch(lsn: u64) -> Vec<Op> {
    let number = Bytes::copy_from_slice(&lsn.to_be_bytes());
    let mut body = vec![0_u8; BODY_BYTES];
    let mut dice = Dice(lsn);
    body.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&dice.roll().to_le_bytes()));
    let mut row = vec![7; 64];
    row[..8].copy_from_slice(&number);
    vec![
        Op::Put(Keyspace::Docs, doc_key(lsn), Bytes::from(row)),
        Op::Put(Keyspace::Feed, number.clone(), Bytes::from(body)),
        Op::Put(Keyspace::Meta, Bytes::from_static(b"head"), number),
    ]
}

fn doc_key(lsn: u64) -> Bytes {
    Bytes::from(format!("tenant{:08x}/document{lsn:012}", Dice(lsn).roll() as u32))
}

async fn commits(target: &Arc<Target>, writers: u64, from: u64) -> (f64, u64) {
    let began = Instant::now();
    let lsn = Arc::new(std::sync::atomic::AtomicU64::new(from));
    let mut tasks = Vec::new();
    for _ in 0..writers {
        let (target, lsn) = (target.clone(), lsn.clone());
        tasks.push(tokio::spawn(async move {
            let mut done = 0_u64;
            while began.elapsed() < RUN {
                let next = 1 + lsn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                target.commit(batch(next)).await;
                done += 1;
            }
            done
        }));
    }
    let mut done = 0;
    for task in tasks {
        done += task.await.expect("a writer");
    }
    let rate = done as f64 / began.elapsed().as_secs_f64();
    (rate, lsn.load(std::sync::atomic::Ordering::Relaxed))
}

/// Runs a group committer on a thread.
fn spawn(mut commit: impl FnMut(&[Waiting]) + Send + 'static) -> Target {
    let (sender, waiting): (Sender<Waiting>, Receiver<Waiting>) = channel();
    std::thread::spawn(move || {
        while let Ok(first) = waiting.recv() {
            let mut group = vec![first];
            group.extend(waiting.try_iter());
            commit(&group);
            for (_, done) in group {
                let _ = done.send(());
            }
        }
    });
    Target::Bare(Mutex::new(sender))
}

fn bare_log(path: &Path) -> impl FnMut(&[Waiting]) + Send + 'static {
    let file = File::create(path).expect("a log");
    let zeros = vec![0; 1 << 20];
    for at in (0..ZEROED_BYTES).step_by(zeros.len()) {
        file.write_all_at(&zeros, at as u64).expect("zeros");
    }
    file.sync_all().expect("synced");
    let (mut at, mut buffer) = (0, Vec::new());
    move |group| {
        buffer.clear();
        for op in group.iter().flat_map(|(batch, _)| batch) {
            if let Op::Put(_, key, value) = op {
                buffer.extend_from_slice(key);
                buffer.extend_from_slice(value);
            }
        }
        if at + buffer.len() > ZEROED_BYTES {
            at = 0;
        }
        file.write_all_at(&buffer, at as u64).expect("written");
        file.sync_data().expect("synced");
        at += buffer.len();
    }
}

fn synced_fjall(dir: &Path) -> impl FnMut(&[Waiting]) + Send + 'static {
    let db = fjall::Database::builder(dir).open().expect("a database");
    let spaces: Vec<_> = ["docs", "feed", "log", "index", "meta"]
        .map(|name| db.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("a keyspace"))
        .into();
    move |group| {
        let mut batch = db.batch().durability(Some(fjall::PersistMode::SyncData));
        for op in group.iter().flat_map(|(batch, _)| batch) {
            if let Op::Put(space, key, value) = op {
                batch.insert(&spaces[*space as usize], key.clone(), value.clone());
            }
        }
        batch.commit().expect("committed");
    }
}

async fn reads(store: &Local, rounds: usize) {
    let owner = store.open_owner(PartitionId(1), Claim::Take).await.expect("an owner");
    let (mut drained, mut rows, mut bytes) = (f64::MAX, 0, 0);
    let mut lsns = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        let view = owner.published();
        (rows, bytes) = (0, 0);
        lsns.clear();
        let mut from = Bound::Unbounded;
        loop {
            let scan = Scan {
                keyspace: Keyspace::Feed,
                from,
                to: Bound::Unbounded,
                reverse: false,
                rows: 1000,
                bytes: 4 << 20,
                keys_only: false,
            };
            let chunk = view.scan(scan).await.expect("a chunk");
            rows += chunk.rows.len();
            for (key, value) in &chunk.rows {
                bytes += value.len();
                lsns.push(u64::from_be_bytes(key[..8].try_into().expect("a number")));
            }
            match chunk.resume {
                Some(key) => from = Bound::Excluded(key),
                None => break,
            }
        }
        drained = drained.min(began.elapsed().as_secs_f64());
    }
    println!(
        "drain the feed           {:>9.0} rows/s, {:.0} MB/s ({rows} rows)",
        rows as f64 / drained,
        bytes as f64 / drained / 1e6
    );
    let gets = 200_000;
    let (mut docs, mut feed) = (f64::MAX, f64::MAX);
    for round in 0..rounds {
        let mut dice = Dice(round as u64);
        let picked: Vec<u64> =
            (0..gets).map(|_| lsns[dice.below(lsns.len() as u64) as usize]).collect();
        let keys: Vec<Bytes> = picked.iter().map(|lsn| doc_key(*lsn)).collect();
        let view = owner.published();
        let began = Instant::now();
        for key in &keys {
            assert!(view.get(Keyspace::Docs, key).await.expect("read").is_some());
        }
        docs = docs.min(began.elapsed().as_secs_f64());
        let began = Instant::now();
        for lsn in &picked {
            assert!(view.get(Keyspace::Feed, &lsn.to_be_bytes()).await.expect("read").is_some());
        }
        feed = feed.min(began.elapsed().as_secs_f64());
    }
    let micros = |seconds: f64| 1e6 * seconds / f64::from(gets);
    println!(
        "point reads              {:>9.2} µs docs, {:.2} µs feed, {:.0} k documents/s",
        micros(docs),
        micros(feed),
        1e3 / (micros(docs) + micros(feed))
    );
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
