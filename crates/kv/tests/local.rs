//! What the embedded adapter does when the disk, or another process, does not do its part.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use astrarium_kv::suite::{Dice, put, rows};
use astrarium_kv::{
    Claim, Durability, Error, Faults, Keyspace, Local, LocalOptions, Op, Owner, PartitionId, Scan,
    Stores, View,
};
use bytes::Bytes;
use tempfile::TempDir;

const ONE: PartitionId = PartitionId(1);

fn options() -> LocalOptions {
    LocalOptions { cache_bytes: 1 << 20, ..LocalOptions::default() }
}

fn open(dir: &Path) -> Result<Arc<Local>, Error> {
    Local::open(dir, options())
}

async fn owner(store: &Local) -> Arc<dyn Owner> {
    store.open_owner(ONE, Claim::Take).await.unwrap()
}

async fn write(owner: &dyn Owner, batch: Vec<Op>) {
    owner.submit(batch).unwrap().durable().await.unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target)
        } else {
            std::fs::copy(&path, &target).map(drop).unwrap()
        }
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|extension| extension == "seg")).collect();
    segments.sort();
    segments
}

/// Three batches, and where in the only segment each of them ends.
async fn three_batches(dir: &Path) -> Vec<u64> {
    let store = open(dir).unwrap();
    let owner = owner(&store).await;
    let mut ends = Vec::new();
    for n in 1..=3 {
        let (key, value) = (format!("k{n}"), format!("value {n}"));
        write(&*owner, vec![put(Keyspace::Docs, &key, &value), put(Keyspace::Feed, &key, &value)])
            .await;
        ends.push(segments(dir)[0].metadata().unwrap().len());
    }
    ends
}

async fn count(dir: &Path) -> (usize, usize) {
    let store = open(dir).unwrap();
    let owner = owner(&store).await;
    let view = owner.published();
    (rows(&*view, Keyspace::Docs).await.len(), rows(&*view, Keyspace::Feed).await.len())
}

#[tokio::test]
async fn a_tail_torn_at_any_byte_is_cut() {
    let whole = TempDir::new().unwrap();
    let ends = three_batches(whole.path()).await;
    std::fs::remove_dir_all(whole.path().join("index")).unwrap();
    for cut in ends[1]..=ends[2] {
        let dir = TempDir::new().unwrap();
        copy(whole.path(), dir.path());
        let file = std::fs::OpenOptions::new().write(true).open(&segments(dir.path())[0]).unwrap();
        file.set_len(cut).unwrap();
        let expected = if cut == ends[2] { 3 } else { 2 };
        assert_eq!(count(dir.path()).await, (expected, expected), "cut at {cut}");
    }
}

#[tokio::test]
async fn zeros_behind_the_last_record_are_no_damage() {
    let dir = TempDir::new().unwrap();
    let ends = three_batches(dir.path()).await;
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&segments(dir.path())[0]).unwrap();
    file.set_len(ends[2] + 3_000_000).unwrap();
    assert_eq!(count(dir.path()).await, (3, 3));
    assert_eq!(count(dir.path()).await, (3, 3));
}

#[tokio::test]
async fn a_broken_record_before_valid_ones_is_named() {
    let whole = TempDir::new().unwrap();
    let ends = three_batches(whole.path()).await;
    std::fs::remove_dir_all(whole.path().join("index")).unwrap();
    for at in ends[0]..ends[1] {
        let dir = TempDir::new().unwrap();
        copy(whole.path(), dir.path());
        let path = &segments(dir.path())[0];
        let mut bytes = std::fs::read(path).unwrap();
        bytes[at as usize] ^= 0x40;
        std::fs::write(path, bytes).unwrap();
        let Err(Error::Corrupt(message)) = open(dir.path()) else { panic!("flip at {at} passed") };
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(message.contains(&format!("offset {}", ends[0])), "{message}");
    }
}

#[tokio::test]
async fn an_index_that_is_ahead_of_the_journal_is_refused() {
    let dir = TempDir::new().unwrap();
    let ends = three_batches(dir.path()).await;
    let file = std::fs::OpenOptions::new().write(true).open(&segments(dir.path())[0]).unwrap();
    file.set_len(ends[1]).unwrap();
    assert!(matches!(open(dir.path()), Err(Error::Corrupt(_))));
}

/// Writes feed rows that replace each other, as documents do.
async fn update(owner: &dyn Owner, dice: &mut Dice, rounds: u64, lsn: &mut u64) {
    let mut tickets = Vec::new();
    for _ in 0..rounds {
        let doc = Bytes::from(format!("doc{}", dice.below(100)));
        *lsn += 1;
        let mut batch = vec![
            Op::Put(Keyspace::Docs, doc.clone(), Bytes::copy_from_slice(&lsn.to_be_bytes())),
            Op::Put(Keyspace::Feed, Bytes::copy_from_slice(&lsn.to_be_bytes()), body(*lsn)),
            put(Keyspace::Meta, "head", &lsn.to_string()),
        ];
        if let Some(old) = owner.published().get(Keyspace::Docs, &doc).await.unwrap() {
            batch.push(Op::DeleteOnce(Keyspace::Feed, old));
        }
        tickets.push(owner.submit(batch).unwrap());
        // The old row is read from what is published, so one write at a time.
        tickets.pop().unwrap().durable().await.unwrap();
    }
}

fn body(lsn: u64) -> Bytes {
    Bytes::from(vec![lsn as u8; 500 + (lsn % 700) as usize])
}

/// Every document has its body in the feed, and the feed has nothing else.
async fn check_documents(view: &dyn View) -> usize {
    let docs = rows(view, Keyspace::Docs).await;
    let feed = rows(view, Keyspace::Feed).await;
    assert_eq!(docs.len(), feed.len());
    for (_, lsn) in &docs {
        let number = u64::from_be_bytes(lsn[..].try_into().unwrap());
        assert_eq!(view.get(Keyspace::Feed, lsn).await.unwrap(), Some(body(number)));
    }
    docs.len()
}

#[tokio::test]
async fn an_older_index_or_none_is_brought_up_to_date() {
    let (dir, older) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (mut dice, mut lsn) = (Dice(1), 0);
    for round in 0..2 {
        let store = open(dir.path()).unwrap();
        // Little enough to stay in one segment: a second one would let the first be reclaimed.
        update(&*owner(&store).await, &mut dice, 120, &mut lsn).await;
        drop(store);
        if round == 0 {
            copy(&dir.path().join("index"), older.path());
        }
    }
    for replace in [true, false] {
        std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        if replace {
            copy(older.path(), &dir.path().join("index"));
        }
        let store = open(dir.path()).unwrap();
        let owner = owner(&store).await;
        assert!(check_documents(&*owner.published()).await > 40);
        let head = owner.published().get(Keyspace::Meta, b"head").await.unwrap();
        assert_eq!(head, Some(Bytes::from("240")));
        store.reclaim().unwrap();
        let live = figure(&store, "segment_live_bytes");
        let feed = rows(&*owner.published(), Keyspace::Feed).await;
        assert_eq!(live, feed.iter().map(|(_, value)| value.len() as u64).sum::<u64>());
    }
}

#[tokio::test]
async fn without_index_and_first_segment_nothing_is_guessed() {
    let dir = TempDir::new().unwrap();
    let small = LocalOptions { segment_bytes: 2048, ..options() };
    let store = Local::open(dir.path(), small).unwrap();
    let first = owner(&store).await;
    for n in 0..20 {
        write(&*first, vec![put(Keyspace::Feed, &n.to_string(), &"x".repeat(1000))]).await;
    }
    drop((first, store));
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    std::fs::remove_file(&segments(dir.path())[0]).unwrap();
    assert!(matches!(open(dir.path()), Err(Error::Corrupt(_))));
}

#[tokio::test]
async fn an_altered_value_is_not_returned() {
    let dir = TempDir::new().unwrap();
    three_batches(dir.path()).await;
    let path = &segments(dir.path())[0];
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(7).rposition(|window| window == b"value 2").unwrap();
    bytes[at] = b'V';
    std::fs::write(path, bytes).unwrap();
    let store = open(dir.path()).unwrap();
    let owner = owner(&store).await;
    let Err(Error::Corrupt(message)) = owner.published().get(Keyspace::Feed, b"k2").await else {
        panic!("an altered value was returned")
    };
    assert!(message.contains(&format!("offset {at}")), "{message}");
    assert_eq!(owner.published().get(Keyspace::Feed, b"k3").await.unwrap().unwrap(), "value 3");
}

async fn poisoned(fail: fn(&Faults)) {
    let dir = TempDir::new().unwrap();
    let faults = Arc::new(Faults::default());
    let store = Local::open(dir.path(), LocalOptions { faults: Some(faults.clone()), ..options() })
        .unwrap();
    let first = owner(&store).await;
    write(&*first, vec![put(Keyspace::Feed, "a", "1")]).await;
    fail(&faults);
    let ticket = first.submit(vec![put(Keyspace::Feed, "a", "2")]).unwrap();
    assert!(matches!(ticket.durable().await, Err(Error::Poisoned(_))));
    assert!(matches!(first.submit(vec![]), Err(Error::Poisoned(_))));
    assert!(matches!(store.open_owner(ONE, Claim::Take).await, Err(Error::Poisoned(_))));
    assert_eq!(first.published().get(Keyspace::Feed, b"a").await.unwrap().unwrap(), "1");
    drop((first, store));
    let store = open(dir.path()).unwrap();
    write(&*owner(&store).await, vec![put(Keyspace::Feed, "b", "1")]).await;
}

#[tokio::test]
async fn a_failed_write_poisons_the_store() {
    poisoned(Faults::fail_writes).await;
}

#[tokio::test]
async fn a_failed_sync_poisons_the_store() {
    poisoned(Faults::fail_syncs).await;
}

#[tokio::test]
async fn nothing_is_visible_before_its_sync() {
    let dir = TempDir::new().unwrap();
    let faults = Arc::new(Faults::default());
    let store = Local::open(dir.path(), LocalOptions { faults: Some(faults.clone()), ..options() })
        .unwrap();
    let owner = owner(&store).await;
    faults.hold_syncs();
    let ticket = owner.submit(vec![put(Keyspace::Docs, "a", "1")]).unwrap();
    faults.held();
    assert_eq!(owner.published().get(Keyspace::Docs, b"a").await.unwrap(), None);
    faults.release();
    ticket.durable().await.unwrap();
    assert_eq!(owner.published().get(Keyspace::Docs, b"a").await.unwrap().unwrap(), "1");
}

#[tokio::test]
async fn a_takeover_fails_what_is_queued_but_not_what_is_being_written() {
    let dir = TempDir::new().unwrap();
    let faults = Arc::new(Faults::default());
    let store = Local::open(dir.path(), LocalOptions { faults: Some(faults.clone()), ..options() })
        .unwrap();
    let first = owner(&store).await;
    faults.hold_syncs();
    let written = first.submit(vec![put(Keyspace::Docs, "a", "1")]).unwrap();
    faults.held();
    let queued = first.submit(vec![put(Keyspace::Docs, "b", "1")]).unwrap();
    let taking = store.clone();
    let second = tokio::spawn(async move { taking.open_owner(ONE, Claim::Take).await.unwrap() });
    // Fails before the takeover is complete, while the sync is still held.
    assert!(matches!(queued.durable().await, Err(Error::Fenced)));
    faults.release();
    written.durable().await.unwrap();
    let second = second.await.unwrap();
    assert_eq!(rows(&*second.published(), Keyspace::Docs).await.len(), 1);
}

#[tokio::test]
async fn a_full_queue_says_busy() {
    let dir = TempDir::new().unwrap();
    let faults = Arc::new(Faults::default());
    let small = LocalOptions { queue_bytes: 10_000, faults: Some(faults.clone()), ..options() };
    let store = Local::open(dir.path(), small).unwrap();
    let owner = owner(&store).await;
    faults.hold_syncs();
    let large = || vec![put(Keyspace::Docs, "a", &"x".repeat(4000))];
    let mut tickets = vec![owner.submit(large()).unwrap(), owner.submit(large()).unwrap()];
    assert!(matches!(owner.submit(large()), Err(Error::Busy)));
    faults.release();
    for ticket in tickets.drain(..) {
        ticket.durable().await.unwrap();
    }
    write(&*owner, large()).await;
}

#[tokio::test]
async fn a_directory_has_one_user() {
    let dir = TempDir::new().unwrap();
    let _store = open(dir.path()).unwrap();
    let Err(Error::Refused(message)) = open(dir.path()) else { panic!("opened twice") };
    assert!(message.contains(&dir.path().display().to_string()), "{message}");
}

#[tokio::test]
async fn an_unknown_format_is_refused() {
    let dir = TempDir::new().unwrap();
    drop(open(dir.path()).unwrap());
    std::fs::write(dir.path().join("FORMAT"), "astrarium store, format 9\n").unwrap();
    let Err(Error::Refused(message)) = open(dir.path()) else { panic!("opened") };
    assert!(message.contains("format 9") && message.contains("format 4"), "{message}");
}

fn figure(store: &Local, name: &str) -> u64 {
    store.figures().into_iter().find(|figure| figure.0 == name).unwrap().1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn segments_are_compacted_under_readers_and_writers() {
    let dir = TempDir::new().unwrap();
    let small = LocalOptions {
        segment_bytes: 64 << 10,
        layer_bytes: 64 << 10,
        durability: Durability::Os,
        ..options()
    };
    let store = Local::open(dir.path(), small).unwrap();
    let owner = owner(&store).await;
    let (mut dice, mut lsn) = (Dice(2), 0);
    update(&*owner, &mut dice, 200, &mut lsn).await;
    let old_view = owner.published();
    let old_rows = rows(&*old_view, Keyspace::Feed).await;

    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (done, owner) = (done.clone(), owner.clone());
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                check_documents(&*owner.published()).await;
            }
        })
    };
    let reclaimer = {
        let (done, store) = (done.clone(), store.clone());
        std::thread::spawn(move || {
            let mut freed = 0;
            while !done.load(Ordering::Relaxed) {
                freed += store.reclaim().unwrap();
            }
            freed
        })
    };
    update(&*owner, &mut dice, 4000, &mut lsn).await;
    done.store(true, Ordering::Relaxed);
    reader.await.unwrap();
    reclaimer.join().unwrap();
    store.reclaim().unwrap();

    assert_eq!(rows(&*old_view, Keyspace::Feed).await, old_rows, "a view lost its values");
    drop(old_view);
    assert_eq!(check_documents(&*owner.published()).await, 100);
    let (used, live) = (figure(&store, "segment_bytes"), figure(&store, "segment_live_bytes"));
    assert!(used < 3 * live + (256 << 10), "{used} bytes are kept for {live}");
    drop((owner, store));
    let on_disk: u64 = segments(dir.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(on_disk < 3 * live + (256 << 10), "{on_disk} bytes on disk for {live}");
    let store = open(dir.path()).unwrap();
    assert_eq!(check_documents(&*self::owner(&store).await.published()).await, 100);
}

type Model = std::collections::BTreeMap<(Keyspace, Bytes), Bytes>;

fn random_batch(dice: &mut Dice, model: &mut Model, n: u64) -> Vec<Op> {
    let mut batch = Vec::new();
    for _ in 0..1 + dice.below(6) {
        let keyspace = Keyspace::ALL[dice.below(5) as usize];
        let key = Bytes::from(format!("{:03}", dice.below(120)));
        if dice.below(3) == 0 {
            model.remove(&(keyspace, key.clone()));
            batch.push(Op::Delete(keyspace, key));
        } else {
            let value = Bytes::from(format!("{n} {}", "x".repeat(dice.below(40) as usize)));
            model.insert((keyspace, key.clone()), value.clone());
            batch.push(Op::Put(keyspace, key, value));
        }
    }
    // A key that is put once and removed once, over and over.
    let once = Bytes::from_static(b"once");
    match model.remove(&(Keyspace::Index, once.clone())) {
        Some(_) => batch.push(Op::DeleteOnce(Keyspace::Index, once)),
        None => {
            model.insert((Keyspace::Index, once.clone()), Bytes::from_static(b"1"));
            batch.push(Op::Put(Keyspace::Index, once, Bytes::from_static(b"1")));
        }
    }
    batch
}

async fn check_model(view: &dyn View, model: &Model, dice: &mut Dice) {
    for keyspace in Keyspace::ALL {
        let expected = model.iter().filter(|((space, _), _)| *space == keyspace);
        let expected: Vec<_> =
            expected.map(|((_, key), value)| (key.clone(), value.clone())).collect();
        assert_eq!(rows(view, keyspace).await, expected);
        let key = Bytes::from(format!("{:03}", dice.below(120)));
        let found = view.get(keyspace, &key).await.unwrap();
        assert_eq!(found.as_ref(), model.get(&(keyspace, key.clone())));
        let below = Scan {
            keyspace,
            from: Bound::Unbounded,
            to: Bound::Excluded(key.clone()),
            reverse: true,
            rows: 3,
            bytes: usize::MAX,
            keys_only: false,
        };
        let last = view.scan(below).await.unwrap().rows;
        let mut wanted: Vec<_> = expected.into_iter().filter(|(at, _)| *at < key).collect();
        wanted.reverse();
        wanted.truncate(3);
        assert_eq!(last, wanted);
    }
}

#[tokio::test]
async fn layers_and_tree_are_read_as_one() {
    let dir = TempDir::new().unwrap();
    let small = LocalOptions {
        layer_bytes: 32 << 10,
        segment_bytes: 256 << 10,
        durability: Durability::Os,
        ..options()
    };
    let store = Local::open(dir.path(), small.clone()).unwrap();
    let owner = self::owner(&store).await;
    let (mut dice, mut model) = (Dice(7), Model::new());
    let mut kept: Vec<(Arc<dyn View>, Model)> = Vec::new();
    for n in 0..1500 {
        let batch = random_batch(&mut dice, &mut model, n);
        write(&*owner, batch).await;
        if n % 37 == 0 {
            check_model(&*owner.published(), &model, &mut dice).await;
            kept.push((owner.published(), model.clone()));
        }
        if kept.len() > 4 {
            let (view, then) = kept.swap_remove(dice.below(5) as usize);
            check_model(&*view, &then, &mut dice).await;
        }
    }
    drop((kept, owner, store));
    let store = Local::open(dir.path(), small).unwrap();
    check_model(&*self::owner(&store).await.published(), &model, &mut dice).await;
}

#[tokio::test]
async fn what_lives_and_dies_in_memory_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let store = Local::open(dir.path(), options()).unwrap();
    let owner = owner(&store).await;
    let (mut dice, mut lsn) = (Dice(3), 0);
    update(&*owner, &mut dice, 300, &mut lsn).await;
    let before = figure(&store, "layer_bytes");
    update(&*owner, &mut dice, 3000, &mut lsn).await;
    assert!(figure(&store, "layer_bytes") < 2 * before, "dead rows stay in memory");
}

/// The key of an index row: what its stem is made of, and an item.
fn term(value: u64, item: u64) -> Bytes {
    let mut key = b"i        n".to_vec();
    key.extend_from_slice(&value.to_be_bytes());
    key.extend_from_slice(&[item as u8; 5]);
    key.into()
}

async fn check_terms(view: &dyn View, model: &Model, values: u64) {
    for value in 0..values {
        let (from, to) = (term(value, 0).slice(..18), term(value + 1, 0).slice(..18));
        let of_value = model.iter().filter(|((_, key), _)| *key >= from && *key < to);
        let expected: Vec<_> = of_value.map(|((_, key), row)| (key.clone(), row.clone())).collect();
        // One row at a time, some, and so many that filters are not asked.
        for most in [1_000, 3, 1] {
            let (mut found, mut from) = (Vec::new(), Bound::Included(from.clone()));
            loop {
                let scan = Scan {
                    keyspace: Keyspace::Terms,
                    from,
                    to: Bound::Excluded(to.clone()),
                    reverse: false,
                    rows: most,
                    bytes: usize::MAX,
                    keys_only: false,
                };
                let chunk = view.scan(scan).await.unwrap();
                found.extend(chunk.rows);
                match chunk.resume {
                    Some(resume) => from = Bound::Excluded(resume),
                    None => break,
                }
            }
            assert_eq!(found, expected, "value {value}, {most} rows at a time");
        }
    }
}

/// Values are looked up in many tables, some of which have filters and some not, while rows come and
/// go, layers are flushed and tables are compacted.
#[tokio::test]
async fn the_rows_of_a_value_are_found_in_whatever_table_they_are() {
    const VALUES: u64 = 300;
    let dir = TempDir::new().unwrap();
    let small = LocalOptions {
        layer_bytes: 24 << 10,
        segment_bytes: 256 << 10,
        durability: Durability::Os,
        ..options()
    };
    let (mut dice, mut model) = (Dice(11), Model::new());
    let mut kept: Vec<(Arc<dyn View>, Model)> = Vec::new();
    for _ in 0..3 {
        let store = Local::open(dir.path(), small.clone()).unwrap();
        let owner = self::owner(&store).await;
        for n in 0..1200 {
            let mut batch = Vec::new();
            for _ in 0..4 {
                // Most values are in few layers.
                let value = (n / 4 + dice.below(8)) % VALUES;
                let key = term(value, dice.below(6));
                match model.remove(&(Keyspace::Terms, key.clone())) {
                    Some(_) => batch.push(Op::Delete(Keyspace::Terms, key)),
                    None => {
                        let row = Bytes::from(n.to_string());
                        model.insert((Keyspace::Terms, key.clone()), row.clone());
                        batch.push(Op::Put(Keyspace::Terms, key, row));
                    }
                }
            }
            write(&*owner, batch).await;
            if n % 200 == 0 {
                kept.push((owner.published(), model.clone()));
            }
            if n % 400 == 399 {
                check_terms(&*owner.published(), &model, VALUES).await;
            }
        }
        for (view, then) in kept.drain(..) {
            check_terms(&*view, &then, VALUES).await;
        }
    }
}

/// All keys are found, and no others, one by one and many at once.
async fn check_keys(view: &dyn View, model: &std::collections::BTreeSet<u64>, most: u64) {
    let key = |n: u64| Bytes::from(format!("{n:06}"));
    let keys: Vec<Bytes> = (0..most).map(key).collect();
    for (run, chunk) in keys.chunks(100).enumerate() {
        let found = view.get_many(Keyspace::Docs, chunk).await.unwrap();
        for (i, (key, found)) in chunk.iter().zip(found).enumerate() {
            let expected = model.contains(&((run * 100 + i) as u64)).then(|| key.clone());
            assert_eq!(found, expected);
            assert_eq!(view.get(Keyspace::Docs, key).await.unwrap(), expected);
        }
    }
}

#[tokio::test]
async fn that_a_key_is_nowhere_is_known_again_after_a_restart() {
    const MOST: u64 = 12_000;
    let dir = TempDir::new().unwrap();
    let small = LocalOptions { layer_bytes: 64 << 10, durability: Durability::Os, ..options() };
    let (mut dice, mut model) = (Dice(11), std::collections::BTreeSet::new());
    for _ in 0..3 {
        let store = Local::open(dir.path(), small.clone()).unwrap();
        let (owner, others) = (owner(&store).await, store.open_owner(PartitionId(9), Claim::Take));
        let others = others.await.unwrap();
        for round in 0..40 {
            let key = |n: u64| Bytes::from(format!("{n:06}"));
            let batch = (0..100).map(|_| {
                let n = dice.below(MOST);
                match dice.below(4) {
                    0 => {
                        model.remove(&n);
                        Op::Delete(Keyspace::Docs, key(n))
                    }
                    _ => {
                        model.insert(n);
                        Op::Put(Keyspace::Docs, key(n), key(n))
                    }
                }
            });
            write(&*owner, batch.collect()).await;
            let unrelated = Op::Put(Keyspace::Docs, key(round), Bytes::new());
            write(&*others, vec![unrelated]).await;
        }
        check_keys(&*owner.published(), &model, MOST).await;
        store.survey();
        assert!(figure(&store, "known_keys") >= model.len() as u64);
        check_keys(&*owner.published(), &model, MOST).await;
        let lacks = |n: &u64| owner.lacks(Keyspace::Docs, format!("{n:06}").as_bytes()).is_some();
        let lacking: Vec<u64> = (0..MOST).filter(lacks).collect();
        assert!(!lacking.is_empty() && lacking.iter().all(|n| !model.contains(n)));
        let n = dice.below(MOST);
        model.insert(n);
        let key = Bytes::from(format!("{n:06}"));
        write(&*owner, vec![Op::Put(Keyspace::Docs, key.clone(), key)]).await;
        check_keys(&*owner.published(), &model, MOST).await;
    }
}

#[tokio::test]
async fn small_and_large_batches_share_a_group() {
    let dir = TempDir::new().unwrap();
    let faults = Arc::new(Faults::default());
    let store = Local::open(dir.path(), LocalOptions { faults: Some(faults.clone()), ..options() })
        .unwrap();
    let owner = self::owner(&store).await;
    let mut dice = Dice(5);
    let mut expected = Vec::new();
    for group in 0..4 {
        let groups = figure(&store, "groups");
        faults.hold_syncs();
        let mut tickets = vec![owner.submit(vec![put(Keyspace::Docs, "first", "1")]).unwrap()];
        faults.held();
        // More of them than the kernel takes slices at once.
        for n in 0..700 {
            let bytes =
                if dice.below(2) == 0 { dice.below(40) } else { 15_000 + dice.below(5_000) };
            let key = Bytes::from(format!("{group} {n:03}"));
            let value = Bytes::from(vec![b'a' + (n % 26) as u8; bytes as usize]);
            tickets.push(
                owner.submit(vec![Op::Put(Keyspace::Feed, key.clone(), value.clone())]).unwrap(),
            );
            expected.push((key, value));
        }
        faults.release();
        for ticket in tickets {
            ticket.durable().await.unwrap();
        }
        assert_eq!(figure(&store, "groups"), groups + 2);
        assert_eq!(rows(&*owner.published(), Keyspace::Feed).await, expected);
    }
    let crashed = TempDir::new().unwrap();
    copy(dir.path(), crashed.path());
    let store = Local::open(crashed.path(), options()).unwrap();
    assert_eq!(rows(&*self::owner(&store).await.published(), Keyspace::Feed).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_are_the_same_for_who_goes_through_them_and_who_looks_them_up() {
    const KEYS: u64 = 2_000;
    let dir = TempDir::new().unwrap();
    let small = LocalOptions { layer_bytes: 64 << 10, durability: Durability::Os, ..options() };
    let store = Local::open(dir.path(), small).unwrap();
    let owner = self::owner(&store).await;
    let over = Arc::new(AtomicBool::new(false));
    let key = |n: u64| Bytes::from(format!("{n:04}"));
    let readers: Vec<_> = (0..3_u64)
        .map(|seed| {
            let (owner, over, mut dice) = (owner.clone(), over.clone(), Dice(seed));
            tokio::spawn(async move {
                let mut looks = 0;
                while !over.load(Ordering::Acquire) || looks == 0 {
                    let view = owner.published();
                    let some: Vec<Bytes> = (0..50).map(|_| key(dice.below(KEYS))).collect();
                    // In either order: to go through rows changes how they are kept.
                    let early = view.get_many(Keyspace::Docs, &some[..25]).await.unwrap();
                    let all = rows(&*view, Keyspace::Docs).await;
                    let late = view.get_many(Keyspace::Docs, &some[25..]).await.unwrap();
                    let all: std::collections::BTreeMap<_, _> = all.into_iter().collect();
                    for (key, found) in some.iter().zip(early.into_iter().chain(late)) {
                        assert_eq!(found.as_ref(), all.get(key));
                    }
                    looks += 1;
                    if dice.below(4) == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                looks
            })
        })
        .collect();
    let (mut dice, mut model) = (Dice(42), std::collections::BTreeMap::new());
    for n in 0..1_500_u64 {
        let batch = (0..10).map(|_| {
            let key = key(dice.below(KEYS));
            if dice.below(3) == 0 {
                model.remove(&key);
                return Op::Delete(Keyspace::Docs, key);
            }
            let value = Bytes::from(n.to_string());
            model.insert(key.clone(), value.clone());
            Op::Put(Keyspace::Docs, key, value)
        });
        write(&*owner, batch.collect()).await;
    }
    over.store(true, Ordering::Release);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert_eq!(rows(&*owner.published(), Keyspace::Docs).await, Vec::from_iter(model));
}

/// A store whose syncs can be held, with two owners.
async fn held_store(dir: &Path) -> (Arc<Faults>, Arc<Local>, [Arc<dyn Owner>; 2]) {
    let faults = Arc::new(Faults::default());
    let options = LocalOptions { faults: Some(faults.clone()), ..options() };
    let store = Local::open(dir, options).unwrap();
    let one = store.open_owner(PartitionId(7), Claim::Take).await.unwrap();
    let other = store.open_owner(PartitionId(8), Claim::Take).await.unwrap();
    (faults, store, [one, other])
}

#[tokio::test]
async fn rows_that_every_commit_writes_are_as_the_last_one_left_them() {
    let dir = TempDir::new().unwrap();
    let (faults, store, owners) = held_store(dir.path()).await;
    let mut dice = Dice(11);
    let mut expected = [const { BTreeMap::<(u8, Bytes), Bytes>::new() }; 2];
    for _ in 0..40 {
        faults.hold_syncs();
        let mut tickets = Vec::new();
        for _ in 0..1 + dice.below(60) {
            let which = dice.below(2) as usize;
            let mut batch = Vec::new();
            for _ in 0..1 + dice.below(3) {
                let keyspace = [Keyspace::Meta, Keyspace::Index][dice.below(2) as usize];
                // Some keys are longer than those of rows that are written often.
                let key = Bytes::from("k".repeat(1 + dice.below(14) as usize));
                let place = (keyspace as u8, key.clone());
                if dice.below(4) == 0 {
                    expected[which].remove(&place);
                    batch.push(Op::Delete(keyspace, key));
                } else {
                    let value = Bytes::from(dice.below(1_000_000).to_string());
                    expected[which].insert(place, value.clone());
                    batch.push(Op::Put(keyspace, key, value));
                }
            }
            tickets.push(owners[which].submit(batch).unwrap());
        }
        faults.release();
        for ticket in tickets {
            ticket.durable().await.unwrap();
        }
        for (owner, expected) in owners.iter().zip(&expected) {
            let view = owner.published();
            let mut found = BTreeMap::new();
            for keyspace in [Keyspace::Meta, Keyspace::Index] {
                let rows = rows(&*view, keyspace).await;
                found.extend(rows.into_iter().map(|(key, value)| ((keyspace as u8, key), value)));
            }
            assert_eq!(found, *expected);
        }
    }
    let groups = figure(&store, "groups");
    assert!(groups < figure(&store, "commits"), "{groups} groups");
}

#[tokio::test]
async fn a_takeover_leaves_what_others_have_queued() {
    let dir = TempDir::new().unwrap();
    let (faults, store, [one, other]) = held_store(dir.path()).await;
    faults.hold_syncs();
    let first = one.submit(vec![put(Keyspace::Docs, "first", "1")]).unwrap();
    faults.held();
    let (mut fenced, mut kept) = (Vec::new(), Vec::new());
    // Every fourth is so large that it is not copied into the group.
    let value = |n: usize| n.to_string().repeat(if n.is_multiple_of(4) { 20_000 } else { 20 });
    for n in 1..20 {
        fenced.push(one.submit(vec![put(Keyspace::Docs, &format!("k{n}"), &value(n))]).unwrap());
        kept.push(other.submit(vec![put(Keyspace::Docs, &format!("k{n}"), &value(n))]).unwrap());
    }
    let taking = store.clone();
    let next =
        tokio::spawn(async move { taking.open_owner(PartitionId(7), Claim::Take).await.unwrap() });
    for ticket in fenced {
        assert!(matches!(ticket.durable().await, Err(Error::Fenced)));
    }
    faults.release();
    first.durable().await.unwrap();
    for ticket in kept {
        ticket.durable().await.unwrap();
    }
    let next = next.await.unwrap();
    assert_eq!(rows(&*next.published(), Keyspace::Docs).await.len(), 1);
    drop((one, other, next, store));
    let store = open(dir.path()).unwrap();
    let other = store.open_owner(PartitionId(8), Claim::Take).await.unwrap();
    let view = other.published();
    for n in 1..20 {
        let stored = view.get(Keyspace::Docs, format!("k{n}").as_bytes()).await.unwrap();
        assert_eq!(stored.unwrap(), value(n), "{n}");
    }
}

#[tokio::test]
async fn what_does_not_fit_into_a_group_comes_with_the_next() {
    let dir = TempDir::new().unwrap();
    let (faults, store, [owner, _]) = held_store(dir.path()).await;
    let groups = figure(&store, "groups");
    faults.hold_syncs();
    let mut tickets = vec![owner.submit(vec![put(Keyspace::Docs, "first", "1")]).unwrap()];
    faults.held();
    let mut expected = Vec::new();
    for n in 0..60_usize {
        let key = Bytes::from(format!("{n:02}"));
        let bytes = if n.is_multiple_of(2) { 1_000_000 } else { 10 * n };
        let value = Bytes::from(vec![b'a' + (n % 26) as u8; bytes]);
        let batch = vec![Op::Put(Keyspace::Feed, key.clone(), value.clone())];
        tickets.push(owner.submit(batch).unwrap());
        expected.push((key, value));
    }
    faults.release();
    for ticket in tickets {
        ticket.durable().await.unwrap();
    }
    assert_eq!(figure(&store, "groups"), groups + 3);
    assert_eq!(rows(&*owner.published(), Keyspace::Feed).await, expected);
}
