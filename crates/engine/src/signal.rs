//! A value that changes now and then, and that others wait for.
//!
//! Who waits is woken in the order in which they began to: tokio's `watch` wakes them in an order
//! of chance, and a simulation could then not be played again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// See the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Signal<T> {
    state: Mutex<(u64, T)>,
    changed: Notify,
}

/// A state of a signal: what comes after it has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl<T: Copy> Signal<T> {
    pub fn new(value: T) -> Self {
        Self { state: Mutex::new((0, value)), changed: Notify::new() }
    }

    /// Sets the value, and wakes all who wait.
    pub fn set(&self, value: T) {
        {
            let mut state = self.state();
            *state = (state.0 + 1, value);
        }
        self.changed.notify_waiters();
    }

    /// What has been seen from now on.
    pub fn seen(&self) -> Seen {
        Seen(self.state().0)
    }

    /// Resolves once the value has been set since.
    pub async fn changed(&self, seen: Seen) {
        self.wait(|state| state.0 != seen.0).await;
    }

    /// The value, once it is as wanted.
    pub async fn wait_for(&self, wanted: impl Fn(T) -> bool) -> T {
        self.wait(|state| wanted(state.1)).await
    }

    async fn wait(&self, done: impl Fn((u64, T)) -> bool) -> T {
        loop {
            // Before the look: what is set from here on wakes us.
            let changed = self.changed.notified();
            let state = *self.state();
            if done(state) {
                return state.1;
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, (u64, T)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
