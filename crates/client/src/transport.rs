//! One attempt: a request goes to one address, and an answer comes back in time or not at all.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::{HeaderMap, Method, Uri};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::answer::Answer;
use crate::connector::Connector;
use crate::error::{Error, Kind};
use crate::options::Options;

/// Connections that are kept for the next request, per address.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// Shorter than what load balancers allow, so that they do not cut what we still count on.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Keeps connections and sends requests over them.
#[derive(Debug, Clone)]
pub struct Transport {
    pool: legacy::Client<Connector, Full<Bytes>>,
    answer_bytes_max: usize,
}

/// Why there is no answer.
#[derive(Debug)]
pub struct Failure {
    pub kind: Kind,
    pub message: String,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind, failure.message)
    }
}

impl Transport {
    pub fn new(connector: Connector, options: &Options) -> Self {
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { pool, answer_bytes_max: options.answer_bytes_max }
    }

    /// Sends a request once. The answer may be a refusal.
    pub async fn attempt(
        &self,
        (method, uri): (Method, Uri),
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Answer, Failure> {
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let exchange = async {
            let response = self.pool.request(request).await.map_err(failure)?;
            let (head, body) = response.into_parts();
            let body = self.collect(body).await?;
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
        };
        tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| {
            let message = format!("no answer within {timeout:?}");
            Err(Failure { kind: Kind::TimedOut, message })
        })
    }

    async fn collect(&self, mut body: Incoming) -> Result<Bytes, Failure> {
        let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let max = self.answer_bytes_max;
        let too_long = || Failure {
            kind: Kind::TooLarge,
            message: format!(
                "the answer is longer than the {max} bytes that are allowed: ask for fewer items"
            ),
        };
        if expected > max {
            return Err(too_long());
        }
        let mut whole = BytesMut::with_capacity(expected);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure {
                kind: Kind::Interrupted,
                message: format!("the connection broke within the answer: {}", chain(&error)),
            })?;
            if let Ok(data) = frame.into_data() {
                if whole.len() + data.len() > max {
                    return Err(too_long());
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok(whole.freeze())
    }
}

fn failure(error: legacy::Error) -> Failure {
    if error.is_connect() {
        let message = format!("the server cannot be reached: {}", chain(&error));
        return Failure { kind: Kind::Unreachable, message };
    }
    let message = format!("the connection broke before there was an answer: {}", chain(&error));
    Failure { kind: Kind::Interrupted, message }
}

/// An error and what lies below it: the reason is at the bottom.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        below = error.source();
    }
    text
}
