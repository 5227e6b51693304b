//! Every option, its default, and which of them contradict each other.

use std::time::Duration;

use crate::lease::Mode;
use crate::policy::ErrorPolicy;
use crate::position::Start;

/// Most lanes of one range.
pub const LANES_MAX: usize = 4096;
/// Most pages read ahead.
pub const PREFETCH_PAGES_MAX: usize = 1024;
/// Most sub-ranges of one partition.
pub const PIECES_MAX: usize = 256;
/// Longest instance name and lease prefix; both become part of document ids.
const NAME_BYTES_MAX: usize = 128;
/// Longest wait that a service grants.
const LONG_POLL_MAX: Duration = Duration::from_secs(60);

/// When positions are saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointFrequency {
    /// Only when the handler says so ([`crate::Context::checkpoint`]).
    pub explicit_checkpoint: bool,
    /// After so many changes.
    pub processed_document_count: Option<u64>,
    /// After so long.
    pub time_interval: Option<Duration>,
}

impl CheckpointFrequency {
    /// Whether a position should be saved now. With neither number, after every batch.
    pub fn is_due(&self, processed: u64, since_last: Duration) -> bool {
        match (self.processed_document_count, self.time_interval) {
            (None, None) => true,
            (count, time) => {
                count.is_some_and(|count| processed >= count)
                    || time.is_some_and(|time| since_last >= time)
            }
        }
    }
}

/// How a processor works. The first group are the options of the other libraries, with their
/// defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// First part of every lease id: one per purpose, so that several may share a container.
    pub lease_prefix: String,
    /// This process among others; unique at any time. A second one of the same name takes its place.
    pub instance_name: String,
    /// How often a host says that it lives. At least three times per expiration interval, whatever
    /// is set here.
    pub lease_renew_interval: Duration,
    /// How often the leases are looked over where the store does not tell of changes.
    pub lease_acquire_interval: Duration,
    /// A host that has not been heard of for so long has lost its leases.
    pub lease_expiration_interval: Duration,
    /// Longest wait between polls of a drained feed, where the service cannot hold a request.
    pub feed_poll_delay: Duration,
    /// When positions are saved.
    pub checkpoint_frequency: CheckpointFrequency,
    /// Fewest leases for this host; 0: no floor.
    pub min_partition_count: usize,
    /// Most leases for this host; 0: no limit.
    pub max_partition_count: usize,
    /// Delete all leases when starting, and their positions with them.
    pub discard_existing_leases: bool,
    /// Changes per page; the service decides if nothing is said.
    pub max_item_count: Option<u32>,
    /// Refused: a processor shares out all ranges. Here so that the refusal can be read.
    pub partition_key_range_id: Option<String>,
    /// Begin after this etag where a lease has no position.
    pub request_continuation: Option<String>,
    /// The session to read in.
    pub session_token: Option<String>,
    /// Begin with the oldest change where a lease has no position.
    pub start_from_beginning: bool,
    /// Begin after this time since 1970 where a lease has no position.
    pub start_time: Option<Duration>,

    /// Latest versions, or all versions and deletes.
    pub mode: Mode,
    /// Keys handled side by side within a range. Changes of one key stay in order.
    pub lanes: usize,
    /// Pages read ahead of the handler.
    pub prefetch_pages: usize,
    /// Bytes read ahead of the handler, after which reading waits.
    pub prefetch_bytes: usize,
    /// Leases per partition key range, so that more hosts than ranges can work.
    pub ranges_per_partition: usize,
    /// What happens when the handler fails.
    pub error_policy: ErrorPolicy,
    /// How much this host carries compared with others.
    pub weight: f64,
    /// Balance by changes per second rather than by number of leases.
    pub balance_by_load: bool,
    /// For how long others leave this host's leases alone after it has stopped, so that it finds
    /// them again when it restarts under its name.
    pub rejoin_grace: Duration,
    /// How long a handler may go on when its lease is to move.
    pub drain_timeout: Duration,
    /// A handler that runs longer is cancelled, and has failed.
    pub handler_timeout: Option<Duration>,
    /// A read without an answer is given up after this, beyond any wait it asked for.
    pub read_timeout: Duration,
    /// For how long the service is asked to hold a read until there is something. Services that
    /// cannot are polled. Zero: never ask.
    pub long_poll: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lease_prefix: String::new(),
            instance_name: String::new(),
            lease_renew_interval: Duration::from_secs(17),
            lease_acquire_interval: Duration::from_secs(13),
            lease_expiration_interval: Duration::from_secs(60),
            feed_poll_delay: Duration::from_secs(5),
            checkpoint_frequency: CheckpointFrequency::default(),
            min_partition_count: 0,
            max_partition_count: 0,
            discard_existing_leases: false,
            max_item_count: None,
            partition_key_range_id: None,
            request_continuation: None,
            session_token: None,
            start_from_beginning: false,
            start_time: None,
            mode: Mode::Latest,
            lanes: 1,
            prefetch_pages: 2,
            prefetch_bytes: 16 << 20,
            ranges_per_partition: 1,
            error_policy: ErrorPolicy::default(),
            weight: 1.0,
            balance_by_load: false,
            rejoin_grace: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            handler_timeout: None,
            read_timeout: Duration::from_secs(65),
            long_poll: Duration::from_secs(30),
        }
    }
}

/// Options that cannot be meant so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Contradiction(pub String);

impl Options {
    /// Short intervals for fleets that are all ours: a lost host is noticed after 15 seconds.
    pub fn brisk() -> Self {
        Self {
            lease_renew_interval: Duration::from_secs(5),
            lease_acquire_interval: Duration::from_secs(2),
            lease_expiration_interval: Duration::from_secs(15),
            ..Self::default()
        }
    }

    /// How often a host says that it lives.
    pub fn beat_interval(&self) -> Duration {
        self.lease_renew_interval.min(self.lease_expiration_interval / 3)
    }

    /// Where a lease without a position begins.
    pub fn start(&self) -> Start {
        match (&self.request_continuation, self.start_time) {
            (Some(etag), _) => Start::After(etag.clone()),
            (None, Some(time)) => Start::Time(time),
            (None, None) if self.start_from_beginning => Start::Beginning,
            (None, None) => Start::Now,
        }
    }

    /// Refuses what contradicts itself.
    pub fn check(&self, has_dead_letters: bool) -> Result<(), Contradiction> {
        let wrong = self.wrong_names().or_else(|| self.wrong_times());
        let wrong = wrong.or_else(|| self.wrong_start()).or_else(|| self.wrong_sizes());
        let wrong = wrong.or_else(|| {
            let lost = self.error_policy.sets_aside() && !has_dead_letters;
            lost.then(|| "error_policy sets items aside, but there is no dead-letter container to put them in".into())
        });
        wrong.map_or(Ok(()), |text: String| Err(Contradiction(text)))
    }

    fn wrong_names(&self) -> Option<String> {
        for (option, name) in
            [("instance_name", &self.instance_name), ("lease_prefix", &self.lease_prefix)]
        {
            if name.len() > NAME_BYTES_MAX {
                return Some(format!("{option} is longer than {NAME_BYTES_MAX} bytes"));
            }
            if name.contains(['/', '\\', '?', '#', '~']) || name.chars().any(char::is_control) {
                return Some(format!(
                    "{option} '{name}' has a character that document ids cannot have: / \\ ? # ~"
                ));
            }
        }
        let unnamed = self.instance_name.is_empty();
        unnamed.then(|| "instance_name must be set, to something unique for each process".into())
    }

    fn wrong_times(&self) -> Option<String> {
        let times = [
            ("lease_renew_interval", self.lease_renew_interval),
            ("lease_acquire_interval", self.lease_acquire_interval),
            ("lease_expiration_interval", self.lease_expiration_interval),
            ("feed_poll_delay", self.feed_poll_delay),
            ("read_timeout", self.read_timeout),
        ];
        if let Some((option, _)) = times.iter().find(|(_, time)| time.is_zero()) {
            return Some(format!("{option} must be longer than nothing"));
        }
        if self.lease_renew_interval >= self.lease_expiration_interval {
            return Some("lease_renew_interval must be shorter than lease_expiration_interval, or leases expire between two renewals".into());
        }
        if self.handler_timeout.is_some_and(|time| time.is_zero()) {
            return Some("handler_timeout must be longer than nothing".into());
        }
        (self.long_poll > LONG_POLL_MAX)
            .then(|| format!("long_poll is longer than {} seconds", LONG_POLL_MAX.as_secs()))
    }

    fn wrong_start(&self) -> Option<String> {
        if self.partition_key_range_id.is_some() {
            return Some("partition_key_range_id: a processor shares out all ranges among its hosts; to read one range alone, use the pull model of the client".into());
        }
        let said = [
            ("request_continuation", self.request_continuation.is_some()),
            ("start_time", self.start_time.is_some()),
            ("start_from_beginning", self.start_from_beginning),
        ];
        let said: Vec<&str> = said.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if said.len() > 1 {
            return Some(format!(
                "{} say different things about where to begin: set one",
                said.join(" and ")
            ));
        }
        let frequency = self.checkpoint_frequency;
        let timed =
            frequency.processed_document_count.is_some() || frequency.time_interval.is_some();
        (frequency.explicit_checkpoint && timed).then(|| {
            "checkpoint_frequency: with explicit_checkpoint the handler alone saves positions; a count or an interval contradicts it".into()
        })
    }

    fn wrong_sizes(&self) -> Option<String> {
        let between = |option: &str, value: usize, max: usize| {
            (value == 0 || value > max).then(|| format!("{option} must be from 1 to {max}"))
        };
        if self.max_partition_count > 0 && self.min_partition_count > self.max_partition_count {
            return Some("min_partition_count is greater than max_partition_count".into());
        }
        if !(self.weight.is_finite() && self.weight > 0.0) {
            return Some("weight must be a number greater than 0".into());
        }
        if self.max_item_count == Some(0) {
            return Some("max_item_count must be greater than 0".into());
        }
        if self.prefetch_pages > PREFETCH_PAGES_MAX {
            return Some(format!("prefetch_pages must be at most {PREFETCH_PAGES_MAX}"));
        }
        between("lanes", self.lanes, LANES_MAX)
            .or_else(|| between("ranges_per_partition", self.ranges_per_partition, PIECES_MAX))
            .or_else(|| between("prefetch_bytes", self.prefetch_bytes, usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::OnFailure;

    fn check(change: impl FnOnce(&mut Options), refusal: &str) {
        let mut options = Options { instance_name: "a".into(), ..Options::default() };
        change(&mut options);
        match options.check(false) {
            Ok(()) => assert_eq!(refusal, "", "was accepted"),
            Err(wrong) => {
                assert!(!refusal.is_empty() && wrong.0.contains(refusal), "{wrong}");
            }
        }
    }

    #[test]
    fn defaults_are_those_of_the_other_libraries() {
        let options = Options::default();
        let seconds = |time: Duration| time.as_secs();
        assert_eq!(seconds(options.lease_renew_interval), 17);
        assert_eq!(seconds(options.lease_acquire_interval), 13);
        assert_eq!(seconds(options.lease_expiration_interval), 60);
        assert_eq!(seconds(options.feed_poll_delay), 5);
        assert_eq!(options.start(), Start::Now);
        check(|_| (), "");
        assert_eq!(Options { instance_name: "a".into(), ..Options::brisk() }.check(false), Ok(()));
    }

    #[test]
    fn contradictions_are_refused() {
        check(|o| o.instance_name.clear(), "instance_name");
        check(|o| o.instance_name = "a/b".into(), "cannot have");
        check(|o| o.lease_prefix = "x".repeat(200), "longer than");
        check(|o| o.lease_renew_interval = Duration::from_secs(60), "shorter than");
        check(|o| o.feed_poll_delay = Duration::ZERO, "feed_poll_delay");
        check(|o| o.partition_key_range_id = Some("0".into()), "pull model");
        check(|o| (o.start_time, o.start_from_beginning) = (Some(Duration::ZERO), true), "set one");
        check(
            |o| {
                o.checkpoint_frequency.explicit_checkpoint = true;
                o.checkpoint_frequency.time_interval = Some(Duration::from_secs(1));
            },
            "contradicts",
        );
        check(|o| (o.min_partition_count, o.max_partition_count) = (3, 2), "min_partition_count");
        check(|o| o.max_item_count = Some(0), "max_item_count");
        check(|o| o.lanes = 0, "lanes");
        check(|o| o.ranges_per_partition = 1000, "ranges_per_partition");
        check(|o| o.weight = f64::NAN, "weight");
        check(|o| o.long_poll = Duration::from_secs(61), "long_poll");
        check(|o| o.error_policy.then = OnFailure::ParkKey, "dead-letter");
    }

    #[test]
    fn positions_are_saved_as_often_as_said() {
        let second = Duration::from_secs(1);
        let every = CheckpointFrequency::default();
        assert!(every.is_due(1, Duration::ZERO));
        let counted = CheckpointFrequency { processed_document_count: Some(10), ..every };
        assert!(!counted.is_due(9, second) && counted.is_due(10, Duration::ZERO));
        let both = CheckpointFrequency { time_interval: Some(second), ..counted };
        assert!(
            both.is_due(1, second)
                && both.is_due(10, Duration::ZERO)
                && !both.is_due(1, second / 2)
        );
    }
}
