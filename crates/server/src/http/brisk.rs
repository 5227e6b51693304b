//! A client that comes back at once is waited for awake.
//!
//! To fall asleep and be woken takes tens of microseconds on a virtual machine, more than most answers
//! take. Programs that ask one thing after the other pay that for every request. So a thread that is
//! about to sleep looks for a moment whether a client comes that came at once the last time. It does so
//! only for a client that is alone, and after answers that took no longer than that: where others are
//! served or wait for changes, or pages are read ahead, there is work for the processor.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::watch::Activity;
use crate::metrics::{SHARDS, shard};

/// Who comes back within this time comes back at once; and who does not is no longer waited for awake.
const AT_ONCE: Duration = Duration::from_micros(100);

static POSSIBLE: LazyLock<bool> =
    LazyLock::new(|| thread::available_parallelism().is_ok_and(|processors| processors.get() > 1));

/// Counts the requests of all connections. Each thread counts apart from the others, where a request begins
/// and where it ends.
#[derive(Debug, Default)]
pub struct Traffic([Counts; SHARDS]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// How often a thread that has found much to be under way takes that for granted before it looks again: to
/// look at what the others count costs them time.
const TAKEN_FOR_GRANTED: u8 = 16;

impl Traffic {
    /// A request has begun.
    pub fn begin(&self) {
        self.0[shard()].begun.fetch_add(1, Relaxed);
    }

    /// Whether there is more than one request under way, or was a little while ago.
    pub fn is_busy(&self) -> bool {
        thread_local!(static GRANTED: Cell<u8> = const { Cell::new(0) });
        let granted = GRANTED.get();
        if granted > 0 {
            GRANTED.set(granted - 1);
            return true;
        }
        let busy = self.begun().wrapping_sub(self.ended()) > 1;
        GRANTED.set(if busy { TAKEN_FOR_GRANTED } else { 0 });
        busy
    }

    /// A request has ended.
    pub fn end(&self) {
        self.0[shard()].ended.fetch_add(1, Relaxed);
    }

    fn begun(&self) -> u64 {
        self.0.iter().fold(0, |sum, counts| sum.wrapping_add(counts.begun.load(Relaxed)))
    }

    fn ended(&self) -> u64 {
        self.0.iter().fold(0, |sum, counts| sum.wrapping_add(counts.ended.load(Relaxed)))
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

    /// The connection is one of many: nobody waits for it awake, and it need not be timed.
    pub fn forget(&mut self) {
        (self.wait, self.at_once) = (None, false);
    }

    /// After a connection has run, between these times: whether to wait for its next request awake. It has
    /// had so many requests, and is idle if none of them is under way.
    pub fn waits_awake(
        &mut self,
        (woken, done): (Instant, Instant),
        requests: u32,
        idle: bool,
        traffic: &Traffic,
    ) -> bool {
        if !self.possible {
            return false;
        }
        let under_way = traffic.begun() != traffic.ended();
        let traffic = traffic.begun();
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
            self.wait = Some(Wait { since: done, requests, traffic });
        }
        let briefly = done.saturating_duration_since(woken) < AT_ONCE;
        self.at_once && begins && briefly && !under_way
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

    /// A request that begins and ends.
    fn answer(traffic: &Traffic) {
        traffic.begin();
        traffic.end();
    }

    /// A client that was answered once comes again, so long after that; others have had so many requests
    /// in between, of which so many go on; and its own takes so long: whether it is waited for awake then.
    fn is_expected(after: Duration, (others, go_on): (usize, usize), takes: Duration) -> bool {
        let traffic = Traffic::default();
        let mut brisk = Brisk { possible: true, ..Brisk::new() };
        let start = Instant::now();
        answer(&traffic);
        let known = brisk.waits_awake((start, start), 1, true, &traffic);
        assert!(!known, "nothing is known of it yet");
        let woken = start + after;
        (0..=others).for_each(|_| traffic.begin());
        (0..others - go_on).for_each(|_| traffic.end());
        assert!(!brisk.waits_awake((woken, woken), 2, false, &traffic), "its request is under way");
        traffic.end();
        let ran = (woken, woken + takes);
        let expected = brisk.waits_awake(ran, 2, true, &traffic);
        assert!(!brisk.waits_awake(ran, 2, true, &traffic), "once only");
        expected
    }

    #[test]
    fn who_comes_at_once_and_alone_is_waited_for() {
        let (soon, brief) = (AT_ONCE / 2, AT_ONCE / 2);
        assert!(is_expected(soon, (0, 0), brief));
        assert!(!is_expected(AT_ONCE, (0, 0), brief));
        assert!(!is_expected(soon, (1, 0), brief));
        assert!(!is_expected(soon, (1, 1), brief));
        assert!(!is_expected(soon, (0, 0), AT_ONCE));
    }

    #[test]
    fn nobody_is_waited_for_while_others_wait() {
        let traffic = Traffic::default();
        let mut brisk = Brisk { possible: true, ..Brisk::new() };
        let start = Instant::now();
        // One waits all the time.
        traffic.begin();
        for request in 1..4 {
            answer(&traffic);
            assert!(!brisk.waits_awake((start, start), request, true, &traffic));
        }
        traffic.end();
        answer(&traffic);
        assert!(brisk.waits_awake((start, start), 4, true, &traffic));
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
