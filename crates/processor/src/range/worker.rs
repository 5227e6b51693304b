//! The worker of a lease: reads ahead, hands out to lanes, saves positions, obeys its host.
//!
//! One loop: start whatever may be started, then wait for one thing to happen. What may be started
//! follows from the state alone; nothing here waits for anything else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::batch::Batch;
use super::write::NotWritten;
use super::{Gate, Goal, Note, Order, Outcome};
use crate::change::Change;
use crate::cut::{KeyRange, Seat};
use crate::env::{Later, Task};
use crate::feed::{FeedError, FeedPage};
use crate::fence::{Safety, Spell};
use crate::lease::{Lease, Owner, extra};
use crate::monitor::Event;
use crate::observer::{AnyObserver, CloseReason, Context, LeaseLost};
use crate::position::Start;
use crate::shared::Shared;
use crate::tenure::Tenure;
use crate::window::{Lanes, Mark, Window};

/// Shortest wait between polls of a feed that is drained but was busy.
pub(super) const POLL_MIN: Duration = Duration::from_millis(100);
/// How long a cancelled handler is waited for.
pub(super) const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// Pages read one change at a time after a range was suspected, before it is trusted again.
const CAREFUL_PAGES: u64 = 100;

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
    Keep(CloseReason),
    /// The range was split or merged.
    Divide(Vec<Seat>),
    /// The lease is not needed: others have all of it.
    Vanish,
    /// Nothing may be written any more.
    Abandon(CloseReason),
    /// The policy is to stop: release, and say why.
    Stop(String),
}

/// A page whose batches are not all handled.
pub(super) struct OpenPage {
    pub(super) batches: usize,
    pub(super) bytes: usize,
}

/// A batch that waits for its lane.
pub(super) struct Waiting {
    pub(super) context: Context,
    pub(super) changes: Vec<Change>,
    pub(super) places: Vec<usize>,
    pub(super) condemned: bool,
}

pub(crate) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) tenure: Tenure,
    /// The tenure is known to be ours for as long as this lasts.
    pub(super) spell: Spell,
    pub(super) observer: Arc<dyn AnyObserver>,
    pub(super) opened: bool,
    pub(super) orders: watch::Receiver<Order>,
    pub(super) redrives: watch::Receiver<u64>,
    pub(super) redriven: u64,
    pub(super) notes: mpsc::UnboundedReceiver<Note>,
    pub(super) notes_in: mpsc::UnboundedSender<Note>,
    pub(super) gate: watch::Sender<Gate>,
    pub(super) window: Window,
    pub(super) lanes: Lanes<Waiting>,
    pub(super) tasks: Vec<Option<Task>>,
    pub(super) open_pages: BTreeMap<u64, OpenPage>,
    /// The last page of which something was handed out.
    pub(super) begun: Option<u64>,
    pub(super) parked: Vec<String>,
    pub(super) parked_changed: bool,
    /// Where the next read begins.
    pub(super) position: Start,
    pub(super) reading: Option<Later<'static, Brought>>,
    pub(super) read_at: Duration,
    pub(super) read_deadline: Duration,
    pub(super) poll_delay: Duration,
    pub(super) holder: Option<KeyRange>,
    pub(super) stale_ranges: bool,
    pub(super) max_items: Option<u32>,
    pub(super) failures: u32,
    pub(super) writing: Option<Later<'static, Result<Lease, NotWritten>>>,
    /// What the write that is under way will have saved, and who waits for it.
    pub(super) written_mark: Option<Mark>,
    pub(super) repliers: Vec<oneshot::Sender<Result<(), LeaseLost>>>,
    pub(super) replying: Vec<oneshot::Sender<Result<(), LeaseLost>>>,
    pub(super) processed: u64,
    pub(super) saved_at: Duration,
    /// Pages still to be read with care; how many deaths there were when it was taken.
    pub(super) careful: u64,
    pub(super) condemn_next: bool,
    pub(super) rate: f64,
    /// Where to stop reading, and whether that was reached.
    pub(super) goal: Option<Goal>,
    pub(super) is_there: bool,
    pub(super) exit: Option<Exit>,
    pub(super) drain_by: Duration,
    pub(super) cancelled: bool,
}

impl Worker {
    pub fn new(
        shared: Arc<Shared>,
        tenure: Tenure,
        spell: Spell,
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
            goal: None,
            is_there: false,
            exit: None,
            drain_by: Duration::MAX,
            cancelled: false,
            gate: watch::channel(Gate::Open).0,
            shared,
            tenure,
            spell,
            orders,
            redrives,
            notes,
            notes_in,
        }
    }

    /// Works until the lease is no longer ours.
    pub async fn run(mut self) -> super::Ended {
        self.resume_division();
        if self.exit.is_none() {
            self.remove_parts().await;
        }
        if self.exit.is_none() {
            self.await_parent().await;
        }
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
                if self.wants_redrive() && self.may_handle() {
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
        let safety = self.shared.fence.safety_in(self.spell, now);
        if self.is_there && self.goal.is_some() && self.window.is_empty() {
            self.exit.get_or_insert(Exit::Keep(CloseReason::LeaseGone));
        }
        if self.exit.is_some() {
            self.start_draining(now);
            if safety == Safety::Safe && !self.cancelled {
                self.start_batches();
            }
        } else {
            let may_handle = self.may_handle();
            let gate = if may_handle { Gate::Open } else { Gate::Held };
            self.gate.send_if_modified(|old| std::mem::replace(old, gate) != gate);
            if may_handle && !self.wants_redrive() {
                self.start_batches();
            }
            self.start_read(now);
        }
        self.start_write(now);
    }

    /// Whether handlers may be called.
    pub(super) fn may_handle(&self) -> bool {
        let is_safe = self.shared.safety_in(self.spell) == Safety::Safe;
        is_safe && self.exit.is_none() && *self.orders.borrow() != Order::Hold
    }

    fn start_batches(&mut self) {
        while let Some((lane, waiting)) = self.lanes.begin() {
            self.begun = self.begun.max(Some(waiting.context.sequence));
            let batch = Batch {
                shared: Arc::clone(&self.shared),
                observer: Arc::clone(&self.observer),
                spell: self.spell,
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
                match outcome {
                    Outcome::Done { .. } => self.lanes.free(lane),
                    Outcome::Unfinished | Outcome::Stop(_) => self.lanes.abandon(lane),
                }
                self.finished(sequence, outcome);
            }
        }
    }

    pub(super) fn wants_redrive(&self) -> bool {
        self.shared.letters.is_some() && *self.redrives.borrow() > self.redriven
    }

    pub(super) fn redrive_order(&self) -> u64 {
        *self.redrives.borrow()
    }

    /// Whether a handler goes on though it was cancelled.
    pub(super) fn is_stuck(&self) -> bool {
        self.lanes.busy() > 0
    }
}
