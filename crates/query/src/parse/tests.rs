//! Tests of the grammar: what a text is read as, and where a wrong one is refused.

use super::*;

/// The tree printed with all its parentheses, or the refusal.
#[track_caller]
fn check(text: &str, expect: &str) {
    let got = match parse(text) {
        Ok(query) => {
            let printed = query.to_string();
            assert_eq!(parse(&printed).expect(&printed), query, "printing changed {text}");
            printed
        }
        Err(error) => {
            let json = error.message.strip_prefix("Message: ").unwrap_or("{}");
            let problems: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
            let first = &problems["errors"][0];
            let place = &first["location"];
            format!(
                "{} {}..{} {}",
                first["code"].as_str().unwrap_or(&error.message),
                place["start"],
                place["end"],
                first["message"].as_str().unwrap_or("")
            )
        }
    };
    assert_eq!(got, expect, "{text}");
}

#[track_caller]
fn value(text: &str, expect: &str) {
    check(&format!("SELECT VALUE {text}"), &format!("SELECT VALUE {expect}"));
}

#[test]
fn clauses() {
    check("select * from c", "SELECT * FROM c");
    check("SELECT c.a, c.b AS x, c.d y FROM c", "SELECT c.a, c.b AS x, c.d AS y FROM c");
    check(
        "SELECT DISTINCT TOP 5 VALUE c FROM root c",
        "SELECT DISTINCT TOP 5 VALUE c FROM root AS c",
    );
    check(
        "SELECT x FROM c JOIN x IN c.a[\"b c\"][0] JOIN (SELECT VALUE 1) s",
        "SELECT x FROM c JOIN x IN c.a[\"b c\"][0] JOIN (SELECT VALUE 1) AS s",
    );
    check(
        "SELECT c.a FROM c WHERE c.b GROUP BY c.a, c.b ORDER BY c.a desc, c.b OFFSET @o LIMIT 3",
        "SELECT c.a FROM c WHERE c.b GROUP BY c.a, c.b ORDER BY c.a DESC, c.b OFFSET @o LIMIT 3",
    );
    check("SELECT * FROM k IN OBJECTTOARRAY(c.m)", "SELECT * FROM k IN OBJECTTOARRAY(c.m)");
    check(
        "SELECT * FROM c ORDER BY RANK RRF(FullTextScore(c.a, 'x'), [1])",
        "SELECT * FROM c ORDER BY RANK RRF(FullTextScore(c.a, \"x\"), [1])",
    );
    check("SELECT c.rank FROM c ORDER BY c.rank", "SELECT c.rank FROM c ORDER BY c.rank");
    check("SELECT * -- all\nFROM c -- of it", "SELECT * FROM c");
}

#[test]
fn what_binds_tighter() {
    value("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)");
    value("a.b || 'x' = c", "((a.b || \"x\") = c)");
    value("x & 1 = 1", "((x & 1) = 1)");
    value("NOT a = b AND c OR d", "(((NOT (a = b)) AND c) OR d)");
    value("NOT a IN (1, 2)", "(NOT (a IN (1, 2)))");
    value("a NOT IN (1) AND b", "((a NOT IN (1)) AND b)");
    value("a BETWEEN 1 AND 2 AND b", "((a BETWEEN 1 AND 2) AND b)");
    value(
        "a LIKE 'x!%' ESCAPE '!' OR b NOT LIKE 'y'",
        "((a LIKE \"x!%\" ESCAPE \"!\") OR (b NOT LIKE \"y\"))",
    );
    value("p ? q ?? r : s ? t : u", "(p ? (q ?? r) : (s ? t : u))");
    value("- - a.b[0]", "(- (- a.b[0]))");
    value("1 << 2 >>> 3 > 4", "(((1 << 2) >>> 3) > 4)");
    value("a < b = c", "((a < b) = c)");
    value("1 - -1", "(1 - (- 1))");
}

#[test]
fn primaries() {
    value(
        "[1, 2.50, .5, 1e3, 0x1F, 'a\\'b', \"c\\u00e9\"]",
        "[1, 2.50, .5, 1e3, 0x1F, \"a'b\", \"cé\"]",
    );
    value("{a: 1, 'b c': {}, \"d\": []}", "{\"a\": 1, \"b c\": {}, \"d\": []}");
    value("TRUE", "true");
    value("Undefined ?? NULL", "(undefined ?? null)");
    value("udf.f(1, @p)", "udf.f(1, @p)");
    value(
        "EXISTS(SELECT VALUE 1) AND ARRAY(SELECT VALUE 1) AND (SELECT 1 AS a).a",
        "(EXISTS(SELECT VALUE 1) AND ARRAY(SELECT VALUE 1) AND (SELECT 1 AS a).a)",
    );
    value(
        "ALL(SELECT VALUE 1) OR FIRST(SELECT VALUE 1) OR LAST(SELECT VALUE 1)",
        "(ALL(SELECT VALUE 1) OR FIRST(SELECT VALUE 1) OR LAST(SELECT VALUE 1))",
    );
    value("LEFT('ab', 1) || first.last", "(LEFT(\"ab\", 1) || first.last)");
    value("c['order'].x", "c[\"order\"].x");
}

#[test]
fn wrong_texts_are_refused_at_their_place() {
    let near =
        |at: &str, what: &str| format!("SC1001 {at} Syntax error, incorrect syntax near '{what}'.");
    check("SELECT FROM c", &near("7..11", "FROM"));
    check("SELEC * FROM c", &near("0..5", "SELEC"));
    check("SELECT x AS Value FROM c", &near("12..17", "Value"));
    check("SELECT c.order FROM c", &near("9..14", "order"));
    check("SELECT TOP -1 * FROM c", &near("11..12", "-"));
    check("SELECT TOP 1.5 * FROM c", &near("11..14", "1.5"));
    check("SELECT * FROM c OFFSET 1", "SC1002 24..24 Syntax error, unexpected end-of-file.");
    check("SELECT /* x */ 1", &near("7..8", "/"));
    check("SELECT [1,] FROM c", &near("10..11", "]"));
    check("SELECT * FROM c WHERE a ! b", "SC1010 24..25 Syntax error, invalid token '!'.");
    check("SELECT * FROM c;", "SC1010 15..16 Syntax error, invalid token ';'.");
    check("SELECT 'a", "SC1012 7..9 Syntax error, invalid string literal token ''a'.");
    check("SELECT 12ab", "SC1011 7..11 Syntax error, invalid numeric value token '12ab'.");
    check("SELECT 1e999", "SC1011 7..12 Syntax error, invalid numeric value token '1e999'.");
    check("SELECT 'é' 'b'", &near("11..14", "'b'"));
    check(
        "SELECT a LIKE 'x' ESCAPE 'ab'",
        "SC2070 25..29 The ESCAPE clause requires a string of one character.",
    );
    check("", "SC1002 0..0 Syntax error, unexpected end-of-file.");
    check("SELECT @ FROM c", &near("7..8", "@"));
    check("SELECT * FROM c ORDER BY", "SC1002 24..24 Syntax error, unexpected end-of-file.");
}

#[test]
fn depth_is_bounded_and_long_chains_are_flat() {
    for open in ["(", "[", "-(", "{a:", "ABS(", "(SELECT VALUE ", "c[", "NOT (", "a+(", "a?"] {
        let text = format!("SELECT VALUE {}", open.repeat(30_000));
        assert!(parse(&text).expect_err(open).message.contains("SC3001"), "{open}");
    }
    for chain in ["- ", "NOT ", "+", "1+", "1||", "1="] {
        let text = format!("SELECT VALUE {}1", chain.repeat(100_000));
        assert!(parse(&text).expect_err(chain).message.contains("SC3001"), "{chain}");
    }
    for flat in ["1 OR ", "1 AND ", "1??"] {
        let text = format!("SELECT VALUE {}1", flat.repeat(80_000));
        assert!(parse(&text).is_ok(), "{flat}");
    }
    assert!(parse(&"x".repeat(limits::TEXT_BYTES + 1)).is_err());
}
