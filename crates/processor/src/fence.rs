//! How long a host may still act: it stops before others may think it dead.
//!
//! A heartbeat that arrives after that makes it alive again, but what it had may be another's by then.
//! Whatever rests on having lived all the time, such as a tenure or what was read of a lease, is good
//! for one *spell*: a time in which nobody can have thought us dead.

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

/// An unbroken time of being alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spell(u64);

/// When the lease container last confirmed that we live.
#[derive(Debug)]
pub struct Fence {
    expiration: Duration,
    /// Microseconds on the monotonic clock, taken before the confirmed write was sent.
    confirmed: AtomicU64,
    /// How often a sign of life came too late.
    spells: AtomicU64,
    closed: AtomicBool,
    is_kept: bool,
}

impl Fence {
    /// For an expiration interval. One that is not kept is for simulations.
    pub fn new(expiration: Duration, is_kept: bool) -> Self {
        let closed = AtomicBool::new(true);
        let (confirmed, spells) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { expiration, confirmed, spells, closed, is_kept }
    }

    /// A sign of life that was sent at one time is known to have arrived at another.
    pub fn confirm(&self, sent: Duration, now: Duration) {
        if self.safety(now) == Safety::Over {
            self.spells.fetch_add(1, Ordering::SeqCst);
        }
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

    /// The spell that we are in, or that was the last.
    pub fn spell(&self) -> Spell {
        Spell(self.spells.load(Ordering::SeqCst))
    }

    /// What may be done now by what rests on a spell.
    pub fn safety_in(&self, spell: Spell, now: Duration) -> Safety {
        // In this order: a sign of life that comes in between shows in the second.
        let safety = self.safety(now);
        if spell == self.spell() { safety } else { Safety::Over }
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
        fence.confirm(Duration::ZERO, Duration::ZERO);
        // When an observer whose clock is fast takes over, an owner whose clock is slow has stopped.
        let real = 15.0 / 1.05;
        assert_eq!(fence.safety(Duration::from_secs_f64(real * 0.95)), Safety::Over);
    }

    #[test]
    fn an_owner_gives_up_before_others_take() {
        let fence = Fence::new(Duration::from_secs(15), true);
        let at = Duration::from_secs_f64;
        assert_eq!(fence.safety(at(0.0)), Safety::Over);
        fence.confirm(at(100.0), at(100.1));
        assert_eq!(fence.safety(at(111.9)), Safety::Safe);
        assert_eq!(fence.safety(at(112.1)), Safety::Fading);
        assert_eq!(fence.safety(at(113.6)), Safety::Over);
        assert_eq!(fence.next_change(at(101.0)), at(112.0));
        fence.confirm(at(90.0), at(101.0));
        assert_eq!(fence.safety(at(111.9)), Safety::Safe);
        fence.close();
        assert_eq!(fence.safety(at(100.1)), Safety::Over);
    }

    #[test]
    fn what_was_ours_before_a_silence_is_not_ours_after_it() {
        let fence = Fence::new(Duration::from_secs(15), true);
        let at = Duration::from_secs_f64;
        fence.confirm(at(100.0), at(100.1));
        let spell = fence.spell();
        // Late, but in time.
        fence.confirm(at(112.0), at(113.4));
        assert_eq!(fence.safety_in(spell, at(114.0)), Safety::Safe);
        // Sent in time, but when it is known to have arrived others may have acted.
        fence.confirm(at(120.0), at(125.6));
        assert_eq!(fence.safety(at(126.0)), Safety::Safe);
        assert_eq!(fence.safety_in(spell, at(126.0)), Safety::Over);
        assert_eq!(fence.safety_in(fence.spell(), at(126.0)), Safety::Safe);
    }
}
