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

use signature::Date;
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

/// A request that was signed, and by whom. Clients name seconds in the dates they sign, so all that one posts
/// to a container within a second looks the same: it is verified once.
struct Verified {
    path: String,
    date: String,
    /// In seconds since 1970.
    date_seconds: u64,
    signature: Vec<u8>,
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

    /// Whose signature it is, if it is of a request like the one that was verified last.
    fn known_signer(&self, claim: &Claim<'_>, date: Date<'_>, given: &[u8]) -> Option<Principal> {
        let verified = self.verified.load();
        let known = verified.as_ref().filter(|known| {
            *claim.method == Method::POST
                && matches!(date, Date::Own(text) if text == known.date)
                && claim.path.text() == known.path
                && signature::is_same(&known.signature, given)
        })?;
        (known.date_seconds.abs_diff(claim.now) <= limits::DATE_SKEW_SECONDS)
            .then_some(known.principal)
    }

    /// Remembers whose signature it is.
    fn know_signer(
        &self,
        claim: &Claim<'_>,
        (date, date_seconds): (Date<'_>, u64),
        given: &[u8],
        principal: Principal,
    ) {
        if let (&Method::POST, Date::Own(date)) = (claim.method, date) {
            let (path, date) = (claim.path.text().to_owned(), date.to_owned());
            let signature = given.to_vec();
            let known = Verified { path, date, date_seconds, signature, principal };
            self.verified.store(Some(Arc::new(known)));
        }
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

fn by_key(claim: &Claim<'_>, keys: &Keys, given: &[u8]) -> Result<Principal> {
    let date = signed_date(claim)?;
    let principal = match keys.known_signer(claim, date, given) {
        Some(principal) => principal,
        None => {
            let seconds = check_date(date, claim.now)?;
            let principal = signer(claim, keys, date, given)?;
            keys.know_signer(claim, (date, seconds), given, principal);
            principal
        }
    };
    if principal == Principal::Reader && claim.operation.access() == Access::Write {
        return Err(Error::new(Fault::Forbidden, "a read-only key cannot change anything"));
    }
    Ok(principal)
}

/// Whose signature it is.
fn signer(claim: &Claim<'_>, keys: &Keys, date: Date<'_>, given: &[u8]) -> Result<Principal> {
    let given = signature::decode(given)
        .ok_or_else(|| unauthorized("the signature is not base64 of 32 bytes"))?;
    let mut texts = signature::texts(claim.method, claim.path, date);
    if let Some(principal) = texts.find_map(|text| keys.signer(&text, &given)) {
        return Ok(principal);
    }
    let expected = signature::texts(claim.method, claim.path, date).next().unwrap_or_default();
    Err(unauthorized(format!(
        "the signature does not fit: check the key, and that the signed text is {:?}",
        String::from_utf8_lossy(&expected)
    )))
}

/// The date that is signed: `x-ms-date`, or else `date`.
fn signed_date<'a>(claim: &Claim<'a>) -> Result<Date<'a>> {
    if let Some(own) = claim.headers.text(&header::MS_DATE)? {
        return Ok(Date::Own(own));
    }
    let date = claim.headers.text(&DATE)?;
    date.map(Date::Http).ok_or_else(|| unauthorized("the header x-ms-date is missing"))
}

/// Refuses a date that is too far from now; returns it in seconds.
fn check_date(date: Date<'_>, now: u64) -> Result<u64> {
    let seconds = date::parse(date.text()).ok_or_else(|| {
        unauthorized("x-ms-date is not a date such as 'Thu, 27 Apr 2017 00:51:12 GMT'")
    })?;
    if seconds.abs_diff(now) > limits::DATE_SKEW_SECONDS {
        return Err(Error::new(
            Fault::Expired,
            format!(
                "the date of the request is more than {} minutes from the server's, {}",
                limits::DATE_SKEW_SECONDS / 60,
                date::format(now)
            ),
        ));
    }
    Ok(seconds)
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
        let now = 1_700_000_000;
        let keys = Keys::new(&[b"full".to_vec()], &[b"read".to_vec()]);
        let asked = |method: &Method, path: &str, date: &str, sent: &str, now: u64| {
            let (authorization, date) = (sent.parse().unwrap(), date.parse().unwrap());
            let map = hyper::HeaderMap::from_iter([
                (AUTHORIZATION, authorization),
                (header::MS_DATE.clone(), date),
            ]);
            let (path, headers) = (Path::parse(path).unwrap(), Headers::of(&map));
            let operation = Operation::QueryItems;
            let claim = Claim { method, path: &path, headers, operation, now };
            let sent = headers.get(&AUTHORIZATION).unwrap().as_bytes();
            by_key(&claim, &keys, sent).map_err(|error| error.fault)
        };
        let (path, other) = ("/dbs/a/colls/b/docs", "/dbs/a/colls/c/docs");
        let (date, later) = (date::format(now), date::format(now + 1));
        let sign = |key: &[u8], method: &Method, date: &str| {
            sign(key, method, "docs", "dbs/a/colls/b", date)
        };
        let (post, get) = (Method::POST, Method::GET);
        let full = sign(b"full", &post, &date);
        let read = sign(b"read", &post, &date);
        let strange = sign(b"other", &post, &date);
        let refused = Err(Fault::Unauthorized);
        for _ in 0..2 {
            for _ in 0..2 {
                assert_eq!(asked(&post, path, &date, &full, now), Ok(Principal::Owner));
            }
            assert_eq!(asked(&post, other, &date, &full, now), refused);
            assert_eq!(asked(&post, path, &later, &full, now), refused);
            assert_eq!(asked(&get, path, &date, &full, now), refused);
            assert_eq!(asked(&post, path, &date, &strange, now), refused);
            assert_eq!(asked(&post, path, &date, &full, now + 3600), Err(Fault::Expired));
            assert_eq!(asked(&post, path, &date, &full, now), Ok(Principal::Owner));
            for _ in 0..2 {
                assert_eq!(asked(&post, path, &date, &read, now), Ok(Principal::Reader));
            }
            let got = sign(b"full", &get, &date);
            assert_eq!(asked(&get, path, &date, &got, now), Ok(Principal::Owner));
        }
    }
}
