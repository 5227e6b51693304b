//! The pieces of a query text, each with its place.

use std::{iter::Peekable, str::CharIndices};

use model::{Error, Result};

/// A piece of the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A keyword or a name; which of them depends on where it stands.
    Word(String),
    /// `@name`, with the `@`.
    Parameter(String),
    /// A text in quotes, without them and unescaped.
    Text(String),
    /// A number without sign.
    Number(f64),
    /// Any other character.
    Sign(char),
}

/// A piece and where it starts, counted in characters from 1.
pub(crate) type Placed = (Token, usize);

/// Cuts a text into its pieces.
pub(crate) fn tokens(text: &str) -> Result<Vec<Placed>> {
    let mut found = Vec::new();
    let mut scanner = Scanner { text, rest: text.char_indices().peekable(), place: 0 };
    while let Some((start, c)) = scanner.next() {
        let place = scanner.place;
        let token = match c {
            c if c.is_whitespace() => continue,
            '\'' | '"' => Token::Text(scanner.quoted(c)?),
            '0'..='9' => Token::Number(scanner.number(start)?),
            '@' => Token::Parameter(scanner.word(start)),
            c if is_word(c) => Token::Word(scanner.word(start)),
            sign => Token::Sign(sign),
        };
        found.push((token, place));
    }
    Ok(found)
}

struct Scanner<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    /// Characters taken so far, which is also the place of the last one.
    place: usize,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<(usize, char)> {
        let next = self.rest.next()?;
        self.place += 1;
        Some(next)
    }

    /// Takes characters as long as they fit; the text from `start` up to the first that does not.
    fn take_while(&mut self, start: usize, fits: impl Fn(char) -> bool) -> &str {
        while self.rest.peek().is_some_and(|&(_, c)| fits(c)) {
            self.next();
        }
        let end = self.rest.peek().map_or(self.text.len(), |&(at, _)| at);
        &self.text[start..end]
    }

    fn word(&mut self, start: usize) -> String {
        self.take_while(start, is_word).to_owned()
    }

    fn number(&mut self, start: usize) -> Result<f64> {
        let place = self.place;
        self.take_while(start, |c| c.is_ascii_digit() || c == '.');
        if self.rest.peek().is_some_and(|&(_, c)| matches!(c, 'e' | 'E')) {
            self.next();
            if self.rest.peek().is_some_and(|&(_, c)| matches!(c, '+' | '-')) {
                self.next();
            }
        }
        // Letters too, so that `12abc` is one wrong number and not a number and a name.
        let text = self.take_while(start, is_word);
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
        number.ok_or_else(|| {
            Error::bad_request(format!("syntax error: '{text}' at position {place} is no number"))
        })
    }

    fn quoted(&mut self, quote: char) -> Result<String> {
        let place = self.place;
        let open =
            || Error::bad_request(format!("syntax error: the quote at position {place} is open"));
        let mut text = String::new();
        loop {
            match self.next().ok_or_else(open)?.1 {
                c if c == quote => return Ok(text),
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
        }
    }

    /// The character that an escape stands for, after its backslash.
    fn escape(&mut self) -> Result<char> {
        let place = self.place;
        let wrong =
            || Error::bad_request(format!("syntax error: no escape is known at position {place}"));
        match self.next().ok_or_else(wrong)?.1 {
            c @ ('\'' | '"' | '\\' | '/') => Ok(c),
            'b' => Ok('\u{8}'),
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'u' => self.unicode().ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }

    /// A character written as one `\uXXXX`, or as a pair of them.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first);
        }
        if self.next()?.1 != '\\' || self.next()?.1 != 'u' {
            return None;
        }
        let second = self.hex4().filter(|low| (0xDC00..0xE000).contains(low))?;
        char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    }

    fn hex4(&mut self) -> Option<u32> {
        let mut value = 0;
        for _ in 0..4 {
            value = value * 16 + self.next()?.1.to_digit(16)?;
        }
        Some(value)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
