//! Parts of a container's key space: ranges with an id that the server keeps, and free spans.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The end of the key space.
const END: &str = "FF";
/// Longest bound of a span: three levels of hashes, with room to spare.
const BOUND_CHARS_MAX: usize = 512;

/// A partition key range, as the server lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionKeyRange {
    /// Its id.
    pub id: String,
    /// The part of the key space.
    #[serde(flatten)]
    pub span: FeedRange,
    /// Of which ranges it is the heir.
    #[serde(default)]
    pub parents: Vec<String>,
}

/// A span of effective partition keys: from `min`, up to but without `max`, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bounds")]
pub struct FeedRange {
    #[serde(rename = "minInclusive")]
    min: String,
    #[serde(rename = "maxExclusive")]
    max: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bounds {
    min_inclusive: String,
    max_exclusive: String,
}

impl TryFrom<Bounds> for FeedRange {
    type Error = Error;

    fn try_from(bounds: Bounds) -> Result<Self> {
        Self::new(&bounds.min_inclusive, &bounds.max_exclusive)
    }
}

impl FeedRange {
    /// A span. Zeros at the end of a bound do not count: `06AB` is `06AB00`.
    pub fn new(min: &str, max: &str) -> Result<Self> {
        let (min, max) = (bound(min)?, bound(max)?);
        if min >= max {
            return Err(Error::setting(format!("a range must not be empty: '{min}' to '{max}'")));
        }
        Ok(Self { min, max })
    }

    /// All keys.
    pub fn full() -> Self {
        Self { min: String::new(), max: END.to_owned() }
    }

    /// Its first key.
    pub fn min(&self) -> &str {
        &self.min
    }

    /// The first key after it.
    pub fn max(&self) -> &str {
        &self.max
    }

    /// What it has in common with another.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let min = (&self.min).max(&other.min);
        let max = (&self.max).min(&other.max);
        (min < max).then(|| Self { min: min.clone(), max: max.clone() })
    }

    /// Whether all of another lies in it.
    pub fn contains(&self, other: &Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }
}

/// `min-max`.
impl fmt::Display for FeedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

impl FromStr for FeedRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (min, max) = text
            .split_once('-')
            .ok_or_else(|| Error::setting(format!("'{text}' is not a range: min-max")))?;
        Self::new(min, max)
    }
}

/// A bound in the one form that can be compared as text.
fn bound(text: &str) -> Result<String> {
    let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || text.len() > BOUND_CHARS_MAX {
        let shown: String = text.chars().take(60).collect();
        return Err(Error::setting(format!(
            "'{shown}' is not a bound of a range: hexadecimal bytes"
        )));
    }
    let mut bound = text.to_ascii_uppercase();
    while bound.ends_with("00") {
        bound.truncate(bound.len() - 2);
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> FeedRange {
        text.parse().unwrap()
    }

    #[test]
    fn bounds_have_one_form() {
        assert_eq!(range("-ff"), FeedRange::full());
        assert_eq!(range("05c1cf0000-FF").to_string(), "05C1CF-FF");
        for wrong in [
            "",
            "05",
            "5-FF",
            "0G-FF",
            "FF-05",
            "05-05",
            "0500-05",
            "-",
            &format!("-{}", "A".repeat(514)),
        ] {
            assert!(wrong.parse::<FeedRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_of_ranges() {
        assert_eq!(range("-1F").intersect(&range("0F-FF")), Some(range("0F-1F")));
        assert_eq!(range("-1F").intersect(&range("1F-FF")), None);
        assert!(FeedRange::full().contains(&range("1F-FF")));
        assert!(!range("1F-FF").contains(&FeedRange::full()));
    }

    #[test]
    fn ranges_as_the_server_lists_them() {
        let text = r#"{"id":"3","minInclusive":"1f","maxExclusive":"FF","parents":["0"],"_rid":"x","status":"online"}"#;
        let range: PartitionKeyRange = serde_json::from_str(text).unwrap();
        assert_eq!(range.span.to_string(), "1F-FF");
        assert_eq!(range.parents, ["0"]);
        assert!(
            serde_json::from_str::<PartitionKeyRange>(
                r#"{"id":"3","minInclusive":"1","maxExclusive":"FF"}"#
            )
            .is_err()
        );
    }
}
