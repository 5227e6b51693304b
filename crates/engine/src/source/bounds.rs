//! Bounds on sort keys, as bounds on the keys of index rows.
//!
//! Rows hold sort keys as they are, except that of long texts only the beginning is there. A bound
//! that lies within a long text therefore becomes one on that beginning: wider, never narrower.
//! Whoever scans checks the values themselves.

use std::ops::Bound;

use bytes::Bytes;
use query::source::KeyRange;
use query::value::Type;

use crate::index::key::{after_all, before, kept, type_of, value_bytes};

/// The columns of an index: one for each value of a row, inverted where it descends.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    pub masks: Vec<u8>,
}

/// A bound as rows can have it.
struct Translated {
    bytes: Vec<u8>,
    /// The bound lies within a long text.
    wider: bool,
    /// It is a whole row of values, not the beginning of one.
    whole: bool,
}

impl Columns {
    /// Of a range index.
    pub fn one() -> Self {
        Self { masks: vec![0] }
    }

    /// Where rows with values in a range begin and end.
    pub fn rows(&self, head: &[u8], range: &KeyRange) -> (Bound<Bytes>, Bound<Bytes>) {
        let from = match &range.from {
            Bound::Unbounded => Bound::Included(Bytes::copy_from_slice(head)),
            Bound::Included(key) => Bound::Included(self.translated(key).behind(head).into()),
            Bound::Excluded(key) => {
                let translated = self.translated(key);
                let passes = translated.whole && !translated.wider;
                let bytes = translated.behind(head);
                if passes { after_all(bytes) } else { Bound::Included(bytes.into()) }
            }
        };
        let to = match &range.to {
            Bound::Unbounded => before(after_all(head.to_vec())),
            Bound::Included(key) => before(after_all(self.translated(key).behind(head))),
            Bound::Excluded(key) => {
                let translated = self.translated(key);
                let wider = translated.wider;
                let bytes = translated.behind(head);
                if wider { before(after_all(bytes)) } else { Bound::Excluded(bytes.into()) }
            }
        };
        (from, to)
    }

    /// The beginning of the rows of exactly one row of values, if rows can tell it from others.
    pub fn exact(&self, head: &[u8], range: &KeyRange) -> Option<Vec<u8>> {
        let (Bound::Included(from), true) = (&range.from, range.is_point()) else { return None };
        let translated = self.translated(from);
        (translated.whole && !translated.wider).then(|| translated.behind(head))
    }

    /// Whether rows within the bounds of a range have values in the range, and no others.
    pub fn is_tight(&self, range: &KeyRange) -> bool {
        let tight = |bound: &Bound<Bytes>, whole: bool| match bound {
            Bound::Unbounded => true,
            Bound::Included(key) | Bound::Excluded(key) => {
                let translated = self.translated(key);
                !translated.wider && (translated.whole || !whole)
            }
        };
        // A part of a value stands before all that begin with it.
        let to_whole = matches!(range.to, Bound::Included(_));
        tight(&range.from, false) && tight(&range.to, to_whole)
    }

    fn translated(&self, key: &[u8]) -> Translated {
        let mut at = 0;
        for mask in &self.masks {
            match Column::of(&key[at..], *mask) {
                Column::Whole(length) => at += length,
                Column::Long(kept) => {
                    return Translated {
                        bytes: key[..at + kept].to_vec(),
                        wider: true,
                        whole: false,
                    };
                }
                Column::Part => {
                    return Translated { bytes: key.to_vec(), wider: false, whole: false };
                }
            }
        }
        Translated { bytes: key.to_vec(), wider: false, whole: at == key.len() }
    }
}

impl Translated {
    fn behind(self, head: &[u8]) -> Vec<u8> {
        [head, &self.bytes].concat()
    }
}

/// What of one value stands at the beginning of some bytes.
enum Column {
    /// All of it, so many bytes.
    Whole(usize),
    /// A text that rows cut, or the beginning of one; so many bytes of it are in rows.
    Long(usize),
    /// The beginning of a value.
    Part,
}

impl Column {
    fn of(bytes: &[u8], mask: u8) -> Self {
        let kind = bytes.first().and_then(|first| type_of(&[first ^ mask]));
        if kind == Some(Type::String)
            && let Some(kept) = kept(&bytes[1..], mask)
        {
            return Self::Long(1 + kept);
        }
        value_bytes(bytes, mask).map_or(Self::Part, Self::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::key::{TEXT_BYTES, put_value};
    use query::value::{Value, sort_key_into};

    fn values() -> Vec<Value<'static>> {
        let mut values = vec![Value::Null, Value::Bool(true), Value::number(-2.5), Value::int(7)];
        for text in ["", "a", "a\0b", "é", "\u{FFFF}", "\u{10000}"] {
            values.push(Value::text(text));
            for length in [TEXT_BYTES - 1, TEXT_BYTES, TEXT_BYTES + 1, 2 * TEXT_BYTES] {
                values.push(Value::text(format!("{}{text}", "x".repeat(length))));
                values.push(Value::text(format!("{}{text}", "ö".repeat(length / 2))));
            }
        }
        values
    }

    fn contains(bounds: &(Bound<Bytes>, Bound<Bytes>), key: &[u8]) -> bool {
        KeyRange { from: bounds.0.clone(), to: bounds.1.clone() }.contains(key)
    }

    fn sort_key(value: &Value<'_>, mask: u8) -> Vec<u8> {
        let mut key = Vec::new();
        sort_key_into(value, &mut key);
        key.iter().map(|byte| byte ^ mask).collect()
    }

    /// Every row whose value is in a range lies within the bounds; where values are whole, no other.
    #[test]
    fn bounds_never_leave_a_row_out() {
        for mask in [0, 0xFF] {
            let columns = Columns { masks: vec![mask] };
            for bound in values() {
                let key = Bytes::from(sort_key(&bound, mask));
                let ranges = [
                    KeyRange { from: Bound::Included(key.clone()), to: Bound::Unbounded },
                    KeyRange { from: Bound::Excluded(key.clone()), to: Bound::Unbounded },
                    KeyRange { from: Bound::Unbounded, to: Bound::Included(key.clone()) },
                    KeyRange { from: Bound::Unbounded, to: Bound::Excluded(key.clone()) },
                    KeyRange::exactly(key.clone()),
                    KeyRange::beginning(key[..key.len().saturating_sub(2)].to_vec()),
                ];
                for range in ranges {
                    let bounds = columns.rows(b"h", &range);
                    for value in values() {
                        let mut row = vec![b'h'];
                        put_value(&value, &mut row);
                        row[1..].iter_mut().for_each(|byte| *byte ^= mask);
                        row.extend_from_slice(b"\0item");
                        if range.contains(&sort_key(&value, mask)) {
                            assert!(contains(&bounds, &row), "{value:?} in {range:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn one_value_is_one_run_of_rows_unless_it_is_long() {
        let columns = Columns::one();
        for value in values() {
            let range = KeyRange::exactly(sort_key(&value, 0));
            let short = value.as_str().is_none_or(|text| text.len() <= TEXT_BYTES);
            assert_eq!(columns.exact(b"h", &range).is_some(), short, "{value:?}");
        }
    }
}
