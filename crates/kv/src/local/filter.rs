//! A set of hashes that now and then takes one for its own which is not.

use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use foldhash::fast::RandomState;

/// One for the process: filters and those who ask them must agree.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// What stands for a key in filters.
pub(crate) fn hash(key: &[u8]) -> u64 {
    HASHER.hash_one(key)
}

/// As many as come with one look at memory.
const BLOCK_WORDS: usize = 8;
const BITS_PER_HASH: usize = 12;
const BITS_SET: u32 = 6;

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Filter {
    blocks: Box<[[AtomicU64; BLOCK_WORDS]]>,
}

impl Filter {
    /// With room for so many hashes. More of them make more mistakes.
    pub(crate) fn new(room: usize) -> Self {
        let blocks = (room * BITS_PER_HASH).div_ceil(BLOCK_WORDS * 64).max(1);
        let empty = || [const { AtomicU64::new(0) }; BLOCK_WORDS];
        Self { blocks: std::iter::repeat_with(empty).take(blocks).collect() }
    }

    /// Takes a hash in. Who is told of it afterwards, by whatever way, finds it.
    pub(crate) fn add(&self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in bits(hash) {
            block[word].fetch_or(bit, Relaxed);
        }
    }

    /// Whether a hash may be among those that were taken in.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        let block = self.block(hash);
        bits(hash).all(|(word, bit)| block[word].load(Relaxed) & bit != 0)
    }

    /// By the upper half of the hash; the bits within it come from all of it.
    fn block(&self, hash: u64) -> &[AtomicU64; BLOCK_WORDS] {
        &self.blocks[(((hash >> 32) * self.blocks.len() as u64) >> 32) as usize]
    }
}

/// The bits of a hash within its block: word and mask.
fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..BITS_SET).map(move |n| {
        let bit = (mixed >> (n * 9 + 10)) as usize % (BLOCK_WORDS * 64);
        (bit / 64, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_all_that_it_has_taken_in_and_little_else() {
        let hashes: Vec<u64> = (0..10_000_u64).map(|n| hash(&n.to_le_bytes())).collect();
        for count in [0, 1, 100, 10_000] {
            let filter = Filter::new(count);
            hashes[..count].iter().for_each(|hash| filter.add(*hash));
            assert!(hashes[..count].iter().all(|hash| filter.may_have(*hash)), "{count}");
            let others = (20_000..30_000_u64).map(|n| hash(&n.to_le_bytes()));
            let wrong = others.filter(|hash| filter.may_have(*hash)).count();
            assert!(wrong < 300, "{wrong} of 10,000 with {count}");
        }
    }
}
