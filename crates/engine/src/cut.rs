//! Where to cut a partition in two.
//!
//! A cut is the hash of some key. What lies below it by the bytes of item keys must be what lies
//! below it as a hash, so a cut is never longer than the part of every key's hash that cannot be the
//! beginning of another's: for version 1 that is the number in front, for version 2 all of it.

use std::ops::Bound;

use bytes::Bytes;
use kv::{Keyspace, Scan};
use model::epk::{Epk, EpkRange};
use model::partition_key::Definition;
use model::{Error, Result};

use crate::api::storage;
use crate::keys::{self, HASH_BYTES, Slot};
use crate::partition::Partition;

/// Keys looked at in one scan.
const CHUNK_KEYS: usize = 4_096;
/// How numbers are marked in hashes of version 1.
const NUMBER: u8 = 5;

/// Whether an item's key, or what else begins with its hash, lies in a span.
pub(crate) fn holds(span: &EpkRange, item_key: &[u8]) -> bool {
    *span.min.significant() <= *item_key
        && (span.max == Epk::max() || *item_key < *span.max.significant())
}

/// The cut that leaves about half of the items on each side; `None` where all have the same hash,
/// or there are none.
pub(crate) async fn median(partition: &Partition, definition: &Definition) -> Result<Option<Epk>> {
    let (_, view) = partition.view();
    let half = partition.head().items / 2;
    let (mut seen, mut from) = (0, Bound::Unbounded);
    let (mut first, mut last): (Option<Epk>, Option<Epk>) = (None, None);
    loop {
        let scan = Scan {
            keyspace: Keyspace::Docs,
            from,
            to: Bound::Unbounded,
            reverse: false,
            rows: CHUNK_KEYS,
            bytes: usize::MAX,
            keys_only: false,
        };
        let chunk = view.scan(scan).await.map_err(storage)?;
        for (key, stored) in &chunk.rows {
            // Places of deleted items are soon gone, and are not counted either.
            if Slot::item(Some(stored))?.is_none() {
                continue;
            }
            let hash = hash_of(key, definition)?;
            if *first.get_or_insert_with(|| hash.clone()) != hash {
                if seen >= half {
                    return Ok(Some(hash));
                }
                last = Some(hash);
            }
            seen += 1;
        }
        match chunk.resume {
            Some(resume) => from = Bound::<Bytes>::Excluded(resume),
            None => return Ok(last),
        }
    }
}

/// The cut in the middle of a span. Hashes of version 1 fill only a corner of the space.
pub(crate) fn middle(span: &EpkRange, definition: &Definition) -> Option<Epk> {
    let halves = if definition.version > 1 { span.split_even(2) } else { Vec::new() };
    halves.get(1).map(|upper| upper.min.clone())
}

/// How wide a span is, for comparing.
pub(crate) fn width(span: &EpkRange) -> u128 {
    // The first two bits of a hash are clear, so everything above is the end.
    const END: u128 = u128::MAX >> 2;
    let place = |epk: &Epk| {
        let mut bytes = [0; HASH_BYTES];
        let length = epk.as_bytes().len().min(HASH_BYTES);
        bytes[..length].copy_from_slice(&epk.as_bytes()[..length]);
        u128::from_be_bytes(bytes).min(END)
    };
    place(&span.max).saturating_sub(place(&span.min))
}

/// The two sides of a cut.
pub(crate) fn sides(span: &EpkRange, cut: Epk) -> Vec<EpkRange> {
    vec![EpkRange::new(span.min.clone(), cut.clone()), EpkRange::new(cut, span.max.clone())]
}

/// The refusal for what cannot be cut.
pub(crate) fn refusal(range: &str) -> Error {
    Error::bad_request(format!(
        "range {range} cannot be split: its items all have the same partition key value, or there \
         are none whose keys could tell where to cut"
    ))
}

/// The part of an item's key that a cut may be.
fn hash_of(item_key: &[u8], definition: &Definition) -> Result<Epk> {
    let length = match definition.version {
        1 if item_key.first() == Some(&NUMBER) => {
            // Behind the first byte come groups of bits, the lowest of which says that more follow.
            let ends = item_key.iter().skip(2).position(|group| group & 1 == 0);
            ends.map(|end| end + 3)
        }
        // The key of items without one.
        1 => Some(HASH_BYTES),
        _ => Some(HASH_BYTES * definition.paths.len()),
    };
    let hash = length.and_then(|length| item_key.get(..length));
    hash.map(Epk::from_bytes).ok_or_else(|| keys::corrupt("an item's key"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::partition_key::{Component, PartitionKey};
    use serde_json::json;

    fn definition(version: u8, paths: &[&str]) -> Definition {
        let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
        let json = json!({"paths": paths, "kind": kind, "version": version});
        Definition::from_json(&json, version).unwrap()
    }

    /// Cuts at the hash of every key must send every key's items where its hash says.
    fn check(definition: &Definition, keys: &[PartitionKey]) {
        let all = EpkRange::full();
        let stored = |key| keys::item_key(&keys::key_prefix(definition, key), "zzz");
        for cut in keys.iter().map(|key| hash_of(&stored(key), definition).unwrap()) {
            if cut == Epk::MIN {
                continue;
            }
            for (key, side) in keys
                .iter()
                .flat_map(|key| sides(&all, cut.clone()).into_iter().map(move |side| (key, side)))
            {
                let expected = side.contains(&definition.epk(key));
                assert_eq!(holds(&side, &stored(key)), expected, "{key:?} in {side:?}");
            }
        }
    }

    fn keys() -> Vec<PartitionKey> {
        let mut keys = vec![PartitionKey(vec![])];
        for n in 0..60 {
            keys.push(PartitionKey(vec![Component::String(format!("key {n}"))]));
            keys.push(PartitionKey(vec![Component::Number(f64::from(n))]));
        }
        for odd in [Component::Undefined, Component::Null, Component::Bool(true)] {
            keys.push(PartitionKey(vec![odd]));
        }
        keys.push(PartitionKey(vec![Component::String(String::new())]));
        keys.push(PartitionKey(vec![Component::String("x".repeat(300))]));
        keys
    }

    #[test]
    fn bytes_fall_on_the_side_of_their_hash() {
        check(&definition(1, &["/pk"]), &keys());
        check(&definition(2, &["/pk"]), &keys());
        let levels: Vec<PartitionKey> = keys()[1..]
            .iter()
            .map(|key| PartitionKey([&key.0[..], &key.0[..], &[Component::Null]].concat()))
            .collect();
        check(&definition(2, &["/a", "/b", "/c"]), &levels);
    }

    #[test]
    fn a_span_is_cut_in_its_middle_if_it_has_one() {
        let v2 = definition(2, &["/pk"]);
        let cut = middle(&EpkRange::full(), &v2).unwrap();
        assert_eq!(cut, EpkRange::full().split_even(2)[1].min);
        let [low, high] = &sides(&EpkRange::full(), cut)[..] else { panic!("two sides") };
        assert!(width(low).abs_diff(width(high)) <= 1);
        assert_eq!(middle(&EpkRange::full(), &definition(1, &["/pk"])), None);
        let narrow = EpkRange::new(Epk::from_bytes(&[1; 16]), Epk::from_bytes(&[1; 17]));
        assert_eq!(middle(&narrow, &v2), None);
    }
}
