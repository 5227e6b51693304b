//! What can go wrong, sorted by what the caller can do about it.

use std::fmt;
use std::time::Duration;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, Clone)]
pub struct Error(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    kind: Kind,
    status: Option<u16>,
    substatus: u32,
    message: String,
    /// What a refusal has beside its message.
    detail: Option<String>,
    activity_id: Option<String>,
    retry_after: Option<Duration>,
    attempts: u32,
    maybe_applied: bool,
}

/// What went wrong, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An option, name, key or continuation of the caller's is wrong; nothing was sent.
    Setting,
    /// No server was reached: address, network or certificate.
    Unreachable,
    /// The connection broke after the request had begun to be sent.
    Interrupted,
    /// No answer in time (408 as well).
    TimedOut,
    /// The answer is not what the protocol says.
    Answer,
    /// 400.
    BadRequest,
    /// 400/1024: the container was deleted, and another has its name. Positions do not hold.
    ContainerReplaced,
    /// 401: the key is wrong, or the clock is.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404: there is no such thing.
    NotFound,
    /// 404/1002: the server has not seen what the session token tells of.
    SessionNotAvailable,
    /// 409: it is there already.
    Conflict,
    /// 410: the partition key range is no more, or about to go.
    RangeGone,
    /// 412: the etag is not the one that was named.
    PreconditionFailed,
    /// 412/2015: what follows the position in the change feed is no longer kept.
    HistoryLost,
    /// 413; or, without a status, an answer that is longer than
    /// [`answer_bytes_max`](crate::Options::answer_bytes_max): ask for fewer items.
    TooLarge,
    /// 429: throughput is used up.
    Throttled,
    /// 449: others write to the same item.
    RetryWith,
    /// 5xx.
    Unavailable,
    /// Any other status.
    Other,
}

impl Kind {
    /// The kind of a refusal.
    pub(crate) fn of(status: u16, substatus: u32) -> Self {
        match (status, substatus) {
            (400, 1024) => Self::ContainerReplaced,
            (400, _) => Self::BadRequest,
            (401, _) => Self::Unauthorized,
            (403, _) => Self::Forbidden,
            (404, 1002) => Self::SessionNotAvailable,
            (404, _) => Self::NotFound,
            (408, _) => Self::TimedOut,
            (409, _) => Self::Conflict,
            (410, _) => Self::RangeGone,
            (412, 2015) => Self::HistoryLost,
            (412, _) => Self::PreconditionFailed,
            (413, _) => Self::TooLarge,
            (429, _) => Self::Throttled,
            (449, _) => Self::RetryWith,
            (500.., _) => Self::Unavailable,
            _ => Self::Other,
        }
    }
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            status: None,
            substatus: 0,
            message: message.into(),
            detail: None,
            activity_id: None,
            retry_after: None,
            attempts: 0,
            maybe_applied: false,
        }))
    }

    pub(crate) fn setting(message: impl Into<String>) -> Self {
        Self::new(Kind::Setting, message)
    }

    pub(crate) fn refusal(status: u16, substatus: u32, message: impl Into<String>) -> Self {
        let mut error = Self::new(Kind::of(status, substatus), message);
        (error.0.status, error.0.substatus) = (Some(status), substatus);
        error
    }

    pub(crate) fn with_detail(mut self, detail: Option<String>) -> Self {
        self.0.detail = detail;
        self
    }

    pub(crate) fn with_activity(mut self, id: Option<String>) -> Self {
        self.0.activity_id = id;
        self
    }

    pub(crate) fn with_retry_after(mut self, after: Option<Duration>) -> Self {
        self.0.retry_after = after;
        self
    }

    pub(crate) fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    pub(crate) fn with_maybe_applied(mut self, maybe_applied: bool) -> Self {
        self.0.maybe_applied = maybe_applied;
        self
    }

    /// What went wrong, by what the caller can do about it.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The status of the answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The substatus of the answer; 0 if it had none.
    pub fn substatus(&self) -> u32 {
        self.0.substatus
    }

    /// What the server said, or what happened.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// By which the server's log knows the request.
    pub fn activity_id(&self) -> Option<&str> {
        self.0.activity_id.as_deref()
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// How often the request was sent.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether a write may have happened although it failed. Such a write is not repeated: read,
    /// and decide.
    pub fn may_have_been_applied(&self) -> bool {
        self.0.maybe_applied
    }

    /// Whether the same request may succeed later, without anything being changed.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Unreachable
                | Kind::Interrupted
                | Kind::TimedOut
                | Kind::SessionNotAvailable
                | Kind::Throttled
                | Kind::RetryWith
                | Kind::Unavailable
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.status, self.0.substatus) {
            (Some(status), 0) => write!(f, "{status}: ")?,
            (Some(status), substatus) => write!(f, "{status}/{substatus}: ")?,
            (None, _) => {}
        }
        f.write_str(&self.0.message)?;
        if self.0.attempts > 1 {
            write!(f, " (sent {} times)", self.0.attempts)?;
        }
        if let Some(id) = &self.0.activity_id {
            write!(f, " (activity {id})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_the_server_said() {
        let error = Error::refusal(410, 1002, "the range is gone").with_attempts(2);
        assert_eq!(error.kind(), Kind::RangeGone);
        assert_eq!(error.to_string(), "410/1002: the range is gone (sent 2 times)");
        let error = Error::refusal(404, 0, "no item").with_activity(Some("a-1".into()));
        assert_eq!(error.to_string(), "404: no item (activity a-1)");
        assert_eq!(Error::setting("wrong").to_string(), "wrong");
    }

    #[test]
    fn statuses_have_kinds() {
        for (status, substatus, kind) in [
            (400, 0, Kind::BadRequest),
            (400, 1024, Kind::ContainerReplaced),
            (404, 1002, Kind::SessionNotAvailable),
            (404, 1003, Kind::NotFound),
            (412, 0, Kind::PreconditionFailed),
            (412, 2015, Kind::HistoryLost),
            (418, 0, Kind::Other),
            (503, 0, Kind::Unavailable),
            (599, 7, Kind::Unavailable),
        ] {
            assert_eq!(Kind::of(status, substatus), kind, "{status}/{substatus}");
        }
    }
}
