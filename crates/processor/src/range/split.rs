//! A lease is divided after its range was split or merged.
//!
//! The old lease is the register that decides. The write that saves its last position also lists the
//! children it will have; only then are they made, and nobody reads by it any more. Whoever takes it
//! goes on with that list, whatever the ranges have become, and removes it last. A child begins only
//! when its parent is gone: were it divided or joined before, whoever finishes the list would make it
//! once more.

use std::sync::Arc;
use std::time::Duration;

use super::child::make_child;
use super::ghost::is_ghost;
use super::worker::{Exit, Worker};
use super::write::{NotWritten, look, put};
use crate::cut::{Seat, at_most, listed};
use crate::env::Rule;
use crate::lease::{Kind, Lease, document, extra};
use crate::observer::CloseReason;
use crate::position::Start;
use crate::shared::{Patience, Shared};
use crate::store::{StoreError, Stored};
use crate::tenure::Heir;

/// Most children that one lease lists: far below what fits into a document.
const CHILDREN_MAX: usize = 1000;
/// How often a child that waits for its parent to go looks whether it may still act.
const FENCE_LOOK: Duration = Duration::from_secs(1);

impl Worker {
    /// A lease that has listed its children is not read by again.
    pub(super) fn resume_division(&mut self) {
        if self.tenure.lease.property(extra::CHILDREN).is_none()
            || !self.shared.env.keeps(Rule::Listed)
        {
            return;
        }
        self.exit = Some(match listed(&self.tenure.lease) {
            Some(seats) => Exit::Divide(seats),
            None => {
                let message = "the list of what this lease is divided into cannot be read";
                self.shared.alarm(Some(&self.tenure.lease.token), message);
                Exit::Release(CloseReason::Refused)
            }
        });
    }

    /// Lists the leases that follow a split or a merge, makes them at the checkpointed position, then
    /// removes the old one. Whoever finds this half done, does the rest.
    pub(super) async fn divide(
        &mut self,
        seats: Vec<Seat>,
    ) -> Result<(Vec<Lease>, bool), NotWritten> {
        let seats = at_most(seats, CHILDREN_MAX);
        let texts: Vec<String> = seats.iter().map(Seat::text).collect();
        let list = serde_json::json!(texts).to_string();
        if self.tenure.lease.property(extra::CHILDREN) != Some(list.as_str()) {
            self.tenure.lease.set(extra::CHILDREN, list);
            self.tenure.lease.set(extra::LISTED, self.tenure.lease.epoch());
            self.last_write(&Heir::Us).await?;
        }
        if !self.shared.env.keeps(Rule::ParentLast) {
            self.remove_parent().await?;
        }
        let mut children = Vec::new();
        for seat in &seats {
            children.extend(make_child(&self.shared, self.spell, self.child(seat)).await?);
        }
        // The children look for themselves whether they may begin, also those that are in one hand with
        // their parent: while they were made, this host may have been thought dead for a while.
        let removed = self.remove_parent().await?;
        Ok((children, removed))
    }

    fn child(&self, seat: &Seat) -> Lease {
        let mut child = self.shared.seated(seat, &self.tenure.lease);
        child.set(extra::EPOCH, self.tenure.lease.epoch().saturating_add(1));
        child.set(extra::WRITE, format!("{}/{:x}", self.tenure.owner(), self.shared.write_id()));
        child.set(extra::ATTEMPTS, 0);
        child.unset(extra::CHILDREN);
        child.set(extra::PARENT, &self.tenure.lease.token);
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
                    if !current.is_of_tenure(&self.tenure.lease) {
                        return Err(NotWritten::Lost);
                    }
                    self.tenure.lease.etag = current.etag;
                }
            }
        }
    }

    /// A child begins when its parent is gone. The host may want it elsewhere meanwhile.
    pub(super) async fn await_parent(&mut self) {
        let lease = self.tenure.lease.clone();
        let Some(parent) = lease.property(extra::PARENT).map(str::to_owned) else { return };
        if !self.shared.env.keeps(Rule::ParentGone) {
            return self.tenure.lease.begin();
        }
        let shared = Arc::clone(&self.shared);
        let deciding = async {
            until_gone(&shared, &parent, &lease.token).await?;
            is_ghost(&shared, &lease).await
        };
        tokio::pin!(deciding);
        loop {
            self.obey();
            if self.exit.is_some() {
                return;
            }
            let nap = self.shared.env.sleep(FENCE_LOOK);
            tokio::select! {
                biased;
                changed = self.orders.changed() => if changed.is_err() {
                    self.exit = Some(Exit::Abandon(CloseReason::Shutdown));
                },
                decided = &mut deciding => {
                    match decided {
                        Ok(true) => self.exit = Some(Exit::Vanish),
                        Ok(false) => self.tenure.lease.begin(),
                        Err(NotWritten::Lost) => {
                            self.exit = Some(Exit::Abandon(CloseReason::LeaseLost));
                        }
                        Err(NotWritten::Refused(why)) => {
                            let message = format!("the parent of a lease cannot be read: {why}");
                            self.shared.alarm(Some(&lease.token), message);
                            self.exit = Some(Exit::Release(CloseReason::Refused));
                        }
                    }
                    return;
                }
                () = nap => {}
            }
        }
    }
}

/// Waits until a lease that was to be divided into this one, among others, is gone.
async fn until_gone(shared: &Shared, parent: &str, child: &str) -> Result<(), NotWritten> {
    let id = shared.names.lease(parent);
    let mut patience = Patience::default();
    loop {
        let found = match look(shared, &id, &mut patience).await {
            Err(NotWritten::Lost) => return Ok(()),
            other => other?,
        };
        // A lease of that name that knows nothing of this one came later.
        let is_parent = match listed(&found) {
            Some(seats) => seats.iter().any(|seat| seat.token == child),
            None => found.property(extra::CHILDREN).is_some(),
        };
        if found.is_closed() || !is_parent {
            return Ok(());
        }
        patience.wait(shared, None).await;
    }
}
