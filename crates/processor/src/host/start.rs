//! A host begins: makes the leases if nobody has, and takes its place among the others.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::fleet::FleetView;
use crate::cut::{self, Seat};
use crate::feed::FeedError;
use crate::lease::{Lease, extra};
use crate::member::{Member, State};
use crate::position::Start;
use crate::range::{make, pinned};
use crate::shared::{Patience, Shared};
use crate::sight::Sightings;
use crate::store::{StoreError, Stored};

/// How often a host looks whether another one has finished making the leases.
const LOCK_POLL: Duration = Duration::from_millis(250);

/// Why a processor does not start, or does not go on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StartError {
    /// The monitored container cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The lease container cannot be used.
    #[error("{0}")]
    Leases(String),
    /// The leases there are those of another mode or family.
    #[error("{0}")]
    Mismatch(String),
}

/// Lists everything.
pub(super) async fn list(shared: &Shared) -> Result<Vec<Stored>, StartError> {
    shared.list().await.map_err(|wrong| StartError::Leases(wrong.to_string()))
}

/// Ensures that the leases exist. Hosts of any library do this one after another.
pub(super) async fn bootstrap(shared: &Shared, fleet: &mut FleetView) -> Result<(), StartError> {
    let mut seen = Sightings::default();
    let mut discard = shared.options.discard_existing_leases;
    loop {
        let documents = list(shared).await?;
        fleet.replace(&documents, shared.env.now());
        check_family(shared, fleet)?;
        if fleet.has_info && !discard {
            return Ok(());
        }
        let lock = documents.iter().find(|document| document.id == shared.names.lock());
        if let Some(lock) = lock {
            let now = shared.env.now();
            seen.see((), &lock.etag, now);
            // Its holder may have died: no matter what its clock said, it was silent for so long.
            if seen.still_for(&(), now) >= shared.expiration() {
                let _ = shared.store.delete(lock).await;
            }
            shared.env.sleep(LOCK_POLL).await;
            continue;
        }
        let Some(lock) = create_lock(shared).await? else { continue };
        let made = if discard { discard_all(shared, fleet).await } else { Ok(()) };
        let made = match made {
            Ok(()) => make_missing(shared, fleet).await,
            wrong => wrong,
        };
        if made.is_ok() {
            let id = shared.names.info();
            let _ = shared.store.create(&marker(shared, &id)).await;
        }
        let _ = shared.store.delete(&lock).await;
        made?;
        discard = false;
    }
}

fn marker(shared: &Shared, id: &str) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("id".into(), json!(id));
    if let Some(key) = shared.partition_key(id) {
        body.insert("partitionKey".into(), json!(key));
    }
    body
}

/// The lock, if nobody else has it.
async fn create_lock(shared: &Shared) -> Result<Option<Stored>, StartError> {
    let id = shared.names.lock();
    let mut body = marker(shared, &id);
    body.insert("ttl".into(), json!(30));
    match shared.store.create(&body).await {
        Ok(etag) => Ok(Some(Stored { id, etag, body })),
        Err(wrong @ StoreError::Refused { .. }) => Err(StartError::Leases(wrong.to_string())),
        Err(_) => {
            shared.env.sleep(LOCK_POLL).await;
            Ok(None)
        }
    }
}

/// Leases of another mode, or written by the Java library, are not ours to touch.
fn check_family(shared: &Shared, fleet: &FleetView) -> Result<(), StartError> {
    if let Some(java) = fleet.complaints.iter().find(|text| text.contains("Java library")) {
        return Err(StartError::Mismatch(java.clone()));
    }
    let mode = shared.options.mode;
    let other =
        fleet.live_leases().find(|lease| lease.mode.unwrap_or_default().text() != mode.text());
    match other {
        Some(lease) if !shared.options.discard_existing_leases => {
            Err(StartError::Mismatch(format!(
                "lease '{}' is of the mode '{}', but the processor was started for '{}': positions of one mean nothing to the other; use another lease prefix",
                lease.id,
                lease.mode.unwrap_or_default().text(),
                mode.text()
            )))
        }
        _ => Ok(()),
    }
}

async fn discard_all(shared: &Shared, fleet: &mut FleetView) -> Result<(), StartError> {
    let leases: Vec<Lease> = fleet.leases.values().cloned().collect();
    for lease in leases {
        let body = crate::lease::document::write(&lease);
        let stored = Stored { id: lease.id.clone(), etag: lease.etag.clone(), body };
        match shared.store.delete(&stored).await {
            Ok(()) | Err(StoreError::Missing) => fleet.remove_lease(&lease.id),
            Err(wrong) => {
                let text = format!("lease '{}' cannot be discarded: {wrong}", lease.id);
                return Err(StartError::Leases(text));
            }
        }
    }
    Ok(())
}

async fn make_missing(shared: &Shared, fleet: &FleetView) -> Result<(), StartError> {
    let mut patience = Patience::default();
    let ranges = loop {
        match shared.read_ranges().await {
            Ok(ranges) => break ranges,
            Err(wrong @ (FeedError::Transient(_) | FeedError::Throttled(_))) => {
                shared.retrying(None, wrong);
                patience.wait(shared, None).await;
            }
            Err(wrong) => return Err(wrong.into()),
        }
    };
    let leases: Vec<Lease> = fleet.leases.values().cloned().collect();
    for seat in cut::missing(&leases, &ranges, shared.options.ranges_per_partition) {
        let start = shared.options.start();
        seat_lease(shared, &seat, &leases, start, fleet.epoch_seen).await?;
    }
    Ok(())
}

/// Makes one lease, at the position of the tombstone it follows or at the given start. A lease
/// never exists without a position: *now* is turned into an etag first. Its epoch is one that no lease
/// was in that this process knows of, because there may have been one of its name.
pub(super) async fn seat_lease(
    shared: &Shared,
    seat: &Seat,
    leases: &[Lease],
    start: Start,
    epoch: u64,
) -> Result<(), StartError> {
    let id = shared.names.lease(&seat.token);
    let mut lease = Lease {
        partition_key: shared.partition_key(&id),
        mode: Some(shared.options.mode),
        ..Lease::new(id, &seat.token, seat.kind, Some(seat.span.clone()))
    };
    if epoch > 0 {
        lease.set(extra::EPOCH, epoch);
    }
    let mut patience = Patience::default();
    let position = match cut::ancestor(seat, leases).and_then(Lease::position) {
        Some(position) => position,
        None => loop {
            match pinned(shared, &lease, start.clone()).await {
                Ok(position) => break position,
                // The audit finds what a split in between has left open.
                Err(FeedError::Gone) => return Ok(()),
                Err(
                    wrong
                    @ (FeedError::Transient(_) | FeedError::Throttled(_) | FeedError::Session),
                ) => {
                    shared.retrying(Some(&seat.token), wrong);
                    patience.wait(shared, None).await;
                }
                Err(wrong) => return Err(wrong.into()),
            }
        },
    };
    match position {
        Start::After(etag) => lease.continuation = Some(etag),
        start => lease.set(extra::START, start),
    }
    make(shared, &lease).await.map_err(|wrong| StartError::Leases(format!("{wrong:?}")))?;
    Ok(())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Announces this process. A process of the same name that came before is over from now on.
pub(super) async fn join(
    shared: &Shared,
    fleet: &mut FleetView,
) -> Result<(Member, String), StartError> {
    let options = &shared.options;
    let mut patience = Patience::default();
    loop {
        let documents = list(shared).await?;
        fleet.replace(&documents, shared.env.now());
        let id = shared.names.host(&options.instance_name);
        // By its id: a document that cannot be read is written over.
        let before = documents.iter().find(|stored| stored.id == id).map(|each| each.etag.clone());
        let member = Member {
            partition_key: shared.partition_key(&id),
            id,
            instance: options.instance_name.clone(),
            generation: fleet.generation(&options.instance_name).saturating_add(1),
            nonce: shared.env.random() as u32,
            beat: 0,
            state: State::Up,
            weight: options.weight,
            min: options.min_partition_count,
            max: options.max_partition_count,
            grace_ms: millis(options.rejoin_grace),
            expires_ms: millis(options.lease_expiration_interval),
        };
        let sent = shared.env.now();
        let written = match before {
            Some(etag) => shared.store.replace(&member.write(), &etag).await,
            None => shared.store.create(&member.write()).await,
        };
        match written {
            Ok(etag) => {
                shared.fence.confirm(sent, shared.env.now());
                return Ok((member, etag));
            }
            Err(wrong @ StoreError::Refused { .. }) => {
                return Err(StartError::Leases(wrong.to_string()));
            }
            Err(wrong) => {
                shared.retrying(None, &wrong);
                let wait = if let StoreError::Throttled(wait) = wrong { Some(wait) } else { None };
                patience.wait(shared, wait).await;
            }
        }
    }
}
