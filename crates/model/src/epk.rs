//! Effective partition keys: where a key value lies in the space of hashes, and ranges there.
//!
//! An EPK is a string of bytes, written in upper-case hex. Trailing zero bytes do not count
//! when two are compared, but are kept for printing: clients expect all 32 digits of a hash.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::{Error, Result};

pub(crate) mod murmur;

/// A place in the space of hashes.
#[derive(Clone)]
pub struct Epk(Text);

/// Three levels of 16 bytes fit without an allocation; only version 1 keys can be longer.
const INLINE_BYTES: usize = 48;
/// The bytes of one hash.
const HASH_BYTES: usize = 16;
/// The largest hash: its first two bits are always clear.
const HASH_MAX: u128 = u128::MAX >> 2;

#[derive(Clone)]
enum Text {
    Inline { length: u8, bytes: [u8; INLINE_BYTES] },
    Heap(Box<[u8]>),
}

impl Epk {
    /// The lowest place, of no bytes.
    pub const MIN: Self = Self(Text::Inline { length: 0, bytes: [0; INLINE_BYTES] });

    /// The place above all keys, `FF`.
    pub fn max() -> Self {
        Self::from_bytes(&[0xFF])
    }

    /// The place of these bytes.
    pub fn from_bytes(text: &[u8]) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        let Some(inline) = bytes.get_mut(..text.len()) else {
            return Self(Text::Heap(text.into()));
        };
        inline.copy_from_slice(text);
        Self(Text::Inline { length: text.len() as u8, bytes })
    }

    /// Reads hex digits of either case.
    pub fn from_hex(text: &str) -> Result<Self> {
        let refusal = || {
            Error::bad_request(format!(
                "the effective partition key {:?} is not an even number of hex digits",
                text.chars().take(64).collect::<String>()
            ))
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return Err(refusal());
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        Ok(Self::from_bytes(&bytes.ok_or_else(refusal)?))
    }

    /// Upper-case hex digits of all bytes.
    pub fn to_hex(&self) -> String {
        let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
        self.as_bytes().iter().flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// All bytes, those of trailing zeros included.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Text::Heap(bytes) => bytes,
        }
    }

    /// The bytes that count: equal places have equal bytes here, and they sort as the places.
    pub fn significant(&self) -> &[u8] {
        let bytes = self.as_bytes();
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        &bytes[..end]
    }

    /// The next place, the bytes taken as one number.
    pub fn successor(&self) -> Self {
        let mut bytes = self.as_bytes().to_vec();
        if bytes.is_empty() {
            bytes.resize(HASH_BYTES, 0);
        }
        for byte in bytes.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                return Self::from_bytes(&bytes);
            }
        }
        Self::max()
    }

    /// This place with more bytes behind it.
    pub fn followed_by(&self, more: &[u8]) -> Self {
        Self::from_bytes(&[self.as_bytes(), more].concat())
    }

    /// The first 16 bytes as a number, at most the largest hash.
    fn as_hash(&self) -> u128 {
        let mut bytes = [0; HASH_BYTES];
        let length = self.as_bytes().len().min(HASH_BYTES);
        bytes[..length].copy_from_slice(&self.as_bytes()[..length]);
        u128::from_be_bytes(bytes).min(HASH_MAX)
    }
}

/// The hash of version 2 of these bytes, with the first two bits clear.
pub(crate) fn hash_v2(data: &[u8]) -> [u8; HASH_BYTES] {
    let (h1, h2) = murmur::x64_128(data, 0);
    let hash = u128::from(h2) << 64 | u128::from(h1);
    (hash & HASH_MAX).to_be_bytes()
}

/// A digest of any bytes, the same on every machine.
pub fn digest(data: &[u8]) -> [u8; HASH_BYTES] {
    let (h1, h2) = murmur::x64_128(data, 0);
    (u128::from(h2) << 64 | u128::from(h1)).to_be_bytes()
}

/// A short digest of any bytes, for telling things apart that are not secrets.
pub fn digest64(data: &[u8]) -> u64 {
    murmur::x64_128(data, 0).0
}

impl PartialEq for Epk {
    fn eq(&self, other: &Self) -> bool {
        self.significant() == other.significant()
    }
}

impl Eq for Epk {}

impl Hash for Epk {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.significant().hash(state);
    }
}

impl PartialOrd for Epk {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Epk {
    fn cmp(&self, other: &Self) -> Ordering {
        self.significant().cmp(other.significant())
    }
}

impl fmt::Debug for Epk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epk({})", self.to_hex())
    }
}

impl fmt::Display for Epk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// The places from `min` to before `max`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EpkRange {
    /// The first place.
    pub min: Epk,
    /// The place behind the last.
    pub max: Epk,
}

impl EpkRange {
    /// The range between two places.
    pub fn new(min: Epk, max: Epk) -> Self {
        Self { min, max }
    }

    /// The range of all keys.
    pub fn full() -> Self {
        Self::new(Epk::MIN, Epk::max())
    }

    /// Whether there is no place in it.
    pub fn is_empty(&self) -> bool {
        self.max <= self.min
    }

    /// Whether a place lies in it.
    pub fn contains(&self, epk: &Epk) -> bool {
        self.min <= *epk && *epk < self.max
    }

    /// Whether all of another range lies in it.
    pub fn covers(&self, other: &Self) -> bool {
        other.is_empty() || self.min <= other.min && other.max <= self.max
    }

    /// Whether the two have a place in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.intersect(other).is_some()
    }

    /// What the two have in common.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let min = self.min.clone().max(other.min.clone());
        let max = self.max.clone().min(other.max.clone());
        (min < max).then_some(Self { min, max })
    }

    /// Divides the hashes of the range evenly. The outer bounds stay as they are, so that
    /// pieces of the full range again run from nothing to `FF`. A range with fewer than
    /// `pieces` hashes gives as many as it has.
    pub fn split_even(&self, pieces: usize) -> Vec<Self> {
        let pieces = pieces.max(1) as u128;
        let low = self.min.as_hash();
        let span = self.max.as_hash().saturating_sub(low);
        let mut ranges = Vec::new();
        let mut min = self.min.clone();
        for piece in 1..pieces {
            // In two steps: the product of span and piece would not fit.
            let offset = span / pieces * piece + span % pieces * piece / pieces;
            let bound = Epk::from_bytes(&(low + offset).to_be_bytes());
            if min < bound && bound < self.max {
                ranges.push(Self::new(min, bound.clone()));
                min = bound;
            }
        }
        ranges.push(Self::new(min, self.max.clone()));
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epk(hex: &str) -> Epk {
        Epk::from_hex(hex).unwrap()
    }

    fn range(min: &str, max: &str) -> EpkRange {
        EpkRange::new(epk(min), epk(max))
    }

    #[test]
    fn trailing_zeros_print_but_do_not_count() {
        assert_eq!(epk("06AB"), epk("06ab0000"));
        assert_eq!(epk("06ab0000").to_hex(), "06AB0000");
        assert_eq!(epk("00"), Epk::MIN);
        assert!(epk("06AB") < epk("06AB01"));
        assert!(epk("06AB01") < epk("06AC"));
        assert!(epk("3FFF") < Epk::max());
        let long = "05".repeat(90);
        assert_eq!(epk(&long).to_hex(), long);
    }

    #[test]
    fn what_is_not_hex_is_refused() {
        for text in ["1", "0G", "é", "0x", "+1", "ABC", "  "] {
            assert_eq!(Epk::from_hex(text).unwrap_err().fault.status(), 400, "{text}");
        }
    }

    #[test]
    fn successors_carry() {
        assert_eq!(epk("00FF").successor(), epk("0100"));
        assert_eq!(epk("05").successor(), epk("06"));
        assert_eq!(epk("FFFF").successor(), Epk::max());
        assert!(EpkRange::new(Epk::MIN, Epk::MIN.successor()).contains(&Epk::MIN));
    }

    #[test]
    fn ranges_are_half_open() {
        let low = range("", "1F");
        let high = range("1F", "FF");
        assert!(low.contains(&Epk::MIN) && !low.contains(&epk("1F")) && high.contains(&epk("1F")));
        assert!(!low.overlaps(&high));
        assert_eq!(range("", "20").intersect(&range("10", "FF")), Some(range("10", "20")));
        assert_eq!(low.intersect(&range("1F", "1F")), None);
        assert!(EpkRange::full().covers(&low) && !low.covers(&EpkRange::full()));
    }

    #[test]
    fn even_bounds_are_those_of_the_service() {
        let tail = "F".repeat(31);
        let bounds = |pieces| -> Vec<String> {
            EpkRange::full().split_even(pieces).iter().map(|range| range.min.to_hex()).collect()
        };
        assert_eq!(bounds(1), [""]);
        assert_eq!(bounds(2), ["".to_owned(), format!("1{tail}")]);
        assert_eq!(
            bounds(4),
            ["".to_owned(), format!("0{tail}"), format!("1{tail}"), format!("2{tail}")]
        );
        let halves = EpkRange::full().split_even(2);
        assert_eq!(halves[1].split_even(2)[1].min.to_hex(), format!("2{tail}"));
        assert_eq!(halves[1].max, Epk::max());
    }

    #[test]
    fn pieces_meet_without_gap() {
        for pieces in [0, 1, 3, 5, 7, 64, 100] {
            let ranges = EpkRange::full().split_even(pieces);
            assert_eq!(ranges.len(), pieces.max(1));
            assert_eq!(ranges[0].min, Epk::MIN);
            assert!(ranges.windows(2).all(|pair| pair[0].max == pair[1].min));
            assert!(ranges.iter().all(|range| !range.is_empty()));
            assert_eq!(ranges[ranges.len() - 1].max, Epk::max());
        }
        let narrow = EpkRange::new(epk(&"0".repeat(32)), epk("00000000000000000000000000000002"));
        assert_eq!(narrow.split_even(9).len(), 2);
    }
}
