//! What came back: status, headers, body.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{ETAG, HeaderName};
use serde::de::DeserializeOwned;

use crate::error::{Error, Kind, Result};
use crate::header;

/// An answer that is no refusal.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The status: 200, 201, 204, or 304 where a condition was met.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The body as it came; empty where there is none.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// The body, read as a type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        parse(&self.body)
    }

    /// The text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The etag of what was read or written, with its quotes.
    pub fn etag(&self) -> Option<&str> {
        self.text(&ETAG)
    }

    /// What the request cost, in request units.
    pub fn request_charge(&self) -> Option<f64> {
        self.text(&header::REQUEST_CHARGE)?.parse().ok()
    }

    /// The session token.
    pub fn session_token(&self) -> Option<&str> {
        self.text(&header::SESSION_TOKEN)
    }

    /// By which the server's log knows the request.
    pub fn activity_id(&self) -> Option<&str> {
        self.text(&header::ACTIVITY_ID)
    }

    /// The number of the newest commit of the partition that answered.
    pub fn lsn(&self) -> Option<u64> {
        self.text(&header::LSN)?.parse().ok()
    }

    /// The partition key range that answered.
    pub fn range_id(&self) -> Option<&str> {
        self.text(&header::RANGE_ID)
    }

    /// From where a list goes on; absent at its end.
    pub(crate) fn continuation(&self) -> Option<&str> {
        self.text(&header::CONTINUATION).filter(|text| !text.is_empty())
    }

    pub(crate) fn substatus(&self) -> u32 {
        self.text(&header::SUBSTATUS).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn text(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Reads JSON that a server sent.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        Error::new(Kind::Answer, format!("the answer cannot be read as what it should be: {error}"))
    })
}

/// The same, for types that keep parts of the text.
pub(crate) fn borrow<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        Error::new(Kind::Answer, format!("the answer cannot be read as what it should be: {error}"))
    })
}

/// The documents of a page. None of them is copied.
pub(crate) fn documents(body: &Bytes) -> Result<Vec<Bytes>> {
    #[derive(serde::Deserialize)]
    struct Page<'a> {
        #[serde(rename = "Documents", borrow)]
        documents: Vec<&'a serde_json::value::RawValue>,
    }
    let page: Page<'_> = borrow(body)?;
    let slice = |document: &serde_json::value::RawValue| body.slice_ref(document.get().as_bytes());
    Ok(page.documents.into_iter().map(slice).collect())
}
