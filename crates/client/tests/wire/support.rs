//! A server process for each test, and what tests say about it in one line.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use client::{
    Account, ChangeFeedOptions, Changes, Client, Container, Credential, ItemOptions, Options, Page,
    Throughput,
};
use conformance::WELL_KNOWN_KEY;
use conformance::server::{Scratch, Server};
use serde_json::{Value, json};

/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nobody here has more to read.
const PAGES_MAX: usize = 1000;

/// The server's binary: `ASTRARIUM_BIN`, or the one that cargo builds beside us.
fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let built = || {
        let own = std::env::current_exe().unwrap();
        let target = own.ancestors().nth(3).unwrap();
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "astrarium-server", "--bin", "astrarium"]);
        // What cargo tells a test about its package would make build scripts run again.
        for (name, _) in std::env::vars_os() {
            let told = ["CARGO_PKG_", "CARGO_MANIFEST_"];
            if told.iter().any(|told| name.to_string_lossy().starts_with(told)) {
                build.env_remove(name);
            }
        }
        assert!(build.env("CARGO_TARGET_DIR", target).status().unwrap().success());
        target.join("debug/astrarium")
    };
    let named = || std::env::var_os("ASTRARIUM_BIN").map(PathBuf::from);
    BINARY.get_or_init(|| named().unwrap_or_else(built)).clone()
}

/// A server, its data, and a container on it.
pub struct Home {
    pub server: Server,
    pub scratch: Scratch,
}

impl Home {
    /// A server that keeps its data in memory.
    pub fn new() -> Self {
        Self::with(&["--memory"])
    }

    /// A server with settings.
    pub fn with(settings: &[&str]) -> Self {
        let scratch = Scratch::new("client").unwrap();
        let settings = [&["--log-level", "error"], settings].concat();
        let server = Server::start(&binary(), scratch.path(), &settings).unwrap();
        Self { server, scratch }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        client_of(&self.server.endpoint, Options::default())
    }

    /// A new container `d/c` with some ranges, partitioned by `/pk`.
    pub async fn container(&self, ranges: u32) -> Container {
        let client = self.client();
        client.ensure_database("d", Throughput::Unsaid).await.unwrap();
        let throughput = Throughput::Manual(ranges * 10_000);
        client.database("d").ensure_container("c", "/pk", throughput).await.unwrap()
    }
}

pub fn client_of(endpoint: &str, options: Options) -> Client {
    let account = Account::new(endpoint, Credential::key(WELL_KNOWN_KEY).unwrap()).unwrap();
    Client::new(account, options).unwrap()
}

/// The definition of a container that keeps all versions for an hour.
pub fn versioned() -> Value {
    json!({
        "id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "changeFeedPolicy": {"retentionDuration": 60},
    })
}

/// Creates items `{prefix}{n}`, each with a partition key of its own.
pub async fn fill(container: &Container, prefix: &str, count: usize) {
    for n in 0..count {
        let (id, key) = (format!("{prefix}{n}"), format!("key-{n}"));
        let item = json!({"id": id, "pk": key, "n": n});
        container.create_item(key, item, ItemOptions::default()).await.unwrap();
    }
}

/// Options of a reader that begins at the beginning.
pub fn beginning() -> ChangeFeedOptions {
    ChangeFeedOptions { start_from_beginning: true, ..ChangeFeedOptions::default() }
}

/// All pages up to where nothing is new.
pub async fn pages(changes: &mut Changes) -> Vec<Page> {
    let mut pages = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = soon(changes.next_page()).await.unwrap();
        if page.is_caught_up {
            return pages;
        }
        pages.push(page);
    }
    panic!("the reader does not come to an end: {changes:?}");
}

/// The ids of a page.
pub fn ids(page: &Page) -> Vec<String> {
    page.changes.iter().map(|change| change.id().unwrap().unwrap()).collect()
}

/// The ids of all that is new, sorted.
pub async fn drain(changes: &mut Changes) -> Vec<String> {
    let mut ids: Vec<String> = pages(changes).await.iter().flat_map(ids).collect();
    ids.sort();
    ids
}

/// `{prefix}0` and so on, sorted.
pub fn names(prefix: &str, count: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..count).map(|n| format!("{prefix}{n}")).collect();
    names.sort();
    names
}

/// Waits, but not for ever.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("took too long")
}
