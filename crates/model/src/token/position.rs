//! Positions in a change feed, as the etags of feed reads.
//!
//! Within one partition a position is its LSN, written `"123"` as the service does: a split
//! passes LSNs on to its children, so the parent's etag goes on at each of them. A reader of
//! several partitions at once gets one LSN for each part of the key space, in the order in which
//! the parts are to be served next: `"1;<min>-<max>=<lsn>;…"`. A reader that wants to know of
//! deletes and has begun at the beginning carries with it where the feed was then, until it has
//! come that far: `"2;<then>|<position>"`, both in one of the other forms.

use std::fmt;

use crate::epk::{Epk, EpkRange};
use crate::{Error, Result};

/// Marks the form with several parts, and its version.
const PARTS_MARK: &str = "1;";
/// Marks the form of a reader that has not come to where the feed was when it began.
const COPY_MARK: &str = "2;";
/// More parts than any container has.
const PARTS_MAX: usize = 10_000;

/// How far a reader has come. What is at or before the LSN of its part of the key space has
/// been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// The same LSN everywhere.
    Lsn(u64),
    /// An LSN for each part of the key space, next to serve first.
    Parts(Vec<(EpkRange, u64)>),
    /// On the way from the beginning: what was deleted before it began need not be told.
    Copy {
        /// Where the feed was when the reader began.
        began: Box<Position>,
        /// How far it has come.
        at: Box<Position>,
    },
}

impl Position {
    /// Reads an etag of a feed, with or without its quotes.
    pub fn parse(text: &str) -> Result<Self> {
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let position = match inner.strip_prefix(COPY_MARK) {
            Some(copy) => parse_copy(copy),
            None => parse_plain(inner),
        };
        position.ok_or_else(|| {
            Error::bad_request(format!(
                "'{}' is not the etag of a change feed: send back the etag of the last page as it came, \
                 or none to begin at the beginning",
                shortened(text)
            ))
        })
    }

    /// The parts of a range of the key space with their LSNs, in the order to serve them.
    /// What the position does not cover is left out.
    pub fn within(&self, range: &EpkRange) -> Vec<(EpkRange, u64)> {
        match self {
            Self::Lsn(lsn) => vec![(range.clone(), *lsn)],
            Self::Copy { at, .. } => at.within(range),
            Self::Parts(parts) => parts
                .iter()
                .filter_map(|(part, lsn)| Some((part.intersect(range)?, *lsn)))
                .collect(),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        self.write_inner(f)?;
        f.write_str("\"")
    }
}

impl Position {
    fn write_inner(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lsn(lsn) => write!(f, "{lsn}"),
            Self::Parts(parts) => {
                f.write_str("1")?;
                for (EpkRange { min, max }, lsn) in parts {
                    write!(f, ";{}-{}={lsn}", min.to_hex(), max.to_hex())?;
                }
                Ok(())
            }
            Self::Copy { began, at } => {
                f.write_str(COPY_MARK)?;
                began.write_inner(f)?;
                f.write_str("|")?;
                at.write_inner(f)
            }
        }
    }
}

fn parse_copy(text: &str) -> Option<Position> {
    let (began, at) = text.split_once('|')?;
    let (began, at) = (Box::new(parse_plain(began)?), Box::new(parse_plain(at)?));
    Some(Position::Copy { began, at })
}

fn parse_plain(text: &str) -> Option<Position> {
    match text.strip_prefix(PARTS_MARK) {
        Some(parts) => parse_parts(parts),
        None => parse_lsn(text).map(Position::Lsn),
    }
}

fn parse_parts(text: &str) -> Option<Position> {
    let mut parts = Vec::new();
    for part in text.split(';') {
        let (range, lsn) = part.split_once('=')?;
        let (min, max) = range.split_once('-')?;
        let range = EpkRange { min: Epk::from_hex(min).ok()?, max: Epk::from_hex(max).ok()? };
        if range.is_empty() || parts.len() == PARTS_MAX {
            return None;
        }
        parts.push((range, parse_lsn(lsn)?));
    }
    let mut ranges: Vec<&EpkRange> = parts.iter().map(|(range, _)| range).collect();
    ranges.sort_by(|a, b| a.min.cmp(&b.min));
    let apart = ranges.windows(2).all(|pair| pair[0].max <= pair[1].min);
    apart.then_some(Position::Parts(parts))
}

/// Plain digits: `parse` alone would take a sign.
fn parse_lsn(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let printed = Position::parse(text).ok().map(|position| position.to_string());
        assert_eq!(printed.as_deref(), expected, "{text}");
    }

    #[test]
    fn positions_print_as_they_are_read() {
        check("\"0\"", Some("\"0\""));
        check("123", Some("\"123\""));
        check("\"1;-1F=5;1F-FF=0\"", Some("\"1;-1F=5;1F-FF=0\""));
        check("\"1;1F-FF=7;-1F=5\"", Some("\"1;1F-FF=7;-1F=5\""));
        check("\"2;9|3\"", Some("\"2;9|3\""));
        check("2;1;-1F=5;1F-FF=9|0", Some("\"2;1;-1F=5;1F-FF=9|0\""));
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in [
            "",
            "\"\"",
            "*",
            "\"-1\"",
            "+5",
            "abc",
            "\"12",
            "1;",
            "1;-1F",
            "1;-1F=",
            "1;1F-1F=5",
            "1;2F-1F=5",
            "1;-1F=5;0F-FF=6",
            "1;-ZZ=5",
            "\"99999999999999999999\"",
            "2;-FF=1",
            "2;",
            "2;5",
            "2;5|",
            "2;|5",
            "2;5|2;6|7",
            "5|6",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_position_is_cut_to_a_range() {
        let range = |min: &str, max: &str| EpkRange {
            min: Epk::from_hex(min).unwrap(),
            max: Epk::from_hex(max).unwrap(),
        };
        let position = Position::parse("1;1F-FF=7;-1F=5").unwrap();
        assert_eq!(
            position.within(&range("0F", "2F")),
            [(range("1F", "2F"), 7), (range("0F", "1F"), 5)]
        );
        assert_eq!(Position::Lsn(3).within(&range("", "FF")), [(range("", "FF"), 3)]);
    }
}
