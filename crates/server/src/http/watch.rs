//! What connections are doing, so that one which does nothing can be ended.
//!
//! A server's memory must not depend on the goodwill of its clients: who begins a request
//! and does not go on, or asks and does not take the answer, is cut off. Streams note when
//! bytes come and go, and a sweep over all connections compares that with the limits every
//! now and then; a busy connection pays for no timer. What a connection is to do about it,
//! or about a shutdown, it learns from its [`Activity`].

use std::io::{self, IoSlice};
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
#[cfg(unix)]
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::brisk::Traffic;
use crate::Options;

/// To copy so many bytes takes less time than the kernel needs to gather them.
const COPIED_BYTES: usize = 4096;

/// Milliseconds since some time before the first call, and never 0, which means "not". The clock may be a few
/// milliseconds behind, for which it takes a fraction of the time: every request asks it twice.
#[cfg(target_os = "linux")]
fn now_ms() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + 1
}

#[cfg(not(target_os = "linux"))]
fn now_ms() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed().as_millis() as u64 + 1
}

/// All connections.
#[derive(Debug, Default)]
pub struct Watch {
    connections: Mutex<Vec<Weak<Activity>>>,
    traffic: Arc<Traffic>,
}

impl Watch {
    /// A new connection.
    pub fn add(&self) -> Arc<Activity> {
        let activity = Arc::new(Activity::new(self.traffic.clone()));
        locked(&self.connections).push(Arc::downgrade(&activity));
        activity
    }

    /// Ends the connections that have exceeded a limit, and forgets those that are gone.
    pub fn sweep(&self, options: &Options) {
        locked(&self.connections).retain(|connection| {
            let Some(activity) = connection.upgrade() else { return false };
            if let Some(why) = activity.overdue(options) {
                tracing::debug!(?why, "a connection is ended");
                activity.order(Order::End);
            }
            true
        });
    }

    /// Tells all connections to finish what they have begun.
    pub fn finish(&self) {
        for activity in locked(&self.connections).iter().filter_map(Weak::upgrade) {
            activity.order(Order::Finish);
        }
    }
}

/// How often to sweep.
pub fn sweep_interval(options: &Options) -> Duration {
    const RANGE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));
    (options.header_timeout / 4).clamp(RANGE.0, RANGE.1)
}

/// A panic elsewhere leaves nothing half done in what these locks protect.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a connection is told to do. Later ones are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Go on.
    None = 0,
    /// Finish the requests under way and take no more.
    Finish = 1,
    /// End now.
    End = 2,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Activity {
    order: AtomicU8,
    /// Wakes the connection when it gets an order.
    waker: Mutex<Option<Waker>>,
    traffic: Arc<Traffic>,
    /// Requests that have begun.
    begun: AtomicU32,
    /// Requests under way.
    requests: AtomicU32,
    /// HTTP/2 sends frames that belong to no request, so that bytes do not mean a head.
    multiplexed: AtomicBool,
    /// Whether a request is under way that may take long, so that a client which goes has to be noticed.
    attentive: AtomicBool,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    blocked_since: AtomicU64,
    /// Whether somebody wants to look at the socket while the connection waits.
    wanted: AtomicBool,
    #[cfg(unix)]
    socket: OnceLock<OwnedFd>,
}

/// The orders of a connection, as its task gets them.
pub struct Orders<'a> {
    activity: &'a Activity,
    /// Whom the next one wakes.
    waker: Option<Waker>,
}

impl<'a> Orders<'a> {
    /// Those of a connection.
    pub fn of(activity: &'a Activity) -> Self {
        Self { activity, waker: None }
    }

    /// What the connection is told to do; its task is woken when that changes.
    pub fn poll(&mut self, cx: &Context<'_>) -> Order {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.activity.wakes(cx.waker());
            self.waker = Some(cx.waker().clone());
        }
        // An order given from here on finds the waker.
        match self.activity.order.load(SeqCst) {
            0 => Order::None,
            1 => Order::Finish,
            _ => Order::End,
        }
    }
}

/// Why a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// Nothing happened for long.
    Idle,
    /// A head was begun and not finished.
    Head,
    /// The client does not read.
    Blocked,
}

impl Activity {
    fn new(traffic: Arc<Traffic>) -> Self {
        Self {
            order: AtomicU8::new(Order::None as u8),
            waker: Mutex::new(None),
            traffic,
            begun: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            multiplexed: AtomicBool::new(false),
            attentive: AtomicBool::new(false),
            idle_since: AtomicU64::new(now_ms()),
            head_since: AtomicU64::new(0),
            blocked_since: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            #[cfg(unix)]
            socket: OnceLock::new(),
        }
    }

    /// A request's head has arrived. Ends when the result is dropped.
    pub fn request(self: &Arc<Self>, multiplexed: bool) -> Busy {
        self.traffic.begin();
        self.begun.fetch_add(1, Relaxed);
        self.requests.fetch_add(1, Relaxed);
        self.head_since.store(0, Relaxed);
        if multiplexed {
            self.multiplexed.store(true, Relaxed);
        }
        Busy(self.clone())
    }

    /// The request under way may take long: should its client go, it is ended. What is brief ends by itself,
    /// and to look out for the client would cost it more than it could save.
    pub fn attend(&self) {
        // Over HTTP/2 connections are read from all the time.
        if !self.multiplexed.load(Relaxed) {
            self.attentive.store(true, Relaxed);
        }
    }

    /// How many requests have begun, and whether none of them is under way.
    pub fn requests(&self) -> (u32, bool) {
        (self.begun.load(Relaxed), self.requests.load(Relaxed) == 0)
    }

    /// What all connections are asked.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Has the task of the connection woken by orders that come from here on.
    fn wakes(&self, waker: &Waker) {
        *locked(&self.waker) = Some(waker.clone());
    }

    fn order(&self, order: Order) {
        self.order.fetch_max(order as u8, SeqCst);
        if let Some(waker) = locked(&self.waker).as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Whether the connection has exceeded a limit.
    fn overdue(&self, options: &Options) -> Option<Overdue> {
        let now = now_ms();
        let longer = |since: &AtomicU64, limit: Duration| {
            let since = since.load(Relaxed);
            since != 0 && now.saturating_sub(since) as u128 > limit.as_millis()
        };
        if longer(&self.blocked_since, options.body_timeout) {
            return Some(Overdue::Blocked);
        }
        if self.requests.load(Relaxed) > 0 {
            return None;
        }
        if !self.multiplexed.load(Relaxed) && longer(&self.head_since, options.header_timeout) {
            return Some(Overdue::Head);
        }
        longer(&self.idle_since, options.idle_timeout).then_some(Overdue::Idle)
    }

    /// Bytes have come.
    pub fn received(&self) {
        if self.requests.load(Relaxed) == 0 && self.head_since.load(Relaxed) == 0 {
            self.head_since.store(now_ms(), Relaxed);
        }
    }

    /// Whether there are bytes to read, as far as that is known; where it cannot be told there are,
    /// so that nobody waits for them.
    pub fn is_readable(&self) -> bool {
        #[cfg(unix)]
        if let Some(socket) = self.socket.get() {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let mut sockets = [PollFd::new(socket, PollFlags::IN)];
            return !matches!(poll(&mut sockets, Some(&Timespec::default())), Ok(0));
        }
        self.wanted.store(true, Relaxed);
        true
    }

    /// The connection waits for bytes.
    #[cfg(unix)]
    fn waits(&self, stream: &Stream) {
        if !self.wanted.load(Relaxed) || self.socket.get().is_some() {
            return;
        }
        let stream = match stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        // One that cannot be had is done without.
        if let Ok(socket) = stream.as_fd().try_clone_to_owned() {
            let _ = self.socket.set(socket);
        }
    }

    fn wrote(&self, done: bool) {
        match (done, self.blocked_since.load(Relaxed)) {
            (true, 0) => {}
            (true, _) => self.blocked_since.store(0, Relaxed),
            (false, 0) => self.blocked_since.store(now_ms(), Relaxed),
            (false, _) => {}
        }
    }
}

/// A request under way.
pub struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.attentive.store(false, Relaxed);
        self.0.idle_since.store(now_ms(), Relaxed);
        self.0.requests.fetch_sub(1, Relaxed);
        self.0.traffic.end();
    }
}

/// A stream of bytes that notes its activity.
pub struct Watched {
    /// The bytes, decrypted.
    pub stream: Stream,
    /// What it notes.
    pub activity: Arc<Activity>,
}

/// Either kind of stream. One type for both, so that the HTTP code exists once.
pub enum Stream {
    /// As it comes from the network.
    Plain(TcpStream),
    /// Decrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.stream {
            Stream::Plain($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl Watched {
    /// Whether the client has gone; the task is woken if it does. One that has sent more has not, and is not
    /// looked after any longer.
    fn is_left(&self, cx: &mut Context<'_>) -> bool {
        let Stream::Plain(stream) = &self.stream else { return false };
        let mut byte = [0];
        match stream.poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(peeked) => peeked.map_or(true, |bytes| bytes == 0),
            Poll::Pending => false,
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = each!(self, stream => Pin::new(stream).poll_read(cx, buf));
        if buf.filled().len() > before {
            self.activity.received();
        }
        #[cfg(unix)]
        if polled.is_pending() {
            self.activity.waits(&self.stream);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = each!(self, stream => Pin::new(stream).poll_write(cx, buf));
        self.activity.wrote(polled.is_ready());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: usize = bufs.iter().map(|buf| buf.len()).sum();
        let polled = if bytes <= COPIED_BYTES {
            let mut whole = SmallVec::<[u8; COPIED_BYTES]>::new();
            bufs.iter().for_each(|buf| whole.extend_from_slice(buf));
            each!(self, stream => Pin::new(stream).poll_write(cx, &whole))
        } else {
            each!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
        };
        self.activity.wrote(polled.is_ready());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Called whenever a connection runs, while a request is under way too.
        if self.activity.attentive.load(Relaxed) && self.is_left(cx) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let polled = each!(self, stream => Pin::new(stream).poll_flush(cx));
        self.activity.wrote(polled.is_ready());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(limit: Duration) -> Options {
        Options {
            header_timeout: limit,
            body_timeout: limit,
            idle_timeout: limit,
            ..Options::default()
        }
    }

    /// With a limit of nothing, whatever is under way is overdue after a moment.
    #[track_caller]
    fn check(activity: &Activity, expect: Option<Overdue>) {
        assert_eq!(activity.overdue(&options(Duration::MAX)), None);
        let later = now_ms() + 2;
        while now_ms() < later {}
        assert_eq!(activity.overdue(&options(Duration::ZERO)), expect);
    }

    #[test]
    fn each_way_of_doing_nothing() {
        let activity = Arc::new(Activity::new(Arc::default()));
        check(&activity, Some(Overdue::Idle));
        activity.received();
        check(&activity, Some(Overdue::Head));
        let busy = activity.request(false);
        activity.received();
        check(&activity, None);
        activity.wrote(false);
        check(&activity, Some(Overdue::Blocked));
        activity.wrote(true);
        drop(busy);
        check(&activity, Some(Overdue::Idle));
    }

    #[test]
    fn frames_are_not_heads() {
        let activity = Arc::new(Activity::new(Arc::default()));
        drop(activity.request(true));
        activity.received();
        check(&activity, Some(Overdue::Idle));
    }
}
