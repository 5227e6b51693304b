//! One request, from its head to its answer. Whatever happens in between, there is one.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HOST};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Version};
use model::{Error, Fault};

use super::watch::Activity;
use super::{body, cors};
use crate::activity_id::ActivityId;
use crate::auth::{self, Claim};
use crate::handle::{Call, handle};
use crate::path::Path;
use crate::reply::{Body, Reply};
use crate::request::Headers;
use crate::route::{Operation, Verb, route};
use crate::{Server, date, header, wire};

/// What a request must know of its connection.
pub struct Peer {
    /// The server.
    pub server: Arc<Server>,
    /// What the connection is doing.
    pub activity: Arc<Activity>,
    /// Whether it is encrypted.
    pub secure: bool,
    /// Our end of it.
    pub local: String,
}

/// Answers a request. What can be done at once is: the future begins with as little as there can be.
pub fn respond(
    peer: Arc<Peer>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Body>, Infallible>> {
    let start = Instant::now();
    let busy = peer.activity.request(request.version() == Version::HTTP_2);
    let (parts, body) = request.into_parts();
    async move {
        let peer = &*peer;
        let activity = ActivityId::of(&parts.headers);
        let routed = Routed::of(&parts);
        if routed.as_ref().is_ok_and(|routed| !routed.operation.is_brief()) {
            peer.activity.attend();
        }
        let mut received = 0;
        let answered = match &routed {
            Ok(routed) => caught(pin!(answer(peer, &parts, routed, body, &mut received))).await,
            Err(error) => {
                body::discard(body, &parts.headers);
                Some(Err(error.clone()))
            }
        };
        let operation = routed.ok().map(|routed| routed.operation);
        let mut reply = match answered {
            Some(Ok(reply)) => reply,
            Some(Err(error)) => unserved(peer, &parts, error),
            None => panicked(peer, &parts, &activity),
        };
        cors::expose(&mut reply, &parts.headers, &peer.server.options.cors);
        if parts.method == Method::HEAD {
            reply.set_number(&CONTENT_LENGTH, reply.body.len() as u64);
            reply.body = Bytes::new();
            reply.flow = None;
        }
        if let Some(flow) = &mut reply.flow {
            flow.hold(busy);
        }
        let (took, bytes) = (start.elapsed(), (received, reply.body.len()));
        let status = reply.status.as_u16();
        peer.server.metrics.request(operation, status, took, bytes);
        let (id, took_us) = (activity.as_str(), took.as_micros() as u64);
        if status >= 500 {
            let body = String::from_utf8_lossy(&reply.body);
            tracing::error!(activity = id, ?operation, status, took_us, %body, "failed");
        } else {
            tracing::debug!(activity = id, ?operation, status, took_us, "answered");
        }
        reply.set_text(&header::ACTIVITY_ID, activity.as_str());
        Ok(reply.into_response(parts.headers))
    }
}

/// A request whose operation is known.
struct Routed<'a> {
    path: Path<'a>,
    headers: Headers<'a>,
    operation: Operation,
}

impl<'a> Routed<'a> {
    fn of(parts: &'a Parts) -> model::Result<Self> {
        let path = Path::parse(parts.uri.path())?;
        let headers = Headers::of(&parts.headers);
        let operation = route(Verb::of(&parts.method, headers)?, &path)?;
        Ok(Self { path, headers, operation })
    }
}

async fn answer(
    peer: &Peer,
    parts: &Parts,
    routed: &Routed<'_>,
    body: Incoming,
    received: &mut usize,
) -> model::Result<Reply> {
    let server = &peer.server;
    let headers = routed.headers;
    let (path, operation) = (&routed.path, routed.operation);
    let claim = Claim { method: &parts.method, path, headers, operation, now: date::now() };
    let principal = match auth::authorize(&claim, &server.keys, &server.engine, &server.tokens) {
        Ok(principal) => principal,
        Err(error) => {
            body::discard(body, &parts.headers);
            return Err(error);
        }
    };
    let body =
        body::read(body, &parts.headers, &server.bodies, server.options.body_timeout).await?;
    *received = body.received;
    let host = host_of(parts).unwrap_or(&peer.local);
    let secure = peer.secure;
    let text = body.text.clone();
    handle(&Call { server, operation, path, headers, body: text, principal, host, secure }).await
}

/// A refusal; for a browser that asks before it sends, perhaps a yes.
fn unserved(peer: &Peer, parts: &Parts, error: Error) -> Reply {
    let origins = &peer.server.options.cors;
    cors::preflight(&parts.method, &parts.headers, origins)
        .unwrap_or_else(|| wire::error::reply(&error))
}

fn panicked(peer: &Peer, parts: &Parts, activity: &ActivityId) -> Reply {
    peer.server.metrics.panic();
    tracing::error!(activity = activity.as_str(), method = %parts.method, path = parts.uri.path(), "a request panicked");
    wire::error::reply(&Error::new(Fault::Internal, "the server made a mistake; its log says more"))
}

/// The host and port that the client used. What could not stand in a URL is not repeated.
fn host_of(parts: &Parts) -> Option<&str> {
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    let host = authority.or_else(|| parts.headers.get(HOST)?.to_str().ok())?;
    let sane = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_[]".contains(&byte);
    (!host.is_empty() && host.len() <= 255 && host.bytes().all(sane)).then_some(host)
}

/// The outcome of a future, or `None` if it panicked.
async fn caught<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(outcome)) => Poll::Ready(Some(outcome)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake() -> u8 {
        panic!("a mistake")
    }

    #[tokio::test]
    async fn a_panic_ends_one_request_only() {
        let panicking = async {
            tokio::task::yield_now().await;
            mistake()
        };
        assert_eq!(caught(pin!(panicking)).await, None);
        assert_eq!(caught(pin!(async { 1 })).await, Some(1));
    }

    #[test]
    fn hosts_that_could_not_stand_in_a_url_are_not_repeated() {
        let host = |text: &'static str| {
            let request = Request::get("/").header(HOST, text).body(()).unwrap();
            host_of(&request.into_parts().0).map(str::to_owned)
        };
        assert_eq!(host("[::1]:8081").as_deref(), Some("[::1]:8081"));
        assert_eq!(host("a.example").as_deref(), Some("a.example"));
        for wrong in ["", "a/b", "a\"b", "user@host"] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }
}
