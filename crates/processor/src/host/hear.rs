//! What a host hears: of its heartbeats, and from its workers.

use std::time::Duration;

use super::beat::Beaten;
use super::{Host, REST, Told};
use crate::observer::CloseReason;
use crate::range::Ended;

impl Host {
    pub(super) fn beaten(&mut self, beaten: Beaten) {
        let now = self.shared.env.now();
        match beaten {
            Beaten::Confirmed { member, etag } => {
                self.etag = etag;
                self.member.beat = member.beat;
                self.put_self();
                if self.known_in != self.shared.fence.spell() {
                    self.list_at = now;
                }
                self.beat_at = self.beat_at.max(now) + self.shared.options.beat_interval();
                if member.state != self.member.state {
                    self.beat_at = now;
                } else if self.stop.is_some() {
                    self.keep_until = now;
                }
            }
            Beaten::Replaced => {
                self.shared.fence.close();
                let name = &self.member.instance;
                let text = format!(
                    "another process has started under the instance name '{name}'; this one has stopped"
                );
                self.shared.alarm(None, text.clone());
                self.error = Some(text);
            }
            Beaten::Refused(why) => {
                self.shared.alarm(None, format!("the lease container refuses a heartbeat: {why}"));
                self.beat_at = now + self.shared.options.beat_interval();
            }
        }
    }

    pub(super) fn hear(&mut self, told: Told) {
        let now = self.shared.env.now();
        match told {
            Told::Taken(lease) => {
                let epoch = self.epochs.entry(lease.id.clone()).or_default();
                *epoch = lease.epoch().max(*epoch);
                self.fleet.wrote(*lease, now);
            }
            Told::NotTaken { id, why } => {
                self.slots.remove(&id);
                if self.is_joining(&id) {
                    self.give_up_join(now);
                }
                let rest = if why.is_some() { REST } else { Duration::from_millis(200) };
                if let Some(why) = why {
                    self.shared.alarm(Some(&id), format!("a lease cannot be taken: {why}"));
                }
                self.resting.insert(id, now + rest);
                self.list_at = self.list_at.min(now);
            }
            Told::Ended(ended) => self.ended(*ended, now),
        }
    }

    fn ended(&mut self, ended: Ended, now: Duration) {
        let id = ended.tenure.lease.id.clone();
        self.slots.remove(&id);
        let epoch = self.epochs.entry(id.clone()).or_default();
        *epoch = ended.epoch.max(*epoch);
        if self.rests(&ended, now) {
            return;
        }
        let lease = ended.tenure.lease;
        match ended.reason {
            CloseReason::LeaseLost => self.list_at = now,
            CloseReason::ObserverError | CloseReason::ResourceGone | CloseReason::Refused => {
                self.resting.insert(id.clone(), now + REST);
                self.fleet.wrote(lease, now);
            }
            _ if ended.removed => self.fleet.remove_lease(&id),
            _ => self.fleet.wrote(lease, now),
        }
        for child in ended.children {
            self.fleet.wrote(child, now);
        }
        if ended.fatal.is_some() {
            self.error = ended.fatal;
        }
    }
}
