//! The query plan that leaves clients nothing to do.
//!
//! This server evaluates whole queries itself, so every plan says: send the query as it is,
//! to everything, and pass on what comes.

use serde_json::{Value, json};

/// The plan of any query that this server can run.
pub fn document() -> Value {
    json!({
        "partitionedQueryExecutionInfoVersion": 2,
        "queryInfo": {
            "distinctType": "None",
            "top": null,
            "offset": null,
            "limit": null,
            "orderBy": [],
            "orderByExpressions": [],
            "groupByExpressions": [],
            "groupByAliases": [],
            "aggregates": [],
            "groupByAliasToAggregateType": {},
            "rewrittenQuery": "",
            "hasSelectValue": false,
            "dCountInfo": null,
            "hasNonStreamingOrderBy": false,
        },
        "queryRanges": [{ "min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false }],
        "hybridSearchQueryInfo": null,
    })
}
