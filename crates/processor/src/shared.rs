//! What all tasks of one processor share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cut::{KeyRange, Seat};
use crate::env::{Env, Rule};
use crate::feed::{Feed, FeedError};
use crate::fence::{Fence, Safety, Spell};
use crate::lease::Lease;
use crate::monitor::{Event, Monitor};
use crate::names::Names;
use crate::observer::Factory;
use crate::options::Options;
use crate::store::{LeaseStore, StoreError, Stored};

pub(crate) struct Shared {
    pub env: Arc<dyn Env>,
    pub store: Arc<dyn LeaseStore>,
    pub feed: Arc<dyn Feed>,
    /// The dead-letter container.
    pub letters: Option<Arc<dyn LeaseStore>>,
    pub observers: Factory,
    pub monitors: Vec<Arc<dyn Monitor>>,
    pub options: Options,
    pub names: Names,
    pub fence: Fence,
    /// Whether hosts of another library are about, which look at each lease's timestamp.
    pub has_peers: AtomicBool,
    /// The ranges as last read.
    pub ranges: Mutex<Vec<KeyRange>>,
    write_ids: AtomicU64,
}

impl Shared {
    #[expect(clippy::too_many_arguments, reason = "called once, by the builder")]
    pub fn new(
        env: Arc<dyn Env>,
        store: Arc<dyn LeaseStore>,
        feed: Arc<dyn Feed>,
        letters: Option<Arc<dyn LeaseStore>>,
        observers: Factory,
        monitors: Vec<Arc<dyn Monitor>>,
        options: Options,
        names: Names,
    ) -> Self {
        let fence = Fence::new(options.lease_expiration_interval, env.keeps(Rule::Fence));
        Self {
            env,
            store,
            feed,
            letters,
            observers,
            monitors,
            options,
            names,
            fence,
            has_peers: AtomicBool::new(false),
            ranges: Mutex::new(Vec::new()),
            write_ids: AtomicU64::new(0),
        }
    }

    pub fn tell(&self, event: &Event) {
        for monitor in &self.monitors {
            monitor.event(event);
        }
    }

    pub fn alarm(&self, lease: Option<&str>, message: impl Into<String>) {
        let lease = lease.map(str::to_owned);
        self.tell(&Event::Alarm { lease, message: message.into() });
    }

    pub fn retrying(&self, lease: Option<&str>, error: impl ToString) {
        let lease = lease.map(str::to_owned);
        self.tell(&Event::Retrying { lease, error: error.to_string() });
    }

    pub fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// What may be done now by what rests on a spell.
    pub fn safety_in(&self, spell: Spell) -> Safety {
        self.fence.safety_in(spell, self.env.now())
    }

    /// Hosts of other libraries write rarely; with them around, patience is theirs at least.
    pub fn expiration(&self) -> Duration {
        self.options.lease_expiration_interval
    }

    pub fn write_id(&self) -> u64 {
        self.env.random() ^ self.write_ids.fetch_add(1, Ordering::Relaxed)
    }

    pub fn known_ranges(&self) -> Vec<KeyRange> {
        self.ranges.lock().map(|ranges| ranges.clone()).unwrap_or_default()
    }

    /// Asks for the ranges, and remembers them.
    pub async fn read_ranges(&self) -> Result<Vec<KeyRange>, FeedError> {
        let found = self.feed.ranges().await?;
        if let Ok(mut ranges) = self.ranges.lock() {
            ranges.clone_from(&found);
        }
        Ok(found)
    }

    /// Lists everything in the lease container, however long it takes; refusals are final.
    pub async fn list(&self) -> Result<Vec<Stored>, StoreError> {
        let mut patience = Patience::default();
        loop {
            match self.store.list(&self.names.all()).await {
                Err(StoreError::Throttled(wait)) => patience.wait(self, Some(wait)).await,
                Err(wrong @ StoreError::Unknown(_)) => {
                    self.retrying(None, wrong);
                    patience.wait(self, None).await;
                }
                answer => return answer,
            }
        }
    }

    /// Whether the partition key of changes has to be known.
    pub fn needs_keys(&self) -> bool {
        self.options.lanes > 1 || self.options.error_policy.sets_aside()
    }

    /// The document's own partition key, where the container wants one.
    pub fn partition_key(&self, id: &str) -> Option<String> {
        self.store.keyed().then(|| id.to_owned())
    }

    /// A lease of another seat that goes on where one is, not stored yet.
    pub fn seated(&self, seat: &Seat, from: &Lease) -> Lease {
        let id = self.names.lease(&seat.token);
        Lease {
            partition_key: self.partition_key(&id),
            id,
            token: seat.token.clone(),
            kind: seat.kind,
            span: Some(seat.span.clone()),
            from_v2: false,
            etag: String::new(),
            ts: 0,
            ..from.clone()
        }
    }
}

/// A wait that grows while nothing answers.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    failures: u32,
}

impl Patience {
    /// Waits a little longer than last time.
    pub async fn wait(&mut self, shared: &Shared, at_least: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        let backoff = crate::policy::Backoff { max: Duration::from_secs(5), ..Default::default() };
        let wait = backoff.wait(self.failures, shared.env.random());
        shared.env.sleep(wait.max(at_least.unwrap_or_default())).await;
    }
}
