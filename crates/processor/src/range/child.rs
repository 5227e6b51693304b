//! Making a child of a lease that is divided.

use super::write::{NotWritten, look};
use crate::fence::Safety;
use crate::lease::{Lease, document, extra};
use crate::shared::{Patience, Shared};
use crate::store::StoreError;

/// Makes a child. One that is there already is left as it is, and nothing returned. A tombstone of
/// its name, left by a join that came to nothing or where nothing may be deleted, gives way; so does
/// a ghost, which would otherwise be taken for the child and vanish when the parent is gone.
pub(super) async fn make_child(
    shared: &Shared,
    parent: &Lease,
    mut child: Lease,
) -> Result<Option<Lease>, NotWritten> {
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
            Err(StoreError::Throttled(wait)) => patience.wait(shared, Some(wait)).await,
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
        // Whoever may act now may have been thought dead in between. What gives way is looked at
        // before: while the parent is still ours, no join can be under way that it decides.
        if find_parent(shared, parent, &mut patience).await?.is_none() {
            return Err(NotWritten::Lost);
        }
    }
}

/// The lease that is being divided, as it is now, if it is there; it has to be ours.
pub(super) async fn find_parent(
    shared: &Shared,
    parent: &Lease,
    patience: &mut Patience,
) -> Result<Option<Lease>, NotWritten> {
    let current = match look(shared, &parent.id, patience).await {
        Err(NotWritten::Lost) => return Ok(None),
        other => other?,
    };
    if current.is_of_tenure(parent) { Ok(Some(current)) } else { Err(NotWritten::Lost) }
}

/// Whether a lease has not begun, and was listed before this child of the same name was.
fn is_older(found: &Lease, child: &Lease) -> bool {
    found.property(extra::LISTED).is_some()
        && found.property(extra::PARENT).is_some()
        && found.rank() < child.rank()
}
