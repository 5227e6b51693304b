//! What a query took, as clients read it.

use engine::QueryPage;

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
