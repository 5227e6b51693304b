//! The reference of the language is what the table says, and its examples are true.
//! `BLESS=1 cargo test -p astrarium-query --test docs` writes it anew.

extern crate astrarium_query as query;

mod support;

use std::fs;
use std::path::Path;

use query::function::FAMILIES;
use support::memory::Memory;

#[test]
fn the_reference_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/query.md");
    let reference = query::function::reference();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &reference).expect("writing");
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(written == reference, "docs/query.md differs from the table of functions: bless it");
}

#[test]
fn the_examples_are_true() {
    let source = Memory::new(&["{}".to_owned()], false, Vec::new());
    for function in FAMILIES.iter().flat_map(|(_, table)| table.iter()) {
        let (call, answer) = function.example;
        if call.is_empty() {
            continue;
        }
        let text = format!("SELECT VALUE {call}");
        let statement = support::statement(&text, &[]);
        let statement = statement.unwrap_or_else(|error| panic!("{text}\n{error}"));
        let rows = support::rows(&statement, &source, 10).expect(&text);
        assert_eq!(rows.join(" "), answer, "{text}");
    }
}

#[test]
fn every_name_is_there_once_and_in_upper_case() {
    let mut names: Vec<&str> = FAMILIES
        .iter()
        .flat_map(|(_, table)| table.iter())
        .flat_map(|function| std::iter::once(function.name).chain(function.aliases.iter().copied()))
        .collect();
    assert!(names.iter().all(|name| *name == name.to_ascii_uppercase()));
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a name is there twice");
}
