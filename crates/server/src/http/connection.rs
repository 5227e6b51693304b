//! One connection: TLS or not, HTTP/1.1 or HTTP/2, told apart by what the client sends first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

use super::brisk::{self, Brisk};
use super::place::InPlace;
use super::respond::{Peer, respond};
use super::watch::{Activity, Order, Orders, Stream, Watched};
use crate::Server;

/// The first byte of a TLS handshake. No HTTP request begins with it.
const TLS_HANDSHAKE: u8 = 0x16;
/// Room for the head of a request.
const HEAD_BYTES_MAX: usize = 128 * 1024;
const HTTP2_STREAMS_MAX: u32 = 256;
const HTTP2_HEAD_BYTES_MAX: u32 = 64 * 1024;

/// Serves a connection to its end, or until told to stop.
pub async fn serve(stream: TcpStream, server: Arc<Server>, activity: Arc<Activity>) {
    let _open = server.metrics.connection();
    let local = stream.local_addr().map(|address| address.to_string()).unwrap_or_default();
    let mut opening = pin!(open(stream, &server, &activity));
    let mut orders = Orders::of(&activity);
    let opened = poll_fn(|cx| match orders.poll(cx) {
        Order::None => opening.as_mut().poll(cx),
        Order::Finish | Order::End => Poll::Ready(None),
    });
    let Some(stream) = opened.await else { return };
    let secure = matches!(stream, Stream::Tls(_));
    let peer = Arc::new(Peer { server: server.clone(), activity: activity.clone(), secure, local });
    drive(Watched { stream, activity: activity.clone() }, peer, &activity).await;
}

/// Waits for the first byte and makes the TLS handshake if it asks for one.
async fn open(stream: TcpStream, server: &Server, activity: &Activity) -> Option<Stream> {
    let mut first = [0];
    if !matches!(stream.peek(&mut first).await, Ok(1)) {
        return None;
    }
    if first != [TLS_HANDSHAKE] {
        return Some(Stream::Plain(stream));
    }
    // A handshake may take as long as the head of a request.
    activity.received();
    match server.tls.as_ref()?.accept(stream).await {
        Ok(stream) => Some(Stream::Tls(Box::new(stream))),
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
    }
}

async fn drive(stream: Watched, peer: Arc<Peer>, activity: &Arc<Activity>) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The watch has a limit for heads that does not also end idle connections, as hyper's does.
    builder.http1().header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
    // Where it is seen without reading that a client goes, hyper need not try to read during each request, for
    // which it makes room each time.
    builder.http1().half_close(!peer.secure);
    builder
        .http2()
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(HTTP2_HEAD_BYTES_MAX);
    let service = InPlace::new(|request| respond(peer.clone(), request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let (mut orders, mut finishing) = (Orders::of(activity), false);
    let mut brisk = Brisk::new();
    let ended = poll_fn(|cx| {
        match orders.poll(cx) {
            Order::None => {}
            Order::Finish if finishing => {}
            Order::Finish => {
                finishing = true;
                connection.as_mut().graceful_shutdown();
            }
            Order::End => return Poll::Ready(Ok(())),
        }
        if activity.traffic().is_busy() {
            brisk.forget();
            return connection.as_mut().poll(cx);
        }
        let woken = Instant::now();
        let polled = connection.as_mut().poll(cx);
        let ran = (woken, Instant::now());
        let (requests, idle) = activity.requests();
        if polled.is_pending() && brisk.waits_awake(ran, requests, idle, activity.traffic()) {
            brisk::expect(activity);
        }
        polled
    });
    if let Err(error) = ended.await {
        tracing::debug!(error, "a connection ended badly");
    }
}
