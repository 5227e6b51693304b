//! A lease is divided after its range was split or merged.
//!
//! The old lease is the register that decides. The write that saves its last position also lists the
//! children it will have; only then are they made, and nobody reads by it any more. Whoever takes it
//! goes on with that list, whatever the ranges have become, and removes it last. A child begins only
//! when its parent is gone: were it divided or joined before, whoever finishes the list would make it
//! once more.

use std::sync::Arc;
use std::time::Duration;

use super::ghost;
use super::worker::{Exit, Worker};
use super::write::{NotWritten, look, put};
use crate::cut::{Seat, at_most, listed};
use crate::env::Rule;
use crate::fence::Safety;
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
            if let Some(child) = make_child(&self.shared, &self.child(seat)).await? {
                children.push(child);
            }
        }
        let removed = self.remove_parent().await?;
        for child in &mut children {
            child.begin();
        }
        Ok((children, removed))
    }

    fn child(&self, seat: &Seat) -> Lease {
        let mut child = self.shared.seated(seat, &self.tenure.lease);
        child.set(extra::EPOCH, self.tenure.lease.epoch() + 1);
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
            ghost::is_ghost(&shared, &lease).await
        };
        tokio::pin!(deciding);
        loop {
            if self.shared.fence.safety(self.shared.env.now()) == Safety::Over {
                self.exit = Some(Exit::Abandon(CloseReason::Fenced));
            }
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
                        Ok(false) | Err(NotWritten::Lost) => self.tenure.lease.begin(),
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

/// Makes a child. One that is there already is left as it is, and nothing returned. A tombstone of
/// its name, left by a join that came to nothing or where nothing may be deleted, gives way; so does
/// a ghost, which would otherwise be taken for the child and vanish when the parent is gone.
async fn make_child(shared: &Shared, child: &Lease) -> Result<Option<Lease>, NotWritten> {
    let mut child = child.clone();
    let mut patience = Patience::default();
    let mut old: Option<String> = None;
    loop {
        // Whoever may soon be thought dead makes nothing: another may have made it, and have come so
        // far with it that it is gone again.
        if shared.fence.safety(shared.env.now()) != Safety::Safe {
            return Err(NotWritten::Lost);
        }
        let body = document::write(&child);
        let written = match &old {
            None => shared.store.create(&body).await,
            Some(etag) => shared.store.replace(&body, etag).await,
        };
        match written {
            Ok(etag) => return Ok(Some(Lease { etag, ..child })),
            Err(StoreError::Refused { status, message }) => {
                return Err(NotWritten::Refused(format!("{status}: {message}")));
            }
            Err(StoreError::Throttled(wait)) => {
                patience.wait(shared, Some(wait)).await;
                continue;
            }
            Err(wrong @ StoreError::Unknown(_)) => {
                shared.retrying(Some(&child.token), wrong);
                patience.wait(shared, None).await;
            }
            Err(StoreError::Exists | StoreError::Changed | StoreError::Missing) => {}
        }
        old = match look(shared, &child.id, &mut patience).await {
            Err(NotWritten::Lost) => None,
            Err(refused) => return Err(refused),
            Ok(found) if found.property(extra::WRITE) == child.property(extra::WRITE) => {
                return Ok(Some(found));
            }
            Ok(found) if found.is_closed() || is_older(&found, &child) => {
                child.set(extra::EPOCH, child.epoch().max(found.epoch() + 1));
                Some(found.etag)
            }
            Ok(_) => return Ok(None),
        };
    }
}

/// Whether a lease has not begun, and was listed before this child of the same name was.
fn is_older(found: &Lease, child: &Lease) -> bool {
    found.property(extra::LISTED).is_some()
        && found.property(extra::PARENT).is_some()
        && found.rank() < child.rank()
}
