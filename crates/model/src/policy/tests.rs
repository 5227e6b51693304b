//! Tests of container definitions.

use super::*;

const KEY: &str = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#;

fn map(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).expect("the test's JSON")
}

fn created(parts: &str) -> Result<ContainerDefinition> {
    let comma = if parts.is_empty() { "" } else { "," };
    ContainerDefinition::create(&map(&format!(r#"{{"id":"c",{KEY}{comma}{parts}}}"#)))
}

/// What becomes of one part: `expect` is its JSON, or a piece of the refusal after `! `.
#[track_caller]
fn check(parts: &str, key: &str, expect: &str) {
    let got = match created(parts) {
        Ok(done) => done.to_json().get(key).map_or("absent".to_owned(), Value::to_string),
        Err(error) => format!("! {} {}", error.fault.status(), error.message),
    };
    let matches = match expect.strip_prefix("! ") {
        Some(piece) => got.starts_with("! 400") && got.contains(piece),
        None => got == expect,
    };
    assert!(matches, "{parts}\nexpected {expect}\ngot      {got}");
}

#[track_caller]
fn refuse(parts: &str, expect: &str) {
    check(parts, "", &format!("! {expect}"));
}

/// As [`check`], for a replace of `old` by `new`.
#[track_caller]
fn check_replace(old: &str, new: &str, key: &str, expect: &str) {
    let comma = if new.is_empty() { "" } else { "," };
    let body = map(&format!(r#"{{"id":"c"{comma}{new}}}"#));
    let got = match created(old).expect("the old definition").replace(&body) {
        Ok(done) => done.to_json().get(key).map_or("absent".to_owned(), Value::to_string),
        Err(error) => format!("! {}", error.message),
    };
    let matches = match expect.strip_prefix("! ") {
        Some(piece) => got.starts_with("! ") && got.contains(piece),
        None => got == expect,
    };
    assert!(matches, "{old} -> {new}\nexpected {expect}\ngot      {got}");
}

#[test]
fn defaults_are_spelled_out() {
    check(
        "",
        "indexingPolicy",
        r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#,
    );
    check(
        "",
        "conflictResolutionPolicy",
        r#"{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}"#,
    );
    check("", "geospatialConfig", r#"{"type":"Geography"}"#);
    check("", "defaultTtl", "absent");
}

#[test]
fn partition_key_is_required_and_versioned() {
    let refused = ContainerDefinition::create(&map(r#"{"id":"c"}"#)).unwrap_err();
    assert!(refused.message.contains("partitionKey"));
    let body = map(r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#);
    let done = ContainerDefinition::create(&body).expect("a definition");
    assert_eq!(done.to_json()["partitionKey"]["version"], 2);
    assert_eq!(done.to_json()["partitionKey"]["kind"], "Hash");
    assert!(ContainerDefinition::create(&map(&format!("{{{KEY}}}"))).is_err());
}

#[test]
fn unknown_keys_stay_and_system_properties_go() {
    check(r#""future":{"a":1}"#, "future", r#"{"a":1}"#);
    check(r#""analyticalStorageTtl":-1"#, "analyticalStorageTtl", "-1");
    check(r#""_rid":"abc","_ts":1"#, "_rid", "absent");
    check(r#""_docs":"docs/""#, "_docs", "absent");
}

#[test]
fn time_to_live() {
    check(r#""defaultTtl":-1"#, "defaultTtl", "-1");
    check(r#""defaultTtl":2147483647"#, "defaultTtl", "2147483647");
    for value in ["null", "0", "-2", "2147483648", "1.5", "\"5\""] {
        refuse(&format!(r#""defaultTtl":{value}"#), "defaultTtl must be");
    }
    refuse(r#""defaultTtl":5,"indexingPolicy":{"indexingMode":"none"}"#, "defaultTtl needs");
}

#[test]
fn indexing_modes() {
    let policy = |json: &str| format!(r#""indexingPolicy":{json}"#);
    check(
        &policy(r#"{"indexingMode":"none"}"#),
        "indexingPolicy",
        r#"{"indexingMode":"none","automatic":false,"includedPaths":[],"excludedPaths":[]}"#,
    );
    let none = created(&policy(r#"{"indexingMode":"None"}"#)).expect("a definition");
    assert_eq!(none.indexing, IndexingSummary { mode_none: true, automatic: false });
    refuse(&policy(r#"{"indexingMode":"none","automatic":true}"#), "automatic");
    refuse(&policy(r#"{"indexingMode":"lazy"}"#), "indexingMode must be one of");
    refuse(&policy("[]"), "indexingPolicy must be an object");
}

#[test]
fn indexing_paths() {
    let policy = |json: &str| format!(r#""indexingPolicy":{json}"#);
    check(
        &policy(
            r#"{"includedPaths":[{"path":"/*","indexes":[]}],"excludedPaths":[{"path":"/a/*"}]}"#,
        ),
        "indexingPolicy",
        r#"{"includedPaths":[{"path":"/*","indexes":[]}],"excludedPaths":[{"path":"/a/*"},{"path":"/\"_etag\"/?"}],"indexingMode":"consistent","automatic":true}"#,
    );
    refuse(&policy(r#"{"includedPaths":[{"path":"/a/?"}]}"#), "the path /* must be");
    refuse(&policy(r#"{"includedPaths":[{"path":"/a"},{"path":"/*"}]}"#), "'/a' is not valid");
    refuse(&policy(r#"{"includedPaths":[{}]}"#), "needs a path");
    refuse(
        &policy(r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/*"}]}"#),
        "both included and excluded",
    );
    let many: Vec<String> = (0..1501).map(|i| format!(r#"{{"path":"/p{i}/?"}}"#)).collect();
    let many =
        format!(r#"{{"includedPaths":[{}],"excludedPaths":[{{"path":"/*"}}]}}"#, many.join(","));
    refuse(&policy(&many), "at most 1500");
}

#[test]
fn composite_and_spatial_indexes() {
    let policy = |json: &str| format!(r#""indexingPolicy":{{{json}}}"#);
    let done = created(&policy(
        r#""compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]]"#,
    ));
    let done = done.expect("a definition");
    let index = &done.to_json()["indexingPolicy"]["compositeIndexes"][0];
    assert_eq!(index[0]["order"], "ascending");
    assert_eq!(index[1]["order"], "descending");
    refuse(&policy(r#""compositeIndexes":[[{"path":"/a"}]]"#), "array of 2 to 8");
    refuse(&policy(r#""compositeIndexes":[[{"path":"/a/?"},{"path":"/b"}]]"#), "'/a/?'");
    refuse(&policy(r#""compositeIndexes":[[{"path":"/a","order":"up"},{"path":"/b"}]]"#), "order");
    assert!(created(&policy(r#""spatialIndexes":[{"path":"/l/*","types":["Point"]}]"#)).is_ok());
    refuse(&policy(r#""spatialIndexes":[{"path":"/l/*","types":["Circle"]}]"#), "Circle");
}

#[test]
fn vectors() {
    let with = |embedding: &str, index: &str| {
        format!(
            r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{embedding}]}},"indexingPolicy":{{"vectorIndexes":[{index}]}}"#
        )
    };
    let short = r#"{"path":"/v","dimensions":3}"#;
    check(
        &with(short, r#"{"path":"/v","type":"flat"}"#),
        "vectorEmbeddingPolicy",
        r#"{"vectorEmbeddings":[{"path":"/v","dimensions":3,"dataType":"float32","distanceFunction":"cosine"}]}"#,
    );
    refuse(&with(r#"{"path":"/v"}"#, r#"{"path":"/v","type":"flat"}"#), "at most 505");
    assert!(created(&with(r#"{"path":"/v"}"#, r#"{"path":"/v","type":"diskANN"}"#)).is_ok());
    refuse(&with(short, r#"{"path":"/w","type":"flat"}"#), "needs the same path");
    refuse(&with(short, r#"{"path":"/v"}"#), "needs a type");
    refuse(&with(short, r#"{"path":"/v","type":"flat","quantizationByteSize":0}"#), "1 to 512");
    refuse(&with(r#"{"path":"/v","dimensions":4097}"#, ""), "1 to 4096");
    refuse(&with(r#"{"path":"/v","dataType":"float64"}"#, ""), "dataType");
    refuse(&with(&format!("{short},{short}"), ""), "twice");
}

#[test]
fn full_text() {
    let with = |paths: &str, index: &str| {
        format!(
            r#""fullTextPolicy":{{"defaultLanguage":"en-US","fullTextPaths":[{paths}]}},"indexingPolicy":{{"fullTextIndexes":[{index}]}}"#
        )
    };
    assert!(created(&with(r#"{"path":"/t","language":"en-US"}"#, r#"{"path":"/t"}"#)).is_ok());
    refuse(&with("", r#"{"path":"/t"}"#), "needs the same path in fullTextPolicy");
    refuse(&with(r#"{"path":"/t/*"}"#, ""), "not a path to a property");
}

#[test]
fn unique_keys() {
    let with = |keys: &str| format!(r#""uniqueKeyPolicy":{{"uniqueKeys":[{keys}]}}"#);
    let done = created(&with(r#"{"paths":["/a","/b/c"]},{"paths":["/d"]}"#)).expect("a definition");
    assert_eq!(texts(&done.unique_keys), [vec!["/a", "/b/c"], vec!["/d"]]);
    refuse(&with(r#"{"paths":[]}"#), "needs paths");
    refuse(&with(r#"{"paths":[1]}"#), "not a string");
    refuse(&with(&[r#"{"paths":["/a"]}"#; 11].join(",")), "at most 10");
    let wide = [r#""/a""#; 17].join(",");
    refuse(&with(&format!(r#"{{"paths":[{wide}]}}"#)), "at most 16");
}

#[test]
fn conflict_policies() {
    let with = |policy: &str| format!(r#""conflictResolutionPolicy":{policy}"#);
    check(
        &with(r#"{"mode":"custom","conflictResolutionProcedure":"dbs/d/colls/c/sprocs/s"}"#),
        "conflictResolutionPolicy",
        r#"{"mode":"Custom","conflictResolutionProcedure":"dbs/d/colls/c/sprocs/s","conflictResolutionPath":""}"#,
    );
    refuse(&with(r#"{"mode":"Merge"}"#), "mode must be one of");
    refuse(&with(r#"{"conflictResolutionProcedure":"s"}"#), "mode Custom");
    refuse(&with(r#"{"mode":"Custom","conflictResolutionPath":"/a"}"#), "mode LastWriterWins");
    refuse(&with(r#"{"conflictResolutionPath":"a"}"#), "not a path");
}

#[test]
fn computed_properties() {
    let with = |list: &str| format!(r#""computedProperties":[{list}]"#);
    let good = r#"{"name":"low","query":"SELECT VALUE LOWER(c.n) FROM c"}"#;
    check(&with(good), "computedProperties", &format!("[{good}]"));
    refuse(&with(&format!("{good},{good}")), "twice");
    refuse(&with(r#"{"name":"id","query":"SELECT VALUE 1 FROM c"}"#), "belongs to the server");
    refuse(&with(r#"{"name":"a/b","query":"SELECT VALUE 1 FROM c"}"#), "top-level");
    refuse(&with(r#"{"name":"a"}"#), "needs a query");
    refuse(&with(r#"{"name":"a","query":"SELECT VALUE c.b FROM c WHERE 1"}"#), "contain WHERE");
    assert!(created(&with(r#"{"name":"n","query":"SELECT VALUE LOWER(c.n) FROM c"}"#)).is_ok());
    refuse(&with(&[good; 21].join(",")), "at most 20");
}

#[test]
fn change_feed_history() {
    let with = |member: &str| format!(r#""changeFeedPolicy":{{{member}}}"#);
    let policy = |member: &str| created(&with(member)).expect("a definition").change_feed;
    assert_eq!(policy(r#""retentionDuration":10"#).retention_minutes, 10);
    assert_eq!(policy(r#""retentionDuration":0"#).retention_minutes, 0);
    let default = created("").expect("a definition").change_feed;
    assert_eq!((default.retention_minutes, default.tombstone_minutes), (0, 10_080));
    let all = r#""retentionBytes":5,"previousImages":true,"tombstoneDuration":0"#;
    let read = policy(all);
    assert_eq!(
        (read.retention_bytes, read.previous_images, read.tombstone_minutes),
        (Some(5), true, 0)
    );
    check(&with(all), "changeFeedPolicy", &format!("{{{all}}}"));
    refuse(&with(r#""retentionDuration":-1"#), "retentionDuration must be a whole number");
    refuse(&with(r#""retentionDuration":1.5"#), "whole number of minutes");
    refuse(&with(r#""tombstoneDuration":"7d""#), "tombstoneDuration must be a whole number");
    refuse(&with(r#""retentionBytes":0"#), "above 0");
    refuse(&with(r#""previousImages":1"#), "true or false");
}

#[test]
fn what_a_replace_may_change() {
    check_replace(r#""defaultTtl":5"#, "", "defaultTtl", "absent");
    check_replace("", r#""defaultTtl":5"#, "defaultTtl", "5");
    check_replace("", r#""indexingPolicy":{"indexingMode":"none"}"#, "defaultTtl", "absent");
    check_replace(
        "",
        r#""geospatialConfig":{"type":"Geometry"}"#,
        "geospatialConfig",
        r#"{"type":"Geometry"}"#,
    );
    check_replace(r#""future":1"#, "", "future", "absent");
    check_replace(
        r#""computedProperties":[{"name":"a","query":"SELECT VALUE 1 FROM c"}]"#,
        "",
        "computedProperties",
        "absent",
    );
    let policy = r#"{"retentionDuration":5}"#;
    check_replace(&format!(r#""changeFeedPolicy":{policy}"#), "", "changeFeedPolicy", policy);
    check_replace(
        r#""fullTextPolicy":{"fullTextPaths":[{"path":"/a"}]}"#,
        r#""fullTextPolicy":{"fullTextPaths":[{"path":"/b"},{"path":"/a"}]}"#,
        "fullTextPolicy",
        r#"{"fullTextPaths":[{"path":"/b"},{"path":"/a"}]}"#,
    );
}

#[test]
fn what_a_replace_may_not_change() {
    let old = created("").expect("a definition");
    let error = old.replace(&map(r#"{"id":"d"}"#)).unwrap_err();
    assert!(error.message.starts_with("id cannot change"));
    check_replace("", r#""partitionKey":{"paths":["/x"]}"#, "", "! partitionKey cannot");
    check_replace("", r#""partitionKey":{"paths":["/pk"]}"#, "defaultTtl", "absent");
    let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]}]}"#;
    check_replace("", unique, "", "! uniqueKeyPolicy cannot");
    check_replace(unique, r#""uniqueKeyPolicy":{"uniqueKeys":[]}"#, "", "! uniqueKeyPolicy cannot");
    check_replace("", r#""uniqueKeyPolicy":{"uniqueKeys":[]}"#, "defaultTtl", "absent");
    check_replace(
        "",
        r#""conflictResolutionPolicy":{"mode":"Custom"}"#,
        "",
        "! conflictResolution",
    );
    let vectors = r#""vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v"}]}"#;
    check_replace("", vectors, "", "! vectorEmbeddingPolicy cannot");
    check_replace(vectors, vectors, "defaultTtl", "absent");
    check_replace(
        r#""fullTextPolicy":{"fullTextPaths":[{"path":"/a"}]}"#,
        r#""fullTextPolicy":{"fullTextPaths":[]}"#,
        "",
        "! fullTextPolicy can only gain",
    );
}

#[test]
fn an_unchanged_definition_can_be_sent_back() {
    let parts = r#""defaultTtl":5,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]}]},"clientEncryptionPolicy":{"x":1}"#;
    let old = created(parts).expect("a definition");
    let new = old.replace(old.to_json()).expect("the same definition");
    assert_eq!(old.to_json(), new.to_json());
    let stored = ContainerDefinition::from_stored(old.to_json()).expect("the stored one");
    assert_eq!(stored.to_json(), old.to_json());
    assert_eq!(stored.default_ttl, Some(5));
    let error = ContainerDefinition::from_stored(&Map::new()).unwrap_err();
    assert_eq!(error.fault, Fault::Internal);
}
