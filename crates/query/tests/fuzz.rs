//! Garbage and mutated texts: whatever a client sends is answered or refused, without a panic, a
//! hang, or more stack and memory than allowed. `SEED=n` replays one run, `RUNS=n` does more.

extern crate astrarium_query as query;

mod support;

use std::fs;
use std::path::Path;

use query::limits;
use serde_json::json;
use support::chance::Chance;
use support::memory::Memory;
use support::random;

const RUNS: u64 = 2_000;

const PIECES: &[&str] = &[
    "SELECT",
    "VALUE",
    "DISTINCT",
    "TOP",
    "FROM",
    "c",
    "JOIN",
    "IN",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "RANK",
    "OFFSET",
    "LIMIT",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "ESCAPE",
    "EXISTS",
    "ARRAY",
    "ALL",
    "FIRST",
    "LAST",
    "AS",
    "ASC",
    "DESC",
    "udf.",
    "undefined",
    "null",
    "true",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    ":",
    "?",
    "??",
    "+",
    "-",
    "*",
    "/",
    "%",
    "~",
    "&",
    "|",
    "^",
    "||",
    "<<",
    ">>>",
    "=",
    "!=",
    "<",
    ">=",
    "1",
    "0.5",
    "1e308",
    "9223372036854775807",
    "0xFF",
    "'a'",
    "\"b\"",
    "'\\u00e9'",
    "@p",
    "@missing",
    "c.a",
    "c.l",
    "x",
    "COUNT(1)",
    "SUM(c.n)",
    "IS_DEFINED(",
    "é",
    "\u{1F600}",
    "'",
    "\"",
    "\\",
    "--",
    "/*",
    ";",
    "\0",
    "\n",
    "$",
    "NaN",
    "Infinity",
];

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RUNS").unwrap_or(RUNS),
    }
}

/// Items of many shapes, one of them as deep as can be.
fn items() -> Vec<String> {
    let mut chance = Chance::new(7);
    let mut items: Vec<String> = (0..6).map(|id| random::document(&mut chance, id)).collect();
    items.push(format!("{{\"a\":{}1{}}}", "[".repeat(126), "]".repeat(126)));
    items.push(format!("{{\"l\":[{}1],\"n\":1}}", "1,".repeat(300)));
    items
}

/// Runs a text as far as it goes; answers whether it ran at all.
fn run(text: &str, sources: &[Memory]) -> bool {
    let parameters = vec![("@p".to_owned(), json!([1, { "x": null }]))];
    let Ok(statement) = support::statement(text, &parameters) else { return false };
    // What was understood can be said again, and means the same.
    let printed = statement.query().to_string();
    if printed.len() <= limits::TEXT_BYTES {
        let shown: String = printed.chars().take(1_000).collect();
        let again = query::parse(&printed).unwrap_or_else(|error| panic!("{shown}\n{error}"));
        assert!(again == *statement.query(), "printing changed {shown}");
    }
    for source in sources {
        let _ = support::some_rows(&statement, source, 5, 3);
    }
    let key = json!({ "paths": ["/id"], "kind": "Hash", "version": 2 });
    let key = model::partition_key::Definition::from_json(&key, 2).expect("a key");
    if let Ok(plan) = statement.fan_out(&key) {
        plan.to_json();
    }
    true
}

#[test]
fn token_soup() {
    let items = items();
    let sources = [Memory::new(&items, false, Vec::new()), Memory::new(&items, true, Vec::new())];
    for seed in seeds() {
        let mut chance = Chance::new(seed);
        let count = 1 + chance.below(40);
        let soup: Vec<&str> = (0..count).map(|_| chance.pick(PIECES)).collect();
        run(&soup.join(chance.pick(&["", " "])), &sources);
        run(&format!("SELECT {} FROM c", soup.join(" ")), &sources);
        run(&format!("SELECT VALUE {}", soup.join(" ")), &sources);
    }
}

#[test]
fn mutated_queries() {
    let items = items();
    let sources = [Memory::new(&items, false, Vec::new()), Memory::new(&items, true, Vec::new())];
    let queries = known_queries();
    let mut ran = 0;
    for seed in seeds() {
        let mut chance = Chance::new(seed);
        let mut text: Vec<char> = queries[chance.below(queries.len())].chars().collect();
        for _ in 0..1 + chance.below(3) {
            mutate(&mut text, &mut chance, &queries);
        }
        ran += u32::from(run(&text.iter().collect::<String>(), &sources));
    }
    assert!(ran > 0 || seeds().count() < 100, "no mutated query was a query");
}

fn known_queries() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("cases").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut queries = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).expect("a case");
        let lines = text.lines().filter(|line| line.starts_with("SELECT"));
        queries.extend(lines.map(str::to_owned));
    }
    queries
}

fn mutate(text: &mut Vec<char>, chance: &mut Chance, queries: &[String]) {
    let at = chance.below(text.len() + 1);
    let end = (at + chance.below(12)).min(text.len());
    let piece: Vec<char> = match chance.below(5) {
        0 => Vec::new(),
        1 => chance.pick(PIECES).chars().collect(),
        2 => text[at..end].repeat(2),
        3 => {
            let other: Vec<char> = queries[chance.below(queries.len())].chars().collect();
            let from = chance.below(other.len());
            other[from..].iter().take(1 + chance.below(30)).copied().collect()
        }
        _ => char::from_u32(chance.below(0x11_0000) as u32).into_iter().collect(),
    };
    text.splice(at..end, piece);
}

#[test]
fn the_longest_texts() {
    let sources = [Memory::new(&items()[..2], true, Vec::new())];
    let long = |before: &str, piece: &str, after: &str| {
        let room = limits::TEXT_BYTES - before.len() - after.len();
        format!("{before}{}{after}", piece.repeat(room / piece.len()))
    };
    for piece in PIECES {
        run(&long("SELECT ", piece, ""), &sources);
        run(&long("SELECT VALUE 1", &format!(" {piece} 1"), ""), &sources);
        run(&long("SELECT VALUE ", &format!("{piece} "), " FROM c"), &sources);
    }
    assert!(run(&long("SELECT VALUE c.id FROM c WHERE c.n IN (1", ",2", ")"), &sources));
    assert!(run(&long("SELECT VALUE [1", ",1", "]"), &sources));
    assert!(run(&long("SELECT VALUE {\"a\":1", ",b:1", "}"), &sources));
    assert!(run(&long("SELECT c.a", ",c.a", " FROM c"), &sources));
    assert!(run(&long("SELECT VALUE '", "\\n", "'"), &sources));
    assert!(run(&long("SELECT * FROM c WHERE c.a=1", " OR c.a=1", ""), &sources));
    assert!(run(&long("SELECT * FROM c WHERE true", " AND c.a=1", ""), &sources));
    assert!(run(&long("SELECT VALUE COUNT(1) FROM c GROUP BY c.a", ",c.a", ""), &sources));
    assert!(!run(&long("SELECT VALUE CONCAT_", "A", "(1)"), &sources));
    let names = |one: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..25_000).map(one).collect();
        all.join(",")
    };
    let columns = names(&|at| format!("c.m{at} AS n{at}"));
    assert!(run(&format!("SELECT {columns} FROM c"), &sources));
    let members = names(&|at| format!("m{at}: c.n{at}"));
    assert!(run(&format!("SELECT VALUE {{{members}}} FROM c"), &sources));
    let all = names(&|at| format!("c.m{at}"));
    assert!(run(&format!("SELECT VALUE c FROM c WHERE 1 IN ({all})"), &sources));
    let conditions = all.replace(',', " = 1 AND ");
    assert!(run(&format!("SELECT VALUE c FROM c WHERE {conditions}"), &sources));
}

#[test]
fn explosions_are_stopped() {
    let items = items();
    let sources = [Memory::new(&items, false, Vec::new())];
    let statement = support::statement(
        "SELECT VALUE (SELECT VALUE COUNT(1) FROM a IN c.l JOIN b IN c.l JOIN d IN c.l JOIN e IN c.l) FROM c",
        &[],
    );
    let error = support::rows(&statement.expect("a query"), &sources[0], 100).expect_err("a limit");
    assert!(error.message.contains("steps for one item"), "{}", error.message);
    let statement = support::statement(
        "SELECT VALUE ARRAY(SELECT VALUE [a, b, d] FROM a IN c.l JOIN b IN c.l JOIN d IN c.l) FROM c",
        &[],
    );
    let error = support::rows(&statement.expect("a query"), &sources[0], 100).expect_err("a limit");
    assert!(error.message.contains("bytes of one subquery"), "{}", error.message);
}
