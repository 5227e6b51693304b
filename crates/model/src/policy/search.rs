//! Vectors and full text: their policies, and the indexes that build on them.

use serde_json::{Map, Value, json};

use super::{field, path};
use crate::{Error, Result};

const DIMENSIONS: u64 = 4096;
/// The flat index keeps whole vectors beside other index rows, so it takes only short ones.
const FLAT_DIMENSIONS: u64 = 505;
const DEFAULT_DIMENSIONS: u64 = 1536;

/// The vector policy of a body with its defaults, if there is one.
pub(super) fn complete_embeddings(body: &Map<String, Value>) -> Result<Option<Value>> {
    let Some(policy) = field::object(body, "vectorEmbeddingPolicy")? else { return Ok(None) };
    let mut done: Vec<Value> = Vec::new();
    for embedding in field::objects(policy, "vectorEmbeddings")? {
        let path = field::required(embedding, "path", "vectorEmbeddings")?;
        if done.iter().any(|other| other["path"] == path) {
            return Err(Error::bad_request(format!("vectorEmbeddings names '{path}' twice")));
        }
        done.push(complete_embedding(embedding, path)?);
    }
    Ok(Some(with(policy, "vectorEmbeddings", done)))
}

/// The embeddings of a completed definition.
pub(super) fn embeddings(definition: &Map<String, Value>) -> &[Value] {
    let policy = definition.get("vectorEmbeddingPolicy");
    entries(policy.and_then(|policy| policy.get("vectorEmbeddings")))
}

/// The full-text policy of a body, if there is one.
pub(super) fn complete_full_text(body: &Map<String, Value>) -> Result<Option<Value>> {
    let Some(policy) = field::object(body, "fullTextPolicy")? else { return Ok(None) };
    field::string(policy, "defaultLanguage")?;
    let mut done: Vec<Value> = Vec::new();
    for entry in field::objects(policy, "fullTextPaths")? {
        let path = field::required(entry, "path", "fullTextPaths")?;
        path::check_property("path", path)?;
        field::string(entry, "language")?;
        if done.iter().any(|other| other["path"] == path) {
            return Err(Error::bad_request(format!("fullTextPaths names '{path}' twice")));
        }
        done.push(Value::Object(entry.clone()));
    }
    Ok(Some(with(policy, "fullTextPaths", done)))
}

/// Refuses a definition whose full-text policy lost or changed a path of the old one.
pub(super) fn check_only_added(old: &Map<String, Value>, new: &Map<String, Value>) -> Result<()> {
    let kept = full_text_paths(new);
    match full_text_paths(old).iter().find(|path| !kept.contains(path)) {
        None => Ok(()),
        Some(path) => Err(Error::bad_request(format!(
            "fullTextPolicy can only gain paths: send {path} again as it was"
        ))),
    }
}

/// Checks the vector and full-text indexes of a completed definition against its policies.
pub(super) fn check_indexes(definition: &Map<String, Value>) -> Result<()> {
    let Some(indexing) = field::object(definition, "indexingPolicy")? else { return Ok(()) };
    for index in field::objects(indexing, "vectorIndexes")? {
        check_vector_index(index, embeddings(definition))?;
    }
    for index in field::objects(indexing, "fullTextIndexes")? {
        let path = field::required(index, "path", "fullTextIndexes")?;
        if !full_text_paths(definition).iter().any(|entry| entry["path"] == path) {
            return Err(Error::bad_request(format!(
                "the full-text index on '{path}' needs the same path in fullTextPolicy"
            )));
        }
    }
    Ok(())
}

fn complete_embedding(embedding: &Map<String, Value>, path: &str) -> Result<Value> {
    const TYPES: &[&str] = &["float32", "float16", "int8", "uint8"];
    const DISTANCES: &[&str] = &["cosine", "euclidean", "dotproduct"];
    path::check_property("path", path)?;
    let data_type = field::one_of(embedding, "dataType", TYPES, "float32")?;
    let distance = field::one_of(embedding, "distanceFunction", DISTANCES, "cosine")?;
    let dimensions = field::number(embedding, "dimensions", 1..=DIMENSIONS)?;
    let mut done = embedding.clone();
    done.insert("dataType".into(), json!(data_type));
    done.insert("distanceFunction".into(), json!(distance));
    done.insert("dimensions".into(), json!(dimensions.unwrap_or(DEFAULT_DIMENSIONS)));
    Ok(Value::Object(done))
}

fn check_vector_index(index: &Map<String, Value>, embeddings: &[Value]) -> Result<()> {
    const TYPES: &[&str] = &["flat", "quantizedFlat", "diskANN"];
    let path = field::required(index, "path", "vectorIndexes")?;
    field::required(index, "type", "vectorIndexes")?;
    let kind = field::one_of(index, "type", TYPES, "flat")?;
    field::number(index, "quantizationByteSize", 1..=512)?;
    field::number(index, "indexingSearchListSize", 10..=500)?;
    let Some(embedding) = embeddings.iter().find(|embedding| embedding["path"] == path) else {
        return Err(Error::bad_request(format!(
            "the vector index on '{path}' needs the same path in vectorEmbeddingPolicy"
        )));
    };
    if kind == "flat" && embedding["dimensions"].as_u64().is_none_or(|d| d > FLAT_DIMENSIONS) {
        return Err(Error::bad_request(format!(
            "a flat vector index takes at most {FLAT_DIMENSIONS} dimensions: \
             use quantizedFlat or diskANN for '{path}'"
        )));
    }
    Ok(())
}

fn full_text_paths(definition: &Map<String, Value>) -> &[Value] {
    let policy = definition.get("fullTextPolicy");
    entries(policy.and_then(|policy| policy.get("fullTextPaths")))
}

fn entries(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn with(policy: &Map<String, Value>, key: &str, list: Vec<Value>) -> Value {
    let mut policy = policy.clone();
    policy.insert(key.to_owned(), Value::Array(list));
    Value::Object(policy)
}
