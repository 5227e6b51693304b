//! Which plans are chosen, as people read them.

extern crate astrarium_query as query;

mod support;

use query::source::IndexPath;
use support::memory::Memory;

#[track_caller]
fn check(text: &str, expect: &str) {
    let items: Vec<String> = (0..50)
        .map(|n| format!("{{\"id\":\"{n}\",\"a\":{},\"s\":\"x{n}\",\"l\":[{n}]}}", n % 10))
        .collect();
    let path = |name: &str| IndexPath::members(&[name]);
    let composite = vec![(path("a"), false), (path("s"), true)];
    let source = Memory::new(&items, true, vec![composite]);
    let statement = support::statement(text, &[]).expect(text);
    let got = support::block_on(statement.explain(&source)).expect(text);
    assert_eq!(got.replace('\n', " | "), expect, "{text}");
}

#[test]
fn filters() {
    check("SELECT * FROM c", "read: scan of all documents");
    check("SELECT * FROM c WHERE c.a = 1", "read: seek /a/? | filter: (c.a = 1)");
    check("SELECT * FROM c WHERE c.a > 8", "read: range /a/? | filter: (c.a > 8)");
    check(
        "SELECT * FROM c WHERE c.a > 8 AND c.a < 3",
        "read: nothing | filter: ((c.a > 8) AND (c.a < 3))",
    );
    check(
        "SELECT * FROM c WHERE c.a = 1 OR c.s = 'x'",
        "read: any of (seek /a/?; seek /s/?) | filter: ((c.a = 1) OR (c.s = \"x\"))",
    );
    check(
        "SELECT * FROM c WHERE c.a = 1 AND c.s = 'x1'",
        "read: seek (/a ASC, /s DESC) | filter: ((c.a = 1) AND (c.s = \"x1\"))",
    );
    check(
        "SELECT * FROM c WHERE c.a = 1 AND c.s >= 'x1'",
        "read: range (/a ASC, /s DESC) | filter: ((c.a = 1) AND (c.s >= \"x1\"))",
    );
    check(
        "SELECT * FROM c WHERE c.a > 1 AND c.s = 'x1'",
        "read: seek /s/? | filter: ((c.a > 1) AND (c.s = \"x1\"))",
    );
    check(
        "SELECT * FROM c WHERE STARTSWITH(c.s, 'x1')",
        "read: range /s/? | filter: STARTSWITH(c.s, \"x1\")",
    );
    check(
        "SELECT * FROM c WHERE ARRAY_CONTAINS(c.l, 3)",
        "read: seek /l/[]/? | filter: ARRAY_CONTAINS(c.l, 3)",
    );
    check(
        "SELECT * FROM c WHERE UPPER(c.s) = 'X'",
        "read: scan of all documents | filter: (UPPER(c.s) = \"X\")",
    );
    check(
        "SELECT * FROM c WHERE CONTAINS(c.s, '49')",
        "read: values of range /s/? | filter: CONTAINS(c.s, \"49\")",
    );
    check(
        "SELECT * FROM c WHERE c.s LIKE 'x%9' AND c.a > 3",
        "read: values of range /s/? | filter: ((c.s LIKE \"x%9\") AND (c.a > 3))",
    );
    check("SELECT c.id FROM c JOIN x IN c.l WHERE x = 3", "read: seek /l/[]/? | filter: (x = 3)");
}

#[test]
fn aggregates() {
    check(
        "SELECT VALUE COUNT(1) FROM c WHERE c.a = 1",
        "read: count of seek /a/? | group: in memory, in the order of keys",
    );
    check(
        "SELECT VALUE MAX(c.a) FROM c",
        "read: first and last of range /a/? | group: in memory, in the order of keys",
    );
    let group = "group: in memory, in the order of keys";
    check(
        "SELECT VALUE COUNT(1) FROM c WHERE c.a = 1 AND c.s > 'x1'",
        &format!("read: count of range (/a ASC, /s DESC) | {group}"),
    );
    check(
        "SELECT VALUE COUNT(1) FROM c WHERE c.a >= 1 AND c.a < 5",
        &format!("read: count of range /a/? | {group}"),
    );
    check(
        "SELECT MIN(c.s) AS lo, MAX(c.s) AS hi FROM c WHERE c.a = 1",
        &format!(
            "read: first and last of range (/a ASC, /s DESC) range (/a ASC, /s DESC) | {group}"
        ),
    );
    check(
        "SELECT c.s, COUNT(1) AS n FROM c WHERE c.a = 1 GROUP BY c.s",
        &format!("read: counts by value of range (/a ASC, /s DESC) | {group}"),
    );
    check(
        "SELECT VALUE SUM(c.a) FROM c",
        "read: scan of all documents | group: in memory, in the order of keys",
    );
    check(
        "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.a FROM c)",
        "read: scan of all documents | distinct: in memory | query: VALUE COUNT(1) over those rows",
    );
}

#[test]
fn orders() {
    check("SELECT * FROM c ORDER BY c.a", "read: in order: range /a/?");
    check("SELECT * FROM c ORDER BY c.a DESC", "read: in order: range /a/? backwards");
    check("SELECT * FROM c ORDER BY c.a, c.s DESC", "read: in order: range (/a ASC, /s DESC)");
    check(
        "SELECT * FROM c ORDER BY c.a DESC, c.s",
        "read: in order: range (/a ASC, /s DESC) backwards",
    );
    check(
        "SELECT * FROM c ORDER BY c.s, c.a",
        "read: scan of all documents | sort: the best rows of each pass",
    );
    check(
        "SELECT * FROM c WHERE c.s = 'x1' ORDER BY c.a",
        "read: seek /s/? | filter: (c.s = \"x1\") | sort: the best rows of each pass",
    );
    // Few values of the first property, in the order of the second.
    check(
        "SELECT * FROM c WHERE c.a = 1 ORDER BY c.s",
        "read: in order: range (/a ASC, /s DESC) backwards | filter: (c.a = 1)",
    );
    check(
        "SELECT * FROM c WHERE c.a = 1 AND c.s > 'x' ORDER BY c.a, c.s DESC",
        "read: in order: range (/a ASC, /s DESC) | filter: ((c.a = 1) AND (c.s > \"x\"))",
    );
    check("SELECT 1", "nothing is read");
}
