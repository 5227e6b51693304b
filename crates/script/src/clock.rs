//! The door to the clock: how long a script has been running is real time, here and in the worker.

use std::time::{Duration, Instant};

/// A moment in the future.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// That long from now.
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// How long until then; nothing once it has passed.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    pub(crate) fn passed(self) -> bool {
        self.left().is_zero()
    }
}

/// How much of a processor this process has used.
pub(crate) fn processor_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::from_secs(used.tv_sec.try_into().unwrap_or(0))
}
