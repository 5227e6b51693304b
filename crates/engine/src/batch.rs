//! Batches: several operations on items in one request.
//!
//! An atomic batch is about one partition key. Its operations are decided one after the other in
//! one draft, so that later ones see earlier ones, and committed under one LSN; the first that
//! fails undoes all. A bulk request ([`bulk`]) only saves round trips: each of its operations is
//! a request of its own.

mod bulk;
mod operation;

use std::sync::Arc;

use kv::Keyspace;
use model::json::Layout;
use model::partition_key::PartitionKey;
use model::token::{Etag, Session};
use model::{Error, Fault, Result, charge, limits};

use crate::Container;
use crate::api::{Answer, Conditions, ItemWrite, storage};
use crate::commit::{Draft, Place};
use crate::item::Key;
use crate::keys::Slot;
use crate::partition::Partition;

use bytes::Bytes;
use operation::Prepared;
pub(crate) use operation::take;

/// What an operation of a batch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// Stores a new item.
    Create,
    /// Stores an item, new or not.
    Upsert,
    /// Reads an item.
    Read,
    /// Stores a new version of an item.
    Replace,
    /// Changes parts of an item.
    Patch,
    /// Removes an item.
    Delete,
}

/// One operation of a batch.
#[derive(Debug, Clone)]
pub struct BatchOperation {
    /// What it does.
    pub kind: BatchKind,
    /// The item, where the body does not name it.
    pub id: Option<String>,
    /// The item, or the patch; empty where there is none.
    pub body: Bytes,
    /// Where the members of the body lie, if that is known.
    pub layout: Option<Layout>,
    /// Etag conditions.
    pub conditions: Conditions,
    /// The item's partition key. An atomic batch has one for all.
    pub key: Option<Arc<PartitionKey>>,
}

/// What came of one operation.
#[derive(Debug, Clone)]
pub struct BatchResult {
    /// Request units.
    pub charge: f64,
    /// How long to wait before trying again, when throttled.
    pub retry_after_ms: Option<u64>,
    /// The item, or why not.
    pub result: Result<BatchItem>,
}

/// An item as an operation left or found it.
#[derive(Debug, Clone)]
pub enum BatchItem {
    /// It was written.
    Written(ItemWrite),
    /// It was read.
    Read(ItemWrite),
    /// It was not read, for the client has this version.
    NotModified(Etag),
    /// It was deleted.
    Deleted,
}

impl BatchResult {
    fn refused(error: Error) -> Self {
        let charge = if error.fault == Fault::FailedDependency { 0.0 } else { charge::refused() };
        Self { charge, retry_after_ms: None, result: Err(error) }
    }

    fn skipped() -> Self {
        Self::refused(Error::new(
            Fault::FailedDependency,
            "another operation of the batch failed: nothing came of this one",
        ))
    }
}

impl Container {
    /// Does all operations, in order, or none of them. That one of them failed is said in the
    /// results; an error of the answer says that the batch could not be tried.
    pub async fn execute_batch(
        &self,
        key: Option<PartitionKey>,
        operations: &[BatchOperation],
        session: Option<&Session>,
    ) -> Result<Answer<Vec<BatchResult>>> {
        self.check_alive()?;
        check_count(operations)?;
        let definition = self.definition();
        let key = Key::of(self, &definition, key)?;
        let partition = self.partition_of(&key.epk);
        if let Some(throttled) = self.throttle(&partition) {
            return Ok(throttled);
        }
        if let Err(behind) = partition.check_session(session) {
            let at = partition.at(partition.lsn(), None);
            let charge = charge::refused();
            return Ok(self.charged(Answer {
                at,
                charge,
                retry_after_ms: None,
                result: Err(behind),
            }));
        }
        let prepared: Vec<Result<Prepared<'_>>> =
            operations.iter().map(|operation| Prepared::new(&key, operation, &partition)).collect();
        let places = places(&partition, &prepared).await?;
        let mut trial = Trial::default();
        let (partition, done) =
            self.commit(partition, &key.epk, &places, |draft| trial.run(draft, &prepared)).await;
        let lsn = *done.as_ref().unwrap_or(&partition.lsn());
        let result = trial.results(operations.len(), done);
        let charge = match &result {
            Ok(results) => results.iter().map(|result| result.charge).sum(),
            Err(_) => charge::refused(),
        };
        let at = partition.at(lsn, None);
        Ok(self.charged(Answer { at, charge, retry_after_ms: None, result }))
    }
}

fn check_count(operations: &[BatchOperation]) -> Result<()> {
    const MOST: usize = limits::BATCH_OPERATIONS;
    if operations.is_empty() || operations.len() > MOST {
        return Err(Error::bad_request(format!(
            "a batch has from 1 to {MOST} operations, this one has {}",
            operations.len()
        )));
    }
    Ok(())
}

/// What the operations are going to look at, as far as it can be told before: what follows from
/// the items that are found, and the bodies of those that are read.
async fn places(partition: &Partition, prepared: &[Result<Prepared<'_>>]) -> Result<Vec<Place>> {
    let mut places: Vec<Place> = Vec::with_capacity(prepared.len());
    prepared.iter().flatten().for_each(|one| one.add_places(&mut places));
    let reading = prepared.iter().flatten().filter(|one| one.reads_body());
    let item_keys: Vec<Bytes> = reading.map(Prepared::item_key).collect();
    if !item_keys.is_empty() {
        let view = partition.owner.published();
        let mut bytes = 0;
        for stored in view.get_many(Keyspace::Docs, &item_keys).await.map_err(storage)? {
            let Some(row) = Slot::item(stored.as_ref())? else { continue };
            bytes += row.body_bytes as usize;
            // What is beyond the limit will not be looked at.
            if bytes <= limits::BATCH_RESULT_BYTES {
                places.push((Keyspace::Feed, row.feed_key()));
            }
        }
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

/// An attempt at all operations.
#[derive(Default)]
struct Trial {
    done: Vec<BatchResult>,
    /// The one that came after these failed.
    failed: Option<Error>,
}

impl Trial {
    /// Decides one operation after the other. Runs from the start whenever it is run again.
    fn run(&mut self, draft: &mut Draft<'_>, prepared: &[Result<Prepared<'_>>]) -> Result<u64> {
        *self = Self { done: Vec::with_capacity(prepared.len()), failed: None };
        let mut room = limits::BATCH_RESULT_BYTES;
        for one in prepared {
            match one.as_ref().map_err(Clone::clone).and_then(|one| one.decide(draft, &mut room)) {
                Ok(done) => self.done.push(done),
                Err(error) => {
                    if !draft.is_unfinished() {
                        self.failed = Some(error.clone());
                    }
                    return Err(error);
                }
            }
        }
        Ok(draft.lsn)
    }

    fn results(self, operations: usize, done: Result<u64>) -> Result<Vec<BatchResult>> {
        match (done, self.failed) {
            (Ok(_), _) => Ok(self.done),
            (Err(_), Some(error)) => {
                let mut results: Vec<_> =
                    self.done.iter().map(|_| BatchResult::skipped()).collect();
                results.push(BatchResult::refused(error));
                results.resize_with(operations, BatchResult::skipped);
                Ok(results)
            }
            (Err(error), None) => Err(error),
        }
    }
}
