//! Two leases become one after their ranges were merged.
//!
//! The new lease is the register that decides. It is proposed first, as a tombstone; then both old
//! ones say that they are about to become part of it; then the proposal is made good by one write
//! that only lands if nobody has touched it. Whoever finds an old lease whose owner is gone asks the
//! register: a lease that is good has replaced the old one, a mere proposal is withdrawn. Either
//! way one of the two happens, never both.

use std::sync::Arc;

use serde_json::{Map, json};

use super::write::{NotWritten, look, put};
use crate::cut::Seat;
use crate::env::Rule;
use crate::lease::{Lease, document, extra, stamp};
use crate::shared::{Patience, Shared};
use crate::store::{StoreError, Stored};
use crate::tenure::{Heir, Tenure};

/// What a proposal's mark of a tombstone says.
const PROPOSED: &str = "joining";

/// Puts one lease in the place of two that are at rest at the same position. Nothing of it has
/// happened if it fails: whoever takes the old ones next finds that out.
pub(crate) async fn join(
    shared: Arc<Shared>,
    seat: Seat,
    low: Tenure,
    high: Tenure,
) -> Result<Lease, NotWritten> {
    let (proposal, whole) = drafts(&shared, &seat, &low, &high);
    let proposed = propose(&shared, proposal).await?;
    let part = low.lease.token.clone();
    let mut joined = Err(NotWritten::Lost);
    if mark(&shared, low, &seat.token).await? && mark(&shared, high, &seat.token).await? {
        joined = make_good(&shared, &proposed, whole).await;
    }
    if joined.is_err() {
        // Not needed, but kind: whoever takes the old leases would do it.
        let _ = fate(&shared, &seat.token, &part).await;
    }
    joined
}

/// The proposal, and what it becomes.
fn drafts(shared: &Shared, seat: &Seat, low: &Tenure, high: &Tenure) -> (Lease, Lease) {
    let (a, b) = (&low.lease, &high.lease);
    let mut whole = shared.seated(seat, a);
    whole.timestamp = Some(stamp::format(shared.env.wall()));
    for (name, value) in &b.properties {
        whole.properties.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let parked = [a.parked(), b.parked()].concat();
    if !parked.is_empty() {
        whole.set(extra::PARKED, json!(parked));
    }
    whole.set(extra::EPOCH, a.epoch().max(b.epoch()).saturating_add(1));
    whole.set(extra::SOUGHT, a.number(extra::SOUGHT).max(b.number(extra::SOUGHT)));
    whole.set(extra::RATE, a.measure(extra::RATE) + b.measure(extra::RATE));
    whole.set(extra::ATTEMPTS, 0);
    whole.set(extra::JOINS, json!([a.token, b.token]));
    whole.unset(extra::JOINING);
    if seat.kind == crate::lease::Kind::Range {
        whole.unset(extra::WHOLE);
    }
    let write_id = |step: &str| format!("{}/{step}/{:x}", low.owner(), shared.write_id());
    whole.set(extra::WRITE, write_id("join"));
    // It has an owner, so that hosts of other libraries leave it alone, and no position.
    let mut proposal = Lease { continuation: None, properties: Map::new(), ..whole.clone() };
    proposal.set(extra::CLOSED, PROPOSED);
    proposal.set(extra::EPOCH, whole.epoch());
    proposal.set(extra::WRITE, write_id("propose"));
    (proposal, whole)
}

/// Writes the proposal, also over an older one that came to nothing.
async fn propose(shared: &Shared, mut proposal: Lease) -> Result<Lease, NotWritten> {
    let mut patience = Patience::default();
    let mut written = shared.store.create(&document::write(&proposal)).await;
    loop {
        match written {
            Ok(etag) => {
                proposal.etag = etag;
                return Ok(proposal);
            }
            Err(StoreError::Refused { status, message }) => {
                return Err(NotWritten::Refused(format!("{status}: {message}")));
            }
            Err(StoreError::Missing) => return Err(NotWritten::Lost),
            Err(StoreError::Throttled(wait)) => patience.wait(shared, Some(wait)).await,
            Err(StoreError::Unknown(_)) => patience.wait(shared, None).await,
            Err(StoreError::Exists | StoreError::Changed) => {}
        }
        let current = match look(shared, &proposal.id, &mut patience).await {
            Err(NotWritten::Lost) => None,
            other => Some(other?),
        };
        written = match current {
            Some(current) if current.property(extra::WRITE) == proposal.property(extra::WRITE) => {
                Ok(current.etag)
            }
            Some(current) if current.is_closed() => {
                shared.store.replace(&document::write(&proposal), &current.etag).await
            }
            Some(_) => return Err(NotWritten::Lost),
            None => shared.store.create(&document::write(&proposal)).await,
        };
    }
}

/// Says in an old lease what it is about to become. False if it is not ours any more.
async fn mark(shared: &Arc<Shared>, mut tenure: Tenure, token: &str) -> Result<bool, NotWritten> {
    let mut draft = tenure.draft(shared.env.wall(), &Heir::Us);
    draft.set(extra::JOINING, token);
    match put(Arc::clone(shared), tenure, draft).await {
        Ok(_) => Ok(true),
        Err(NotWritten::Lost) => Ok(false),
        Err(refused) => Err(refused),
    }
}

/// The write that decides.
async fn make_good(
    shared: &Shared,
    proposed: &Lease,
    mut whole: Lease,
) -> Result<Lease, NotWritten> {
    let mut patience = Patience::default();
    let mut etag = proposed.etag.clone();
    loop {
        match shared.store.replace(&document::write(&whole), &etag).await {
            Ok(etag) => {
                whole.etag = etag;
                return Ok(whole);
            }
            Err(StoreError::Refused { status, message }) => {
                return Err(NotWritten::Refused(format!("{status}: {message}")));
            }
            Err(StoreError::Missing | StoreError::Exists) => return Err(NotWritten::Lost),
            Err(StoreError::Throttled(wait)) => patience.wait(shared, Some(wait)).await,
            Err(StoreError::Unknown(_)) => patience.wait(shared, None).await,
            Err(StoreError::Changed) => {}
        }
        let current = look(shared, &whole.id, &mut patience).await?;
        let is = |other: &Lease| current.property(extra::WRITE) == other.property(extra::WRITE);
        if is(&whole) {
            whole.etag = current.etag;
            return Ok(whole);
        }
        if !is(proposed) {
            return Err(NotWritten::Lost);
        }
        etag = current.etag;
    }
}

/// What has become of a join that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has happened: the old lease is over.
    Joined,
    /// It has not, and will not.
    Withdrawn,
}

/// Finds out what has become of a part, and withdraws what is only proposed.
async fn fate(shared: &Shared, token: &str, part: &str) -> Result<Fate, NotWritten> {
    let id = shared.names.lease(token);
    let mut patience = Patience::default();
    loop {
        let found = match look(shared, &id, &mut patience).await {
            Err(NotWritten::Lost) => return Ok(Fate::Withdrawn),
            other => other?,
        };
        match found.property(extra::CLOSED) {
            // It names its parts until they are gone. One that does not name this part has the
            // register's name and nothing else of it, such as a child that was made too late.
            None if found.texts(extra::JOINS).iter().any(|token| token == part) => {
                return Ok(Fate::Joined);
            }
            None => return Ok(Fate::Withdrawn),
            Some(PROPOSED) => {
                if retire(shared, &found).await? {
                    return Ok(Fate::Withdrawn);
                }
            }
            Some(_) => return Ok(Fate::Withdrawn),
        }
    }
}

/// Deletes a lease, or where that is not allowed closes it for good. False if it has changed.
pub(super) async fn retire(shared: &Shared, lease: &Lease) -> Result<bool, NotWritten> {
    let mut patience = Patience::default();
    let body = document::write(lease);
    let stored = Stored { id: lease.id.clone(), etag: lease.etag.clone(), body };
    let mut can_delete = true;
    loop {
        let done = if can_delete {
            shared.store.delete(&stored).await
        } else {
            let mut closed = Lease { owner: None, ..lease.clone() };
            closed.set(extra::CLOSED, "true");
            shared.store.replace(&document::write(&closed), &lease.etag).await.map(drop)
        };
        match done {
            Ok(()) | Err(StoreError::Missing) => return Ok(true),
            Err(StoreError::Changed | StoreError::Exists) => return Ok(false),
            Err(StoreError::Refused { .. }) if can_delete => can_delete = false,
            Err(StoreError::Refused { status, message }) => {
                return Err(NotWritten::Refused(format!("{status}: {message}")));
            }
            Err(StoreError::Throttled(wait)) => patience.wait(shared, Some(wait)).await,
            // If it has happened, the next try finds it missing or changed.
            Err(StoreError::Unknown(_)) => patience.wait(shared, None).await,
        }
    }
}

/// Removes the leases that a joined one has taken the place of. Happens before it is worked on, so
/// that none of them can be mistaken for a live one later.
pub(crate) async fn remove_parts(shared: &Shared, whole: &Lease) -> Result<(), NotWritten> {
    let mut patience = Patience::default();
    for token in whole.texts(extra::JOINS) {
        loop {
            let part = match look(shared, &shared.names.lease(&token), &mut patience).await {
                Err(NotWritten::Lost) => break,
                other => other?,
            };
            let is_part = part.property(extra::JOINING) == Some(whole.token.as_str());
            if !is_part || part.is_closed() || retire(shared, &part).await? {
                break;
            }
        }
    }
    Ok(())
}

/// Asks the register before an old lease is taken. False if there is nothing to take.
pub(crate) async fn settle(shared: &Shared, lease: &mut Lease) -> Result<bool, NotWritten> {
    let Some(token) = lease.property(extra::JOINING).map(str::to_owned) else { return Ok(true) };
    let fate = match shared.env.keeps(Rule::Register) {
        true => fate(shared, &token, &lease.token).await?,
        false => Fate::Withdrawn,
    };
    match fate {
        Fate::Withdrawn => {
            lease.unset(extra::JOINING);
            Ok(true)
        }
        Fate::Joined => {
            retire(shared, lease).await?;
            Ok(false)
        }
    }
}
