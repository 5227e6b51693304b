//! The text that a key signs, and the check of its signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use ring::hmac;
use smallvec::SmallVec;
use subtle::ConstantTimeEq as _;

use crate::path::{Path, percent_decoded_byte};

/// A text that is signed. Most are short.
type Text = SmallVec<[u8; 256]>;

/// The date that was signed, and where it stood.
#[derive(Debug, Clone, Copy)]
pub enum Date<'a> {
    /// In `x-ms-date`.
    Own(&'a str),
    /// In `date`.
    Http(&'a str),
}

impl<'a> Date<'a> {
    /// The date itself.
    pub fn text(self) -> &'a str {
        match self {
            Self::Own(text) | Self::Http(text) => text,
        }
    }
}

/// The texts that a client may have signed for this request, the likelier first.
///
/// Links made of names are signed whole. Of links made of rids some clients sign the last
/// rid only, in lower case; a server cannot tell beforehand which of the two it has got.
pub fn texts(method: &Method, path: &Path<'_>, date: Date<'_>) -> impl Iterator<Item = Text> {
    let (kind, link) = path.signed();
    let whole = move |text: &mut Text| {
        for (n, segment) in link.iter().enumerate() {
            if n > 0 {
                text.push(b'/');
            }
            text.extend_from_slice(segment.as_bytes());
        }
    };
    std::iter::once_with(move || assemble(method, kind, date, whole)).chain(
        link.last()
            .into_iter()
            .map(move |rid| assemble(method, kind, date, |text| lower(text, rid))),
    )
}

/// Whether the key made the signature. Takes the same time wherever the two differ.
pub fn verify(key: &hmac::Key, text: &[u8], signature: &[u8; 32]) -> bool {
    hmac::verify(key, text, signature).is_ok()
}

/// Whether two signatures are spelled alike. Takes the same time wherever they differ.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// The signature of a request, as a client makes it. The link is signed as given.
pub fn sign(key: &[u8], method: &Method, kind: &str, link: &str, date: &str) -> String {
    let text =
        assemble(method, kind, Date::Own(date), |text| text.extend_from_slice(link.as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    STANDARD.encode(hmac::sign(&key, &text))
}

/// The bytes of a signature, given as base64 that may be percent-encoded.
pub fn decode(text: &[u8]) -> Option<[u8; 32]> {
    // A little longer than needed: the decoder asks for room by an estimate.
    let (mut plain, mut bytes) = ([0; BASE64_BYTES], [0; 48]);
    let mut length = 0;
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = match byte {
            b'%' => percent_decoded_byte(after)?,
            _ => (byte, after),
        };
        *plain.get_mut(length)? = byte;
        length += 1;
        rest = after;
    }
    let length = STANDARD.decode_slice(&plain[..length], &mut bytes).ok()?;
    bytes[..length].try_into().ok()
}

/// Length of 32 bytes as base64.
const BASE64_BYTES: usize = 44;

fn assemble(method: &Method, kind: &str, date: Date<'_>, link: impl FnOnce(&mut Text)) -> Text {
    let mut text = Text::new();
    lower(&mut text, method.as_str());
    text.push(b'\n');
    text.extend_from_slice(kind.as_bytes());
    text.push(b'\n');
    link(&mut text);
    text.push(b'\n');
    match date {
        Date::Own(date) => {
            lower(&mut text, date);
            text.extend_from_slice(b"\n\n");
        }
        Date::Http(date) => {
            text.push(b'\n');
            lower(&mut text, date);
            text.push(b'\n');
        }
    }
    text
}

fn lower(text: &mut Text, part: &str) {
    let start = text.len();
    text.extend_from_slice(part.as_bytes());
    text[start..].make_ascii_lowercase();
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";
    const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";

    /// The worked examples of the public REST documentation.
    #[track_caller]
    fn check(method: Method, path: &str, expect: &str) {
        let key = STANDARD.decode(KEY).unwrap();
        let path = Path::parse(path).unwrap();
        let (kind, link) = path.signed();
        let given = sign(&key, &method, kind, &link.join("/"), DATE);
        assert_eq!(given, expect);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let fits = |signature: [u8; 32]| {
            texts(&method, &path, Date::Own(DATE)).any(|text| verify(&key, &text, &signature))
        };
        let signature = decode(given.as_bytes()).unwrap();
        assert!(fits(signature) && is_same(&signature, &signature));
        for n in 0..signature.len() {
            let mut other = signature;
            other[n] ^= 1;
            assert!(!fits(other) && !is_same(&signature, &other));
        }
    }

    #[test]
    fn documented_signatures() {
        check(Method::GET, "/dbs/ToDoList", "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c=");
    }

    #[test]
    fn either_form_of_a_rid_link_is_taken() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"k");
        let path = Path::parse("/dbs/AbC=/colls/AbCdEf=/docs").unwrap();
        let fits = |link: &str| {
            let given = decode(sign(b"k", &Method::POST, "docs", link, DATE).as_bytes()).unwrap();
            texts(&Method::POST, &path, Date::Own(DATE)).any(|text| verify(&key, &text, &given))
        };
        assert!(fits("dbs/AbC=/colls/AbCdEf="));
        assert!(fits("abcdef="));
        assert!(!fits("AbCdEf="));
    }

    #[test]
    fn the_date_header_is_signed_on_its_own_line() {
        let path = Path::parse("/dbs").unwrap();
        let text = texts(&Method::GET, &path, Date::Http("Thu, X")).next().unwrap();
        assert_eq!(text[..], *b"get\ndbs\n\n\nthu, x\n");
    }

    #[test]
    fn signatures_may_be_encoded() {
        let plain = decode(b"c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c=");
        assert!(plain.is_some());
        assert_eq!(decode(b"c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2bc%3D"), plain);
    }

    #[test]
    fn what_is_no_signature() {
        for wrong in
            ["", "abc", "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+", "%", "%4", &"A".repeat(400)]
        {
            assert!(decode(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
