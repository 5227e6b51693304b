//! Activity ids: the name of one request in logs on both sides.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hyper::HeaderMap;
use hyper::header::HeaderValue;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::header;

/// Longest id that is taken over from a client.
const BYTES_MAX: usize = 64;

/// The client's id, if it has sent a sane one, or else a new one.
pub fn of(headers: &HeaderMap) -> HeaderValue {
    let sane = |value: &&HeaderValue| {
        (1..=BYTES_MAX).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    headers.get(&header::ACTIVITY_ID).filter(sane).cloned().unwrap_or_else(new)
}

/// A new id, in the form of a UUID. It need not be hard to guess, only never the same.
fn new() -> HeaderValue {
    static SEED: LazyLock<[u64; 2]> = LazyLock::new(|| [seed(), seed()]);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    let (high, low) = (mixed(SEED[0] ^ count), SEED[1].wrapping_add(count));
    let id = format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    );
    HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("none"))
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
        let with = |id: &str| {
            of(&HeaderMap::from_iter([(header::ACTIVITY_ID.clone(), id.parse().unwrap())]))
        };
        assert_eq!(with("abc-1"), "abc-1");
        for wrong in ["", "a b", &"x".repeat(65)] {
            assert_eq!(with(wrong).len(), 36);
        }
        assert_ne!(of(&HeaderMap::new()), of(&HeaderMap::new()));
    }
}
