//! Lists that are read part by part: which part is next, with which continuation, through splits.
//!
//! ```json
//! {"read":1,"ranges":[{"min":"","max":"1F","token":"…"},{"min":"1F","max":"FF"}]}
//! ```
//!
//! Parts that have been read to their end are left out. Tokens are the server's, kept as they came.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::changes::read::FeedScope;
use crate::container::Container;
use crate::error::{Error, Kind, Result};
use crate::layout::RANGES_MAX;
use crate::partition_key::PartitionKey;
use crate::range::FeedRange;
use crate::request::Request;
use crate::retry::Pauses;

/// The form that this client writes and reads.
const VERSION: u32 = 1;

/// The parts of a list that are still to be read.
#[derive(Debug)]
pub struct Spans {
    state: State,
}

#[derive(Debug)]
enum State {
    /// In one piece, as the server strings it together.
    Whole { scope: FeedScope, token: Option<String>, has_begun: bool },
    /// A range of which only the id is known.
    Named { id: String, token: Option<String> },
    /// Part by part.
    Parts(VecDeque<(FeedRange, Option<String>)>),
}

#[derive(Serialize, Deserialize)]
struct Text {
    read: u32,
    ranges: Vec<Range>,
}

#[derive(Serialize, Deserialize)]
struct Range {
    min: String,
    max: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl Spans {
    /// What is asked for. At most one of key, id and span.
    pub fn begin(
        key: Option<&PartitionKey>,
        range_id: Option<&str>,
        span: Option<&FeedRange>,
        continuation: Option<&str>,
    ) -> Result<Self> {
        if [key.is_some(), range_id.is_some(), span.is_some()]
            .into_iter()
            .filter(|named| *named)
            .count()
            > 1
        {
            return Err(Error::setting(
                "partition_key_range_id, feed_range and partition_key exclude each other",
            ));
        }
        let token = continuation.map(str::to_owned);
        let parts = match continuation {
            Some(text) if text.starts_with("{\"read\":") => Some(parse(text)?),
            _ => None,
        };
        if let Some(parts) = &parts {
            let is_beyond =
                |(part, _): &(FeedRange, _)| span.is_some_and(|span| !span.contains(part));
            if key.is_some() || parts.iter().any(is_beyond) {
                return Err(Error::setting("the continuation is of another list"));
            }
        }
        let state = match (parts, key, range_id, span) {
            // What is left to read says more than what was asked for at first.
            (Some(parts), ..) => State::Parts(parts),
            (None, Some(key), ..) => {
                State::Whole { scope: FeedScope::Key(key.clone()), token, has_begun: false }
            }
            (None, None, Some(id), _) => State::Named { id: id.to_owned(), token },
            (None, None, None, Some(span)) => State::Parts([(span.clone(), token)].into()),
            (None, None, None, None) => {
                State::Whole { scope: FeedScope::Container, token, has_begun: false }
            }
        };
        Ok(Self { state })
    }

    /// From here on part by part, from the beginning.
    pub fn by_range(&mut self) {
        self.state = State::Parts([(FeedRange::full(), None)].into());
    }

    /// Whether the server strings the parts together, and has not begun yet.
    pub fn is_fresh_whole(&self) -> bool {
        matches!(
            &self.state,
            State::Whole { scope: FeedScope::Container, token: None, has_begun: false }
        )
    }

    /// The next page, or none at the end.
    pub async fn next(
        &mut self,
        container: &Container,
        request: impl Fn(&FeedScope, Option<&str>) -> Result<Request>,
    ) -> Result<Option<Answer>> {
        let mut gone: Option<Pauses> = None;
        loop {
            let Some((scope, token)) = self.step(container).await? else { return Ok(None) };
            let error = match container.send(&request(&scope, token.as_deref())?).await {
                Ok(answer) => {
                    self.advance(answer.continuation().map(str::to_owned));
                    return Ok(Some(answer));
                }
                Err(error) if error.kind() == Kind::RangeGone => error,
                Err(error) => return Err(error),
            };
            // The first time there is no need to wait: the heirs are there already, as a rule.
            match &mut gone {
                None => gone = Some(container.pauses()),
                Some(pauses) => match pauses.next(None, 1.0) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(error),
                },
            }
            container.refresh_layout().await?;
        }
    }

    /// The text from which another reader goes on; none at the end.
    pub fn continuation(&self) -> Option<String> {
        match &self.state {
            State::Whole { token, .. } | State::Named { token, .. } => token.clone(),
            State::Parts(parts) if parts.is_empty() => None,
            State::Parts(parts) => {
                let ranges = parts.iter().map(|(span, token)| Range {
                    min: span.min().to_owned(),
                    max: span.max().to_owned(),
                    token: token.clone(),
                });
                let text = Text { read: VERSION, ranges: ranges.collect() };
                Some(serde_json::to_string(&text).expect("texts can be written"))
            }
        }
    }

    /// What to ask for next. A part that lies in several ranges is cut first.
    async fn step(&mut self, container: &Container) -> Result<Option<(FeedScope, Option<String>)>> {
        if let State::Named { id, token } = &self.state {
            let mut found = container.layout().await?.spans_of(id);
            if found.is_empty() {
                found = container.refresh_layout().await?.spans_of(id);
            }
            if found.is_empty() {
                let message =
                    format!("there is no partition key range {id}, and none that came from it");
                return Err(Error::refusal(410, 1002, message));
            }
            let parts = found.into_iter().map(|span| (span, token.clone()));
            self.state = State::Parts(parts.collect());
        }
        match &mut self.state {
            State::Whole { token: None, has_begun: true, .. } => Ok(None),
            State::Whole { scope, token, .. } => Ok(Some((scope.clone(), token.clone()))),
            State::Parts(parts) => {
                let Some((span, _)) = parts.front() else { return Ok(None) };
                let layout = container.layout().await?;
                let within = layout.within(span);
                let token = parts.pop_front().and_then(|(_, token)| token);
                for (_, part) in within.iter().rev() {
                    parts.push_front((part.clone(), token.clone()));
                }
                let Some((range, part)) = within.into_iter().next() else { return Ok(None) };
                let range_id = range.id.clone();
                let is_all = range.span == part;
                let scope = match is_all {
                    true => FeedScope::Range(range_id),
                    false => FeedScope::Part { range_id, span: part },
                };
                Ok(Some((scope, token)))
            }
            State::Named { .. } => Ok(None),
        }
    }

    fn advance(&mut self, next: Option<String>) {
        match &mut self.state {
            State::Whole { token, has_begun, .. } => (*token, *has_begun) = (next, true),
            State::Named { .. } => {}
            State::Parts(parts) => match (next, parts.front_mut()) {
                (Some(next), Some((_, token))) => *token = Some(next),
                (None, Some(_)) => drop(parts.pop_front()),
                (_, None) => {}
            },
        }
    }
}

fn parse(text: &str) -> Result<VecDeque<(FeedRange, Option<String>)>> {
    let wrong = |why: &str| Error::setting(format!("the continuation cannot be used: {why}"));
    let text: Text = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
    if text.read != VERSION {
        return Err(wrong("it was made by a newer version"));
    }
    if text.ranges.len() > RANGES_MAX {
        return Err(wrong("it has too many ranges"));
    }
    let range = |range: Range| Ok((FeedRange::new(&range.min, &range.max)?, range.token));
    text.ranges.into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        r#"{"read":1,"ranges":[{"min":"05","max":"1F","token":"t"},{"min":"1F","max":"2F"}]}"#;

    #[test]
    fn what_is_left_is_kept_as_text() {
        let spans = Spans::begin(None, None, None, Some(TEXT)).unwrap();
        assert_eq!(spans.continuation().as_deref(), Some(TEXT));
        let mut spans = spans;
        spans.advance(Some("u".into()));
        assert_eq!(spans.continuation().unwrap(), TEXT.replace("\"t\"", "\"u\""));
        spans.advance(None);
        assert!(spans.continuation().unwrap().starts_with(r#"{"read":1,"ranges":[{"min":"1F""#));
        spans.advance(None);
        assert_eq!(spans.continuation(), None);
    }

    #[test]
    fn continuations_of_other_lists_are_refused() {
        let within = "-2F".parse().unwrap();
        assert!(Spans::begin(None, None, Some(&within), Some(TEXT)).is_ok());
        let beyond = "06-FF".parse().unwrap();
        assert!(Spans::begin(None, None, Some(&beyond), Some(TEXT)).is_err());
        assert!(Spans::begin(Some(&"a".into()), None, None, Some(TEXT)).is_err());
        for torn in [TEXT.replace(":1,", ":2,"), TEXT.replace("05", "0"), TEXT.replace("]}", "")] {
            assert!(Spans::begin(None, None, None, Some(&torn)).is_err(), "{torn}");
        }
        assert!(Spans::begin(Some(&"a".into()), Some("0"), None, None).is_err());
    }
}
