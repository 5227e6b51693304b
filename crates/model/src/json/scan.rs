//! The one pass that checks JSON text, and the walk over text that passed it.

use std::ops::Range;

use crate::limits::JSON_DEPTH;

// One bit per open container says whether it is an object.
const _: () = assert!(JSON_DEPTH <= u128::BITS as usize);

/// What is wrong with a text, and where.
#[derive(Debug)]
pub(super) struct Fail {
    pub what: &'static str,
    pub at: usize,
}

/// Checks one JSON value with whitespace around it and returns where the value lies.
///
/// `member` hears of every member of a top-level object: the key with its quotes, the value.
pub(super) fn check(
    text: &[u8],
    mut member: impl FnMut(Range<usize>, Range<usize>),
) -> Result<Range<usize>, Fail> {
    check_deep::<1>(text, |_, key, value| {
        if let Some(key) = key {
            member(key, value);
        }
    })
}

/// The same, and `heard` hears of all members and elements that are this deep or less, those of the
/// top-level value being at depth 1: the depth, the key with its quotes where it is a member, the
/// value. What is within a value comes before it.
pub(super) fn check_deep<const DEPTH: usize>(
    text: &[u8],
    heard: impl FnMut(usize, Option<Range<usize>>, Range<usize>),
) -> Result<Range<usize>, Fail> {
    const { assert!(DEPTH < LEVELS) };
    let mut scanner = Scanner { text, at: 0, what: "" };
    scanner.whole::<DEPTH>(heard).map_err(|Stop| Fail { what: scanner.what, at: scanner.at })
}

/// More levels than anybody hears of.
const LEVELS: usize = 4;

/// Says that the text is wrong. What and where stays in the scanner, so that the results of
/// its functions are as small as they can be.
struct Stop;

type Step<T = ()> = Result<T, Stop>;

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    what: &'static str,
}

impl Scanner<'_> {
    fn whole<const DEPTH: usize>(
        &mut self,
        heard: impl FnMut(usize, Option<Range<usize>>, Range<usize>),
    ) -> Step<Range<usize>> {
        self.space();
        let start = self.at;
        self.value::<DEPTH>(heard)?;
        let end = self.at;
        self.space();
        if self.at < self.text.len() {
            return self.fail("nothing may follow the value");
        }
        Ok(start..end)
    }

    /// Passes a value. One turn of the outer loop begins a value, one of the inner ends one.
    fn value<const DEPTH: usize>(
        &mut self,
        mut heard: impl FnMut(usize, Option<Range<usize>>, Range<usize>),
    ) -> Step {
        let mut open = Open { objects: 0, depth: 0 };
        // By depth: the key of the member that is under way, and where its value begins.
        let mut keys = [(0, 0); LEVELS];
        let mut starts = [0; LEVELS];
        loop {
            self.space();
            if open.depth <= DEPTH {
                starts[open.depth] = self.at;
            }
            match self.peek() {
                b'{' => {
                    self.enter(&mut open, true)?;
                    if self.peek() != b'}' {
                        self.member_key::<DEPTH>(&open, &mut keys)?;
                        continue;
                    }
                    self.leave(&mut open);
                }
                b'[' => {
                    self.enter(&mut open, false)?;
                    if self.peek() != b']' {
                        continue;
                    }
                    self.leave(&mut open);
                }
                byte => self.scalar(byte)?,
            }
            loop {
                if open.depth == 0 {
                    return Ok(());
                }
                if open.depth <= DEPTH {
                    let (from, to) = keys[open.depth];
                    let key = open.in_object().then_some(from..to);
                    heard(open.depth, key, starts[open.depth]..self.at);
                }
                self.space();
                match (self.peek(), open.in_object()) {
                    (b',', true) => {
                        self.at += 1;
                        self.space();
                        self.member_key::<DEPTH>(&open, &mut keys)?;
                        break;
                    }
                    (b',', false) => {
                        self.at += 1;
                        break;
                    }
                    (b'}', true) | (b']', false) => self.leave(&mut open),
                    (_, true) => return self.fail("expected ',' or '}'"),
                    (_, false) => return self.fail("expected ',' or ']'"),
                }
            }
        }
    }

    fn enter(&mut self, open: &mut Open, object: bool) -> Step {
        if open.depth == JSON_DEPTH {
            return self.fail("nested too deeply");
        }
        open.push(object);
        self.at += 1;
        self.space();
        Ok(())
    }

    fn leave(&mut self, open: &mut Open) {
        open.pop();
        self.at += 1;
    }

    fn scalar(&mut self, byte: u8) -> Step {
        match byte {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.fail("expected a value"),
        }
    }

    /// Passes a name and its colon, and remembers those that somebody hears of.
    fn member_key<const DEPTH: usize>(
        &mut self,
        open: &Open,
        keys: &mut [(usize, usize); LEVELS],
    ) -> Step {
        let found = self.key()?;
        if open.depth <= DEPTH {
            keys[open.depth] = (found.start, found.end);
        }
        Ok(())
    }

    fn key(&mut self) -> Step<Range<usize>> {
        if self.peek() != b'"' {
            return self.fail("expected a member name in quotes");
        }
        let start = self.at;
        self.string()?;
        let end = self.at;
        self.space();
        if self.peek() != b':' {
            return self.fail("expected ':'");
        }
        self.at += 1;
        Ok(start..end)
    }

    fn string(&mut self) -> Step {
        self.at += 1;
        loop {
            self.at = find_special(self.text, self.at);
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return self.fail("control character in a string"),
                None => return self.fail("string without an end"),
            }
        }
    }

    fn escape(&mut self) -> Step {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => match unicode_escape(self.text, self.at) {
                Some((_, length)) => {
                    self.at += length;
                    Ok(())
                }
                None => self.fail("\\u escape that is not a character"),
            },
            _ => self.fail("unknown escape"),
        }
    }

    fn number(&mut self) -> Step {
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        match self.peek() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return self.fail("expected a digit"),
        }
        let mut plain = self.at - start < 300;
        if self.peek() == b'.' {
            self.at += 1;
            self.digits_at_least_one()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits_at_least_one()?;
            plain = false;
        }
        // Only these spellings can exceed a double, which could never be written out again.
        if !plain && super::number(&self.text[start..self.at]).is_none() {
            self.at = start;
            return self.fail("number out of range");
        }
        Ok(())
    }

    fn digits_at_least_one(&mut self) -> Step {
        if !self.peek().is_ascii_digit() {
            return self.fail("expected a digit");
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
    }

    fn literal(&mut self, word: &[u8]) -> Step {
        if !self.text[self.at..].starts_with(word) {
            return self.fail("expected a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn space(&mut self) {
        self.at = skip_space(self.text, self.at);
    }

    /// The next byte; 0, which is nowhere allowed outside of strings, at the end.
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    #[cold]
    fn fail<T>(&mut self, what: &'static str) -> Step<T> {
        self.what = if self.at == self.text.len() { "it ends too early" } else { what };
        Err(Stop)
    }
}

/// The containers that are open: how many, and one bit for each that is an object.
struct Open {
    objects: u128,
    depth: usize,
}

impl Open {
    fn push(&mut self, object: bool) {
        self.objects = self.objects << 1 | u128::from(object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.objects >>= 1;
        self.depth -= 1;
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

/// The next quote, backslash or control character at or after `at`, or the end.
#[inline]
pub(super) fn find_special(text: &[u8], mut at: usize) -> usize {
    while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let found = special_in(block);
        if found < block.len() {
            return at + found;
        }
        at += block.len();
    }
    while text.get(at).is_some_and(|&byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
        at += 1;
    }
    at
}

/// Bytes that are compared at once.
#[cfg(target_arch = "x86_64")]
const BLOCK_BYTES: usize = 16;
#[cfg(not(target_arch = "x86_64"))]
const BLOCK_BYTES: usize = 8;

/// The place of the first quote, backslash or control character of a block, or its length.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "the instructions of a processor, which every one of this kind has")]
fn special_in(block: &[u8; BLOCK_BYTES]) -> usize {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8,
    };
    let word = u128::from_le_bytes(*block);
    // SAFETY: these work on values alone, and every processor of this kind has them.
    let special = unsafe {
        let bytes = _mm_set_epi64x((word >> 64) as i64, word as i64);
        let equal = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(equal(b'"'), equal(b'\\')), control))
    };
    // One bit a byte; the one behind them stands for the end.
    (special as u32 | 1 << BLOCK_BYTES).trailing_zeros() as usize
}

/// The place of the first quote, backslash or control character of a block, or its length.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn special_in(block: &[u8; BLOCK_BYTES]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    // A byte is flagged where the subtraction borrows into its top bit.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let word = u64::from_le_bytes(*block);
    let quote = zero(word ^ (ONES * u64::from(b'"')));
    let backslash = zero(word ^ (ONES * u64::from(b'\\')));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let hits = (quote | backslash | control) & (ONES * 0x80);
    hits.trailing_zeros() as usize / 8
}

/// The character of a `\u` escape (or pair of them) at `at`, and the length of its spelling.
pub(super) fn unicode_escape(text: &[u8], at: usize) -> Option<(char, usize)> {
    let first = hex4(text, at + 2)?;
    if !(0xD800..0xDC00).contains(&first) {
        // `from_u32` refuses the trailing surrogate that stands alone.
        return Some((char::from_u32(first)?, 6));
    }
    if text.get(at + 6..at + 8)? != b"\\u" {
        return None;
    }
    let second = hex4(text, at + 8)?;
    if !(0xDC00..0xE000).contains(&second) {
        return None;
    }
    let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    Some((char::from_u32(code)?, 12))
}

fn hex4(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 4)?;
    digits.iter().try_fold(0, |sum, &digit| Some(sum << 4 | char::from(digit).to_digit(16)?))
}

/// Past the whitespace at `at`.
#[inline]
pub(super) fn skip_space(text: &[u8], mut at: usize) -> usize {
    // Mostly there is none, and one comparison tells.
    if text.get(at).is_some_and(|&byte| byte > b' ') {
        return at;
    }
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Past the value at `at` of text that was checked; somewhere in the text if it was not.
pub(super) fn skip_value(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => skip_string(text, at),
        Some(b'{' | b'[') => skip_container(text, at),
        _ => {
            let ends =
                |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
            let rest = text.get(at..).unwrap_or_default();
            at + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

fn skip_string(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    loop {
        at = find_special(text, at);
        match text.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return text.len(),
        }
    }
}

fn skip_container(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = text.get(at) {
        if byte == b'"' {
            at = skip_string(text, at);
            continue;
        }
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return at,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_plain_text_is_found_wherever_it_stands() {
        let plain: Vec<u8> = (0x20..=0xFF).filter(|byte| !b"\"\\".contains(byte)).collect();
        for length in 0..70 {
            let text: Vec<u8> =
                plain.iter().copied().cycle().skip(length * 7).take(length).collect();
            for from in 0..=length {
                assert_eq!(find_special(&text, from), length);
                for at in from..length {
                    for special in [b'"', b'\\', 0, 0x0A, 0x1F] {
                        let mut text = text.clone();
                        text[at] = special;
                        // What comes behind it does not count.
                        text[length - 1] = if at < length - 1 { b'"' } else { special };
                        assert_eq!(find_special(&text, from), at, "{text:?} from {from}");
                    }
                }
            }
        }
        assert_eq!(find_special(b"abc", 7), 7);
    }
}
