//! The text cases of the language: documents, queries, rows.
//!
//! Every query runs over a source without indexes and one with all of them, in one page and in
//! small ones; all must give the rows of the case. `BLESS=1 cargo test -p astrarium-query --test
//! cases` rewrites what the cases expect: read the diff.

extern crate astrarium_query as query;

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use query::source::{Composite, IndexPath};
use serde_json::Value as Tree;
use support::memory::Memory;

/// One query of a case file, as lines.
struct Step {
    text: String,
    parameters: Vec<(String, Tree)>,
    expected: Vec<String>,
    /// The line on which the expectation begins, and the one after it.
    lines: (usize, usize),
}

#[test]
fn all_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("cases").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("a case");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(text.lines().any(|line| line.starts_with("# Source:")), "{name} has no source");
        count += run(&file, &name, &text, &mut wrong);
    }
    assert!(count > 0, "no cases");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn run(file: &Path, name: &str, text: &str, wrong: &mut Vec<String>) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let bless = std::env::var_os("BLESS").is_some();
    let mut blessed: Vec<String> = Vec::new();
    let mut copied = 0;
    let (mut items, mut composites) = (Vec::new(), Vec::new());
    let (mut at, mut count) = (0, 0);
    while at < lines.len() {
        match lines[at].split_whitespace().next() {
            Some("items") => {
                at += 1;
                items = block(&lines, &mut at);
            }
            Some("composite") => {
                composites.push(composite(&lines[at]["composite".len()..]));
                at += 1;
            }
            Some("query") => {
                let step = read(&lines, &mut at);
                count += 1;
                let got = outcome(&step, &items, &composites);
                if bless {
                    blessed.extend(lines[copied..step.lines.0].iter().map(|l| (*l).to_owned()));
                    blessed.extend(got);
                    copied = step.lines.1;
                } else if got != step.expected {
                    wrong.push(format!(
                        "{name}: {}\n  expected {}\n  got      {}",
                        step.text,
                        step.expected.join("\n           "),
                        got.join("\n           ")
                    ));
                }
            }
            _ => at += 1,
        }
    }
    if bless {
        blessed.extend(lines[copied..].iter().map(|l| (*l).to_owned()));
        fs::write(file, blessed.join("\n") + "\n").expect("writing");
    }
    count
}

/// Lines up to an empty one.
fn block(lines: &[&str], at: &mut usize) -> Vec<String> {
    let mut block = Vec::new();
    while *at < lines.len() && !lines[*at].trim().is_empty() {
        block.push(lines[*at].to_owned());
        *at += 1;
    }
    block
}

/// `/a ascending, /b descending`
fn composite(text: &str) -> Composite {
    let part = |part: &str| {
        let (path, order) = part.trim().split_once(' ').expect("a path and an order");
        let names: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        (IndexPath::members(&names), order.trim() == "descending")
    };
    text.split(',').map(part).collect()
}

fn read(lines: &[&str], at: &mut usize) -> Step {
    let given = lines[*at].trim_start_matches("query").trim();
    let parameters = if given.is_empty() {
        Vec::new()
    } else {
        let tree: Tree = serde_json::from_str(given).expect(given);
        let members = tree.as_object().expect("an object").clone();
        members.into_iter().collect()
    };
    *at += 1;
    let mut text = Vec::new();
    while lines[*at] != "----" {
        text.push(lines[*at]);
        *at += 1;
    }
    *at += 1;
    let start = *at;
    let expected = block(lines, at);
    Step { text: text.join("\n"), parameters, expected, lines: (start, *at) }
}

/// The rows, or the refusal. Where the ways of running differ, what differs.
fn outcome(step: &Step, items: &[String], composites: &[Composite]) -> Vec<String> {
    let plain = Memory::new(items, false, Vec::new());
    let indexed = Memory::new(items, true, composites.to_vec());
    let statement = match support::statement(&step.text, &step.parameters) {
        Ok(statement) => statement,
        Err(error) => return vec![refusal(&error.message)],
    };
    let first = match support::rows(&statement, &plain, 1_000) {
        Ok(rows) => rows,
        Err(error) => return vec![refusal(&error.message)],
    };
    let ordered = statement.query().order_by.is_some();
    // Of rows in no order, a count of them may be any.
    let any =
        !ordered && (statement.query().top.is_some() || statement.query().offset_limit.is_some());
    let ways = [
        ("plain by 1", &plain, 1),
        ("plain by 2", &plain, 2),
        ("indexed", &indexed, 1_000),
        ("indexed by 1", &indexed, 1),
        ("indexed by 3", &indexed, 3),
    ];
    for (way, source, per_page) in ways {
        let got = support::rows(&statement, source, per_page)
            .unwrap_or_else(|error| vec![refusal(&error.message)]);
        let same = if ordered || way.starts_with("plain") {
            got == first
        } else if any {
            got.len() == first.len()
        } else {
            sorted(&got) == sorted(&first)
        };
        if !same {
            return vec![format!("{way} differs: {}", got.join(" ")), first.join(" ")];
        }
    }
    first
}

fn sorted(rows: &[String]) -> Vec<String> {
    let mut rows = rows.to_vec();
    rows.sort();
    rows
}

/// `error SC1001 7..11 message` for every problem, or the message.
fn refusal(message: &str) -> String {
    let json = message.strip_prefix("Message: ").unwrap_or(message);
    let Ok(tree) = serde_json::from_str::<Tree>(json) else { return format!("error {message}") };
    let Some(errors) = tree["errors"].as_array() else { return format!("error {json}") };
    let one = |error: &Tree| {
        let code = error["code"].as_str().map_or(error["code"].to_string(), str::to_owned);
        let place = &error["location"];
        let place = if place.is_null() {
            String::new()
        } else {
            format!(" {}..{}", place["start"], place["end"])
        };
        format!("error {code}{place} {}", error["message"].as_str().unwrap_or(""))
    };
    errors.iter().map(one).collect::<Vec<_>>().join(" | ")
}
