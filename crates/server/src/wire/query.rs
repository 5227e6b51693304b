//! What a query took, as clients read it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::QueryPage;
use serde_json::{Value, json};

use crate::path::percent_encoded;

/// How a client reads which indexes were used: there are two headers to ask by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexForm {
    /// JSON in base64.
    Base64,
    /// JSON with its odd characters percent-encoded.
    Text,
}

/// `name=value;name=value…`. Only what was measured is told.
pub fn metrics(page: &QueryPage) -> String {
    let took = page.took_ms as f64;
    let metrics = &page.metrics;
    // Of the documents that were read, how many were wanted: 1 where an index has found no others.
    let ratio = match metrics.documents {
        0 => 1.0,
        documents => (metrics.kept as f64 / documents as f64).min(1.0),
    };
    format!(
        "totalExecutionTimeInMs={took:.2};retrievedDocumentCount={};retrievedDocumentSize={};\
         outputDocumentCount={};outputDocumentSize={};indexUtilizationRatio={ratio:.2}",
        metrics.documents,
        metrics.document_bytes,
        page.rows.len(),
        metrics.output_bytes,
    )
}

/// How a page was found: it has been, and these are its figures.
pub fn explained(page: &QueryPage) -> Value {
    let metrics = &page.metrics;
    json!({
        "plan": metrics.plan,
        "indexes": metrics.indexes,
        "entries": metrics.entries,
        "documents": metrics.documents,
        "rows": page.rows.len(),
        "more": page.continuation.is_some(),
        "timeInMs": page.took_ms,
    })
}

/// Which indexes were used, and which others would have been. How much one helped is not known and
/// so not said.
pub fn indexes(page: &QueryPage, lacking: &[String], form: IndexForm) -> String {
    let (used, used_composite) = entities(&page.metrics.indexes);
    let (lacking, lacking_composite) = entities(lacking);
    let told = json!({
        "UtilizedSingleIndexes": used,
        "PotentialSingleIndexes": lacking,
        "UtilizedCompositeIndexes": used_composite,
        "PotentialCompositeIndexes": lacking_composite,
    })
    .to_string();
    match form {
        IndexForm::Base64 => STANDARD.encode(told),
        IndexForm::Text => percent_encoded(&told),
    }
}

/// Indexes as clients read them: of one property, and of several.
fn entities(indexes: &[String]) -> (Vec<Value>, Vec<Value>) {
    let (composite, single): (Vec<&String>, Vec<&String>) =
        indexes.iter().partition(|index| index.contains(' '));
    let single = single.into_iter().map(|index| json!({ "IndexSpec": index })).collect();
    let columns = |index: &String| {
        let columns: Vec<&str> = index.split(", ").collect();
        json!({ "IndexSpecs": columns })
    };
    (single, composite.into_iter().map(columns).collect())
}
