//! A server process, three containers on it, and handlers that remember what they were given.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use client::{Container, Credential, ItemOptions, Throughput};
use conformance::WELL_KNOWN_KEY;
use conformance::server::{Scratch, Server};
use processor::{
    Builder, Change, CloseReason, Context, Event, Fleet, HandlerError, Observer, Options,
    Processor, Site,
};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Nothing here takes this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The server's binary: `ASTRARIUM_BIN`, or the one that cargo builds beside us.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let built = || {
        let own = std::env::current_exe().unwrap();
        let target = own.ancestors().nth(3).unwrap();
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "astrarium-server", "--bin", "astrarium"]);
        assert!(build.env("CARGO_TARGET_DIR", target).status().unwrap().success());
        target.join("debug/astrarium")
    };
    let named = || std::env::var_os("ASTRARIUM_BIN").map(PathBuf::from);
    BINARY.get_or_init(|| named().unwrap_or_else(built)).clone()
}

/// A server with a monitored container `d/c`, leases in `d/leases` and dead letters in `d/dead`.
pub struct Home {
    pub server: Server,
    /// A folder that goes when the test does.
    pub scratch: Scratch,
    pub site: Site,
    pub container: Container,
    pub leases: Container,
    pub dead: Container,
}

impl Home {
    pub async fn new(ranges: u32) -> Self {
        Self::with(ranges, "/id", json!({})).await
    }

    /// With leases partitioned by another path, and more in the monitored container's definition.
    pub async fn with(ranges: u32, lease_path: &str, more: Value) -> Self {
        let scratch = Scratch::new("processor").unwrap();
        let settings = ["--log-level", "error", "--memory"];
        let server = Server::start(&binary(), scratch.path(), &settings).unwrap();
        let site = site(&server.endpoint, "c");
        let handle = site.handle().unwrap();
        let client = handle.client().clone();
        client.ensure_database("d", Throughput::Unsaid).await.unwrap();
        let database = client.database("d");
        let mut definition = json!({
            "id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        });
        for (name, value) in more.as_object().unwrap() {
            definition[name] = value.clone();
        }
        let throughput = Throughput::Manual(ranges * 10_000);
        database.create_container(definition, throughput).await.unwrap();
        let quick = Throughput::Manual(10_000);
        let leases = database.ensure_container("leases", lease_path, quick).await.unwrap();
        let dead = database.ensure_container("dead", "/id", quick).await.unwrap();
        Self { server, scratch, site, container: database.container("c"), leases, dead }
    }

    pub async fn builder(&self) -> Builder {
        let leases = self.site.beside("d", "leases");
        let dead = self.site.beside("d", "dead").store("the dead-letter container").await.unwrap();
        Builder::connect(&self.site, &leases).await.unwrap().dead_letters(Arc::new(dead))
    }

    /// A running processor that hands its changes to the sink.
    pub async fn start(&self, options: Options, sink: &Sink) -> Processor {
        let sink = sink.clone();
        let instance = options.instance_name.clone();
        let mut processor = self
            .builder()
            .await
            .options(options)
            .monitor(Arc::new({
                let sink = sink.clone();
                move |event: &Event| sink.hear(event)
            }))
            .observer(move || Collector { sink: sink.clone(), instance: instance.clone() })
            .build()
            .unwrap();
        processor.start().await.unwrap();
        processor
    }

    pub async fn fleet(&self) -> Fleet {
        self.builder().await.options(options("fleet")).fleet()
    }

    /// Creates an item.
    pub async fn put(&self, id: &str, key: &str) {
        let item = json!({"id": id, "pk": key});
        self.container.upsert_item(key, item, ItemOptions::default()).await.unwrap();
    }

    /// Creates items `{prefix}{n}`, spread over eight keys.
    pub async fn fill(&self, prefix: &str, count: usize) {
        for n in 0..count {
            self.put(&format!("{prefix}{n}"), &format!("key-{}", n % 8)).await;
        }
    }

    /// The lease documents.
    pub async fn lease_documents(&self) -> Vec<Value> {
        let all = self.all_documents(&self.leases).await;
        all.into_iter().filter(|body| body["id"].as_str().unwrap().contains("..")).collect()
    }

    pub async fn all_documents(&self, container: &Container) -> Vec<Value> {
        let mut reader = container.read_documents(client::ReadOptions::default()).unwrap();
        let mut all = Vec::new();
        while let Some(page) = reader.next_page().await.unwrap() {
            all.extend(page.parse::<Value>().unwrap());
        }
        all
    }

    pub async fn ranges(&self) -> Vec<String> {
        let ranges = self.container.partition_key_ranges().await.unwrap();
        ranges.into_iter().map(|range| range.id).collect()
    }
}

pub fn site(endpoint: &str, container: &str) -> Site {
    let key = Credential::key(WELL_KNOWN_KEY).unwrap();
    Site::new(endpoint, key, client::Options::default(), "d", container).unwrap()
}

/// Options of a host that reacts quickly.
pub fn options(instance: &str) -> Options {
    Options {
        instance_name: instance.into(),
        lease_prefix: "test".into(),
        lease_acquire_interval: Duration::from_millis(500),
        feed_poll_delay: Duration::from_millis(200),
        long_poll: Duration::from_secs(5),
        ..Options::brisk()
    }
}

pub fn from_beginning(instance: &str) -> Options {
    Options { start_from_beginning: true, ..options(instance) }
}

/// A change as a handler saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub id: String,
    pub key: String,
    pub lsn: u64,
    pub instance: String,
    pub lease: String,
}

type Rule = Arc<dyn Fn(&Context, &[Value]) -> Result<(), HandlerError> + Send + Sync>;

/// Remembers what handlers were given, and decides whether they succeed.
#[derive(Clone)]
pub struct Sink {
    seen: Arc<watch::Sender<Vec<Seen>>>,
    pub closes: Arc<Mutex<Vec<(String, CloseReason)>>>,
    pub alarms: Arc<watch::Sender<Vec<String>>>,
    rule: Rule,
    pub pause: Arc<watch::Sender<bool>>,
}

impl Sink {
    pub fn new() -> Self {
        Self::with(|_, _| Ok(()))
    }

    /// Fails where the rule says so.
    pub fn with(
        rule: impl Fn(&Context, &[Value]) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            seen: Arc::new(watch::channel(Vec::new()).0),
            closes: Arc::default(),
            alarms: Arc::new(watch::channel(Vec::new()).0),
            rule: Arc::new(rule),
            pause: Arc::new(watch::channel(false).0),
        }
    }

    pub fn hear(&self, event: &Event) {
        if let Event::Alarm { message, .. } = event {
            self.alarms.send_modify(|alarms| alarms.push(message.clone()));
        }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    pub fn ids(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.id).collect()
    }

    /// Waits until what was seen is enough.
    pub async fn until(&self, what: &str, enough: impl Fn(&[Seen]) -> bool) {
        let mut seen = self.seen.subscribe();
        let waited = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| enough(seen))).await;
        assert!(
            waited.is_ok(),
            "{what}; seen: {:?}; alarms: {:?}",
            self.ids(),
            self.alarms.borrow()
        );
    }

    /// Waits until an alarm says so.
    pub async fn until_alarm(&self, text: &str) {
        let mut alarms = self.alarms.subscribe();
        let said = |alarms: &Vec<String>| alarms.iter().any(|alarm| alarm.contains(text));
        let waited = tokio::time::timeout(PATIENCE, alarms.wait_for(said)).await;
        assert!(waited.is_ok(), "no alarm about '{text}': {:?}", self.alarms.borrow());
    }

    /// Waits until so many different items were seen.
    pub async fn until_count(&self, count: usize) {
        self.until(&format!("{count} items"), |seen| distinct(seen) >= count).await;
    }
}

pub fn distinct(seen: &[Seen]) -> usize {
    seen.iter().map(|seen| &seen.id).collect::<std::collections::BTreeSet<_>>().len()
}

/// Waits until something can be seen from outside.
pub async fn eventually<T: Future<Output = bool>>(what: &str, holds: impl Fn() -> T) {
    let began = std::time::Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub struct Collector {
    pub sink: Sink,
    pub instance: String,
}

impl Observer for Collector {
    async fn process(&self, context: &Context, changes: &[Change]) -> Result<(), HandlerError> {
        let mut paused = self.sink.pause.subscribe();
        paused.wait_for(|paused| !paused).await?;
        let items: Vec<Value> = changes.iter().map(|change| change.parse().unwrap()).collect();
        (self.sink.rule)(context, &items)?;
        let seen = changes.iter().zip(&items).map(|(change, item)| {
            let body = if item["current"].is_object() { &item["current"] } else { item };
            Seen {
                id: body["id"].as_str().unwrap_or_default().to_owned(),
                key: body["pk"].as_str().unwrap_or_default().to_owned(),
                lsn: change.lsn(),
                instance: self.instance.clone(),
                lease: context.lease_token().to_owned(),
            }
        });
        let seen: Vec<Seen> = seen.collect();
        self.sink.seen.send_modify(|all| all.extend(seen));
        Ok(())
    }

    async fn close(&self, context: &Context, reason: CloseReason) {
        let closed = (context.lease_token().to_owned(), reason);
        self.sink.closes.lock().unwrap().push(closed);
    }
}
