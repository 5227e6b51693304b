//! How long a host may still act: it stops before others may think it dead.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The part of the expiration interval that is kept as a margin. Twice one twentieth, what clocks
/// may drift against each other, is less than the half of it after which handlers are cancelled.
const MARGIN_SHARE: u32 = 5;

/// How far a host is from being thought dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safety {
    /// It may work.
    Safe,
    /// It may finish what runs, and begin nothing.
    Fading,
    /// Others may own its leases: all handlers are cancelled.
    Over,
}

/// When the lease container last confirmed that we live.
#[derive(Debug)]
pub struct Fence {
    expiration: Duration,
    /// Microseconds on the monotonic clock, taken before the confirmed write was sent.
    confirmed: AtomicU64,
    closed: AtomicBool,
    is_kept: bool,
}

impl Fence {
    /// For an expiration interval. One that is not kept is for simulations.
    pub fn new(expiration: Duration, is_kept: bool) -> Self {
        let closed = AtomicBool::new(true);
        Self { expiration, confirmed: AtomicU64::new(0), closed, is_kept }
    }

    /// A sign of life that was sent at this time has arrived.
    pub fn confirm(&self, sent: Duration) {
        let micros = u64::try_from(sent.as_micros()).unwrap_or(u64::MAX);
        self.confirmed.fetch_max(micros, Ordering::SeqCst);
        self.closed.store(false, Ordering::SeqCst);
    }

    /// Another process has our name.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_micros(self.confirmed.load(Ordering::SeqCst)))
    }

    /// What may be done now.
    pub fn safety(&self, now: Duration) -> Safety {
        let margin = self.expiration / MARGIN_SHARE;
        match self.age(now) {
            _ if self.closed.load(Ordering::SeqCst) => Safety::Over,
            age if age < self.expiration - margin || !self.is_kept => Safety::Safe,
            age if age < self.expiration - margin / 2 => Safety::Fading,
            _ => Safety::Over,
        }
    }

    /// When the answer of [`Self::safety`] changes next if nothing is confirmed.
    pub fn next_change(&self, now: Duration) -> Duration {
        let margin = self.expiration / MARGIN_SHARE;
        let confirmed = Duration::from_micros(self.confirmed.load(Ordering::SeqCst));
        let fading = confirmed + self.expiration - margin;
        let over = confirmed + self.expiration - margin / 2;
        if now < fading { fading } else { over.max(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_of_5_percent_is_covered() {
        let fence = Fence::new(Duration::from_secs(15), true);
        fence.confirm(Duration::ZERO);
        // When an observer whose clock is fast takes over, an owner whose clock is slow has stopped.
        let real = 15.0 / 1.05;
        assert_eq!(fence.safety(Duration::from_secs_f64(real * 0.95)), Safety::Over);
    }

    #[test]
    fn an_owner_gives_up_before_others_take() {
        let fence = Fence::new(Duration::from_secs(15), true);
        let at = Duration::from_secs_f64;
        assert_eq!(fence.safety(at(0.0)), Safety::Over);
        fence.confirm(at(100.0));
        assert_eq!(fence.safety(at(111.9)), Safety::Safe);
        assert_eq!(fence.safety(at(112.1)), Safety::Fading);
        assert_eq!(fence.safety(at(113.6)), Safety::Over);
        assert_eq!(fence.next_change(at(101.0)), at(112.0));
        fence.confirm(at(90.0));
        assert_eq!(fence.safety(at(111.9)), Safety::Safe);
        fence.close();
        assert_eq!(fence.safety(at(100.1)), Safety::Over);
    }
}
