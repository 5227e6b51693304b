//! A client that comes back at once is waited for awake.
//!
//! To fall asleep and be woken takes tens of microseconds on a virtual machine, more than most answers
//! take. Programs that ask one thing after the other pay that for every request. So a thread that is
//! about to sleep looks for a moment whether a client comes that came at once the last time. It does so
//! only for a client that is alone: where there is other traffic there is no sleep to be saved.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::watch::Activity;

/// Who comes back within this time comes back at once; and who does not is no longer waited for awake.
const AT_ONCE: Duration = Duration::from_micros(100);

static POSSIBLE: LazyLock<bool> =
    LazyLock::new(|| thread::available_parallelism().is_ok_and(|processors| processors.get() > 1));

/// Counts the requests of all connections.
#[derive(Debug, Default)]
pub struct Traffic(AtomicU64);

impl Traffic {
    /// A request has begun.
    pub fn request(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Whether to wait awake, on one connection.
#[derive(Debug)]
pub struct Brisk {
    /// Not where there is one processor: the client needs it.
    possible: bool,
    wait: Option<Wait>,
    /// Whether the last request came at once.
    at_once: bool,
}

/// A connection waits for its next request.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Instant,
    /// Requests that the connection has had.
    requests: u32,
    /// Requests that all connections have had.
    traffic: u64,
}

impl Brisk {
    /// For a new connection.
    pub fn new() -> Self {
        Self { possible: *POSSIBLE, wait: None, at_once: false }
    }

    /// After a connection has run, from `woken` on: whether to wait for its next request awake. It has
    /// had so many requests, and is idle if none of them is under way.
    pub fn waits_awake(
        &mut self,
        woken: Instant,
        requests: u32,
        idle: bool,
        traffic: &Traffic,
    ) -> bool {
        if !self.possible {
            return false;
        }
        let traffic = traffic.0.load(Relaxed);
        if let Some(wait) = self.wait
            && wait.requests != requests
        {
            let alone = traffic.wrapping_sub(wait.traffic)
                == u64::from(requests.wrapping_sub(wait.requests));
            self.at_once = alone && woken.saturating_duration_since(wait.since) < AT_ONCE;
            self.wait = None;
        }
        if !idle || requests == 0 {
            return false;
        }
        let begins = self.wait.is_none();
        if begins {
            self.wait = Some(Wait { since: Instant::now(), requests, traffic });
        }
        self.at_once && begins
    }
}

thread_local! {
    /// Whom this thread waits for awake, and until when.
    static EXPECTED: Cell<Option<(Weak<Activity>, Instant)>> = const { Cell::new(None) };
}

/// Has this thread look for the connection's next request before it sleeps.
pub fn expect(activity: &Arc<Activity>) {
    EXPECTED.set(Some((Arc::downgrade(activity), Instant::now() + AT_ONCE)));
}

/// What a thread does before it sleeps: returns once there is something to read from the connection
/// that it looks for, and after a moment at the latest.
pub fn before_sleep() {
    let Some((activity, until)) = EXPECTED.take() else { return };
    let Some(activity) = activity.upgrade() else { return };
    while Instant::now() < until && !activity.is_readable() {
        // Others may have nothing but this processor to run on.
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::super::watch::Watch;
    use super::*;

    /// A connection whose client was answered once and comes again, so long after that and with so
    /// many requests of others in between: whether it is waited for awake then.
    fn is_expected(after: Duration, others: usize) -> bool {
        let traffic = Traffic::default();
        let mut brisk = Brisk { possible: true, ..Brisk::new() };
        traffic.request();
        assert!(
            !brisk.waits_awake(Instant::now(), 1, true, &traffic),
            "nothing is known of it yet"
        );
        let woken = brisk.wait.expect("it waits").since + after;
        (0..=others).for_each(|_| traffic.request());
        assert!(!brisk.waits_awake(woken, 2, false, &traffic), "its request is under way");
        let expected = brisk.waits_awake(woken + AT_ONCE * 2, 2, true, &traffic);
        assert!(!brisk.waits_awake(woken + AT_ONCE * 3, 2, true, &traffic), "once only");
        expected
    }

    #[test]
    fn who_comes_at_once_and_alone_is_waited_for() {
        assert!(is_expected(AT_ONCE / 2, 0));
        assert!(!is_expected(AT_ONCE, 0));
        assert!(!is_expected(AT_ONCE / 2, 1));
    }

    #[test]
    fn nobody_waits_for_a_connection_that_is_gone() {
        let activity = Watch::default().add();
        expect(&activity);
        drop(activity);
        before_sleep();
        assert!(EXPECTED.take().is_none());
    }
}
