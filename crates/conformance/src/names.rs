//! Names for what a server makes up: `etag#1`, `rid#2`, `token#1`, in order of appearance.
//!
//! The same value keeps its name within a case file, so that "the etag changed" can be written
//! down, and a request can use what an earlier answer brought.

use std::sync::OnceLock;

use crate::json;

/// The kinds of made-up values.
pub const KINDS: [&str; 8] =
    ["etag", "rid", "self", "token", "continuation", "session", "ts", "lsn"];

/// Which kind of made-up value a member or header of that name holds.
pub fn kind_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "_etag" | "etag" | "eTag" => "etag",
        "_rid" | "offerResourceId" | "x-ms-content-path" => "rid",
        "_self" => "self",
        "_token" => "token",
        "x-ms-continuation" => "continuation",
        "x-ms-session-token" => "session",
        "_ts" | "x-ms-last-state-change-utc" => "ts",
        "lsn" | "x-ms-item-lsn" | "x-ms-cosmos-llsn" => "lsn",
        _ => return None,
    })
}

/// The values met so far.
#[derive(Debug, Default)]
pub struct Names {
    known: Vec<(&'static str, String)>,
}

impl Names {
    /// The name of a value, given at first sight.
    pub fn name(&mut self, kind: &'static str, value: &str) -> String {
        let mut number = 0;
        for (known_kind, known_value) in &self.known {
            number += usize::from(*known_kind == kind);
            if *known_kind == kind && known_value == value {
                return format!("{kind}#{number}");
            }
        }
        self.known.push((kind, value.to_owned()));
        format!("{kind}#{}", number + 1)
    }

    /// The value that has that kind and number.
    fn value(&self, kind: &str, number: usize) -> Option<&str> {
        let mut of_kind = self.known.iter().filter(|(known, _)| *known == kind);
        of_kind.nth(number.checked_sub(1)?).map(|(_, value)| value.as_str())
    }

    /// Puts values in place of names, as a path or header needs them.
    pub fn plain(&self, text: &str) -> Result<String, String> {
        self.replace(text, |value, _| value.to_owned())
    }

    /// Puts values in place of names, as JSON needs them: with quotes unless they stand within.
    pub fn json(&self, text: &str) -> Result<String, String> {
        self.replace(text, |value, within_string| {
            let quoted = json::quoted(value);
            if within_string {
                quoted[1..quoted.len() - 1].to_owned()
            } else if value.bytes().all(|b| b.is_ascii_digit()) {
                value.to_owned()
            } else {
                quoted
            }
        })
    }

    fn replace(&self, text: &str, write: impl Fn(&str, bool) -> String) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        let mut within_string = false;
        while let Some(c) = rest.chars().next() {
            if let Some((kind, number, length)) = reference(rest) {
                let value = self
                    .value(kind, number)
                    .ok_or_else(|| format!("{kind}#{number} has not been seen yet"))?;
                out.push_str(&write(value, within_string));
                rest = &rest[length..];
                continue;
            }
            within_string ^= c == '"' && !out.ends_with('\\');
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
        Ok(out)
    }
}

/// `etag#12` at the start of a text: kind, number, and how long it is.
fn reference(text: &str) -> Option<(&'static str, usize, usize)> {
    let kind = kinds().iter().find(|kind| text.starts_with(kind.as_str()))?;
    let digits = text[kind.len()..].bytes().take_while(u8::is_ascii_digit).count();
    let number = text[kind.len()..kind.len() + digits].parse().ok()?;
    let name = KINDS.iter().find(|name| kind.trim_end_matches('#') == **name)?;
    Some((name, number, kind.len() + digits))
}

fn kinds() -> &'static [String] {
    static KINDS_WITH_HASH: OnceLock<Vec<String>> = OnceLock::new();
    KINDS_WITH_HASH.get_or_init(|| KINDS.iter().map(|kind| format!("{kind}#")).collect())
}

/// Writes runs out: `<x*3>` becomes `xxx`. Long ids and deep JSON stay readable that way.
pub fn expand_runs(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        match run(rest) {
            Some((unit, count, length)) => {
                out.push_str(&unit.repeat(count));
                rest = &rest[length..];
            }
            None => {
                out.push('<');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

fn run(text: &str) -> Option<(&str, usize, usize)> {
    let end = text.find('>')?;
    let (unit, count) = text[1..end].rsplit_once('*')?;
    Some((unit, count.parse().ok()?, end + 1))
}

/// Runs shorter than this are printed as they are.
const RUN_SHOWN: usize = 64;

/// The opposite of [`expand_runs`], for long runs of one character.
pub fn fold_runs(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let mut count = 1;
        while chars.next_if_eq(&c).is_some() {
            count += 1;
        }
        if count < RUN_SHOWN {
            out.extend(std::iter::repeat_n(c, count));
        } else {
            out.push_str(&format!("<{c}*{count}>"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_keeps_its_name() {
        let mut names = Names::default();
        assert_eq!(names.name("etag", "\"a\""), "etag#1");
        assert_eq!(names.name("rid", "x"), "rid#1");
        assert_eq!(names.name("etag", "\"b\""), "etag#2");
        assert_eq!(names.name("etag", "\"a\""), "etag#1");
    }

    #[test]
    fn names_become_values_again() {
        let mut names = Names::default();
        names.name("etag", "\"a\"");
        names.name("rid", "x=");
        assert_eq!(names.plain("etag#1,rid#1").as_deref(), Ok("\"a\",x="));
        assert_eq!(
            names.json(r#"{"e":etag#1,"s":"dbs/rid#1/"}"#).as_deref(),
            Ok(r#"{"e":"\"a\"","s":"dbs/x=/"}"#)
        );
        assert_eq!(names.plain("etag#2"), Err("etag#2 has not been seen yet".to_owned()));
    }

    #[test]
    fn runs_expand_and_fold() {
        assert_eq!(expand_runs("a<x*3>b<[]*2> <y>"), "axxxb[][] <y>");
        assert_eq!(fold_runs(&"x".repeat(80)), "<x*80>");
        assert_eq!(fold_runs("xxx"), "xxx");
    }
}
