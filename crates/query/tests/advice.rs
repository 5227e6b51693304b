//! Which indexes a query lacks.

extern crate astrarium_query as query;

mod support;

use query::source::IndexPath;
use support::memory::Memory;

/// Over items without any index but a composite one of `a` and `b`.
#[track_caller]
fn check(text: &str, expect: &str) {
    let items = vec!["{\"id\":\"1\",\"a\":1}".to_owned()];
    let path = |name: &str| IndexPath::members(&[name]);
    let source = Memory::new(&items, false, vec![vec![(path("a"), false), (path("b"), false)]]);
    let statement = support::statement(text, &[]).expect(text);
    let advice = statement.advice(&source);
    let mut got: Vec<String> = advice.single.iter().map(ToString::to_string).collect();
    if let Some(columns) = advice.composite {
        let column =
            |(path, down): &(IndexPath, bool)| format!("{path}{}", if *down { "-" } else { "+" });
        got.push(columns.iter().map(column).collect::<Vec<_>>().join(""));
    }
    assert_eq!(got.join(" "), expect, "{text}");
}

#[test]
fn what_a_filter_asks_for_and_no_index_has() {
    check("SELECT * FROM c", "");
    check("SELECT * FROM c WHERE c.x = 1", "/x/?");
    check("SELECT * FROM c WHERE c.x = 1 OR c.y.z > 2", "/x/? /y/z/?");
    check("SELECT * FROM c WHERE UPPER(c.x) = 'A'", "");
    check("SELECT c.id FROM c JOIN t IN c.l WHERE t.k = 1", "/l/[]/k/?");
    check("SELECT 1", "");
}

#[test]
fn several_properties_ask_for_a_composite_index() {
    check("SELECT * FROM c WHERE c.x > 1 AND c.y = 2", "/x/? /y/? /y/?+/x/?+");
    check("SELECT * FROM c WHERE c.a = 1 AND c.b > 2", "/a/? /b/?");
    check("SELECT * FROM c WHERE c.x = 1 ORDER BY c.y DESC", "/x/? /x/?+/y/?-");
    check("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.z FROM c WHERE c.x = 1)", "/x/?");
}
