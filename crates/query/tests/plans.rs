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
    // Clients drop rows that are the same before they put groups together.
    check(
        "SELECT DISTINCT c.a, COUNT(1) AS n FROM c GROUP BY c.a",
        r#"SELECT [{"item": c.a}] AS groupByItems, {"a": c.a, "n": {"item": COUNT(1)}} AS payload FROM c GROUP BY c.a"#,
        json!({
            "groupByExpressions": ["c.a"],
            "groupByAliases": ["a", "n"],
            "groupByAliasToAggregateType": { "a": null, "n": "Count" },
        }),
    );
    refused("SELECT DISTINCT COUNT(1) AS n FROM c GROUP BY c.a", "where all keys are selected");
}

#[track_caller]
fn refused(text: &str, why: &str) {
    let message = plan(text, &["/pk"]).expect_err(text);
    assert!(message.contains(why), "{text}: {message}");
}

#[test]
fn compositions_of_aggregates_are_refused_as_by_the_service() {
    for text in [
        "SELECT VALUE {n: COUNT(1)} FROM c",
        "SELECT VALUE [SUM(c.a)] FROM c",
        "SELECT VALUE SUM(c.a) / COUNT(1) FROM c",
        "SELECT COUNT(1) + 1 AS n FROM c",
        "SELECT c.a, ABS(AVG(c.b)) AS m FROM c GROUP BY c.a",
    ] {
        refused(text, "Compositions of aggregates and other expressions are not allowed.");
    }
}

#[test]
fn ranks_of_different_rows_or_of_all_are_refused() {
    let by_rank = "FROM c ORDER BY RANK FullTextScore(c.t, 'a')";
    refused(&format!("SELECT c.id {by_rank}"), "needs TOP or LIMIT");
    refused(&format!("SELECT DISTINCT TOP 3 c.id {by_rank}"), "DISTINCT with ORDER BY RANK");
}

#[test]
fn rows_of_a_subquery_that_are_counted() {
    let counts = |alias: &str, value: bool| match value {
        true => json!({
            "distinctType": "Unordered", "dCountInfo": { "dCountAlias": alias }, "hasSelectValue": true,
        }),
        false => json!({ "distinctType": "Unordered", "dCountInfo": { "dCountAlias": alias } }),
    };
    check(
        "SELECT VALUE COUNT(x) FROM (SELECT DISTINCT c.a FROM c) x",
        "SELECT DISTINCT c.a FROM c",
        counts("", true),
    );
    check(
        "SELECT COUNT(1) AS n FROM (SELECT DISTINCT VALUE c.a FROM c) x WHERE x > 1",
        "SELECT VALUE x FROM (SELECT DISTINCT VALUE c.a FROM c) AS x WHERE (x > 1)",
        counts("n", false),
    );
    check(
        "SELECT VALUE COUNT(1) FROM (SELECT c.a, MAX(c.n) AS m FROM c WHERE c.n > 0 GROUP BY c.a, c.b)",
        r#"SELECT DISTINCT VALUE [{"item": c.a}, {"item": c.b}] FROM c WHERE (c.n > 0)"#,
        counts("", true),
    );
    let why = "only where their rows are kept or counted";
    refused("SELECT VALUE COUNT(x.a) FROM (SELECT DISTINCT c.a, c.b FROM c) x", why);
    refused("SELECT VALUE COUNT(undefined) FROM (SELECT DISTINCT c.a FROM c) x", why);
    refused("SELECT VALUE COUNT(1) FROM (SELECT VALUE c.a FROM c GROUP BY c.a) x", why);
    refused("SELECT VALUE COUNT(1) FROM (SELECT c.a FROM c GROUP BY c.a) x WHERE x.a > 1", why);
    refused("SELECT VALUE COUNT(1) FROM (SELECT COUNT(1) AS n FROM c) x", why);
}

#[test]
fn rows_of_a_subquery_that_are_kept() {
    check(
        "SELECT * FROM (SELECT DISTINCT c.a, c.b FROM c) x WHERE x.a > 1",
        "",
        json!({ "distinctType": "Unordered" }),
    );
    check(
        "SELECT VALUE x FROM (SELECT DISTINCT VALUE c.a FROM c) x OFFSET 1 LIMIT 2",
        "SELECT VALUE x FROM (SELECT DISTINCT VALUE c.a FROM c) AS x OFFSET 0 LIMIT 3",
        json!({ "distinctType": "Unordered", "hasSelectValue": true, "offset": 1, "limit": 2 }),
    );
    let why = "only where their rows are kept or counted";
    refused("SELECT VALUE x.a FROM (SELECT DISTINCT c.a, c.b FROM c) x", why);
    refused("SELECT VALUE x FROM (SELECT DISTINCT c.a FROM c) x JOIN y IN x.a", why);
    check(
        "SELECT TOP 2 VALUE x FROM (SELECT VALUE COUNT(1) FROM c GROUP BY c.a) x",
        r#"SELECT [{"item": c.a}] AS groupByItems, [{"item": COUNT(1)}] AS payload FROM c GROUP BY c.a"#,
        json!({
            "groupByExpressions": ["c.a"],
            "aggregates": ["Count"],
            "hasSelectValue": true,
            "top": 2,
        }),
    );
    refused(
        "SELECT VALUE x FROM (SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a) x WHERE x.n > 1",
        why,
    );
}

/// Where every row belongs to one partition key, partitions answer alone.
#[test]
fn rows_of_a_subquery_that_tell_partition_keys_apart() {
    check(
        "SELECT VALUE MAX(x.n) FROM (SELECT COUNT(1) AS n FROM c GROUP BY c.pk) x",
        r#"SELECT VALUE [{"item": MAX(x.n), "item2": {"max": MAX(x.n), "count": COUNT(x.n)}}] FROM (SELECT COUNT(1) AS n FROM c GROUP BY c.pk) AS x"#,
        json!({ "aggregates": ["Max"], "hasSelectValue": true }),
    );
    check("SELECT x.a FROM (SELECT DISTINCT r.pk, r.a FROM r) x WHERE x.a > 1", "", json!({}));
    let why = "tell partition keys apart";
    refused("SELECT VALUE MAX(x.n) FROM (SELECT COUNT(1) AS n FROM c GROUP BY c.a) x", why);
    refused("SELECT VALUE MAX(x.n) FROM (SELECT COUNT(1) AS n FROM c) x", why);
    refused("SELECT x.a FROM (SELECT DISTINCT r.a FROM r GROUP BY r.a, r.pk) x", why);
    let two = plan("SELECT x.a FROM (SELECT DISTINCT c.t, c.a FROM c) x", &["/t", "/u"]);
    assert!(two.expect_err("half of a key").contains(why));
}

#[test]
fn clients_are_asked_for_what_they_can_do() {
    let lacking = |text: &str, features: &str| {
        let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        let key = Definition::from_json(&key, 2).expect("a key");
        let statement = Statement::new(text, &[], &Settings::default()).expect(text);
        let checked = statement.fan_out(&key).expect(text).check_client(features);
        let message = checked.map_or_else(|error| error.message, |()| String::new());
        let word =
            |line: &str| Some(line.strip_prefix("Query contained ")?.split(',').next()?.to_owned());
        message.lines().filter_map(word).collect::<Vec<_>>()
    };
    let rust = "Distinct,MultipleOrderBy,NonStreamingOrderBy,OffsetAndLimit,OrderBy,Top";
    let none: [&str; 0] = [];
    for text in
        ["SELECT * FROM c", "SELECT DISTINCT TOP 3 c.a FROM c", "SELECT * FROM c ORDER BY c.a"]
    {
        assert_eq!(lacking(text, rust), none, "{text}");
    }
    assert_eq!(lacking("SELECT VALUE COUNT(1) FROM c", rust), ["Aggregate"]);
    assert_eq!(lacking("SELECT COUNT(1) AS n FROM c", rust), ["NonValueAggregate"]);
    assert_eq!(
        lacking("SELECT c.a, COUNT(1) AS n, COUNTIF(c.b) AS m FROM c GROUP BY c.a", rust),
        ["NonValueAggregate", "MultipleAggregates", "CountIf", "GroupBy"]
    );
    assert_eq!(lacking("SELECT VALUE MAKELIST(c.a) FROM c", "Aggregate"), ["ListAndSetAggregate"]);
    assert_eq!(lacking("SELECT * FROM c OFFSET 1 LIMIT 2", ""), ["OffsetAndLimit"]);
    assert_eq!(lacking("SELECT * FROM c ORDER BY c.a, c.b", "OrderBy, Top"), ["MultipleOrderBy"]);
    assert_eq!(
        lacking("SELECT TOP 5 * FROM c ORDER BY RANK FullTextScore(c.text, 'swim')", rust),
        ["HybridSearch"]
    );
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
