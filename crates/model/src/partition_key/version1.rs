//! Where keys lie under the first version of the hash: a short hash, then the value itself.

use super::{Component, Hashed, type_byte, write_for_hash};
use crate::epk::{Epk, murmur};

/// Longer strings are cut to this many UTF-16 units before anything else.
const STRING_UNITS_MAX: usize = 100;
/// A string longer than the units but one, in bytes, is written without its end.
const STRING_BYTES_MAX: usize = 100;
const SIGN: u64 = 1 << 63;

pub(super) fn epk(components: &[Component]) -> Epk {
    let components: Vec<Component> = components.iter().map(cut).collect();
    let mut hashed = Hashed::new();
    components.iter().for_each(|component| write_for_hash(component, 0, &mut hashed));
    let hash = f64::from(murmur::x86_32(&hashed, 0));
    let mut out = Vec::with_capacity(64);
    write(&Component::Number(hash), &mut out);
    components.iter().for_each(|component| write(component, &mut out));
    Epk::from_bytes(&out)
}

fn cut(component: &Component) -> Component {
    let Component::String(text) = component else { return component.clone() };
    let mut out = String::new();
    let mut units = 0;
    for character in text.chars() {
        units += character.len_utf16();
        if units > STRING_UNITS_MAX {
            // The half of a character that is left over counts as the replacement character.
            if units - character.len_utf16() < STRING_UNITS_MAX {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            break;
        }
        out.push(character);
    }
    Component::String(out)
}

fn write(component: &Component, out: &mut Vec<u8>) {
    out.push(type_byte(component));
    match component {
        Component::Number(number) => write_number(*number, out),
        Component::String(text) => write_string(text.as_bytes(), out),
        _ => {}
    }
}

/// Ordered bits: one byte, then groups of seven with a low bit that says whether more follow.
fn write_number(number: f64, out: &mut Vec<u8>) {
    let bits = number.to_bits();
    let bits = if bits & SIGN == 0 { bits ^ SIGN } else { bits.wrapping_neg() };
    out.push((bits >> 56) as u8);
    let mut rest = bits << 8;
    loop {
        let group = (rest >> 56) as u8 & 0xFE;
        rest <<= 7;
        out.push(group | u8::from(rest != 0));
        if rest == 0 {
            return;
        }
    }
}

/// Every byte one higher, so that none is the zero of the end.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.extend(text.iter().take(STRING_BYTES_MAX + 1).map(|byte| byte.wrapping_add(1)));
    if text.len() <= STRING_BYTES_MAX {
        out.push(0);
    }
}
