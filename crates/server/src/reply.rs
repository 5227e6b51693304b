//! What goes back to the client: status, headers, body.
//!
//! Only headers that a client makes use of are sent. The public service decorates every
//! answer with a dozen more (versions, replica LSNs, quotas, timings); no SDK reads them, and
//! on a small answer they would cost more than the body.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use engine::{At, Container};
use hyper::body::{Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use hyper::{Response, StatusCode};
use model::digits;
use model::token::{Etag, write_session_token};
use smallvec::SmallVec;

use crate::header;
use crate::path::percent_encoded;
use crate::push::Flow;

/// An answer in the making.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The body, whole.
    pub body: Bytes,
    /// The body, where it is made while it is sent.
    pub flow: Option<Box<Flow>>,
    headers: Sheet,
}

/// Headers in the making: their texts, one behind the other, and where each ends and whose it is.
#[derive(Debug, Default)]
struct Sheet {
    texts: Vec<u8>,
    named: Vec<(&'static HeaderName, u32)>,
}

thread_local! {
    /// A sheet that is at hand: answers are short-lived, and follow each other.
    static SHEET: Cell<Sheet> = const { Cell::new(Sheet { texts: Vec::new(), named: Vec::new() }) };
}

/// Enough for the headers of an item.
const TEXT_BYTES: usize = 256;

/// A sheet with more room than this is not kept.
const SHEET_BYTES: usize = 4096;

impl Reply {
    /// An answer without a body.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, body: Bytes::new(), flow: None, headers: SHEET.take() }
    }

    /// An answer with a JSON body.
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::text(status, "application/json", body)
    }

    /// An answer with a body of some type.
    pub fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        let mut reply = Self::empty(status);
        reply.body = body.into();
        reply.set_text(&CONTENT_TYPE, kind);
        reply
    }

    /// Adds a header. A text that a header cannot carry is left out.
    pub fn set_text(&mut self, name: &'static HeaderName, text: impl AsRef<[u8]>) {
        self.headers.texts.extend_from_slice(text.as_ref());
        self.end_text(name);
    }

    /// Adds a header with a number.
    pub fn set_number(&mut self, name: &'static HeaderName, number: u64) {
        digits::push(&mut self.headers.texts, number);
        self.end_text(name);
    }

    /// What was written since the last text belongs to this header.
    fn end_text(&mut self, name: &'static HeaderName) {
        let Sheet { texts, named } = &mut self.headers;
        named.push((name, texts.len() as u32));
    }

    /// Adds a header with something that prints itself.
    pub fn set_shown(&mut self, name: &'static HeaderName, shown: &dyn std::fmt::Display) {
        let _ = write!(self.headers.texts, "{shown}");
        self.end_text(name);
    }

    /// Adds the etag.
    pub fn set_etag(&mut self, etag: &Etag) {
        etag.write_into(&mut self.headers.texts);
        self.end_text(&ETAG);
    }

    /// Adds the charge.
    pub fn set_charge(&mut self, charge: f64) {
        digits::push_cents(&mut self.headers.texts, charge);
        self.end_text(&header::REQUEST_CHARGE);
    }

    /// Adds the owner headers by which clients keep their session tokens and routing maps.
    pub fn set_container(&mut self, container: &Container) {
        self.set_text(&header::CONTENT_PATH, container.rid());
        let link = container.link();
        let plain = link.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b'%');
        match plain {
            true => self.set_text(&header::ALT_CONTENT_PATH, link),
            false => self.set_text(&header::ALT_CONTENT_PATH, percent_encoded(link)),
        }
    }

    /// Adds where in the order of its partition the request was served.
    pub fn set_position(&mut self, at: &At) {
        self.set_text(&header::RANGE_ID, &*at.range);
        self.set_number(&header::LSN, at.lsn);
        if let Some(lsn) = at.item_lsn {
            self.set_number(&header::ITEM_LSN, lsn);
        }
        write_session_token(&mut self.headers.texts, &at.range, at.lsn);
        self.end_text(&header::SESSION_TOKEN);
    }

    /// The HTTP response, with a map of headers that has room already: those of the request, which nobody
    /// needs any more.
    pub fn into_response(self, mut headers: HeaderMap) -> Response<Body> {
        headers.clear();
        self.headers.fill(&mut headers);
        let mut response = Response::new(match self.flow {
            None => Body::Whole(self.body),
            Some(flow) => Body::Flow(flow),
        });
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response
    }
}

impl Sheet {
    /// Writes it out, and puts itself back where the next answer finds it.
    fn fill(mut self, headers: &mut HeaderMap) {
        // With what counts who holds them, they take one piece of memory.
        let texts = Bytes::from_owner(SmallVec::<[u8; TEXT_BYTES]>::from_slice(&self.texts));
        let plain = is_plain(&texts);
        let mut start = 0;
        for (name, end) in self.named.drain(..) {
            let end = end as usize;
            match value_of(texts.slice(start..end), plain) {
                Ok(value) => drop(headers.insert(name, value)),
                Err(_) => tracing::warn!(%name, "a text does not fit into a header"),
            }
            start = end;
        }
        self.texts.clear();
        if self.texts.capacity() <= SHEET_BYTES {
            SHEET.set(self);
        }
    }
}

/// Whether any part of a text can stand in a header. All bytes are looked at whatever they are, and so many
/// at once.
fn is_plain(text: &[u8]) -> bool {
    text.iter().fold(true, |plain, byte| plain & (*byte >= b' ') & (*byte <= b'~'))
}

/// A text as a header has it; plain ones are not looked at again.
#[expect(
    unsafe_code,
    reason = "what would be checked byte by byte has been checked for all at once"
)]
fn value_of(text: Bytes, plain: bool) -> Result<HeaderValue, InvalidHeaderValue> {
    match plain {
        // SAFETY: a plain text has nothing but visible ASCII and spaces, which a header takes.
        true => Ok(unsafe { HeaderValue::from_maybe_shared_unchecked(text) }),
        false => HeaderValue::from_maybe_shared(text),
    }
}

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// Known from the start.
    Whole(Bytes),
    /// Made while it is sent.
    Flow(Box<Flow>),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Flow(flow) => flow.poll_next(cx).map(|chunk| Some(Ok(Frame::data(chunk?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Flow(_) => SizeHint::default(),
        }
    }
}

/// An object as JSON text, member by member, for lists of what is JSON text already.
pub fn list(owner: &str, name: &str, entries: &[Bytes]) -> Bytes {
    let bytes: usize = entries.iter().map(|entry| entry.len() + 1).sum();
    let head = format!("{{\"_rid\":\"{owner}\",\"{name}\":[");
    let mut body = Vec::with_capacity(head.len() + bytes + 32);
    body.extend_from_slice(head.as_bytes());
    for (n, entry) in entries.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        body.extend_from_slice(entry);
    }
    body.extend_from_slice(format!("],\"_count\":{}}}", entries.len()).as_bytes());
    Bytes::from(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(list("", "Databases", &[]), r#"{"_rid":"","Databases":[],"_count":0}"#);
        let entries = [Bytes::from_static(b"{}"), Bytes::from_static(b"1")];
        assert_eq!(
            list("a=", "Documents", &entries),
            r#"{"_rid":"a=","Documents":[{},1],"_count":2}"#
        );
    }

    #[test]
    fn texts_go_to_their_headers() {
        let mut reply = Reply::empty(StatusCode::OK);
        reply.set_text(&header::RANGE_ID, "7");
        reply.set_text(&header::CONTINUATION, "line\nbreak");
        reply.set_number(&header::LSN, 0);
        reply.set_number(&header::ITEM_LSN, u64::MAX);
        let mut before = HeaderMap::new();
        before.insert(&header::IS_QUERY, HeaderValue::from_static("true"));
        let response = reply.into_response(before);
        assert_eq!(response.headers()[&header::RANGE_ID], "7");
        assert_eq!(response.headers().len(), 3);
        assert_eq!(response.headers()[&header::LSN], "0");
        assert_eq!(response.headers()[&header::ITEM_LSN], "18446744073709551615");
        assert!(!response.headers().contains_key(&header::CONTINUATION));
    }

    #[test]
    fn texts_are_plain_or_looked_at() {
        for text in ["", "a b~!", "caf\u{e9}", "tab\there"] {
            let mut reply = Reply::empty(StatusCode::OK);
            reply.set_text(&header::CONTINUATION, text);
            let response = reply.into_response(HeaderMap::new());
            assert_eq!(response.headers()[&header::CONTINUATION].as_bytes(), text.as_bytes());
        }
        assert!(is_plain(b" ~"));
        for byte in [0, b'\n', b'\r', b'\t', 0x1F, 0x7F, 0x80, 0xFF] {
            let mut text = [b'x'; 40];
            text[33] = byte;
            assert!(!is_plain(&text), "{byte}");
        }
    }

    #[test]
    fn charges_are_short() {
        for (charge, expect) in [(1.0, "1"), (1.09, "1.09"), (10.5, "10.5"), (2.0, "2")] {
            let mut reply = Reply::empty(StatusCode::OK);
            reply.set_charge(charge);
            let response = reply.into_response(HeaderMap::new());
            assert_eq!(response.headers()[&header::REQUEST_CHARGE], expect);
        }
    }
}
