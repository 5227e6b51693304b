//! Bytes that are the same exactly for equal values: what `DISTINCT` and `GROUP BY` look up.

use super::{Value, sort_key_into};

const ARRAY: u8 = 0xA0;
const OBJECT: u8 = 0xB0;
const END: u8 = 0xFF;

/// Appends the identity of a value: deep, members in the order of their names.
pub fn identity_into(value: &Value<'_>, out: &mut Vec<u8>) {
    if let Some(elements) = value.elements() {
        out.push(ARRAY);
        for element in elements {
            identity_into(&element, out);
        }
        out.push(END);
    } else if let Some(members) = value.members() {
        let mut members: Vec<_> = members.collect();
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        out.push(OBJECT);
        for (name, value) in members {
            sort_key_into(&Value::String(name), out);
            identity_into(&value, out);
        }
        out.push(END);
    } else {
        sort_key_into(value, out);
    }
}

/// Appends a digest of fixed length of the identity, for places where only equality counts.
pub fn digest_into(value: &Value<'_>, out: &mut Vec<u8>) {
    let mut identity = Vec::new();
    identity_into(value, &mut identity);
    out.extend_from_slice(&model::epk::digest(&identity));
}
