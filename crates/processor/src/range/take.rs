//! Taking a lease: fills in what older libraries left out, pins where it begins, writes once.

use std::sync::Arc;

use crate::cut::{self, Cut, holder};
use crate::feed::{Ask, FeedError};
use crate::lease::{Kind, Lease, Owner, document, extra};
use crate::position::Start;
use crate::range::join;
use crate::range::write::{NotWritten, look};
use crate::shared::{Patience, Shared};
use crate::store::StoreError;
use crate::tenure::{Tenure, taking};

/// What came of it.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is ours.
    Ours(Box<Tenure>),
    /// Somebody else was faster, or it has changed: look again.
    NotNow,
    /// It cannot be worked on.
    Impossible(String),
}

/// Takes a lease that is free, or whose owner is dead. Whoever has written it meanwhile keeps it.
pub(crate) async fn take(shared: Arc<Shared>, seen: Lease, owner: Owner, floor: u64) -> Taken {
    let mut lease = seen;
    match join::settle(&shared, &mut lease).await {
        Ok(true) => {}
        Ok(false) | Err(NotWritten::Lost) => return Taken::NotNow,
        Err(NotWritten::Refused(why)) => return Taken::Impossible(why),
    }
    if lease.span.is_none() {
        let ranges = match shared.read_ranges().await {
            Ok(ranges) => ranges,
            Err(wrong) => {
                shared.retrying(Some(&lease.token), wrong);
                return Taken::NotNow;
            }
        };
        lease.span = cut::span_of(&lease, &ranges);
    }
    if lease.position().is_none() {
        // Not before it is known where it begins: a lease never exists without a position.
        match pinned(&shared, &lease, shared.options.start()).await {
            Ok(Start::After(etag)) => lease.continuation = Some(etag),
            Ok(start) => lease.set(extra::START, start),
            Err(wrong @ (FeedError::Refused { .. } | FeedError::ContainerGone(_))) => {
                return Taken::Impossible(wrong.to_string());
            }
            Err(wrong) => {
                shared.retrying(Some(&lease.token), wrong);
                return Taken::NotNow;
            }
        }
    }
    lease.mode = lease.mode.or(Some(shared.options.mode));
    write(&shared, lease, owner, floor).await
}

async fn write(shared: &Shared, lease: Lease, owner: Owner, floor: u64) -> Taken {
    let mut draft = taking(&lease, &owner, floor, shared.write_id(), shared.env.wall());
    let mut patience = Patience::default();
    match shared.store.replace(&document::write(&draft), &draft.etag).await {
        Ok(etag) => {
            draft.etag = etag;
            Taken::Ours(Box::new(Tenure::new(draft, owner)))
        }
        Err(StoreError::Unknown(_)) => match look(shared, &draft.id, &mut patience).await {
            Ok(current) if current.property(extra::WRITE) == draft.property(extra::WRITE) => {
                Taken::Ours(Box::new(Tenure::new(current, owner)))
            }
            Ok(_) | Err(NotWritten::Lost) => Taken::NotNow,
            Err(NotWritten::Refused(why)) => Taken::Impossible(why),
        },
        Err(StoreError::Refused { status, message }) => {
            Taken::Impossible(format!("{status}: {message}"))
        }
        Err(_) => Taken::NotNow,
    }
}

/// Turns *now* into the etag that stands for this moment; other starts are what they are.
pub(crate) async fn pinned(
    shared: &Shared,
    lease: &Lease,
    start: Start,
) -> Result<Start, FeedError> {
    if start != Start::Now {
        return Ok(start);
    }
    let mut ranges = shared.known_ranges();
    if holder(lease, &ranges).is_none() {
        ranges = shared.read_ranges().await?;
    }
    let range = match holder(lease, &ranges) {
        Some(range) => range.id.clone(),
        // Split before it ever began: any of its parts has the same now.
        None => match cut::cut(lease, &ranges) {
            Cut::Children(_) => {
                let span = lease.span.clone();
                let inside = |range: &&cut::KeyRange| {
                    span.as_ref().is_some_and(|span| range.span.overlaps(span))
                };
                ranges.iter().find(inside).map(|range| range.id.clone()).ok_or(FeedError::Gone)?
            }
            _ => return Err(FeedError::Gone),
        },
    };
    let span = if lease.kind == Kind::Span { lease.span.clone() } else { None };
    let ask = Ask {
        range,
        span,
        start: Start::Now,
        max_item_count: Some(1),
        wait: None,
        mode: shared.options.mode,
        session_token: shared.options.session_token.clone(),
    };
    let page = shared.feed.read(ask).await?;
    Ok(Start::After(page.continuation))
}
