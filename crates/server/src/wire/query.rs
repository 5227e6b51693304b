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
        "plan": metrics.plan(),
        "indexes": metrics.indexes().into_iter().map(|index| index.name).collect::<Vec<_>>(),
        "entries": metrics.entries,
        "documents": metrics.documents,
        "rows": page.rows.len(),
        "more": page.continuation.is_some(),
        "timeInMs": page.took_ms,
    })
}

/// Which indexes were used, and which others would have been. As in the service, how much one
/// matters follows from what it is asked for: high where it is asked for values or their order, low
/// where all its texts are walked through.
pub fn indexes(page: &QueryPage, lacking: &[String], form: IndexForm) -> String {
    let metrics = &page.metrics;
    // Nothing was read in vain.
    let precise = metrics.kept >= metrics.documents;
    let indexes = metrics.indexes();
    let used = indexes.iter().map(|index| {
        let score = if index.is_narrow { "High" } else { "Low" };
        Entity { name: &index.name, score, precise }
    });
    let lacking = lacking.iter().map(|name| Entity { name, score: "High", precise: false });
    let (used, lacking) = (used.collect::<Vec<_>>(), lacking.collect::<Vec<_>>());
    match form {
        IndexForm::Base64 => {
            let told = json!({
                "UtilizedSingleIndexes": list(&used, false, Entity::with_precision),
                "PotentialSingleIndexes": list(&lacking, false, Entity::with_precision),
                "UtilizedCompositeIndexes": list(&used, true, Entity::with_precision),
                "PotentialCompositeIndexes": list(&lacking, true, Entity::with_precision),
            });
            STANDARD.encode(told.to_string())
        }
        IndexForm::Text => {
            let both = |all: &[Entity<'_>]| {
                json!({
                    "SingleIndexes": list(all, false, Entity::plain),
                    "CompositeIndexes": list(all, true, Entity::plain),
                })
            };
            let told =
                json!({ "UtilizedIndexes": both(&used), "PotentialIndexes": both(&lacking) });
            percent_encoded(&told.to_string())
        }
    }
}

/// An index as clients are told of it.
struct Entity<'a> {
    name: &'a str,
    score: &'static str,
    precise: bool,
}

/// The indexes of one property, or those of several.
fn list<'a>(all: &[Entity<'a>], composite: bool, tell: fn(&Entity<'a>) -> Value) -> Vec<Value> {
    all.iter().filter(|entity| entity.is_composite() == composite).map(tell).collect()
}

impl Entity<'_> {
    fn is_composite(&self) -> bool {
        self.name.contains(' ')
    }

    fn plain(&self) -> Value {
        if self.is_composite() {
            let columns: Vec<&str> = self.name.split(", ").collect();
            return json!({ "IndexSpecs": columns, "IndexImpactScore": self.score });
        }
        json!({ "IndexSpec": self.name, "IndexImpactScore": self.score })
    }

    /// Clients of the older form want every member. Which part of the filter an index served is
    /// not told.
    fn with_precision(&self) -> Value {
        let mut told = self.plain();
        told["IndexPreciseSet"] = json!(self.precise);
        if !self.is_composite() {
            told["FilterExpression"] = json!("");
            told["FilterPreciseSet"] = json!(self.precise);
        }
        told
    }
}
