//! Signed requests without ceremony, for programs that make many.

use std::io;

use crate::http::{Client, Request, Response};
use crate::{WELL_KNOWN_KEY, date, sign};

/// A client that signs with the well-known key.
#[derive(Debug)]
pub struct Wire {
    client: Client,
}

impl Wire {
    /// A client of `http://host:port`.
    pub fn new(endpoint: &str) -> Self {
        Self { client: Client::new(endpoint) }
    }

    /// Sends a signed request.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        self.client.send(&signed(method, path, headers, body))
    }

    /// `host:port`.
    pub fn host(&self) -> &str {
        self.client.host()
    }
}

/// A request signed with the well-known key.
pub fn signed(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Request {
    let date = date::now(0);
    let (kind, link) = sign::resource(path);
    let authorization = sign::master(WELL_KNOWN_KEY, method, &kind, &link, &date);
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: body.to_vec(),
    };
    request.set("authorization", authorization);
    request.set("x-ms-date", date);
    request.set("x-ms-version", "2020-07-15");
    if !body.is_empty() {
        request.set("content-type", "application/json");
    }
    for (name, value) in headers {
        request.set(name, *value);
    }
    request
}
