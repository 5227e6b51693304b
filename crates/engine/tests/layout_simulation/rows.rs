//! The rows of partitions as they lie in storage: all that belongs there, counted exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use kv::{Claim, Crashing, Keyspace, PartitionId, Scan, Stores, View};
use model::epk::{Epk, EpkRange};
use serde_json::Value;

/// Looks at the rows themselves, before anybody opens the account.
pub async fn check_rows(store: &Crashing) {
    let catalog = rows(store, 0, Keyspace::Meta).await;
    let record = |stored: &Bytes| serde_json::from_slice::<Value>(stored).unwrap();
    let container = catalog
        .iter()
        .filter(|(key, _)| key[0] == b'r')
        .map(|(_, stored)| record(stored))
        .find(|record| record["kind"] == "colls")
        .unwrap();
    let partitions = container["partitions"].as_array().unwrap();
    let mut reached = Epk::MIN;
    for partition in partitions {
        let number = partition["number"].as_u64().unwrap();
        let bound = |name: &str| Epk::from_hex(partition[name].as_str().unwrap()).unwrap();
        let span = EpkRange::new(bound("min"), bound("max"));
        assert_eq!(span.min, reached, "partitions meet");
        reached = span.max.clone();
        let garbage = [&b"g"[..], &u32::try_from(number).unwrap().to_be_bytes()].concat();
        assert!(catalog.iter().all(|(key, _)| key[..] != garbage[..]), "it is not garbage");
        check_partition(store, number, &span).await;
    }
    assert_eq!(reached, Epk::max(), "partitions cover the key space");
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The item key that a version in the log, or what is left of a deleted item, begins with.
fn item_of(version: &[u8]) -> &[u8] {
    let length = usize::from(u16::from_be_bytes(version[1..3].try_into().unwrap()));
    &version[3..3 + length]
}

fn check_within(span: &EpkRange, item_key: &[u8]) {
    assert!(*item_key >= *span.min.significant(), "an item is where it belongs");
    assert!(span.max == Epk::max() || *item_key < *span.max.significant());
}

async fn check_partition(store: &Crashing, number: u64, span: &EpkRange) {
    let docs = rows(store, number, Keyspace::Docs).await;
    let feed = rows(store, number, Keyspace::Feed).await;
    let index = rows(store, number, Keyspace::Index).await;
    docs.iter().for_each(|(key, _)| check_within(span, key));
    let live: Vec<&(Bytes, Bytes)> = docs.iter().filter(|(_, row)| row[0] == 1).collect();
    for (key, row) in &live {
        let body = feed.iter().find(|(feed_key, _)| feed_key[..] == row[1..15]);
        let (_, body) = body.expect("an item has its body");
        assert_eq!(body[2..2 + key.len()], key[..], "and the body is its own");
    }
    assert_eq!(feed.len(), live.len(), "no body without its item");
    let family = |letter: u8| index.iter().filter(move |(key, _)| key[0] == letter);
    let held: Vec<&Bytes> = family(b'u').map(|(_, item)| item).collect();
    assert_eq!(held.len(), live.len(), "each item holds its unique key");
    assert!(held.iter().all(|item| live.iter().any(|(key, _)| key == *item)));
    let left = docs.iter().filter(|(_, row)| row[0] == 2);
    let left: BTreeSet<(&[u8], &[u8])> = left.map(|(key, row)| (&row[1..15], &key[..])).collect();
    let told = family(b'd').map(|(key, version)| (&key[1..], item_of(version)));
    assert_eq!(told.collect::<BTreeSet<_>>(), left, "deleted items leave what they should");
    let own = live.iter().filter(|(_, row)| u32_at(row, 21).cast_signed() > 0);
    let expiries = own.map(|(key, row)| {
        [&b"t"[..], &(u32_at(row, 17) + u32_at(row, 21)).to_be_bytes(), key].concat()
    });
    let found = family(b't').map(|(key, _)| key.to_vec());
    assert_eq!(found.collect::<BTreeSet<_>>(), expiries.collect(), "expiries are those of items");
    let sizes = family(b'v').map(|(key, size)| (u64_at(key, 1), u64_at(size, 0))).collect();
    let meta = rows(store, number, Keyspace::Meta).await;
    let meta = |name: u8| meta.iter().find(|(key, _)| key[..] == [name]).map(|(_, value)| value);
    let Some(head) = meta(b'h') else { return assert!(docs.is_empty()) };
    let bytes: u64 = live.iter().map(|(_, row)| u64::from(u32_at(row, 25))).sum();
    assert_eq!((u64_at(head, 16), u64_at(head, 24)), (live.len() as u64, bytes), "counters");
    let newest = feed.last().map_or(0, |(key, _)| u64_at(key, 0));
    assert!(u64_at(head, 0) >= newest, "the head is ahead of all rows");
    let mut blocks: BTreeMap<u64, u32> = BTreeMap::new();
    feed.iter().for_each(|(key, _)| *blocks.entry(u64_at(key, 0) >> 8).or_default() += 1);
    let counted = family(b'b').map(|(key, count)| (u64_at(key, 1), u32_at(count, 0)));
    let mut counted: BTreeMap<u64, u32> = counted.collect();
    if u32_at(head, 56) > 0 {
        let twice = counted.insert(u64_at(head, 0) >> 8, u32_at(head, 56));
        assert_eq!(twice, None, "the newest block is in the head");
    }
    assert_eq!(counted, blocks, "blocks are counted exactly");
    let floor = meta(b'l').map_or(0, |history| u64_at(history, 2));
    check_log(&rows(store, number, Keyspace::Log).await, sizes, head, floor, span);
}

/// The log belongs here, and its sizes are exact above the floor.
fn check_log(
    log: &[(Bytes, Bytes)],
    mut sizes: BTreeMap<u64, u64>,
    head: &Bytes,
    floor: u64,
    span: &EpkRange,
) {
    let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
    for (key, version) in log {
        check_within(span, item_of(version));
        assert!(u64_at(key, 0) <= u64_at(head, 0), "the head is ahead of the log");
        *counted.entry(u64_at(key, 0) >> 8).or_default() += (key.len() + version.len()) as u64;
    }
    if u64_at(head, 48) > 0 {
        let twice = sizes.insert(u64_at(head, 0) >> 8, u64_at(head, 48));
        assert_eq!(twice, None, "the newest block is in the head");
    }
    assert_eq!(u64_at(head, 40), sizes.values().sum::<u64>(), "the size of the log");
    // What is below the floor may be gone, or not yet.
    counted.retain(|block, _| block << 8 > floor);
    sizes.retain(|block, _| block << 8 > floor);
    assert_eq!(sizes, counted, "sizes of the log's blocks");
}

async fn rows(store: &Crashing, partition: u64, keyspace: Keyspace) -> Vec<(Bytes, Bytes)> {
    let owner = store.open_owner(PartitionId(partition), Claim::Take).await.unwrap();
    let scan = Scan {
        keyspace,
        from: Bound::Unbounded,
        to: Bound::Unbounded,
        reverse: false,
        rows: usize::MAX,
        bytes: usize::MAX,
        keys_only: false,
    };
    let view: Arc<dyn View> = owner.published();
    view.scan(scan).await.unwrap().rows
}
