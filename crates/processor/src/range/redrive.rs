//! Redriving dead letters: while the range rests, its letters are handled again, in order.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::worker::Worker;
use crate::env::caught;
use crate::fence::{Safety, Spell};
use crate::letter::{self, Letter};
use crate::shared::Shared;
use crate::store::{StoreError, Stored};

impl Worker {
    /// Handles the letters that are flagged, and those that wait behind them. Nothing else of this
    /// range is handled meanwhile, so a key's order holds. The host may want something else: then the
    /// rest is handled later, or by the next owner.
    pub(super) async fn redrive(&mut self) {
        let order = self.redrive_order();
        let Some(letters) = self.shared.letters.clone() else { return };
        let all = match letter::all(letters.as_ref(), &self.shared.names.all()).await {
            Ok(all) => all,
            Err(wrong) => {
                self.shared.retrying(Some(&self.tenure.lease.token), wrong);
                self.shared.env.sleep(Duration::from_secs(1)).await;
                return;
            }
        };
        let mut failed: HashSet<String> = HashSet::new();
        let mut woken: HashSet<String> = HashSet::new();
        for (letter, stored) in &all {
            self.obey();
            if !self.may_handle() {
                return;
            }
            let mine = letter.is_for(&self.tenure.lease.token, self.tenure.lease.span.as_ref());
            let due = letter.redrive || (letter.parked && woken.contains(&letter.key));
            if !mine || !due || (letter.parked && failed.contains(&letter.key)) {
                continue;
            }
            woken.insert(letter.key.clone());
            if !self.handle_again(letter, stored).await {
                failed.insert(letter.key.clone());
            }
        }
        if self.may_handle() {
            self.unpark().await;
            self.redriven = order;
        }
    }

    async fn handle_again(&mut self, letter: &Letter, stored: &Stored) -> bool {
        let change = letter.change(self.shared.feed.key_paths());
        let context = self.context(letter.lsn, String::new(), Arc::new(Vec::new()), u64::MAX);
        let changes = [change];
        let observer = Arc::clone(&self.observer);
        let shared = Arc::clone(&self.shared);
        let limit = shared.options.handler_timeout.unwrap_or(shared.options.drain_timeout);
        let done = tokio::select! {
            biased;
            done = caught(observer.process(&context, &changes)) => done,
            () = shared.env.sleep(limit) => Err(format!("the handler did not return within {limit:?}")),
            () = until_over(&shared, self.spell) => return false,
        };
        let error = match done {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(panic),
        };
        let Some(letters) = &shared.letters else { return false };
        let Some(error) = error else {
            // Handled twice is allowed, lost is not: it goes only now.
            return matches!(letters.delete(stored).await, Ok(()) | Err(StoreError::Missing));
        };
        let again = Letter {
            redrive: false,
            attempts: letter.attempts.saturating_add(1),
            error: Some(letter::shortened(&error)),
            ..letter.clone()
        };
        if let Err(wrong) = letters.replace(&again.write(), &stored.etag).await {
            shared.retrying(Some(&context.lease), wrong);
        }
        false
    }

    /// Keys without letters are free again.
    async fn unpark(&mut self) {
        let Some(letters) = self.shared.letters.clone() else { return };
        let Ok(left) = letter::all(letters.as_ref(), &self.shared.names.all()).await else {
            return;
        };
        let before = self.parked.len();
        self.parked
            .retain(|key| left.iter().any(|(letter, _)| letter.parked && letter.key == *key));
        self.parked_changed |= self.parked.len() != before;
    }
}

/// Waits until others may think us dead.
async fn until_over(shared: &Shared, spell: Spell) {
    while shared.safety_in(spell) != Safety::Over {
        let now = shared.env.now();
        let nap = shared.fence.next_change(now).saturating_sub(now);
        shared.env.sleep(nap.max(Duration::from_millis(1))).await;
    }
}
