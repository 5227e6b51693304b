//! What a script may take.

use std::time::Duration;

/// Everything that is limited. The defaults are what the protocol's documents promise, where they
/// promise anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a script may run, the time in its host included. Of functions: a call, give or
    /// take a tenth.
    pub time: Duration,
    /// How much memory the engine gives it, in bytes.
    pub memory_bytes: usize,
    /// How deep its calls may go, in bytes of stack.
    pub stack_bytes: usize,
    /// Largest answer, in bytes of JSON text.
    pub output_bytes: usize,
    /// Largest log, in characters. It travels in a header.
    pub log_chars: usize,
    /// Largest script, argument list or item that goes in or out, in bytes.
    pub message_bytes: usize,
    /// Operations that may be under way at once; more are not accepted.
    pub pending_operations: usize,
    /// Bytes of operations and answers that may be under way at once.
    pub pending_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(5),
            memory_bytes: 128 * 1024 * 1024,
            stack_bytes: 512 * 1024,
            output_bytes: 4 * 1024 * 1024,
            log_chars: 8 * 1024,
            message_bytes: 4 * 1024 * 1024,
            pending_operations: 10_000,
            pending_bytes: 32 * 1024 * 1024,
        }
    }
}
