//! `processor run`: a host whose handler is a command or an HTTP endpoint.

use std::sync::Arc;
use std::time::Duration;

use processor::policy::{ErrorPolicy, OnFailure};
use processor::{Event, Mode, Options, Processor, Start};

use super::arguments::Arguments;
use super::place;
use super::sink::Sink;

/// How long handlers have to finish after the first signal.
const STOP: Duration = Duration::from_secs(60);

/// Runs until a signal.
pub async fn run(arguments: &Arguments) -> Result<(), String> {
    let signals = Signals::listen();
    let sink = match (arguments.get("exec"), arguments.get("post")) {
        (Some(command), None) => Sink::command(command),
        (None, Some(url)) => Sink::post(url, &place::trust(arguments)?)?,
        _ => return Err("where to? --exec COMMAND or --post URL".into()),
    };
    let site = place::site(arguments)?;
    let sink = Arc::new(sink);
    let processor = place::builder(arguments, &site)
        .await?
        .options(options(arguments)?)
        .monitor(Arc::new(tell))
        .handler(move |context, changes| {
            let sink = Arc::clone(&sink);
            async move { sink.take(&context, &changes).await.map_err(Into::into) }
        })
        .build()
        .map_err(|error| error.to_string())?;
    serve(processor, signals).await
}

/// Starts, says so, and stops in good order on a signal.
async fn serve(mut processor: Processor, mut signals: Signals) -> Result<(), String> {
    tokio::select! {
        started = processor.start() => started.map_err(|error| error.to_string())?,
        () = signals.wait() => return Ok(()),
    }
    eprintln!("astrarium: processing; ctrl-c stops in good order");
    let report = tokio::select! {
        report = processor.ended() => report,
        () = signals.wait() => processor.stop(STOP).await,
    };
    if !report.stuck.is_empty() {
        eprintln!("astrarium: not given back in time: {}", report.stuck.join(", "));
    }
    report.error.map_or(Ok(()), Err)
}

/// Requests to stop. From the moment it listens they end nothing by themselves.
pub struct Signals {
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
    #[cfg(unix)]
    interrupt: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Begins to listen.
    pub fn listen() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let terminate = signal(SignalKind::terminate()).ok();
            Self { terminate, interrupt: signal(SignalKind::interrupt()).ok() }
        }
        #[cfg(not(unix))]
        Self {}
    }

    /// Waits for one.
    pub async fn wait(&mut self) {
        #[cfg(unix)]
        if let (Some(terminate), Some(interrupt)) = (&mut self.terminate, &mut self.interrupt) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return;
        }
        let _ = tokio::signal::ctrl_c().await;
    }
}

/// What a person at the terminal wants to know.
pub fn tell(event: &Event) {
    match event {
        Event::Acquired { lease } => eprintln!("astrarium: lease {lease} is ours"),
        Event::Closed { lease, reason } => eprintln!("astrarium: lease {lease} closed: {reason}"),
        Event::HandlerFailed { lease, failures, error } => {
            eprintln!("astrarium: lease {lease}: failure {failures}: {error}");
        }
        Event::SetAside { lease, lsn, error } => {
            eprintln!("astrarium: lease {lease}: change {lsn} set aside: {error}");
        }
        Event::Alarm { lease, message } => {
            let lease = lease.as_deref().unwrap_or("-");
            eprintln!("astrarium: lease {lease}: ALARM: {message}");
        }
        _ => {}
    }
}

/// The options that the command line names.
pub fn options(arguments: &Arguments) -> Result<Options, String> {
    let mut options = Options {
        lease_prefix: place::prefix(arguments),
        instance_name: arguments.get("instance").map_or_else(instance, str::to_owned),
        mode: if arguments.flag("all-versions") { Mode::AllVersions } else { Mode::Latest },
        max_item_count: arguments.number("max-items")?,
        lanes: arguments.number("lanes")?.unwrap_or(1),
        handler_timeout: arguments.seconds("timeout")?,
        ..Options::default()
    };
    match arguments.get("from").map(str::parse).transpose()? {
        None | Some(Start::Now) => {}
        Some(Start::Beginning) => options.start_from_beginning = true,
        Some(Start::Time(at)) => options.start_time = Some(at),
        Some(Start::After(etag)) => options.request_continuation = Some(etag),
    }
    let then = match arguments.get("on-failure") {
        None | Some("block") => OnFailure::Block,
        Some("park") => OnFailure::ParkKey,
        Some("dead-letter") => OnFailure::DeadLetter,
        Some("stop") => OnFailure::Stop,
        Some(other) => {
            return Err(format!(
                "--on-failure: '{other}' is none of block, park, dead-letter, stop"
            ));
        }
    };
    let attempts = arguments.number("attempts")?.unwrap_or(3);
    options.error_policy = ErrorPolicy { attempts, then, ..ErrorPolicy::default() };
    for (name, place) in [
        ("renew", &mut options.lease_renew_interval),
        ("acquire", &mut options.lease_acquire_interval),
        ("expire", &mut options.lease_expiration_interval),
        ("poll", &mut options.feed_poll_delay),
        ("rejoin", &mut options.rejoin_grace),
    ] {
        if let Some(time) = arguments.seconds(name)? {
            *place = time;
        }
    }
    Ok(options)
}

/// Unique among processes of all machines that have names.
fn instance() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let host = host.trim().replace(['/', '\\', '?', '#', '~'], "-");
    format!("{host}-{}", std::process::id())
}
