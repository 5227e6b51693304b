//! The process that scripts run in.

use std::process::ExitCode;

/// Serves the pool that started this process until it hangs up.
pub fn main() -> ExitCode {
    ExitCode::FAILURE
}
