//! JSON that keeps what the wire said: numbers as spelled, members in order, doubles and all.
//!
//! A general library would turn `1.10` into `1.1` and merge repeated members, and then no test
//! could see that the server did.

use std::fmt::{self, Write};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it was spelled.
    Number(String),
    /// A string, unescaped.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, its members in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one value that fills the whole text.
    pub fn parse(text: &str) -> Result<Json, String> {
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at == reader.bytes.len() {
            Ok(value)
        } else {
            Err(reader.wrong("text after the value"))
        }
    }

    /// The member of that name.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => {
                members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The value at a JSON pointer; indexes count from 0.
    pub fn pointer(&self, pointer: &str) -> Option<&Json> {
        pointer.split('/').skip(1).try_fold(self, |value, step| match value {
            Json::Array(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(&step.replace("~1", "/").replace("~0", "~")),
        })
    }

    /// The string, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    /// The elements, if it is an array.
    pub fn items(&self) -> Option<&[Json]> {
        if let Json::Array(items) = self { Some(items) } else { None }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(spelled) => f.write_str(spelled),
            Json::Text(text) => f.write_str(&quoted(text)),
            Json::Array(items) => {
                f.write_char('[')?;
                for (n, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if n == 0 { "" } else { "," })?;
                }
                f.write_char(']')
            }
            Json::Object(members) => {
                f.write_char('{')?;
                for (n, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{}:{value}", if n == 0 { "" } else { "," }, quoted(name))?;
                }
                f.write_char('}')
            }
        }
    }
}

/// The text as a JSON string, quotes included; only what must be escaped is.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Deeper than any server accepts, shallow enough for our own stack.
const DEPTH: usize = 1000;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH {
            return Err(self.wrong("too deep"));
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Json::Number(self.number())),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut members = Vec::new();
        self.at += 1;
        self.space();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err(self.wrong("expected a colon"));
            }
            members.push((name, self.value(depth + 1)?));
            self.space();
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.wrong("expected a comma or the end of the object"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, String> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return Err(self.wrong("expected a comma or the end of the array"));
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.take(b'"') {
            return Err(self.wrong("expected a string"));
        }
        let mut out = Vec::new();
        loop {
            match self.next() {
                Some(b'"') => return String::from_utf8(out).map_err(|_| self.wrong("not UTF-8")),
                Some(b'\\') => self.escape(&mut out)?,
                Some(byte) => out.push(byte),
                None => return Err(self.wrong("a string without end")),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let plain = match self.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'u') => return self.unicode(out),
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            _ => return Err(self.wrong("an unknown escape")),
        };
        out.push(plain);
        Ok(())
    }

    fn unicode(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let mut code = self.hex4()?;
        if (0xd800..0xdc00).contains(&code) && self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.hex4()?;
            code = 0x10000 + ((code - 0xd800) << 10) + low.wrapping_sub(0xdc00);
        }
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|d| std::str::from_utf8(d).ok());
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        self.at += 4;
        code.ok_or_else(|| self.wrong("expected four hexadecimal digits"))
    }

    fn number(&mut self) -> String {
        let start = self.at;
        while let Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E') = self.peek() {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned()
    }

    fn word(&mut self) -> Result<Json, String> {
        for (word, value) in
            [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if self.bytes[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.wrong("expected a value"))
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, what: &str) -> String {
        format!("{what} at byte {}", self.at.min(self.bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let printed = match Json::parse(text) {
            Ok(value) => value.to_string(),
            Err(error) => error,
        };
        assert_eq!(printed, expected);
    }

    #[test]
    fn numbers_keep_their_spelling() {
        check(
            "[1.10, -0.0, 1e+3, 123456789012345678901]",
            "[1.10,-0.0,1e+3,123456789012345678901]",
        );
    }

    #[test]
    fn members_keep_their_order_and_doubles() {
        check(r#"{ "b":1, "a":{}, "b":[] }"#, r#"{"b":1,"a":{},"b":[]}"#);
    }

    #[test]
    fn escapes_become_text_and_only_what_must_be_is_escaped_again() {
        check(r#""\u00e9\ud83d\ude00\/\n\"""#, "\"é😀/\\n\\\"\"");
    }

    #[test]
    fn wrong_text_is_refused() {
        check("{\"a\":1} x", "text after the value at byte 8");
        check("[1,]", "expected a value at byte 3");
        check("\"a", "a string without end at byte 2");
    }

    #[test]
    fn pointers_reach_members_and_elements() {
        let value = Json::parse(r#"{"a":[{"b/c":5}]}"#).expect("valid");
        assert_eq!(value.pointer("/a/0/b~1c"), Some(&Json::Number("5".into())));
        assert_eq!(value.pointer("/a/1"), None);
    }
}
