//! The `astrarium` program: reads its settings, opens the data, serves until told to stop.

mod memory;
mod tools;

use std::io::{IsTerminal as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;

use engine::{Engine, ScriptWorkers, Scripts};
use server::ask::Ask;
use server::settings::{self, Loaded, Settings, Verb, WELL_KNOWN_KEY};
use server::{Options, Server, log, store, tls};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// The argument by which the server starts itself as a worker that runs scripts.
const SCRIPT_WORKER: &str = "script-worker";

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == SCRIPT_WORKER) {
        return engine::script_worker();
    }
    memory::keep();
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if tools::is_command(&words) {
        return match tools::run(&words) {
            Ok(()) => ExitCode::SUCCESS,
            Err(wrong) => failed(&wrong, 1),
        };
    }
    if words.first().is_some_and(|word| word == "query") {
        if words.iter().any(|word| word == "--help") {
            return match print(server::ask::USAGE) {
                Ok(()) => ExitCode::SUCCESS,
                Err(wrong) => failed(&wrong, 1),
            };
        }
        return query(words.into_iter().skip(1));
    }
    let read_file = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"));
    let loaded = match settings::load(words, |name| std::env::var(name).ok(), read_file) {
        Ok(loaded) => loaded,
        Err(wrong) => return failed(&wrong, 2),
    };
    let done = match loaded.verb {
        Verb::Help => print(&settings::help()),
        Verb::Version => print(&format!("astrarium {}\n", env!("CARGO_PKG_VERSION"))),
        Verb::Config => print(&settings::effective(&loaded)),
        Verb::ConfigMarkdown => print(&settings::markdown()),
        Verb::Key => new_key().and_then(|key| print(&format!("{key}\n"))),
        Verb::Serve => serve(&loaded),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => failed(&wrong, 1),
    }
}

fn query(words: impl Iterator<Item = String>) -> ExitCode {
    let ask = match Ask::parse(words) {
        Ok(ask) => ask,
        Err(wrong) => return failed(&wrong, 2),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(wrong) => return failed(&format!("cannot start: {wrong}"), 1),
    };
    match runtime.block_on(ask.run(|line| print(&format!("{line}\n")))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => failed(&wrong, 1),
    }
}

fn failed(wrong: &str, code: u8) -> ExitCode {
    eprintln!("astrarium: {wrong}");
    ExitCode::from(code)
}

/// A reader that has gone away is no error of ours.
fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn new_key() -> Result<String, String> {
    use base64::Engine as _;
    use ring::rand::SecureRandom as _;
    let mut key = [0; 64];
    let random = ring::rand::SystemRandom::new();
    random.fill(&mut key).map_err(|_| "the system gives no random bytes")?;
    Ok(base64::engine::general_purpose::STANDARD.encode(key))
}

fn serve(loaded: &Loaded) -> Result<(), String> {
    let settings = &loaded.settings;
    log::start(settings.log_level, settings.log_format);
    for note in &loaded.notes {
        tracing::info!("{note}");
    }
    raise_file_limit();
    let listener = bind(settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(server::before_sleep)
        .build()
        .map_err(|e| format!("cannot start threads: {e}"))?;
    runtime.block_on(run(settings, listener))
}

/// Connections are files. What the system allows at most is asked for; less will do.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

fn bind(settings: &Settings) -> Result<TcpListener, String> {
    let place = format!("{}:{}", settings.host, settings.port);
    let listener = TcpListener::bind((settings.host.as_str(), settings.port))
        .map_err(|e| format!("cannot listen on {place}: {e}"))?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    if !address.ip().is_loopback() && !settings.has_own_key() {
        return Err(format!(
            "{} can be reached from other machines, and without a key of your own the server would \
             take one that everybody knows. Make a key with `astrarium key > key.txt` and start with \
             `--key-file key.txt`, or listen on 127.0.0.1.",
            settings.host
        ));
    }
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    queue_more(&listener);
    Ok(listener)
}

/// The standard library lets 128 connections wait to be accepted; a client that opens more at
/// once would be kept for a second by its own retry. Listening again only changes that number.
fn queue_more(listener: &TcpListener) {
    #[cfg(unix)]
    let _ = rustix::net::listen(listener, 4096);
}

async fn run(settings: &Settings, listener: TcpListener) -> Result<(), String> {
    let signals = signals()?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(|e| e.to_string())?;
    let engine = open(settings).await?;
    let server = server(settings, engine.clone(), address.port())?;
    announce(settings, address)?;
    server::serve(listener, server, signals).await;
    tracing::info!("stopping");
    engine.close().await.map_err(|e| e.message)
}

async fn open(settings: &Settings) -> Result<Arc<Engine>, String> {
    let place = match settings.memory {
        true => store::Place::Memory,
        false => store::Place::Directory { path: &settings.data_dir, sync: settings.sync },
    };
    let scripts = scripts(settings)?;
    let cache_bytes = settings.cache_mb << 20;
    let opened = store::open(place, settings.enforce_throughput, cache_bytes, scripts).await;
    opened.map_err(|e| format!("cannot open the data: {}", e.message))
}

/// Workers for scripts: this program again, in another role.
fn scripts(settings: &Settings) -> Result<Option<Arc<dyn Scripts>>, String> {
    if settings.script_workers == 0 {
        return Ok(None);
    }
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let (workers, time) = (settings.script_workers, settings.script_timeout);
    Ok(Some(ScriptWorkers { program, argument: SCRIPT_WORKER, workers, time }.start()))
}

fn server(settings: &Settings, engine: Arc<Engine>, port: u16) -> Result<Arc<Server>, String> {
    let keys = settings.keys()?;
    let options = Options {
        consistency: settings.consistency,
        advertise: settings.advertised(port),
        cors: settings.cors.clone(),
        header_timeout: settings.header_timeout,
        body_timeout: settings.body_timeout,
        idle_timeout: settings.idle_timeout,
        shutdown_timeout: settings.shutdown_timeout,
        connections_max: settings.connections_max,
        body_memory_bytes: settings.body_memory_mb << 20,
        ..Options::default()
    };
    Ok(Server::new(engine, keys, Some(identity(settings)?), options))
}

fn identity(settings: &Settings) -> Result<tls::Identity, String> {
    match (settings.tls_certificate.as_str(), settings.tls_key.as_str()) {
        ("", "") => {}
        ("", _) | (_, "") => return Err("tls-certificate and tls-key come together".into()),
        (certificate, key) => return tls::Identity::from_files(certificate.as_ref(), key.as_ref()),
    }
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let host = settings.advertised(0).unwrap_or_default();
    let host = host.split("://").nth(1).unwrap_or("").trim_end_matches('/');
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    for name in [host, &settings.host] {
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    match settings.memory {
        true => tls::Identity::passing(names),
        false => tls::Identity::kept_in(&settings.data_dir.join("tls"), names),
    }
}

/// Tells programs by a line of JSON and people by a few lines of text that we listen.
fn announce(settings: &Settings, address: SocketAddr) -> Result<(), String> {
    let endpoint = format!("http://{address}");
    if settings.ready_json || !std::io::stdout().is_terminal() {
        let line = serde_json::json!({
            "event": "ready", "endpoint": endpoint, "port": address.port(), "pid": std::process::id(),
        });
        return print(&format!("{line}\n"));
    }
    let key = if settings.has_own_key() { "<your key>" } else { WELL_KNOWN_KEY };
    let data = match settings.memory {
        true => "memory only".to_owned(),
        false => settings.data_dir.display().to_string(),
    };
    print(&format!(
        "Astrarium {} listens on {endpoint} (HTTPS on the same port)\n\
         data  {data}\n\
         key   {key}\n\n\
         Try it from Python (pip install azure-cosmos):\n\n\
         \x20   from azure.cosmos import CosmosClient\n\
         \x20   client = CosmosClient(\"{endpoint}\", \"{key}\")\n\
         \x20   print(client.create_database_if_not_exists(\"first\").read())\n\n",
        env!("CARGO_PKG_VERSION"),
    ))
}

/// Ready when the operating system asks us to stop.
fn signals() -> Result<impl Future<Output = ()>, String> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(|e| format!("cannot listen for signals: {e}"));
        let (mut interrupt, mut terminate) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        Ok(async move {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        })
    }
    #[cfg(not(unix))]
    {
        Ok(async {
            let _ = tokio::signal::ctrl_c().await;
        })
    }
}
