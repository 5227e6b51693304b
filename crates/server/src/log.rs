//! Logs, on standard error: one line an event, as text or as JSON.

use tracing::Level;

/// How the lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Starts logging; panics are logged too, since a request that panics must not go unnoticed.
pub fn start(level: Option<Level>, form: Form) {
    let Some(level) = level else { return };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    // A second call in one process (tests) keeps the first subscriber.
    let _ = match form {
        Form::Text => tracing::subscriber::set_global_default(lines.with_target(false).finish()),
        Form::Json => {
            tracing::subscriber::set_global_default(lines.json().flatten_event(true).finish())
        }
    };
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(location = ?panic.location().map(ToString::to_string), "panic: {panic}");
    }));
}
