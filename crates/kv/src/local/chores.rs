//! What is done behind the commits, on one thread: reclaiming segments, trimming, going through keys,
//! and counting live bytes.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use super::count::Count;
use super::keys::Survey;
use super::reclaim::Reclaimer;
use super::trim::{self, Trim};
use crate::Result;

/// How long a trim waits when the queue is full.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// What lies between two steps of going through rows, so that it is not noticed.
const STEP_PAUSE: Duration = Duration::from_millis(10);

/// A flag that ends waits.
#[derive(Default)]
pub(crate) struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub(crate) fn set(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits, and says whether the store stops.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        if *stopped || time.is_zero() {
            return *stopped;
        }
        let waited = self.changed.wait_timeout_while(stopped, time, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The list of chores, and who does them.
pub(crate) struct Chores {
    list: Mutex<List>,
    changed: Condvar,
    pub stop: Stop,
    reclaimer: Mutex<Reclaimer>,
    survey: Mutex<Survey>,
    count: Mutex<Count>,
}

#[derive(Default)]
struct List {
    look: bool,
    /// There are rows to be gone through.
    step: bool,
    trims: VecDeque<Trim>,
    closed: bool,
}

impl Chores {
    pub(crate) fn new(reclaimer: Reclaimer, survey: Survey, count: Count) -> Self {
        Self {
            list: Mutex::default(),
            changed: Condvar::new(),
            stop: Stop::default(),
            reclaimer: Mutex::new(reclaimer),
            survey: Mutex::new(survey),
            count: Mutex::new(count),
        }
    }

    /// Has segments looked at.
    pub(crate) fn look(&self) {
        let mut list = self.list();
        if !list.look {
            list.look = true;
            self.changed.notify_all();
        }
    }

    /// Adds a trim. A later one of the same rows replaces one that still waits.
    pub(crate) fn trim(&self, trim: Trim) {
        let mut list = self.list();
        if list.closed {
            return;
        }
        match list.trims.iter_mut().find(|waiting| waiting.same_rows(&trim)) {
            Some(waiting) => waiting.below = Bytes::max(trim.below, waiting.below.clone()),
            None => list.trims.push_back(trim),
        }
        self.changed.notify_all();
    }

    pub(crate) fn close(&self) {
        let mut list = self.list();
        list.closed = true;
        // Trims hold the store, and the store holds this list.
        let trims = std::mem::take(&mut list.trims);
        drop(list);
        drop(trims);
        self.stop.set();
        self.changed.notify_all();
    }

    /// Reclaims what can be reclaimed, on the calling thread.
    pub(crate) fn reclaim(&self) -> Result<usize> {
        while self.count() {}
        self.reclaim_known()
    }

    fn reclaim_known(&self) -> Result<usize> {
        self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner).run(&self.stop)
    }

    fn run(&self) {
        while let Some((look, step, trim)) = self.next() {
            if look && let Err(error) = self.reclaim_known() {
                tracing::error!(%error, "space could not be reclaimed");
            }
            if (look || step) && (self.count() | self.survey()) {
                self.stop.wait(STEP_PAUSE);
                self.list().step = true;
            }
            if let Some(trim) = trim {
                self.step(trim);
            }
        }
    }

    /// Goes through the next keys, if that is due; whether there are more.
    pub(crate) fn survey(&self) -> bool {
        let mut survey = self.survey.lock().unwrap_or_else(PoisonError::into_inner);
        survey.is_due()
            && survey.step().unwrap_or_else(|error| {
                tracing::error!(%error, "not all items could be gone through");
                false
            })
    }

    /// Counts the next live bytes, if that is due; whether there are more.
    fn count(&self) -> bool {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if !count.is_due() {
            return false;
        }
        match count.step() {
            Ok(true) => true,
            Ok(false) => {
                self.look();
                false
            }
            Err(error) => {
                tracing::error!(%error, "live bytes could not be counted; no space is given back");
                false
            }
        }
    }

    fn step(&self, trim: Trim) {
        match trim::step(&trim) {
            Ok(trim::Step::Done) => {}
            Ok(trim::Step::More) => self.trim(trim),
            Ok(trim::Step::Busy) => {
                self.stop.wait(BUSY_PAUSE);
                self.trim(trim);
            }
            Err(error) => tracing::debug!(%error, "a trim ended early"),
        }
    }

    fn next(&self) -> Option<(bool, bool, Option<Trim>)> {
        let mut list = self.list();
        loop {
            if list.closed {
                return None;
            }
            let (look, step) = (std::mem::take(&mut list.look), std::mem::take(&mut list.step));
            let trim = list.trims.pop_front();
            if look || step || trim.is_some() {
                return Some((look, step, trim));
            }
            list = self.changed.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread.
pub(crate) fn spawn(chores: Arc<Chores>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("kv-chores".into()).spawn(move || chores.run())
}
