//! The end of a tenure: the last write, the children of a split, and the observer's close.

use std::sync::Arc;

use super::Ended;
use super::worker::{CANCEL_PATIENCE, Exit, Worker};
use super::write::{NotWritten, make, put};
use crate::cut::Seat;
use crate::env::Rule;
use crate::fence::Safety;
use crate::lease::{Kind, Lease, document, extra};
use crate::monitor::Event;
use crate::observer::CloseReason;
use crate::position::Start;
use crate::range::write::look;
use crate::shared::Patience;
use crate::store::{StoreError, Stored};
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
            Exit::Divide(_) => CloseReason::LeaseGone,
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
            Exit::Divide(seats) => {
                let divided = self.divide(&seats).await;
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
    async fn last_write(&mut self, heir: &Heir) -> Result<(), NotWritten> {
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
        self.tenure.lease = written?;
        Ok(())
    }

    /// Makes the leases that follow a split or a merge, at the checkpointed position, then removes
    /// the old one. Whoever finds this half done, does the rest: what exists is left as it is.
    async fn divide(&mut self, seats: &[Seat]) -> Result<(Vec<Lease>, bool), NotWritten> {
        self.last_write(&Heir::Us).await?;
        if !self.shared.env.keeps(Rule::ParentLast) {
            self.remove_parent().await?;
        }
        let mut children = Vec::new();
        for seat in seats {
            // Whoever may be thought dead makes nothing: others may be doing it by now.
            if self.shared.fence.safety(self.shared.env.now()) == Safety::Over {
                return Err(NotWritten::Lost);
            }
            if let Some(child) = make(&self.shared, &self.child(seat)).await? {
                children.push(child);
            }
        }
        let removed = self.remove_parent().await?;
        Ok((children, removed))
    }

    fn child(&self, seat: &Seat) -> Lease {
        let id = self.shared.names.lease(&seat.token);
        let mut child = Lease {
            partition_key: self.shared.partition_key(&id),
            id,
            token: seat.token.clone(),
            kind: seat.kind,
            span: Some(seat.span.clone()),
            from_v2: false,
            etag: String::new(),
            ts: 0,
            ..self.tenure.lease.clone()
        };
        child.set(extra::EPOCH, self.tenure.lease.epoch() + 1);
        child.set(extra::WRITE, format!("{}/{:x}", self.tenure.owner(), self.shared.write_id()));
        child.set(extra::ATTEMPTS, 0);
        if let (Start::After(read), false) =
            (&self.position, self.shared.env.keeps(Rule::SplitAtSaved))
        {
            child.continuation = Some(read.clone());
        }
        match (self.tenure.lease.kind, seat.kind) {
            (_, Kind::Range) => child.unset(extra::WHOLE),
            (Kind::Range, Kind::Span) => child.set(extra::WHOLE, "true"),
            (Kind::Span, Kind::Span) => {}
        }
        child
    }

    /// Deletes the old lease, or where that is not allowed closes it for good.
    async fn remove_parent(&mut self) -> Result<bool, NotWritten> {
        let mut patience = Patience::default();
        loop {
            let lease = &self.tenure.lease;
            let stored = Stored {
                id: lease.id.clone(),
                etag: lease.etag.clone(),
                body: document::write(lease),
            };
            match self.shared.store.delete(&stored).await {
                Ok(()) | Err(StoreError::Missing) => return Ok(true),
                Err(StoreError::Refused { status, message }) => {
                    let token = lease.token.clone();
                    self.shared.alarm(Some(&token), format!("the lease of a range that is gone cannot be deleted ({status}: {message}); it is closed instead"));
                    let mut draft = self.tenure.draft(self.shared.env.wall(), &Heir::Nobody);
                    draft.set(extra::CLOSED, "true");
                    let shared = Arc::clone(&self.shared);
                    self.tenure.lease = put(shared, self.tenure.clone(), draft).await?;
                    return Ok(false);
                }
                Err(StoreError::Throttled(wait)) => patience.wait(&self.shared, Some(wait)).await,
                Err(_) => {
                    patience.wait(&self.shared, None).await;
                    let current = match look(&self.shared, &stored.id, &mut patience).await {
                        Err(NotWritten::Lost) => return Ok(true),
                        other => other?,
                    };
                    let ours = current.owner == self.tenure.lease.owner
                        && current.epoch() == self.tenure.lease.epoch();
                    if !ours {
                        return Err(NotWritten::Lost);
                    }
                    self.tenure.lease.etag = current.etag;
                }
            }
        }
    }
}
