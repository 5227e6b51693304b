//! The example that turns events into OpenTelemetry metrics.

#[expect(dead_code, reason = "an example is a program as well")]
#[path = "../../examples/otel.rs"]
mod otel;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::InMemoryMetricExporter;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};

use crate::support::{Home, from_beginning};

/// The sum of a counter that was exported last, over all its attributes.
fn sum(exporter: &InMemoryMetricExporter, name: &str) -> u64 {
    let finished = exporter.get_finished_metrics().unwrap();
    let last = finished.last().unwrap();
    let metrics = last.scope_metrics().flat_map(|scope| scope.metrics());
    let mut found = metrics.filter(|metric| metric.name() == name);
    match found.next().map(|metric| metric.data()) {
        Some(AggregatedMetrics::U64(MetricData::Sum(sum))) => {
            sum.data_points().map(|point| point.value()).sum()
        }
        other => panic!("{name} is {other:?}"),
    }
}

#[tokio::test]
async fn events_become_opentelemetry_metrics() {
    let home = Home::new(2).await;
    let (provider, exporter) = otel::in_memory();
    let telemetry = Arc::new(otel::Telemetry::new(&provider.meter("processor")));
    let (given, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let mut processor = home
        .builder()
        .await
        .options(from_beginning("a"))
        .monitor(telemetry)
        .handler(move |_, changes| {
            for _ in &changes {
                let _ = given.send(());
            }
            async { Ok(()) }
        })
        .build()
        .unwrap();
    processor.start().await.unwrap();
    home.fill("x", 30).await;
    for _ in 0..30 {
        taken.recv().await.unwrap();
    }
    processor.stop(Duration::from_secs(20)).await;
    provider.force_flush().unwrap();
    assert_eq!(sum(&exporter, "processor.changes"), 30);
    assert!(sum(&exporter, "processor.pages") >= 2);
    assert!(sum(&exporter, "processor.events") >= 4, "two leases, acquired and closed");
}
