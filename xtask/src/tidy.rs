//! What the compiler does not hold: which crate may know which, who may read the clock, and that
//! every file says what it is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::project::root;

/// Our crates, and which of our crates each may depend on.
const ARROWS: [(&str, &[&str]); 9] = [
    ("model", &[]),
    ("kv", &[]),
    ("query", &["model"]),
    ("script", &["model"]),
    ("engine", &["model", "kv", "query", "script"]),
    ("server", &["model", "engine", "kv"]),
    ("client", &[]),
    ("processor", &["client"]),
    ("conformance", &[]),
];

/// Crates whose time comes in by a door, and the doors. That of `script` measures how long a script
/// has been running, which is real time whatever the database takes for now.
const CLOCKLESS: [&str; 4] = ["model", "query", "script", "engine"];
const CLOCK_DOORS: [&str; 2] = ["crates/engine/src/env.rs", "crates/script/src/clock.rs"];
const CLOCKS: [&str; 2] = ["SystemTime::now", "Instant::now"];

/// The one file of the server that knows where data lies.
const STORE_DOOR: &str = "crates/server/src/store.rs";

/// All that is not as it should be.
pub fn violations() -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, allowed) in ARROWS {
        wrong.extend(arrows(name, allowed));
    }
    for file in rust_files(&[root().join("crates"), root().join("xtask")]) {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        wrong.extend(file_violations(&name, &text));
    }
    let table = fs::read_to_string(root().join("COMPATIBILITY.md")).unwrap_or_default();
    wrong.extend(
        proofs(&table).into_iter().filter(|proof| !exists(proof)).map(|proof| {
            format!("COMPATIBILITY.md names {proof} as a proof, which does not exist")
        }),
    );
    wrong
}

/// The cases and Python tests that the table of compatibility names.
fn proofs(table: &str) -> Vec<String> {
    let words = table.split(|c: char| c.is_whitespace() || "|,();:`".contains(c));
    let is_proof = |word: &&str| word.ends_with(".case") || word.starts_with("test_");
    words.filter(is_proof).map(str::to_owned).collect()
}

fn exists(proof: &str) -> bool {
    let conformance = root().join("crates/conformance");
    if proof.ends_with(".case") {
        return conformance.join("cases").join(proof).is_file();
    }
    let tests = fs::read_dir(conformance.join("sdk/python")).into_iter().flatten();
    tests.filter_map(|entry| Some(entry.ok()?.path())).any(|path| {
        let is_file = path.file_stem().is_some_and(|stem| stem == proof);
        is_file
            || fs::read_to_string(&path).is_ok_and(|text| text.contains(&format!("def {proof}(")))
    })
}

/// Dependencies that a crate should not have.
fn arrows(name: &str, allowed: &[&str]) -> Vec<String> {
    let manifest = root().join("crates").join(name).join("Cargo.toml");
    let Ok(text) = fs::read_to_string(&manifest) else {
        return vec![format!("crates/{name} has no Cargo.toml")];
    };
    let known: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    dependencies(&text)
        .into_iter()
        .filter(|found| known.contains(&found.as_str()) && !allowed.contains(&found.as_str()))
        .map(|found| format!("crates/{name} may not depend on {found}"))
        .collect()
}

/// The names below `[dependencies]`, ours without their prefix. Tests may know more.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut within = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            within = line == "[dependencies]" || line.ends_with(".dependencies]");
            continue;
        }
        let name = line.split(['=', '.', ' ']).next().unwrap_or("");
        if within && !name.is_empty() && !name.starts_with('#') {
            names.push(name.trim_start_matches("astrarium-").to_owned());
        }
    }
    names
}

fn file_violations(name: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if !text.starts_with("//!") {
        wrong.push(format!("{name}: the first line does not say what the file is (//!)"));
    }
    let clockless = CLOCKLESS.iter().any(|each| name.starts_with(&format!("crates/{each}/src/")));
    if clockless && !CLOCK_DOORS.contains(&name) {
        for clock in CLOCKS.iter().filter(|clock| text.contains(**clock)) {
            wrong.push(format!("{name}: {clock} belongs to one of {CLOCK_DOORS:?}"));
        }
    }
    if name.starts_with("crates/server/src/") && name != STORE_DOOR && knows_kv(text) {
        wrong.push(format!("{name}: only {STORE_DOOR} knows kv"));
    }
    wrong
}

fn knows_kv(text: &str) -> bool {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    code.into_iter().any(|line| {
        line.match_indices("kv::").any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
        })
    })
}

/// All sources below the folders, built ones left out.
fn rust_files(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = folders.to_vec();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !is_built(&path) {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn is_built(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "target" || name == "node_modules")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        assert_eq!(violations(), Vec::<String>::new());
    }

    #[test]
    fn dependencies_are_read_and_those_of_tests_are_not() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nmodel.workspace = true\nastrarium-kv = \"1\"\n\n[dev-dependencies]\nengine = \"1\"\n";
        assert_eq!(dependencies(manifest), ["model", "kv"]);
    }

    #[test]
    fn what_is_untidy_is_found() {
        let found = file_violations("crates/engine/src/x.rs", "fn f() { Instant::now() }");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(file_violations(CLOCK_DOORS[0], "//! Time.\nSystemTime::now()").is_empty());
        assert_eq!(file_violations("crates/server/src/http.rs", "//! x\nuse kv::Store;").len(), 1);
        assert!(
            file_violations("crates/server/src/http.rs", "//! x\nuse mkv::Store; // kv::x\n")
                .is_empty()
        );
    }
}
