//! Joining what a merge of ranges has left: which two leases, when, and by which steps.
//!
//! Both workers come to rest, one of them catches up to where the other stands, and one lease takes
//! the place of both. Nothing is handled twice: each step begins where the last has saved.

use std::sync::Arc;
use std::time::Duration;

use super::Host;
use crate::cut::{Pair, pairs};
use crate::fence::{Safety, Spell};
use crate::lease::{Lease, extra};
use crate::observer::CloseReason;
use crate::range::{Ended, Goal, NotWritten, Order, join};
use crate::tenure::Tenure;

/// How many commits two leases may be apart: the one ahead waits for the other.
const COMMITS_APART_MAX: u64 = 10_000;
/// How long both may be at rest before the attempt is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often one may have to catch up.
const ROUNDS_MAX: u32 = 4;
/// How long after an attempt that failed the next one may begin.
const PAUSE: Duration = Duration::from_secs(30);

/// A join that is under way.
#[derive(Debug)]
pub(super) struct Joining {
    pair: Pair,
    spell: Spell,
    low: Option<Tenure>,
    high: Option<Tenure>,
    /// Who is to catch up, and to where; nobody while both come to rest.
    late: Option<(String, Goal)>,
    rounds: u32,
    deadline: Duration,
    /// The last step, which is not taken back.
    is_deciding: bool,
}

impl Host {
    /// The leases that may be joined. Hosts of other libraries would not understand what happens,
    /// and a handler that saves positions itself may be anywhere.
    pub(super) fn joinable(&self) -> Vec<Pair> {
        if self.shared.has_peers() || self.shared.options.checkpoint_frequency.explicit_checkpoint {
            return Vec::new();
        }
        pairs(self.fleet.live_leases(), &self.shared.known_ranges())
    }

    /// Whether a lease is left alone because it is at rest for a join.
    pub(super) fn is_joining(&self, id: &str) -> bool {
        self.joining.as_ref().is_some_and(|joining| joining.pair.has(id))
    }

    /// What a worker is told for the sake of a join.
    pub(super) fn join_order(&self, id: &str) -> Option<Order> {
        let joining = self.joining.as_ref().filter(|joining| joining.pair.has(id))?;
        match &joining.late {
            Some((late, goal)) if late == id => Some(Order::Until(goal.clone())),
            _ => Some(Order::Keep(CloseReason::LeaseGone)),
        }
    }

    /// Begins a join if there is one to begin, and gives up what takes too long.
    pub(super) fn start_join(&mut self, joinable: &[Pair], me: &str, now: Duration) {
        let control = &self.fleet.control;
        let busy = self.stop.is_some() || self.error.is_some() || control.paused;
        let is_calm = !busy && control.seek.is_none();
        let spell = self.joining.as_ref().map_or(self.known_in, |joining| joining.spell);
        let is_safe = self.shared.fence.safety_in(spell, now) == Safety::Safe;
        if let Some(joining) = &self.joining {
            if !joining.is_deciding && (!is_calm || !is_safe || now >= joining.deadline) {
                self.give_up_join(now);
            }
            return;
        }
        if !is_calm || !is_safe || now < self.join_at {
            return;
        }
        let is_ripe = |id: &str| -> Option<u64> {
            let lease = self.fleet.leases.get(id)?;
            let ours = lease.owner.as_deref() == Some(me) && self.slots.contains_key(id);
            lease.commit().filter(|_| ours)
        };
        let ripe = joinable.iter().find(|pair| {
            let both = is_ripe(&pair.low).zip(is_ripe(&pair.high));
            both.is_some_and(|(low, high)| low.abs_diff(high) <= COMMITS_APART_MAX)
        });
        let Some(pair) = ripe.cloned() else { return };
        let deadline = now + self.shared.options.drain_timeout + PATIENCE;
        self.joining = Some(Joining {
            pair,
            spell: self.known_in,
            low: None,
            high: None,
            late: None,
            rounds: 0,
            deadline,
            is_deciding: false,
        });
    }

    /// Leases that were at rest are taken again, like any other that has no worker.
    pub(super) fn give_up_join(&mut self, now: Duration) {
        self.joining = None;
        self.join_at = now + PAUSE;
        self.list_at = now;
        self.is_stale = true;
    }

    /// A worker has ended. True if that was a step of a join.
    pub(super) fn rests(&mut self, ended: &Ended, now: Duration) -> bool {
        let id = &ended.tenure.lease.id;
        let Some(joining) = self.joining.as_mut().filter(|joining| joining.pair.has(id)) else {
            return false;
        };
        // One that still waits for its parent must not go before it.
        let waits = ended.tenure.lease.property(extra::PARENT).is_some();
        if !ended.kept || ended.reason != CloseReason::LeaseGone || waits {
            self.give_up_join(now);
            return false;
        }
        let place = if joining.pair.low == *id { &mut joining.low } else { &mut joining.high };
        *place = Some(ended.tenure.clone());
        joining.late = None;
        self.fleet.wrote(ended.tenure.lease.clone(), now);
        self.go_on_joining(now);
        true
    }

    /// Both at rest: at one position, they are joined; else the later one catches up.
    fn go_on_joining(&mut self, now: Duration) {
        let Some(joining) = &mut self.joining else { return };
        let (Some(low), Some(high)) = (&joining.low, &joining.high) else { return };
        if low.lease.continuation.is_some() && low.lease.continuation == high.lease.continuation {
            joining.is_deciding = true;
            let seat = joining.pair.seat.clone();
            let (low, high) = (low.clone(), high.clone());
            self.merging = Some(Box::pin(join(Arc::clone(&self.shared), seat, low, high)));
            return;
        }
        joining.rounds += 1;
        let at = |tenure: &Tenure| {
            let etag = tenure.lease.continuation.clone()?;
            Some(Goal { commit: tenure.lease.commit()?, etag })
        };
        let (Some(below), Some(above)) = (at(low), at(high)) else {
            return self.give_up_join(now);
        };
        if joining.rounds > ROUNDS_MAX {
            return self.give_up_join(now);
        }
        let (late, goal) = if below.commit < above.commit { (low, above) } else { (high, below) };
        let lease = late.lease.clone();
        joining.late = Some((lease.id.clone(), goal.clone()));
        if joining.pair.low == lease.id {
            joining.low = None;
        } else {
            joining.high = None;
        }
        let floor = self.epochs.get(&lease.id).copied().unwrap_or(0);
        self.take(lease, floor, Order::Until(goal));
    }

    /// The last step has succeeded or failed.
    pub(super) fn joined(&mut self, joined: Result<Lease, NotWritten>, now: Duration) {
        match joined {
            Ok(whole) => {
                self.list_at = now;
                let Some(joining) = self.joining.take() else { return };
                // The worker of the new lease removes them before it begins.
                self.fleet.remove_lease(&joining.pair.low);
                self.fleet.remove_lease(&joining.pair.high);
                // What was made before a silence may be another's: a listing will tell.
                if joining.spell == self.shared.fence.spell() {
                    self.fleet.wrote(whole, now);
                }
            }
            Err(wrong) => {
                if let NotWritten::Refused(why) = wrong {
                    self.shared.alarm(None, format!("leases cannot be joined: {why}"));
                }
                self.give_up_join(now);
            }
        }
    }
}
