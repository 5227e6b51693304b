//! Writing lease documents: one request if all is quiet, and certainty in any case.

use std::sync::Arc;

use crate::env::Rule;
use crate::lease::{Lease, document};
use crate::shared::{Patience, Shared};
use crate::store::StoreError;
use crate::tenure::{Tenure, Verdict};

/// Why a lease was not written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NotWritten {
    /// It is not ours any more.
    Lost,
    /// The container refuses such writes.
    Refused(String),
}

/// Writes a draft of a tenure, and tries until it is known to have landed or to be lost. Ends early
/// only by being dropped.
pub(crate) async fn put(
    shared: Arc<Shared>,
    tenure: Tenure,
    mut draft: Lease,
) -> Result<Lease, NotWritten> {
    let mut patience = Patience::default();
    loop {
        let answer = shared.store.replace(&document::write(&draft), &draft.etag).await;
        match answer {
            Ok(etag) => {
                draft.etag = etag;
                return Ok(draft);
            }
            Err(StoreError::Missing | StoreError::Exists) => return Err(NotWritten::Lost),
            Err(StoreError::Refused { status, message }) => {
                return Err(NotWritten::Refused(format!("{status}: {message}")));
            }
            Err(StoreError::Throttled(wait)) => {
                shared.retrying(Some(&draft.token), "the lease container is throttled");
                patience.wait(&shared, Some(wait)).await;
                continue;
            }
            Err(StoreError::Changed) => {}
            Err(wrong @ StoreError::Unknown(_)) => {
                shared.retrying(Some(&draft.token), wrong);
                patience.wait(&shared, None).await;
            }
        }
        let current = look(&shared, &draft.id, &mut patience).await?;
        if !shared.env.keeps(Rule::IfMatch) {
            draft.etag = current.etag;
            continue;
        }
        match tenure.verdict(&draft, &current) {
            Verdict::Landed => {
                draft.etag = current.etag;
                return Ok(draft);
            }
            Verdict::Again(again) => draft = *again,
            Verdict::Lost => return Err(NotWritten::Lost),
        }
    }
}

/// Reads a lease, however long it takes.
pub(crate) async fn look(
    shared: &Shared,
    id: &str,
    patience: &mut Patience,
) -> Result<Lease, NotWritten> {
    loop {
        match shared.store.read(id).await {
            Ok(stored) => {
                return document::read(&stored.body, Some(&stored.etag))
                    .map_err(|wrong| NotWritten::Refused(wrong.to_string()));
            }
            Err(StoreError::Refused { status, message }) => {
                return Err(NotWritten::Refused(format!("{status}: {message}")));
            }
            Err(StoreError::Throttled(wait)) => patience.wait(shared, Some(wait)).await,
            Err(StoreError::Unknown(_)) => patience.wait(shared, None).await,
            Err(_) => return Err(NotWritten::Lost),
        }
    }
}

/// Makes a new lease. One of that id that is there already is left as it is, and nothing returned,
/// unless it is this one, whose answer was lost.
pub(crate) async fn make(shared: &Shared, lease: &Lease) -> Result<Option<Lease>, NotWritten> {
    let mut patience = Patience::default();
    let mut doubtful = false;
    loop {
        match shared.store.create(&document::write(lease)).await {
            Ok(etag) => return Ok(Some(Lease { etag, ..lease.clone() })),
            Err(StoreError::Exists) if doubtful => {
                let current = look(shared, &lease.id, &mut patience).await?;
                let same = current.properties == lease.properties && current.owner == lease.owner;
                return Ok(same.then_some(current));
            }
            Err(StoreError::Exists) => return Ok(None),
            Err(StoreError::Refused { status, message }) => {
                return Err(NotWritten::Refused(format!("{status}: {message}")));
            }
            Err(StoreError::Throttled(wait)) => patience.wait(shared, Some(wait)).await,
            Err(wrong) => {
                doubtful = true;
                shared.retrying(Some(&lease.token), wrong);
                patience.wait(shared, None).await;
            }
        }
    }
}
