//! Who asks, and whether they may: keys that sign requests, and tokens that permissions give.
//!
//! A signature covers the method, the resource and the date, nothing else: that is the
//! protocol. So a signed request can be repeated by who overhears it until its date is too
//! old; transport encryption is what prevents the overhearing.

mod grant;
pub(crate) mod signature;
pub mod token;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use engine::Engine;
use hyper::Method;
use hyper::header::{AUTHORIZATION, DATE};
use model::{Error, Fault, Result, limits};
use ring::hmac;

pub use signature::sign;

use crate::path::{Path, percent_decoded};
use crate::request::Headers;
use crate::route::{Access, Operation};
use crate::{date, header};

/// Who signed a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    /// Nobody: the operation is public.
    Anybody,
    /// The holder of a key that may do everything.
    Owner,
    /// The holder of a key that may only read.
    Reader,
    /// The holder of a resource token, within what it covers.
    Bearer,
}

/// The keys of the account, each ready to verify with.
pub struct Keys {
    full: Vec<hmac::Key>,
    read_only: Vec<hmac::Key>,
    /// What was verified last, of requests that many others are like.
    verified: ArcSwapOption<Verified>,
}

/// A signature that fits, and whose it is. Clients name seconds in the dates they sign, so all that one
/// posts to a container within a second bears the same: it is verified once.
struct Verified {
    text: Vec<u8>,
    signature: [u8; 32],
    principal: Principal,
}

impl Keys {
    /// Prepares keys, given as they are after decoding.
    pub fn new(full: &[Vec<u8>], read_only: &[Vec<u8>]) -> Self {
        let prepare = |keys: &[Vec<u8>]| -> Vec<_> {
            keys.iter().map(|key| hmac::Key::new(hmac::HMAC_SHA256, key)).collect()
        };
        let verified = ArcSwapOption::empty();
        Self { full: prepare(full), read_only: prepare(read_only), verified }
    }

    /// Whose signature of a text it is, if it is of one of the keys.
    fn signer(&self, text: &[u8], signature: &[u8; 32]) -> Option<Principal> {
        let fits = |key: &hmac::Key| signature::verify(key, text, signature);
        if self.full.iter().any(fits) {
            Some(Principal::Owner)
        } else {
            self.read_only.iter().any(fits).then_some(Principal::Reader)
        }
    }

    /// The same, by what was verified last if it is that.
    fn likely_signer(&self, text: &[u8], signature: &[u8; 32]) -> Option<Principal> {
        if let Some(verified) = &*self.verified.load()
            && verified.text == text
            && signature::is_same(&verified.signature, signature)
        {
            return Some(verified.principal);
        }
        let principal = self.signer(text, signature)?;
        let text = text.to_vec();
        self.verified.store(Some(Arc::new(Verified { text, signature: *signature, principal })));
        Some(principal)
    }
}

/// Says how many there are, and nothing else.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({} full, {} read-only)", self.full.len(), self.read_only.len())
    }
}

/// A request, as far as its right to be served is concerned.
pub struct Claim<'a> {
    /// The HTTP method.
    pub method: &'a Method,
    /// The path.
    pub path: &'a Path<'a>,
    /// The headers.
    pub headers: Headers<'a>,
    /// What it asks for.
    pub operation: Operation,
    /// Seconds since 1970.
    pub now: u64,
}

/// Whether a request may be served, and for whom.
pub fn authorize(
    claim: &Claim<'_>,
    keys: &Keys,
    engine: &Engine,
    tokens: &token::Mint,
) -> Result<Principal> {
    if claim.operation.access() == Access::Public {
        return Ok(Principal::Anybody);
    }
    let header = claim.headers.get(&AUTHORIZATION);
    let header =
        header.ok_or_else(|| unauthorized("the authorization header is missing"))?.as_bytes();
    // Nearly all requests begin so, and need none of what follows.
    if let Some((start, signature)) = header.split_at_checked(MASTER.len())
        && start.eq_ignore_ascii_case(MASTER)
    {
        return by_key(claim, keys, signature);
    }
    let text = percent_decoded(header).unwrap_or_default();
    let credential = Credential::parse(&text)
        .ok_or_else(|| unauthorized("the authorization header is not type=…&ver=…&sig=…"))?;
    if credential.kind.eq_ignore_ascii_case("master") {
        return by_key(claim, keys, credential.signature.as_bytes());
    }
    if credential.kind.eq_ignore_ascii_case("resource") {
        let token = tokens.open(credential.signature, claim.now)?;
        grant::check(claim, engine, &token)?;
        return Ok(Principal::Bearer);
    }
    Err(unauthorized(if credential.kind.eq_ignore_ascii_case("aad") {
        "Microsoft Entra tokens are not supported: use a key or a resource token"
    } else {
        "the type of authorization must be master or resource"
    }))
}

/// How SDKs spell the start of a signature.
const MASTER: &[u8] = b"type%3Dmaster%26ver%3D1.0%26sig%3D";

fn by_key(claim: &Claim<'_>, keys: &Keys, signature: &[u8]) -> Result<Principal> {
    let date = signed_date(claim)?;
    let given = signature::decode(signature)
        .ok_or_else(|| unauthorized("the signature is not base64 of 32 bytes"))?;
    for text in signature::texts(claim.method, claim.path, date) {
        let signer = match *claim.method {
            Method::POST => keys.likely_signer(&text, &given),
            _ => keys.signer(&text, &given),
        };
        return match signer {
            None => continue,
            Some(Principal::Reader) if claim.operation.access() == Access::Write => {
                Err(Error::new(Fault::Forbidden, "a read-only key cannot change anything"))
            }
            Some(signer) => Ok(signer),
        };
    }
    let expected = signature::texts(claim.method, claim.path, date).next().unwrap_or_default();
    Err(unauthorized(format!(
        "the signature does not fit: check the key, and that the signed text is {:?}",
        String::from_utf8_lossy(&expected)
    )))
}

/// The date that is signed: `x-ms-date`, or else `date`.
fn signed_date<'a>(claim: &Claim<'a>) -> Result<signature::Date<'a>> {
    let own = claim.headers.text(&header::MS_DATE)?;
    let date = match own {
        Some(own) => signature::Date::Own(own),
        None => signature::Date::Http(
            claim
                .headers
                .text(&DATE)?
                .ok_or_else(|| unauthorized("the header x-ms-date is missing"))?,
        ),
    };
    let seconds = date::parse(date.text()).ok_or_else(|| {
        unauthorized("x-ms-date is not a date such as 'Thu, 27 Apr 2017 00:51:12 GMT'")
    })?;
    if seconds.abs_diff(claim.now) > limits::DATE_SKEW_SECONDS {
        return Err(Error::new(
            Fault::Expired,
            format!(
                "the date of the request is more than {} minutes from the server's, {}",
                limits::DATE_SKEW_SECONDS / 60,
                date::format(claim.now)
            ),
        ));
    }
    Ok(date)
}

/// The three parts of an authorization header.
#[derive(Debug, Clone, Copy)]
struct Credential<'a> {
    kind: &'a str,
    signature: &'a str,
}

impl<'a> Credential<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (mut kind, mut version, mut signature) = (None, None, None);
        for part in text.split(|&byte| byte == b'&') {
            match part {
                [b't', b'y', b'p', b'e', b'=', value @ ..] => kind = Some(value),
                [b'v', b'e', b'r', b'=', value @ ..] => version = Some(value),
                [b's', b'i', b'g', b'=', value @ ..] => signature = Some(value),
                _ => {}
            }
        }
        version.filter(|version| [&b"1.0"[..], b"1"].contains(version))?;
        let text = |value: &'a [u8]| std::str::from_utf8(value).ok();
        Some(Self { kind: text(kind?)?, signature: text(signature?)? })
    }
}

fn unauthorized(message: impl Into<String>) -> Error {
    Error::new(Fault::Unauthorized, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials() {
        let parse = |text: &'static str| Credential::parse(text.as_bytes());
        let master = parse("type=master&ver=1.0&sig=a+b==").unwrap();
        assert_eq!((master.kind, master.signature), ("master", "a+b=="));
        let token = parse("type=resource&ver=1&sig=x.y").unwrap();
        assert_eq!((token.kind, token.signature), ("resource", "x.y"));
        for wrong in ["", "type=master", "type=master&ver=2.0&sig=a", "Bearer abc", "ver=1.0&sig=a"]
        {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_was_verified_last_counts_for_nothing_else() {
        let keys = Keys::new(&[b"full".to_vec()], &[b"read".to_vec()]);
        let sign = |key: &[u8], text: &str| -> [u8; 32] {
            let key = hmac::Key::new(hmac::HMAC_SHA256, key);
            hmac::sign(&key, text.as_bytes()).as_ref().try_into().unwrap()
        };
        let signer = |text: &str, given: &[u8; 32]| keys.likely_signer(text.as_bytes(), given);
        let (full, read) = (sign(b"full", "a"), sign(b"read", "a"));
        for _ in 0..2 {
            assert_eq!(signer("a", &full), Some(Principal::Owner));
            assert_eq!(signer("a", &full), Some(Principal::Owner));
            assert_eq!(signer("b", &full), None);
            assert_eq!(signer("a", &sign(b"other", "a")), None);
            assert_eq!(signer("a", &full), Some(Principal::Owner));
            assert_eq!(signer("a", &read), Some(Principal::Reader));
            assert_eq!(signer("a", &read), Some(Principal::Reader));
            assert_eq!(signer("b", &sign(b"full", "b")), Some(Principal::Owner));
        }
    }
}
