//! The limits that the documentation names are those that hold.

extern crate astrarium_query as query;

use std::path::Path;

use query::limits;

#[test]
fn the_limits_are_as_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/query.md");
    let page = std::fs::read_to_string(path).expect("docs/query.md");
    let lines = [
        format!("| bytes of text | {} |", limits::TEXT_BYTES),
        format!(
            "| levels of brackets, and of operators | {}, {} |",
            limits::NESTING,
            limits::TREE_HEIGHT
        ),
        format!(
            "| `JOIN`s, calls of user-defined functions | {}, {} |",
            limits::JOINS,
            limits::UDF_CALLS
        ),
        format!("| `TOP`, `OFFSET`, `LIMIT` | {} |", limits::COUNT_MAX),
        format!("| bytes of a value that is built, or of a row | {} |", limits::VALUE_BYTES),
        format!("a page of groups or sorted rows hold | {} |", limits::MEMORY_BYTES),
        format!("elements looked at) for one row | {} |", limits::ROW_STEPS),
    ];
    for line in lines {
        assert!(page.contains(&line), "docs/query.md does not say: {line}");
    }
    assert_eq!(limits::VALUE_BYTES, limits::ROW_BYTES);
}
