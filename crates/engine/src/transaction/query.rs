//! Queries inside of a transaction: over its own state, by scanning the items of its key.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use model::{Error, Fault, Result, charge, limits};
use query::source::{Breath, Chunk, Composite, Document, Entry, IndexPath, Scan, Source};
use query::{Statement, Want};
use script::{Page, PageRequest};

use super::Transaction;
use super::pages::{bytes_of, digits};
use crate::QueryFunctions;
use crate::functions::Around;

/// What a query of a script reads. Nothing in it waits: the script's thread does.
struct Own<'a>(Mutex<&'a mut Transaction>);

impl Transaction {
    /// A page of a query's answer.
    pub(super) fn answer(
        &mut self,
        statement: &Statement,
        functions: Option<&QueryFunctions>,
        request: &PageRequest,
    ) -> Result<Page> {
        let resume = match request.continuation.as_str() {
            "" => None,
            shown => Some(bytes_of(shown)?),
        };
        let rows = (request.size as usize).clamp(1, limits::PAGE_ITEMS);
        let want = Want { rows, bytes: limits::PAGE_BYTES };
        let env = self.container.env.clone();
        let world = Around::new(&env, functions);
        let found = {
            let own = Own(Mutex::new(self));
            now(statement.page(&own, &world, want, resume.as_deref()))?
        };
        let metrics = &found.metrics;
        self.charge += charge::query(metrics.documents, metrics.document_bytes, metrics.entries);
        let continuation = found.resume.map(|position| digits(&position));
        Ok(Page { items: found.rows, continuation })
    }
}

/// What a future comes to that never waits.
fn now<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::new(Fault::Internal, "a query of a script has to wait")),
    }
}

impl Own<'_> {
    fn with<T>(&self, read: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Source for Own<'_> {
    fn covers(&self, _path: &IndexPath) -> bool {
        false
    }

    fn composites(&self) -> &[Composite] {
        &[]
    }

    fn covers_spatial(&self, _path: &IndexPath) -> bool {
        false
    }

    fn covers_text(&self, _path: &IndexPath) -> bool {
        false
    }

    fn sorts(&self) -> bool {
        true
    }

    fn documents_estimate(&self) -> u64 {
        0
    }

    async fn estimate(&self, _scan: &Scan) -> Result<u64> {
        Ok(0)
    }

    async fn count(&self, _scan: &Scan) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn scan(
        &self,
        _scan: &Scan,
        _after: Option<&Entry>,
        _limit: usize,
    ) -> Result<Chunk<Entry>> {
        Ok(Chunk { rows: Vec::new(), more: false })
    }

    async fn fetch(&self, keys: &[Bytes]) -> Result<Vec<Option<Bytes>>> {
        self.with(|transaction| keys.iter().map(|key| transaction.body_at(key)).collect())
    }

    async fn documents(&self, after: Option<&[u8]>, limit: usize) -> Result<Chunk<Document>> {
        let (found, more) = self.with(|transaction| transaction.documents(after, limit))?;
        let rows = found.into_iter().map(|(key, body)| Document { key, body }).collect();
        Ok(Chunk { rows, more })
    }

    async fn nearest(
        &self,
        _path: &IndexPath,
        _vector: &[f64],
        _count: usize,
    ) -> Result<Option<Vec<Bytes>>> {
        Ok(None)
    }

    async fn breathe(&self) -> Result<Breath> {
        Ok(Breath::GoOn)
    }
}
