//! The guarantees of this crate as code: every adapter is run through these functions.
//!
//! They panic when a guarantee does not hold, as tests do. Randomness comes from a fixed seed.

#![allow(missing_docs, clippy::unwrap_used, clippy::missing_panics_doc)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::smallvec;
use tokio::sync::mpsc;

use crate::{
    Claim, CommitNo, Epoch, Error, Follow, Keyspace, Note, Op, Owner, PartitionId, Scan, Stores,
    Ticket, View,
};

/// An adapter under test.
pub trait Subject {
    /// The store.
    fn stores(&self) -> Arc<dyn Stores>;

    /// Loses what is not durable and opens the store again. `false` if it cannot crash.
    fn crash(&mut self) -> bool;
}

/// Numbers that look random and are the same each time.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }
}

const ONE: PartitionId = PartitionId(1);
const TWO: PartitionId = PartitionId(2);

/// Runs everything that holds for any adapter.
pub async fn all(make: impl Fn() -> Box<dyn Subject>) {
    batches_are_atomic(&mut *make()).await;
    batches_keep_their_order(&mut *make()).await;
    views_do_not_change(&mut *make()).await;
    former_owners_are_fenced(&mut *make()).await;
    scans_are_in_byte_order(&mut *make()).await;
    the_last_operation_of_a_batch_wins(&mut *make()).await;
    what_is_there_is_not_lacking(&mut *make()).await;
    who_follows_a_batch_is_told_once_it_can_be_read(&mut *make()).await;
    rows_deleted_once_stay_deleted(&mut *make()).await;
    partitions_are_apart(&mut *make()).await;
    too_large_is_refused(&mut *make()).await;
    trim_drops_rows_below(&mut *make()).await;
    destroy_removes_everything(&mut *make()).await;
    a_closed_store_takes_nothing(&mut *make()).await;
}

/// Guarantee 1.
pub async fn batches_are_atomic(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    let mut last = None;
    for round in 0..50_u64 {
        let value = bytes(&round.to_be_bytes());
        let batch = Keyspace::ALL
            .into_iter()
            .flat_map(|space| (0..5_u8).map(move |key| (space, bytes(&[key]))));
        let batch = batch.map(|(space, key)| Op::Put(space, key, value.clone())).collect();
        last = Some(owner.submit(batch).unwrap());
        assert_one_round(&*owner.published()).await;
    }
    last.unwrap().durable().await.unwrap();
    assert_eq!(assert_one_round(&*owner.published()).await, Some(49));
    drop(owner);
    if subject.crash() {
        let owner = open(subject, ONE).await;
        assert_eq!(assert_one_round(&*owner.published()).await, Some(49));
    }
}

async fn assert_one_round(view: &dyn View) -> Option<u64> {
    let mut seen = Vec::new();
    for space in Keyspace::ALL {
        for key in 0..5_u8 {
            seen.push(view.get(space, &[key]).await.unwrap());
        }
    }
    assert!(seen.iter().all(|value| *value == seen[0]), "a batch was seen in part: {seen:?}");
    seen[0].as_ref().map(|value| u64::from_be_bytes(value[..].try_into().unwrap()))
}

/// Guarantee 2.
pub async fn batches_keep_their_order(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    let mut tickets = Vec::new();
    for n in 0..200_u64 {
        let key = bytes(&n.to_be_bytes());
        tickets.push(owner.submit(vec![Op::Put(Keyspace::Feed, key.clone(), key)]).unwrap());
    }
    assert!(tickets.is_sorted_by(|a, b| a.no() < b.no()), "commits do not grow");
    let risen = owner.durable();
    for (n, ticket) in tickets.into_iter().enumerate() {
        let no = ticket.no();
        ticket.durable().await.unwrap();
        let view = owner.published();
        assert!(view.commit() >= no && *risen.borrow() >= no);
        let rows = keys(&*view, Keyspace::Feed).await;
        assert!(rows.len() > n, "an acknowledged batch is not visible");
        let gapless = rows.iter().enumerate().all(|(i, key)| key[..] == (i as u64).to_be_bytes());
        assert!(gapless, "what is visible is not a prefix");
    }
    drop(owner);
    if subject.crash() {
        let owner = open(subject, ONE).await;
        assert_eq!(keys(&*owner.published(), Keyspace::Feed).await.len(), 200);
        let later = owner.submit(vec![put(Keyspace::Feed, "z", "z")]).unwrap();
        assert!(later.no().0 > 200, "a commit number was used twice");
        later.durable().await.unwrap();
    }
}

/// Guarantee 3.
pub async fn views_do_not_change(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    let mut dice = Dice(3);
    let mut held = Vec::new();
    for _ in 0..60 {
        let batch = (0..20).map(|_| random_op(&mut dice, Keyspace::Feed)).collect();
        owner.submit(batch).unwrap().durable().await.unwrap();
        let view = owner.published();
        let rows = rows(&*view, Keyspace::Feed).await;
        held.push((view, rows));
    }
    for (view, before) in held {
        assert_eq!(rows(&*view, Keyspace::Feed).await, before);
        for (key, value) in before.iter().take(5) {
            assert_eq!(view.get(Keyspace::Feed, key).await.unwrap().as_ref(), Some(value));
        }
    }
}

/// Guarantee 4.
pub async fn former_owners_are_fenced(subject: &mut dyn Subject) {
    let first = open(subject, ONE).await;
    first.submit(vec![put(Keyspace::Meta, "a", "1")]).unwrap().durable().await.unwrap();
    let pending: Vec<Ticket> =
        (0..20).map(|_| first.submit(vec![put(Keyspace::Meta, "a", "2")]).unwrap()).collect();
    let second = open(subject, ONE).await;
    assert!(second.epoch() > first.epoch());
    let before = rows(&*second.published(), Keyspace::Meta).await;
    assert!(matches!(first.submit(vec![put(Keyspace::Meta, "a", "3")]), Err(Error::Fenced)));
    assert!(matches!(first.trim(Keyspace::Meta, bytes(b"z")), Err(Error::Fenced)));
    for ticket in pending {
        // Either it was durable before the takeover, or never.
        assert!(matches!(ticket.durable().await, Ok(()) | Err(Error::Fenced)));
    }
    assert_eq!(rows(&*second.published(), Keyspace::Meta).await, before);

    let stores = subject.stores();
    let stale = stores.open_owner(ONE, Claim::Expect(first.epoch())).await;
    assert!(matches!(stale, Err(Error::Fenced)), "a stale claim succeeded");
    let third = stores.open_owner(ONE, Claim::Expect(second.epoch())).await.unwrap();
    assert!(third.epoch() > second.epoch());
    assert!(matches!(second.submit(vec![]), Err(Error::Fenced)));
    let fresh = stores.open_owner(TWO, Claim::Expect(Epoch(0))).await.unwrap();
    let newest = third.epoch();
    drop((first, second, third, fresh, stores));
    if subject.crash() {
        let fourth = open(subject, ONE).await;
        assert!(fourth.epoch() > newest, "an epoch was forgotten");
    }
}

/// Guarantee 5, against a map.
pub async fn scans_are_in_byte_order(subject: &mut dyn Subject) {
    let mut dice = Dice(5);
    let mut model: BTreeMap<Keyspace, BTreeMap<Bytes, Bytes>> = BTreeMap::new();
    let mut owner = open(subject, ONE).await;
    for round in 0..40 {
        for _ in 0..8 {
            let space = Keyspace::ALL[dice.below(6) as usize];
            let batch: Vec<Op> = (0..25).map(|_| random_op(&mut dice, space)).collect();
            let known = model.entry(space).or_default();
            batch.iter().for_each(|op| apply(known, op));
            owner.submit(batch).unwrap().durable().await.unwrap();
        }
        if round % 10 == 9 {
            drop(owner);
            subject.crash();
            owner = open(subject, ONE).await;
        }
        let view = owner.published();
        for (space, known) in &model {
            check_scan(&*view, &mut dice, *space, known).await;
        }
    }
}

async fn check_scan(
    view: &dyn View,
    dice: &mut Dice,
    space: Keyspace,
    model: &BTreeMap<Bytes, Bytes>,
) {
    let (from, to) = (random_bound(dice), random_bound(dice));
    let reverse = dice.below(2) == 1;
    let mut expected: Vec<_> = model
        .iter()
        .filter(|(key, _)| within(key, &from, &to))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if reverse {
        expected.reverse();
    }
    let scan = Scan {
        keyspace: space,
        from,
        to,
        reverse,
        rows: 1 + dice.below(30) as usize,
        bytes: 1 + dice.below(3000) as usize,
        keys_only: dice.below(4) == 0,
    };
    if scan.keys_only {
        expected.iter_mut().for_each(|row| row.1 = Bytes::new());
    }
    assert_eq!(drain(view, scan).await, expected);
    // As they come; in order, with much or little between them; some twice.
    let mut wanted: Vec<Bytes> = (0..10).map(|_| random_key(dice)).collect();
    for more in [10, 40, 0] {
        let values = view.get_many(space, &wanted).await.unwrap();
        let known: Vec<_> = wanted.iter().map(|key| model.get(key).cloned()).collect();
        assert_eq!(values, known);
        wanted.extend((0..more).map(|_| random_key(dice)));
        wanted.sort();
    }
}

pub async fn the_last_operation_of_a_batch_wins(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    for space in Keyspace::ALL {
        let batch = vec![
            put(space, "a", "1"),
            put(space, "a", "2"),
            put(space, "b", "1"),
            Op::Delete(space, bytes(b"b")),
            Op::Delete(space, bytes(b"c")),
            put(space, "c", "3"),
        ];
        owner.submit(batch).unwrap().durable().await.unwrap();
        let expected = vec![(bytes(b"a"), bytes(b"2")), (bytes(b"c"), bytes(b"3"))];
        assert_eq!(rows(&*owner.published(), space).await, expected);
    }
}

/// Of a key that is there it is never said that it is not.
pub async fn what_is_there_is_not_lacking(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    let mut dice = Dice(8);
    for _ in 0..100 {
        let batch = (0..20).map(|_| random_op(&mut dice, Keyspace::Docs)).collect();
        let last = owner.submit(batch).unwrap();
        let no = last.no();
        last.durable().await.unwrap();
        let view = owner.published();
        for key in (0..100).map(|_| random_key(&mut dice)) {
            if let Some(commit) = owner.lacks(Keyspace::Docs, &key) {
                assert!(commit >= no && commit <= owner.published().commit());
                assert_eq!(view.get(Keyspace::Docs, &key).await.unwrap(), None);
            }
        }
    }
}

/// Hands on what it is told, with the state that can be read then.
struct Followed {
    owner: Arc<dyn Owner>,
    told: mpsc::UnboundedSender<(CommitNo, Note)>,
}

impl Followed {
    fn of(owner: &Arc<dyn Owner>) -> (Arc<dyn Follow>, mpsc::UnboundedReceiver<(CommitNo, Note)>) {
        let (told, all) = mpsc::unbounded_channel();
        (Arc::new(Self { owner: owner.clone(), told }), all)
    }
}

impl Follow for Followed {
    fn durable(&self, notes: &[Note]) {
        for note in notes {
            self.told.send((self.owner.published().commit(), note.clone())).unwrap();
        }
    }
}

/// And never if the batch fails, as one of a fenced owner does.
pub async fn who_follows_a_batch_is_told_once_it_can_be_read(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    let (one, mut told) = Followed::of(&owner);
    let (two, mut told_two) = Followed::of(&owner);
    let batch = || vec![put(Keyspace::Docs, "a", "1")];
    let note = |number| Note { number, marks: smallvec![number + 1, number + 2] };
    let mut last = CommitNo(0);
    for n in 0..30 {
        let follower = if n % 5 == 4 { &two } else { &one };
        // Nobody has to wait for a ticket, nor to follow.
        let then = (n % 3 < 2).then(|| (follower, note(n)));
        last = owner.submit_then(batch(), then).unwrap().no();
    }
    owner.submit(batch()).unwrap().durable().await.unwrap();
    for (told, fifth) in [(&mut told, false), (&mut told_two, true)] {
        for n in (0..30).filter(|n| n % 3 < 2 && (n % 5 == 4) == fifth) {
            let (commit, told) = told.recv().await.unwrap();
            assert!(commit.0 >= last.0 - (29 - n));
            assert_eq!((told.number, &told.marks[..]), (n, &[n + 1, n + 2][..]));
        }
    }
    let _newer = open(subject, ONE).await;
    assert!(owner.submit_then(batch(), Some((&one, note(0)))).is_err());
    assert!(told.try_recv().is_err() && told_two.try_recv().is_err());
}

/// A row that is deleted and put again within one batch, or one group, has still been put once
/// since it was absent; what lies beneath must not come back when it is deleted.
pub async fn rows_deleted_once_stay_deleted(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    for space in Keyspace::ALL {
        let once = || Op::DeleteOnce(space, bytes(b"k"));
        owner.submit(vec![put(space, "k", "1")]).unwrap().durable().await.unwrap();
        owner.submit(vec![once(), put(space, "k", "2")]).unwrap().durable().await.unwrap();
        owner.submit(vec![once()]).unwrap();
        owner.submit(vec![put(space, "k", "3")]).unwrap();
        owner.submit(vec![once()]).unwrap().durable().await.unwrap();
        assert_eq!(owner.published().get(space, b"k").await.unwrap(), None);
        // Enough rows that an adapter which merges its files does so.
        for n in 0..20_u64 {
            let filler = (0..50_u64)
                .map(|i| Op::Put(space, bytes(&(n * 50 + i).to_be_bytes()), bytes(&[7; 100])));
            owner.submit(filler.collect()).unwrap().durable().await.unwrap();
        }
        assert_eq!(owner.published().get(space, b"k").await.unwrap(), None);
    }
}

pub async fn partitions_are_apart(subject: &mut dyn Subject) {
    let (one, two) = (open(subject, ONE).await, open(subject, TWO).await);
    let last = open(subject, PartitionId(u64::MAX)).await;
    for (owner, value) in [(&one, "1"), (&two, "2"), (&last, "3")] {
        owner.submit(vec![put(Keyspace::Docs, "k", value)]).unwrap().durable().await.unwrap();
    }
    for (owner, value) in [(&one, b"1"), (&two, b"2"), (&last, b"3")] {
        let expected = vec![(bytes(b"k"), bytes(value))];
        assert_eq!(rows(&*owner.published(), Keyspace::Docs).await, expected);
    }
}

pub async fn too_large_is_refused(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    let limits = subject.stores().limits();
    let key = Bytes::from(vec![1; limits.key_bytes + 1]);
    let value = Bytes::from(vec![1; limits.value_bytes + 1]);
    let long_key = owner.submit(vec![Op::Delete(Keyspace::Docs, key.clone())]);
    assert!(matches!(long_key, Err(Error::TooLarge(_))));
    let long_value = owner.submit(vec![Op::Put(Keyspace::Docs, bytes(b"k"), value.clone())]);
    assert!(matches!(long_value, Err(Error::TooLarge(_))));
    let most = value.slice(..limits.value_bytes);
    let many = limits.batch_bytes / limits.value_bytes + 1;
    let batch = (0..many).map(|_| Op::Put(Keyspace::Docs, bytes(b"k"), most.clone())).collect();
    assert!(matches!(owner.submit(batch), Err(Error::TooLarge(_))));
    let longest = key.slice(..limits.key_bytes);
    for space in [Keyspace::Docs, Keyspace::Feed] {
        let batch = vec![Op::Put(space, longest.clone(), most.clone())];
        owner.submit(batch).unwrap().durable().await.unwrap();
        let view = owner.published();
        assert_eq!(view.get(space, &longest).await.unwrap(), Some(most.clone()));
    }
}

pub async fn trim_drops_rows_below(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    let number = |n: u64| bytes(&n.to_be_bytes());
    let batch = (0..1500).map(|n| Op::Put(Keyspace::Log, number(n), number(n))).collect();
    owner.submit(batch).unwrap().durable().await.unwrap();
    let mut risen = owner.durable();
    owner.trim(Keyspace::Log, number(1200)).unwrap();
    // A trim may be lazy; it shows as commits of the partition.
    while keys(&*owner.published(), Keyspace::Log).await.len() > 300 {
        risen.changed().await.unwrap();
    }
    assert_eq!(keys(&*owner.published(), Keyspace::Log).await.first(), Some(&number(1200)));
}

pub async fn destroy_removes_everything(subject: &mut dyn Subject) {
    let (one, two) = (open(subject, ONE).await, open(subject, TWO).await);
    for space in Keyspace::ALL {
        for owner in [&one, &two] {
            let batch = (0..1200_u64)
                .map(|n| Op::Put(space, bytes(&n.to_be_bytes()), bytes(b"v")))
                .collect();
            owner.submit(batch).unwrap().durable().await.unwrap();
        }
    }
    subject.stores().destroy(ONE).await.unwrap();
    subject.stores().destroy(ONE).await.unwrap();
    assert!(matches!(one.submit(vec![]), Err(Error::Fenced)), "its owner still writes");
    let again = open(subject, ONE).await;
    for space in Keyspace::ALL {
        assert!(rows(&*again.published(), space).await.is_empty());
        assert_eq!(rows(&*two.published(), space).await.len(), 1200);
    }
}

pub async fn a_closed_store_takes_nothing(subject: &mut dyn Subject) {
    let owner = open(subject, ONE).await;
    let ticket = owner.submit(vec![put(Keyspace::Docs, "k", "v")]).unwrap();
    subject.stores().close().await.unwrap();
    ticket.durable().await.unwrap();
    assert!(matches!(owner.submit(vec![]), Err(Error::Closed)));
    assert!(matches!(subject.stores().open_owner(ONE, Claim::Take).await, Err(Error::Closed)));
}

/// Opens a partition, whoever has it.
pub async fn open(subject: &dyn Subject, partition: PartitionId) -> Arc<dyn Owner> {
    subject.stores().open_owner(partition, Claim::Take).await.unwrap()
}

/// A put of two short texts.
pub fn put(space: Keyspace, key: &str, value: &str) -> Op {
    Op::Put(space, bytes(key.as_bytes()), bytes(value.as_bytes()))
}

/// All rows of a keyspace.
pub async fn rows(view: &dyn View, keyspace: Keyspace) -> Vec<(Bytes, Bytes)> {
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    let scan =
        Scan { keyspace, from, to, reverse: false, rows: 100, bytes: 1 << 16, keys_only: false };
    drain(view, scan).await
}

/// All keys of a keyspace.
pub async fn keys(view: &dyn View, keyspace: Keyspace) -> Vec<Bytes> {
    rows(view, keyspace).await.into_iter().map(|(key, _)| key).collect()
}

async fn drain(view: &dyn View, mut scan: Scan) -> Vec<(Bytes, Bytes)> {
    let mut all = Vec::new();
    loop {
        let chunk = view.scan(scan.clone()).await.unwrap();
        assert!(chunk.rows.len() <= scan.rows);
        all.extend(chunk.rows);
        match chunk.resume {
            None => return all,
            Some(key) if scan.reverse => scan.to = Bound::Excluded(key),
            Some(key) => scan.from = Bound::Excluded(key),
        }
    }
}

fn bytes(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn random_key(dice: &mut Dice) -> Bytes {
    let length = dice.below(4) as usize;
    (0..length).map(|_| [0, 1, 127, 128, 254, 255][dice.below(6) as usize]).collect()
}

fn random_op(dice: &mut Dice, space: Keyspace) -> Op {
    let key = random_key(dice);
    if dice.below(3) == 0 {
        return Op::Delete(space, key);
    }
    let value = vec![dice.roll() as u8; dice.below(300) as usize];
    Op::Put(space, key, Bytes::from(value))
}

fn random_bound(dice: &mut Dice) -> Bound<Bytes> {
    match dice.below(4) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(random_key(dice)),
        _ => Bound::Included(random_key(dice)),
    }
}

fn within(key: &Bytes, from: &Bound<Bytes>, to: &Bound<Bytes>) -> bool {
    let above = match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let below = match to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    above && below
}

fn apply(model: &mut BTreeMap<Bytes, Bytes>, op: &Op) {
    match op {
        Op::Put(_, key, value) => model.insert(key.clone(), value.clone()),
        Op::Delete(_, key) | Op::DeleteOnce(_, key) => model.remove(key),
    };
}
