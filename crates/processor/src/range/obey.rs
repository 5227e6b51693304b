//! What a worker is told by its host and by its lanes, and how it comes to rest.

use std::time::Duration;

use super::join::remove_parts;
use super::worker::{CANCEL_PATIENCE, Exit, Worker};
use super::write::NotWritten;
use super::{Gate, Order, Outcome};
use crate::env::Rule;
use crate::fence::Safety;
use crate::lease::extra;
use crate::observer::CloseReason;

impl Worker {
    /// Follows the host's order. An end that has begun is not taken back, but whoever may be thought
    /// dead writes nothing more.
    pub(super) fn obey(&mut self) {
        if self.shared.safety_in(self.spell) == Safety::Over {
            self.exit = Some(Exit::Abandon(CloseReason::Fenced));
        }
        if self.exit.is_some() {
            return;
        }
        self.goal = match &*self.orders.borrow() {
            Order::Until(goal) => Some(goal.clone()),
            _ => None,
        };
        self.is_there &= self.goal.is_some();
        self.exit = match &*self.orders.borrow_and_update() {
            Order::Work | Order::Hold | Order::Until(_) => None,
            Order::HandOver(to) => Some(Exit::HandOver(to.clone())),
            Order::Release(reason) => Some(Exit::Release(*reason)),
            Order::Keep(reason) => Some(Exit::Keep(*reason)),
        };
    }

    pub(super) fn start_draining(&mut self, now: Duration) {
        self.gate.send_if_modified(|old| std::mem::replace(old, Gate::Draining) != Gate::Draining);
        self.reading = None;
        // A page that some lane has begun is finished by all, or its changes would come again.
        let (begun, cancelled) = (self.begun, self.cancelled);
        self.lanes.retain(|waiting| !cancelled && Some(waiting.context.sequence) <= begun);
        if self.drain_by == Duration::MAX {
            self.drain_by = now + self.shared.options.drain_timeout;
        }
        let at_once = matches!(self.exit, Some(Exit::Abandon(_)));
        let waits = self.shared.env.keeps(Rule::Drain);
        if (at_once || !waits || now >= self.drain_by) && !self.cancelled {
            self.cancelled = true;
            self.drain_by = now + CANCEL_PATIENCE;
            for task in &mut self.tasks {
                *task = None;
            }
            self.lanes.retain(|_| false);
            if at_once {
                self.writing = None;
            }
        }
    }

    /// Whether nothing runs.
    pub(super) fn is_idle(&self) -> bool {
        let given_up = self.cancelled && self.shared.env.now() >= self.drain_by;
        let busy = self.lanes.busy() > 0 && !given_up;
        !busy && self.lanes.waiting() == 0 && self.writing.is_none()
    }

    /// A joined lease begins when those it has taken the place of are gone.
    pub(super) async fn remove_parts(&mut self) {
        if self.tenure.lease.property(extra::JOINS).is_none() {
            return;
        }
        match remove_parts(&self.shared, &self.tenure.lease).await {
            Ok(()) | Err(NotWritten::Lost) => self.tenure.lease.unset(extra::JOINS),
            Err(NotWritten::Refused(why)) => {
                let message = format!("the parts of a joined lease cannot be removed: {why}");
                self.shared.alarm(Some(&self.tenure.lease.token), message);
                self.exit = Some(Exit::Release(CloseReason::Refused));
            }
        }
    }

    pub(super) fn finished(&mut self, sequence: u64, outcome: Outcome) {
        match outcome {
            Outcome::Done { parked } => {
                if let Some(page) = self.open_pages.get_mut(&sequence) {
                    page.batches -= 1;
                    if page.batches == 0 {
                        self.open_pages.remove(&sequence);
                    }
                }
                if !self.shared.env.keeps(Rule::Watermark) {
                    self.window.done_through(sequence);
                } else if !self.shared.options.checkpoint_frequency.explicit_checkpoint {
                    self.window.done(sequence);
                }
                for key in parked {
                    if !self.parked.contains(&key) {
                        self.parked.push(key);
                        self.parked_changed = true;
                    }
                }
            }
            Outcome::Stop(error) => self.exit = Some(Exit::Stop(error)),
            // Only an end cuts batches short; a task that died otherwise must not go unnoticed.
            Outcome::Unfinished => {
                self.exit.get_or_insert(Exit::Release(CloseReason::ObserverError));
            }
        }
    }
}
