//! Documents with etags over HTTP: the lease container, and that of dead letters.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use client::{
    ChangeFeedOptions, Container, ItemOptions, Kind, PartitionKey, Query, QueryOptions,
    ReadOptions, Typed,
};
use serde_json::{Map, Value};

use crate::env::Later;
use crate::store::{LeaseStore, Stirred, StoreError, Stored};

/// Most documents of one processor; a listing stops when it has more.
const DOCUMENTS_MAX: usize = 200_000;
/// A wait where the service asks for one without saying how long.
const THROTTLE_WAIT: Duration = Duration::from_millis(100);
/// How often changes are looked for where the service cannot hold a request.
const POLL: Duration = Duration::from_secs(1);

/// A container as a store of documents.
#[derive(Debug)]
pub struct HttpStore {
    container: Container,
    /// Whether documents have a `partitionKey` member of their own.
    keyed: bool,
    /// Partition keys by id, where documents say so: old versions of .NET chose them at random, and
    /// could make a document twice. The one that was written last counts.
    keys: Mutex<HashMap<String, String>>,
}

impl HttpStore {
    pub(super) fn new(container: Container, key_paths: &[String]) -> Option<Self> {
        let keyed = match key_paths {
            [path] if path == "/id" => false,
            [path] if path == "/partitionKey" => true,
            _ => return None,
        };
        Some(Self { container, keyed, keys: Mutex::default() })
    }

    fn key(&self, id: &str) -> PartitionKey {
        let known = self.keys.lock().ok().and_then(|keys| keys.get(id).cloned());
        PartitionKey::from(known.as_deref().unwrap_or(id))
    }

    /// The partition key that a document says it has; from here on its id is read under it.
    fn key_in(&self, body: &Map<String, Value>) -> PartitionKey {
        let said = body.get("partitionKey").and_then(Value::as_str).filter(|_| self.keyed);
        if let (Some(key), Ok(mut keys)) = (said, self.keys.lock()) {
            keys.insert(id_of(body).to_owned(), key.to_owned());
        }
        self.key(id_of(body))
    }

    fn stored(&self, raw: &Bytes) -> Option<Stored> {
        let body: Map<String, Value> = serde_json::from_slice(raw).ok()?;
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let (id, etag) = (text("id")?, text("_etag")?);
        if let Some(key) = text("partitionKey").filter(|_| self.keyed)
            && let Ok(mut keys) = self.keys.lock()
        {
            keys.entry(id.clone()).or_insert(key);
        }
        Some(Stored { id, etag, body })
    }

    /// All documents of a prefix by a query; where the service cannot evaluate it, by reading all.
    async fn list_all(&self, prefix: &str) -> client::Result<Vec<Stored>> {
        let query = Query::new("SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)");
        let query = query.with("@prefix", prefix);
        let mut all = Vec::new();
        let mut rows = self.container.query(query, QueryOptions::default())?;
        loop {
            match rows.next_page().await {
                Ok(Some(page)) => all.extend(page.rows.iter().filter_map(|raw| self.stored(raw))),
                Ok(None) => return Ok(all),
                Err(error) if error.kind() == Kind::BadRequest => break,
                Err(error) => return Err(error),
            }
            if all.len() > DOCUMENTS_MAX {
                return Ok(all);
            }
        }
        all.clear();
        let mut documents = self.container.read_documents(ReadOptions::default())?;
        while let Some(page) = documents.next_page().await? {
            let found = page.documents.iter().filter_map(|raw| self.stored(raw));
            all.extend(found.filter(|stored| stored.id.starts_with(prefix)));
            if all.len() > DOCUMENTS_MAX {
                break;
            }
        }
        Ok(all)
    }

    async fn stir_once(&self, position: Option<String>, wait: Duration) -> client::Result<Stirred> {
        let pins = position.is_none();
        let options = ChangeFeedOptions {
            request_continuation: position,
            wait: Some(wait),
            poll_interval: POLL,
            ..ChangeFeedOptions::default()
        };
        let mut changes = self.container.changes(options)?;
        if pins {
            changes.pin().await?;
            return Ok(Stirred { documents: Vec::new(), position: Some(changes.continuation()) });
        }
        let page = changes.next_page().await?;
        let documents = page.changes.iter().filter_map(|change| self.stored(change.bytes()));
        Ok(Stirred { documents: documents.collect(), position: Some(page.continuation) })
    }
}

/// Forgets the keys of documents that are gone: there may be ever new ones, such as dead letters.
fn keep_listed(keys: &mut HashMap<String, String>, prefix: &str, listed: &[Stored]) {
    if keys.len() > listed.len() {
        let ids: HashSet<&str> = listed.iter().map(|stored| stored.id.as_str()).collect();
        keys.retain(|id, _| !id.starts_with(prefix) || ids.contains(id.as_str()));
    }
}

fn id_of(body: &Map<String, Value>) -> &str {
    body.get("id").and_then(Value::as_str).unwrap_or_default()
}

fn refusal(error: client::Error) -> StoreError {
    match error.kind() {
        Kind::Conflict => StoreError::Exists,
        Kind::PreconditionFailed => StoreError::Changed,
        Kind::NotFound => StoreError::Missing,
        // A range that is just being split has done nothing.
        Kind::Throttled | Kind::RetryWith | Kind::RangeGone => {
            StoreError::Throttled(error.retry_after().unwrap_or(THROTTLE_WAIT))
        }
        _ if error.is_transient() || error.status().is_none() => {
            StoreError::Unknown(error.to_string())
        }
        _ => StoreError::Refused {
            status: error.status().unwrap_or(0),
            message: error.message().to_owned(),
        },
    }
}

/// A list or a create can only miss the container itself.
fn container_refusal(error: client::Error) -> StoreError {
    match refusal(error.clone()) {
        StoreError::Missing => StoreError::Refused {
            status: 404,
            message: format!("the container does not exist: {}", error.message()),
        },
        other => other,
    }
}

fn new_etag(answer: &client::Answer) -> Result<String, StoreError> {
    let etag = answer.etag().map(str::to_owned);
    etag.ok_or_else(|| StoreError::Unknown("the answer has no etag".into()))
}

impl LeaseStore for HttpStore {
    fn list<'a>(&'a self, prefix: &'a str) -> Later<'a, Result<Vec<Stored>, StoreError>> {
        Box::pin(async move {
            let listed = self.list_all(prefix).await.map_err(container_refusal)?;
            if listed.len() > DOCUMENTS_MAX {
                // Half of a fleet's leases must not be taken for all of them.
                let message = format!(
                    "more than {DOCUMENTS_MAX} documents begin with '{prefix}'; remove those that \
                     are not needed, dead letters above all, or use another prefix"
                );
                return Err(StoreError::Refused { status: 413, message });
            }
            if let Ok(mut keys) = self.keys.lock() {
                keep_listed(&mut keys, prefix, &listed);
            }
            Ok(listed)
        })
    }

    fn read<'a>(&'a self, id: &'a str) -> Later<'a, Result<Stored, StoreError>> {
        Box::pin(async move {
            let answer = self.container.read_item(self.key(id), id, ItemOptions::default()).await;
            let answer = answer.map_err(refusal)?;
            self.stored(answer.bytes())
                .ok_or_else(|| StoreError::Unknown(format!("'{id}' is not a document")))
        })
    }

    fn create<'a>(&'a self, body: &'a Map<String, Value>) -> Later<'a, Result<String, StoreError>> {
        Box::pin(async move {
            let options = ItemOptions { without_content: true, ..ItemOptions::default() };
            let key = PartitionKey::from(id_of(body));
            let answer = self.container.create_item(key, Typed(body), options).await;
            new_etag(&answer.map_err(container_refusal)?)
        })
    }

    fn replace<'a>(
        &'a self,
        body: &'a Map<String, Value>,
        etag: &'a str,
    ) -> Later<'a, Result<String, StoreError>> {
        Box::pin(async move {
            let id = id_of(body);
            let options = ItemOptions { without_content: true, ..ItemOptions::if_match(etag) };
            let key = self.key_in(body);
            let answer = self.container.replace_item(key, id, Typed(body), options).await;
            new_etag(&answer.map_err(refusal)?)
        })
    }

    fn delete<'a>(&'a self, stored: &'a Stored) -> Later<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let options = ItemOptions::if_match(&stored.etag);
            let key = self.key_in(&stored.body);
            self.container.delete_item(key, &stored.id, options).await.map_err(refusal)?;
            Ok(())
        })
    }

    fn stir<'a>(
        &'a self,
        position: Option<String>,
        wait: Duration,
    ) -> Later<'a, Result<Stirred, StoreError>> {
        Box::pin(async move { self.stir_once(position, wait).await.map_err(container_refusal) })
    }

    fn keyed(&self) -> bool {
        self.keyed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_documents_that_are_gone_are_forgotten() {
        let ids = ["P.dead.1", "P.dead.2", "P..0"];
        let mut keys: HashMap<String, String> =
            ids.iter().map(|id| ((*id).to_owned(), "k".to_owned())).collect();
        let left = Stored { id: "P.dead.2".into(), etag: "e".into(), body: Map::new() };
        keep_listed(&mut keys, "P.dead.", &[left]);
        let mut kept: Vec<&str> = keys.keys().map(String::as_str).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["P..0", "P.dead.2"]);
    }
}
