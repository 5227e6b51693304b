//! Binary JSON says the same as the text that it is turned into.

use astrarium_model::{binary, json};
use serde_json::Value;

use crate::chance::Chance;

/// Writes a value in forms that chance chooses among those it fits.
fn encode(value: &Value, chance: &mut Chance, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xD0),
        Value::Bool(flag) => out.push(if *flag { 0xD2 } else { 0xD1 }),
        Value::Number(number) => encode_number(number, chance, out),
        Value::String(text) => encode_string(text, chance, out),
        Value::Array(elements) => {
            let mut body = Vec::new();
            elements.iter().for_each(|element| encode(element, chance, &mut body));
            encode_container(0xE0, elements.len(), &body, chance, out);
        }
        Value::Object(members) => {
            let mut body = Vec::new();
            for (key, value) in members {
                encode_string(key, chance, &mut body);
                encode(value, chance, &mut body);
            }
            encode_container(0xE8, members.len(), &body, chance, out);
        }
    }
}

fn encode_number(number: &serde_json::Number, chance: &mut Chance, out: &mut Vec<u8>) {
    let Some(integer) = number.as_i64() else {
        return match number.as_u64() {
            Some(integer) => out.extend([&[0xC7][..], &integer.to_le_bytes()].concat()),
            None => {
                let double = number.as_f64().expect("neither integer");
                out.extend([&[[0xCC, 0xCE][chance.below(2)]][..], &double.to_le_bytes()].concat());
            }
        };
    };
    let any = |chance: &mut Chance, one, other| if chance.below(2) == 0 { one } else { other };
    match integer {
        0..=31 => out.push(integer as u8),
        32..=255 => out.extend([any(chance, 0xC8, 0xD7), integer as u8]),
        -128..=-1 => out.extend([0xD8, integer as u8]),
        -32768..=32767 => {
            out.push(any(chance, 0xC9, 0xD9));
            out.extend((integer as i16).to_le_bytes());
        }
        _ => {
            out.push(any(chance, 0xCB, 0xDB));
            out.extend(integer.to_le_bytes());
        }
    }
}

fn encode_string(text: &str, chance: &mut Chance, out: &mut Vec<u8>) {
    let length = text.len();
    match (text, chance.below(4)) {
        ("id", 0) => return out.push(0x2C),
        ("name", 0) => return out.push(0x35),
        (_, 0 | 1) if length < 64 => out.push(0x80 + length as u8),
        (_, 0..=2) if length < 256 => out.extend([0xC0, length as u8]),
        (_, 2) if text.is_ascii() => return encode_packed(text, out),
        _ => {
            out.push(0xC2);
            out.extend((length as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn encode_packed(text: &str, out: &mut Vec<u8>) {
    out.push(0x7F);
    out.extend((text.len() as u16).to_le_bytes());
    let mut bytes = vec![0_u8; (text.len() * 7).div_ceil(8)];
    for (index, byte) in text.bytes().enumerate() {
        for bit in 0..7 {
            let at = index * 7 + bit;
            bytes[at / 8] |= (byte >> bit & 1) << (at % 8);
        }
    }
    out.extend(bytes);
}

fn encode_container(form: u8, count: usize, body: &[u8], chance: &mut Chance, out: &mut Vec<u8>) {
    match (count, chance.below(5)) {
        (0, 0) => return out.push(form),
        (1, 0) => out.push(form + 1),
        (_, 0 | 1) if body.len() < 256 => out.extend([form + 2, body.len() as u8]),
        (_, 2) if body.len() < 256 => out.extend([form + 5, body.len() as u8, count as u8]),
        (_, 3) => {
            out.push(form + 4);
            out.extend((body.len() as u32).to_le_bytes());
        }
        _ => {
            out.push(form + 7);
            out.extend((body.len() as u32).to_le_bytes());
            out.extend((count as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(body);
}

#[test]
fn every_value_comes_back() {
    let mut chance = Chance(31);
    for _ in 0..10_000 {
        let value = Value::Object(chance.object(4));
        let mut body = vec![0x80];
        encode(&value, &mut chance, &mut body);
        assert!(binary::is_binary(&body));
        let text = binary::to_text(&body).unwrap();
        let found: Value = serde_json::from_slice(&text).unwrap();
        same(&found, &value);
    }
}

/// Whole doubles come back as whole numbers, so numbers are compared by what they are.
fn same(one: &Value, other: &Value) {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            assert!(one == other || one.as_f64() == other.as_f64());
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len());
            one.iter().zip(other).for_each(|(one, other)| same(one, other));
        }
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()));
            one.values().zip(other.values()).for_each(|(one, other)| same(one, other));
        }
        _ => assert_eq!(one, other),
    }
}

#[test]
fn damaged_bodies_are_refused_or_valid_text() {
    let mut chance = Chance(32);
    for _ in 0..50_000 {
        let mut body = vec![0x80];
        encode(&Value::Object(chance.object(3)), &mut chance, &mut body);
        for _ in 0..=chance.below(3) {
            let at = chance.below(body.len());
            body[at] = chance.next() as u8;
        }
        if let Ok(text) = binary::to_text(&body) {
            json::check(&text).unwrap();
        }
    }
}
