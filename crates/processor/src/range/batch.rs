//! One batch in one lane: tries it, waits, tries again, and sets aside what the policy says.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};

use crate::change::Change;
use crate::env::caught;
use crate::fence::{Safety, Spell};
use crate::letter::{self, Letter};
use crate::monitor::Event;
use crate::observer::{AnyObserver, Context};
use crate::policy::{OnFailure, Step, Trial};
use crate::range::{Gate, Note, Outcome};
use crate::shared::{Patience, Shared};
use crate::store::StoreError;

/// A batch on its way to the handler.
pub(crate) struct Batch {
    pub shared: Arc<Shared>,
    pub observer: Arc<dyn AnyObserver>,
    pub spell: Spell,
    pub context: Context,
    pub changes: Vec<Change>,
    /// The place of each change within its page, so that letters of one commit keep their order.
    pub places: Vec<usize>,
    pub lane: usize,
    /// Keys whose changes go straight to the dead-letter container.
    pub parked: Vec<String>,
    /// Known to kill its handler: set aside without another try.
    pub condemned: bool,
    pub gate: watch::Receiver<Gate>,
}

/// Tells the worker how a batch has ended, also when the task was cancelled.
struct Report {
    notes: mpsc::UnboundedSender<Note>,
    lane: usize,
    sequence: u64,
    outcome: Option<Outcome>,
}

impl Drop for Report {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or(Outcome::Unfinished);
        let _ =
            self.notes.send(Note::Finished { lane: self.lane, sequence: self.sequence, outcome });
    }
}

impl Batch {
    /// Handles the batch.
    pub async fn run(self) {
        let mut report = Report {
            notes: self.context.notes.clone(),
            lane: self.lane,
            sequence: self.context.sequence,
            outcome: None,
        };
        let outcome = self.handle().await;
        report.outcome = Some(outcome);
    }

    async fn handle(mut self) -> Outcome {
        let policy = self.shared.options.error_policy.clone();
        let mut trial = Trial::new(self.changes.len());
        if self.condemned {
            return self.condemn().await;
        }
        let mut newly_parked = Vec::new();
        let mut error = String::new();
        let mut has_failed = false;
        loop {
            let part = match trial.step(&policy) {
                Step::Done => return Outcome::Done { parked: newly_parked },
                Step::Stop => return Outcome::Stop(error),
                Step::SetAside(item) => {
                    self.set_aside(item, Some(&error), trial.failures().max(1)).await;
                    if policy.then == OnFailure::ParkKey {
                        let key = self.changes[item].key().to_owned();
                        self.parked.push(key.clone());
                        newly_parked.push(key);
                    }
                    trial.passed();
                    continue;
                }
                Step::Handle(part) => part,
            };
            if !self.pass(has_failed).await {
                return Outcome::Unfinished;
            }
            match self.hand_over(part).await {
                Ok(()) => trial.passed(),
                Err(wrong) => {
                    error = wrong;
                    has_failed = true;
                    let wait = trial.failed(&policy, self.shared.env.random());
                    self.tell_failure(trial.failures(), &error);
                    if !self.rest(wait).await {
                        return Outcome::Unfinished;
                    }
                }
            }
        }
    }

    /// Sets all of it aside: which of a transaction's changes kills its handler cannot be told.
    async fn condemn(&self) -> Outcome {
        for item in 0..self.changes.len() {
            self.set_aside(item, Some("its process died while it was handled"), 1).await;
        }
        let parks = self.shared.options.error_policy.then == OnFailure::ParkKey;
        let keys = self.changes.iter().map(|change| change.key().to_owned());
        Outcome::Done { parked: if parks { keys.collect() } else { Vec::new() } }
    }

    fn tell_failure(&self, failures: u32, error: &str) {
        let lease = self.context.lease.clone();
        self.shared.tell(&Event::HandlerFailed { lease, failures, error: error.to_owned() });
    }

    /// Waits until handlers may be called; false if they will not be. What has failed is not tried
    /// again while the lease is on its way out.
    async fn pass(&mut self, has_failed: bool) -> bool {
        let open = self.gate.wait_for(|gate| *gate != Gate::Held).await;
        // Time may have passed since the worker let it begin: a process can be stopped anywhere.
        let may_act = self.shared.safety_in(self.spell) != Safety::Over;
        may_act && open.is_ok_and(|gate| *gate == Gate::Open || !has_failed)
    }

    /// Waits before the next try; false if there will be none.
    async fn rest(&mut self, time: Duration) -> bool {
        if time.is_zero() {
            return true;
        }
        tokio::select! {
            biased;
            _ = self.gate.wait_for(|gate| *gate == Gate::Draining) => false,
            () = self.shared.env.sleep(time) => true,
        }
    }

    /// Calls the handler with those of the changes whose keys are not parked.
    async fn hand_over(&self, part: std::ops::Range<usize>) -> Result<(), String> {
        if self.parked.is_empty() {
            return self.call(&self.changes[part]).await;
        }
        let mut open = Vec::with_capacity(part.len());
        for item in part {
            if self.parked.iter().any(|key| key == self.changes[item].key()) {
                self.set_aside(item, None, 0).await;
            } else {
                open.push(self.changes[item].clone());
            }
        }
        self.call(&open).await
    }

    /// Calls the handler, for as long as it may take.
    async fn call(&self, open: &[Change]) -> Result<(), String> {
        if open.is_empty() {
            return Ok(());
        }
        let began = self.shared.env.now();
        let call = caught(self.observer.process(&self.context, open));
        let done = match self.shared.options.handler_timeout {
            None => call.await,
            Some(limit) => tokio::select! {
                biased;
                done = call => done,
                () = self.shared.env.sleep(limit) => {
                    Err(format!("the handler did not return within {limit:?}"))
                }
            },
        };
        done?.map_err(|error| error.to_string())?;
        self.shared.tell(&Event::Handled {
            lease: self.context.lease.clone(),
            items: open.len(),
            took: self.shared.env.now().saturating_sub(began),
        });
        Ok(())
    }

    /// Writes a letter, however long it takes: until then nothing behind it is handled.
    async fn set_aside(&self, item: usize, error: Option<&str>, attempts: u32) {
        let Some(letters) = &self.shared.letters else { return };
        let change = &self.changes[item];
        let id = letter::id(&self.shared.names.all(), change, self.places[item]);
        let text = String::from_utf8_lossy(change.raw()).into_owned();
        let raw = RawValue::from_string(text).or_else(|_| RawValue::from_string("null".into()));
        let Ok(raw) = raw else { return };
        let letter = Letter {
            partition_key: letters.keyed().then(|| id.clone()),
            id,
            lease_token: self.context.lease.clone(),
            span: self.context.span.as_ref().map(ToString::to_string).unwrap_or_default(),
            key: change.key().to_owned(),
            parked: self.shared.options.error_policy.then == OnFailure::ParkKey,
            lsn: change.lsn(),
            place: self.places[item],
            error: error.map(letter::shortened),
            attempts,
            at: self.shared.env.wall().as_secs(),
            redrive: false,
            item: raw,
        };
        let mut patience = Patience::default();
        while let Err(wrong) = letter::post(letters.as_ref(), &letter).await {
            let wait = if let StoreError::Throttled(wait) = &wrong { Some(*wait) } else { None };
            self.shared.alarm(
                Some(&self.context.lease),
                format!(
                    "the dead-letter container does not take a letter, its range waits: {wrong}"
                ),
            );
            patience.wait(&self.shared, wait).await;
        }
        let error = error.unwrap_or("waits behind an earlier change of its key").to_owned();
        let lease = self.context.lease.clone();
        self.shared.tell(&Event::SetAside { lease, lsn: change.lsn(), error });
    }
}
