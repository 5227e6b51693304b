//! What a processor tells those who watch it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use crate::observer::CloseReason;

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A lease is ours.
    Acquired {
        /// Its token.
        lease: String,
    },
    /// A lease is no longer ours.
    Closed {
        /// Its token.
        lease: String,
        /// Why.
        reason: CloseReason,
    },
    /// A page was read; also one without changes, so that idleness is told from death.
    Read {
        /// The lease's token.
        lease: String,
        /// How many changes.
        items: usize,
    },
    /// A batch was handled.
    Handled {
        /// The lease's token.
        lease: String,
        /// How many changes.
        items: usize,
        /// How long it took.
        took: Duration,
    },
    /// A position was saved.
    Checkpointed {
        /// The lease's token.
        lease: String,
        /// How many changes lie between it and the one before.
        items: u64,
    },
    /// The handler failed.
    HandlerFailed {
        /// The lease's token.
        lease: String,
        /// How often this batch has failed.
        failures: u32,
        /// What it said.
        error: String,
    },
    /// A change was set aside.
    SetAside {
        /// The lease's token.
        lease: String,
        /// The number of its commit.
        lsn: u64,
        /// What the handler said.
        error: String,
    },
    /// The feed or the lease container did not do as asked; it is tried again.
    Retrying {
        /// The lease's token, if it concerns one.
        lease: Option<String>,
        /// What went wrong.
        error: String,
    },
    /// Somebody should look.
    Alarm {
        /// The lease's token, if it concerns one.
        lease: Option<String>,
        /// What is wrong.
        message: String,
    },
    /// The host is alive and in touch with the lease container.
    Beat,
}

/// Hears all events. Called on the processor's own tasks: be quick.
pub trait Monitor: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Monitor for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

/// Writes events to the log and nothing else.
#[derive(Debug, Default, Clone, Copy)]
pub struct Log;

impl Monitor for Log {
    fn event(&self, event: &Event) {
        match event {
            Event::Alarm { lease, message } => tracing::warn!(?lease, "{message}"),
            Event::Retrying { lease, error } => tracing::info!(?lease, "{error}"),
            other => tracing::debug!(event = ?other),
        }
    }
}

/// Counts events; renders them as Prometheus text.
#[derive(Debug, Default)]
pub struct Counters {
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    /// How often something of that name was counted.
    pub fn get(&self, name: &str) -> u64 {
        self.counts.lock().map(|counts| counts.get(name).copied().unwrap_or(0)).unwrap_or(0)
    }

    /// All counters as Prometheus text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let Ok(counts) = self.counts.lock() else { return text };
        for (name, count) in counts.iter() {
            let _ = writeln!(text, "# TYPE astrarium_processor_{name} counter");
            let _ = writeln!(text, "astrarium_processor_{name} {count}");
        }
        text
    }
}

impl Monitor for Counters {
    fn event(&self, event: &Event) {
        let (name, by) = match event {
            Event::Acquired { .. } => ("leases_acquired_total", 1),
            Event::Closed { .. } => ("leases_closed_total", 1),
            Event::Read { .. } => ("pages_read_total", 1),
            Event::Handled { items, .. } => ("changes_handled_total", *items as u64),
            Event::Checkpointed { .. } => ("checkpoints_total", 1),
            Event::HandlerFailed { .. } => ("handler_failures_total", 1),
            Event::SetAside { .. } => ("changes_set_aside_total", 1),
            Event::Retrying { .. } => ("retries_total", 1),
            Event::Alarm { .. } => ("alarms_total", 1),
            Event::Beat => ("beats_total", 1),
        };
        if let Ok(mut counts) = self.counts.lock() {
            *counts.entry(name).or_default() += by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_count() {
        let counters = Counters::default();
        counters.event(&Event::Beat);
        counters.event(&Event::Handled { lease: "0".into(), items: 3, took: Duration::ZERO });
        assert_eq!(counters.get("changes_handled_total"), 3);
        assert!(counters.render().contains("astrarium_processor_beats_total 1\n"));
    }
}
