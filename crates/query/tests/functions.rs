//! The text cases of functions: a call and its answer a line, and the examples of the table.
//!
//! In `functions/*.cases`, `call → answer`: nothing after the arrow where the answer is undefined,
//! `! words` where the call is refused with these words. `in planar` and `in de-DE` say in what
//! container the lines that follow are asked; `in default` ends that. `docs/functions.md` is made
//! of the table: `BLESS=1 cargo test -p astrarium-query --test functions` writes it.

extern crate astrarium_query as query;

mod support;

use std::fs;
use std::path::Path;

use query::Statement;
use query::function::{Call, FAMILIES, Function, Memo, Param, Run};
use query::value::Value;
use query::world::{Budget, Settings};
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

/// Numbers by chance that are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn value(&mut self, depth: usize) -> Value<'static> {
        let kinds = if depth == 0 { 6 } else { 9 };
        match self.below(kinds) {
            0 => Value::Undefined,
            1 => Value::Null,
            2 => Value::Bool(self.below(2) == 0),
            3 => Value::number(self.pick(NUMBERS)),
            4 => Value::int(self.pick(INTEGERS)),
            5 => Value::text(self.pick(TEXTS)),
            6 => Value::array((0..self.below(5)).map(|_| self.value(depth - 1)).collect()),
            7 => self.geometry(),
            _ => Value::object(
                (0..self.below(4))
                    .map(|_| (self.pick(TEXTS).into(), self.value(depth - 1)))
                    .collect(),
            ),
        }
    }

    /// Most often of the type that is asked for.
    fn argument(&mut self, param: Param) -> Value<'static> {
        let mut tries = (0..30).map(|_| self.value(2));
        tries.find(|value| param.accepts(value)).unwrap_or_default()
    }

    /// Nearly a geometry, most often.
    fn geometry(&mut self) -> Value<'static> {
        let kind = self.pick(&["Point", "LineString", "Polygon", "MultiPolygon"]);
        let mut position = || {
            let mut numbers = || Value::int(self.pick(&[-180, -90, -1, 0, 1, 2, 45, 90, 180, 181]));
            Value::array(vec![numbers(), numbers()])
        };
        let mut line: Vec<Value<'static>> = (0..5).map(|_| position()).collect();
        line.push(line[0].clone());
        let coordinates = match kind {
            "Point" => line[0].clone(),
            "LineString" => Value::array(line),
            "Polygon" => Value::array(vec![Value::array(line)]),
            _ => Value::array(vec![Value::array(vec![Value::array(line)])]),
        };
        let members = vec![("type".into(), Value::text(kind)), ("coordinates".into(), coordinates)];
        Value::object(members)
    }
}

const NUMBERS: &[f64] = &[
    0.0,
    -0.0,
    0.5,
    -1.5,
    1e308,
    -1e308,
    5e-324,
    9.3e18,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];
const INTEGERS: &[i64] = &[0, 1, -1, 2, 3, 7, 63, 64, 10_001, 1 << 53, i64::MAX, i64::MIN];
const TEXTS: &[&str] = &[
    "",
    "a",
    "A b",
    "é😀",
    "\u{0}",
    "yyyy-MM-ddTHH:mm:ss.fffZ\\",
    "hh",
    "ns",
    "year",
    "2024-02-29T23:59:59.9999999Z",
    "0001-01-01",
    "9999-12-31",
    "(a|b)*$",
    "[",
    "[1,{\"a\":2}]",
    "1e5",
    "null",
    "term",
    "distance",
    "im",
];

/// Nothing that a function is given makes it fail but a limit, or a pattern that is wrong.
#[test]
fn no_function_fails_on_what_it_is_given() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for round in 0..200 {
        let settings = Settings { planar: round % 2 == 0, ..Settings::default() };
        for function in functions() {
            let Run::Scalar(run) = function.run else { continue };
            let least = function.arguments_min();
            let most = function.arguments_max().unwrap_or(least + 2);
            let count = least + dice.below(most - least + 1);
            let arguments: Vec<Value<'static>> =
                (0..count).map(|at| dice.argument(function.param(at))).collect();
            if !function.accepts(&arguments) {
                continue;
            }
            let call = Call {
                world: &support::Still,
                started_ticks: 0,
                settings: &settings,
                budget: &Budget::default(),
                paths: &[],
                memo: &Memo::new(),
            };
            if let Err(error) = run(&call, &arguments) {
                let refused = error.message.contains("regular expression")
                    || error.message.contains("more than");
                assert!(refused, "{} {arguments:?}: {}", function.name, error.message);
            }
        }
    }
}

/// The page of the documentation that the table is.
#[test]
fn the_documentation_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &page).expect("writing");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/functions.md is not what the table says: BLESS=1 writes it");
}

fn page() -> String {
    let mut out = PREFACE.to_owned();
    for (family, table) in FAMILIES {
        out += &format!("\n## {family}\n\n| Function | | Example |\n| --- | --- | --- |\n");
        for function in *table {
            let (call, answer) = function.example;
            let answer = if answer.is_empty() { "nothing" } else { answer };
            let example =
                if call.is_empty() { String::new() } else { format!("`{call}` gives `{answer}`") };
            let also = function.aliases.join(", ");
            let also = if also.is_empty() { also } else { format!(" Also {also}.") };
            out += &format!("| `{}` | {}{also} | {example} |\n", signature(function), function.doc);
        }
    }
    out
}

fn signature(function: &Function) -> String {
    let least = function.arguments_min();
    let mut words: Vec<String> = Vec::new();
    for (at, param) in function.params.iter().enumerate() {
        let word = param.word();
        words.push(if at < least { word.to_owned() } else { format!("[{word}]") });
    }
    if function.repeats {
        words.push("…".to_owned());
    }
    format!("{}({})", function.name, words.join(", "))
}

const PREFACE: &str = "# Functions of the query language

Made from the table in `crates/query/src/function.rs`; do not edit it here.

Names are known whatever their case. A wrong number of arguments refuses the query (SC2050); an argument that is undefined
or of another type makes the answer undefined. Where the service says nothing, or where we differ from it:

- Places and lengths in strings count UTF-16 units; half of a pair is left out. Case is changed character by character.
- Regular expressions know no look-around and no references back, which would let a pattern take for ever; they are refused
  with 400, as is any pattern that is wrong or too large. What replaces a match stands for itself: `$1` is no group.
- `SUBSTRINGBEFORE` and its like are undefined where the string does not have the other; `REGEXEXTRACT`, where nothing
  matches.
- Sums of integers wrap around at 64 bits; shifts by other than 0 to 63 places are undefined.
- Parts of dates are known whatever their case; a day that a month does not have becomes its last.
- Full text: a word is a run of letters and digits, in lower case and without its endings (Snowball); in English the most
  common words are left out. A fuzzy term finds every word within its distance, not only the first ten.
- Places: a line between two positions lies in the plane through them and the centre of the earth. The border of a polygon
  belongs to it. Rings that cross themselves are not valid, but are measured and related as they are. Geometries other than
  Point, LineString, Polygon and MultiPolygon are not valid.
";

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
    LASTSUBSTRINGAFTER LASTSUBSTRINGBEFORE REGEXEXTRACT REGEXEXTRACTALL REGEXREPLACE
    REGEXREPLACEALL SUBSTRINGAFTER SUBSTRINGBEFORE
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
