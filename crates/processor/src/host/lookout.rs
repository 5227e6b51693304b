//! Watching the lease container: what changes in it, and whether anything is missing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::start;
use crate::fence::Spell;
use crate::lease::Lease;
use crate::position::Start;
use crate::shared::{Patience, Shared};
use crate::store::Stored;

/// A hole has to be seen so often in a row before it is filled.
const HOLE_FINDINGS: u32 = 3;
/// Longest wait for a change in the lease container.
const STIR_WAIT: Duration = Duration::from_secs(30);

/// Waits for changes in the lease container, and passes them on.
pub(super) async fn watch(shared: Arc<Shared>, stirred: mpsc::Sender<(Spell, Vec<Stored>)>) {
    let mut position = None;
    let mut patience = Patience::default();
    loop {
        let spell = shared.fence.spell();
        match shared.store.stir(position.clone(), STIR_WAIT).await {
            Ok(found) => {
                let anew = position.is_none();
                position = found.position;
                patience = Patience::default();
                let tells = anew || !found.documents.is_empty();
                if tells && stirred.send((spell, found.documents)).await.is_err() {
                    return;
                }
            }
            Err(wrong) => {
                shared.retrying(None, wrong);
                position = None;
                patience.wait(&shared, None).await;
            }
        }
    }
}

/// Looks whether every key is covered. Returns for how many looks in a row it was not.
pub(super) async fn audit(
    shared: Arc<Shared>,
    leases: Vec<Lease>,
    epoch_seen: u64,
    findings: u32,
) -> u32 {
    let Ok(ranges) = shared.read_ranges().await else { return findings };
    let missing = crate::cut::missing(&leases, &ranges, shared.options.ranges_per_partition);
    if missing.is_empty() {
        return 0;
    }
    if findings + 1 < HOLE_FINDINGS {
        return findings + 1;
    }
    for seat in &missing {
        let message = format!("no lease covers {}; it is made again", seat.span);
        shared.alarm(Some(&seat.token), message);
        // Where it had been is not known: what was configured, and never less than everything.
        let start = match shared.options.start() {
            Start::Now => Start::Beginning,
            start => start,
        };
        if let Err(wrong) = start::seat_lease(&shared, seat, &leases, start, epoch_seen).await {
            shared.alarm(Some(&seat.token), wrong.to_string());
        }
    }
    0
}
