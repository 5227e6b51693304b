//! A container's definition: what may be said of a container, checked and completed.
//!
//! Invariants: a [`ContainerDefinition`] has passed every rule here, its JSON spells out the
//! defaults that it relies on, and it holds no property that belongs to the server. Keys that we
//! do not know are kept and shown again, as the service does.

mod change_feed;
mod computed;
mod field;
mod index_rules;
mod indexing;
mod path;
mod search;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    Error, Fault, Result, item, limits,
    partition_key::{self, Path},
};

pub use change_feed::ChangeFeedPolicy;
pub use index_rules::{
    CompositePath, ComputedProperty, FullTextIndex, IndexRules, Place, SpatialIndex, Step,
    VectorIndex,
};
pub use indexing::IndexingSummary;

/// Version of a partition key whose definition names none. The service reads a missing version
/// as 1; SDKs disagree with each other on version 1 hashes, so new containers get 2 and say so.
const PARTITION_KEY_VERSION: u8 = 2;

/// Properties that the server sets; what a client sends for them is ignored.
const SYSTEM_PROPERTIES: &[&str] =
    &["_rid", "_self", "_etag", "_ts", "_docs", "_sprocs", "_triggers", "_udfs", "_conflicts"];

/// Parts that a replace leaves as they are where its body does not mention them. The first ones
/// cannot change anyway; leaving out the indexing policy, or the retention that others rely on
/// to read old changes, is more often forgetfulness than wish.
const KEPT_IF_ABSENT: &[&str] = &[
    "partitionKey",
    "uniqueKeyPolicy",
    "conflictResolutionPolicy",
    "vectorEmbeddingPolicy",
    "clientEncryptionPolicy",
    "geospatialConfig",
    "indexingPolicy",
    "fullTextPolicy",
    "changeFeedPolicy",
];

/// What a container is, apart from its items.
#[derive(Debug, Clone)]
pub struct ContainerDefinition {
    /// Its name.
    pub id: String,
    /// Where its items keep their partition key.
    pub partition_key: partition_key::Definition,
    /// Seconds that items live by default; -1: for ever unless they say otherwise; `None`:
    /// items do not expire.
    pub default_ttl: Option<i32>,
    /// The paths of each unique key.
    pub unique_keys: Vec<Vec<Path>>,
    /// What writers need of the indexing policy.
    pub indexing: IndexingSummary,
    /// Which values are in which index.
    pub index_rules: Arc<IndexRules>,
    /// What the change feed keeps beside the newest version of each item.
    pub change_feed: ChangeFeedPolicy,
    json: Map<String, Value>,
}

impl ContainerDefinition {
    /// The definition that the body of a create request describes.
    pub fn create(body: &Map<String, Value>) -> Result<Self> {
        Self::read(complete(body, PARTITION_KEY_VERSION)?)
    }

    /// The definition after a replace with this body.
    ///
    /// The indexing policy, `defaultTtl`, computed properties, the change feed policy,
    /// `geospatialConfig` and unknown keys may change, and full-text paths may be added. A
    /// missing `defaultTtl`, computed property or unknown key is thereby removed; the other
    /// parts stay where the body leaves them out.
    pub fn replace(&self, body: &Map<String, Value>) -> Result<Self> {
        let mut body = body.clone();
        for &key in KEPT_IF_ABSENT {
            let absent = body.get(key).is_none_or(Value::is_null);
            if let (true, Some(stored)) = (absent, self.json.get(key)) {
                body.insert(key.to_owned(), stored.clone());
            }
        }
        let new = Self::read(complete(&body, self.partition_key_version())?)?;
        self.check_unchanged(&new)?;
        search::check_only_added(&self.json, &new.json)?;
        Ok(new)
    }

    /// The whole definition with its defaults, without system properties.
    pub fn to_json(&self) -> &Map<String, Value> {
        &self.json
    }

    /// Reads what [`to_json`](Self::to_json) gave. Does not repeat the checks: a rule that
    /// became stricter must not lock anybody out of an existing container.
    pub fn from_stored(json: &Map<String, Value>) -> Result<Self> {
        Self::read(json.clone()).map_err(|e| {
            Error::new(Fault::Internal, format!("a stored container definition is damaged: {e}"))
        })
    }

    fn read(json: Map<String, Value>) -> Result<Self> {
        Ok(Self {
            id: id_of(&json)?.to_owned(),
            partition_key: partition_key_of(&json, PARTITION_KEY_VERSION)?,
            default_ttl: default_ttl_of(&json)?,
            unique_keys: unique_keys_of(&json)?,
            indexing: indexing::summary(&json)?,
            index_rules: Arc::new(IndexRules::read(&json)?),
            change_feed: ChangeFeedPolicy::read(&json)?,
            json,
        })
    }

    fn partition_key_version(&self) -> u8 {
        let version = self.json.get("partitionKey").and_then(|key| key.get("version"));
        let version = version.and_then(Value::as_u64).and_then(|v| u8::try_from(v).ok());
        version.unwrap_or(PARTITION_KEY_VERSION)
    }

    fn check_unchanged(&self, new: &Self) -> Result<()> {
        let same_part = |key: &str| self.json.get(key) == new.json.get(key);
        let unchanged = [
            ("id", self.id == new.id),
            ("partitionKey", same_part("partitionKey")),
            ("uniqueKeyPolicy", texts(&self.unique_keys) == texts(&new.unique_keys)),
            ("conflictResolutionPolicy", same_part("conflictResolutionPolicy")),
            (
                "vectorEmbeddingPolicy",
                search::embeddings(&self.json) == search::embeddings(&new.json),
            ),
            ("clientEncryptionPolicy", same_part("clientEncryptionPolicy")),
        ];
        match unchanged.iter().find(|(_, same)| !same) {
            None => Ok(()),
            Some((key, _)) => Err(Error::bad_request(format!(
                "{key} cannot change once the container exists: create a new container with it"
            ))),
        }
    }
}

/// Checks a body and writes out what it leaves to defaults, in the order the service shows.
fn complete(body: &Map<String, Value>, partition_key_version: u8) -> Result<Map<String, Value>> {
    let id = id_of(body)?;
    item::check_resource_id(id)?;
    let default_ttl = default_ttl_of(body)?;
    let embeddings = search::complete_embeddings(body)?;
    let full_text = search::complete_full_text(body)?;

    let mut done = Map::new();
    done.insert("id".into(), json!(id));
    done.insert("indexingPolicy".into(), indexing::complete(body)?);
    done.insert("partitionKey".into(), partition_key_of(body, partition_key_version)?.to_json());
    if let Some(seconds) = default_ttl {
        done.insert("defaultTtl".into(), json!(seconds));
    }
    unique_keys_of(body)?;
    done.insert("conflictResolutionPolicy".into(), complete_conflict_policy(body)?);
    done.insert("geospatialConfig".into(), complete_geospatial(body)?);
    done.extend(embeddings.map(|policy| ("vectorEmbeddingPolicy".to_owned(), policy)));
    done.extend(full_text.map(|policy| ("fullTextPolicy".to_owned(), policy)));
    computed::check(body)?;
    ChangeFeedPolicy::read(body)?;
    keep_the_rest(body, &mut done);

    search::check_indexes(&done)?;
    if default_ttl.is_some() && indexing::summary(&done)?.mode_none {
        return Err(Error::bad_request(
            "defaultTtl needs an index: set indexingMode to consistent, or leave defaultTtl out",
        ));
    }
    Ok(done)
}

/// Null means nothing for every part but `defaultTtl`, so nulls are not worth keeping.
fn keep_the_rest(body: &Map<String, Value>, done: &mut Map<String, Value>) {
    for (key, value) in body {
        let ours = SYSTEM_PROPERTIES.contains(&key.as_str()) || done.contains_key(key);
        if !ours && !value.is_null() {
            done.insert(key.clone(), value.clone());
        }
    }
}

fn id_of(body: &Map<String, Value>) -> Result<&str> {
    body.get("id").and_then(Value::as_str).ok_or_else(|| {
        Error::bad_request("a container needs an id: send {\"id\": \"name\", …} with a string")
    })
}

fn partition_key_of(
    body: &Map<String, Value>,
    default_version: u8,
) -> Result<partition_key::Definition> {
    let definition = body.get("partitionKey").filter(|v| !v.is_null()).ok_or_else(|| {
        Error::bad_request(
            "a container needs a partition key: send \"partitionKey\": \
             {\"paths\": [\"/property\"], \"kind\": \"Hash\", \"version\": 2}",
        )
    })?;
    partition_key::Definition::from_json(definition, default_version)
}

fn default_ttl_of(body: &Map<String, Value>) -> Result<Option<i32>> {
    let Some(value) = body.get("defaultTtl") else { return Ok(None) };
    match value.as_i64().and_then(|seconds| i32::try_from(seconds).ok()) {
        Some(seconds) if seconds == -1 || seconds > 0 => Ok(Some(seconds)),
        _ => Err(Error::bad_request(format!(
            "defaultTtl must be -1 or a number of seconds from 1 to {}, not {value}; \
             leave it out to keep items for ever",
            i32::MAX
        ))),
    }
}

fn unique_keys_of(body: &Map<String, Value>) -> Result<Vec<Vec<Path>>> {
    let Some(policy) = field::object(body, "uniqueKeyPolicy")? else { return Ok(Vec::new()) };
    let keys = field::objects(policy, "uniqueKeys")?;
    field::at_most(keys.len(), limits::UNIQUE_KEYS, "unique keys in uniqueKeyPolicy")?;
    keys.into_iter().map(unique_key_paths).collect()
}

fn unique_key_paths(key: &Map<String, Value>) -> Result<Vec<Path>> {
    let paths = field::array(key, "paths")?;
    field::at_most(paths.len(), limits::UNIQUE_KEY_PATHS, "paths in one unique key")?;
    if paths.is_empty() {
        return Err(Error::bad_request("a unique key needs paths: send {\"paths\": [\"/a\"]}"));
    }
    paths
        .iter()
        .map(|path| match path.as_str() {
            Some(path) => Path::parse(path),
            None => Err(Error::bad_request(format!("unique key path {path} is not a string"))),
        })
        .collect()
}

fn texts(keys: &[Vec<Path>]) -> Vec<Vec<&str>> {
    keys.iter().map(|key| key.iter().map(|path| path.text.as_str()).collect()).collect()
}

fn complete_conflict_policy(body: &Map<String, Value>) -> Result<Value> {
    let empty = Map::new();
    let policy = field::object(body, "conflictResolutionPolicy")?.unwrap_or(&empty);
    let mode = field::one_of(policy, "mode", &["LastWriterWins", "Custom"], "LastWriterWins")?;
    let path = field::string(policy, "conflictResolutionPath")?.unwrap_or_default();
    let procedure = field::string(policy, "conflictResolutionProcedure")?.unwrap_or_default();
    let last_writer = mode == "LastWriterWins";
    if last_writer && !procedure.is_empty() {
        return Err(Error::bad_request(
            "conflictResolutionProcedure needs conflictResolutionPolicy.mode Custom",
        ));
    }
    if !last_writer && !path.is_empty() {
        return Err(Error::bad_request(
            "conflictResolutionPath needs conflictResolutionPolicy.mode LastWriterWins",
        ));
    }
    let path = if last_writer && path.is_empty() { "/_ts" } else { path };
    if last_writer {
        path::check_property("conflictResolutionPath", path)?;
    }
    let mut done = policy.clone();
    done.insert("mode".into(), json!(mode));
    done.insert("conflictResolutionPath".into(), json!(path));
    done.insert("conflictResolutionProcedure".into(), json!(procedure));
    Ok(Value::Object(done))
}

fn complete_geospatial(body: &Map<String, Value>) -> Result<Value> {
    let mut config = field::object(body, "geospatialConfig")?.cloned().unwrap_or_default();
    let kind = field::one_of(&config, "type", &["Geography", "Geometry"], "Geography")?;
    config.insert("type".into(), json!(kind));
    Ok(Value::Object(config))
}

#[cfg(test)]
mod tests;
