//! Time and chance, the only two things the engine takes from outside its storage.
//!
//! Everything below asks [`Env`] for the time and for random bytes, so a simulation can
//! replay a day from a seed.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock and the dice.
#[derive(Clone)]
pub struct Env {
    now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    random: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Env {
    /// The operating system's clock and randomness.
    pub fn system() -> Self {
        Self::new(system_now_ms, system_random)
    }

    /// A clock and dice of the caller's.
    pub fn new(
        now_ms: impl Fn() -> u64 + Send + Sync + 'static,
        random: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { now_ms: Arc::new(now_ms), random: Arc::new(random) }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        (self.now_ms)()
    }

    /// Seconds since 1970, as items carry them in `_ts`.
    pub fn now_seconds(&self) -> u32 {
        u32::try_from(self.now_ms() / 1000).unwrap_or(u32::MAX)
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        (self.random)()
    }

    /// Random bytes that nobody can guess (with [`Env::system`]).
    pub fn secret(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&(self.random)().to_le_bytes());
        }
        bytes
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

fn system_now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Eight bytes of the operating system's randomness.
fn system_random() -> u64 {
    let mut bytes = [0; 8];
    // A machine without a source of randomness must not hand out tokens that can be guessed.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u64::from_le_bytes(bytes)
}
