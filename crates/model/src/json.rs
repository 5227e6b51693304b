//! JSON text, kept as the bytes that were sent.
//!
//! Items are stored as their senders spelled them, so the text is checked once, completely,
//! and from then on only cut into slices: a *raw value* is the slice of checked text that
//! spells it. Functions on raw values never fail on text that passed [`Document::parse`] or
//! [`check`], and never panic on any other.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::{Error, Result};

mod cursor;
mod scan;

pub use cursor::Cursor;

/// A checked JSON object and its members.
#[derive(Debug, Clone)]
pub struct Document<'a> {
    /// What was parsed, with the whitespace around the object; spans count from its start.
    sent: &'a [u8],
    text: &'a [u8],
    members: Vec<Member<'a>>,
}

/// A member of the top-level object.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// The name, without quotes and escapes.
    pub key: Cow<'a, str>,
    /// The raw value.
    pub value: &'a [u8],
    /// Where the member lies in the text, from the quote of its name to the end of its value.
    pub span: Range<usize>,
}

impl<'a> Document<'a> {
    /// Checks a text completely: UTF-8, the grammar, the depth, an object at the top.
    pub fn parse(text: &'a [u8]) -> Result<Self> {
        let whole = utf8(text)?;
        let mut members = Vec::with_capacity((text.len() / MEMBER_BYTES).clamp(4, 16));
        let span = scan::check(text, |key, value| members.push(member(whole, key, value)))
            .map_err(refusal)?;
        if !text[span.clone()].starts_with(b"{") {
            return Err(Error::bad_request(format!(
                "the body is not a JSON object: expected '{{' at byte {}",
                span.start
            )));
        }
        Ok(Self { sent: text, text: &text[span], members })
    }

    /// An object whose members are known: of text that was checked by [`check_list`].
    pub fn laid_out(text: &'a [u8], layout: &Layout) -> Result<Self> {
        let whole = utf8(text)?;
        let lies = |from: u32, to: u32| from as usize..to as usize;
        let mut members = Vec::with_capacity(layout.0.len());
        for [key, key_end, value, end] in &layout.0 {
            let (key, value) = (lies(*key, *key_end), lies(*value, *end));
            let quoted = |key: &str| matches!(key.as_bytes(), [b'"', .., b'"']);
            if whole.get(value.clone()).is_none() || !whole.get(key.clone()).is_some_and(quoted) {
                let what = "the members of an object do not lie in its text";
                return Err(Error::new(crate::Fault::Internal, what));
            }
            members.push(member(whole, key, value));
        }
        Ok(Self { sent: text, text, members })
    }

    /// The text of the object, without the whitespace around it.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The members in the order of the text.
    pub fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    /// The raw value of a member; of the last one where the name occurs more than once.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.members.iter().rev().find(|member| member.key == name).map(|member| member.value)
    }

    /// The raw value that a path of member names leads to.
    pub fn at_path(&self, path: &[impl AsRef<str>]) -> Option<&'a [u8]> {
        match path {
            [] => Some(self.text),
            [first, rest @ ..] => at_path(self.get(first.as_ref())?, rest),
        }
    }

    /// Whether the object has the name more than once.
    pub fn duplicate(&self, name: &str) -> bool {
        self.members.iter().filter(|member| member.key == name).nth(1).is_some()
    }

    /// The bytes of the text from one place to another, as given by [`Member::span`].
    pub(crate) fn slice(&self, span: Range<usize>) -> &'a [u8] {
        self.sent.get(span).unwrap_or_default()
    }
}

/// Checks any JSON value, as completely as [`Document::parse`]; returns it without the
/// whitespace around it.
pub fn check(text: &[u8]) -> Result<&[u8]> {
    utf8(text)?;
    let span = scan::check(text, |_, _| {}).map_err(refusal)?;
    Ok(&text[span])
}

/// Where the members of an object lie in its text: each key, with its quotes, and each value.
#[derive(Debug, Clone)]
pub struct Layout(Vec<[u32; 4]>);

/// An object of a checked list.
#[derive(Debug)]
pub struct Listed<'a> {
    /// Its members as they are spelled: name, value, and where the members of the value lie, should
    /// it be an object that has some.
    pub members: Vec<(&'a [u8], &'a [u8], Option<Layout>)>,
}

/// Checks a list as completely as [`check`] does, in one pass, and returns its first objects, up to
/// so many, with what is in them; whatever else it has is an object without members. None where the
/// text is no list.
pub fn check_list(text: &[u8], most: usize) -> Result<Option<Vec<Listed<'_>>>> {
    utf8(text)?;
    let (mut listed, mut members, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    let heard = |depth: usize, key: Option<Range<usize>>, value: Range<usize>| match (depth, key) {
        _ if listed.len() == most => {}
        (1, _) => listed.push(Listed { members: std::mem::take(&mut members) }),
        (2, Some(key)) => {
            let layout = if inner.is_empty() { None } else { laid_out(&inner, &value) };
            inner.clear();
            members.push((&text[key], &text[value], layout));
        }
        (3, Some(key)) => inner.push((key, value)),
        (2, None) => inner.clear(),
        _ => {}
    };
    let span = scan::check_deep::<3>(text, heard).map_err(refusal)?;
    Ok((kind(&text[span]) == Kind::Array).then_some(listed))
}

/// Members as they lie in the value that they are of.
fn laid_out(members: &[(Range<usize>, Range<usize>)], value: &Range<usize>) -> Option<Layout> {
    let at = |place: usize| u32::try_from(place.checked_sub(value.start)?).ok();
    let mut layout = Vec::with_capacity(members.len());
    for (key, value) in members {
        layout.push([at(key.start)?, at(key.end)?, at(value.start)?, at(value.end)?]);
    }
    Some(Layout(layout))
}

/// A small body as a tree. Last wins where a name occurs more than once.
pub fn object(text: &[u8]) -> Result<Map<String, Value>> {
    let document = Document::parse(text)?;
    let tree = |member: Member<'_>| {
        let value = serde_json::from_slice(member.value)
            .map_err(|error| Error::bad_request(format!("the body is not valid JSON: {error}")))?;
        Ok((member.key.into_owned(), value))
    };
    document.members.into_iter().map(tree).collect()
}

/// The kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number
    Number,
    /// A string
    String,
    /// An array
    Array,
    /// An object
    Object,
}

/// The kind of a raw value, which its first byte tells.
pub fn kind(raw: &[u8]) -> Kind {
    match raw.first() {
        Some(b'"') => Kind::String,
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'-' | b'0'..=b'9') => Kind::Number,
        _ => Kind::Null,
    }
}

/// The value of a raw number as the nearest double; none where that is not finite.
pub fn number(raw: &[u8]) -> Option<f64> {
    let digits = raw.strip_prefix(b"-").unwrap_or(raw);
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    let value: f64 = std::str::from_utf8(raw).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// The raw value that a path of member names leads to, below a raw value.
pub fn at_path<'a>(value: &'a [u8], path: &[impl AsRef<str>]) -> Option<&'a [u8]> {
    path.iter().try_fold(value, |value, name| {
        let name = name.as_ref();
        raw_members(value).filter(|(key, _)| key_is(key, name)).last().map(|(_, value)| value)
    })
}

/// The elements of a raw array; none where it is something else.
pub fn elements(raw: &[u8]) -> Elements<'_> {
    Elements::new(raw, b'[')
}

/// The members of a raw object; none where it is something else.
pub fn members(raw: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    raw_members(raw).filter_map(|(key, value)| Some((unescape(key)?, value)))
}

/// The members of a raw object with their names as they are spelled, quotes included.
pub fn raw_members(raw: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut walk = Elements::new(raw, b'{');
    std::iter::from_fn(move || {
        let key = walk.next()?;
        // A walk treats the colon as one more separator.
        Some((key, walk.next()?))
    })
}

/// Whether a name as it is spelled in a raw object is this one.
pub fn key_is(raw: &[u8], name: &str) -> bool {
    if raw.contains(&b'\\') {
        return unescape(raw).is_some_and(|key| key == name);
    }
    raw.len() == name.len() + 2 && &raw[1..raw.len() - 1] == name.as_bytes()
}

/// The text of a raw string, without quotes and escapes; none where it is something else.
pub fn unescape(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut at = scan::find_special(inner, 0);
    if at == inner.len() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    let mut out = String::with_capacity(inner.len());
    let mut copied = 0;
    while at < inner.len() {
        out.push_str(std::str::from_utf8(&inner[copied..at]).ok()?);
        let (character, length) = escaped(inner, at)?;
        out.push(character);
        copied = at + length;
        at = scan::find_special(inner, copied);
    }
    out.push_str(std::str::from_utf8(&inner[copied..]).ok()?);
    Some(Cow::Owned(out))
}

/// Writes a text as a JSON string, quotes included.
pub fn escape_into(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut copied = 0;
    loop {
        let at = scan::find_special(bytes, copied);
        out.extend_from_slice(&bytes[copied..at]);
        let Some(&byte) = bytes.get(at) else { break };
        escape_byte(out, byte);
        copied = at + 1;
    }
    out.push(b'"');
}

/// Writes a number as the service spells it: whole numbers without a fraction. Values that
/// JSON has no spelling for become `null`.
pub fn number_into(out: &mut Vec<u8>, value: f64) {
    // Up to here every whole double is exact and shorter without an exponent.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    let negative_zero = value == 0.0 && value.is_sign_negative();
    let spelled = if value.fract() == 0.0 && value.abs() < WHOLE && !negative_zero {
        (value as i64).to_string()
    } else {
        serde_json::Number::from_f64(value).map_or("null".into(), |number| number.to_string())
    };
    out.extend_from_slice(spelled.as_bytes());
}

/// About what a member takes, by which room for them is made.
const MEMBER_BYTES: usize = 24;

fn utf8(text: &[u8]) -> Result<&str> {
    std::str::from_utf8(text)
        .map_err(|error| refusal(scan::Fail { what: "it is not UTF-8", at: error.valid_up_to() }))
}

fn refusal(fail: scan::Fail) -> Error {
    Error::bad_request(format!("the body is not valid JSON: {} at byte {}", fail.what, fail.at))
}

fn member<'a>(text: &'a str, key: Range<usize>, value: Range<usize>) -> Member<'a> {
    let span = key.start..value.end;
    let raw = &text.as_bytes()[key.clone()];
    let key = if raw.contains(&b'\\') {
        unescape(raw).unwrap_or_default()
    } else {
        Cow::Borrowed(&text[key.start + 1..key.end - 1])
    };
    Member { key, value: &text.as_bytes()[value], span }
}

/// A walk over the raw values directly inside of a container.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Elements<'a> {
    fn new(raw: &'a [u8], bracket: u8) -> Self {
        let text = if raw.first() == Some(&bracket) { raw } else { &[] };
        Self { text, at: 1 }
    }

    fn next_span(&mut self) -> Option<Range<usize>> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t' | b',' | b':')) {
            self.at += 1;
        }
        let span = self.at..scan::skip_value(self.text, self.at);
        self.text.get(span.clone()).filter(|value| !value.is_empty())?;
        self.at = span.end;
        Some(span)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.next_span().map(|span| &self.text[span])
    }
}

/// Where the raw values directly inside of a raw array or object lie, from its start; in an
/// object, names and values by turns.
pub(crate) fn spans(raw: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut walk = Elements::new(
        raw,
        raw.first().copied().filter(|byte| matches!(byte, b'{' | b'[')).unwrap_or(b'{'),
    );
    std::iter::from_fn(move || walk.next_span())
}

fn escaped(text: &[u8], at: usize) -> Option<(char, usize)> {
    if text[at] != b'\\' {
        return None;
    }
    let character = match text.get(at + 1)? {
        b'u' => return scan::unicode_escape(text, at),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        &byte @ (b'"' | b'\\' | b'/') => char::from(byte),
        _ => return None,
    };
    Some((character, 2))
}

fn escape_byte(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => return out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests;
