//! Cosmos's binary JSON, turned into the JSON text that everything else reads.
//!
//! A value is a marker byte and what belongs to it. Ranges of markers carry small values in
//! themselves: 00–1F numbers, 20–3F well-known strings, 80–BF lengths of strings. Output is
//! bounded as a whole, so that references and counts in the input cannot multiply it.

use crate::json;
use crate::limits::{JSON_DEPTH, REQUEST_BYTES};
use crate::{Error, Fault, Result};

mod string;

/// Whether a body is binary JSON, which its first byte tells: no text begins with it.
pub fn is_binary(body: &[u8]) -> bool {
    body.first() == Some(&PREAMBLE)
}

/// The JSON text of a binary body.
pub fn to_text(body: &[u8]) -> Result<Vec<u8>> {
    let mut reader = Reader { body, at: 0 };
    if reader.byte()? != PREAMBLE {
        return reader.fail("it does not begin with 80");
    }
    let mut out = Vec::with_capacity(body.len() + body.len() / 2);
    reader.value(0, &mut out)?;
    if reader.at < body.len() {
        return reader.fail("nothing may follow the value");
    }
    Ok(out)
}

const PREAMBLE: u8 = 0x80;
const OUTPUT_BYTES: usize = 2 * REQUEST_BYTES;

/// How many bytes a length or a count has.
#[derive(Clone, Copy)]
enum Width {
    One,
    Two,
    Four,
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Writes the value at the present place; `depth` containers are open around it.
    fn value(&mut self, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        if out.len() > OUTPUT_BYTES {
            return Err(too_large());
        }
        let marker = self.byte()?;
        match marker {
            0x00..=0x1F => write_integer(marker.into(), out),
            0x20..=0xC6 => return self.string(marker, out),
            0xC7..=0xCE | 0xD7..=0xDC => return self.number(marker, out),
            0xD0 => out.extend_from_slice(b"null"),
            0xD1 => out.extend_from_slice(b"false"),
            0xD2 => out.extend_from_slice(b"true"),
            0xD3 => return self.guid(out),
            0xDD => return self.binary(Width::One, out),
            0xDE => return self.binary(Width::Two, out),
            0xDF => return self.binary(Width::Four, out),
            0xE0..=0xE7 => return self.container(marker - 0xE0, Shape::ARRAY, depth, out),
            0xE8..=0xEF => return self.container(marker - 0xE8, Shape::OBJECT, depth, out),
            0xF0 => return self.numbers(Width::One, depth, out),
            0xF1 => return self.numbers(Width::Two, depth, out),
            0xF2 => return self.arrays_of_numbers(Width::One, depth, out),
            0xF3 => return self.arrays_of_numbers(Width::Two, depth, out),
            _ => return self.fail("there is no such marker"),
        }
        Ok(())
    }

    /// Arrays and objects have the same eight forms: empty, of one, and with a length of 1, 2
    /// or 4 bytes, the latter without or with a count of the same width.
    fn container(&mut self, form: u8, shape: Shape, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        self.check_depth(depth)?;
        let (width, counted) = match form {
            0 => (None, false),
            1 => (None, true),
            2 | 5 => (Some(Width::One), form == 5),
            3 | 6 => (Some(Width::Two), form == 6),
            _ => (Some(Width::Four), form == 7),
        };
        out.push(shape.open);
        match width {
            None if counted => self.entry(&shape, depth, out)?,
            None => {}
            Some(width) => self.entries(width, counted, &shape, depth, out)?,
        }
        out.push(shape.close);
        Ok(())
    }

    fn entries(
        &mut self,
        width: Width,
        counted: bool,
        shape: &Shape,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let length = self.length(width)?;
        let expected = if counted { Some(self.length(width)?) } else { None };
        if length > self.body.len() - self.at {
            return self.fail("a length reaches beyond the end");
        }
        let end = self.at + length;
        let mut count = 0;
        while self.at < end {
            if count > 0 {
                out.push(b',');
            }
            self.entry(shape, depth, out)?;
            count += 1;
        }
        if self.at != end || expected.is_some_and(|expected| expected != count) {
            return self.fail("a length or count is not that of what it holds");
        }
        Ok(())
    }

    fn entry(&mut self, shape: &Shape, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        if shape.named {
            match self.byte()? {
                marker @ 0x20..=0xC6 => self.string(marker, out)?,
                _ => return self.fail("the name of a member is not a string"),
            }
            out.push(b':');
        }
        self.value(depth + 1, out)
    }

    fn numbers(&mut self, width: Width, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        self.check_depth(depth)?;
        let marker = self.number_marker()?;
        let count = self.length(width)?;
        self.run_of_numbers(marker, count, out)
    }

    fn arrays_of_numbers(&mut self, width: Width, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        self.check_depth(depth + 1)?;
        let inner_form = match width {
            Width::One => 0xF0,
            Width::Two | Width::Four => 0xF1,
        };
        if self.byte()? != inner_form {
            return self.fail("an array of arrays of numbers holds something else");
        }
        let marker = self.number_marker()?;
        let count = self.length(width)?;
        let arrays = self.length(width)?;
        out.push(b'[');
        for index in 0..arrays {
            if index > 0 {
                out.push(b',');
            }
            self.run_of_numbers(marker, count, out)?;
        }
        out.push(b']');
        Ok(())
    }

    fn run_of_numbers(&mut self, marker: u8, count: usize, out: &mut Vec<u8>) -> Result<()> {
        // Here and not only at values: a run without numbers takes no input at all.
        if out.len() > OUTPUT_BYTES {
            return Err(too_large());
        }
        out.push(b'[');
        for index in 0..count {
            if index > 0 {
                out.push(b',');
            }
            self.number(marker, out)?;
        }
        out.push(b']');
        Ok(())
    }

    /// The marker that the numbers of an array share, which must tell their width.
    fn number_marker(&mut self) -> Result<u8> {
        match self.byte()? {
            marker @ (0xCD | 0xCE | 0xD7..=0xDC) => Ok(marker),
            _ => self.fail("an array of numbers holds something else"),
        }
    }

    fn number(&mut self, marker: u8, out: &mut Vec<u8>) -> Result<()> {
        let integer = match marker {
            0xC8 | 0xD7 => i64::from(self.byte()?),
            0xD8 => i64::from(i8::from_le_bytes(self.array()?)),
            0xC9 | 0xD9 => i64::from(i16::from_le_bytes(self.array()?)),
            0xCA | 0xDA => i64::from(i32::from_le_bytes(self.array()?)),
            0xDC => i64::from(u32::from_le_bytes(self.array()?)),
            0xCB | 0xDB => i64::from_le_bytes(self.array()?),
            0xC7 => {
                let number = u64::from_le_bytes(self.array()?);
                out.extend_from_slice(number.to_string().as_bytes());
                return Ok(());
            }
            0xCD => return self.double(f32::from_le_bytes, out),
            _ => return self.double(f64::from_le_bytes, out),
        };
        write_integer(integer, out);
        Ok(())
    }

    fn double<const N: usize, F: Into<f64>>(
        &mut self,
        read: impl Fn([u8; N]) -> F,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let number: f64 = read(self.array()?).into();
        if !number.is_finite() {
            return self.fail("a number is infinite or none");
        }
        json::number_into(out, number);
        Ok(())
    }

    fn check_depth(&self, depth: usize) -> Result<()> {
        if depth < JSON_DEPTH { Ok(()) } else { self.fail("nested too deeply") }
    }

    fn length(&mut self, width: Width) -> Result<usize> {
        Ok(match width {
            Width::One => self.byte()?.into(),
            Width::Two => u16::from_le_bytes(self.array()?).into(),
            Width::Four => u32::from_le_bytes(self.array()?) as usize,
        })
    }

    fn byte(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.body.get(self.at..).and_then(|rest| rest.first_chunk()) {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => self.fail("it ends too early"),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        match self.body.get(self.at..).and_then(|rest| rest.get(..length)) {
            Some(bytes) => {
                self.at += length;
                Ok(bytes)
            }
            None => self.fail("it ends too early"),
        }
    }

    #[cold]
    fn fail<T>(&self, what: &str) -> Result<T> {
        Err(Error::bad_request(format!(
            "the body is not valid binary JSON: {what} at byte {}",
            self.at
        )))
    }
}

/// What tells arrays and objects apart.
struct Shape {
    open: u8,
    close: u8,
    named: bool,
}

impl Shape {
    const ARRAY: Self = Self { open: b'[', close: b']', named: false };
    const OBJECT: Self = Self { open: b'{', close: b'}', named: true };
}

fn write_integer(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}

fn too_large() -> Error {
    Error::new(
        Fault::TooLarge,
        format!("the body has more than {OUTPUT_BYTES} bytes as JSON text; make it smaller"),
    )
}

#[cfg(test)]
mod tests;
