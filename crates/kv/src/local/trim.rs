//! Drops rows below a bound, a few at a time, through the same queue as every other write.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::Shared;
use super::queue::Partition;
use crate::{Epoch, Error, Keyspace, Op, Result, Scan, Ticket};

/// Rows in one step: small enough that nobody notices.
pub(crate) const STEP_ROWS: usize = 512;

/// A bound that an owner has given.
pub(crate) struct Trim {
    pub shared: Arc<Shared>,
    pub partition: Arc<Partition>,
    pub epoch: Epoch,
    pub keyspace: Keyspace,
    pub below: Bytes,
}

impl Trim {
    pub(crate) fn same_rows(&self, other: &Self) -> bool {
        (self.partition.id, self.epoch, self.keyspace)
            == (other.partition.id, other.epoch, other.keyspace)
    }
}

/// How a step ended.
pub(crate) enum Step {
    Done,
    More,
    Busy,
}

/// Deletes the next rows and waits until that is durable.
pub(crate) fn step(trim: &Trim) -> Result<Step> {
    let to = Bound::Excluded(trim.below.clone());
    let (ops, more) = deletes(&trim.shared, &trim.partition, trim.keyspace, to)?;
    if ops.is_empty() {
        return Ok(Step::Done);
    }
    let ticket = match trim.shared.queue.submit(&trim.partition, trim.epoch, &ops, None) {
        Err(Error::Busy) => return Ok(Step::Busy),
        other => other?,
    };
    wait(ticket)?;
    Ok(if more { Step::More } else { Step::Done })
}

/// The operations that delete the first rows of a range, and whether there are more.
pub(crate) fn deletes(
    shared: &Arc<Shared>,
    partition: &Partition,
    keyspace: Keyspace,
    to: Bound<Bytes>,
) -> Result<(Vec<Op>, bool)> {
    let scan = Scan {
        keyspace,
        from: Bound::Unbounded,
        to,
        reverse: false,
        rows: STEP_ROWS,
        bytes: usize::MAX,
        keys_only: true,
    };
    let (chunk, _) = shared.view(partition.id).chunk(&scan)?;
    let keys = chunk.rows.into_iter();
    Ok((keys.map(|(key, _)| Op::Delete(keyspace, key)).collect(), chunk.resume.is_some()))
}

fn wait(ticket: Ticket) -> Result<()> {
    ticket.done.blocking_recv().unwrap_or(Err(Error::Closed))
}
