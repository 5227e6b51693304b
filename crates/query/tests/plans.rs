//! Plans for clients that fan out: exactly what they are told.

extern crate astrarium_query as query;

use model::partition_key::Definition;
use query::Statement;
use query::world::Settings;
use serde_json::{Value, json};

fn plan(text: &str, paths: &[&str]) -> Result<Value, String> {
    let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
    let key = json!({ "paths": paths, "kind": kind, "version": 2 });
    let key = Definition::from_json(&key, 2).expect("a key");
    let parameters = [("@n".to_owned(), json!(3))];
    let statement = Statement::new(text, &parameters, &Settings::default());
    let plan = statement.and_then(|statement| statement.fan_out(&key));
    plan.map(|plan| plan.to_json()).map_err(|error| error.message)
}

/// The rewritten query, and everything that is not as in a plan that asks for nothing.
#[track_caller]
fn check(text: &str, rewritten: &str, differs: Value) {
    let plan = plan(text, &["/pk"]).expect(text);
    let plain = json!({
        "distinctType": "None", "top": null, "offset": null, "limit": null, "orderBy": [],
        "orderByExpressions": [], "groupByExpressions": [], "groupByAliases": [], "aggregates": [],
        "groupByAliasToAggregateType": {}, "hasSelectValue": false, "dCountInfo": null,
        "hasNonStreamingOrderBy": false,
    });
    let info = plan["queryInfo"].as_object().expect("information");
    assert_eq!(info["rewrittenQuery"], rewritten, "{text}");
    let found: serde_json::Map<String, Value> = info
        .iter()
        .filter(|(name, value)| *name != "rewrittenQuery" && plain[*name] != **value)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    assert_eq!(Value::Object(found), differs, "{text}");
}

#[test]
fn nothing_to_do() {
    check("SELECT * FROM c WHERE c.a = 1", "", json!({}));
    check("SELECT VALUE c.a FROM c", "", json!({ "hasSelectValue": true }));
    check("SELECT TOP 5 * FROM c", "", json!({ "top": 5 }));
    check("SELECT TOP @n * FROM c", "", json!({ "top": 3 }));
    check("SELECT DISTINCT c.b FROM c", "", json!({ "distinctType": "Unordered" }));
}

#[test]
fn counts() {
    check(
        "SELECT * FROM c OFFSET 1 LIMIT 2",
        "SELECT * FROM c OFFSET 0 LIMIT 3",
        json!({ "offset": 1, "limit": 2 }),
    );
    check(
        "SELECT COUNT(1) AS n FROM (SELECT DISTINCT VALUE c.x FROM c)",
        "SELECT DISTINCT VALUE c.x FROM c",
        json!({ "distinctType": "Unordered", "dCountInfo": { "dCountAlias": "n" } }),
    );
}

#[test]
fn aggregates() {
    check(
        "SELECT VALUE AVG(c.x) FROM c",
        r#"SELECT VALUE [{"item": {"sum": SUM(c.x), "count": COUNT(c.x)}}] FROM c"#,
        json!({ "aggregates": ["Average"], "hasSelectValue": true }),
    );
    check(
        "SELECT VALUE MIN(c.x) FROM c WHERE c.y > 1",
        r#"SELECT VALUE [{"item": MIN(c.x), "item2": {"min": MIN(c.x), "count": COUNT(c.x)}}] FROM c WHERE (c.y > 1)"#,
        json!({ "aggregates": ["Min"], "hasSelectValue": true }),
    );
    check(
        "SELECT VALUE COUNT(1) FROM c",
        r#"SELECT VALUE [{"item": COUNT(1)}] FROM c"#,
        json!({ "aggregates": ["Count"], "hasSelectValue": true }),
    );
    check(
        "SELECT AVG(c.x), 1 AS one FROM c",
        r#"SELECT {"$1": {"item": {"sum": SUM(c.x), "count": COUNT(c.x)}}, "one": 1} AS payload FROM c"#,
        json!({
            "groupByAliases": ["$1", "one"],
            "groupByAliasToAggregateType": { "$1": "Average", "one": null },
        }),
    );
}

#[test]
fn groups() {
    check(
        "SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a",
        r#"SELECT [{"item": c.a}] AS groupByItems, {"a": c.a, "n": {"item": COUNT(1)}} AS payload FROM c GROUP BY c.a"#,
        json!({
            "groupByExpressions": ["c.a"],
            "groupByAliases": ["a", "n"],
            "groupByAliasToAggregateType": { "a": null, "n": "Count" },
        }),
    );
    check(
        "SELECT VALUE COUNT(1) FROM c GROUP BY c.a, c.b OFFSET 1 LIMIT 1",
        r#"SELECT [{"item": c.a}, {"item": c.b}] AS groupByItems, [{"item": COUNT(1)}] AS payload FROM c GROUP BY c.a, c.b"#,
        json!({
            "groupByExpressions": ["c.a", "c.b"],
            "aggregates": ["Count"],
            "hasSelectValue": true,
            "offset": 1,
            "limit": 1,
        }),
    );
    let refused = plan("SELECT VALUE {n: COUNT(1)} FROM c", &["/pk"]).expect_err("a composition");
    assert!(refused.contains("Compositions of aggregates"), "{refused}");
}

#[test]
fn order() {
    check(
        "SELECT * FROM Root r ORDER BY r.b",
        r#"SELECT r._rid, [{"item": r.b}] AS orderByItems, r AS payload FROM Root AS r WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY r.b"#,
        json!({ "orderBy": ["Ascending"], "orderByExpressions": ["r.b"] }),
    );
    check(
        "SELECT TOP 4 c.p1, c.p2 AS x FROM c WHERE c.q = 1 ORDER BY c.b DESC, c.d",
        r#"SELECT TOP 4 c._rid, [{"item": c.b}, {"item": c.d}] AS orderByItems, {"p1": c.p1, "x": c.p2} AS payload FROM c WHERE (((c.q = 1)) AND {documentdb-formattableorderbyquery-filter}) ORDER BY c.b DESC, c.d"#,
        json!({
            "top": 4,
            "orderBy": ["Descending", "Ascending"],
            "orderByExpressions": ["c.b", "c.d"],
        }),
    );
    check(
        "SELECT DISTINCT VALUE c.b FROM c ORDER BY c.b",
        r#"SELECT c._rid, [{"item": c.b}] AS orderByItems, c.b AS payload FROM c WHERE (IS_DEFINED(c.b) AND {documentdb-formattableorderbyquery-filter}) ORDER BY c.b"#,
        json!({
            "distinctType": "Ordered",
            "orderBy": ["Ascending"],
            "orderByExpressions": ["c.b"],
            "hasSelectValue": true,
        }),
    );
    check(
        "SELECT TOP 10 * FROM c ORDER BY VectorDistance(c.v, [1, 2])",
        r#"SELECT TOP 10 c._rid, [{"item": VectorDistance(c.v, [1, 2])}] AS orderByItems, c AS payload FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY VectorDistance(c.v, [1, 2])"#,
        json!({
            "top": 10,
            "orderBy": ["Descending"],
            "orderByExpressions": ["VectorDistance(c.v, [1, 2])"],
            "hasNonStreamingOrderBy": true,
        }),
    );
}

#[test]
fn searches() {
    let plan =
        plan("SELECT TOP 10 * FROM c ORDER BY RANK FullTextScore(c.text, 'swim', 'run')", &["/pk"]);
    let hybrid = &plan.expect("a plan")["hybridSearchQueryInfo"];
    assert_eq!(
        hybrid["globalStatisticsQuery"],
        r#"SELECT COUNT(1) AS documentCount, [{"totalWordCount": SUM(_FullTextWordCount(c.text)), "hitCounts": [COUNTIF(FullTextContains(c.text, "swim")), COUNTIF(FullTextContains(c.text, "run"))]}] AS fullTextStatistics FROM c"#
    );
    let score = r#"_FullTextScore(c.text, ["swim", "run"], {documentdb-formattablehybridsearchquery-totaldocumentcount}, {documentdb-formattablehybridsearchquery-totalwordcount-0}, {documentdb-formattablehybridsearchquery-hitcountsarray-0})"#;
    let component = &hybrid["componentQueryInfos"][0];
    assert_eq!(component["top"], 120);
    assert_eq!(component["orderByExpressions"], json!([score]));
    assert_eq!(
        component["rewrittenQuery"],
        format!(
            r#"SELECT TOP 120 c._rid, [{{"item": {score}}}] AS orderByItems, {{"payload": c, "componentScores": [({score} ?? -1)]}} AS payload FROM c WHERE ({{documentdb-formattableorderbyquery-filter}}) ORDER BY {score} DESC"#
        )
    );
    assert_eq!(hybrid["take"], 10);
    assert_eq!(hybrid["requiresGlobalStatistics"], true);
}

/// How many ranges a query goes to, and whether the first is everything.
#[track_caller]
fn ranges(text: &str, paths: &[&str], count: usize, all: bool) {
    let plan = plan(text, paths).expect(text);
    let ranges = plan["queryRanges"].as_array().expect("ranges");
    assert_eq!(ranges.len(), count, "{text}: {ranges:?}");
    if let Some(first) = ranges.first() {
        let full = first["min"] == "" && first["max"] == "FF";
        assert_eq!(full, all, "{text}: {ranges:?}");
        assert!(ranges.windows(2).all(|pair| pair[0]["min"].as_str() < pair[1]["min"].as_str()));
    }
}

#[test]
fn ranges_follow_from_the_partition_key() {
    ranges("SELECT * FROM c", &["/pk"], 1, true);
    ranges("SELECT * FROM c WHERE c.pk = 'a'", &["/pk"], 1, false);
    ranges("SELECT * FROM c WHERE 'a' = c.pk AND c.x > 1", &["/pk"], 1, false);
    ranges("SELECT * FROM c WHERE c.pk IN ('a', 'b', 'a')", &["/pk"], 2, false);
    ranges("SELECT * FROM c WHERE c.pk = 'a' OR c.pk = 'b'", &["/pk"], 2, false);
    ranges("SELECT * FROM c WHERE c.pk = 'a' OR c.x = 'b'", &["/pk"], 1, true);
    ranges("SELECT * FROM c WHERE c.pk > 'a'", &["/pk"], 1, true);
    ranges("SELECT * FROM c WHERE c.pk = 0", &["/pk"], 2, false);
    ranges("SELECT * FROM c WHERE c.pk = []", &["/pk"], 0, false);
    ranges("SELECT * FROM c WHERE false", &["/pk"], 0, false);
    ranges("SELECT * FROM c WHERE c.a.b = null", &["/a/b"], 1, false);
    ranges("SELECT * FROM c WHERE c.t = 'x'", &["/t", "/u"], 1, false);
    ranges("SELECT * FROM c WHERE c.t = 'x' AND c.u IN (1, 2)", &["/t", "/u"], 2, false);
    ranges("SELECT * FROM c WHERE c.u = 1", &["/t", "/u"], 1, true);
}
