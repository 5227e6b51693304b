//! What the tests share: a client of the running server, and databases that go away again.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::models::{ContainerProperties, ItemResponse, PartitionKeyDefinition};
use azure_data_cosmos::options::{
    ContentResponseOnWrite, ItemWriteOptions, OperationOptions, Precondition,
};
use azure_data_cosmos::{AccountReference, CosmosClient, CosmosError, RoutingStrategy};
use serde_json::Value;
use tokio::runtime::Runtime;

/// Runs a test on the one runtime that all tests share: the SDK keeps connections for the whole
/// process, and a runtime that ends with its test would take those of others along.
pub fn live(test: impl Future<Output = ()>) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime")).block_on(test);
}

/// A client of the server that the environment names.
pub async fn client() -> CosmosClient {
    client_of(&variable("ASTRARIUM_ENDPOINT")).await
}

/// A client of the server at that address.
pub async fn client_of(endpoint: &str) -> CosmosClient {
    let endpoint = endpoint.parse().expect("the endpoint is a URL");
    let account = AccountReference::with_authentication_key(endpoint, variable("ASTRARIUM_KEY"));
    let built = CosmosClient::builder()
        .build(account, RoutingStrategy::ProximityTo("East US".into()))
        .await;
    built.expect("the account answers")
}

/// A variable that whoever runs these tests must set.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask sdk rust`"))
}

/// A new database.
pub async fn database(client: &CosmosClient) -> DatabaseClient {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!("rs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    client.create_database(&id, None).await.expect("the database is created");
    client.database_client(&id)
}

/// A new container with the key `/pk`.
pub async fn container(database: &DatabaseClient) -> ContainerClient {
    container_with(database, ContainerProperties::new("items", PartitionKeyDefinition::from("/pk")))
        .await
}

/// A new container as described.
pub async fn container_with(
    database: &DatabaseClient,
    properties: ContainerProperties,
) -> ContainerClient {
    let id = properties.id.to_string();
    database.create_container(properties, None).await.expect("the container is created");
    database.container_client(&id, None).await.expect("the container is there")
}

/// Options of a write that wants to see what was written.
pub fn with_body() -> ItemWriteOptions {
    let mut operation = OperationOptions::default();
    operation.content_response_on_write = Some(ContentResponseOnWrite::Enabled);
    ItemWriteOptions::default().with_operation_options(operation)
}

/// Options of a write that holds only for that etag.
pub fn if_match(etag: &str) -> ItemWriteOptions {
    ItemWriteOptions::default().with_precondition(Precondition::IfMatch(etag.to_owned().into()))
}

/// The etag of an answer.
pub fn etag(response: &ItemResponse) -> String {
    response.headers().etag().expect("an answer about an item has an etag").to_string()
}

/// The status of a refusal.
pub fn status<T>(result: Result<T, CosmosError>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(error) => u16::from(error.status().status_code()),
    }
}

/// The item without what the server adds.
pub fn own(mut item: Value) -> Value {
    item.as_object_mut().expect("an item is an object").retain(|name, _| !name.starts_with('_'));
    item
}

/// A server that a test may kill, on a port that stays the same.
pub struct OwnServer {
    child: Child,
    port: u16,
    data: PathBuf,
    /// Where it listens.
    pub endpoint: String,
}

impl OwnServer {
    /// Starts one with data of its own.
    pub fn start() -> Self {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = probe.local_addr().expect("a bound port").port();
        drop(probe);
        let data = std::env::temp_dir().join(format!("astrarium-rs-{}-{port}", std::process::id()));
        let (child, endpoint) = run(port, &data);
        Self { child, port, data, endpoint }
    }

    /// Kills it and starts it again.
    pub fn crash(&mut self) {
        self.kill();
        (self.child, self.endpoint) = run(self.port, &self.data);
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

fn run(port: u16, data: &PathBuf) -> (Child, String) {
    let mut command = Command::new(variable("ASTRARIUM_BIN"));
    command.args(["serve", "--ready-json", "--port", &port.to_string(), "--data-dir"]).arg(data);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("stdout was asked for");
    BufReader::new(stdout).read_line(&mut line).expect("a ready line");
    let ready: Value = serde_json::from_str(&line).expect("the ready line is JSON");
    (child, ready["endpoint"].as_str().expect("the ready line tells the endpoint").to_owned())
}
