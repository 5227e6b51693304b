//! `replicate`: copies a container into another one and keeps it up to date, whatever the other's
//! partition key is. Interrupted, it goes on where it was: its positions are leases like any other.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::{Container, ItemOptions, PartitionKey};
use processor::{Fleet, HandlerError, Options};
use serde_json::Value;

use super::arguments::Arguments;
use super::{place, run};

const STOP: Duration = Duration::from_secs(60);
const REFRESH: Duration = Duration::from_millis(500);
const BAR: usize = 30;

/// Copies until a signal, or until everything is copied.
pub async fn replicate(arguments: &Arguments) -> Result<(), String> {
    let mut signals = run::Signals::listen();
    let site = place::site(arguments)?;
    let database = arguments.get("to-database").or(arguments.get("database")).unwrap_or_default();
    let name = arguments.need("to-container")?;
    let target = site.beside(database, name).handle().map_err(|error| error.to_string())?;
    let paths = target.read().await.map_err(|error| format!("the target: {error}"))?.key_paths;
    let copier = Arc::new(Copier { target, paths });
    let mut options = run::options(arguments)?;
    if arguments.get("name").is_none() {
        options.lease_prefix = format!("replicate-{database}-{name}-");
    }
    if arguments.get("from").is_none() {
        options.start_from_beginning = true;
    }
    let lanes = if arguments.get("lanes").is_none() { 16 } else { options.lanes };
    let options = Options { lanes, ..options };
    let copied = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&copied);
    let builder = place::builder(arguments, &site).await?.options(options);
    let fleet = builder.fleet();
    let mut processor = builder
        .monitor(Arc::new(|event: &processor::Event| {
            if matches!(
                event,
                processor::Event::Alarm { .. } | processor::Event::HandlerFailed { .. }
            ) {
                run::tell(event);
            }
        }))
        .handler(move |_, changes| {
            let (copier, counter) = (Arc::clone(&copier), Arc::clone(&counter));
            async move {
                for change in &changes {
                    copier.copy(change).await?;
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        })
        .build()
        .map_err(|error| error.to_string())?;
    processor.start().await.map_err(|error| error.to_string())?;
    let ended = tokio::select! {
        report = processor.ended() => Some(report),
        watched = watch(&fleet, &copied, arguments.flag("until-caught-up")) => {
            watched?;
            None
        }
        () = signals.wait() => None,
    };
    let report = match ended {
        Some(report) => report,
        None => processor.stop(STOP).await,
    };
    eprintln!();
    println!("{} changes copied", copied.load(Ordering::Relaxed));
    report.error.map_or(Ok(()), Err)
}

/// Shows how far it is. Returns when all is copied, if that is the end.
async fn watch(fleet: &Fleet, copied: &AtomicU64, ends: bool) -> Result<(), String> {
    loop {
        tokio::time::sleep(REFRESH).await;
        let status = fleet.status().await.map_err(|error| error.to_string())?;
        let left: Option<u64> = status.estimates.iter().map(|each| each.items).sum();
        let done = copied.load(Ordering::Relaxed);
        if std::io::stderr().is_terminal() {
            let line = left.map_or_else(|| format!("{done} copied"), |left| bar(done, left));
            eprint!("\r{line}\x1b[K");
            let _ = std::io::stderr().flush();
        }
        if ends && left == Some(0) {
            return Ok(());
        }
    }
}

fn bar(done: u64, left: u64) -> String {
    let all = (done + left).max(1);
    let full = usize::try_from(done * BAR as u64 / all).unwrap_or(BAR).min(BAR);
    let (full, empty) = ("█".repeat(full), "░".repeat(BAR - full));
    format!("{full}{empty} {} % · {done} copied · {left} to go", done * 100 / all)
}

struct Copier {
    target: Container,
    paths: Vec<String>,
}

impl Copier {
    /// Writes an item to the target, without what belongs to the source's copy of it.
    async fn copy(&self, change: &processor::Change) -> Result<(), HandlerError> {
        let mut item: Value = change.parse()?;
        if let Some(current) = item.get_mut("current") {
            item = current.take();
        }
        let Value::Object(body) = &mut item else { return Ok(()) };
        body.retain(|name, _| {
            !matches!(name.as_str(), "_rid" | "_self" | "_etag" | "_attachments" | "_ts" | "_lsn")
        });
        let value = |path: &String| {
            let mut parts = path.trim_start_matches('/').split('/');
            let found = parts.try_fold(&item, |value, part| value.get(part.trim_matches('"')));
            found.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()))
        };
        let key = PartitionKey::levels(self.paths.iter().map(value));
        self.target.upsert_item(key, item.clone(), ItemOptions::default()).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_full_as_the_work() {
        assert!(bar(50, 50).contains("50 % · 50 copied · 50 to go"));
        assert_eq!(bar(1, 0).matches('█').count(), BAR);
        assert_eq!(bar(0, 0).matches('░').count(), BAR);
    }
}
