//! The indexing policy: its rules and its defaults.

use serde_json::{Map, Value, json};

use super::{field, path};
use crate::{Error, Result, limits};

const EVERYTHING: &str = "/*";
/// No query asks for etags by index; the service excludes them in every policy.
const ETAG: &str = "/\"_etag\"/?";

/// What writers need of an indexing policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexingSummary {
    /// Whether nothing is indexed at all.
    pub mode_none: bool,
    /// Whether items are indexed unless their request says otherwise.
    pub automatic: bool,
}

/// Reads the summary from a completed definition.
pub(super) fn summary(definition: &Map<String, Value>) -> Result<IndexingSummary> {
    let empty = Map::new();
    let policy = field::object(definition, "indexingPolicy")?.unwrap_or(&empty);
    let mode_none = mode(policy)? == "none";
    Ok(IndexingSummary { mode_none, automatic: automatic(policy, mode_none)? })
}

/// Checks the policy in a body and completes it. What the vector and full-text indexes need of
/// other policies is checked with those.
pub(super) fn complete(body: &Map<String, Value>) -> Result<Value> {
    let mut policy = field::object(body, "indexingPolicy")?.cloned().unwrap_or_default();
    let mode = mode(&policy)?;
    let automatic = automatic(&policy, mode == "none")?;
    let (included, excluded) = complete_paths(&policy, mode)?;
    let composite = complete_composites(&policy)?;
    check_spatial(&policy)?;

    policy.insert("indexingMode".into(), json!(mode));
    policy.insert("automatic".into(), json!(automatic));
    policy.insert("includedPaths".into(), Value::Array(included));
    policy.insert("excludedPaths".into(), Value::Array(excluded));
    if let Some(composite) = composite {
        policy.insert("compositeIndexes".into(), composite);
    }
    Ok(Value::Object(policy))
}

fn mode(policy: &Map<String, Value>) -> Result<&'static str> {
    field::one_of(policy, "indexingMode", &["consistent", "none"], "consistent")
}

fn automatic(policy: &Map<String, Value>, mode_none: bool) -> Result<bool> {
    match policy.get("automatic") {
        None | Some(Value::Null) => Ok(!mode_none),
        Some(Value::Bool(true)) if mode_none => Err(Error::bad_request(
            "indexingMode none cannot go with automatic true: set automatic to false",
        )),
        Some(Value::Bool(automatic)) => Ok(*automatic),
        Some(_) => Err(Error::bad_request("automatic must be true or false")),
    }
}

fn complete_paths(policy: &Map<String, Value>, mode: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let included = patterns(policy, "includedPaths")?;
    let excluded = patterns(policy, "excludedPaths")?;
    let mut lists = (entries(policy, "includedPaths")?, entries(policy, "excludedPaths")?);
    if mode == "none" {
        return Ok(lists);
    }
    let names = |path: &str| included.contains(&path) || excluded.contains(&path);
    if included.is_empty() && excluded.is_empty() {
        lists.0.push(json!({ "path": EVERYTHING }));
    } else if !names(EVERYTHING) {
        return Err(Error::bad_request(
            "the path /* must be among includedPaths or excludedPaths: say whether everything \
             else is indexed",
        ));
    }
    if let Some(both) = included.iter().find(|path| excluded.contains(path)) {
        return Err(Error::bad_request(format!("path '{both}' is both included and excluded")));
    }
    if !names(ETAG) {
        lists.1.push(json!({ "path": ETAG }));
    }
    Ok(lists)
}

fn entries(policy: &Map<String, Value>, key: &str) -> Result<Vec<Value>> {
    Ok(field::array(policy, key)?.to_vec())
}

fn patterns<'a>(policy: &'a Map<String, Value>, key: &str) -> Result<Vec<&'a str>> {
    let entries = field::objects(policy, key)?;
    let mut patterns = Vec::with_capacity(entries.len());
    for entry in entries {
        let pattern = field::required(entry, "path", key)?;
        path::check_pattern(pattern)?;
        patterns.push(pattern);
    }
    // The exclusion that we add comes back in a replace and is not the user's.
    let written = patterns.iter().filter(|pattern| **pattern != ETAG).count();
    field::at_most(written, limits::INDEXING_PATHS, key)?;
    Ok(patterns)
}

fn complete_composites(policy: &Map<String, Value>) -> Result<Option<Value>> {
    let indexes = field::array(policy, "compositeIndexes")?;
    field::at_most(indexes.len(), limits::COMPOSITE_INDEXES, "compositeIndexes")?;
    let done: Result<Vec<Value>> = indexes.iter().map(complete_composite).collect();
    let done = done?;
    Ok(policy.contains_key("compositeIndexes").then_some(Value::Array(done)))
}

fn complete_composite(index: &Value) -> Result<Value> {
    let paths = index.as_array().map(Vec::as_slice).unwrap_or_default();
    if !(2..=limits::COMPOSITE_INDEX_PATHS).contains(&paths.len()) {
        return Err(Error::bad_request(format!(
            "every entry of compositeIndexes must be an array of 2 to {} paths",
            limits::COMPOSITE_INDEX_PATHS
        )));
    }
    let done: Result<Vec<Value>> = paths.iter().map(complete_composite_path).collect();
    Ok(Value::Array(done?))
}

fn complete_composite_path(entry: &Value) -> Result<Value> {
    let mut entry = entry.as_object().cloned().ok_or_else(|| {
        Error::bad_request("a path in compositeIndexes must be an object with path and order")
    })?;
    path::check_property("path", field::required(&entry, "path", "compositeIndexes")?)?;
    let order = field::one_of(&entry, "order", &["ascending", "descending"], "ascending")?;
    entry.insert("order".into(), json!(order));
    Ok(Value::Object(entry))
}

fn check_spatial(policy: &Map<String, Value>) -> Result<()> {
    const TYPES: &[&str] = &["Point", "LineString", "Polygon", "MultiPolygon"];
    for index in field::objects(policy, "spatialIndexes")? {
        path::check_pattern(field::required(index, "path", "spatialIndexes")?)?;
        for kind in field::array(index, "types")? {
            if !kind.as_str().is_some_and(|kind| TYPES.contains(&kind)) {
                return Err(Error::bad_request(format!(
                    "types of a spatial index must be among {}, not {kind}",
                    TYPES.join(", ")
                )));
            }
        }
    }
    Ok(())
}
