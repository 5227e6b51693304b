//! A request in the making: what it asks for, and how it may be treated when it fails.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, header as http};

use crate::error::{Error, Result};
use crate::header;
use crate::item::Condition;

/// Longest name of anything on the wire, in bytes.
const NAME_BYTES_MAX: usize = 1023;

/// A request, before it has an address, a date and a signature.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    /// The path, encoded, with its first slash.
    pub path: String,
    /// Resource type and link, as they are signed.
    pub kind: &'static str,
    pub link: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether it changes nothing, so that it may be repeated at any time.
    pub is_read: bool,
    /// Whether it names a partition key range, so that only the caller knows what to do when
    /// the range is gone.
    pub names_range: bool,
    /// How long the server is asked to wait before it answers.
    pub wait: Duration,
}

impl Request {
    /// A request about a list: `kind` below `owner` (`dbs/a/colls/b`, or empty).
    pub fn list(method: Method, owner: &Link, kind: &'static str) -> Self {
        let path = format!("{}/{kind}", owner.path());
        Self::new(method, path, kind, owner.text())
    }

    /// A request about one thing.
    pub fn one(method: Method, link: &Link) -> Self {
        Self::new(method, link.path(), link.kind(), link.text())
    }

    /// A request below a container that is signed as if it were about the container itself.
    pub fn about(method: Method, container: &Link, word: &str) -> Self {
        Self::new(method, format!("{}/{word}", container.path()), "colls", container.text())
    }

    fn new(method: Method, path: String, kind: &'static str, link: String) -> Self {
        let is_read = method == Method::GET;
        Self {
            method,
            path: if path.is_empty() { "/".to_owned() } else { path },
            kind,
            link,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            is_read,
            names_range: false,
            wait: Duration::ZERO,
        }
    }

    /// The account document.
    pub fn account() -> Self {
        Self::new(Method::GET, "/".to_owned(), "", String::new())
    }

    /// Adds a JSON body.
    pub fn json(mut self, body: Bytes) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.body = body;
        self
    }

    /// Adds a header with a value of ours.
    pub fn set(&mut self, name: HeaderName, value: &'static str) {
        self.headers.insert(name, HeaderValue::from_static(value));
    }

    /// Adds a header with a value that may hold anything.
    pub fn set_text(&mut self, name: HeaderName, text: &str) -> Result<()> {
        let value = HeaderValue::from_str(text)
            .map_err(|_| Error::setting(format!("'{text}' cannot be sent as the header {name}")))?;
        self.headers.insert(name, value);
        Ok(())
    }

    /// Adds a page size; without one, the server chooses.
    pub fn set_page(
        &mut self,
        max_item_count: Option<u32>,
        continuation: Option<&str>,
    ) -> Result<()> {
        if let Some(count) = max_item_count {
            if count == 0 {
                return Err(Error::setting("max_item_count must be at least 1"));
            }
            self.set_text(header::MAX_ITEM_COUNT, &count.to_string())?;
        }
        if let Some(continuation) = continuation {
            self.set_text(header::CONTINUATION, continuation)?;
        }
        Ok(())
    }

    /// Adds an etag condition.
    pub fn set_condition(&mut self, condition: &Condition) -> Result<()> {
        match condition {
            Condition::Always => Ok(()),
            Condition::IfMatch(etag) => self.set_text(http::IF_MATCH, etag),
            Condition::IfNoneMatch(etag) => self.set_text(http::IF_NONE_MATCH, etag),
        }
    }
}

/// The way to a resource: `dbs/{name}/colls/{name}/…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Link(Vec<(&'static str, String)>);

impl Link {
    /// The account itself.
    pub fn root() -> Self {
        Self(Vec::new())
    }

    /// One step further.
    pub fn child(&self, kind: &'static str, name: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push((kind, name.to_owned()));
        Self(steps)
    }

    /// Refuses names that no resource can have. They would make another path of this one.
    pub fn check(&self) -> Result<()> {
        for (kind, name) in &self.0 {
            if name.is_empty()
                || name.len() > NAME_BYTES_MAX
                || name.contains(['/', '\\', '?', '#'])
            {
                let shown: String = name.chars().take(60).collect();
                return Err(Error::setting(format!(
                    "'{shown}' cannot be a name in {kind}: it must have 1 to {NAME_BYTES_MAX} bytes and none of / \\ ? #"
                )));
            }
        }
        Ok(())
    }

    fn kind(&self) -> &'static str {
        self.0.last().map_or("", |(kind, _)| kind)
    }

    /// As it is signed, and as errors name it.
    pub fn text(&self) -> String {
        let steps: Vec<String> =
            self.0.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
        steps.join("/")
    }

    fn path(&self) -> String {
        self.0.iter().map(|(kind, name)| format!("/{kind}/{}", percent_encoded(name))).collect()
    }
}

/// Leaves only what is safe everywhere.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(byte as char);
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(request: Request, expect: &str) {
        let got = format!("{} {} {} {}", request.method, request.path, request.kind, request.link);
        assert_eq!(got, expect);
    }

    #[test]
    fn paths_are_encoded_and_links_are_not() {
        let container = Link::root().child("dbs", "a b+é%").child("colls", "c");
        check(
            Request::list(Method::POST, &container, "docs"),
            "POST /dbs/a%20b%2B%C3%A9%25/colls/c/docs docs dbs/a b+é%/colls/c",
        );
        check(
            Request::one(Method::GET, &container.child("docs", "1")),
            "GET /dbs/a%20b%2B%C3%A9%25/colls/c/docs/1 docs dbs/a b+é%/colls/c/docs/1",
        );
        let container = Link::root().child("dbs", "d").child("colls", "c");
        check(
            Request::about(Method::GET, &container, "lag"),
            "GET /dbs/d/colls/c/lag colls dbs/d/colls/c",
        );
        check(Request::list(Method::GET, &Link::root(), "dbs"), "GET /dbs dbs ");
        check(Request::account(), "GET /  ");
    }

    #[test]
    fn names_that_would_change_the_path_are_refused() {
        for name in ["", "a/b", "a\\b", "a?b", "a#b", &"x".repeat(1024)] {
            assert!(Link::root().child("dbs", name).check().is_err(), "{name}");
        }
        assert!(Link::root().child("dbs", "..").check().is_ok());
    }
}
