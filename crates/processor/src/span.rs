//! Spans of effective partition keys: what a lease covers.
//!
//! A key is upper-case hexadecimal text and compares as text; `""` is the smallest and `"FF"`
//! lies beyond the largest. A span includes its `min` and excludes its `max`.

use std::fmt;

/// All keys lie below this one.
pub const KEY_END: &str = "FF";
/// Longest key that is accepted from a document. Hierarchical keys have three parts of 32 digits.
const KEY_DIGITS_MAX: usize = 512;

/// From `min`, up to but without `max`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first key.
    pub min: String,
    /// The first key beyond.
    pub max: String,
}

impl Span {
    /// Every key there is.
    pub fn whole() -> Self {
        Self { min: String::new(), max: KEY_END.to_owned() }
    }

    /// A span with these bounds, if they are bounds.
    pub fn new(min: &str, max: &str) -> Option<Self> {
        let is_key = |text: &str| {
            text.len() <= KEY_DIGITS_MAX && text.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        let (low, high) = (min.to_ascii_uppercase(), max.to_ascii_uppercase());
        (is_key(min) && is_key(max) && low < high).then_some(Self { min: low, max: high })
    }

    /// The span that a lease token such as `05C1-FF` names.
    pub fn of_token(token: &str) -> Option<Self> {
        let (min, max) = token.split_once('-')?;
        Self::new(min, max)
    }

    /// How the other libraries write a span into a lease token.
    pub fn token(&self) -> String {
        format!("{}-{}", self.min, self.max)
    }

    /// Whether a key may lie in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.min < other.max && other.min < self.max
    }

    /// Whether all of the other lies in this one.
    pub fn contains(&self, other: &Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }

    /// What lies in both.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let min = (&self.min).max(&other.min).clone();
        let max = (&self.max).min(&other.max).clone();
        (min < max).then_some(Self { min, max })
    }

    /// Up to `pieces` spans of about equal width that together are this one.
    ///
    /// Widths are those of version 2 hashes, whose two highest bits are never set; keys of
    /// version 1 are cut as correctly but less evenly.
    pub fn pieces(&self, pieces: usize) -> Vec<Self> {
        let (low, high) = (number(&self.min), end_number(&self.max));
        let width = high.saturating_sub(low) / pieces.max(1) as u128;
        if pieces < 2 || width == 0 {
            return vec![self.clone()];
        }
        let bounds: Vec<String> =
            (1..pieces as u128).map(|nth| format!("{:032X}", low + width * nth)).collect();
        self.cut(&bounds)
    }

    /// The spans that remain when this one is cut at those of the bounds that lie within.
    pub fn cut(&self, bounds: &[String]) -> Vec<Self> {
        let within = |bound: &&String| self.min < **bound && **bound < self.max;
        let mut inner: Vec<&String> = bounds.iter().filter(within).collect();
        inner.sort();
        inner.dedup();
        let mut spans = Vec::with_capacity(inner.len() + 1);
        let mut min = self.min.clone();
        for bound in inner {
            spans.push(Self { min, max: bound.clone() });
            min = bound.clone();
        }
        spans.push(Self { min, max: self.max.clone() });
        spans
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

/// The first 32 digits of a key as a number.
fn number(key: &str) -> u128 {
    let digits: String = key.chars().chain(std::iter::repeat('0')).take(32).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0)
}

fn end_number(key: &str) -> u128 {
    if key == KEY_END { 1 << 126 } else { number(key) }
}

/// What of the whole key space none of the spans covers.
pub fn holes(spans: &[Span]) -> Vec<Span> {
    let mut sorted: Vec<&Span> = spans.iter().collect();
    sorted.sort();
    let mut holes = Vec::new();
    let mut covered = String::new();
    for span in sorted {
        if covered < span.min {
            holes.push(Span { min: covered.clone(), max: span.min.clone() });
        }
        if covered < span.max {
            covered.clone_from(&span.max);
        }
    }
    if covered.as_str() < KEY_END {
        holes.push(Span { min: covered, max: KEY_END.to_owned() });
    }
    holes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(token: &str) -> Span {
        Span::of_token(token).expect("a span")
    }

    #[test]
    fn tokens_are_spans() {
        assert_eq!(span("-FF"), Span::whole());
        assert_eq!(span("05c1-FF").token(), "05C1-FF");
        for wrong in ["", "-", "0", "FF-05", "05-05", "xx-yy", "05C1-FFG"] {
            assert_eq!(Span::of_token(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn split_of_epk_cuts_at_inner_bounds_and_tiles() {
        let bounds = ["10", "20", "30", "FF"].map(str::to_owned);
        let cut: Vec<String> = span("10-25").cut(&bounds).iter().map(Span::token).collect();
        assert_eq!(cut, ["10-20", "20-25"]);
        assert_eq!(holes(&Span::whole().cut(&bounds)), []);
    }

    #[test]
    fn holes_are_what_nobody_covers() {
        let covered = [span("-10"), span("05-08"), span("20-30")];
        let found: Vec<String> = holes(&covered).iter().map(Span::token).collect();
        assert_eq!(found, ["10-20", "30-FF"]);
        assert_eq!(holes(&[]), [Span::whole()]);
        assert_eq!(holes(&[Span::whole()]), []);
    }

    #[test]
    fn pieces_tile_and_are_even() {
        let pieces = Span::whole().pieces(8);
        assert_eq!(pieces.len(), 8);
        assert_eq!(holes(&pieces), []);
        assert!(pieces[4].min.starts_with("20"), "{:?}", pieces[4]);
        assert_eq!(span("10-11").pieces(1).len(), 1);
    }
}
