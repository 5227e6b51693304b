//! A processor's events as OpenTelemetry metrics.
//!
//! [`Telemetry`] is a monitor like any other: give it a meter of your program's provider, whatever
//! exporter that has (OTLP, Prometheus, …), and hand it to the builder. Run as a program, it follows
//! a container and prints its metrics when it is stopped:
//!
//! ```console
//! $ ASTRARIUM_ENDPOINT=http://127.0.0.1:8081 ASTRARIUM_KEY=… cargo run --example otel -- shop orders leases
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use processor::{Builder, Event, Monitor, Options, Site};

/// Counts what a processor tells.
pub struct Telemetry {
    changes: Counter<u64>,
    batches: Histogram<f64>,
    pages: Counter<u64>,
    events: Counter<u64>,
}

impl Telemetry {
    /// With the instruments of a meter.
    pub fn new(meter: &Meter) -> Self {
        Self {
            changes: meter.u64_counter("processor.changes").with_unit("{change}").build(),
            batches: meter.f64_histogram("processor.handler.duration").with_unit("s").build(),
            pages: meter.u64_counter("processor.pages").with_unit("{page}").build(),
            events: meter.u64_counter("processor.events").with_unit("{event}").build(),
        }
    }
}

impl Monitor for Telemetry {
    fn event(&self, event: &Event) {
        let lease = |token: &str| [KeyValue::new("lease", token.to_owned())];
        let kind = match event {
            Event::Handled { lease: token, items, took } => {
                self.changes.add(*items as u64, &lease(token));
                self.batches.record(took.as_secs_f64(), &lease(token));
                return;
            }
            Event::Read { lease: token, .. } => return self.pages.add(1, &lease(token)),
            Event::Acquired { .. } => "acquired",
            Event::Closed { .. } => "closed",
            Event::Checkpointed { .. } => "checkpointed",
            Event::HandlerFailed { .. } => "handler_failed",
            Event::SetAside { .. } => "set_aside",
            Event::Retrying { .. } => "retrying",
            Event::Alarm { .. } => "alarm",
            Event::Beat => "beat",
        };
        self.events.add(1, &[KeyValue::new("kind", kind)]);
    }
}

/// A provider that keeps what it is told, and where to look at that.
pub fn in_memory() -> (SdkMeterProvider, InMemoryMetricExporter) {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    (SdkMeterProvider::builder().with_reader(reader).build(), exporter)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let argument = |nth, what: &str| std::env::args().nth(nth).ok_or(format!("missing: {what}"));
    let (database, container) = (argument(1, "the database")?, argument(2, "the container")?);
    let leases = argument(3, "the lease container")?;
    let key = client::Credential::key(&std::env::var("ASTRARIUM_KEY")?)?;
    let endpoint = std::env::var("ASTRARIUM_ENDPOINT")?;
    let site = Site::new(&endpoint, key, client::Options::default(), &database, &container)?;
    let (provider, exporter) = in_memory();
    let telemetry = Arc::new(Telemetry::new(&provider.meter("processor")));
    let mut processor = Builder::connect(&site, &site.beside(&database, &leases))
        .await?
        .options(Options { instance_name: "otel".into(), ..Options::brisk() })
        .monitor(telemetry)
        .handler(|_, _| async { Ok(()) })
        .build()?;
    processor.start().await?;
    processor.ended().await;
    processor.stop(Duration::from_secs(10)).await;
    provider.force_flush()?;
    println!("{:#?}", exporter.get_finished_metrics()?);
    Ok(())
}
