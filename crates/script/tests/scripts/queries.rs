//! The query functions: filter, map, pluck, flatten, sortBy, unwind, chain.

use astrarium_script::Pool;
use serde_json::json;

use crate::support::{Memory, procedure, settings};

/// Over five people; `show` puts a feed into the answer.
const CASES: &[(&str, &str)] = &[
    ("__.filter(p => p.age > 30, show('id'))", r#"["b","d"]"#),
    ("__.filter(__, p => p.age > 30, show('id'))", r#"["b","d"]"#),
    (
        "__.filter(getContext().getCollection(), p => p.age > 30, {pageSize: 1}, show('id'))",
        r#"["b"]"#,
    ),
    ("__.map(p => p.age * 2, show())", "[40,80,60,100,20]"),
    ("__.pluck('age', show())", "[20,40,30,50,10]"),
    (
        "__.pluck('', show())",
        "throws 400 Error: The property name must be a string and cannot be empty.",
    ),
    (
        "__.filter(3, show())",
        "throws 400 Error: The predicate/transform function must be provided.",
    ),
    ("__.sortBy(p => p.age, show('id'))", r#"["e","a","c","b","d"]"#),
    ("__.sortByDescending(p => p.age, {pageSize: 2}, show('id'))", r#"["d","b"]"#),
    (
        "__.chain().filter(p => p.age < 40).sortByDescending(p => p.age).pluck('id').value(show())",
        r#"["c","a","e"]"#,
    ),
    ("__.chain().pluck('tags').flatten().value(show())", r#"["x","y","z","z"]"#),
    ("__.chain().map(p => [[p.age]]).flatten(true).value({pageSize: 2}, show())", "[[20],[40]]"),
    ("__.unwind(p => p.tags, (p, tag) => p.id + tag, {}, show())", r#"["ax","ay","bz","cz"]"#),
    ("__.chain().unwind(p => p.tags).value(show())", r#"["x","y","z","z"]"#),
    (
        "__.unwind((p, q) => p.tags, show())",
        r#"throws 400 Error: "collectionSelector" requires one argument."#,
    ),
    (
        "__.unwind(p => p.tags, x => x)",
        r#"throws 400 Error: "resultSelector" requires two arguments."#,
    ),
    (
        "__.chain().filter(p => true, {}).value(show())",
        r#"throws 400 Error: When using "chain", options can only be provided on the call to the "value" function."#,
    ),
    (
        "__.chain().filter(p => true, () => 0).value(show())",
        r#"throws 400 Error: When using "chain", the callback can only be provided on the call to the "value" function."#,
    ),
    // Without a callback the results go into the answer, as text.
    (
        "__.map(p => ({is: p.id})).isAccepted && __.pluck('age')",
        r#""[{\"is\":\"a\"},{\"is\":\"b\"},{\"is\":\"c\"},{\"is\":\"d\"},{\"is\":\"e\"}][20,40,30,50,10]""#,
    ),
    // An error of the predicate reaches the callback.
    ("__.filter(p => p.no.way, (e) => __.response.setBody(e.name))", r#""TypeError""#),
    // Pages, to the end.
    (
        "const all = []; const go = (continuation) => __.filter(p => p.age >= 20, {pageSize: 3, continuation}, (e, f, o) => { all.push(f.map(p => p.id).join('')); o.continuation ? go(o.continuation) : __.response.setBody(all); }); go()",
        r#"["abc","d"]"#,
    ),
    (
        "const all = []; const go = (continuation) => __.sortBy(p => p.age, {pageSize: 2, continuation}, (e, f, o) => { all.push(f.map(p => p.id).join('')); o.continuation ? go(o.continuation) : __.response.setBody(all); }); go()",
        r#"["ea","cb","d"]"#,
    ),
    (
        "__.filter(p => true, {continuation: 'torn'}, () => 0)",
        "throws 400 Error: The continuation is not one that a query function of this script API gave.",
    ),
];

fn people() -> Memory {
    Memory::with([
        json!({"id": "a", "age": 20, "tags": ["x", "y"]}),
        json!({"id": "b", "age": 40, "tags": ["z"]}),
        json!({"id": "c", "age": 30, "tags": ["z"]}),
        json!({"id": "d", "age": 50, "tags": []}),
        json!({"id": "e", "age": 10, "tags": []}),
    ])
}

#[test]
fn each_query_finds_what_it_should() {
    let pool = Pool::new(&settings());
    let show = "const show = (name) => (e, feed) => { if (e) throw e; \
                __.response.setBody(name ? feed.map(x => x[name]) : feed); };";
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|(query, expected)| {
            let source = format!("function f() {{ {show} {query}; }}");
            let found = procedure(&pool, &mut people(), &source, "[]");
            (found != *expected).then(|| format!("{query}\n  gives {found}\n  not   {expected}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_page_of_results_is_filled_from_as_many_pages_as_it_takes() {
    let pool = Pool::new(&settings());
    let items = (0..2500).map(|i| json!({"id": format!("{i:04}"), "n": i}));
    let mut host = Memory::with(items);
    let source = "function f() { __.filter(x => x.n % 1000 === 999, (e, feed, o) => \
                  __.response.setBody([feed.length, o.continuation === undefined])); }";
    assert_eq!(procedure(&pool, &mut host, source, "[]"), "[2,true]");
    assert_eq!(
        host.asked,
        ["list 1000 from \"\"", "list 1000 from \"1000\"", "list 1000 from \"2000\""]
    );
}
