//! Connections: accepted, served, and on shutdown finished.

mod again;
pub mod body;
pub(crate) mod brisk;
mod connection;
mod cors;
mod place;
mod respond;
pub(crate) mod watch;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::Server;
use again::Again;
use watch::Watch;

/// How long to wait after an accept failed, for instance because files have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until `shutdown` is ready. Then no new ones are taken, requests under
/// way are finished, and what is still open after the time allowed for that is dropped.
pub async fn serve(listener: TcpListener, server: Arc<Server>, shutdown: impl Future<Output = ()>) {
    let watch = Watch::default();
    // Every connection holds a sender; the receiver ends when the last of them is gone.
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let mut shutdown = pin!(shutdown);
    let mut sweeps = interval(watch::sweep_interval(&server.options));
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &server) => accepted,
            _ = sweeps.tick() => {
                watch.sweep(&server.options);
                continue;
            }
            () = &mut shutdown => break,
        };
        let (stream, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (server, activity, alive) = (server.clone(), watch.add(), alive.clone());
        tokio::spawn(async move {
            Again::new(connection::serve(stream, server, activity)).await;
            drop((permit, alive));
        });
    }
    drop((listener, alive));
    server.stop();
    watch.finish();
    let mut patience = pin!(sleep(server.options.shutdown_timeout));
    loop {
        tokio::select! {
            _ = all_gone.recv() => return,
            _ = sweeps.tick() => watch.sweep(&server.options),
            () = &mut patience => return tracing::warn!("some connections were still busy when the server stopped"),
        }
    }
}

async fn accept(
    listener: &TcpListener,
    server: &Server,
) -> io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = server.connections.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}
