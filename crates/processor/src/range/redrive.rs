//! Redriving dead letters: while the range rests, its letters are handled again, in order.

use std::sync::Arc;

use super::worker::Worker;
use crate::env::caught;
use crate::letter::{self, Letter};
use crate::store::{StoreError, Stored};

/// Letters looked at in one pass.
const LETTERS_MAX: usize = 10_000;

impl Worker {
    /// Handles the letters that are flagged, and those that wait behind them. Nothing else of this
    /// range is handled meanwhile, so a key's order holds.
    pub(super) async fn redrive(&mut self) {
        let order = self.redrive_order();
        let Some(letters) = self.shared.letters.clone() else { return };
        let all = match letter::all(letters.as_ref(), &self.shared.names.all()).await {
            Ok(all) => all,
            Err(wrong) => {
                self.shared.retrying(Some(&self.tenure.lease.token), wrong);
                self.shared.env.sleep(std::time::Duration::from_secs(1)).await;
                return;
            }
        };
        let mut failed: Vec<String> = Vec::new();
        let mut woken: Vec<String> = Vec::new();
        for (letter, stored) in all.iter().take(LETTERS_MAX) {
            if self.shared.safety_in(self.spell) != crate::fence::Safety::Safe {
                return;
            }
            let mine = letter.is_for(&self.tenure.lease.token, self.tenure.lease.span.as_ref());
            let due = letter.redrive || (letter.parked && woken.contains(&letter.key));
            if !mine || !due || (letter.parked && failed.contains(&letter.key)) {
                continue;
            }
            woken.push(letter.key.clone());
            if !self.handle_again(letter, stored).await {
                failed.push(letter.key.clone());
            }
        }
        self.unpark().await;
        self.redriven = order;
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
