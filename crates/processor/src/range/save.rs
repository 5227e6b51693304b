//! The saving side of a worker: when a position is written, and what with it.

use std::sync::Arc;
use std::time::Duration;

use super::worker::{Exit, Worker};
use super::write::{NotWritten, put};
use crate::lease::{Lease, extra};
use crate::monitor::Event;
use crate::observer::{CloseReason, LeaseLost};
use crate::tenure::Heir;
use crate::window::Mark;

/// How much of a rate's past is kept per second.
const RATE_DECAY: f64 = 0.9;

impl Worker {
    /// Saves the watermark if it is time, or touches the lease for peers that look at it.
    pub(super) fn start_write(&mut self, now: Duration) {
        let ending = self.exit.is_some();
        if self.writing.is_some() || ending || !self.is_write_due(now) {
            return;
        }
        let mut draft = self.tenure.draft(self.shared.env.wall(), &Heir::Us);
        self.fill(&mut draft, now);
        let (shared, tenure) = (Arc::clone(&self.shared), self.tenure.clone());
        self.writing = Some(Box::pin(put(shared, tenure, draft)));
    }

    pub(super) fn is_write_due(&self, now: Duration) -> bool {
        let frequency = self.shared.options.checkpoint_frequency;
        let since = now.saturating_sub(self.saved_at);
        let touch = self.shared.has_peers() && since >= self.shared.options.beat_interval();
        let moved = match self.window.reached() {
            None => self.parked_changed,
            // Positions without changes are saved at leisure, but the first one at once.
            Some(mark) if mark.items == 0 => {
                self.tenure.lease.continuation.is_none()
                    || since >= self.shared.options.lease_renew_interval
            }
            Some(_) => frequency.explicit_checkpoint || frequency.is_due(self.processed, since),
        };
        touch || moved || !self.repliers.is_empty()
    }

    /// Puts into a document what there is to save.
    pub(super) fn fill(&mut self, draft: &mut Lease, now: Duration) {
        if let Some(mark) = self.window.take() {
            draft.continuation = Some(mark.continuation.clone());
            draft.unset(extra::START);
            if mark.items > 0 {
                let since = now.saturating_sub(self.saved_at).as_secs_f64().max(0.001);
                let keep = RATE_DECAY.powf(since);
                self.rate = self.rate * keep + (mark.items as f64 / since) * (1.0 - keep);
                draft.set(extra::RATE, format!("{:.3}", self.rate));
                draft.set(extra::DONE_AT, mark.newest_at);
                let per_commit = mark.items as f64 / mark.commits.max(1) as f64;
                draft.set(extra::ITEMS_PER_COMMIT, format!("{per_commit:.3}"));
                // With care, a single step is no sign of health yet.
                self.careful = self.careful.saturating_sub(1);
                let deaths = u64::from(self.shared.options.error_policy.deaths);
                draft.set(extra::ATTEMPTS, if self.careful > 0 { deaths } else { 0 });
            }
            self.written_mark = Some(mark);
        }
        self.parked_changed = false;
        if self.parked.is_empty() {
            draft.unset(extra::PARKED);
        } else {
            draft.set(extra::PARKED, serde_json::json!(self.parked));
        }
        self.replying.append(&mut self.repliers);
        self.saved_at = now;
        self.processed = 0;
    }

    pub(super) fn written(&mut self, written: Result<Lease, NotWritten>) {
        let mark = self.written_mark.take();
        let answer = match written {
            Ok(lease) => {
                self.tenure.lease = lease;
                self.tell_saved(mark);
                Ok(())
            }
            Err(NotWritten::Lost) => {
                self.exit = Some(Exit::Abandon(CloseReason::LeaseLost));
                Err(LeaseLost)
            }
            Err(NotWritten::Refused(why)) => {
                let message = format!("the lease container refuses a checkpoint: {why}");
                self.shared.alarm(Some(&self.tenure.lease.token), message);
                self.exit = Some(Exit::Abandon(CloseReason::Refused));
                Err(LeaseLost)
            }
        };
        for reply in self.replying.drain(..) {
            let _ = reply.send(answer);
        }
    }

    pub(super) fn tell_saved(&self, mark: Option<Mark>) {
        if let Some(mark) = mark {
            let lease = self.tenure.lease.token.clone();
            self.shared.tell(&Event::Checkpointed { lease, items: mark.items });
        }
    }

    /// Tells those who wait for a position to be saved.
    pub(super) fn answer(&mut self, saved: bool) {
        for reply in self.replying.drain(..) {
            let _ = reply.send(if saved { Ok(()) } else { Err(LeaseLost) });
        }
    }
}
