//! The tokens of a text, each with its place, made one at a time.

use crate::ast::Span;
use crate::error::Problem;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token<'t> {
    /// A keyword or a name; which of them depends on where it stands.
    Word(&'t str),
    /// `@name`, with the `@`.
    Parameter(&'t str),
    /// A number without sign, as it is spelled.
    Number(&'t str),
    /// A text in quotes, without them and unescaped.
    Text(String),
    /// An operator or bracket.
    Sign(&'static str),
    /// What is no token, and why.
    Bad(Box<Problem>),
    /// Nothing more.
    End,
}

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed<'t> {
    pub token: Token<'t>,
    pub span: Span,
    /// As it was written.
    pub shown: &'t str,
}

/// Longest first, so that `>>>` is not `>>` and `>`.
const SIGNS: &[&str] = &[
    ">>>", "<<", ">>", "<=", ">=", "<>", "!=", "||", "??", "+", "-", "*", "/", "%", "~", "&", "|",
    "^", "=", "<", ">", "?", ":", ".", ",", "(", ")", "[", "]", "{", "}",
];

/// Cuts a text into tokens.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    /// The next byte.
    at: usize,
    /// The next character.
    place: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0, place: 0 }
    }

    /// The next token; [`Token::End`] for ever at the end.
    pub(crate) fn next(&mut self) -> Result<Placed<'t>, Problem> {
        self.skip_space();
        let (start, place) = (self.at, self.place);
        let token = match self.peek() {
            None => Token::End,
            Some('\'' | '"') => Token::Text(self.quoted()?),
            Some('0'..='9') => self.number()?,
            Some('.') if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                self.number()?
            }
            Some('@') => {
                self.advance(1);
                self.take_while(is_word);
                Token::Parameter(&self.text[start..self.at])
            }
            Some(c) if is_word(c) => {
                self.take_while(is_word);
                Token::Word(&self.text[start..self.at])
            }
            Some(c) => self.sign(c)?,
        };
        let span = Span { start: place, end: self.place };
        Ok(Placed { token, span, shown: &self.text[start..self.at] })
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Passes this many bytes, all of them ASCII.
    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.place += bytes;
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.place += 1;
        Some(c)
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&fits) {
            self.take();
        }
    }

    /// Passes whitespace and comments to the end of the line.
    fn skip_space(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            if !self.rest().starts_with("--") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn sign(&mut self, c: char) -> Result<Token<'t>, Problem> {
        let rest = self.rest();
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.advance(sign.len());
            return Ok(Token::Sign(sign));
        }
        let span = Span { start: self.place, end: self.place + 1 };
        Err(Problem::new("SC1010", format!("Syntax error, invalid token '{c}'."), span))
    }

    /// Digits with fraction and exponent, or hex digits after `0x`.
    fn number(&mut self) -> Result<Token<'t>, Problem> {
        let (start, place) = (self.at, self.place);
        let digits = |c: char| c.is_ascii_digit();
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.advance(2);
            self.take_while(|c| c.is_ascii_hexdigit());
        } else {
            self.take_while(digits);
            if self.peek() == Some('.') {
                self.advance(1);
                self.take_while(digits);
            }
            if matches!(self.peek(), Some('e' | 'E')) {
                self.advance(1);
                if matches!(self.peek(), Some('+' | '-')) {
                    self.advance(1);
                }
                self.take_while(digits);
            }
        }
        // Letters too, so that `12abc` is one wrong number and not a number and a name.
        self.take_while(is_word);
        let text = &self.text[start..self.at];
        if is_number(text) {
            return Ok(Token::Number(text));
        }
        let shown: String = text.chars().take(100).collect();
        let message = format!("Syntax error, invalid numeric value token '{shown}'.");
        Err(Problem::new("SC1011", message, Span { start: place, end: self.place }))
    }

    fn quoted(&mut self) -> Result<String, Problem> {
        let (start, place) = (self.at, self.place);
        let quote = self.take();
        let mut text = String::new();
        loop {
            let c = match self.take() {
                Some(c) if Some(c) == quote => return Ok(text),
                Some('\\') => self.escape(),
                Some(c) if c < ' ' => None,
                other => other,
            };
            let Some(c) = c else {
                let shown: String = self.text[start..self.at].chars().take(100).collect();
                let message = format!("Syntax error, invalid string literal token '{shown}'.");
                return Err(Problem::new(
                    "SC1012",
                    message,
                    Span { start: place, end: self.place },
                ));
            };
            text.push(c);
        }
    }

    /// The character that an escape stands for, after its backslash.
    fn escape(&mut self) -> Option<char> {
        match self.take()? {
            c @ ('\'' | '"' | '\\' | '/') => Some(c),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'u' => self.unicode(),
            _ => None,
        }
    }

    /// A character written as one `\uXXXX`, or as a pair of them.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first);
        }
        if self.take()? != '\\' || self.take()? != 'u' {
            return None;
        }
        let second = self.hex4().filter(|low| (0xDC00..0xE000).contains(low))?;
        char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    }

    fn hex4(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |sum, _| Some(sum * 16 + self.take()?.to_digit(16)?))
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_number(text: &str) -> bool {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).is_ok(),
        None => text.parse::<f64>().is_ok_and(f64::is_finite),
    }
}
