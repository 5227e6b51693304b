//! Threads whose work can wait step behind those that somebody waits for.

/// As a `nice` value: a quarter of a processor that a thread of the usual rank wants as well, all of one
/// that nobody wants.
const NICE: libc::c_int = 5;

/// Has the calling thread step back. Where the process runs at real-time priority the thread gives it up: what is
/// done behind the commits has no deadline, and fits between them.
///
/// Only for work that the committer takes over when it is late, or can do without.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "both calls take numbers, one of them behind a pointer to a local value"
)]
pub(crate) fn step_back() {
    let plain = libc::sched_param { sched_priority: 0 };
    // To step back is always allowed; where it fails all the same, nothing but speed is lost.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const plain);
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}

/// Elsewhere a thread has no rank of its own.
#[cfg(not(target_os = "linux"))]
pub(crate) fn step_back() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The nice value of the calling thread and the number of its policy.
    fn rank() -> (i32, u32) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("the system tells");
        let (_, behind_name) = stat.rsplit_once(") ").expect("a name is in brackets");
        let fields: Vec<_> = behind_name.split(' ').collect();
        (fields[16].parse().expect("a number"), fields[38].parse().expect("a number"))
    }

    #[test]
    fn only_the_thread_that_asks_steps_back() {
        let before = rank();
        let theirs = std::thread::spawn(|| {
            step_back();
            rank()
        });
        assert_eq!(theirs.join().expect("it ends"), (NICE, libc::SCHED_BATCH as u32));
        assert_eq!(rank(), before);
    }
}
