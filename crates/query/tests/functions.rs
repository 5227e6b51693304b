//! The text cases of functions: a call and its answer a line, and the examples of the table.
//!
//! In `functions/*.cases`, `call → answer`: nothing after the arrow where the answer is undefined,
//! `! words` where the call is refused with these words. `in planar` and `in de-DE` say in what
//! container the lines that follow are asked; `in default` ends that.

extern crate astrarium_query as query;

mod support;

use std::fs;
use std::path::Path;

use query::Statement;
use query::function::{FAMILIES, Function, Run};
use query::world::Settings;
use support::memory::Memory;

/// The answer of a call as JSON, empty where it is undefined; or why it is refused.
fn answer(settings: &Settings, call: &str) -> Result<String, String> {
    let text = format!("SELECT VALUE {call}");
    let statement = Statement::new(&text, &[], settings).map_err(|error| error.message)?;
    let nothing = Memory::new(&[], false, Vec::new());
    let rows = support::rows(&statement, &nothing, 10).map_err(|error| error.message)?;
    Ok(rows.concat())
}

fn settings(word: &str) -> Settings {
    match word {
        "default" => Settings::default(),
        "planar" => Settings { planar: true, ..Settings::default() },
        language => Settings { language: Some(language.to_owned()), ..Settings::default() },
    }
}

/// What is wrong with a line of cases, if anything is.
fn wrong(at: &Settings, line: &str) -> Option<String> {
    let (call, expected) = line.split_once('→').expect(line);
    let expected = expected.trim();
    // Texts are easier to read in single quotes.
    let expected = match expected.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(text) => format!("\"{text}\""),
        None => expected.to_owned(),
    };
    match (answer(at, call.trim()), expected.strip_prefix('!')) {
        (Ok(got), None) if got == expected => None,
        (Err(message), Some(words)) if message.contains(words.trim()) => None,
        (Ok(got), _) => Some(format!("{line}\n    got {got}")),
        (Err(message), _) => Some(format!("{line}\n    refused: {message}")),
    }
}

#[test]
fn all_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/functions");
    let mut all = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("cases") {
        let file = entry.expect("an entry").path();
        let text = fs::read_to_string(&file).expect("cases");
        assert!(text.lines().any(|line| line.starts_with("# Source:")), "{}", file.display());
        let mut at = Settings::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(word) = line.strip_prefix("in ") {
                at = settings(word);
                continue;
            }
            count += 1;
            all.extend(wrong(&at, line));
        }
    }
    assert!(count > 0, "no cases");
    assert!(all.is_empty(), "{} of {count} wrong:\n{}", all.len(), all.join("\n"));
}

fn functions() -> impl Iterator<Item = &'static Function> {
    FAMILIES.iter().flat_map(|(_, table)| *table)
}

#[test]
fn examples_hold() {
    for function in functions().filter(|function| !matches!(function.run, Run::Rank)) {
        let (call, expected) = function.example;
        let got = answer(&Settings::default(), call).unwrap_or_else(|e| panic!("{call}: {e}"));
        assert_eq!(got, expected, "{call}");
    }
}

#[test]
fn every_function_is_named_once_and_explained() {
    let mut seen = std::collections::HashSet::new();
    for function in functions() {
        for name in std::iter::once(&function.name).chain(function.aliases) {
            assert!(seen.insert(*name), "{name} twice");
            assert_eq!(*name, name.to_uppercase());
        }
        assert!(function.doc.ends_with('.'), "{}", function.name);
    }
}

/// A function of every documented name is there.
#[test]
fn every_documented_function_is_known() {
    let missing: Vec<&str> = DOCUMENTED
        .split_whitespace()
        .filter(|name| query::function::find(name).is_none())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

const DOCUMENTED: &str = "
    AVG COUNT MAX MIN SUM
    ABS ACOS ASIN ATAN ATN2 CEILING COS COT DEGREES EXP FLOOR LOG LOG10 NUMBERBIN PI POWER RADIANS
    RAND ROUND SIGN SIN SQRT SQUARE TAN TRUNC
    INTADD INTBITAND INTBITLEFTSHIFT INTBITNOT INTBITOR INTBITRIGHTSHIFT INTBITXOR INTDIV INTMOD
    INTMUL INTSUB
    ARRAY_AVG ARRAY_CONCAT ARRAY_CONTAINS ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY ARRAY_LENGTH
    ARRAY_MAX ARRAY_MEDIAN ARRAY_MIN ARRAY_SLICE ARRAY_SUM CHOOSE OBJECTTOARRAY SETDIFFERENCE
    SETEQUAL SETINTERSECT SETUNION
    CONCAT CONTAINS CONTAINS_ALL_CI CONTAINS_ALL_CS CONTAINS_ANY_CI CONTAINS_ANY_CS ENDSWITH
    INDEX_OF LASTINDEXOF LEFT LENGTH LOWER LTRIM REGEXMATCH REPLACE REPLICATE REVERSE RIGHT RTRIM
    STARTSWITH STRINGEQUALS STRINGJOIN STRINGSPLIT SUBSTRING TRIM UPPER
    STRINGTOARRAY STRINGTOBOOLEAN STRINGTONULL STRINGTONUMBER STRINGTOOBJECT TOSTRING
    IS_ARRAY IS_BOOL IS_DATETIME IS_DEFINED IS_FINITE_NUMBER IS_INTEGER IS_NULL IS_NUMBER IS_OBJECT
    IS_PRIMITIVE IS_STRING
    AGO DATETIMEADD DATETIMEBIN DATETIMEDIFF DATETIMEFORMAT DATETIMEFROMPARTS DATETIMEPART
    DATETIMETOTICKS DATETIMETOTIMESTAMP DAY GETCURRENTDATETIME GETCURRENTDATETIMESTATIC
    GETCURRENTTICKS GETCURRENTTICKSSTATIC GETCURRENTTIMESTAMP GETCURRENTTIMESTAMPSTATIC MONTH NOW
    TICKSTODATETIME TIMESTAMPTODATETIME YEAR
    ST_AREA ST_DISTANCE ST_INTERSECTS ST_ISVALID ST_ISVALIDDETAILED ST_WITHIN
    FULLTEXTCONTAINS FULLTEXTCONTAINSALL FULLTEXTCONTAINSANY FULLTEXTSCORE RRF VECTORDISTANCE
    IIF DOCUMENTID
";
