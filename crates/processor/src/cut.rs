//! Which leases a container needs: where they are missing, and what follows a split or a merge.
//!
//! Pure. The positions of children are the checkpointed ones of their parents and are put in by
//! whoever carries a plan out; what was read but not acknowledged is read again.

use crate::lease::{Kind, Lease, extra};
use crate::span::{self, Span};

/// A partition key range as the service reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Its id.
    pub id: String,
    /// The keys it holds.
    pub span: Span,
    /// The ranges it came from.
    pub parents: Vec<String>,
}

/// A lease that should exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Its token.
    pub token: String,
    /// What the token names.
    pub kind: Kind,
    /// The keys it covers.
    pub span: Span,
}

impl Seat {
    fn range(range: &KeyRange) -> Self {
        Self { token: range.id.clone(), kind: Kind::Range, span: range.span.clone() }
    }

    fn span(span: Span) -> Self {
        Self { token: span.token(), kind: Kind::Span, span }
    }

    /// As a lease lists it: `20-FF`, or with the id of a range `7=20-FF`.
    pub fn text(&self) -> String {
        match self.kind {
            Kind::Range => format!("{}={}", self.token, self.span),
            Kind::Span => self.token.clone(),
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        match text.split_once('=') {
            Some((id, span)) => {
                let span = Span::of_token(span)?;
                (!id.is_empty()).then(|| Self { token: id.to_owned(), kind: Kind::Range, span })
            }
            None => Span::of_token(text).map(Self::span),
        }
    }
}

/// The children that a lease lists; nothing if it lists none, or they cannot be read.
pub fn listed(lease: &Lease) -> Option<Vec<Seat>> {
    let texts: Vec<String> = serde_json::from_str(lease.property(extra::CHILDREN)?).ok()?;
    let seats = texts.iter().map(|text| Seat::of_text(text)).collect::<Option<Vec<Seat>>>()?;
    (!seats.is_empty()).then_some(seats)
}

/// These seats, or if they are too many the lower ones and one over all the others, which is
/// divided in its turn.
pub fn at_most(mut seats: Vec<Seat>, max: usize) -> Vec<Seat> {
    if seats.len() <= max {
        return seats;
    }
    seats.sort_by(|a, b| a.span.cmp(&b.span));
    let others = seats.split_off(max - 1);
    let bounds = others.first().zip(others.last());
    let rest = bounds
        .map(|(first, last)| Span { min: first.span.min.clone(), max: last.span.max.clone() });
    seats.extend(rest.map(Seat::span));
    seats
}

/// What to do with a lease whose range is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// Nothing: one range still holds all of it. Read there.
    Stay,
    /// These take its place.
    Children(Vec<Seat>),
    /// It cannot be known what it covered.
    Lost,
}

/// What follows when the service says that a lease's range is gone.
pub fn cut(lease: &Lease, ranges: &[KeyRange]) -> Cut {
    if lease.kind == Kind::Range && ranges.iter().any(|range| range.id == lease.token) {
        return Cut::Stay;
    }
    let Some(span) = span_of(lease, ranges) else { return Cut::Lost };
    let holders: Vec<&KeyRange> =
        ranges.iter().filter(|range| range.span.overlaps(&span)).collect();
    match (lease.kind, holders.as_slice()) {
        (_, []) => Cut::Lost,
        (Kind::Span, [_]) => Cut::Stay,
        (Kind::Range, [_]) => Cut::Children(vec![Seat::span(span)]),
        (kind, holders) => Cut::Children(
            holders
                .iter()
                .filter_map(|holder| {
                    let whole = kind == Kind::Range && span.contains(&holder.span);
                    let part = span.intersection(&holder.span)?;
                    Some(if whole { Seat::range(holder) } else { Seat::span(part) })
                })
                .collect(),
        ),
    }
}

/// The keys of a lease: as it says, as its range says, or as the children of its range say.
/// A merged range cannot say which of its keys came from whom.
pub fn span_of(lease: &Lease, ranges: &[KeyRange]) -> Option<Span> {
    if let Some(span) = &lease.span {
        return Some(span.clone());
    }
    if let Some(range) = ranges.iter().find(|range| range.id == lease.token) {
        return Some(range.span.clone());
    }
    let is_child = |range: &&KeyRange| {
        range.parents.last() == Some(&lease.token) || range.parents.contains(&lease.token)
    };
    let children: Vec<&KeyRange> = ranges.iter().filter(is_child).collect();
    let min = children.iter().map(|child| &child.span.min).min()?;
    let max = children.iter().map(|child| &child.span.max).max()?;
    let is_merged = children.len() == 1;
    if is_merged { None } else { Span::new(min, max) }
}

/// The range to read a lease from: the one that holds all of it.
pub fn holder<'a>(lease: &Lease, ranges: &'a [KeyRange]) -> Option<&'a KeyRange> {
    match lease.kind {
        Kind::Range => ranges.iter().find(|range| range.id == lease.token),
        Kind::Span => {
            let span = lease.span.as_ref()?;
            ranges.iter().find(|range| range.span.contains(span))
        }
    }
}

/// Two neighbours that a merge has left, and the lease that can take their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The document of the lower one.
    pub low: String,
    /// The document of the upper one.
    pub high: String,
    /// What both become.
    pub seat: Seat,
}

impl Pair {
    /// Whether a lease is one of the two.
    pub fn has(&self, id: &str) -> bool {
        self.low == id || self.high == id
    }
}

/// Which leases can be joined. Only those that stood for whole ranges before these were merged:
/// sub-ranges are spans because somebody wanted them so.
pub fn pairs<'a>(leases: impl Iterator<Item = &'a Lease>, ranges: &[KeyRange]) -> Vec<Pair> {
    let mut spans: Vec<(&Span, &Lease)> = leases
        .filter(|lease| lease.kind == Kind::Span && lease.property(extra::WHOLE).is_some())
        .filter(|lease| lease.property(extra::CHILDREN).is_none())
        .filter_map(|lease| Some((lease.span.as_ref()?, lease)))
        .collect();
    spans.sort_by(|a, b| a.0.cmp(b.0));
    let mut pairs = Vec::new();
    let mut left = spans.as_slice();
    while let [(below, low), (above, high), ..] = left {
        let joined = Span { min: below.min.clone(), max: above.max.clone() };
        let around = ranges.iter().find(|range| range.span.contains(&joined));
        let Some(range) = around.filter(|_| below.max == above.min) else {
            left = &left[1..];
            continue;
        };
        let seat = if range.span == joined { Seat::range(range) } else { Seat::span(joined) };
        pairs.push(Pair { low: low.id.clone(), high: high.id.clone(), seat });
        left = &left[2..];
    }
    pairs
}

/// The leases that are missing: all of them at first, later what somebody deleted.
pub fn missing(leases: &[Lease], ranges: &[KeyRange], pieces: usize) -> Vec<Seat> {
    let live = leases.iter().filter(|lease| !lease.is_closed());
    let covered: Vec<Span> = live.filter_map(|lease| span_of(lease, ranges)).collect();
    let mut seats = Vec::new();
    for hole in span::holes(&covered) {
        for range in ranges {
            let Some(part) = hole.intersection(&range.span) else { continue };
            if part == range.span && pieces < 2 {
                seats.push(Seat::range(range));
            } else if part == range.span {
                seats.extend(part.pieces(pieces).into_iter().map(Seat::span));
            } else {
                seats.push(Seat::span(part));
            }
        }
    }
    seats
}

/// The tombstone whose position a missing lease inherits.
pub fn ancestor<'a>(seat: &Seat, leases: &'a [Lease]) -> Option<&'a Lease> {
    let covers = |lease: &&Lease| {
        let has_position = lease.is_closed() && lease.position().is_some();
        has_position && lease.span.as_ref().is_some_and(|span| span.contains(&seat.span))
    };
    // The narrowest is the nearest.
    let width = |lease: &&Lease| lease.span.as_ref().map(|span| span.min.clone());
    leases.iter().filter(covers).max_by_key(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str) -> Vec<KeyRange> {
        let range = |word: &str| {
            let (id, rest) = word.split_once(':').expect("id");
            let (span, parents) = rest.split_once('<').unwrap_or((rest, ""));
            let parents = parents.split(',').filter(|id| !id.is_empty()).map(str::to_owned);
            KeyRange {
                id: id.into(),
                span: Span::of_token(span).expect("span"),
                parents: parents.collect(),
            }
        };
        text.split_whitespace().map(range).collect()
    }

    fn lease(token: &str, span: Option<&str>) -> Lease {
        let kind = if token.contains('-') { Kind::Span } else { Kind::Range };
        let span = span.or(token.contains('-').then_some(token)).and_then(Span::of_token);
        Lease::new(format!("P..{token}"), token, kind, span)
    }

    fn check(lease: &Lease, now: &str, expected: &str) {
        let found = match cut(lease, &ranges(now)) {
            Cut::Stay => "stay".into(),
            Cut::Lost => "lost".into(),
            Cut::Children(seats) => {
                let words: Vec<String> =
                    seats.iter().map(|seat| format!("{}={}", seat.token, seat.span)).collect();
                words.join(" ")
            }
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_split_range_has_its_children() {
        check(&lease("0", Some("-FF")), "1:-20<0 2:20-FF<0", "1=-20 2=20-FF");
        check(&lease("0", Some("-20")), "0:-20 1:20-FF", "stay");
        // Grandchildren, if we slept long enough.
        check(&lease("0", Some("-20")), "3:-10<0,1 4:10-20<0,1 2:20-FF", "3=-10 4=10-20");
    }

    #[test]
    fn a_merged_range_is_read_through_spans() {
        check(&lease("0", Some("-20")), "2:-FF<0,1", "-20=-20");
        check(&lease("-20", None), "2:-FF<0,1", "stay");
        check(&lease("-20", None), "3:-10 4:10-FF", "-10=-10 10-20=10-20");
        // Merged, then split elsewhere.
        check(&lease("0", Some("-20")), "3:-10 4:10-FF", "3=-10 10-20=10-20");
    }

    #[test]
    fn split_of_epk() {
        check(
            &lease("05-35", None),
            "1:-10 2:10-30 3:30-FF",
            "05-10=05-10 10-30=10-30 30-35=30-35",
        );
    }

    #[test]
    fn what_a_lease_lists_is_read_again() {
        let seats = |list: &str| {
            let mut lease = lease("0", Some("-FF"));
            lease.set(extra::CHILDREN, list);
            listed(&lease)
        };
        let found = seats(r#"["1=-20","20-30","2=30-FF"]"#).expect("a list");
        let texts: Vec<String> = found.iter().map(Seat::text).collect();
        assert_eq!(texts, ["1=-20", "20-30", "2=30-FF"]);
        assert_eq!(found[0].kind, Kind::Range);
        assert_eq!(found[1], Seat::span(Span::of_token("20-30").expect("a span")));
        for wrong in ["", "[]", "{}", "[1]", r#"["7"]"#, r#"["=-20"]"#, r#"["-20","x=y"]"#] {
            assert_eq!(seats(wrong), None, "{wrong}");
        }
        assert_eq!(listed(&lease("0", None)), None);
    }

    #[test]
    fn too_many_children_are_made_in_turns() {
        let all = Span::whole().pieces(8).into_iter().rev().map(Seat::span);
        let few = at_most(all.clone().collect(), 3);
        let spans: Vec<Span> = few.iter().map(|seat| seat.span.clone()).collect();
        assert_eq!((few.len(), span::holes(&spans)), (3, vec![]));
        assert_eq!(few[2].span.max, span::KEY_END);
        assert_eq!(at_most(all.clone().collect(), 8), all.collect::<Vec<_>>());
    }

    #[test]
    fn what_a_merge_has_left_is_joined() {
        let check = |tokens: &str, now: &str, expected: &str| {
            let whole = |token: &str| {
                let mut lease = lease(token.trim_end_matches('!'), None);
                if token.ends_with('!') {
                    lease.set(extra::WHOLE, "true");
                }
                lease
            };
            let leases: Vec<Lease> = tokens.split_whitespace().map(whole).collect();
            let pairs = pairs(leases.iter(), &ranges(now));
            let words: Vec<String> = pairs
                .iter()
                .map(|pair| format!("{}+{}={}", &pair.low[3..], &pair.high[3..], pair.seat.token))
                .collect();
            assert_eq!(words.join(" "), expected);
        };
        check("-20! 20-FF!", "2:-FF<0,1", "-20+20-FF=2");
        check("20-30! -20! 30-FF!", "2:-FF", "-20+20-30=-30");
        check("-20! 20-30! 30-40! 40-FF!", "2:-FF", "-20+20-30=-30 30-40+40-FF=30-FF");
        // Not across ranges, not over a gap, not what was a sub-range.
        check("-20! 20-FF!", "2:-20 3:20-FF", "");
        check("-20! 21-FF!", "2:-FF", "");
        check("-20 20-FF!", "2:-FF", "");
        check("-10! 10-20! 20-30! 30-FF!", "2:-10 3:10-30 4:30-FF", "10-20+20-30=3");
    }

    #[test]
    fn a_lease_without_bounds_finds_them_or_says_so() {
        check(&lease("0", None), "1:-20<0 2:20-FF<0", "1=-20 2=20-FF");
        check(&lease("0", None), "2:-FF<0,1", "lost");
        check(&lease("0", None), "7:-FF", "lost");
    }

    #[test]
    fn what_nobody_covers_is_missing() {
        let now = ranges("0:-20 1:20-FF");
        let tokens = |leases: &[Lease], pieces| -> String {
            let seats = missing(leases, &now, pieces);
            seats.iter().map(|seat| seat.token.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(tokens(&[], 1), "0 1");
        assert_eq!(tokens(&[lease("0", Some("-20"))], 1), "1");
        assert_eq!(tokens(&[lease("0", None), lease("20-30", None)], 1), "30-FF");
        assert_eq!(missing(&[], &now, 4).len(), 8);
        let mut closed = lease("x", Some("20-FF"));
        closed.set(extra::CLOSED, "true");
        closed.continuation = Some("\"5\"".into());
        let all = [lease("0", None), closed.clone()];
        assert_eq!(tokens(&all, 1), "1");
        assert_eq!(ancestor(&missing(&all, &now, 1)[0], &all), Some(&closed));
    }
}
