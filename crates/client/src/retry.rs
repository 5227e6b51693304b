//! What to do after an attempt has failed. Decided here, carried out in `send`.

use std::time::Duration;

use crate::error::{Error, Kind};
use crate::options::Retry;

/// Longest pause between two attempts, unless the server asks for a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How an attempt has failed.
#[derive(Debug, Clone, Copy)]
pub struct Failed {
    pub kind: Kind,
    pub status: u16,
    pub substatus: u32,
    /// What the server named as the time to come back.
    pub retry_after: Option<Duration>,
}

/// What kind of request it was.
#[derive(Debug, Clone, Copy)]
pub struct Nature {
    pub is_read: bool,
    pub names_range: bool,
    /// Whether the server was asked to hold its answer back.
    pub waits: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Tell the caller.
    GiveUp,
    /// Send it again, after a pause.
    Again,
    /// Send it again, to another region if there is one.
    Elsewhere,
    /// The regions have changed: ask for them, then send it again.
    Relocated,
    /// The token may be old: get another, then send it again, once.
    Renew,
}

/// What to do after a failure.
pub fn verdict(failed: Failed, nature: Nature) -> Verdict {
    use Verdict::{Again, Elsewhere, GiveUp, Relocated, Renew};
    let reads = |verdict| if nature.is_read { verdict } else { GiveUp };
    match (failed.kind, failed.status, failed.substatus) {
        // Nothing was sent, so nothing was done.
        (Kind::Unreachable, ..) => Elsewhere,
        (Kind::Interrupted, ..) => reads(Again),
        // Whoever waits may have been away for longer than the server keeps an answer.
        (Kind::TimedOut, 0, _) if nature.waits => reads(Again),
        (Kind::TimedOut, ..) => reads(Elsewhere),
        (Kind::Unauthorized, ..) => Renew,
        // A region that does not write, or no longer knows the account.
        (Kind::Forbidden, _, 3 | 1008) => Relocated,
        (Kind::SessionNotAvailable, ..) => reads(Again),
        (Kind::RangeGone, ..) if nature.names_range => GiveUp,
        (Kind::RangeGone | Kind::Throttled | Kind::RetryWith, ..) => Again,
        // A server that says when to come back has not begun.
        (Kind::Unavailable, 503, _) if failed.retry_after.is_some() => Again,
        (Kind::Unavailable, 503, _) => reads(Elsewhere),
        (Kind::Unavailable, ..) => reads(Again),
        _ => GiveUp,
    }
}

/// Whether a write that ended so may have been done. One whose answer was too long has been, and
/// one that was too long itself has not.
pub fn maybe_applied(error: &Error, is_read: bool) -> bool {
    let is_unknown = match error.kind() {
        Kind::Interrupted | Kind::TimedOut | Kind::Unavailable | Kind::Answer => true,
        Kind::TooLarge => error.status().is_none(),
        _ => false,
    };
    !is_read && is_unknown
}

/// The pauses of one request.
#[derive(Debug)]
pub struct Pauses {
    retry: Retry,
    made: u32,
    left: Duration,
}

impl Pauses {
    pub fn new(retry: Retry) -> Self {
        Self { retry, made: 0, left: retry.waiting }
    }

    /// The next pause, or none if it is time to give up. `chance` in 0..=1 spreads clients that
    /// failed together. What the server names is enough for the first time; many who come back
    /// together after it would be put off together again.
    pub fn next(&mut self, named: Option<Duration>, chance: f64) -> Option<Duration> {
        if self.made >= self.retry.attempts {
            return None;
        }
        let doubled = self.retry.pause.saturating_mul(1 << self.made.min(16));
        let own = doubled.min(PAUSE_MAX).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        let pause = match named {
            None => own,
            Some(named) if self.made == 0 => named,
            Some(named) => named.max(own),
        };
        if pause > self.left {
            return None;
        }
        self.made += 1;
        self.left -= pause;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to reads, to writes, and to reads of a range.
    #[track_caller]
    fn check(status: u16, substatus: u32, retry_after: Option<u64>, expect: [Verdict; 3]) {
        let retry_after = retry_after.map(Duration::from_millis);
        let failed = Failed { kind: Kind::of(status, substatus), status, substatus, retry_after };
        let given = [(true, false), (false, false), (true, true)]
            .map(|(is_read, names_range)| Nature { is_read, names_range, waits: false })
            .map(|nature| verdict(failed, nature));
        assert_eq!(given, expect, "{status}/{substatus}");
    }

    #[test]
    fn refusals() {
        use Verdict::{Again, Elsewhere, GiveUp, Relocated, Renew};
        check(400, 0, None, [GiveUp; 3]);
        check(401, 0, None, [Renew; 3]);
        check(403, 0, None, [GiveUp; 3]);
        check(403, 3, None, [Relocated; 3]);
        check(404, 0, None, [GiveUp; 3]);
        check(404, 1002, None, [Again, GiveUp, Again]);
        check(408, 0, None, [Elsewhere, GiveUp, Elsewhere]);
        check(410, 1002, None, [Again, Again, GiveUp]);
        check(412, 0, None, [GiveUp; 3]);
        check(429, 3200, Some(5), [Again; 3]);
        check(449, 0, None, [Again; 3]);
        check(500, 0, None, [Again, GiveUp, Again]);
        check(503, 0, None, [Elsewhere, GiveUp, Elsewhere]);
        check(503, 0, Some(5), [Again; 3]);
    }

    #[test]
    fn broken_connections() {
        let failed = |kind| Failed { kind, status: 0, substatus: 0, retry_after: None };
        let nature = |is_read, waits| Nature { is_read, names_range: false, waits };
        let patient = verdict(failed(Kind::TimedOut), nature(true, true));
        assert_eq!(patient, Verdict::Again);
        let verdict = |kind, is_read| verdict(failed(kind), nature(is_read, false));
        assert_eq!(verdict(Kind::Unreachable, false), Verdict::Elsewhere);
        assert_eq!(verdict(Kind::Interrupted, true), Verdict::Again);
        assert_eq!(verdict(Kind::Interrupted, false), Verdict::GiveUp);
        assert_eq!(verdict(Kind::TimedOut, true), Verdict::Elsewhere);
        assert_eq!(verdict(Kind::TimedOut, false), Verdict::GiveUp);
        assert_eq!(verdict(Kind::Answer, true), Verdict::GiveUp);
    }

    #[test]
    fn writes_of_unknown_fate() {
        let lost = |kind| maybe_applied(&Error::new(kind, ""), false);
        assert!(lost(Kind::Interrupted) && lost(Kind::TimedOut) && lost(Kind::TooLarge));
        assert!(!lost(Kind::Unreachable) && !lost(Kind::Setting));
        let told = |status| maybe_applied(&Error::refusal(status, 0, ""), false);
        assert!(told(408) && told(500) && told(503));
        assert!(!told(413) && !told(429) && !told(412) && !told(410));
        assert!(!maybe_applied(&Error::new(Kind::Interrupted, ""), true));
    }

    #[test]
    fn pauses_double_and_end() {
        let retry = Retry {
            attempts: 9,
            waiting: Duration::from_secs(2),
            pause: Duration::from_millis(100),
        };
        let mut pauses = Pauses::new(retry);
        let millis: Vec<u128> =
            std::iter::from_fn(|| pauses.next(None, 1.0)).map(|pause| pause.as_millis()).collect();
        assert_eq!(millis, [100, 200, 400, 800]);
        let mut pauses = Pauses::new(Retry { attempts: 2, ..retry });
        assert_eq!(pauses.next(None, 0.0), Some(Duration::from_millis(50)));
        assert_eq!(pauses.next(Some(Duration::from_secs(3)), 0.0), None);
        assert_eq!(pauses.next(Some(Duration::from_secs(1)), 0.0), Some(Duration::from_secs(1)));
        assert_eq!(pauses.next(None, 0.0), None);
        assert_eq!(Pauses::new(Retry::NONE).next(None, 0.0), None);
    }
}
