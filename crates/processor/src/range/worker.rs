//! The worker of a lease: reads ahead, hands out to lanes, saves positions, obeys its host.
//!
//! One loop: start whatever may be started, then wait for one thing to happen. What may be started
//! follows from the state alone; nothing here waits for anything else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::batch::Batch;
use super::write::{NotWritten, put};
use super::{Gate, Note, Order, Outcome};
use crate::change::Change;
use crate::cut::{self, Cut, KeyRange, Seat, holder};
use crate::env::{Later, Task};
use crate::feed::{Ask, FeedError, FeedPage};
use crate::fence::Safety;
use crate::lease::{Kind, Lease, Owner, extra};
use crate::monitor::Event;
use crate::observer::{AnyObserver, CloseReason, Context, LeaseLost};
use crate::position::Start;
use crate::shared::Shared;
use crate::tenure::{Heir, Tenure};
use crate::window::{Lanes, Mark, Window};

/// Pages that handlers have returned from but not acknowledged themselves; only their positions are
/// kept, and reading waits beyond.
const UNACKNOWLEDGED_PAGES_MAX: usize = 100_000;
/// Page size to halve from when a page is too large and none was set, as the other libraries do.
const PAGE_ITEMS: u32 = 100;
/// Shortest wait between polls of a feed that is drained but was busy.
const POLL_MIN: Duration = Duration::from_millis(100);
/// How long a cancelled handler is waited for.
pub(super) const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// How much of a rate's past is kept per second.
const RATE_DECAY: f64 = 0.9;
/// Pages read one change at a time after a range was suspected, before it is trusted again.
const CAREFUL_PAGES: u64 = 100;
/// Wait before a read that was refused for good is tried again: a person has to act first.
const BLOCKED_WAIT: Duration = Duration::from_secs(30);

/// What a read has brought.
pub(super) enum Brought {
    Page(Result<FeedPage, FeedError>),
    Ranges(Result<Vec<KeyRange>, FeedError>),
}

/// What a worker waits for.
enum Happened {
    Ordered(bool),
    Noted(Note),
    Written(Box<Result<Lease, NotWritten>>),
    Brought(Brought),
    Nothing,
}

/// The result of what runs; never, if nothing does.
async fn finished<T>(running: &mut Option<Later<'static, T>>) -> T {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}

/// Why and how a worker comes to its end.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Exit {
    HandOver(Owner),
    Release(CloseReason),
    Keep,
    /// The range was split or merged.
    Divide(Vec<Seat>),
    /// Nothing may be written any more.
    Abandon(CloseReason),
    /// The policy is to stop: release, and say why.
    Stop(String),
}

/// A page whose batches are not all handled.
struct OpenPage {
    batches: usize,
    bytes: usize,
}

/// A batch that waits for its lane.
pub(super) struct Waiting {
    context: Context,
    changes: Vec<Change>,
    places: Vec<usize>,
    condemned: bool,
}

pub(crate) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) tenure: Tenure,
    pub(super) observer: Arc<dyn AnyObserver>,
    pub(super) opened: bool,
    orders: watch::Receiver<Order>,
    redrives: watch::Receiver<u64>,
    pub(super) redriven: u64,
    notes: mpsc::UnboundedReceiver<Note>,
    pub(super) notes_in: mpsc::UnboundedSender<Note>,
    gate: watch::Sender<Gate>,
    pub(super) window: Window,
    pub(super) lanes: Lanes<Waiting>,
    pub(super) tasks: Vec<Option<Task>>,
    open_pages: BTreeMap<u64, OpenPage>,
    /// The last page of which something was handed out.
    begun: Option<u64>,
    pub(super) parked: Vec<String>,
    pub(super) parked_changed: bool,
    /// Where the next read begins.
    position: Start,
    reading: Option<Later<'static, Brought>>,
    read_at: Duration,
    read_deadline: Duration,
    poll_delay: Duration,
    holder: Option<KeyRange>,
    stale_ranges: bool,
    max_items: Option<u32>,
    failures: u32,
    writing: Option<Later<'static, Result<Lease, NotWritten>>>,
    /// What the write that is under way will have saved, and who waits for it.
    written_mark: Option<Mark>,
    repliers: Vec<oneshot::Sender<Result<(), LeaseLost>>>,
    replying: Vec<oneshot::Sender<Result<(), LeaseLost>>>,
    processed: u64,
    saved_at: Duration,
    /// Pages still to be read with care; how many deaths there were when it was taken.
    careful: u64,
    condemn_next: bool,
    rate: f64,
    pub(super) exit: Option<Exit>,
    pub(super) drain_by: Duration,
    pub(super) cancelled: bool,
}

impl Worker {
    pub fn new(
        shared: Arc<Shared>,
        tenure: Tenure,
        orders: watch::Receiver<Order>,
        redrives: watch::Receiver<u64>,
    ) -> Self {
        let (notes_in, notes) = mpsc::unbounded_channel();
        let lanes = shared.options.lanes;
        let now = shared.env.now();
        let deaths = u64::from(shared.options.error_policy.deaths);
        let suspected = deaths > 0 && tenure.lease.attempts() >= deaths;
        Self {
            observer: shared.observers.make(),
            opened: false,
            redriven: 0,
            window: Window::default(),
            lanes: Lanes::new(lanes),
            tasks: (0..lanes).map(|_| None).collect(),
            open_pages: BTreeMap::new(),
            begun: None,
            parked: tenure.lease.parked(),
            parked_changed: false,
            position: tenure.lease.position().unwrap_or(Start::Beginning),
            reading: None,
            read_at: now,
            read_deadline: now,
            poll_delay: POLL_MIN,
            holder: None,
            stale_ranges: false,
            max_items: shared.options.max_item_count,
            failures: 0,
            writing: None,
            written_mark: None,
            repliers: Vec::new(),
            replying: Vec::new(),
            processed: 0,
            saved_at: now,
            careful: if suspected { CAREFUL_PAGES } else { 0 },
            condemn_next: suspected && tenure.lease.attempts() > deaths,
            rate: tenure.lease.measure(extra::RATE),
            exit: None,
            drain_by: Duration::MAX,
            cancelled: false,
            gate: watch::channel(Gate::Open).0,
            shared,
            tenure,
            orders,
            redrives,
            notes,
            notes_in,
        }
    }

    /// Works until the lease is no longer ours.
    pub async fn run(mut self) -> super::Ended {
        self.obey();
        if self.exit.is_none() {
            self.open().await;
        }
        loop {
            self.start();
            if self.is_idle() {
                if self.exit.is_some() {
                    break;
                }
                if self.wants_redrive() {
                    self.redrive().await;
                    continue;
                }
            }
            self.await_one().await;
        }
        self.finish().await
    }

    async fn open(&mut self) {
        self.shared.tell(&Event::Acquired { lease: self.tenure.lease.token.clone() });
        let context = self.context(0, String::new(), Arc::new(Vec::new()), 0);
        let opening = crate::env::caught(self.observer.open(&context));
        self.opened = true;
        let failed = match opening.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic,
        };
        self.shared.alarm(Some(&context.lease), format!("the observer did not open: {failed}"));
        self.exit = Some(Exit::Release(CloseReason::ObserverError));
    }

    pub(super) fn context(
        &self,
        lsn: u64,
        continuation: String,
        headers: Arc<Vec<(String, String)>>,
        sequence: u64,
    ) -> Context {
        Context {
            lease: self.tenure.lease.token.clone(),
            span: self.tenure.lease.span.clone(),
            owner: self.tenure.owner().to_string(),
            epoch: self.tenure.lease.epoch(),
            lsn,
            continuation,
            headers,
            sequence,
            notes: self.notes_in.clone(),
            gate: self.gate.subscribe(),
        }
    }

    /// Starts whatever may be started.
    fn start(&mut self) {
        self.obey();
        let now = self.shared.env.now();
        let safety = self.shared.fence.safety(now);
        if safety == Safety::Over {
            self.exit = Some(Exit::Abandon(CloseReason::Fenced));
        }
        if self.exit.is_some() {
            self.start_draining(now);
            if safety == Safety::Safe && !self.cancelled {
                self.start_batches();
            }
        } else {
            let held = safety != Safety::Safe || *self.orders.borrow() == Order::Hold;
            let gate = if held { Gate::Held } else { Gate::Open };
            self.gate.send_if_modified(|old| std::mem::replace(old, gate) != gate);
            if !held && !self.wants_redrive() {
                self.start_batches();
            }
            self.start_read(now);
        }
        self.start_write(now);
    }

    /// Follows the host's order. An end that has begun is not taken back.
    fn obey(&mut self) {
        if self.exit.is_some() {
            return;
        }
        self.exit = match &*self.orders.borrow_and_update() {
            Order::Work | Order::Hold => None,
            Order::HandOver(to) => Some(Exit::HandOver(to.clone())),
            Order::Release(reason) => Some(Exit::Release(*reason)),
            Order::Keep => Some(Exit::Keep),
        };
    }

    fn start_draining(&mut self, now: Duration) {
        self.gate.send_if_modified(|old| std::mem::replace(old, Gate::Draining) != Gate::Draining);
        self.reading = None;
        // A page that some lane has begun is finished by all, or its changes would come again.
        let (begun, cancelled) = (self.begun, self.cancelled);
        self.lanes.retain(|waiting| !cancelled && Some(waiting.context.sequence) <= begun);
        if self.drain_by == Duration::MAX {
            self.drain_by = now + self.shared.options.drain_timeout;
        }
        let at_once = matches!(self.exit, Some(Exit::Abandon(_)));
        if (at_once || now >= self.drain_by) && !self.cancelled {
            self.cancelled = true;
            self.drain_by = now + CANCEL_PATIENCE;
            for task in &mut self.tasks {
                *task = None;
            }
            self.lanes.retain(|_| false);
            if at_once {
                self.writing = None;
            }
        }
    }

    /// Whether nothing runs.
    fn is_idle(&self) -> bool {
        let given_up = self.cancelled && self.shared.env.now() >= self.drain_by;
        let busy = self.lanes.busy() > 0 && !given_up;
        !busy && self.lanes.waiting() == 0 && self.writing.is_none()
    }

    fn start_batches(&mut self) {
        while let Some((lane, waiting)) = self.lanes.begin() {
            self.begun = self.begun.max(Some(waiting.context.sequence));
            let batch = Batch {
                shared: Arc::clone(&self.shared),
                observer: Arc::clone(&self.observer),
                context: waiting.context,
                changes: waiting.changes,
                places: waiting.places,
                lane,
                parked: self.parked.clone(),
                condemned: waiting.condemned,
                gate: self.gate.subscribe(),
            };
            self.tasks[lane] = Some(self.shared.env.spawn(Box::pin(batch.run())));
        }
    }

    fn start_read(&mut self, now: Duration) {
        let options = &self.shared.options;
        let ahead: usize = self.open_pages.values().map(|page| page.bytes).sum();
        let full = self.open_pages.len() > options.prefetch_pages
            || ahead >= options.prefetch_bytes
            || self.window.len() >= UNACKNOWLEDGED_PAGES_MAX
            || (self.careful > 0 && !self.window.is_empty());
        if self.reading.is_some() || now < self.read_at || full || self.wants_redrive() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let Some(range) = self.holder.clone().filter(|_| !self.stale_ranges) else {
            self.read_deadline = now + options.read_timeout;
            self.reading =
                Some(Box::pin(async move { Brought::Ranges(shared.read_ranges().await) }));
            return;
        };
        let wait = Some(options.long_poll).filter(|wait| !wait.is_zero());
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

    /// Saves the watermark if it is time, or touches the lease for peers that look at it.
    fn start_write(&mut self, now: Duration) {
        let ending = self.exit.is_some();
        if self.writing.is_some() || ending || !self.is_write_due(now) {
            return;
        }
        let mut draft = self.tenure.draft(self.shared.env.wall(), &Heir::Us);
        self.fill(&mut draft, now);
        let (shared, tenure) = (Arc::clone(&self.shared), self.tenure.clone());
        self.writing = Some(Box::pin(put(shared, tenure, draft)));
    }

    fn is_write_due(&self, now: Duration) -> bool {
        let frequency = self.shared.options.checkpoint_frequency;
        let since = now.saturating_sub(self.saved_at);
        let touch = self.shared.has_peers() && since >= self.shared.options.beat_interval();
        let moved = match self.window.reached() {
            None => self.parked_changed,
            // Positions without changes are saved at leisure, but the first one at once.
            Some(mark) if mark.items == 0 => {
                self.tenure.lease.continuation.is_none()
                    || since >= self.shared.options.lease_renew_interval
            }
            Some(_) => frequency.explicit_checkpoint || frequency.is_due(self.processed, since),
        };
        touch || moved || !self.repliers.is_empty()
    }

    /// Puts into a document what there is to save.
    pub(super) fn fill(&mut self, draft: &mut Lease, now: Duration) {
        if let Some(mark) = self.window.take() {
            draft.continuation = Some(mark.continuation.clone());
            draft.unset(extra::START);
            if mark.items > 0 {
                let since = now.saturating_sub(self.saved_at).as_secs_f64().max(0.001);
                let keep = RATE_DECAY.powf(since);
                self.rate = self.rate * keep + (mark.items as f64 / since) * (1.0 - keep);
                draft.set(extra::RATE, format!("{:.3}", self.rate));
                draft.set(extra::DONE_AT, mark.newest_at);
                let per_commit = mark.items as f64 / mark.commits.max(1) as f64;
                draft.set(extra::ITEMS_PER_COMMIT, format!("{per_commit:.3}"));
                // With care, a single step is no sign of health yet.
                self.careful = self.careful.saturating_sub(1);
                let deaths = u64::from(self.shared.options.error_policy.deaths);
                draft.set(extra::ATTEMPTS, if self.careful > 0 { deaths } else { 0 });
            }
            self.written_mark = Some(mark);
        }
        self.parked_changed = false;
        if self.parked.is_empty() {
            draft.unset(extra::PARKED);
        } else {
            draft.set(extra::PARKED, serde_json::json!(self.parked));
        }
        self.replying.append(&mut self.repliers);
        self.saved_at = now;
        self.processed = 0;
    }

    /// Waits until one thing has happened, and takes it in.
    async fn await_one(&mut self) {
        let now = self.shared.env.now();
        let nap = self.next_time(now).saturating_sub(now).max(Duration::from_millis(1));
        let sleep = self.shared.env.sleep(nap);
        let happened = tokio::select! {
            biased;
            changed = self.orders.changed() => Happened::Ordered(changed.is_ok()),
            Some(note) = self.notes.recv() => Happened::Noted(note),
            written = finished(&mut self.writing) => Happened::Written(Box::new(written)),
            brought = finished(&mut self.reading) => Happened::Brought(brought),
            Ok(()) = self.redrives.changed() => Happened::Nothing,
            () = sleep => Happened::Nothing,
        };
        match happened {
            Happened::Nothing => self.tick(),
            Happened::Noted(note) => self.hear(note),
            Happened::Ordered(true) => {}
            Happened::Ordered(false) => {
                self.exit.get_or_insert(Exit::Abandon(CloseReason::Shutdown));
            }
            Happened::Written(written) => {
                self.writing = None;
                self.written(*written);
            }
            Happened::Brought(brought) => {
                self.reading = None;
                match brought {
                    Brought::Page(page) => self.turn(page),
                    Brought::Ranges(ranges) => self.route(ranges),
                }
            }
        }
    }

    fn next_time(&self, now: Duration) -> Duration {
        let mut next = self.shared.fence.next_change(now).min(now + Duration::from_secs(1));
        if self.reading.is_some() {
            next = next.min(self.read_deadline);
        } else if self.read_at > now {
            next = next.min(self.read_at);
        }
        if let Some(interval) = self.shared.options.checkpoint_frequency.time_interval
            && self.window.reached().is_some()
        {
            next = next.min(self.saved_at + interval);
        }
        next.min(self.drain_by)
    }

    /// A read that has not answered is given up; its successor uses a new request.
    fn tick(&mut self) {
        let now = self.shared.env.now();
        if self.reading.is_some() && now >= self.read_deadline {
            self.reading = None;
            self.shared.retrying(Some(&self.tenure.lease.token), "a read did not answer in time");
        }
    }

    fn hear(&mut self, note: Note) {
        match note {
            Note::Acknowledged { sequence, reply } => {
                self.window.done_through(sequence);
                self.repliers.push(reply);
            }
            Note::Finished { lane, sequence, outcome } => {
                self.tasks[lane] = None;
                self.lanes.free(lane);
                self.finished(sequence, outcome);
            }
        }
    }

    fn finished(&mut self, sequence: u64, outcome: Outcome) {
        match outcome {
            Outcome::Done { parked } => {
                if let Some(page) = self.open_pages.get_mut(&sequence) {
                    page.batches -= 1;
                    if page.batches == 0 {
                        self.open_pages.remove(&sequence);
                    }
                }
                if !self.shared.options.checkpoint_frequency.explicit_checkpoint {
                    self.window.done(sequence);
                }
                for key in parked {
                    if !self.parked.contains(&key) {
                        self.parked.push(key);
                        self.parked_changed = true;
                    }
                }
            }
            Outcome::Stop(error) => self.exit = Some(Exit::Stop(error)),
            // Only an end cuts batches short; a task that died otherwise must not go unnoticed.
            Outcome::Unfinished => {
                self.exit.get_or_insert(Exit::Release(CloseReason::ObserverError));
            }
        }
    }

    fn written(&mut self, written: Result<Lease, NotWritten>) {
        let mark = self.written_mark.take();
        let answer = match written {
            Ok(lease) => {
                self.tenure.lease = lease;
                if mark.is_some() {
                    let lease = self.tenure.lease.token.clone();
                    self.shared.tell(&Event::Checkpointed { lease });
                }
                Ok(())
            }
            Err(NotWritten::Lost) => {
                self.exit = Some(Exit::Abandon(CloseReason::LeaseLost));
                Err(LeaseLost)
            }
            Err(NotWritten::Refused(why)) => {
                let message = format!("the lease container refuses a checkpoint: {why}");
                self.shared.alarm(Some(&self.tenure.lease.token), message);
                self.exit = Some(Exit::Abandon(CloseReason::Refused));
                Err(LeaseLost)
            }
        };
        for reply in self.replying.drain(..) {
            let _ = reply.send(answer);
        }
    }

    /// Takes a page in.
    fn turn(&mut self, page: Result<FeedPage, FeedError>) {
        let now = self.shared.env.now();
        let page = match page {
            Ok(page) => page,
            Err(wrong) => return self.stumble(wrong, now),
        };
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

    fn grow(&mut self) {
        let doubled = self.max_items.map(|items| items.saturating_mul(2));
        self.max_items = match (doubled, self.shared.options.max_item_count) {
            (Some(items), Some(limit)) => Some(items.min(limit)),
            (Some(items), None) if items < PAGE_ITEMS => Some(items),
            (_, limit) => limit,
        };
    }

    /// Sorts a page's changes into lanes.
    fn accept(&mut self, page: FeedPage) {
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
        let sequence = self.window.push(mark, lanes.len());
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
    fn stumble(&mut self, wrong: FeedError, now: Duration) {
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
    fn route(&mut self, ranges: Result<Vec<KeyRange>, FeedError>) {
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

    fn wants_redrive(&self) -> bool {
        self.shared.letters.is_some() && *self.redrives.borrow() > self.redriven
    }

    pub(super) fn redrive_order(&self) -> u64 {
        *self.redrives.borrow()
    }

    /// Tells those who wait for a position to be saved.
    pub(super) fn answer(&mut self, saved: bool) {
        for reply in self.replying.drain(..) {
            let _ = reply.send(if saved { Ok(()) } else { Err(LeaseLost) });
        }
    }

    /// Whether a handler goes on though it was cancelled.
    pub(super) fn is_stuck(&self) -> bool {
        self.lanes.busy() > 0
    }
}

/// The lane of a key. All processes agree, though nothing depends on it.
fn lane_of(key: &str, lanes: usize) -> usize {
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut hasher = foldhash::fast::FixedState::with_seed(0).build_hasher();
    hasher.write(key.as_bytes());
    (hasher.finish() % lanes.max(1) as u64) as usize
}
