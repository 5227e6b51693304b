//! One pass over a raw value, from the outside in, without a tree.
//!
//! The walker decides at every container whether to go in or past it, so each byte of a text is
//! looked at once however deep it is nested. On text that was not checked it ends early.

use super::{Kind, kind, scan};

/// A place in checked text: before a value.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Before a raw value.
    pub fn new(raw: &'a [u8]) -> Self {
        Self { text: raw, at: 0 }
    }

    /// The kind of the value ahead.
    pub fn kind(&self) -> Kind {
        kind(self.text.get(self.at..).unwrap_or_default())
    }

    /// Passes the value ahead, and returns it raw.
    pub fn take(&mut self) -> &'a [u8] {
        let from = self.at.min(self.text.len());
        self.at = scan::skip_value(self.text, from).min(self.text.len());
        &self.text[from..self.at]
    }

    /// Goes into the container ahead.
    pub fn enter(&mut self) {
        self.at += 1;
    }

    /// Inside of an object: the raw name of the next member, with the cursor before its value;
    /// none at the object's end, with the cursor behind it.
    pub fn member(&mut self) -> Option<&'a [u8]> {
        if !self.entry(b'}') {
            return None;
        }
        let name = self.take();
        self.at = scan::skip_space(self.text, self.at) + 1;
        self.at = scan::skip_space(self.text, self.at);
        Some(name)
    }

    /// Inside of an array: whether there is a next element, with the cursor before it, or else
    /// behind the array.
    pub fn element(&mut self) -> bool {
        self.entry(b']')
    }

    fn entry(&mut self, end: u8) -> bool {
        self.at = scan::skip_space(self.text, self.at);
        if self.text.get(self.at) == Some(&b',') {
            self.at = scan::skip_space(self.text, self.at + 1);
        }
        match self.text.get(self.at) {
            Some(&byte) if byte == end => {
                self.at += 1;
                false
            }
            Some(_) => true,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every scalar with the names and element marks on the way to it.
    fn walk(cursor: &mut Cursor<'_>, path: &str, out: &mut Vec<String>) {
        match cursor.kind() {
            Kind::Object => {
                cursor.enter();
                while let Some(name) = cursor.member() {
                    let name = String::from_utf8_lossy(name).into_owned();
                    walk(cursor, &format!("{path}/{name}"), out);
                }
            }
            Kind::Array => {
                cursor.enter();
                while cursor.element() {
                    walk(cursor, &format!("{path}/[]"), out);
                }
            }
            _ => out.push(format!("{path}={}", String::from_utf8_lossy(cursor.take()))),
        }
    }

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let mut out = Vec::new();
        walk(&mut Cursor::new(text.as_bytes()), "", &mut out);
        assert_eq!(out, expect, "{text}");
    }

    #[test]
    fn every_value_is_met_once() {
        check("{}", &[]);
        check("[ ]", &["/[]="][..0]);
        check(
            r#"{"a" : 1 , "b":{"c":[true,{"d":null}],"e":[]} ,"f":"x\"]"}"#,
            &[r#"/"a"=1"#, r#"/"b"/"c"/[]=true"#, r#"/"b"/"c"/[]/"d"=null"#, r#"/"f"="x\"]""#],
        );
    }

    #[test]
    fn text_that_was_not_checked_ends_somewhere() {
        let text = r#"{"a":[1,{"b":"c"}],"d":tru"#;
        for length in 0..text.len() {
            let mut out = Vec::new();
            walk(&mut Cursor::new(&text.as_bytes()[..length]), "", &mut out);
        }
    }
}
