//! Time, chance and tasks come in by this door, so that a simulation can hold it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A boxed future.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A running task; dropping it ends the task.
pub struct Task(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Task {
    /// A task that `end` ends.
    pub fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Task")
    }
}

/// The rules that keep changes from being lost, repeated or handled out of order. A simulation
/// switches one off to show that it would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A host that may be thought dead begins nothing.
    Fence,
    /// A lease that somebody else has written is not written over.
    IfMatch,
    /// A position is saved after the handler has returned.
    AfterHandler,
    /// A position is saved only when everything before it is done.
    Watermark,
    /// The children of a split begin where the parent had saved, not where it had read to.
    SplitAtSaved,
    /// The dead are those who were not seen to change, whatever clocks say.
    SeenExpiry,
    /// A lease moves when what has begun is done.
    Drain,
    /// A parent goes when its children are there.
    ParentLast,
    /// A split goes on as it was begun.
    Listed,
    /// A child begins when its parent is gone.
    ParentGone,
    /// A child that was made too late, when its keys had others, goes.
    Ghost,
    /// A lease that is about to be joined is taken only after asking what has become of it.
    Register,
}

/// What a host needs of the machine it runs on.
pub trait Env: Send + Sync {
    /// Whether a rule holds. Always, outside of simulations.
    fn keeps(&self, _rule: Rule) -> bool {
        true
    }
    /// Monotonic, from any beginning.
    fn now(&self) -> Duration;
    /// Since 1970; for people and for .NET peers. Decides nothing here.
    fn wall(&self) -> Duration;
    /// Any number.
    fn random(&self) -> u64;
    /// Waits.
    fn sleep(&self, time: Duration) -> Later<'static, ()>;
    /// Runs a task beside this one.
    fn spawn(&self, task: Later<'static, ()>) -> Task;
}

/// The real one, on a Tokio runtime.
#[derive(Debug)]
pub struct Machine {
    began: Instant,
    chance: AtomicU64,
}

impl Default for Machine {
    fn default() -> Self {
        let began = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = wall.as_nanos() as u64 ^ (u64::from(std::process::id()) << 32);
        Self { began, chance: AtomicU64::new(seed) }
    }
}

impl Env for Machine {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn random(&self) -> u64 {
        scramble(self.chance.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) -> Later<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, task: Later<'static, ()>) -> Task {
        let handle = tokio::spawn(task);
        Task::new(move || handle.abort())
    }
}

/// Turns a counter into numbers that look random (the finaliser of SplitMix64).
pub fn scramble(counter: u64) -> u64 {
    let mut z = counter;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Runs user code so that its panic is an answer.
pub async fn caught<T>(mut work: Later<'_, T>) -> Result<T, String> {
    std::future::poll_fn(move |cx| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(panic_text(panic.as_ref()))),
        }
    })
    .await
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.unwrap_or_else(|| "no message".into()))
}
