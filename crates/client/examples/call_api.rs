//! Calls an HTTP API on each change.
//!
//! ```console
//! $ ASTRARIUM_ENDPOINT=http://127.0.0.1:8081 ASTRARIUM_KEY=… \
//!     cargo run --example call_api -- shop orders http://127.0.0.1:9000/orders ./calls.checkpoint
//! ```
//!
//! Each changed item is sent as the body of a POST, with its id and the number of its commit in
//! headers. A call that fails is made again until it succeeds, so nothing is skipped; after a crash
//! calls of the last page are made again, and the receiver tells them by those headers. Calls about
//! one partition key are made in the order of the changes.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use client::{Change, ChangeFeedOptions, Container};
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

#[path = "common/checkpoint.rs"]
mod checkpoint;
#[path = "common/settings.rs"]
mod settings;

pub use checkpoint::Checkpoint;

const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

type Http = Client<HttpConnector, Full<bytes::Bytes>>;

/// Calls the address for each change, until it is told to stop; the page under way is finished.
pub async fn run(
    container: &Container,
    address: &Uri,
    checkpoint: &Checkpoint,
    stop: impl Future<Output = ()>,
) -> Result<(), Box<dyn Error>> {
    let http = Client::builder(TokioExecutor::new()).build_http();
    let mut changes = container.changes(ChangeFeedOptions {
        request_continuation: checkpoint.load()?,
        wait: Some(Duration::from_secs(30)),
        ..ChangeFeedOptions::default()
    })?;
    // What happens from here on is not missed, even if we stop before the first change.
    changes.pin().await?;
    checkpoint.save(&changes.continuation())?;
    tokio::pin!(stop);
    loop {
        let page = tokio::select! {
            page = changes.next_page() => page?,
            () = &mut stop => return Ok(()),
        };
        for change in &page.changes {
            call(&http, address, change).await?;
        }
        checkpoint.save(&page.continuation)?;
    }
}

/// Makes a call, again and again until it succeeds.
async fn call(http: &Http, address: &Uri, change: &Change) -> Result<(), Box<dyn Error>> {
    let mut pause = PAUSE;
    let lsn = change.metadata()?.lsn.unwrap_or_default();
    let id = change.id()?.unwrap_or_default();
    loop {
        let request = Request::post(address)
            .header("content-type", "application/json")
            .header("x-change-id", id.escape_default().to_string())
            .header("x-change-lsn", lsn)
            .body(Full::new(change.bytes().clone()))?;
        match tokio::time::timeout(CALL_TIMEOUT, http.request(request)).await {
            Ok(Ok(answer)) if answer.status().is_success() => {
                // Read to its end, so that the connection serves again.
                let _ = answer.into_body().collect().await;
                return Ok(());
            }
            Ok(Ok(answer)) => eprintln!("{id}: {}; again in {pause:?}", answer.status()),
            Ok(Err(error)) => eprintln!("{id}: {error}; again in {pause:?}"),
            Err(_) => eprintln!("{id}: no answer in time; again in {pause:?}"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = settings::argument(1, "the database")?;
    let container = settings::argument(2, "the container")?;
    let container = settings::client()?.container(&database, &container);
    let address: Uri = settings::argument(3, "the address to call")?.parse()?;
    let checkpoint = Checkpoint::at(settings::argument(4, "the file of the checkpoint")?);
    run(&container, &address, &checkpoint, std::future::pending()).await
}
