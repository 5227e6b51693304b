//! What a reader of changes asks for.

use std::time::{Duration, SystemTime};

use crate::changes::read::Start;
use crate::date;
use crate::error::{Error, Result};
use crate::partition_key::PartitionKey;
use crate::range::FeedRange;

/// What a reader of changes asks for.
///
/// Where it begins: at `request_continuation` if there is one, else at `start_time`, else at the
/// beginning if `start_from_beginning` is set, else now.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeFeedOptions {
    /// Changes per page. The server never cuts a transaction, so a page may have more. Without a
    /// number, the server chooses.
    pub max_item_count: Option<u32>,
    /// Only this partition key range; after a split, its heirs.
    pub partition_key_range_id: Option<String>,
    /// From where to go on: the continuation of a page; or, where one range is named or there is
    /// only one, an etag of that range.
    pub request_continuation: Option<String>,
    /// How new the answers must be at least; without one, what this client has seen itself.
    pub session_token: Option<String>,
    /// Begin with the first change that is kept.
    pub start_from_beginning: bool,
    /// Begin with the first change of this second.
    pub start_time: Option<SystemTime>,
    /// Only this part of the key space.
    pub feed_range: Option<FeedRange>,
    /// Only this partition key, or all that begin with it.
    pub partition_key: Option<PartitionKey>,
    /// Which changes.
    pub mode: Mode,
    /// How long [`Changes::next_page`](crate::Changes::next_page) waits for a change when all have
    /// been read. Servers that can hold an answer back are asked to; others are asked again and again.
    pub wait: Option<Duration>,
    /// The pause between two questions to a server that does not hold answers back.
    pub poll_interval: Duration,
    /// Ranges that are read at the same time. Waiting readers watch up to 64 at once all the same.
    pub max_concurrency: usize,
}

impl Default for ChangeFeedOptions {
    fn default() -> Self {
        Self {
            max_item_count: None,
            partition_key_range_id: None,
            request_continuation: None,
            session_token: None,
            start_from_beginning: false,
            start_time: None,
            feed_range: None,
            partition_key: None,
            mode: Mode::Latest,
            wait: None,
            poll_interval: Duration::from_secs(1),
            max_concurrency: 1,
        }
    }
}

/// Which changes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Each item once, at its newest version.
    #[default]
    Latest,
    /// The same, and once for each item that was deleted. Of Astrarium alone; other servers do
    /// not tell of deletes in this mode.
    LatestWithDeletes,
    /// Every version and every delete, as far as the container keeps them.
    AllVersions,
}

impl Mode {
    /// The word in continuations.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::LatestWithDeletes => "deletes",
            Self::AllVersions => "all",
        }
    }
}

impl ChangeFeedOptions {
    /// Refuses options that contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        let scopes = [
            self.partition_key_range_id.is_some(),
            self.feed_range.is_some(),
            self.partition_key.is_some(),
        ];
        if scopes.into_iter().filter(|named| *named).count() > 1 {
            return Err(Error::setting(
                "partition_key_range_id, feed_range and partition_key exclude each other",
            ));
        }
        if self.max_item_count == Some(0) {
            return Err(Error::setting("max_item_count must be at least 1"));
        }
        if self.max_concurrency == 0 {
            return Err(Error::setting("max_concurrency must be at least 1"));
        }
        if self.start_from_beginning && self.start_time.is_some() {
            return Err(Error::setting("start_from_beginning and start_time exclude each other"));
        }
        Ok(())
    }

    /// Where a reader without a continuation begins.
    pub(crate) fn start(&self) -> Start {
        match self.start_time {
            Some(time) => Start::Time(date::seconds(time)),
            None if self.start_from_beginning => Start::Beginning,
            None => Start::Now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        let default = ChangeFeedOptions::default;
        assert!(default().check().is_ok());
        let wrong = [
            ChangeFeedOptions { max_item_count: Some(0), ..default() },
            ChangeFeedOptions { max_concurrency: 0, ..default() },
            ChangeFeedOptions {
                start_from_beginning: true,
                start_time: Some(SystemTime::UNIX_EPOCH),
                ..default()
            },
            ChangeFeedOptions {
                feed_range: Some(FeedRange::full()),
                partition_key: Some("a".into()),
                ..default()
            },
        ];
        for options in wrong {
            assert!(options.check().is_err(), "{options:?}");
        }
    }
}
