//! Keys of index rows: which index, which value, which item.
//!
//! ```text
//! 'i' <path u64> <value> <item key>                      a value of the item, in the range index
//! 'j' <index u64> <n u8> <descending u8> <value>×n <item key>   its values in a composite index
//! 'g' <path u64> <cell u64> <item key> → cells           a cell of its geometry, in the spatial index
//! 'f' <path u64> <word> 0 <item key>                     a word of its text, in the full-text index
//! 'e' <path u64> <side u16> <item key> → vector          a vector of it, in the vector index
//! ```
//!
//! A path is known by its digest, chained from step to step: stateless, the same in every
//! partition, and eight bytes however long the names are. Two of a million paths share a digest
//! with a chance of 3 in 100 million; readers that look at the item itself notice.
//!
//! A value is the sort key of the query language, so rows stand in the order of `ORDER BY`. Of
//! long texts only the beginning is kept, with another end than whole ones have and a digest of
//! the rest: enough to find a text, and for its place among others the item is read. Values that
//! descend have all their bits inverted. Item keys come last: rows of one value stand in the order
//! of `Docs`, and a partition key is a range of them.

use std::ops::Bound;

use bytes::Bytes;
use model::epk::{digest, digest64};
use model::policy::Step;
use query::value::{DIGEST_BYTES, Type, Value, sort_key_into, text_key_into};

/// Rows of the range index.
pub(crate) const RANGE: u8 = b'i';
/// Rows of composite indexes.
pub(crate) const COMPOSITE: u8 = b'j';

/// Rows of spatial indexes.
pub(crate) const SPATIAL: u8 = b'g';
/// Rows of full-text indexes.
pub(crate) const WORD: u8 = b'f';
/// Rows of vector indexes.
pub(crate) const VECTOR: u8 = b'e';

/// Bytes of a text that are kept; what follows is found in the item.
pub(crate) const TEXT_BYTES: usize = 128;
/// The end of a text that was cut; whole ones end in two zeros.
const CUT: [u8; 2] = [0, 1];
/// What a zero within a text is followed by.
const ESCAPE: u8 = 0xFF;

/// Kind and path.
const HEAD_BYTES: usize = 9;

/// A path, as rows know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PathId(pub u64);

impl PathId {
    /// The item itself.
    pub const ROOT: Self = Self(0);

    /// The member of this name.
    pub fn member(self, name: &str) -> Self {
        self.step(b'.', name.as_bytes())
    }

    /// Every element.
    pub fn element(self) -> Self {
        self.step(b'[', b"")
    }

    /// A whole path.
    pub fn of(steps: &[Step]) -> Self {
        steps.iter().fold(Self::ROOT, |path, step| match step {
            Step::Name(name) => path.member(name),
            Step::Elements => path.element(),
        })
    }

    /// Names that lead to a property.
    pub fn of_names(names: &[String]) -> Self {
        names.iter().fold(Self::ROOT, |path, name| path.member(name))
    }

    fn step(self, kind: u8, name: &[u8]) -> Self {
        const SHORT: usize = 64;
        let mut short = [0; 9 + SHORT];
        if name.len() > SHORT {
            return Self(digest64(&[&self.0.to_be_bytes()[..], &[kind], name].concat()));
        }
        short[..8].copy_from_slice(&self.0.to_be_bytes());
        short[8] = kind;
        short[9..9 + name.len()].copy_from_slice(name);
        Self(digest64(&short[..9 + name.len()]))
    }
}

/// Appends the beginning of a row's key.
pub(crate) fn put_head(kind: u8, path: PathId, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&path.0.to_be_bytes());
}

/// Appends a word as rows have it. Words are of letters and digits, so nothing in them ends them.
pub(crate) fn put_word(word: &str, out: &mut Vec<u8>) {
    out.extend(word.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

/// Appends a value as rows have it.
pub(crate) fn put_value(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::String(text) if text.len() > TEXT_BYTES => {
            out.push(tag(Type::String));
            let at = out.len();
            let end = (TEXT_BYTES + 1..).find(|end| text.is_char_boundary(*end));
            text_key_into(&text[..end.unwrap_or(text.len())], out);
            let kept = kept(&out[at..], 0).expect("the text is longer than what is kept");
            out.truncate(at + kept);
            out.extend_from_slice(&CUT);
            out.extend_from_slice(&digest(text.as_bytes()));
        }
        _ => sort_key_into(value, out),
    }
}

/// How much of a text's sort key, without its type, is in rows; none where all of it is. Texts are
/// cut after the same number of bytes, whatever they are: else a shorter piece of a greater one
/// would stand before a longer piece of a lesser one.
pub(crate) fn kept(key: &[u8], mask: u8) -> Option<usize> {
    let mut at = 0;
    for _ in 0..TEXT_BYTES {
        let zero = key.get(at)? ^ mask == 0;
        at += 1;
        if zero {
            match key.get(at)? ^ mask {
                ESCAPE => at += 1,
                _ => return None,
            }
        }
    }
    // The end of a whole text is a zero without an escape.
    let ends = key.get(at).is_some_and(|byte| byte ^ mask == 0)
        && key.get(at + 1).is_some_and(|byte| byte ^ mask != ESCAPE);
    (!ends && at < key.len()).then_some(at)
}

/// What the values of a type begin with.
pub(crate) fn tag(kind: Type) -> u8 {
    kind as u8 * 16 + 16
}

/// The type that a value as rows have it is of.
pub(crate) fn type_of(encoded: &[u8]) -> Option<Type> {
    const TYPES: [Type; 7] = [
        Type::Undefined,
        Type::Null,
        Type::Bool,
        Type::Number,
        Type::String,
        Type::Array,
        Type::Object,
    ];
    let first = *encoded.first()?;
    TYPES.into_iter().find(|kind| tag(*kind) == first)
}

/// Where the kept part of a value ends that was cut; none where the value is whole.
pub(crate) fn cut_at(encoded: &[u8]) -> Option<usize> {
    let end = encoded.len().checked_sub(DIGEST_BYTES + CUT.len())?;
    let is_text = type_of(encoded) == Some(Type::String);
    (is_text && value_bytes(encoded, 0) == Some(encoded.len()) && encoded[end..].starts_with(&CUT))
        .then_some(end)
}

/// How long the value is that some bytes begin with, which are inverted where the mask says so.
pub(crate) fn value_bytes(bytes: &[u8], mask: u8) -> Option<usize> {
    let first = bytes.first()? ^ mask;
    let length = match type_of(&[first])? {
        Type::Undefined | Type::Null => 1,
        Type::Bool => 2,
        Type::Number => 9,
        Type::Array | Type::Object => 1 + DIGEST_BYTES,
        Type::String => {
            let mut at = 1;
            loop {
                at += bytes.get(at..)?.iter().position(|byte| *byte == mask)?;
                // A zero, and what it means.
                match bytes.get(at + 1)? ^ mask {
                    ESCAPE => at += 2,
                    end if end == CUT[1] => break at + 2 + DIGEST_BYTES,
                    _ => break at + 2,
                }
            }
        }
    };
    (length <= bytes.len()).then_some(length)
}

/// The first key behind all that begin with these bytes, as a lower bound.
pub(crate) fn after_all(mut bytes: Vec<u8>) -> Bound<Bytes> {
    while let Some(last) = bytes.pop() {
        if last < 0xFF {
            bytes.push(last + 1);
            return Bound::Included(bytes.into());
        }
    }
    Bound::Unbounded
}

/// The same key as an upper bound.
pub(crate) fn before(bound: Bound<Bytes>) -> Bound<Bytes> {
    match bound {
        Bound::Included(key) => Bound::Excluded(key),
        other => other,
    }
}

/// Rows that begin with these bytes.
pub(crate) fn beginning(bytes: Vec<u8>) -> (Bound<Bytes>, Bound<Bytes>) {
    let to = before(after_all(bytes.clone()));
    (Bound::Included(bytes.into()), to)
}

/// An index row's key, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowKey {
    /// Where its values end and the item's key begins.
    pub item_at: usize,
    /// Where its values begin.
    pub values_at: usize,
}

impl RowKey {
    /// Reads a key of any index.
    pub fn read(key: &[u8]) -> Option<Self> {
        let (values_at, count, descending) = match *key.first()? {
            RANGE => (HEAD_BYTES, 1, 0),
            SPATIAL => return Self::fixed(key, 8),
            VECTOR => return Self::fixed(key, 2),
            WORD => {
                let length = key.get(HEAD_BYTES..)?.iter().position(|byte| *byte == 0)?;
                return Self::fixed(key, length + 1);
            }
            COMPOSITE => (HEAD_BYTES + 2, *key.get(HEAD_BYTES)?, *key.get(HEAD_BYTES + 1)?),
            _ => return None,
        };
        let mut item_at = values_at;
        for n in 0..count {
            let mask = if descending >> n & 1 == 1 { 0xFF } else { 0 };
            item_at += value_bytes(key.get(item_at..)?, mask)?;
        }
        (item_at <= key.len()).then_some(Self { item_at, values_at })
    }

    /// A key whose value is a number.
    fn fixed(key: &[u8], bytes: usize) -> Option<Self> {
        let item_at = HEAD_BYTES + bytes;
        (item_at <= key.len()).then_some(Self { item_at, values_at: HEAD_BYTES })
    }
}

/// The key of the item that a row belongs to.
pub(crate) fn item_of(key: &Bytes) -> Option<Bytes> {
    Some(key.slice(RowKey::read(key)?.item_at..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(json: &str) -> Vec<u8> {
        let mut out = Vec::new();
        put_value(&Value::from_raw(json.as_bytes()), &mut out);
        out
    }

    #[test]
    fn a_row_ends_with_its_item() {
        let long = format!("\"{}\"", "é".repeat(200));
        let texts = ["null", "true", "-1.5", "\"\"", r#""a\u0000b\u0000""#, "[1]", "{}", &long];
        for text in texts {
            for mask in [0, 0xFF] {
                let mut bytes: Vec<u8> = encoded(text).iter().map(|byte| byte ^ mask).collect();
                let length = bytes.len();
                bytes.extend_from_slice(b"\0\0item\xFF\xFF");
                assert_eq!(value_bytes(&bytes, mask), Some(length), "{text} {mask}");
                for cut in 0..length {
                    assert_eq!(value_bytes(&bytes[..cut], mask), None, "{text} {mask} {cut}");
                }
            }
        }
    }

    #[test]
    fn a_cut_text_stands_behind_the_whole_one_that_it_begins_with() {
        let text = |last: &str| format!("\"{}{last}\"", "a".repeat(TEXT_BYTES));
        let (whole, cut, other) = (encoded(&text("")), encoded(&text("b")), encoded(&text("c")));
        assert!(whole < cut && cut < encoded("\"b\""));
        assert_ne!(cut, other);
        assert_eq!((cut_at(&cut), cut_at(&whole)), (Some(1 + TEXT_BYTES), None));
        assert_eq!(cut[..1 + TEXT_BYTES], other[..1 + TEXT_BYTES]);
    }

    #[test]
    fn paths_differ_where_their_steps_do() {
        let path = |steps: &[&str]| {
            PathId::of(&steps.iter().map(|s| Step::Name((*s).to_owned())).collect::<Vec<_>>())
        };
        assert_ne!(path(&["a", "b"]), path(&["b", "a"]));
        assert_ne!(path(&["a.b"]), path(&["a", "b"]));
        assert_ne!(path(&["a"]).element(), path(&["a"]));
        let long = "x".repeat(500);
        assert_ne!(path(&[&long]), path(&[&long[1..]]));
    }
}
