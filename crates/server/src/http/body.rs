//! Request bodies: read whole, within limits of size, time and memory.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;
use model::{Error, Fault, Result, limits};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What is read of a refused body, so that the client gets to read the refusal before the
/// connection breaks under what it is still sending.
const DISCARD_BYTES: usize = 16 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(10);
/// Unit in which memory is counted.
const UNIT_BYTES: usize = 1024;
/// A body of so many bytes is not counted: what else there is of a request takes as much.
const SMALL_BYTES: u64 = 4096;

/// The memory for bodies of all requests under way.
#[derive(Debug)]
pub struct Budget(Semaphore);

impl Budget {
    /// Room for so many bytes, at least for one request.
    pub fn new(bytes: usize) -> Self {
        let units = bytes.max(limits::REQUEST_BYTES) / UNIT_BYTES;
        Self(Semaphore::new(units.min(Semaphore::MAX_PERMITS)))
    }
}

/// A body, and its part of the budget for as long as it is needed.
#[derive(Debug)]
pub struct Held<'a> {
    /// The body, as JSON text.
    pub text: Bytes,
    /// How long it was on the wire.
    pub received: usize,
    _memory: Option<SemaphorePermit<'a>>,
}

/// Reads a body; one in the binary form of JSON is turned into text.
pub async fn read<'a>(
    body: Incoming,
    headers: &HeaderMap,
    budget: &'a Budget,
    time: Duration,
) -> Result<Held<'a>> {
    if body.is_end_stream() {
        return Ok(Held { text: Bytes::new(), received: 0, _memory: None });
    }
    if body.size_hint().lower() > limits::REQUEST_BYTES as u64 {
        discard(body, headers);
        return Err(too_large());
    }
    let mut reader = Reader { body, budget, held: None, waits: false };
    let read = {
        let mut reading = pin!(reader.read());
        match soon(reading.as_mut()).await {
            Some(read) => Ok(read),
            None => tokio::time::timeout(time, reading).await,
        }
    };
    let read = match read {
        Ok(read) => read,
        Err(_) if reader.waits => Err(Error::new(
            Fault::Unavailable,
            "too many large requests are under way: try again shortly",
        )),
        Err(_) => Err(Error::new(Fault::RequestTimeout, "the body took too long to arrive")),
    };
    match read {
        Ok(bytes) => {
            let received = bytes.len();
            Ok(Held { text: as_text(bytes)?, received, _memory: reader.held })
        }
        Err(error) => {
            if error.fault == Fault::TooLarge {
                discard(reader.body, headers);
            }
            Err(error)
        }
    }
}

/// The outcome of a future that is ready by the second look. A body that has come together with its head is,
/// and needs no timer.
async fn soon<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut first = true;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending if std::mem::take(&mut first) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Reads on without keeping anything, for a while. A client that waits for our consent before
/// it sends a body needs none of it.
pub fn discard(mut body: Incoming, headers: &HeaderMap) {
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move {
        let mut left = DISCARD_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else {
                return;
            };
            left = rest;
        }
    }));
}

struct Reader<'a> {
    body: Incoming,
    budget: &'a Budget,
    held: Option<SemaphorePermit<'a>>,
    waits: bool,
}

impl Reader<'_> {
    async fn read(&mut self) -> Result<Bytes> {
        let announced = self.body.size_hint().exact();
        let Some(first) = self.chunk(0).await? else { return Ok(Bytes::new()) };
        self.hold(announced.unwrap_or(limits::REQUEST_BYTES as u64)).await;
        // Most bodies come in one piece, which then needs no copy.
        if self.body.is_end_stream() {
            return Ok(first);
        }
        let mut whole = BytesMut::from(first);
        // Of a body without a length the end is known only when it has come.
        while let Some(chunk) = self.chunk(whole.len()).await? {
            whole.extend_from_slice(&chunk);
        }
        if announced.is_some_and(|announced| announced != whole.len() as u64) {
            return Err(Error::bad_request("the body broke off: it is shorter than announced"));
        }
        Ok(whole.freeze())
    }

    /// The next piece after so many bytes; none at the end.
    async fn chunk(&mut self, before: usize) -> Result<Option<Bytes>> {
        let chunk = match self.body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => {
                return Err(Error::bad_request(format!("the body broke off: {error}")));
            }
        };
        if before + chunk.len() > limits::REQUEST_BYTES {
            return Err(too_large());
        }
        Ok(Some(chunk))
    }

    /// Takes memory for the whole body at once, so that bodies never wait for one another with
    /// half of theirs in hand; and only when its first bytes have come, since announcing a
    /// length costs a client nothing.
    async fn hold(&mut self, bytes: u64) {
        if bytes <= SMALL_BYTES {
            return;
        }
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES as u64)).unwrap_or(u32::MAX);
        self.waits = true;
        self.held = self.budget.0.acquire_many(units).await.ok();
        self.waits = false;
    }
}

fn as_text(body: Bytes) -> Result<Bytes> {
    match model::binary::is_binary(&body) {
        true => Ok(Bytes::from(model::binary::to_text(&body)?)),
        false => Ok(body),
    }
}

fn too_large() -> Error {
    Error::new(
        Fault::TooLarge,
        format!("a request body has at most {} bytes", limits::REQUEST_BYTES),
    )
}
