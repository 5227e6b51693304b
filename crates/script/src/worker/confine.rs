//! What the system is told to deny this process, should the engine not hold what it promises.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Limits;
use crate::clock::processor_time;

/// Address space beside what the script may have: frames, fragmentation, the engine itself.
const SLACK_BYTES: u64 = 256 * 1024 * 1024;
/// Seconds of processor time beyond a script's own. The pool is to be first to end it.
const SLACK_SECONDS: u64 = 3;
/// The three standard streams, and the worker's copies of two of them.
const OPEN_FILES: u64 = 5;

/// For as long as the process lives: no more memory than scripts may have, no file or socket
/// opened, no process started, no image left behind.
pub(crate) fn process(limits: &Limits) {
    // Fragmentation can double what the engine counts.
    let memory = 2 * limits.memory_bytes as u64 + SLACK_BYTES;
    if let Some(used) = address_space() {
        restrict(Resource::As, used.saturating_add(memory));
    }
    for resource in [Resource::Core, Resource::Nproc] {
        restrict(resource, 0);
    }
    restrict(Resource::Nofile, OPEN_FILES);
}

/// For the request that begins now.
pub(crate) fn processor(limits: &Limits) {
    let seconds = processor_time().as_secs() + limits.time.as_secs() + SLACK_SECONDS;
    let maximum = getrlimit(Resource::Cpu).maximum;
    let _ = setrlimit(Resource::Cpu, Rlimit { current: Some(seconds), maximum });
}

/// Not all systems know all limits; the engine's own and the pool's deadline hold everywhere.
fn restrict(resource: Resource, limit: u64) {
    let _ = setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) });
}

/// How much address space is in use. An allocator may have reserved any amount of it beforehand.
fn address_space() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = status.split_whitespace().next()?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
