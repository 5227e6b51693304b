//! `LIKE`: a pattern over a whole text.
//!
//! `%` is any run of characters, `_` one, `[a-f]` one of, `[^…]` none of. A bracket that does not
//! close is a character like any other.

use model::Result;

use crate::world::Budget;

/// A pattern, read once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Any run of characters.
    Run,
    /// Any one character.
    One,
    /// This character.
    Exactly(char),
    /// A character in one of the ranges, or in none of them.
    Class(Vec<(char, char)>, bool),
}

impl Pattern {
    pub(crate) fn new(text: &str, escape: Option<char>) -> Self {
        let mut parts = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            parts.push(match c {
                c if Some(c) == escape => Part::Exactly(rest.next().unwrap_or(c)),
                '%' => Part::Run,
                '_' => Part::One,
                '[' => match class(rest.as_str()) {
                    Some((part, after)) => {
                        rest = after.chars();
                        part
                    }
                    None => Part::Exactly('['),
                },
                c => Part::Exactly(c),
            });
        }
        parts.dedup_by(|a, b| *a == Part::Run && *b == Part::Run);
        Self { parts }
    }

    /// The text that all matches begin with, and whether `%` is all that follows.
    pub(crate) fn prefix(&self) -> (String, bool) {
        let fixed = |part: &Part| match part {
            Part::Exactly(c) => Some(*c),
            _ => None,
        };
        let prefix: String = self.parts.iter().map_while(fixed).collect();
        let rest = &self.parts[prefix.chars().count()..];
        (prefix, *rest == [Part::Run])
    }

    /// The only text that matches, if there is only one.
    pub(crate) fn exactly(&self) -> Option<String> {
        let (prefix, _) = self.prefix();
        (prefix.chars().count() == self.parts.len()).then_some(prefix)
    }

    /// Whether the whole text matches. After a mismatch only the last run is tried longer, so the
    /// cost is at most the product of the lengths, and it is counted.
    pub(crate) fn matches(&self, text: &str, budget: &Budget) -> Result<bool> {
        let mut rest = text.chars();
        let mut at = 0;
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            budget.spend(1)?;
            match self.parts.get(at) {
                Some(Part::Run) => {
                    at += 1;
                    retry = Some((at, rest.clone()));
                    continue;
                }
                Some(part) => {
                    let mut ahead = rest.clone();
                    if ahead.next().is_some_and(|c| part.takes(c)) {
                        rest = ahead;
                        at += 1;
                        continue;
                    }
                }
                None if rest.as_str().is_empty() => return Ok(true),
                None => {}
            }
            let Some((part, mut from)) = retry else { return Ok(false) };
            if from.next().is_none() {
                return Ok(false);
            }
            (at, rest, retry) = (part, from.clone(), Some((part, from)));
        }
    }
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Run | Self::One => true,
            Self::Exactly(expected) => c == *expected,
            Self::Class(ranges, negated) => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

/// The class after its `[`, and the text after its `]`.
fn class(text: &str) -> Option<(Part, &str)> {
    let (inside, negated) = match text.strip_prefix('^') {
        Some(inside) => (inside, true),
        None => (text, false),
    };
    // A bracket right at the start stands for itself.
    let first = inside.chars().next()?;
    let end = first.len_utf8() + inside[first.len_utf8()..].find(']')?;
    let chars: Vec<char> = inside[..end].chars().collect();
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let is_range = chars.get(at + 1) == Some(&'-') && at + 2 < chars.len();
        let high = if is_range { at + 2 } else { at };
        ranges.push((chars[at], chars[high]));
        at = high + 1;
    }
    Some((Part::Class(ranges, negated), &inside[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, escape: Option<char>, yes: &[&str], no: &[&str]) {
        let parsed = Pattern::new(pattern, escape);
        for text in yes {
            assert!(parsed.matches(text, &Budget::default()).unwrap(), "{text} LIKE {pattern}");
        }
        for text in no {
            assert!(!parsed.matches(text, &Budget::default()).unwrap(), "{text} LIKE {pattern}");
        }
    }

    #[test]
    fn wildcards() {
        check("a%", None, &["a", "abc"], &["", "ba", "A"]);
        check("%b%c", None, &["bc", "abbcc", "b%c"], &["bcd", "c"]);
        check("_é_", None, &["aéb"], &["éb", "aébc"]);
        check("", None, &[""], &["a"]);
        check("%", None, &["", "a\nb"], &[]);
        check("[a-c]x", None, &["ax", "cx"], &["dx", "-x", "x"]);
        check("[^a-c%]", None, &["d"], &["a", "%", ""]);
        check("[%_]", None, &["%", "_"], &["a"]);
        check("a]", None, &["a]"], &["a"]);
        check("[ab", None, &["[ab"], &["a"]);
        check("[]]", None, &["]"], &["["]);
        check("50!%", Some('!'), &["50%"], &["50", "500"]);
        check("!!", Some('!'), &["!"], &["!!"]);
    }

    #[test]
    fn a_slow_pattern_is_stopped() {
        let pattern = Pattern::new(&"%a".repeat(30_000), None);
        let text = "a".repeat(29_999) + &"b".repeat(100_000);
        let budget = Budget::default();
        let mut stopped = false;
        for _ in 0..1_000 {
            match pattern.matches(&text, &budget) {
                Ok(matched) => assert!(!matched),
                Err(_) => {
                    stopped = true;
                    break;
                }
            }
        }
        assert!(stopped);
    }

    #[test]
    fn prefixes() {
        assert_eq!(Pattern::new("ab%", None).prefix(), ("ab".to_owned(), true));
        assert_eq!(Pattern::new("ab_", None).prefix(), ("ab".to_owned(), false));
        assert_eq!(Pattern::new("ab", None).exactly(), Some("ab".to_owned()));
        assert_eq!(Pattern::new("%ab", None).exactly(), None);
    }
}
