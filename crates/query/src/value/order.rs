//! Equality, the order across types, and bytes that sort as values do.
//!
//! `undefined < null < false < true < numbers < strings < arrays < objects`. Texts compare by
//! their UTF-16 units; arrays and objects by a digest, which is stable and means nothing more.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Type, Value};

/// Whether two defined values are the same: types first, numbers as doubles, arrays in order,
/// objects whatever the order of their members.
pub fn equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::String(a), Value::String(b)) => a == b,
        _ => match (a.kind(), b.kind()) {
            (Type::Array, Type::Array) => arrays_equal(a, b),
            (Type::Object, Type::Object) => objects_equal(a, b),
            _ => false,
        },
    }
}

fn arrays_equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    let (Some(mut a), Some(mut b)) = (a.elements(), b.elements()) else { return false };
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if equal(&a, &b) => {}
            _ => return false,
        }
    }
}

fn objects_equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    let (Some(a), Some(b)) = (a.members(), b.members()) else { return false };
    let (mut a, mut b): (Vec<_>, Vec<_>) = (a.collect(), b.collect());
    if a.len() != b.len() {
        return false;
    }
    a.sort_by(|(a, _), (b, _)| a.cmp(b));
    b.sort_by(|(a, _), (b, _)| a.cmp(b));
    a.iter().zip(&b).all(|((a, x), (b, y))| a == b && equal(x, y))
}

/// The order of `ORDER BY`.
pub fn compare(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => compare_numbers(a.as_f64(), b.as_f64()),
        (Value::String(a), Value::String(b)) => compare_text(a, b),
        _ => a.kind().cmp(&b.kind()).then_with(|| match a.kind() {
            Type::Array | Type::Object => digest(a).cmp(&digest(b)),
            _ => Ordering::Equal,
        }),
    }
}

/// Numbers in order; what is no number stands before all of them.
fn compare_numbers(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Texts by their UTF-16 units.
pub fn compare_text(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((&a, &b)) => unit_order(a).cmp(&unit_order(b)),
        None => a.len().cmp(&b.len()),
    }
}

/// UTF-8 sorts by code points. UTF-16 puts those beyond the first 65,536, which begin with F0 to
/// F4, before U+E000 to U+FFFF, which begin with EE and EF: exchanging those bytes is enough.
fn unit_order(byte: u8) -> u8 {
    match byte {
        0xEE | 0xEF => byte + 5,
        0xF0..=0xF4 => byte - 2,
        other => other,
    }
}

/// The sort key of a value, appended: bytes compare as [`compare`] does, equal values have equal
/// keys, and no key is a prefix of another, so keys can follow each other.
pub fn sort_key_into(value: &Value<'_>, out: &mut Vec<u8>) {
    out.push(value.kind() as u8 * 16 + 16);
    match value {
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::Number(number) => out.extend_from_slice(&number_key(number.as_f64())),
        Value::String(text) => {
            text_key_into(text, out);
            out.extend_from_slice(&[0, 0]);
        }
        Value::Undefined | Value::Null => {}
        Value::Array(_) | Value::Object(_) | Value::Raw(_) => {
            out.extend_from_slice(&digest(value));
        }
    }
}

/// The sort key of a text without its type and its end: the keys of all texts that begin so begin
/// with it.
pub fn text_key_into(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    for &byte in text.as_bytes() {
        out.push(unit_order(byte));
        if byte == 0 {
            out.push(0xFF);
        }
    }
}

/// The text that a sort key is of; none where it is of something else.
pub fn text_of_key(key: &[u8]) -> Option<String> {
    let (&kind, mut rest) = key.split_first()?;
    if kind != Type::String as u8 * 16 + 16 {
        return None;
    }
    let mut text = Vec::with_capacity(rest.len());
    loop {
        match rest {
            [0, 0] => return String::from_utf8(text).ok(),
            [0, 0xFF, after @ ..] => {
                text.push(0);
                rest = after;
            }
            [byte, after @ ..] => {
                text.push(byte_of_order(*byte));
                rest = after;
            }
            [] => return None,
        }
    }
}

/// The byte that has a place in the order of units.
fn byte_of_order(order: u8) -> u8 {
    match order {
        0xF3 | 0xF4 => order - 5,
        0xEE..=0xF2 => order + 2,
        other => other,
    }
}

fn number_key(value: f64) -> [u8; 8] {
    if value.is_nan() {
        return [0; 8];
    }
    // Both zeros are one value.
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    ordered.to_be_bytes()
}

/// The digest of an array or object: of the sort keys of what it holds, so of the digests of what
/// is nested in it. Indexes make it in one walk over an item, however deep that is.
fn digest(value: &Value<'_>) -> [u8; DIGEST_BYTES] {
    let mut keys = Vec::new();
    if let Some(elements) = value.elements() {
        elements.for_each(|element| sort_key_into(&element, &mut keys));
        return content_digest(&keys);
    }
    let mut members: Vec<_> = value.members().into_iter().flatten().collect();
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, value) in members {
        member_key_into(&name, &mut keys);
        sort_key_into(&value, &mut keys);
    }
    content_digest(&keys)
}

/// Bytes that the sort key of an array or object has behind its type.
pub const DIGEST_BYTES: usize = 16;

/// The digest of an array from the sort keys of its elements, or of an object from the names and
/// sort keys of its members in the order of names.
pub fn content_digest(keys: &[u8]) -> [u8; DIGEST_BYTES] {
    model::epk::digest(keys)
}

/// Appends the name of a member, as digests of objects have it.
pub fn member_key_into(name: &str, out: &mut Vec<u8>) {
    sort_key_into(&Value::String(Cow::Borrowed(name)), out);
}
