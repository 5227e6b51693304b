//! Continuations: the positions of all ranges that a reader follows, as one text to keep.
//!
//! ```json
//! {"feed":1,"rid":"…","mode":"latest","ranges":[{"min":"","max":"1F","etag":"\"42\""},{"min":"1F","max":"FF","start":"beginning"}]}
//! ```
//!
//! Ranges stand in the order of their keys, so the same positions give the same text. Etags are
//! kept as they came. A reader of one partition key has `key` and a single range. One that has not
//! asked yet how far the range reaches that it was told to read has `range`, the id, instead.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::changes::options::Mode;
use crate::changes::read::Start;
use crate::error::{Error, Result};
use crate::layout::RANGES_MAX;
use crate::partition_key::PartitionKey;
use crate::range::FeedRange;

/// The form that this client writes and reads.
const VERSION: u32 = 1;
/// Longest continuation that is read.
const BYTES_MAX: usize = 16 << 20;

/// The positions of all ranges that a reader follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuation {
    pub rid: String,
    pub mode: Mode,
    pub key: Option<PartitionKey>,
    /// A range of which only the id is known; then there is one position.
    pub range_id: Option<String>,
    pub ranges: Vec<(FeedRange, Start)>,
}

#[derive(Serialize, Deserialize)]
struct Text {
    feed: u32,
    rid: String,
    mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    ranges: Vec<Range>,
}

#[derive(Serialize, Deserialize)]
struct Range {
    min: String,
    max: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<Value>,
}

impl Continuation {
    /// Reads a text. `None` if it is none of ours: then it is the etag of a single range.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let wrong = |why: &str| Error::setting(format!("the continuation cannot be used: {why}"));
        if text.len() > BYTES_MAX {
            return Err(wrong("it is too long"));
        }
        if !text.trim_start().starts_with("{\"feed\":") {
            return Ok(None);
        }
        let text: Text = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
        if text.feed != VERSION {
            return Err(wrong("it was made by a newer version"));
        }
        let modes = [Mode::Latest, Mode::LatestWithDeletes, Mode::AllVersions];
        let mode = modes.into_iter().find(|mode| mode.word() == text.mode);
        let mode = mode.ok_or_else(|| wrong("its mode is unknown"))?;
        if text.ranges.is_empty() || text.ranges.len() > RANGES_MAX {
            return Err(wrong("it has no ranges, or too many"));
        }
        let ranges = text.ranges.into_iter().map(Range::read).collect::<Option<Vec<_>>>();
        let mut ranges = ranges.ok_or_else(|| wrong("a range is torn"))?;
        ranges.sort_by(|(a, _), (b, _)| a.min().cmp(b.min()));
        if ranges.windows(2).any(|pair| pair[0].0.max() > pair[1].0.min()) {
            return Err(wrong("its ranges overlap"));
        }
        let key = text.key.map(PartitionKey::levels);
        if text.range.is_some() && (key.is_some() || ranges.len() != 1) {
            return Err(wrong("it names a range and more"));
        }
        Ok(Some(Self { rid: text.rid, mode, key, range_id: text.range, ranges }))
    }

    /// The text.
    pub fn write(mut self) -> String {
        self.ranges.sort_by(|(a, _), (b, _)| a.min().cmp(b.min()));
        let text = Text {
            feed: VERSION,
            rid: self.rid,
            mode: self.mode.word().to_owned(),
            key: self.key.map(|key| key.values().to_vec()),
            range: self.range_id,
            ranges: self.ranges.into_iter().map(Range::write).collect(),
        };
        serde_json::to_string(&text).expect("texts and numbers can be written")
    }
}

impl Range {
    fn write((span, start): (FeedRange, Start)) -> Self {
        let (etag, start) = match start {
            Start::After(etag) => (Some(etag), None),
            Start::Beginning => (None, Some("beginning".into())),
            Start::Now => (None, Some("now".into())),
            Start::Time(seconds) => (None, Some(seconds.into())),
        };
        Self { min: span.min().to_owned(), max: span.max().to_owned(), etag, start }
    }

    fn read(self) -> Option<(FeedRange, Start)> {
        let span = FeedRange::new(&self.min, &self.max).ok()?;
        let start = match (self.etag, self.start) {
            (Some(etag), None) => Start::After(etag),
            (None, Some(Value::String(word))) if word == "beginning" => Start::Beginning,
            (None, Some(Value::String(word))) if word == "now" => Start::Now,
            (None, Some(Value::Number(seconds))) => Start::Time(seconds.as_u64()?),
            _ => return None,
        };
        Some((span, start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"feed":1,"rid":"r=","mode":"latest","ranges":[{"min":"","max":"1F","etag":"\"42\""},{"min":"1F","max":"2F","start":"beginning"},{"min":"2F","max":"3F","start":"now"},{"min":"3F","max":"FF","start":1700000000}]}"#;

    #[test]
    fn the_text_is_stable() {
        let mut continuation = Continuation::parse(TEXT).unwrap().unwrap();
        assert_eq!(continuation.ranges[0].1, Start::After("\"42\"".into()));
        continuation.ranges.reverse();
        assert_eq!(continuation.write(), TEXT);
        let key = r#"{"feed":1,"rid":"","mode":"all","key":["a",{}],"ranges":[{"min":"","max":"FF","etag":"7"}]}"#;
        assert_eq!(Continuation::parse(key).unwrap().unwrap().write(), key);
        let named = r#"{"feed":1,"rid":"","mode":"all","range":"3","ranges":[{"min":"","max":"FF","start":"now"}]}"#;
        assert_eq!(Continuation::parse(named).unwrap().unwrap().write(), named);
    }

    #[test]
    fn etags_are_not_ours() {
        for etag in ["\"42\"", "42", "\"1;-1F=4;1F-FF=5\"", "{\"v\":1}", ""] {
            assert_eq!(Continuation::parse(etag).unwrap(), None, "{etag}");
        }
    }

    #[test]
    fn torn_texts_are_refused() {
        for (from, to) in [
            ("\"feed\":1", "\"feed\":2"),
            ("latest", "newest"),
            ("\"2F\",\"max\":\"3F\"", "\"1F\",\"max\":\"3F\""),
            ("\"start\":\"now\"", "\"start\":\"later\""),
            ("\"start\":\"now\"", "\"start\":\"now\",\"etag\":\"1\""),
            ("\"start\":1700000000", "\"start\":-1"),
            ("]}", ""),
        ] {
            let torn = TEXT.replacen(from, to, 1);
            assert_ne!(torn, TEXT);
            assert!(Continuation::parse(&torn).is_err(), "{torn}");
        }
        assert!(Continuation::parse(r#"{"feed":1,"rid":"","mode":"latest","ranges":[]}"#).is_err());
    }
}
