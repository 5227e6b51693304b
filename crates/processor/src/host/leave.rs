//! A host ends: when, and what it says then.

use std::sync::Arc;
use std::time::Duration;

use super::beat::{Beaten, beat};
use super::{Host, Report};
use crate::fence::Safety;
use crate::member::State;

impl Host {
    /// Whether there is nothing more to do.
    pub(super) fn is_over(&self) -> bool {
        let now = self.shared.env.now();
        let late = self.stop.as_ref().is_some_and(|stop| now >= stop.deadline);
        late || ((self.stop.is_some() || self.error.is_some()) && self.slots.is_empty())
    }

    /// Says good-bye, and reports.
    pub(super) async fn leave(mut self) -> Report {
        let stuck: Vec<String> = self.slots.values().map(|slot| slot.token.clone()).collect();
        self.slots.clear();
        let rejoins = !self.shared.options.rejoin_grace.is_zero() && self.error.is_none();
        // Who did not give everything back has not left: its leases expire.
        let state = if rejoins { State::Away } else { State::Left };
        let replaced = self.shared.fence.safety(self.shared.env.now()) == Safety::Over;
        if !replaced && (stuck.is_empty() || rejoins) {
            let until = self.stop.as_ref().map_or(Duration::ZERO, |stop| stop.deadline);
            let patience = until.saturating_sub(self.shared.env.now()).max(Duration::from_secs(2));
            self.member.state = state;
            let shared = Arc::clone(&self.shared);
            let beating = self.beating.take();
            let (member, mut etag) = (self.member.clone(), self.etag.clone());
            let farewell = async {
                if let Some(beating) = beating
                    && let Beaten::Confirmed { etag: newer, .. } = beating.await
                {
                    etag = newer;
                }
                beat(Arc::clone(&shared), member, etag).await
            };
            tokio::select! {
                biased;
                _ = farewell => {}
                () = self.shared.env.sleep(patience) => {}
            }
        }
        let report = Report { error: self.error, stuck };
        if let Some(stop) = self.stop {
            let _ = stop.done.send(report.clone());
        }
        report
    }
}
