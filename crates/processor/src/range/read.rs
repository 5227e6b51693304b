//! The reading side of a worker: which page is next, what it brings, and what to do without one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::worker::{Brought, Exit, OpenPage, POLL_MIN, Waiting, Worker};
use crate::change::Change;
use crate::cut::{self, Cut, KeyRange, holder};
use crate::env::Rule;
use crate::feed::{Ask, FeedError, FeedPage};
use crate::lease::{Kind, commit_of};
use crate::monitor::Event;
use crate::observer::CloseReason;
use crate::position::Start;
use crate::window::Mark;

/// Pages that handlers have returned from but not acknowledged themselves; only their positions are
/// kept, and reading waits beyond.
const UNACKNOWLEDGED_PAGES_MAX: usize = 100_000;
/// Page size to halve from when a page is too large and none was set, as the other libraries do.
const PAGE_ITEMS: u32 = 100;
/// Wait before a read that was refused for good is tried again: a person has to act first.
const BLOCKED_WAIT: Duration = Duration::from_secs(30);

impl Worker {
    pub(super) fn start_read(&mut self, now: Duration) {
        let options = &self.shared.options;
        let ahead: usize = self.open_pages.values().map(|page| page.bytes).sum();
        let full = self.open_pages.len() > options.prefetch_pages
            || ahead >= options.prefetch_bytes
            || self.window.len() >= UNACKNOWLEDGED_PAGES_MAX
            || (self.careful > 0 && !self.window.is_empty());
        let stays = self.is_there && self.goal.is_some();
        if self.reading.is_some() || now < self.read_at || full || stays || self.wants_redrive() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let Some(range) = self.holder.clone().filter(|_| !self.stale_ranges) else {
            self.read_deadline = now + options.read_timeout;
            self.reading =
                Some(Box::pin(async move { Brought::Ranges(shared.read_ranges().await) }));
            return;
        };
        // Whoever is to stop somewhere does not wait for what lies beyond.
        let waits = !options.long_poll.is_zero() && self.goal.is_none();
        let wait = waits.then_some(options.long_poll);
        self.read_deadline = now + options.read_timeout + wait.unwrap_or_default();
        let lease = &self.tenure.lease;
        let ask = Ask {
            range: range.id,
            span: if lease.kind == Kind::Span { lease.span.clone() } else { None },
            start: self.position.clone(),
            max_item_count: if self.careful > 0 { Some(1) } else { self.max_items },
            wait,
            mode: options.mode,
            session_token: options.session_token.clone(),
        };
        self.reading = Some(Box::pin(async move { Brought::Page(shared.feed.read(ask).await) }));
    }

    /// Takes a page in.
    pub(super) fn turn(&mut self, page: Result<FeedPage, FeedError>) {
        let now = self.shared.env.now();
        let page = match page {
            Ok(page) => page,
            Err(wrong) => return self.stumble(wrong, now),
        };
        let page = self.cut_short(page);
        self.failures = 0;
        if self.max_items < self.shared.options.max_item_count
            || (self.max_items.is_some() && self.shared.options.max_item_count.is_none())
        {
            self.grow();
        }
        let lease = self.tenure.lease.token.clone();
        self.shared.tell(&Event::Read { lease, items: page.items.len() });
        if page.items.is_empty() {
            if !page.waited {
                self.read_at = now + self.poll_delay;
                self.poll_delay = (self.poll_delay * 2).min(self.shared.options.feed_poll_delay);
            }
        } else {
            self.poll_delay = POLL_MIN.min(self.shared.options.feed_poll_delay);
        }
        let moved = self.position != Start::After(page.continuation.clone());
        self.position = Start::After(page.continuation.clone());
        if moved || !page.items.is_empty() {
            self.accept(page);
        }
    }

    /// Takes away what lies beyond the position to stop at. Its etag is as good as the page's own:
    /// both are of one range, and nothing of ours lies between.
    fn cut_short(&mut self, mut page: FeedPage) -> FeedPage {
        let Some(goal) = &self.goal else { return page };
        let passed = commit_of(&page.continuation).is_some_and(|commit| commit >= goal.commit);
        // A service may leave a position where it is while there is nothing new.
        let stands = page.items.is_empty()
            && self.position == Start::After(page.continuation.clone())
            && page.newest.is_some_and(|newest| newest >= goal.commit);
        if passed || stands {
            page.items.retain(|raw| Change::new(raw.clone(), &[]).lsn() <= goal.commit);
            page.continuation.clone_from(&goal.etag);
            self.is_there = true;
        }
        page
    }

    pub(super) fn grow(&mut self) {
        let doubled = self.max_items.map(|items| items.saturating_mul(2));
        self.max_items = match (doubled, self.shared.options.max_item_count) {
            (Some(items), Some(limit)) => Some(items.min(limit)),
            (Some(items), None) if items < PAGE_ITEMS => Some(items),
            (_, limit) => limit,
        };
    }

    /// Sorts a page's changes into lanes.
    pub(super) fn accept(&mut self, page: FeedPage) {
        let no_keys = [];
        let paths =
            if self.shared.needs_keys() { self.shared.feed.key_paths() } else { &no_keys[..] };
        let bytes = page.items.iter().map(bytes::Bytes::len).sum();
        let mut lanes: BTreeMap<usize, (Vec<Change>, Vec<usize>)> = BTreeMap::new();
        let mut mark = Mark { continuation: page.continuation.clone(), ..Mark::default() };
        let mut last_lsn = None;
        for (place, raw) in page.items.into_iter().enumerate() {
            let change = Change::new(raw, paths);
            mark.items += 1;
            mark.commits += u64::from(last_lsn != Some(change.lsn()));
            last_lsn = Some(change.lsn());
            mark.newest_at = mark.newest_at.max(change.at());
            let lane = lane_of(change.key(), self.shared.options.lanes);
            let (changes, places) = lanes.entry(lane).or_default();
            changes.push(change);
            places.push(place);
        }
        self.processed += mark.items;
        let waits_for = if self.shared.env.keeps(Rule::AfterHandler) { lanes.len() } else { 0 };
        let sequence = self.window.push(mark, waits_for);
        if lanes.is_empty() {
            return;
        }
        self.open_pages.insert(sequence, OpenPage { batches: lanes.len(), bytes });
        let headers = Arc::new(page.headers);
        let condemned = std::mem::take(&mut self.condemn_next);
        for (lane, (changes, places)) in lanes {
            let lsn = changes.iter().map(Change::lsn).max().unwrap_or(0);
            let context =
                self.context(lsn, page.continuation.clone(), Arc::clone(&headers), sequence);
            self.lanes.push(lane, Waiting { context, changes, places, condemned });
        }
    }

    /// No page this time.
    pub(super) fn stumble(&mut self, wrong: FeedError, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        let token = self.tenure.lease.token.clone();
        let backoff = crate::policy::Backoff {
            max: self.shared.options.feed_poll_delay,
            ..crate::policy::Backoff::default()
        };
        let wait = backoff.wait(self.failures, self.shared.env.random());
        self.read_at = now + wait;
        match wrong {
            FeedError::Gone => self.stale_ranges = true,
            FeedError::Throttled(asked) => self.read_at = now + asked.max(wait),
            FeedError::TooLarge => {
                let items = self.max_items.unwrap_or(PAGE_ITEMS);
                if items <= 1 {
                    let message = "a single transaction is larger than a page can be";
                    self.shared.alarm(Some(&token), message);
                    self.read_at = now + BLOCKED_WAIT;
                    return;
                }
                self.max_items = Some(items / 2);
                self.read_at = now;
            }
            FeedError::ContainerGone(why) => {
                self.shared.alarm(Some(&token), format!("the monitored container is gone: {why}"));
                self.exit.get_or_insert(Exit::Release(CloseReason::ResourceGone));
            }
            FeedError::HistoryLost(why) => {
                let message = format!(
                    "changes after the saved position are no longer kept, and nothing was skipped: seek to a position that is ({why})"
                );
                self.shared.alarm(Some(&token), message);
                self.read_at = now + BLOCKED_WAIT;
            }
            FeedError::Refused { .. } => {
                self.shared.alarm(Some(&token), wrong.to_string());
                self.read_at = now + BLOCKED_WAIT;
            }
            FeedError::Session | FeedError::Transient(_) => {
                self.shared.retrying(Some(&token), wrong);
            }
        }
    }

    /// Finds out where to read after the ranges were asked for.
    pub(super) fn route(&mut self, ranges: Result<Vec<KeyRange>, FeedError>) {
        let now = self.shared.env.now();
        let ranges = match ranges {
            Ok(ranges) => ranges,
            Err(wrong) => return self.stumble(wrong, now),
        };
        let lease = &self.tenure.lease;
        if let Some(range) = holder(lease, &ranges) {
            self.holder = Some(range.clone());
            self.stale_ranges = false;
            return;
        }
        match cut::cut(lease, &ranges) {
            Cut::Children(seats) => self.exit = Some(Exit::Divide(seats)),
            Cut::Stay | Cut::Lost => {
                let message = "no partition key range holds what this lease covers";
                self.shared.alarm(Some(&lease.token), message);
                self.read_at = now + BLOCKED_WAIT;
            }
        }
    }
}

/// The lane of a key. All processes agree, though nothing depends on it.
fn lane_of(key: &str, lanes: usize) -> usize {
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut hasher = foldhash::fast::FixedState::with_seed(0).build_hasher();
    hasher.write(key.as_bytes());
    (hasher.finish() % lanes.max(1) as u64) as usize
}
