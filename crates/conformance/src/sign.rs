//! Signatures of requests, as the SDKs make them.
//!
//! The text that is signed is
//! `verb \n resource type \n resource link \n date \n \n`, verb and date in lower case, the
//! link with names as they are and rids in lower case.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The authorization header for a request signed with an account key (base64 text).
pub fn master(key: &str, verb: &str, kind: &str, link: &str, date: &str) -> String {
    let text = format!("{}\n{kind}\n{link}\n{}\n\n", verb.to_lowercase(), date.to_lowercase());
    let key = STANDARD.decode(key).unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes a key of any length");
    mac.update(text.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    percent_encode(&format!("type=master&ver=1.0&sig={signature}"))
}

/// Resource type and link that belong to a path: the thing itself, or the feed of its owner.
pub fn resource(path: &str) -> (String, String) {
    let path = path.split('?').next().unwrap_or("");
    let steps: Vec<String> =
        path.split('/').filter(|step| !step.is_empty()).map(percent_decode).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    match steps.as_slice() {
        [] => (String::new(), String::new()),
        ["offers", rid] => ("offers".into(), rid.to_lowercase()),
        [owner @ .., "operations", _] => ("colls".into(), owner.join("/")),
        [owner @ .., "lag"] if steps.len() == 5 => ("colls".into(), owner.join("/")),
        [owner @ .., kind] if steps.len() % 2 == 1 => ((*kind).into(), owner.join("/")),
        [.., kind, _] => ((*kind).into(), steps.join("/")),
        [kind] => ((*kind).into(), String::new()),
    }
}

/// The same for a path that is made of rids: only the last one is signed.
pub fn resource_by_rid(path: &str) -> (String, String) {
    let (kind, link) = resource(path);
    let rid = link.rsplit('/').next().unwrap_or("").to_lowercase();
    (kind, rid)
}

/// Encodes what a path segment or a header may not hold.
pub fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte as char)
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Undoes percent-encoding, once; what is not valid stays as it is.
pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, kind: &str, link: &str) {
        assert_eq!(resource(path), (kind.to_owned(), link.to_owned()), "{path}");
    }

    #[test]
    fn the_path_says_what_is_signed() {
        check("/", "", "");
        check("/dbs", "dbs", "");
        check("/dbs/a", "dbs", "dbs/a");
        check("/dbs/a/colls/b/docs", "docs", "dbs/a/colls/b");
        check("/dbs/a/colls/b/docs/a%20b+%C3%A9", "docs", "dbs/a/colls/b/docs/a b+é");
        check("/dbs/colls/colls/dbs/", "colls", "dbs/colls/colls/dbs");
        check("/offers/aBc=", "offers", "abc=");
        check("/dbs/a/colls/b/operations/partitionkeydelete", "colls", "dbs/a/colls/b");
        assert_eq!(
            resource_by_rid("/dbs/AbC=/colls/AbCdE=/docs"),
            ("docs".into(), "abcde=".into())
        );
    }

    /// The example of the REST documentation ("Access control in the Cosmos DB SQL API").
    #[test]
    fn the_documented_example_comes_out() {
        let key = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";
        let signed = master(key, "GET", "dbs", "dbs/ToDoList", "Thu, 27 Apr 2017 00:51:12 GMT");
        let expected =
            "type%3Dmaster%26ver%3D1.0%26sig%3Dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D";
        assert_eq!(signed.to_lowercase(), expected.to_lowercase());
    }
}
