//! Figures for Prometheus: a fixed set of counters, rendered as text.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use engine::Kind;

use crate::route::Operation;

/// Upper bounds of the duration buckets, in microseconds.
const BUCKETS_US: [u64; 8] = [100, 500, 1_000, 5_000, 25_000, 100_000, 500_000, 2_500_000];
/// Rows: operations of their own, seven for each kind of resource, and one for requests that
/// no route took.
const OWN: usize = 23;
const PER_KIND: usize = 7;
const ROWS: usize = OWN + PER_KIND * Kind::ALL.len();

/// Threads that count without getting in each other's way; more share.
pub const SHARDS: usize = 8;

/// All counters.
pub struct Metrics {
    shards: Vec<[Row; ROWS]>,
    connections_open: AtomicU64,
    connections_total: AtomicU64,
    panics: AtomicU64,
}

#[derive(Default)]
#[repr(align(64))]
struct Row {
    /// By the first digit of the status: 2, 3, 4, 5.
    statuses: [AtomicU64; 4],
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| std::array::from_fn(|_| Row::default())).collect(),
            connections_open: AtomicU64::default(),
            connections_total: AtomicU64::default(),
            panics: AtomicU64::default(),
        }
    }
}

/// The shard that this thread counts in.
pub fn shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SHARD: usize = THREADS.fetch_add(1, Relaxed) % SHARDS);
    SHARD.with(|shard| *shard)
}

impl Metrics {
    /// Counts a request that has been answered.
    pub fn request(
        &self,
        operation: Option<Operation>,
        status: u16,
        took: Duration,
        bytes: (usize, usize),
    ) {
        let row = &self.shards[shard()][operation.map_or(0, row_of)];
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        row.statuses[class].fetch_add(1, Relaxed);
        let bucket =
            BUCKETS_US.iter().position(|&bound| took_us <= bound).unwrap_or(BUCKETS_US.len());
        row.buckets[bucket].fetch_add(1, Relaxed);
        row.sum_us.fetch_add(took_us, Relaxed);
        row.bytes_in.fetch_add(bytes.0 as u64, Relaxed);
        row.bytes_out.fetch_add(bytes.1 as u64, Relaxed);
    }

    /// Counts a panic that was caught.
    pub fn panic(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    /// Counts a connection for as long as the result lives.
    pub fn connection(&self) -> Open<'_> {
        self.connections_total.fetch_add(1, Relaxed);
        self.connections_open.fetch_add(1, Relaxed);
        Open(&self.connections_open)
    }

    /// The text that Prometheus reads, with the engine's figures at its end.
    pub fn render(&self, figures: &[(&'static str, u64)]) -> String {
        let mut text = String::with_capacity(4096);
        let sums = self.sums();
        render_requests(&mut text, &sums);
        render_durations(&mut text, &sums);
        let bytes = sums.iter().fold((0, 0), |sum, row| (sum.0 + row.bytes.0, sum.1 + row.bytes.1));
        let own = [
            ("body_bytes_received_total", "counter", bytes.0),
            ("body_bytes_sent_total", "counter", bytes.1),
            ("connections_open", "gauge", self.connections_open.load(Relaxed)),
            ("connections_total", "counter", self.connections_total.load(Relaxed)),
            ("panics_total", "counter", self.panics.load(Relaxed)),
        ];
        for (name, kind, value) in own {
            let _ = writeln!(text, "# TYPE astrarium_{name} {kind}\nastrarium_{name} {value}");
        }
        for (name, value) in figures {
            let _ = writeln!(
                text,
                "# TYPE astrarium_engine_{name} gauge\nastrarium_engine_{name} {value}"
            );
        }
        text
    }

    /// The rows that have counted anything, over all shards.
    fn sums(&self) -> Vec<Sum> {
        let sum = |n: usize, of: &dyn Fn(&Row) -> &AtomicU64| -> u64 {
            self.shards.iter().map(|rows| of(&rows[n]).load(Relaxed)).sum()
        };
        let rows = (0..ROWS).map(|n| Sum {
            label: label_of(n),
            statuses: std::array::from_fn(|class| sum(n, &|row| &row.statuses[class])),
            buckets: std::array::from_fn(|bucket| sum(n, &|row| &row.buckets[bucket])),
            sum_us: sum(n, &|row| &row.sum_us),
            bytes: (sum(n, &|row| &row.bytes_in), sum(n, &|row| &row.bytes_out)),
        });
        rows.filter(|row| row.statuses != [0; 4]).collect()
    }
}

/// One row, over all shards.
struct Sum {
    label: String,
    statuses: [u64; 4],
    buckets: [u64; BUCKETS_US.len() + 1],
    sum_us: u64,
    bytes: (u64, u64),
}

fn render_requests(text: &mut String, sums: &[Sum]) {
    text.push_str("# HELP astrarium_requests_total Requests answered, by operation and status.\n");
    text.push_str("# TYPE astrarium_requests_total counter\n");
    for Sum { label, statuses, .. } in sums {
        for (n, count) in statuses.iter().enumerate().filter(|(_, count)| **count > 0) {
            let class = n + 2;
            let _ =
                writeln!(text, "astrarium_requests_total{{{label},status=\"{class}xx\"}} {count}");
        }
    }
}

fn render_durations(text: &mut String, sums: &[Sum]) {
    text.push_str("# HELP astrarium_request_seconds From the head of a request to its answer.\n");
    text.push_str("# TYPE astrarium_request_seconds histogram\n");
    for Sum { label, buckets, sum_us, .. } in sums {
        let mut count = 0;
        for (n, bucket) in buckets.iter().enumerate() {
            count += bucket;
            let bound =
                BUCKETS_US.get(n).map_or("+Inf".to_owned(), |&us| (us as f64 / 1e6).to_string());
            let _ = writeln!(
                text,
                "astrarium_request_seconds_bucket{{{label},le=\"{bound}\"}} {count}"
            );
        }
        let sum = *sum_us as f64 / 1e6;
        let _ = writeln!(text, "astrarium_request_seconds_sum{{{label}}} {sum}");
        let _ = writeln!(text, "astrarium_request_seconds_count{{{label}}} {count}");
    }
}

/// A connection that is counted as open.
pub struct Open<'a>(&'a AtomicU64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Names of the rows that are not about a kind of resource. Row 0: no route took the request.
const OWN_NAMES: [&str; OWN] = [
    "none",
    "ready",
    "metrics",
    "certificate",
    "account",
    "read_ranges",
    "create_item",
    "upsert_item",
    "read_item",
    "replace_item",
    "delete_item",
    "read_items",
    "query_items",
    "query_plan",
    "conflicts",
    "refused",
    "read_changes",
    "read_lag",
    "layout",
    "patch_item",
    "batch",
    "delete_key",
    "execute",
];
const KIND_NAMES: [&str; PER_KIND] =
    ["create", "upsert", "list", "query", "read", "replace", "delete"];

fn row_of(operation: Operation) -> usize {
    let of_kind = |verb: usize, kind: Kind| OWN + PER_KIND * kind as usize + verb;
    match operation {
        Operation::Ready => 1,
        Operation::Metrics => 2,
        Operation::Certificate => 3,
        Operation::Account => 4,
        Operation::ReadRanges => 5,
        Operation::CreateItem => 6,
        Operation::UpsertItem => 7,
        Operation::ReadItem => 8,
        Operation::ReplaceItem => 9,
        Operation::DeleteItem => 10,
        Operation::ReadItems => 11,
        Operation::QueryItems => 12,
        Operation::QueryPlan => 13,
        Operation::ListConflicts | Operation::MissingConflict => 14,
        Operation::Refuse(_) => 15,
        Operation::ReadChanges => 16,
        Operation::ReadLag => 17,
        Operation::SplitRange | Operation::MergeRanges => 18,
        Operation::PatchItem => 19,
        Operation::Batch => 20,
        Operation::DeleteKey => 21,
        Operation::Execute => 22,
        Operation::Create(kind) => of_kind(0, kind),
        Operation::Upsert(kind) => of_kind(1, kind),
        Operation::List(kind) => of_kind(2, kind),
        Operation::Query(kind) => of_kind(3, kind),
        Operation::Read(kind) => of_kind(4, kind),
        Operation::Replace(kind) => of_kind(5, kind),
        Operation::Delete(kind) => of_kind(6, kind),
    }
}

fn label_of(row: usize) -> String {
    match row.checked_sub(OWN) {
        None => format!("operation=\"{}\"", OWN_NAMES[row]),
        Some(row) => {
            let kind = Kind::ALL[row / PER_KIND].noun().replace([' ', '-'], "_");
            format!("operation=\"{}_{kind}\"", KIND_NAMES[row % PER_KIND])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation_and_status() {
        let metrics = Metrics::default();
        let took = Duration::from_micros(300);
        metrics.request(Some(Operation::ReadItem), 200, took, (0, 10));
        metrics.request(Some(Operation::ReadItem), 404, took, (0, 10));
        metrics.request(Some(Operation::Delete(Kind::UserDefinedFunction)), 204, took, (0, 0));
        metrics.request(None, 404, took, (5, 10));
        let connection = metrics.connection();
        let text = metrics.render(&[("items", 3)]);
        for line in [
            "astrarium_requests_total{operation=\"read_item\",status=\"2xx\"} 1",
            "astrarium_requests_total{operation=\"read_item\",status=\"4xx\"} 1",
            "astrarium_requests_total{operation=\"delete_user_defined_function\",status=\"2xx\"} 1",
            "astrarium_requests_total{operation=\"none\",status=\"4xx\"} 1",
            "astrarium_request_seconds_bucket{operation=\"read_item\",le=\"0.0001\"} 0",
            "astrarium_request_seconds_bucket{operation=\"read_item\",le=\"+Inf\"} 2",
            "astrarium_body_bytes_sent_total 30",
            "astrarium_connections_open 1",
            "astrarium_engine_items 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        drop(connection);
        assert!(metrics.render(&[]).contains("astrarium_connections_open 0"));
    }
}
