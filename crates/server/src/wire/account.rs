//! The account document, which tells clients where to send everything else.

use serde_json::{Value, json};

use crate::consistency::Consistency;

/// There is one region; clients show its name and otherwise do not care.
const REGION: &str = "Local";

/// The document for clients that reach us at `endpoint` (`http://host:port/`).
///
/// The id is the one of Microsoft's emulator: with it the JavaScript SDK stays with the
/// address that its user typed. The locations must not be empty, and those of the so-called
/// thin client must be absent, or the Rust SDK would speak another protocol.
pub fn document(endpoint: &str, consistency: Consistency) -> Value {
    let location = json!([{ "name": REGION, "databaseAccountEndpoint": endpoint }]);
    json!({
        "_self": "",
        "id": "localhost",
        "_rid": "localhost",
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": location,
        "readableLocations": location,
        "enableMultipleWriteLocations": false,
        "userReplicationPolicy": { "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": 4 },
        "userConsistencyPolicy": { "defaultConsistencyLevel": consistency.word() },
        "systemReplicationPolicy": { "minReplicaSetSize": 1, "maxReplicasetSize": 4 },
        "readPolicy": { "primaryReadCoefficient": 1, "secondaryReadCoefficient": 1 },
        "queryEngineConfiguration": QUERY_ENGINE.to_string(),
    })
}

/// Read by the native planner of the .NET SDK on Windows; others only want some JSON text.
const QUERY_ENGINE: &str = concat!(
    r#"{"maxSqlQueryInputLength":262144,"maxJoinsPerSqlQuery":10,"#,
    r#""maxLogicalAndPerSqlQuery":2000,"maxLogicalOrPerSqlQuery":2000,"#,
    r#""maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"#,
    r#""queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,"#,
    r#""sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"#,
    r#""sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"#,
    r#""sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"#,
    r#""spatialMaxGeometryPointCount":256,"sqlDisableQueryILOptimization":false,"#,
    r#""sqlDisableFilterPlanOptimization":false,"sqlAllowTop":true,"enableSpatialIndexing":true}"#
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_cannot_do_without() {
        let account = document("http://127.0.0.1:8081/", Consistency::Session);
        assert_eq!(
            account["writableLocations"][0]["databaseAccountEndpoint"],
            "http://127.0.0.1:8081/"
        );
        for required in ["id", "_self", "_rid"] {
            assert!(account[required].is_string(), "{required}");
        }
        let settings = account["queryEngineConfiguration"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(settings).unwrap().is_object());
        assert!(account.get("thinClientWritableLocations").is_none());
    }
}
