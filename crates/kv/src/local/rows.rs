//! The rows of one keyspace in a layer: loose until somebody wants to go through them.
//!
//! To bring a row to its place among all others takes longer than anything else that is done for it in
//! memory. Who writes rows and looks single ones up does not need that: loose rows stand in the order in
//! which they came, and are found by their hash. Whoever goes through a range puts them in order, all at
//! once, and in order they are kept from then on.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;

use bytes::Bytes;
use hashbrown::HashTable;
use hashbrown::hash_table;

use super::filter::hash;
use super::recent::{State, Value};

/// A key's versions.
#[derive(Debug)]
pub(crate) struct Versions {
    pub since: State,
    pub value: Value,
    /// Newest first.
    pub older: Vec<(State, Value)>,
    /// Nothing was beneath when the key came here.
    pub fresh: bool,
    /// The key has not been removed since it came here.
    pub only_put: bool,
}

impl Versions {
    fn new(value: Value, fresh: bool, since: State) -> Self {
        Self { only_put: value != Value::Gone, since, value, older: Vec::new(), fresh }
    }

    pub(crate) fn at(&self, state: State) -> Option<&Value> {
        if self.since <= state {
            return Some(&self.value);
        }
        self.older.iter().find(|(since, _)| *since <= state).map(|(_, value)| value)
    }

    /// Sets the newest version, and drops those that no view from `oldest` on can see. Returns
    /// the bytes of values that went.
    pub(crate) fn set(&mut self, value: Value, state: State, oldest: State) -> usize {
        self.only_put &= value != Value::Gone;
        let before = std::mem::replace(&mut self.value, value);
        if self.since == state {
            return before.bytes();
        }
        let before_since = std::mem::replace(&mut self.since, state);
        let mut successor = before_since;
        let seen = self.older.iter().take_while(|(since, _)| {
            let kept = successor > oldest;
            successor = *since;
            kept
        });
        let seen = seen.count();
        let gone = self.older.drain(seen..).map(|(_, value)| value.bytes()).sum();
        self.older.insert(0, (before_since, before));
        gone
    }
}

/// A key with its first bytes at hand: most comparisons end there, without a look elsewhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowKey {
    head: u128,
    pub bytes: Bytes,
}

impl RowKey {
    fn of(key: &Bytes) -> Self {
        Self { head: head(key), bytes: key.clone() }
    }
}

/// What rows are looked up by: a key that is not owned compares as an owned one.
pub(crate) trait Key {
    fn head(&self) -> u128;
    fn bytes(&self) -> &[u8];
}

impl Key for RowKey {
    fn head(&self) -> u128 {
        self.head
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Key for (u128, &[u8]) {
    fn head(&self) -> u128 {
        self.0
    }

    fn bytes(&self) -> &[u8] {
        self.1
    }
}

impl<'a> Borrow<dyn Key + 'a> for RowKey {
    fn borrow(&self) -> &(dyn Key + 'a) {
        self
    }
}

impl Ord for dyn Key + '_ {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.head().cmp(&other.head()).then_with(|| self.bytes().cmp(other.bytes()))
    }
}

impl PartialOrd for dyn Key + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Key + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for dyn Key + '_ {}

impl Ord for RowKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.head.cmp(&other.head).then_with(|| self.bytes.cmp(&other.bytes))
    }
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RowKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for RowKey {}

/// The first bytes of a key as a number that orders as they do. A shorter key is filled up with
/// zeros; one that is equal so far is told from it by all of its bytes.
pub(crate) fn head(key: &[u8]) -> u128 {
    match key.first_chunk() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut first = [0; 16];
            first[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(first)
        }
    }
}

pub(crate) fn as_key<'a>(key: &'a (u128, &'a [u8])) -> &'a (dyn Key + 'a) {
    key
}

/// Keys in order, and where their rows are.
type Order = Vec<(RowKey, u32)>;

/// See the top of this file.
#[derive(Debug)]
pub(crate) enum Rows {
    Loose(Loose),
    Ordered(BTreeMap<RowKey, Versions>),
}

/// Rows in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Loose {
    /// In pieces, so that none is moved when there are more; nothing where one was removed.
    pieces: Vec<Vec<Option<LooseRow>>>,
    /// Where they are.
    places: HashTable<u32>,
    /// Places of rows that were removed.
    free: Vec<u32>,
}

#[derive(Debug)]
struct LooseRow {
    hash: u64,
    key: Bytes,
    versions: Versions,
}

/// Rows of a piece, as a power of two.
const PIECE_BITS: u32 = 9;

impl Rows {
    pub(crate) fn loose() -> Self {
        Self::Loose(Loose::default())
    }

    pub(crate) fn ordered() -> Self {
        Self::Ordered(BTreeMap::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Loose(rows) => rows.places.is_empty(),
            Self::Ordered(rows) => rows.is_empty(),
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Versions> {
        match self {
            Self::Loose(rows) => rows.get(key),
            Self::Ordered(rows) => rows.get(&(head(key), key) as &dyn Key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Versions> {
        match self {
            Self::Loose(rows) => rows.get_mut(key),
            Self::Ordered(rows) => rows.get_mut(&(head(key), key) as &dyn Key),
        }
    }

    /// Sets a key, and drops what no view from `oldest` on can see: returns the bytes of values that went,
    /// or nothing where the key is new. `fresh` says that no layer beneath has it.
    pub(crate) fn set(
        &mut self,
        key: Bytes,
        value: Value,
        fresh: bool,
        (state, oldest): (State, State),
    ) -> Option<usize> {
        match self {
            Self::Loose(rows) => rows.set(key, value, fresh, (state, oldest)),
            Self::Ordered(rows) => match rows.entry(RowKey { head: head(&key), bytes: key }) {
                Entry::Occupied(mut entry) => Some(entry.get_mut().set(value, state, oldest)),
                Entry::Vacant(entry) => {
                    entry.insert(Versions::new(value, fresh, state));
                    None
                }
            },
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Versions> {
        match self {
            Self::Loose(rows) => rows.remove(key),
            Self::Ordered(rows) => rows.remove(&(head(key), key) as &dyn Key),
        }
    }

    /// The order that they would have, if they have none. To find it takes most of the time.
    pub(crate) fn order(&self) -> Option<Order> {
        let Self::Loose(Loose { pieces, .. }) = self else { return None };
        let rows = pieces
            .iter()
            .flatten()
            .zip(0..)
            .filter_map(|(row, place)| row.as_ref().map(|row| (RowKey::of(&row.key), place)));
        let mut rows: Order = rows.collect();
        let mut order = Vec::with_capacity(rows.len());
        let Ok(()) = in_order(&rows, |n| -> Result<(), Infallible> {
            order.push(n);
            Ok(())
        });
        Some(order.into_iter().map(|n| std::mem::take(&mut rows[n])).collect())
    }

    /// Puts them in an order that was found before. Some may have come and gone since.
    pub(crate) fn put_in_order(&mut self, order: Order) {
        let Self::Loose(Loose { pieces, .. }) = self else { return };
        let known = order.into_iter().filter_map(|(key, place)| {
            let row = row_mut(pieces, place).take_if(|row| row.key == key.bytes)?;
            Some((key, row.versions))
        });
        let mut rows: BTreeMap<RowKey, Versions> = known.collect();
        let others = std::mem::take(pieces).into_iter().flatten().flatten();
        rows.extend(others.map(|row| (RowKey::of(&row.key), row.versions)));
        *self = Self::Ordered(rows);
    }

    /// All of them in order, if they are.
    pub(crate) fn in_order(&self) -> Option<&BTreeMap<RowKey, Versions>> {
        match self {
            Self::Loose(_) => None,
            Self::Ordered(rows) => Some(rows),
        }
    }

    /// The newest version of every row, as they stand.
    pub(crate) fn newest(&self) -> Vec<(RowKey, Value)> {
        match self {
            Self::Ordered(rows) => {
                rows.iter().map(|(key, row)| (key.clone(), row.value.clone())).collect()
            }
            Self::Loose(rows) => {
                let rows = rows.pieces.iter().flatten().flatten();
                rows.map(|row| (RowKey::of(&row.key), row.versions.value.clone())).collect()
            }
        }
    }
}

/// Hands the numbers of rows to `each`, in the order of their keys. Only their first bytes are looked at where
/// they differ; and rows that begin alike, as those of one partition key do, mostly have come in order. Those
/// are handed over right after they were compared, while they are at hand.
pub(crate) fn in_order<T, E>(
    rows: &[(RowKey, T)],
    mut each: impl FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    let key = |&(_, n): &(u128, u32)| &rows[n as usize].0.bytes;
    let mut order: Vec<(u128, u32)> = rows.iter().map(|(key, _)| key.head).zip(0..).collect();
    if !order.is_sorted() {
        order.sort_unstable();
    }
    for alike in order.chunk_by_mut(|one, other| one.0 == other.0) {
        if !alike.is_sorted_by_key(key) {
            alike.sort_unstable_by(|one, other| key(one).cmp(key(other)));
        }
        alike.iter().try_for_each(|(_, n)| each(*n as usize))?;
    }
    Ok(())
}

impl Loose {
    fn get(&self, key: &[u8]) -> Option<&Versions> {
        let place = self.find(hash(key), key)?;
        self.row(place).map(|row| &row.versions)
    }

    fn get_mut(&mut self, key: &[u8]) -> Option<&mut Versions> {
        let place = self.find(hash(key), key)?;
        row_mut(&mut self.pieces, place).as_mut().map(|row| &mut row.versions)
    }

    /// Sets a key; see [`Rows::set`].
    fn set(
        &mut self,
        key: Bytes,
        value: Value,
        fresh: bool,
        (state, oldest): (State, State),
    ) -> Option<usize> {
        let Self { pieces, places, free } = self;
        let hash = hash(&key);
        let of = |place: &u32| row(pieces, *place).map_or(0, |row| row.hash);
        let same =
            |place: &u32| row(pieces, *place).is_some_and(|row| row.hash == hash && row.key == key);
        match places.entry(hash, same, of) {
            hash_table::Entry::Occupied(entry) => {
                let row = row_mut(pieces, *entry.get()).as_mut();
                row.map(|row| row.versions.set(value, state, oldest))
            }
            hash_table::Entry::Vacant(entry) => {
                let place = free.pop().unwrap_or_else(|| next_place(pieces));
                entry.insert(place);
                let versions = Versions::new(value, fresh, state);
                *row_mut(pieces, place) = Some(LooseRow { hash, key, versions });
                None
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<Versions> {
        let (pieces, hash) = (&self.pieces, hash(key));
        let same = |place: &u32| row(pieces, *place).is_some_and(|row| row.key == key);
        let (place, _) = self.places.find_entry(hash, same).ok()?.remove();
        self.free.push(place);
        row_mut(&mut self.pieces, place).take().map(|row| row.versions)
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let same = |place: &u32| self.row(*place).is_some_and(|row| row.key == key);
        self.places.find(hash, same).copied()
    }

    fn row(&self, place: u32) -> Option<&LooseRow> {
        row(&self.pieces, place)
    }
}

fn row(pieces: &[Vec<Option<LooseRow>>], place: u32) -> Option<&LooseRow> {
    pieces[(place >> PIECE_BITS) as usize][(place % (1 << PIECE_BITS)) as usize].as_ref()
}

fn row_mut(pieces: &mut [Vec<Option<LooseRow>>], place: u32) -> &mut Option<LooseRow> {
    &mut pieces[(place >> PIECE_BITS) as usize][(place % (1 << PIECE_BITS)) as usize]
}

/// Makes room behind the last row.
fn next_place(pieces: &mut Vec<Vec<Option<LooseRow>>>) -> u32 {
    if pieces.last().is_none_or(|piece| piece.len() == 1 << PIECE_BITS) {
        // The first one grows: most layers of most keyspaces have few rows.
        let room = if pieces.is_empty() { 0 } else { 1 << PIECE_BITS };
        pieces.push(Vec::with_capacity(room));
    }
    let before = (pieces.len() - 1) << PIECE_BITS;
    let last = pieces.last_mut().expect("there is one");
    last.push(None);
    (before + last.len() - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Dice;

    fn newest(rows: &Rows) -> Vec<(RowKey, Value)> {
        let mut rows = rows.newest();
        rows.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        rows
    }

    #[test]
    fn loose_rows_are_as_ordered_ones() {
        let mut dice = Dice(9);
        for most in [3, 100, 3_000] {
            let (mut loose, mut ordered) = (Rows::loose(), Rows::ordered());
            for n in 1..20_000_u64 {
                // Some are longer than what is compared first, and alike up to there.
                let key = dice.below(most);
                let prefix = if key.is_multiple_of(2) { "" } else { "a beginning that many share" };
                let key = Bytes::from(format!("{prefix}{key}"));
                if dice.below(4) == 0 {
                    let gone = loose.remove(&key).map(|row| row.value);
                    assert_eq!(gone, ordered.remove(&key).map(|row| row.value));
                } else {
                    let value = Value::Put(Bytes::from(n.to_string()));
                    let now = (State(n), State(n.saturating_sub(dice.below(4))));
                    let went = loose.set(key.clone(), value.clone(), false, now);
                    assert_eq!(went, ordered.set(key.clone(), value, false, now));
                    let at = |rows: &mut Rows, state: u64| {
                        let there = rows.get(&key).unwrap().at(State(state)).cloned();
                        assert_eq!(rows.get_mut(&key).unwrap().at(State(state)), there.as_ref());
                        there
                    };
                    for state in [n, n - 1, n / 2] {
                        assert_eq!(at(&mut loose, state), at(&mut ordered, state));
                    }
                }
                if n.is_multiple_of(4_999) {
                    assert_eq!(newest(&loose), newest(&ordered));
                }
            }
            assert!(loose.in_order().is_none());
            let order = loose.order().unwrap();
            // Places of some that go are taken by some that come.
            for n in 0..most / 2 {
                let key = |n: u64| Bytes::from(n.to_string());
                for rows in [&mut loose, &mut ordered] {
                    rows.remove(&key(2 * n));
                    let now = (State(30_000), State(30_000));
                    rows.set(key(10_000 + n), Value::Gone, false, now);
                }
            }
            loose.put_in_order(order);
            assert!(loose.in_order().is_some() && loose.order().is_none());
            assert_eq!(newest(&loose), newest(&ordered));
        }
    }

    #[test]
    fn places_of_removed_rows_are_used_again() {
        let mut rows = Loose::default();
        for n in 0..100_000_u64 {
            let key = Bytes::from(n.to_string());
            rows.set(key, Value::Gone, false, (State(n), State(n)));
            if n >= 10 {
                assert!(rows.remove((n - 10).to_string().as_bytes()).is_some());
            }
        }
        assert_eq!((rows.places.len(), rows.pieces.len()), (10, 1));
    }
}
