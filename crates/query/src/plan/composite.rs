//! Composite indexes: which stretch of one a filter asks for.
//!
//! Entries of a composite index are rows of values, so what properties are equal to is where they
//! begin, and a range of the next property where they go from there. Every item has an entry, also
//! one that lacks a value: a range without a beginning leaves those out.

use std::ops::Bound;

use bytes::Bytes;

use super::lookup::{Covers, Lookup, Reader, key_of};
use crate::ast::BinaryOp;
use crate::bound::{CallNode, LikePattern, Node};
use crate::limits;
use crate::source::{Composite, IndexPath, KeyRange, Scan, Source};
use crate::statement::Statement;
use crate::value::Value;

/// What all rows that pass a filter have in common: properties, and the values they may have.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    ranges: Vec<(IndexPath, KeyRange)>,
    /// Whether whatever has these values passes the filter.
    exact: bool,
}

/// A part of a composite index.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub range: KeyRange,
    /// What all its entries begin with, and where the value of each of the first columns ends there.
    prefix: Vec<u8>,
    ends: Vec<usize>,
    /// Columns of which something is asked.
    used: usize,
}

impl Stretch {
    /// How many of the first columns have one value.
    pub(super) fn points(&self) -> usize {
        self.ends.len()
    }

    /// How many columns something is asked of.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The values of so many of those.
    pub(super) fn prefix(&self, columns: usize) -> Bytes {
        let end = columns.checked_sub(1).map_or(0, |last| self.ends[last]);
        Bytes::copy_from_slice(&self.prefix[..end])
    }
}

impl Conditions {
    /// Of a statement, whatever the indexes.
    pub(super) fn of(statement: &Statement) -> Self {
        let covers = Covers { range: &|_| true, text: &|_| false, spatial: &|_| false };
        let reader = Reader::new(statement, covers);
        let mut conditions = Self { ranges: Vec::new(), exact: true };
        if let Some(filter) = &statement.bound.block.filter {
            conditions.add(&reader, filter);
        }
        conditions
    }

    fn add(&mut self, reader: &Reader<'_>, node: &Node) {
        if let Node::And(all) = node {
            return all.iter().for_each(|node| self.add(reader, node));
        }
        match reader.condition(node) {
            Some(Lookup::Scan(Scan::Range { path, range, .. })) if !path.is_plural() => {
                self.exact &= is_exact(node);
                let room = self.ranges.len() < limits::INDEX_SCANS;
                match self.ranges.iter_mut().find(|(known, _)| *known == path) {
                    Some((_, known)) => *known = known.intersect(&range),
                    None if room => self.ranges.push((path, range)),
                    None => self.exact = false,
                }
            }
            _ => self.exact = false,
        }
    }

    pub(super) fn of_path(&self, path: &IndexPath) -> Option<&KeyRange> {
        self.ranges.iter().find(|(known, _)| known == path).map(|(_, range)| range)
    }

    /// The properties of which something is asked.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&IndexPath, &KeyRange)> {
        self.ranges.iter().map(|(path, range)| (path, range))
    }

    /// Whether the filter asks something of this property, and nothing else of anything.
    pub(super) fn only(&self, path: &IndexPath) -> bool {
        self.exact && matches!(&self.ranges[..], [(only, _)] if only == path)
    }

    /// Whether the entries of a stretch are exactly the items that pass the filter.
    pub(super) fn are_all(&self, stretch: &Stretch) -> bool {
        self.exact && stretch.used == self.ranges.len()
    }

    /// What a composite index has of the items that pass; `defined` of those alone that have a
    /// value there.
    pub(super) fn stretch(&self, composite: &Composite, defined: Option<&IndexPath>) -> Stretch {
        let mut prefix = Vec::new();
        let mut ends = Vec::new();
        for (path, descending) in composite {
            let asked = self.of_path(path);
            let Some(range) = asked.or((defined == Some(path)).then_some(&KeyRange::ALL)) else {
                break;
            };
            if let (Bound::Included(key), true) = (&range.from, range.is_point()) {
                prefix.extend(masked(key, *descending));
                ends.push(prefix.len());
                continue;
            }
            let range = within(&prefix, range, *descending);
            let used = ends.len() + usize::from(asked.is_some());
            return Stretch { range, prefix, ends, used };
        }
        let range = if ends.len() == composite.len() {
            KeyRange::exactly(prefix.clone())
        } else {
            KeyRange::beginning(prefix.clone())
        };
        let used = ends.len();
        Stretch { range, prefix, ends, used }
    }
}

/// The composite indexes that a filter can be looked up in: where they tell more than the range
/// index of their first property does.
pub(super) fn lookups<S: Source>(source: &S, conditions: &Conditions) -> Vec<Scan> {
    let composites = source.composites().iter();
    let useful = composites.filter_map(|composite| {
        let stretch = conditions.stretch(composite, None);
        let alone = stretch.used == 1 && source.covers(&composite[0].0);
        (stretch.used > 0 && !alone).then(|| scan(composite, stretch.range))
    });
    useful.take(limits::INDEX_SCANS).collect()
}

/// The composite index whose stretch is exactly what passes the filter.
pub(super) fn exact<S: Source>(source: &S, conditions: &Conditions) -> Option<Scan> {
    source.composites().iter().find_map(|composite| {
        let stretch = conditions.stretch(composite, None);
        let all = stretch.used > 0 && conditions.are_all(&stretch);
        all.then(|| scan(composite, stretch.range))
    })
}

/// The composite index that has what passes the filter in the order of one more property: of all
/// items, or of those alone that have a value there.
pub(super) fn by_property<S: Source>(
    source: &S,
    conditions: &Conditions,
    path: &IndexPath,
    defined: bool,
) -> Option<Scan> {
    source.composites().iter().find_map(|composite| {
        let (last, rest) = composite.split_last()?;
        let stretch = conditions.stretch(composite, defined.then_some(path));
        let fits =
            last.0 == *path && stretch.points() >= rest.len() && conditions.are_all(&stretch);
        fits.then(|| scan(composite, stretch.range))
    })
}

pub(super) fn scan(columns: &Composite, range: KeyRange) -> Scan {
    Scan::Composite { columns: columns.clone(), range, reverse: false }
}

/// A range of one column behind a prefix, as a range of entries.
fn within(prefix: &[u8], range: &KeyRange, descending: bool) -> KeyRange {
    let key = |key: &Bytes| [prefix, &masked(key, descending)[..]].concat();
    let from = match &range.from {
        Bound::Unbounded => Bound::Excluded(key_of(&Value::Undefined).into()),
        bound => bound.clone(),
    };
    let (low, high) = if descending { (&range.to, &from) } else { (&from, &range.to) };
    let low = match low {
        Bound::Included(low) => Bound::Included(key(low).into()),
        Bound::Excluded(low) => from_end(KeyRange::end(key(low))),
        Bound::Unbounded => Bound::Included(Bytes::copy_from_slice(prefix)),
    };
    let high = match high {
        Bound::Included(high) => KeyRange::end(key(high)),
        Bound::Excluded(high) => Bound::Excluded(key(high).into()),
        Bound::Unbounded => KeyRange::end(prefix.to_vec()),
    };
    KeyRange { from: low, to: high }
}

/// The end of some keys, as the beginning of those behind them.
fn from_end(end: Bound<Bytes>) -> Bound<Bytes> {
    match end {
        Bound::Excluded(key) => Bound::Included(key),
        other => other,
    }
}

pub(super) fn masked(key: &[u8], descending: bool) -> Vec<u8> {
    let mask = if descending { 0xFF } else { 0 };
    key.iter().map(|byte| byte ^ mask).collect()
}

/// Whether the range of a condition is all that the condition says.
fn is_exact(node: &Node) -> bool {
    match node {
        Node::Binary(BinaryOp::NotEqual, _) => false,
        Node::Binary(..) | Node::Between(_, false) => true,
        Node::Like(_, LikePattern::Fixed(pattern), false) => {
            pattern.exactly().is_some() || pattern.prefix().1
        }
        Node::Call(call) => is_exact_call(call),
        _ => false,
    }
}

fn is_exact_call(call: &CallNode) -> bool {
    match call.function.name {
        "STARTSWITH" | "STRINGEQUALS" => call.arguments.len() == 2,
        "IS_DEFINED" | "IS_STRING" | "IS_NUMBER" | "IS_BOOL" | "IS_NULL" | "IS_ARRAY"
        | "IS_OBJECT" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of two columns in every direction: a stretch has those rows that the condition holds
    /// for, and no others.
    #[test]
    fn a_stretch_has_what_the_conditions_say() {
        let texts = ["", "null", "true", "-1", "0", "2", "\"\"", "\"a\"", "\"ab\"", "\"b\"", "[1]"];
        let filters = [
            "c.b = 'a'",
            "c.b > 0",
            "c.b >= 0",
            "c.b < 'ab'",
            "c.b <= 'ab'",
            "c.b > 'a'",
            "IS_DEFINED(c.b)",
            "STARTSWITH(c.b, 'a')",
            "c.b LIKE 'a%'",
            "IS_STRING(c.b)",
            "c.b > -1 AND c.b < 2",
            "c.b BETWEEN 'a' AND 'ab'",
            "c.b = null",
            "IS_NULL(c.b)",
        ];
        for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
            let path = |name: &str| IndexPath::members(&[name]);
            let composite = vec![(path("a"), first), (path("b"), second), (path("z"), true)];
            for filter in filters {
                let text = format!("SELECT * FROM c WHERE c.a = 'a' AND {filter}");
                let statement = Statement::new(&text, &[], &Default::default()).expect(&text);
                let conditions = Conditions::of(&statement);
                let stretch = conditions.stretch(&composite, None);
                assert!(conditions.are_all(&stretch), "{text}");
                for a in texts {
                    for b in texts {
                        let item = format!("{{{}{}\"z\":7}}", member("a", a), member("b", b));
                        let rows = statement.rows_of(item.as_bytes(), &Still).expect(&text);
                        let mut key = masked(&sort_key(a), first);
                        key.extend(masked(&sort_key(b), second));
                        key.extend(masked(&sort_key("7"), true));
                        let holds = !rows.is_empty();
                        assert_eq!(stretch.range.contains(&key), holds, "{text}: {a} {b}");
                    }
                }
            }
        }
    }

    struct Still;

    impl crate::world::World for Still {
        fn now_ticks(&self) -> i64 {
            0
        }

        fn random(&self) -> f64 {
            0.0
        }
    }

    /// A member of an item; nothing where it is to be missing.
    fn member(name: &str, value: &str) -> String {
        if value.is_empty() { String::new() } else { format!("\"{name}\":{value},") }
    }

    fn sort_key(value: &str) -> Vec<u8> {
        match value {
            "" => key_of(&Value::Undefined),
            value => key_of(&Value::from_raw(value.as_bytes())),
        }
    }
}
