//! Making a child of a lease that is divided.

use super::write::{NotWritten, look};
use crate::fence::{Safety, Spell};
use crate::lease::{Lease, document, extra};
use crate::shared::{Patience, Shared};
use crate::store::StoreError;

/// Makes a child. One that is there already is left as it is, and nothing returned. A tombstone of
/// its name, left by a join that came to nothing or where nothing may be deleted, gives way; so does
/// a ghost, which would otherwise be taken for the child and vanish when the parent is gone.
pub(super) async fn make_child(
    shared: &Shared,
    spell: Spell,
    mut child: Lease,
) -> Result<Option<Lease>, NotWritten> {
    let mut patience = Patience::default();
    let mut old: Option<String> = None;
    loop {
        // Whoever may soon be thought dead, or may have been, makes nothing: another may have made it,
        // and have come so far with it that it is gone again. As long as the parent is ours, a
        // tombstone of the child's name that was seen before decides about no join.
        if shared.safety_in(spell) != Safety::Safe {
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
                child.set(extra::EPOCH, child.epoch().max(found.epoch().saturating_add(1)));
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
