//! `replicate`: copies a container into another one and keeps it up to date, whatever the other's
//! partition key is. Interrupted, it goes on where it was: its positions are leases like any other.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::{Container, FeedScope, Kind};
use processor::{Event, Fleet, Mode, Options};

use super::arguments::Arguments;
use super::copy::Copier;
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
    let source = site.handle().map_err(|error| error.to_string())?;
    let read = place::answered(arguments, source.read()).await;
    let source_paths = read.map_err(|error| format!("the source: {error}"))?;
    let target_paths = target.read().await.map_err(|error| format!("the target: {error}"))?;
    if source_paths.rid == target_paths.rid {
        return Err("the copy of a container cannot be the container itself".into());
    }
    let mut options = run::options(arguments)?;
    options.mode = mode(options.mode, &source).await?;
    let copier = Copier::new(target, source_paths.key_paths, target_paths.key_paths);
    let copier = Arc::new(copier);
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
    let saved = Arc::new(AtomicU64::new(0));
    let saves = Arc::clone(&saved);
    let builder = place::builder(arguments, &site).await?.options(options);
    let fleet = builder.fleet();
    let mut processor = builder
        .monitor(Arc::new(move |event: &Event| match event {
            Event::Alarm { .. } | Event::HandlerFailed { .. } => run::tell(event),
            Event::Checkpointed { items, .. } => drop(saves.fetch_add(*items, Ordering::Relaxed)),
            _ => {}
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
        watched = watch(&fleet, &saved, arguments.flag("until-caught-up")) => {
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

/// The mode that tells of deletes. All versions do; the latest ones do on Astrarium, which is known
/// by its answer to a question of its own.
async fn mode(asked: Mode, source: &Container) -> Result<Mode, String> {
    if asked == Mode::AllVersions {
        return Ok(asked);
    }
    match source.lag(&FeedScope::Container, None).await {
        Ok(_) => Ok(Mode::LatestWithDeletes),
        Err(error) if error.is_transient() || error.kind() == Kind::Unauthorized => {
            Err(format!("the source: {error}"))
        }
        Err(_) => {
            eprintln!(
                "astrarium: this service does not tell of deletes in the feed of latest versions: items that are deleted meanwhile stay in the copy; --all-versions copies deletes where the container keeps them"
            );
            Ok(asked)
        }
    }
}

/// Shows how far it is. What is left is counted from the saved positions, so what is done is too:
/// changes that are copied and not yet saved would count twice. Returns when all is copied, if that is
/// the end.
async fn watch(fleet: &Fleet, saved: &AtomicU64, ends: bool) -> Result<(), String> {
    loop {
        tokio::time::sleep(REFRESH).await;
        let status = fleet.status().await.map_err(|error| error.to_string())?;
        let left: Option<u64> = status.estimates.iter().map(|each| each.items).sum();
        // Deletes are commits, but no items.
        let behind: Option<u64> = status.estimates.iter().map(|each| each.commits).sum();
        let done = saved.load(Ordering::Relaxed);
        if std::io::stderr().is_terminal() {
            let line = left.map_or_else(|| format!("{done} copied"), |left| bar(done, left));
            eprint!("\r{line}\x1b[K");
            let _ = std::io::stderr().flush();
        }
        if ends && left == Some(0) && behind == Some(0) {
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
