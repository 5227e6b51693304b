//! A heartbeat: one write that keeps all leases of a host.

use std::sync::Arc;

use crate::member::Member;
use crate::monitor::Event;
use crate::shared::{Patience, Shared};
use crate::store::StoreError;

/// What came of it.
#[derive(Debug)]
pub(super) enum Beaten {
    /// It arrived.
    Confirmed { member: Member, etag: String },
    /// Another process has our name.
    Replaced,
    /// The container does not take it.
    Refused(String),
}

/// Writes the host's document, and tries until it is known to have arrived.
pub(super) async fn beat(shared: Arc<Shared>, mut member: Member, mut etag: String) -> Beaten {
    let mut patience = Patience::default();
    loop {
        member.beat = member.beat.wrapping_add(1);
        let sent = shared.env.now();
        let answer = if etag.is_empty() {
            shared.store.create(&member.write()).await
        } else {
            shared.store.replace(&member.write(), &etag).await
        };
        match answer {
            Ok(etag) => {
                shared.fence.confirm(sent, shared.env.now());
                shared.tell(&Event::Beat);
                return Beaten::Confirmed { member, etag };
            }
            Err(StoreError::Throttled(wait)) => {
                patience.wait(&shared, Some(wait)).await;
                continue;
            }
            Err(StoreError::Refused { status, message }) => {
                return Beaten::Refused(format!("{status}: {message}"));
            }
            Err(StoreError::Changed | StoreError::Missing | StoreError::Exists) => {}
            Err(wrong @ StoreError::Unknown(_)) => {
                shared.retrying(None, wrong);
                patience.wait(&shared, None).await;
            }
        }
        // An earlier write of ours may have landed without an answer; or somebody else's did.
        match shared.store.read(&member.id).await {
            Ok(stored) => match Member::read(&stored.body) {
                Some(found) if found.owner() == member.owner() => {
                    etag = stored.etag;
                    member.beat = found.beat.max(member.beat);
                }
                Some(_) => return Beaten::Replaced,
                // Damaged: a process that has taken our place would have written a sound one.
                None => etag = stored.etag,
            },
            // Cleared away while we slept.
            Err(StoreError::Missing) => etag = String::new(),
            Err(_) => patience.wait(&shared, None).await,
        }
    }
}
