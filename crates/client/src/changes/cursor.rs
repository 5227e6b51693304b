//! The positions that a reader of changes has, range by range. No I/O: what is read is told.

use std::collections::VecDeque;

use crate::changes::continuation::Continuation;
use crate::changes::options::ChangeFeedOptions;
use crate::changes::read::{FeedPage, FeedScope, Start};
use crate::error::{Error, Kind, Result};
use crate::layout::Layout;
use crate::range::FeedRange;

/// What is to be read next.
#[derive(Debug, Clone)]
pub struct Cursor {
    pub id: u64,
    pub scope: FeedScope,
    pub start: Start,
    /// Whether to rest first: there was nothing new, and the server did not wait.
    pub pause: bool,
}

/// All positions of a reader.
#[derive(Debug)]
pub struct Cursors {
    /// In the order in which they are to be read.
    all: VecDeque<Held>,
    next_id: u64,
    /// What is to be placed before anything is read.
    wanted: Wanted,
}

#[derive(Debug)]
struct Held {
    id: u64,
    span: FeedRange,
    scope: FeedScope,
    start: Start,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is known of what comes next.
    Idle,
    /// A read is under way; whether all had been read before it.
    Reading { was_caught_up: bool },
    /// All has been read; whether the server has waited before it said so.
    CaughtUp { has_waited: bool },
}

/// What a reader wants, before it is known which ranges there are.
#[derive(Debug)]
enum Wanted {
    /// All is placed.
    Nothing,
    /// Spans with their positions.
    Spans(Vec<(FeedRange, Start)>),
    /// A range by its id: from one position, or from those of a continuation.
    Range(String, From),
}

#[derive(Debug)]
enum From {
    One(Start),
    Each(Vec<(FeedRange, Start)>),
}

impl Cursors {
    /// What options and a continuation ask for, and the rid that the container must have.
    pub fn begin(
        options: &ChangeFeedOptions,
        continuation: Option<Continuation>,
    ) -> Result<(String, Self)> {
        let mut cursors = Self { all: VecDeque::new(), next_id: 0, wanted: Wanted::Nothing };
        let etag = options.request_continuation.clone().map(Start::After);
        let start = etag.unwrap_or_else(|| options.start());
        let Some(continuation) = continuation else {
            cursors.begin_anew(options, start);
            return Ok((String::new(), cursors));
        };
        let wrong = |why: &str| Error::setting(format!("the continuation cannot be used: {why}"));
        if continuation.mode != options.mode {
            return Err(wrong("it was made in another mode"));
        }
        let kept = continuation.ranges;
        match (&options.partition_key, &continuation.key) {
            (None, None) => {}
            (Some(asked), Some(kept_key)) if asked == kept_key => {
                for (span, start) in kept {
                    cursors.hold(span, FeedScope::Key(asked.clone()), start);
                }
                return Ok((continuation.rid, cursors));
            }
            (None, Some(_)) => return Err(wrong("it was made for one partition key")),
            (Some(_), _) => return Err(wrong("it was not made for this partition key")),
        }
        cursors.wanted = match (&options.partition_key_range_id, &options.feed_range) {
            (Some(id), _) => Wanted::Range(id.clone(), From::Each(kept)),
            (None, Some(span)) => Wanted::Spans(part(&kept, span)?),
            (None, None) => Wanted::Spans(kept),
        };
        Ok((continuation.rid, cursors))
    }

    fn begin_anew(&mut self, options: &ChangeFeedOptions, start: Start) {
        if let Some(key) = &options.partition_key {
            return self.hold(FeedRange::full(), FeedScope::Key(key.clone()), start);
        }
        self.wanted = match &options.partition_key_range_id {
            Some(id) => Wanted::Range(id.clone(), From::One(start)),
            None => {
                let span = options.feed_range.clone().unwrap_or_else(FeedRange::full);
                Wanted::Spans(vec![(span, start)])
            }
        };
    }

    /// Whether ranges must be known before anything can be read.
    pub fn need_layout(&self) -> bool {
        !matches!(self.wanted, Wanted::Nothing)
    }

    /// Puts what is wanted into the ranges that there are.
    pub fn place(&mut self, layout: &Layout) -> Result<()> {
        let spans = match &self.wanted {
            Wanted::Nothing => return Ok(()),
            Wanted::Spans(spans) => spans.clone(),
            Wanted::Range(id, from) => {
                let found = layout.spans_of(id);
                if found.is_empty() {
                    let message =
                        format!("there is no partition key range {id}, and none that came from it");
                    return Err(Error::refusal(410, 1002, message));
                }
                let mut spans = Vec::new();
                for span in found {
                    match from {
                        From::One(start) => spans.push((span, start.clone())),
                        From::Each(kept) => spans.extend(part(kept, &span)?),
                    }
                }
                spans
            }
        };
        self.wanted = Wanted::Nothing;
        for (span, start) in spans {
            self.hold_within(layout, &span, &start);
        }
        Ok(())
    }

    /// The next that may be read, if there is one. A watcher goes on reading where all was read.
    pub fn next_idle(&mut self, watches: bool) -> Option<Cursor> {
        let is_pinning = self.are_starting_now();
        let at = self.all.iter().position(|held| {
            let may_begin = !is_pinning || held.start == Start::Now;
            may_begin
                && match held.state {
                    State::Idle => true,
                    State::CaughtUp { .. } => watches,
                    State::Reading { .. } => false,
                }
        })?;
        // Behind all others, so that each has its turn.
        let mut held = self.all.remove(at)?;
        let was_caught_up = matches!(held.state, State::CaughtUp { .. });
        let pause = held.state == State::CaughtUp { has_waited: false };
        held.state = State::Reading { was_caught_up };
        let (id, scope, start) = (held.id, held.scope.clone(), held.start.clone());
        self.all.push_back(held);
        Some(Cursor { id, scope, start, pause })
    }

    /// Moves on to where a page ends. The span, where the reader has spans.
    pub fn advance(&mut self, id: u64, page: &FeedPage) -> Option<FeedRange> {
        let held = self.held(id)?;
        // A read from a time or from now may answer with nothing but a position.
        let was_positioned = matches!(held.start, Start::After(_) | Start::Beginning);
        held.start = Start::After(page.etag.clone());
        held.state = match page.is_not_modified && was_positioned {
            true => State::CaughtUp { has_waited: page.has_waited },
            false => State::Idle,
        };
        Some(held.span.clone()).filter(|_| !matches!(held.scope, FeedScope::Key(_)))
    }

    /// A read has failed; its position stays.
    pub fn failed(&mut self, id: u64) {
        if let Some(held) = self.held(id) {
            held.state = State::Idle;
        }
    }

    /// Puts a cursor whose range is gone into the ranges that there are now.
    pub fn cut(&mut self, id: u64, layout: &Layout) {
        let Some(at) = self.all.iter().position(|held| held.id == id) else { return };
        let Some(held) = self.all.remove(at) else { return };
        match held.scope {
            FeedScope::Key(_) | FeedScope::Container => self.all.push_back(held),
            FeedScope::Range(_) | FeedScope::Part { .. } => {
                self.hold_within(layout, &held.span, &held.start);
            }
        }
    }

    /// Whether every range has said that nothing is new.
    pub fn are_caught_up(&self) -> bool {
        !self.need_layout()
            && self.all.iter().all(|held| {
                matches!(
                    held.state,
                    State::CaughtUp { .. } | State::Reading { was_caught_up: true }
                )
            })
    }

    /// Whether a position has still to be asked for.
    pub fn are_starting_now(&self) -> bool {
        self.all.iter().any(|held| held.start == Start::Now)
    }

    /// What had nothing new may have something now.
    pub fn look_again(&mut self) {
        for held in &mut self.all {
            if let State::CaughtUp { .. } = held.state {
                held.state = State::Idle;
            }
        }
    }

    /// All positions.
    pub fn positions(&self) -> Vec<(FeedRange, Start)> {
        match &self.wanted {
            Wanted::Spans(spans) => spans.clone(),
            Wanted::Range(_, From::Each(kept)) => kept.clone(),
            // The range is not known yet; neither is how far it reaches.
            Wanted::Range(_, From::One(start)) => vec![(FeedRange::full(), start.clone())],
            Wanted::Nothing => {
                self.all.iter().map(|held| (held.span.clone(), held.start.clone())).collect()
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    fn hold_within(&mut self, layout: &Layout, span: &FeedRange, start: &Start) {
        for (range, part) in layout.within(span) {
            let scope = match range.span == part {
                true => FeedScope::Range(range.id.clone()),
                false => FeedScope::Part { range_id: range.id.clone(), span: part.clone() },
            };
            self.hold(part, scope, start.clone());
        }
    }

    fn hold(&mut self, span: FeedRange, scope: FeedScope, start: Start) {
        let id = self.next_id;
        self.next_id += 1;
        self.all.push_back(Held { id, span, scope, start, state: State::Idle });
    }

    fn held(&mut self, id: u64) -> Option<&mut Held> {
        self.all.iter_mut().find(|held| held.id == id)
    }
}

/// The positions of a part of what a continuation covers.
fn part(kept: &[(FeedRange, Start)], span: &FeedRange) -> Result<Vec<(FeedRange, Start)>> {
    let mut parts = Vec::new();
    let mut covered = span.min().to_owned();
    for (range, start) in kept {
        if let Some(common) = range.intersect(span) {
            if common.min() != covered {
                break;
            }
            common.max().clone_into(&mut covered);
            parts.push((common, start.clone()));
        }
    }
    if covered == span.max() {
        return Ok(parts);
    }
    Err(Error::new(Kind::Setting, format!("the continuation does not cover the range {span}")))
}
