//! From text to [`Select`]: one pass over the pieces, without recursion.

use model::{Error, Result};
use serde_json::Value;

use super::token::{Placed, Token, tokens};
use super::{Condition, Select};
use crate::limits::TEXT_BYTES;

/// Words that end a name where an alias could stand.
const KEYWORDS: &[&str] = &[
    "SELECT", "FROM", "WHERE", "AND", "OR", "NOT", "IN", "AS", "JOIN", "ORDER", "GROUP", "BY",
    "OFFSET", "LIMIT", "TOP", "DISTINCT", "VALUE", "BETWEEN", "LIKE", "EXISTS",
];

/// Reads a whole query.
pub(crate) fn select(text: &str, parameters: &[(String, Value)]) -> Result<Select> {
    if text.len() > TEXT_BYTES {
        return Err(Error::bad_request(format!(
            "the query has {} bytes, more than the {TEXT_BYTES} allowed",
            text.len()
        )));
    }
    let mut reader = Reader { pieces: tokens(text)?, at: 0, parameters };
    reader.keyword("SELECT")?;
    reader.sign('*')?;
    reader.keyword("FROM")?;
    let alias = reader.alias()?;
    let conditions = reader.conditions(&alias)?;
    reader.end()?;
    Ok(Select { conditions })
}

struct Reader<'a> {
    pieces: Vec<Placed>,
    at: usize,
    parameters: &'a [(String, Value)],
}

impl Reader<'_> {
    /// The name by which the rest of the query calls an item.
    fn alias(&mut self) -> Result<String> {
        let name = self.name("a name after FROM")?;
        if self.take_keyword("AS") {
            return self.name("an alias after AS");
        }
        match self.peek() {
            Some(Token::Word(word)) if !is_keyword(word) => self.name("an alias"),
            _ => Ok(name),
        }
    }

    fn conditions(&mut self, alias: &str) -> Result<Vec<Condition>> {
        let mut conditions = Vec::new();
        if !self.take_keyword("WHERE") {
            return Ok(conditions);
        }
        loop {
            conditions.push(self.condition(alias)?);
            if !self.take_keyword("AND") {
                return Ok(conditions);
            }
        }
    }

    fn condition(&mut self, alias: &str) -> Result<Condition> {
        match self.peek() {
            Some(Token::Word(word)) if word == alias => self.at += 1,
            _ => return Err(self.unsupported(&format!("a condition such as {alias}.id = 'a'"))),
        }
        let path = self.path()?;
        self.sign('=')?;
        Ok(Condition { path, value: self.value()? })
    }

    fn path(&mut self) -> Result<Vec<String>> {
        let mut path = Vec::new();
        loop {
            if self.take_sign('.') {
                path.push(self.member()?);
            } else if self.take_sign('[') {
                path.push(self.quoted_member()?);
                self.sign(']')?;
            } else if path.is_empty() {
                return Err(self.unsupported("a property such as .name"));
            } else {
                return Ok(path);
            }
        }
    }

    /// A name after a dot, where keywords mean nothing.
    fn member(&mut self) -> Result<String> {
        match self.peek().cloned() {
            Some(Token::Word(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unsupported("a property name")),
        }
    }

    fn quoted_member(&mut self) -> Result<String> {
        match self.peek().cloned() {
            Some(Token::Text(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unsupported("a property name in quotes")),
        }
    }

    fn value(&mut self) -> Result<Value> {
        let negative = self.take_sign('-');
        let value = match self.peek().cloned() {
            Some(Token::Number(number)) => {
                Some(number_value(if negative { -number } else { number }))
            }
            _ if negative => None,
            Some(Token::Text(text)) => Some(Value::String(text)),
            Some(Token::Parameter(name)) => Some(self.parameter(&name)?),
            Some(Token::Word(word)) => constant(&word),
            _ => None,
        };
        let value = value.ok_or_else(|| {
            self.unsupported("a string, a number, true, false, null or @parameter")
        })?;
        self.at += 1;
        Ok(value)
    }

    fn parameter(&self, name: &str) -> Result<Value> {
        let found = self.parameters.iter().find(|(given, _)| given == name);
        match found.map(|(_, value)| value) {
            None => Err(Error::bad_request(format!("parameter {name} has no value: send one"))),
            Some(Value::Array(_) | Value::Object(_)) => Err(Error::bad_request(format!(
                "this server does not support arrays and objects in comparisons yet: \
                 parameter {name} is one"
            ))),
            Some(scalar) => Ok(scalar.clone()),
        }
    }

    /// One semicolon may close the query.
    fn end(&mut self) -> Result<()> {
        self.take_sign(';');
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unsupported("the end of the query")),
        }
    }

    fn name(&mut self, expected: &str) -> Result<String> {
        match self.peek().cloned() {
            Some(Token::Word(name)) if !is_keyword(&name) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unsupported(expected)),
        }
    }

    fn keyword(&mut self, keyword: &str) -> Result<()> {
        if self.take_keyword(keyword) { Ok(()) } else { Err(self.unsupported(keyword)) }
    }

    fn sign(&mut self, sign: char) -> Result<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unsupported(&sign.to_string())) }
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        self.take(|token| matches!(token, Token::Word(w) if w.eq_ignore_ascii_case(keyword)))
    }

    fn take_sign(&mut self, sign: char) -> bool {
        self.take(|token| *token == Token::Sign(sign))
    }

    fn take(&mut self, fits: impl Fn(&Token) -> bool) -> bool {
        let taken = self.peek().is_some_and(fits);
        self.at += usize::from(taken);
        taken
    }

    fn peek(&self) -> Option<&Token> {
        self.pieces.get(self.at).map(|(token, _)| token)
    }

    fn unsupported(&self, expected: &str) -> Error {
        let found = match self.pieces.get(self.at) {
            Some((token, place)) => format!("{} at position {place}", shown(token)),
            None => "the end of the query".to_owned(),
        };
        Error::bad_request(format!(
            "this server does not support this query yet: expected {expected}, found {found}. \
             Supported is SELECT * FROM c WHERE c.path = value AND …"
        ))
    }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

fn constant(word: &str) -> Option<Value> {
    match word.to_ascii_lowercase().as_str() {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        "null" => Some(Value::Null),
        _ => None,
    }
}

/// Numbers are doubles in this language; the scanner lets only finite ones through.
fn number_value(number: f64) -> Value {
    serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A piece as a message shows it, cut so that a long text does not come back whole.
fn shown(token: &Token) -> String {
    let text = match token {
        Token::Word(text) | Token::Parameter(text) => text.clone(),
        Token::Text(_) => return "a text".to_owned(),
        Token::Number(number) => number.to_string(),
        Token::Sign(sign) => sign.to_string(),
    };
    format!("'{}'", text.chars().take(40).collect::<String>())
}
