//! The many forms of strings in binary JSON.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::{OUTPUT_BYTES, Reader, Width, too_large};
use crate::Result;
use crate::json;

/// The strings of markers 20–3F, in the order of the service.
const WELL_KNOWN: [&str; 32] = [
    "$s",
    "$t",
    "$v",
    "_attachments",
    "_etag",
    "_rid",
    "_self",
    "_ts",
    "attachments/",
    "coordinates",
    "geometry",
    "GeometryCollection",
    "id",
    "url",
    "Value",
    "label",
    "LineString",
    "link",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "name",
    "Name",
    "Type",
    "Point",
    "Polygon",
    "properties",
    "type",
    "value",
    "Feature",
    "FeatureCollection",
    "_id",
];

const LOWER_HEX: &[u8; 16] = b"0123456789abcdef";
const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";
const DATE_TIME: &[u8; 16] = b" 0123456789:-.TZ";
/// A dash stands before these bytes of a GUID.
const GUID_DASHES: [usize; 4] = [4, 6, 8, 10];

impl Reader<'_> {
    /// Writes the string of a marker that was read, as a JSON string.
    pub(super) fn string(&mut self, marker: u8, out: &mut Vec<u8>) -> Result<()> {
        if let 0xC3..=0xC6 = marker {
            return self.reference(marker, out);
        }
        self.own_string(marker, out)
    }

    /// Any string but a reference to another.
    fn own_string(&mut self, marker: u8, out: &mut Vec<u8>) -> Result<()> {
        match marker {
            0x20..=0x3F => {
                json::escape_into(out, WELL_KNOWN[usize::from(marker - 0x20)]);
                Ok(())
            }
            0x40..=0x67 => self.fail("strings of a user's dictionary are not supported"),
            0x71 => self.base64(Width::One, false, out),
            0x72 => self.base64(Width::Two, false, out),
            0x73 => self.base64(Width::One, true, out),
            0x74 => self.base64(Width::Two, true, out),
            0x75 => self.guid_string(LOWER_HEX, "", out),
            0x76 => self.guid_string(UPPER_HEX, "", out),
            0x77 => self.guid_string(LOWER_HEX, "\"", out),
            0x78 => self.nibbles(LOWER_HEX, out),
            0x79 => self.nibbles(UPPER_HEX, out),
            0x7A => self.nibbles(DATE_TIME, out),
            0x7B => self.packed_above_base(4, out),
            0x7C => self.packed_above_base(5, out),
            0x7D => self.packed_above_base(6, out),
            0x7E => self.packed_ascii(Width::One, out),
            0x7F => self.packed_ascii(Width::Two, out),
            0x80..=0xBF => self.plain(usize::from(marker - 0x80), out),
            0xC0 => self.plain_with_length(Width::One, out),
            0xC1 => self.plain_with_length(Width::Two, out),
            0xC2 => self.plain_with_length(Width::Four, out),
            _ => self.fail("there is no such string"),
        }
    }

    /// A string that stands elsewhere in the body, by its place there. It may not be a
    /// reference itself, so that there are neither chains nor circles.
    fn reference(&mut self, marker: u8, out: &mut Vec<u8>) -> Result<()> {
        if out.len() > OUTPUT_BYTES {
            return Err(too_large());
        }
        let width = usize::from(marker - 0xC2);
        let place =
            self.take(width)?.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        let mut target = Reader { body: self.body, at: place };
        match target.byte() {
            Ok(marker @ (0x20..=0xC2)) => target.own_string(marker, out),
            _ => self.fail("a reference does not lead to a string"),
        }
    }

    fn plain_with_length(&mut self, width: Width, out: &mut Vec<u8>) -> Result<()> {
        let length = self.length(width)?;
        self.plain(length, out)
    }

    fn plain(&mut self, length: usize, out: &mut Vec<u8>) -> Result<()> {
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => {
                json::escape_into(out, text);
                Ok(())
            }
            Err(_) => self.fail("a string is not UTF-8"),
        }
    }

    /// The bytes that a base64 text stands for: how many groups of four characters it has,
    /// and how many of the last are padding, complemented where that was left out.
    fn base64(&mut self, width: Width, url_safe: bool, out: &mut Vec<u8>) -> Result<()> {
        let characters = self.length(width)? * 4;
        let padding = self.byte()?;
        let (missing, kept) = if padding > 2 { (!padding, false) } else { (padding, true) };
        let missing = usize::from(missing);
        if missing > 2 || missing > characters {
            return self.fail("base64 with a padding that cannot be");
        }
        let bytes = self.take((characters - missing) * 3 / 4)?;
        let mut text = if url_safe { URL_SAFE.encode(bytes) } else { STANDARD.encode(bytes) };
        if !kept {
            text.truncate(characters - missing);
        }
        json::escape_into(out, &text);
        Ok(())
    }

    /// A GUID that was sent as a string: its digits in order, two a byte, the low half first.
    fn guid_string(&mut self, digits: &[u8; 16], quote: &str, out: &mut Vec<u8>) -> Result<()> {
        let bytes = self.array::<16>()?.map(|byte| byte.rotate_left(4));
        json::escape_into(out, &format!("{quote}{}{quote}", guid_text(bytes, digits)));
        Ok(())
    }

    /// A GUID that was sent as a value: its first three numbers little-endian.
    pub(super) fn guid(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let mut bytes = self.array::<16>()?;
        bytes[..4].reverse();
        bytes[4..6].reverse();
        bytes[6..8].reverse();
        json::escape_into(out, &guid_text(bytes, LOWER_HEX));
        Ok(())
    }

    /// Bytes, which JSON text can only show as base64.
    pub(super) fn binary(&mut self, width: Width, out: &mut Vec<u8>) -> Result<()> {
        let length = self.length(width)?;
        let bytes = self.take(length)?;
        json::escape_into(out, &STANDARD.encode(bytes));
        Ok(())
    }

    /// Characters of a table of sixteen, two a byte, the low half first.
    fn nibbles(&mut self, table: &[u8; 16], out: &mut Vec<u8>) -> Result<()> {
        let count = usize::from(self.byte()?);
        let bytes = self.take(count.div_ceil(2))?;
        if count % 2 == 1 && bytes.last().is_some_and(|byte| byte >> 4 != 0) {
            return self.fail("a packed string has something behind its end");
        }
        let halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).take(count);
        let text: String = halves.map(|half| char::from(table[usize::from(half)])).collect();
        json::escape_into(out, &text);
        Ok(())
    }

    fn packed_above_base(&mut self, bits: usize, out: &mut Vec<u8>) -> Result<()> {
        let count = self.length(Width::One)?;
        let base = self.byte()?;
        self.packed(bits, count, base, out)
    }

    fn packed_ascii(&mut self, width: Width, out: &mut Vec<u8>) -> Result<()> {
        let count = self.length(width)?;
        self.packed(7, count, 0, out)
    }

    /// Characters of a few bits each, as distances from a base, the lowest bits first.
    fn packed(&mut self, bits: usize, count: usize, base: u8, out: &mut Vec<u8>) -> Result<()> {
        let bytes = self.take((count * bits).div_ceil(8))?;
        let character = |index: usize| {
            let bit = index * bits;
            let low = u16::from(bytes[bit / 8]);
            let high = bytes.get(bit / 8 + 1).map_or(0, |&byte| u16::from(byte) << 8);
            let distance = ((low | high) >> (bit % 8)) & ((1 << bits) - 1);
            let code = base.checked_add(distance as u8).filter(u8::is_ascii)?;
            Some(char::from(code))
        };
        match (0..count).map(character).collect::<Option<String>>() {
            Some(text) => {
                json::escape_into(out, &text);
                Ok(())
            }
            None => self.fail("a packed string is not ASCII"),
        }
    }
}

fn guid_text(bytes: [u8; 16], digits: &[u8; 16]) -> String {
    let mut text = String::with_capacity(38);
    for (index, byte) in bytes.into_iter().enumerate() {
        if GUID_DASHES.contains(&index) {
            text.push('-');
        }
        text.push(char::from(digits[usize::from(byte >> 4)]));
        text.push(char::from(digits[usize::from(byte & 15)]));
    }
    text
}
