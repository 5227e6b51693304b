//! The positions that a reader of changes has, range by range. No I/O: what is read is told.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::changes::continuation::Continuation;
use crate::changes::options::ChangeFeedOptions;
use crate::changes::read::{FeedPage, FeedScope, Start};
use crate::error::{Error, Kind, Result};
use crate::layout::Layout;
use crate::range::FeedRange;

/// Ranges that are watched at once. With more ranges, servers are not asked to wait.
pub const WATCHED_MAX: usize = 64;

/// What is to be read next.
#[derive(Debug, Clone)]
pub struct Cursor {
    pub id: u64,
    pub scope: FeedScope,
    pub start: Start,
    /// Whether the server is asked to wait for a change.
    pub waits: bool,
    /// Whether to rest first: there was nothing new, and the server does not wait.
    pub rests: bool,
}

/// All positions of a reader.
#[derive(Debug)]
pub struct Cursors {
    /// In the order in which they are to be read.
    all: VecDeque<Held>,
    next_id: u64,
    /// Pages since the quiet ones were looked at.
    pages: usize,
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
    /// When the question was asked that was answered with "nothing new", if that was the last.
    quiet_at: Option<Instant>,
    /// Whether the server has not waited although it was asked to.
    is_deaf: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be read.
    Idle,
    /// Nothing was new; not to be read for now.
    Quiet,
    /// A read is under way, to find out whether there is something.
    Reading,
    /// A read is under way that ends when there is something, or after a while.
    Watching,
}

/// What a reader wants, before it is known which ranges there are.
#[derive(Debug)]
enum Wanted {
    /// All is placed.
    Nothing,
    /// Spans with their positions.
    Spans(Vec<(FeedRange, Start)>),
    /// Everything, after the etag of what must be the only range.
    OnlyRange(Start),
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
        let mut cursors =
            Self { all: VecDeque::new(), next_id: 0, pages: 0, wanted: Wanted::Nothing };
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
        if let Some(id) = continuation.range_id {
            let is_same = options.partition_key_range_id.as_ref().is_none_or(|asked| *asked == id);
            if !is_same || options.feed_range.is_some() || options.partition_key.is_some() {
                return Err(wrong(&format!("it was made for the range {id}")));
            }
            let start = kept.into_iter().next().map_or(start, |(_, start)| start);
            cursors.wanted = Wanted::Range(id, From::One(start));
            return Ok((continuation.rid, cursors));
        }
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
        self.wanted = match (&options.partition_key_range_id, &options.feed_range) {
            (Some(id), _) => Wanted::Range(id.clone(), From::One(start)),
            (None, Some(span)) => Wanted::Spans(vec![(span.clone(), start)]),
            (None, None) if matches!(start, Start::After(_)) => Wanted::OnlyRange(start),
            (None, None) => Wanted::Spans(vec![(FeedRange::full(), start)]),
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
            Wanted::OnlyRange(start) => match layout.ranges.len() {
                1 => vec![(FeedRange::full(), start.clone())],
                count => {
                    return Err(Error::setting(format!(
                        "an etag is a position in one range, and there are {count}: name the range \
                         it belongs to, or go on from a continuation"
                    )));
                }
            },
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

    /// The next that may be read, if there is one: what may have something new before what had
    /// nothing, and that only to watch it.
    pub fn next_read(&mut self, most: usize, watches: bool) -> Option<Cursor> {
        let is_pinning = self.are_starting_now();
        let may_begin = |held: &Held| !is_pinning || held.start == Start::Now;
        let count = |state| self.all.iter().filter(|held| held.state == state).count();
        let find = |state| self.all.iter().position(|held| held.state == state && may_begin(held));
        let idle = if count(State::Reading) < most { find(State::Idle) } else { None };
        let quiet = || match watches && count(State::Watching) < WATCHED_MAX {
            true => find(State::Quiet),
            false => None,
        };
        let at = idle.or_else(quiet)?;
        let all_fit = self.all.len() <= WATCHED_MAX;
        // Behind all others, so that each has its turn.
        let mut held = self.all.remove(at)?;
        let is_watch = held.state == State::Quiet;
        held.state = if is_watch { State::Watching } else { State::Reading };
        let cursor = Cursor {
            id: held.id,
            scope: held.scope.clone(),
            start: held.start.clone(),
            waits: is_watch && all_fit,
            rests: is_watch && (held.is_deaf || !all_fit),
        };
        self.all.push_back(held);
        Some(cursor)
    }

    /// Moves on to where a page ends that was asked for at a moment. The span, where the reader
    /// has spans.
    pub fn advance(&mut self, id: u64, page: &FeedPage, asked_at: Instant) -> Option<FeedRange> {
        let all_fit = self.all.len() <= WATCHED_MAX;
        if !page.changes.is_empty() {
            self.count_page();
        }
        let held = self.held(id)?;
        // A read from a time or from now may answer with nothing but a position.
        let was_positioned = matches!(held.start, Start::After(_) | Start::Beginning);
        // An answer that leads nowhere is as good as none: asking on at once would not end.
        let is_stuck = page.changes.is_empty()
            && matches!(&held.start, Start::After(etag) if *etag == page.etag);
        let is_quiet = was_positioned && (page.is_not_modified || is_stuck);
        if held.state == State::Watching && all_fit {
            held.is_deaf = is_quiet && !page.has_waited;
        }
        held.start = Start::After(page.etag.clone());
        held.quiet_at = is_quiet.then_some(asked_at);
        held.state = if is_quiet { State::Quiet } else { State::Idle };
        Some(held.span.clone()).filter(|_| !matches!(held.scope, FeedScope::Key(_)))
    }

    /// What is quiet is looked at once in a while, however much there is elsewhere.
    fn count_page(&mut self) {
        self.pages += 1;
        if self.pages >= self.all.len() {
            self.pages = 0;
            self.wake(|_| true);
        }
    }

    fn wake(&mut self, is_meant: impl Fn(&Held) -> bool) {
        for held in &mut self.all {
            if held.state == State::Quiet && is_meant(held) {
                held.state = State::Idle;
            }
        }
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

    /// Whether every range has said that nothing is new, when asked since a moment; or is being
    /// watched by a server that would tell.
    pub fn are_quiet(&self, since: Instant) -> bool {
        let is_quiet = |held: &Held| {
            let is_told = held.quiet_at.is_some_and(|at| at >= since);
            let is_watched = held.state == State::Watching && !held.is_deaf;
            is_told || (is_watched && self.all.len() <= WATCHED_MAX)
        };
        !self.need_layout() && self.all.iter().all(is_quiet)
    }

    /// If nothing is left to read: what was quiet before a moment is to be read again. Whether
    /// there is nothing of the kind.
    pub fn is_round_over(&mut self, since: Instant) -> bool {
        if self.need_layout() || self.all.iter().any(|held| held.state != State::Quiet) {
            return false;
        }
        self.wake(|held| held.quiet_at.is_none_or(|at| at < since));
        self.are_quiet(since)
    }

    /// Whether a position has still to be asked for.
    pub fn are_starting_now(&self) -> bool {
        self.all.iter().any(|held| held.start == Start::Now)
    }

    /// All positions.
    pub fn positions(&self) -> Vec<(FeedRange, Start)> {
        match &self.wanted {
            Wanted::Spans(spans) => spans.clone(),
            Wanted::Range(_, From::Each(kept)) => kept.clone(),
            Wanted::OnlyRange(start) | Wanted::Range(_, From::One(start)) => {
                vec![(FeedRange::full(), start.clone())]
            }
            Wanted::Nothing => {
                self.all.iter().map(|held| (held.span.clone(), held.start.clone())).collect()
            }
        }
    }

    /// The range of which only the id is known, with one position.
    pub fn named_range(&self) -> Option<&str> {
        match &self.wanted {
            Wanted::Range(id, From::One(_)) => Some(id),
            _ => None,
        }
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
        let state = State::Idle;
        self.all.push_back(Held { id, span, scope, start, state, quiet_at: None, is_deaf: false });
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

#[cfg(test)]
mod tests;
