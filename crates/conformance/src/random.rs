//! Chance from a seed, so that a failing run can be run again.

/// A xorshift generator: good enough to choose what to do next.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to a seed.
    pub fn new(seed: u64) -> Self {
        // Spreads small seeds, and keeps the state away from 0 where the generator would stay.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}
