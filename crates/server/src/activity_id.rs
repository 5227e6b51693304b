//! Activity ids: the name of one request in logs on both sides.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hyper::HeaderMap;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::header;

/// Longest id that is taken over from a client.
const BYTES_MAX: usize = 64;

/// The name of a request.
#[derive(Debug, Clone, Copy)]
pub struct ActivityId {
    text: [u8; BYTES_MAX],
    length: usize,
}

impl ActivityId {
    /// The client's id, if it has sent a sane one, or else a new one.
    pub fn of(headers: &HeaderMap) -> Self {
        let theirs = headers.get(&header::ACTIVITY_ID);
        theirs.and_then(|value| Self::sane(value.as_bytes())).unwrap_or_else(Self::new)
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length]).unwrap_or("")
    }

    /// A new id, in the form of a UUID. It need not be hard to guess, only never the same.
    fn new() -> Self {
        static SEED: LazyLock<[u64; 2]> = LazyLock::new(|| [seed(), seed()]);
        let count = next_count();
        let (high, low) = (mixed(SEED[0] ^ count), SEED[1].wrapping_add(count));
        Self::sane(&uuid(high, low)).expect("a UUID is short and in ASCII")
    }

    fn sane(id: &[u8]) -> Option<Self> {
        let mut text = [0; BYTES_MAX];
        text.get_mut(..id.len())?.copy_from_slice(id);
        let sane = !id.is_empty() && id.iter().all(u8::is_ascii_graphic);
        sane.then_some(Self { text, length: id.len() })
    }
}

/// A number that has not been given out before. Each thread takes many at once, so that they seldom have to
/// agree.
fn next_count() -> u64 {
    const AT_ONCE: u64 = 1 << 16;
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    thread_local!(static NEXT: Cell<u64> = const { Cell::new(0) });
    let next = match NEXT.get() {
        used if used.is_multiple_of(AT_ONCE) => TAKEN.fetch_add(AT_ONCE, Relaxed),
        next => next,
    };
    NEXT.set(next + 1);
    next
}

/// Two numbers in the form of a UUID of version 4. Every request has one: formatting would show.
fn uuid(high: u64, low: u64) -> [u8; 36] {
    let bits = u128::from(high) << 64 | u128::from(low);
    let bits = bits & !(0xf << 76 | 0xf << 60) | 0x4 << 76 | 0xa << 60;
    let mut text = [b'-'; 36];
    let mut digits = (0..32).rev().map(|n| b"0123456789abcdef"[(bits >> (4 * n)) as usize & 0xf]);
    for span in [0..8, 9..13, 14..18, 19..23, 24..36] {
        text[span].iter_mut().zip(&mut digits).for_each(|(place, digit)| *place = digit);
    }
    text
}

fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness ids repeat after a restart, which is no reason to stop.
    let _ = SystemRandom::new().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Spreads neighbouring numbers over all bits; the steps can be undone, so none collide.
fn mixed(mut n: u64) -> u64 {
    n ^= n >> 31;
    n = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    n ^= n >> 29;
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_over_or_made() {
        let of = |map: &HeaderMap| ActivityId::of(map).as_str().to_owned();
        let with = |id: &str| {
            of(&HeaderMap::from_iter([(header::ACTIVITY_ID.clone(), id.parse().unwrap())]))
        };
        assert_eq!(with("abc-1"), "abc-1");
        for wrong in ["", "a b", &"x".repeat(65)] {
            assert_eq!(with(wrong).len(), 36);
        }
        assert_ne!(of(&HeaderMap::new()), of(&HeaderMap::new()));
    }

    #[test]
    fn ids_are_uuids() {
        let text = uuid(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        assert_eq!(&text, b"01234567-89ab-4def-aedc-ba9876543210");
        assert_eq!(&uuid(0, 0), b"00000000-0000-4000-a000-000000000000");
    }
}
