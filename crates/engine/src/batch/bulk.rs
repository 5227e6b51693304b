//! Bulk: operations that have nothing to do with each other but the request they came in.
//!
//! Each is a request of its own, with its own partition key, LSN and refusal. Operations on the
//! same item keep their order; all others run at once, so that they share a sync of the disk.

use std::sync::Arc;

use model::partition_key::PartitionKey;
use model::token::Session;
use model::{Error, Fault, Result, limits};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{BatchItem, BatchKind, BatchOperation, BatchResult, check_count, operation};
use crate::Container;
use crate::api::{Answer, At, ItemWrite};
use crate::container::range_gone;

/// Operations of one request that may hold bodies of their own finding at a time.
const READERS: usize = 4;

impl Container {
    /// Does each operation for itself. `range` is the one that the client takes to own the keys.
    /// Unless `go_on`, the first failure ends it.
    pub async fn execute_bulk(
        &self,
        range: Option<&str>,
        operations: Vec<BatchOperation>,
        go_on: bool,
        session: Option<&Session>,
    ) -> Result<Answer<Vec<BatchResult>>> {
        self.check_alive()?;
        check_count(&operations)?;
        let partitions = self.partitions();
        let partition = match range {
            None => partitions.first(),
            Some(id) => partitions.iter().find(|partition| *partition.range == *id),
        };
        let partition = partition.ok_or_else(|| range_gone(range.unwrap_or_default()))?.clone();
        partition.check_session(session)?;
        let container = self.itself().ok_or_else(closed)?;
        let (count, span) = (operations.len(), range.map(|_| partition.span.clone()));
        let bulk = Arc::new(Bulk { container, span, readers: Semaphore::new(READERS) });
        let mut done = match go_on {
            true => bulk.all(operations).await,
            false => bulk.until_failure(operations).await,
        };
        done.resize_with(count, || None);
        let mut room = limits::BATCH_RESULT_BYTES;
        let results: Vec<_> = done.into_iter().map(|done| fitting(done, &mut room)).collect();
        let lsn = results.iter().map(|(lsn, _)| *lsn).max().unwrap_or(0).max(partition.lsn());
        let results: Vec<BatchResult> = results.into_iter().map(|(_, result)| result).collect();
        // Each operation has paid for itself.
        let charge = results.iter().map(|result| result.charge).sum();
        let at = At { range: partition.range.clone(), lsn, item_lsn: None };
        Ok(Answer { at, charge, retry_after_ms: None, result: Ok(results) })
    }
}

/// A result, and the LSN that it was served at.
type Done = (u64, BatchResult);

struct Bulk {
    container: Arc<Container>,
    /// The keys of the range that was named.
    span: Option<model::epk::EpkRange>,
    readers: Semaphore,
}

impl Bulk {
    async fn all(self: Arc<Self>, operations: Vec<BatchOperation>) -> Vec<Option<Done>> {
        let mut done: Vec<Option<Done>> = operations.iter().map(|_| None).collect();
        let mut tasks = JoinSet::new();
        for lane in lanes(operations) {
            let bulk = self.clone();
            tasks.spawn(async move {
                let mut results = Vec::with_capacity(lane.len());
                for (n, operation) in lane {
                    results.push((n, bulk.one(operation).await));
                }
                results
            });
        }
        while let Some(lane) = tasks.join_next().await {
            for (n, result) in lane.unwrap_or_default() {
                done[n] = Some(result);
            }
        }
        // A lane that is missing has ended in a panic; it is logged where it happened.
        let internal = || Error::new(Fault::Internal, "the operation came to no end");
        done.into_iter()
            .map(|done| Some(done.unwrap_or_else(|| (0, BatchResult::refused(internal())))))
            .collect()
    }

    async fn until_failure(&self, operations: Vec<BatchOperation>) -> Vec<Option<Done>> {
        let mut done = Vec::with_capacity(operations.len());
        for operation in operations {
            let result = self.one(operation).await;
            let failed = result.1.result.is_err();
            done.push(Some(result));
            if failed {
                break;
            }
        }
        done
    }

    async fn one(&self, operation: BatchOperation) -> Done {
        match self.serve(&operation).await {
            Ok(answer) => {
                let Answer { at, charge, retry_after_ms, result } = answer;
                (at.lsn, BatchResult { charge, retry_after_ms, result })
            }
            Err(error) => (0, BatchResult::refused(error)),
        }
    }

    async fn serve(&self, operation: &BatchOperation) -> Result<Answer<BatchItem>> {
        let BatchOperation { kind, id, body, conditions, key, .. } = operation;
        self.check_range(key.as_deref())?;
        let (container, key, body) = (&self.container, key.as_deref().cloned(), body.clone());
        let named =
            || id.as_deref().ok_or_else(|| Error::bad_request(format!("a {kind:?} needs an 'id'")));
        let written = |answer: Answer<ItemWrite>| answer.map(BatchItem::Written);
        Ok(match kind {
            BatchKind::Create => written(container.create_item(key, body, conditions).await?),
            BatchKind::Upsert => written(container.upsert_item(key, body, conditions).await?),
            BatchKind::Replace => {
                written(container.replace_item(named()?, key, body, conditions).await?)
            }
            BatchKind::Patch => {
                let _turn = self.readers.acquire().await;
                written(container.patch_item(named()?, key, &body, conditions).await?)
            }
            BatchKind::Delete => {
                container.delete_item(named()?, key, conditions).await?.map(|_| BatchItem::Deleted)
            }
            BatchKind::Read => {
                let _turn = self.readers.acquire().await;
                let answer = container.read_item(named()?, key, None).await?;
                let seen = conditions.if_none_match;
                answer.map(|item| match seen.is_some_and(|seen| seen.matches(Some(item.etag))) {
                    true => BatchItem::NotModified(item.etag),
                    false => BatchItem::Read(item),
                })
            }
        })
    }

    /// A client that takes a key to be in another range has to look at the ranges again.
    fn check_range(&self, key: Option<&PartitionKey>) -> Result<()> {
        if let (Some(span), Some(key)) = (&self.span, key) {
            let definition = self.container.definition();
            definition.partition_key.check_full(key)?;
            if !span.contains(&definition.partition_key.epk(key)) {
                return Err(Error::new(
                    Fault::RangeGone,
                    "the partition key is not in the range that was named: read the ranges again",
                ));
            }
        }
        Ok(())
    }
}

/// Operations with their places in the request; those on the same item one behind the other.
fn lanes(operations: Vec<BatchOperation>) -> Vec<Vec<(usize, BatchOperation)>> {
    let mut lanes: Vec<Vec<(usize, BatchOperation)>> = Vec::new();
    let mut by_item: std::collections::HashMap<(String, String), usize> = Default::default();
    for (n, operation) in operations.into_iter().enumerate() {
        let id = operation.id.clone().or_else(|| {
            model::item::Item::parse(&operation.body).ok().map(|item| item.id.into_owned())
        });
        let key = operation.key.as_ref().map(|key| key.to_header()).unwrap_or_default();
        let lane = *by_item.entry((key, id.unwrap_or_default())).or_insert(lanes.len());
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        lanes[lane].push((n, operation));
    }
    lanes
}

/// A result that fits into the answer. What was written stays written, and its body is left out;
/// what was only read can be asked for again.
fn fitting(done: Option<Done>, room: &mut usize) -> Done {
    let Some((lsn, mut result)) = done else { return (0, BatchResult::skipped()) };
    match &mut result.result {
        Ok(BatchItem::Written(item)) if operation::take(room, item.body.len()).is_err() => {
            item.body.clear();
        }
        Ok(BatchItem::Read(item)) => {
            if let Err(error) = operation::take(room, item.body.len()) {
                result.result = Err(error);
            }
        }
        _ => {}
    }
    (lsn, result)
}

fn closed() -> Error {
    Error::new(Fault::Unavailable, "the server is stopping")
}
