//! A process that is killed while it writes loses nothing that it was told is durable.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use astrarium_kv::suite::rows;
use astrarium_kv::{Claim, Keyspace, Local, LocalOptions, Op, PartitionId, Stores};
use bytes::Bytes;

const DIR: &str = "KV_KILL_DIR";
const DOCS: u64 = 50;

fn options() -> LocalOptions {
    LocalOptions {
        segment_bytes: 128 << 10,
        layer_bytes: 6 << 10,
        cache_bytes: 1 << 20,
        ..LocalOptions::default()
    }
}

/// The child: writes numbers until it is killed, and says which are durable.
#[tokio::test]
async fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = Local::open(Path::new(&dir), options()).unwrap();
    let owner = store.open_owner(PartitionId(1), Claim::Take).await.unwrap();
    let head = owner.published().get(Keyspace::Meta, b"head").await.unwrap();
    let mut lsn = head.map_or(0, |head| u64::from_be_bytes(head[..].try_into().unwrap()));
    loop {
        lsn += 1;
        let number = Bytes::copy_from_slice(&lsn.to_be_bytes());
        let mut batch = vec![
            Op::Put(Keyspace::Docs, Bytes::from((lsn % DOCS).to_string()), number.clone()),
            Op::Put(Keyspace::Feed, number.clone(), Bytes::from(vec![lsn as u8; 1000])),
            Op::Put(Keyspace::Meta, Bytes::from("head"), number),
        ];
        if lsn > DOCS {
            let old = Bytes::copy_from_slice(&(lsn - DOCS).to_be_bytes());
            batch.push(Op::DeleteOnce(Keyspace::Feed, old));
        }
        owner.submit(batch).unwrap().durable().await.unwrap();
        // Written past the harness, which captures what is printed.
        writeln!(std::io::stderr(), "durable {lsn}").unwrap();
    }
}

#[tokio::test]
async fn killed_processes_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..4 {
        acknowledged = run_and_kill(dir.path(), acknowledged + 700 + round * 130);
        // What a crash has left to be done is cut off by the next one.
        for again in 0..round {
            acknowledged = run_and_kill(dir.path(), acknowledged + 7 + again * 11);
        }
        check(dir.path(), acknowledged).await;
    }
}

/// A loss of power may leave any part of the tail of the index's own journal broken.
#[tokio::test]
async fn a_broken_tail_of_the_index_is_cut_and_made_again() {
    for back in [3, 40, 400, 4000] {
        let dir = tempfile::tempdir().unwrap();
        let acknowledged = run_and_kill(dir.path(), 400);
        let index = std::fs::read_dir(dir.path().join("index")).unwrap();
        let journals = index.map(|entry| entry.unwrap().path());
        let newest = journals.filter(|path| path.extension().is_some_and(|it| it == "jnl")).max();
        let newest = newest.unwrap();
        let mut bytes = std::fs::read(&newest).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("nothing was flushed");
        bytes[end.saturating_sub(back)] ^= 0x5a;
        std::fs::write(&newest, bytes).unwrap();
        check(dir.path(), acknowledged).await;
    }
}

fn run_and_kill(dir: &Path, until: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut last = 0;
    for line in lines {
        let line = line.unwrap();
        let Some(number) = line.strip_prefix("durable ") else { panic!("child: {line}") };
        last = number.parse().unwrap();
        if last == until {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(last >= until);
    last
}

async fn check(dir: &Path, acknowledged: u64) {
    let store = Local::open(dir, options()).unwrap();
    let owner = store.open_owner(PartitionId(1), Claim::Take).await.unwrap();
    let view = owner.published();
    let head = view.get(Keyspace::Meta, b"head").await.unwrap().unwrap();
    let head = u64::from_be_bytes(head[..].try_into().unwrap());
    assert!(head == acknowledged || head == acknowledged + 1, "{head} after {acknowledged}");
    let feed = rows(&*view, Keyspace::Feed).await;
    let expected = (head - DOCS + 1..=head).map(|lsn| {
        (Bytes::copy_from_slice(&lsn.to_be_bytes()), Bytes::from(vec![lsn as u8; 1000]))
    });
    assert_eq!(feed, expected.collect::<Vec<_>>());
    store.reclaim().unwrap();
    let live = store.figures().into_iter().find(|figure| figure.0 == "segment_live_bytes").unwrap();
    assert_eq!(live.1, DOCS * 1000, "wherever in a flush the crash came, live bytes are exact");
    assert_eq!(rows(&*owner.published(), Keyspace::Feed).await, feed);
}
