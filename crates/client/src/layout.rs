//! The partition key ranges of a container, remembered until the server says they have changed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use serde::Deserialize;

use crate::error::{Error, Kind, Result};
use crate::range::{FeedRange, PartitionKeyRange};

/// Most ranges of a container that are taken in.
pub const RANGES_MAX: usize = 10_000;

/// The ranges of a container at one moment, in the order of their keys, without gap or overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The container's rid, which another container of the same name would not have.
    pub rid: String,
    pub ranges: Vec<PartitionKeyRange>,
}

/// A page of the list of ranges.
#[derive(Debug, Deserialize)]
pub struct RangeList {
    #[serde(rename = "_rid", default)]
    pub rid: String,
    #[serde(rename = "PartitionKeyRanges")]
    pub ranges: Vec<PartitionKeyRange>,
}

impl Layout {
    /// The layout that a list shows. While a range is being split, lists may show it beside its
    /// heirs; the heirs count.
    pub fn new(rid: String, mut ranges: Vec<PartitionKeyRange>) -> Result<Self> {
        let heirs = ranges.iter().flat_map(|range| range.parents.iter().cloned());
        let gone: HashSet<String> = heirs.collect();
        ranges.retain(|range| !gone.contains(&range.id));
        ranges.sort_by(|a, b| a.span.min().cmp(b.span.min()));
        let full = FeedRange::full();
        let tiles = ranges.first().is_some_and(|first| first.span.min() == full.min())
            && ranges.last().is_some_and(|last| last.span.max() == full.max())
            && ranges.windows(2).all(|pair| pair[0].span.max() == pair[1].span.min());
        if !tiles {
            return Err(Error::new(
                Kind::Unavailable,
                "the list of partition key ranges has a gap or an overlap",
            ));
        }
        Ok(Self { rid, ranges })
    }

    /// The ranges that a span touches, with the part of each.
    pub fn within(&self, span: &FeedRange) -> Vec<(&PartitionKeyRange, FeedRange)> {
        let parts =
            self.ranges.iter().filter_map(|range| Some((range, range.span.intersect(span)?)));
        parts.collect()
    }

    /// The spans of a range: its own, or if it is gone, those of its heirs.
    pub fn spans_of(&self, id: &str) -> Vec<FeedRange> {
        let own = self.ranges.iter().filter(|range| range.id == id);
        let own: Vec<FeedRange> = own.map(|range| range.span.clone()).collect();
        if !own.is_empty() {
            return own;
        }
        let is_heir = |range: &&PartitionKeyRange| range.parents.iter().any(|parent| parent == id);
        self.ranges.iter().filter(is_heir).map(|range| range.span.clone()).collect()
    }
}

/// The layout that was read last.
#[derive(Debug, Default)]
pub struct Known(Mutex<Option<Arc<Layout>>>);

impl Known {
    pub fn layout(&self) -> Option<Arc<Layout>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub fn set(&self, layout: Arc<Layout>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(ranges: &[(&str, &str, &[&str])]) -> Result<Layout> {
        let ranges = ranges.iter().map(|(id, span, parents)| PartitionKeyRange {
            id: (*id).to_owned(),
            span: span.parse().unwrap(),
            parents: parents.iter().map(|parent| (*parent).to_owned()).collect(),
        });
        Layout::new("r".to_owned(), ranges.collect())
    }

    #[test]
    fn lists_in_any_order_and_with_parents() {
        let layout =
            layout(&[("2", "1F-FF", &["0"]), ("0", "-FF", &[]), ("1", "-1F", &["0"])]).unwrap();
        let ids: Vec<&str> = layout.ranges.iter().map(|range| range.id.as_str()).collect();
        assert_eq!(ids, ["1", "2"]);
        assert_eq!(layout.spans_of("1"), ["-1F".parse().unwrap()]);
        assert_eq!(layout.spans_of("0"), ["-1F".parse().unwrap(), "1F-FF".parse().unwrap()]);
        assert!(layout.spans_of("7").is_empty());
        let parts = layout.within(&"0F-2F".parse().unwrap());
        let parts: Vec<String> =
            parts.iter().map(|(range, part)| format!("{}:{part}", range.id)).collect();
        assert_eq!(parts, ["1:0F-1F", "2:1F-2F"]);
    }

    #[test]
    fn gaps_and_overlaps_are_refused() {
        assert!(layout(&[]).is_err());
        assert!(layout(&[("1", "-1F", &[])]).is_err());
        assert!(layout(&[("1", "-1F", &[]), ("2", "2F-FF", &[])]).is_err());
        assert!(layout(&[("1", "-2F", &[]), ("2", "1F-FF", &[])]).is_err());
    }
}
