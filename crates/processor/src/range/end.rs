//! The end of a tenure: the last write, and the observer's close.

use std::sync::Arc;

use super::Ended;
use super::join::retire;
use super::worker::{CANCEL_PATIENCE, Exit, Worker};
use super::write::{NotWritten, put};
use crate::lease::extra;
use crate::monitor::Event;
use crate::observer::CloseReason;
use crate::tenure::Heir;

impl Worker {
    /// Everything has come to rest: writes what is due and closes.
    pub(super) async fn finish(mut self) -> Ended {
        let epoch = self.tenure.lease.epoch();
        let exit = self.exit.take().unwrap_or(Exit::Abandon(CloseReason::Shutdown));
        let mut children = Vec::new();
        let mut removed = false;
        let mut fatal = None;
        let keeps = matches!(exit, Exit::Keep(_));
        // Closed before anyone else can begin, so that no two observers of a range are open.
        let reason = match &exit {
            Exit::HandOver(_) => CloseReason::HandedOff,
            Exit::Release(reason) | Exit::Abandon(reason) | Exit::Keep(reason) => *reason,
            Exit::Divide(_) | Exit::Vanish => CloseReason::LeaseGone,
            Exit::Stop(_) => CloseReason::ObserverError,
        };
        self.close(reason).await;
        let written = match exit {
            Exit::HandOver(to) => self.last_write(&Heir::Other(to)).await,
            Exit::Release(_) => self.last_write(&Heir::Nobody).await,
            Exit::Keep(_) => self.last_write(&Heir::Us).await,
            Exit::Abandon(_) => Ok(()),
            Exit::Stop(why) => {
                fatal = Some(why);
                self.last_write(&Heir::Nobody).await
            }
            Exit::Vanish => match retire(&self.shared, &self.tenure.lease).await {
                Ok(gone) => {
                    removed = gone;
                    if gone { Ok(()) } else { Err(NotWritten::Lost) }
                }
                Err(wrong) => Err(wrong),
            },
            Exit::Divide(seats) => {
                let divided = self.divide(seats).await;
                divided.map(|(made, gone)| (children, removed) = (made, gone))
            }
        };
        let kept = keeps && written.is_ok();
        let reason = match written {
            Ok(()) => reason,
            Err(NotWritten::Lost) => CloseReason::LeaseLost,
            Err(NotWritten::Refused(why)) => {
                self.shared.alarm(Some(&self.tenure.lease.token), why);
                CloseReason::Refused
            }
        };
        let lease = self.tenure.lease.token.clone();
        self.shared.tell(&Event::Closed { lease, reason });
        Ended { tenure: self.tenure, epoch, reason, children, kept, removed, fatal }
    }

    async fn close(&mut self, reason: CloseReason) {
        if !self.opened {
            return;
        }
        let token = self.tenure.lease.token.clone();
        if self.is_stuck() {
            self.shared.alarm(
                Some(&token),
                "a handler does not return though it was cancelled; its observer is not closed",
            );
            return;
        }
        let context = self.context(0, String::new(), Arc::new(Vec::new()), 0);
        let closing = crate::env::caught(self.observer.close(&context, reason));
        tokio::select! {
            biased;
            done = closing => if let Err(panic) = done {
                self.shared.alarm(Some(&token), panic);
            },
            () = self.shared.env.sleep(CANCEL_PATIENCE) => {
                self.shared.alarm(Some(&token), "the observer did not close in time");
            }
        }
    }

    /// Saves the position and says who is next, in one write.
    pub(super) async fn last_write(&mut self, heir: &Heir) -> Result<(), NotWritten> {
        let now = self.shared.env.now();
        let mut draft = self.tenure.draft(self.shared.env.wall(), heir);
        let attempts = draft.attempts();
        self.fill(&mut draft, now);
        let stays_here = matches!(heir, Heir::Nobody | Heir::Us);
        if stays_here && attempts > 0 && self.shared.options.error_policy.deaths > 0 {
            // Ending in good order is no death.
            draft.set(extra::ATTEMPTS, draft.attempts().min(attempts - 1));
        }
        let written = put(Arc::clone(&self.shared), self.tenure.clone(), draft).await;
        self.answer(written.is_ok());
        let mark = self.written_mark.take();
        self.tenure.lease = written?;
        self.tell_saved(mark);
        Ok(())
    }
}
