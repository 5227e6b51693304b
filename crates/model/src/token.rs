//! Every token the server hands out and reads back: etags, session tokens, continuations.
//!
//! Etags and session tokens have the form that clients look into. Continuations are opaque:
//! a version, what they continue, where, and a checksum, so that one which was cut, edited or
//! carried to another container is refused instead of obeyed.

mod position;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

use crate::{Error, Result, digits};

pub use position::Position;

/// The version of a resource. The quotes around its text are part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Etag(pub [u8; 16]);

impl Etag {
    /// The etag of what a commit wrote: `ordinal` numbers the writes of one commit, and of the
    /// time only the low half is kept.
    pub fn new(lsn: u64, partition: u32, ordinal: u16, ts: u32) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&lsn.to_be_bytes());
        bytes[8..12].copy_from_slice(&partition.to_be_bytes());
        bytes[12..14].copy_from_slice(&ordinal.to_be_bytes());
        bytes[14..].copy_from_slice(&(ts as u16).to_be_bytes());
        Self(bytes)
    }

    /// The LSN of the commit that wrote it.
    pub fn lsn(self) -> u64 {
        let (lsn, _) = self.0.split_first_chunk().expect("an etag is longer than an LSN");
        u64::from_be_bytes(*lsn)
    }

    /// Reads an etag with or without its quotes.
    pub fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let text = inner.unwrap_or(text).as_bytes();
        if text.len() != ETAG_BYTES {
            return None;
        }
        let mut bytes = [0; 16];
        let mut at = 0;
        for (index, byte) in bytes.iter_mut().enumerate() {
            if ETAG_DASHES.contains(&index) {
                if text[at] != b'-' {
                    return None;
                }
                at += 1;
            }
            *byte = hex_digit(text[at])? << 4 | hex_digit(text[at + 1])?;
            at += 2;
        }
        Some(Self(bytes))
    }

    /// Appends the etag as a JSON string, its own quotes escaped.
    pub fn write_json_into(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"\\\"");
        out.extend_from_slice(&self.digits());
        out.extend_from_slice(b"\\\"\"");
    }

    /// Appends the etag in its quotes, as headers have it.
    pub fn write_into(self, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(&self.digits());
        out.push(b'"');
    }

    fn digits(self) -> [u8; ETAG_BYTES] {
        let mut out = [b'-'; ETAG_BYTES];
        let mut at = 0;
        for (index, byte) in self.0.into_iter().enumerate() {
            if ETAG_DASHES.contains(&index) {
                at += 1;
            }
            out[at] = HEX[usize::from(byte >> 4)];
            out[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        out
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits();
        write!(f, "\"{}\"", std::str::from_utf8(&digits).expect("hex digits are ASCII"))
    }
}

/// The condition of an `If-Match` or `If-None-Match` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// `*`: any version, but one.
    Any,
    /// This version.
    Etag(Etag),
    /// Something that no version of ours was ever called.
    Foreign,
}

impl Match {
    /// Reads the value of a header.
    pub fn parse(value: &str) -> Self {
        match value.trim() {
            "*" => Self::Any,
            value => Etag::parse(value).map_or(Self::Foreign, Self::Etag),
        }
    }

    /// Whether the condition holds of the present version, or of there being none.
    pub fn matches(self, present: Option<Etag>) -> bool {
        match self {
            Self::Any => present.is_some(),
            Self::Etag(etag) => present == Some(etag),
            Self::Foreign => false,
        }
    }
}

/// How far a client has seen each range: range id and LSN.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Session(pub Vec<(String, u64)>);

impl Session {
    /// Reads a session token, which may name several ranges.
    pub fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let refusal = |part| {
            Error::bad_request(format!(
                "the session token {part:?} is malformed; send one as it was received"
            ))
        };
        let part = |part| session_part(part).ok_or_else(|| refusal(part));
        text.split(',').map(part).collect::<Result<_>>().map(Self)
    }

    /// The LSN that the client has seen of a range.
    pub fn lsn_of(&self, range_id: &str) -> Option<u64> {
        self.0.iter().filter(|(id, _)| id == range_id).map(|&(_, lsn)| lsn).max()
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (range_id, lsn)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{range_id}:-1#{lsn}")?;
        }
        Ok(())
    }
}

/// The session token of one range. The version is always -1: then clients compare LSNs only.
pub fn session_token(range_id: &str, lsn: u64) -> String {
    let mut out = Vec::new();
    write_session_token(&mut out, range_id, lsn);
    String::from_utf8(out).expect("it is made of texts")
}

/// Appends the session token of one range.
pub fn write_session_token(out: &mut Vec<u8>, range_id: &str, lsn: u64) {
    out.extend_from_slice(range_id.as_bytes());
    out.extend_from_slice(b":-1#");
    digits::push(out, lsn);
}

/// Where a read that was answered in pages goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// What kind of read it continues; numbers are the caller's.
    pub kind: u8,
    /// What it reads, so that it cannot be carried to another container.
    pub scope: u64,
    /// Where it goes on, in the terms of the reader.
    pub position: Bytes,
}

impl Continuation {
    /// The token: header-safe ASCII.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(CONTINUATION_HEAD + self.position.len() + CHECKSUM);
        bytes.extend_from_slice(&[CONTINUATION_VERSION, self.kind]);
        bytes.extend_from_slice(&self.scope.to_be_bytes());
        bytes.extend_from_slice(&self.position);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a token that must be of this kind and scope.
    pub fn decode(text: &str, kind: u8, scope: u64) -> Result<Self> {
        let refuse = |why: &str| {
            Err(Error::bad_request(format!(
                "the continuation token {why}; start again without one"
            )))
        };
        let Some(body) = unsealed(text) else {
            return refuse("is damaged or was not issued by this server");
        };
        if body[0] != CONTINUATION_VERSION {
            return refuse("is of a version that this server does not read");
        }
        if body[1] != kind {
            return refuse("belongs to another kind of request");
        }
        if body[2..CONTINUATION_HEAD] != scope.to_be_bytes() {
            return refuse("belongs to another container or request");
        }
        Ok(Self { kind, scope, position: Bytes::copy_from_slice(&body[CONTINUATION_HEAD..]) })
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";
const ETAG_BYTES: usize = 36;
/// A dash stands before these bytes of an etag.
const ETAG_DASHES: [usize; 4] = [4, 6, 8, 10];
const CONTINUATION_VERSION: u8 = 1;
/// Version, kind and scope.
const CONTINUATION_HEAD: usize = 10;
const CHECKSUM: usize = 4;

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// `id:version#lsn#region=lsn…`, `id:version#lsn` or `id:lsn`.
fn session_part(part: &str) -> Option<(String, u64)> {
    let (id, token) = part.trim().split_once(':')?;
    let mut fields = token.split('#');
    let first = fields.next()?;
    let lsn = match fields.next() {
        None => lsn(first)?,
        Some(global) => {
            first.parse::<i64>().ok()?;
            lsn(global)?
        }
    };
    let region = |field: &str| {
        let (region, local) = field.split_once('=')?;
        Some((region.parse::<u32>().ok()?, local.parse::<i64>().ok()?))
    };
    let known = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic());
    (known && fields.all(|field| region(field).is_some())).then(|| (id.to_owned(), lsn))
}

fn lsn(text: &str) -> Option<u64> {
    // The parser of integers would also take a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The bytes of a continuation without their checksum, if that is right.
fn unsealed(text: &str) -> Option<Vec<u8>> {
    let mut bytes = URL_SAFE_NO_PAD.decode(text.trim()).ok()?;
    if bytes.len() < CONTINUATION_HEAD + CHECKSUM {
        return None;
    }
    let checksum = bytes.split_off(bytes.len() - CHECKSUM);
    (crc32fast::hash(&bytes).to_be_bytes()[..] == checksum[..]).then_some(bytes)
}

#[cfg(test)]
mod tests;
