//! The path of a request, taken apart by position.
//!
//! Words and names alternate (`dbs/{name}/colls/{name}/docs`), so a database may be called
//! `colls`. Each segment is percent-decoded once; `+` is itself. One slash at the end is
//! allowed: some clients always send it, others never.

use std::borrow::Cow;

use engine::{Kind, Link};
use model::{Error, Fault, Result};

/// Most segments of any path that is served.
pub const SEGMENTS_MAX: usize = 6;

/// Segments of `dbs/{name}/colls/{name}`.
const CONTAINER_SEGMENTS: usize = 4;

/// Segments of `dbs/{name}/colls/{name}/lag`.
const LAG_SEGMENTS: usize = 5;

/// A decoded path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path<'a> {
    text: &'a str,
    segments: [Cow<'a, str>; SEGMENTS_MAX],
    count: usize,
}

impl<'a> Path<'a> {
    /// Takes a path apart.
    pub fn parse(whole: &'a str) -> Result<Self> {
        let text = whole.strip_prefix('/').unwrap_or(whole);
        let text = text.strip_suffix('/').unwrap_or(text);
        let segments = [const { Cow::Borrowed("") }; SEGMENTS_MAX];
        let mut path = Self { text: whole, segments, count: 0 };
        if text.is_empty() {
            return Ok(path);
        }
        for raw in segments_of(text) {
            let room = path.segments.get_mut(path.count).filter(|_| !raw.is_empty());
            let room = room.ok_or_else(|| {
                Error::new(Fault::NotFound, "no resource has a path of this form")
            })?;
            *room = decode(raw)?;
            path.count += 1;
        }
        Ok(path)
    }

    /// As it was sent.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// What it begins with if it leads to a container, or through one, whose names are spelled as they are.
    pub fn container_link(&self) -> Option<&'a str> {
        let segments = self.segments().get(..CONTAINER_SEGMENTS)?;
        let mut bytes = CONTAINER_SEGMENTS - 1;
        for segment in segments {
            let Cow::Borrowed(plain) = segment else { return None };
            bytes += plain.len();
        }
        self.text.strip_prefix('/').unwrap_or(self.text).get(..bytes)
    }

    /// The decoded segments.
    pub fn segments(&self) -> &[Cow<'a, str>] {
        &self.segments[..self.count]
    }

    /// The name at a level: 0 is the first name of the path, after its first word.
    pub fn name(&self, level: usize) -> &str {
        self.segments().get(2 * level + 1).map_or("", |name| name)
    }

    /// The resource that the path names; for a feed, its owner.
    pub fn link(&self) -> Link {
        let steps = self.segments().as_chunks::<2>().0.iter();
        Link(steps.filter_map(|[word, name]| Some((kind_of(word)?, name.to_string()))).collect())
    }

    /// Resource type and link as clients sign them.
    pub fn signed(&self) -> (&str, &[Cow<'a, str>]) {
        let segments = self.segments();
        match segments {
            // Signed as if they were about the container itself.
            [.., lag] if segments.len() == LAG_SEGMENTS && lag == "lag" => {
                ("colls", &segments[..segments.len() - 1])
            }
            [.., operations, _] if operations == "operations" => {
                ("colls", &segments[..segments.len() - 2])
            }
            [.., word] if segments.len() % 2 == 1 => (word, &segments[..segments.len() - 1]),
            [.., word, _] => (word, segments),
            _ => ("", segments),
        }
    }
}

/// The kind of resource that a word of a path stands for.
pub fn kind_of(word: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.segment() == word)
}

/// As `split('/')`, but quicker on the short texts that paths are.
fn segments_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.bytes().position(|byte| byte == b'/');
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

fn decode(raw: &str) -> Result<Cow<'_, str>> {
    if !raw.bytes().any(|byte| byte == b'%') {
        return Ok(Cow::Borrowed(raw));
    }
    percent_decoded(raw.as_bytes())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(Cow::Owned)
        .ok_or_else(|| Error::bad_request("the path is not percent-encoded UTF-8"))
}

/// Undoes percent-encoding; `None` where a percent sign is not followed by two hex digits.
pub fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(end) = rest.iter().position(|&byte| byte == b'%') {
        decoded.extend_from_slice(&rest[..end]);
        let (byte, after) = percent_decoded_byte(&rest[end + 1..])?;
        decoded.push(byte);
        rest = after;
    }
    decoded.extend_from_slice(rest);
    Some(decoded)
}

/// The byte that stands behind a percent sign, and what follows it.
pub fn percent_decoded_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], rest) = text.split_first_chunk()?;
    Some((hex_digit(*high)? << 4 | hex_digit(*low)?, rest))
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Percent-encodes what a header value cannot carry.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'!'..=b'~' if byte != b'%' => encoded.push(byte as char),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_signed(path: &str, expect: &str) {
        let path = Path::parse(path).unwrap();
        let (kind, link) = path.signed();
        assert_eq!(format!("{kind} {}", link.join("/")), expect);
    }

    #[test]
    fn what_clients_sign() {
        check_signed("/", " ");
        check_signed("/dbs/", "dbs ");
        check_signed("/dbs/a b", "dbs dbs/a b");
        check_signed("/dbs/A/colls/b/docs/", "docs dbs/A/colls/b");
        check_signed("/dbs/A/colls/b/docs/x%2By", "docs dbs/A/colls/b/docs/x+y");
        check_signed("/dbs/a/colls/b/operations/partitionkeydelete", "colls dbs/a/colls/b");
        check_signed("/dbs/a/colls/b/lag", "colls dbs/a/colls/b");
        check_signed("/dbs/lag", "dbs dbs/lag");
        check_signed("/offers", "offers ");
        check_signed("/offers/Of1", "offers offers/Of1");
    }

    #[test]
    fn containers_are_named_by_what_a_path_begins_with() {
        let link = |path: &'static str| Path::parse(path).unwrap().container_link();
        assert_eq!(link("/dbs/a/colls/b"), Some("dbs/a/colls/b"));
        assert_eq!(link("dbs/a/colls/b/"), Some("dbs/a/colls/b"));
        assert_eq!(link("/dbs/a/colls/b/docs/x%2By"), Some("dbs/a/colls/b"));
        assert_eq!(link("/dbs/a/colls/%62/docs"), None);
        assert_eq!(link("/dbs/a/colls"), None);
    }

    #[test]
    fn encoding_comes_back() {
        let text = "dbs/é %/colls/a+b";
        assert_eq!(percent_encoded(text), "dbs/%C3%A9%20%25/colls/a+b");
        assert_eq!(percent_decoded(percent_encoded(text).as_bytes()), Some(text.into()));
        assert_eq!(percent_decoded(b"%4"), None);
        assert_eq!(percent_decoded(b"%+1"), None);
    }
}
