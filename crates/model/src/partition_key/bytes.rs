//! Partition keys as bytes inside of storage keys: self-delimiting, and sorted as the values.

use super::Component;

/// Ends a key. Below all types, so that a shorter key sorts before a longer one.
pub(super) const END: u8 = 0;
const UNDEFINED: u8 = 1;
const NULL: u8 = 2;
const FALSE: u8 = 3;
const TRUE: u8 = 4;
const NUMBER: u8 = 5;
const STRING: u8 = 8;

/// A zero byte within a string is followed by `ESCAPED`, the one that ends it by `CLOSED`.
const CLOSED: u8 = 0x01;
const ESCAPED: u8 = 0xFF;
const SIGN: u64 = 1 << 63;

pub(super) fn encode(component: &Component, out: &mut Vec<u8>) {
    match component {
        Component::Undefined => out.push(UNDEFINED),
        Component::Null => out.push(NULL),
        Component::Bool(false) => out.push(FALSE),
        Component::Bool(true) => out.push(TRUE),
        Component::Number(number) => {
            out.push(NUMBER);
            out.extend_from_slice(&ordered(number.to_bits()).to_be_bytes());
        }
        Component::String(text) => {
            out.push(STRING);
            for &byte in text.as_bytes() {
                out.push(byte);
                if byte == 0 {
                    out.push(ESCAPED);
                }
            }
            out.extend_from_slice(&[0, CLOSED]);
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Option<(Component, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let component = match first {
        UNDEFINED => Component::Undefined,
        NULL => Component::Null,
        FALSE => Component::Bool(false),
        TRUE => Component::Bool(true),
        NUMBER => {
            let (bits, rest) = rest.split_first_chunk()?;
            let number = f64::from_bits(unordered(u64::from_be_bytes(*bits)));
            return Some((Component::Number(number), rest));
        }
        STRING => return string(rest),
        _ => return None,
    };
    Some((component, rest))
}

fn string(mut bytes: &[u8]) -> Option<(Component, &[u8])> {
    let mut text = Vec::new();
    loop {
        let (&byte, rest) = bytes.split_first()?;
        bytes = rest;
        if byte != 0 {
            text.push(byte);
            continue;
        }
        let (&mark, rest) = bytes.split_first()?;
        bytes = rest;
        match mark {
            CLOSED => return Some((Component::String(String::from_utf8(text).ok()?), bytes)),
            ESCAPED => text.push(0),
            _ => return None,
        }
    }
}

/// Bits of a double that sort, as whole numbers, like the doubles do.
fn ordered(bits: u64) -> u64 {
    if bits & SIGN == 0 { bits ^ SIGN } else { !bits }
}

fn unordered(bits: u64) -> u64 {
    if bits & SIGN == 0 { !bits } else { bits ^ SIGN }
}
