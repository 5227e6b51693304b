//! From text to syntax tree: one function per production of the grammar.
//!
//! Recursive descent with one token of lookahead beyond the current one. What nests is counted,
//! and chains of operators have a height, so no text can exhaust the stack here or later.

use model::Result;

use crate::ast::{Count, CountKind, Expr, ExprKind, Name, Query, Span};
use crate::error::{Problem, refusal, too_much};
use crate::lexer::{Lexer, Placed, Token};
use crate::limits;

mod expression;
mod primary;
mod query;

#[cfg(test)]
mod tests;

/// Reads a whole query.
pub fn parse(text: &str) -> Result<Query> {
    if text.len() > limits::TEXT_BYTES {
        return Err(too_much("bytes of text", limits::TEXT_BYTES));
    }
    Parser::new(text)
        .and_then(|mut parser| parser.program())
        .map_err(|problem| refusal(&[*problem]))
}

/// Words that are no names.
const RESERVED: &[&str] = &[
    "AND",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "DESC",
    "DISTINCT",
    "ESCAPE",
    "EXISTS",
    "FALSE",
    "FROM",
    "GROUP",
    "IN",
    "JOIN",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "OR",
    "ORDER",
    "SELECT",
    "TOP",
    "TRUE",
    "UDF",
    "UNDEFINED",
    "VALUE",
    "WHERE",
];

/// Problems are rare and large; results are many and on the stack.
type Parsed<T> = std::result::Result<T, Box<Problem>>;

struct Parser<'t> {
    lexer: Lexer<'t>,
    current: Placed<'t>,
    next: Placed<'t>,
    /// Where the last token taken ends.
    end: Span,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parsed<Self> {
        let mut lexer = Lexer::new(text);
        let current = read(&mut lexer);
        let next = following(&mut lexer, &current);
        let end = current.span;
        Ok(Self { lexer, current, next, end, depth: 0 })
    }

    /// Takes the current token.
    fn take(&mut self) -> Parsed<Placed<'t>> {
        if matches!(self.current.token, Token::Bad(_)) {
            return self.unexpected();
        }
        let after = following(&mut self.lexer, &self.next);
        let next = std::mem::replace(&mut self.next, after);
        let taken = std::mem::replace(&mut self.current, next);
        self.end = taken.span;
        Ok(taken)
    }

    /// From a place to the end of what was taken last.
    fn since(&self, start: Span) -> Span {
        start.to(self.end)
    }

    /// The refusal of the current token.
    fn unexpected<T>(&self) -> Parsed<T> {
        Err(match &self.current.token {
            Token::Bad(problem) => problem.clone(),
            Token::End => Box::new(Problem::end(self.current.span.start)),
            _ => Box::new(Problem::near(self.current.shown, self.current.span)),
        })
    }

    fn at_sign(&self, sign: &str) -> bool {
        is_sign(&self.current.token, sign)
    }

    fn at_word(&self, word: &str) -> bool {
        is_word(&self.current.token, word)
    }

    fn take_sign(&mut self, sign: &str) -> Parsed<bool> {
        let there = self.at_sign(sign);
        if there {
            self.take()?;
        }
        Ok(there)
    }

    fn take_word(&mut self, word: &str) -> Parsed<bool> {
        let there = self.at_word(word);
        if there {
            self.take()?;
        }
        Ok(there)
    }

    fn expect_sign(&mut self, sign: &str) -> Parsed<()> {
        if self.take_sign(sign)? { Ok(()) } else { self.unexpected() }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.take_word(word)? { Ok(()) } else { self.unexpected() }
    }

    /// A name that is no reserved word.
    fn name(&mut self) -> Parsed<Name> {
        match self.current.token {
            Token::Word(word) if !is_reserved(word) => {
                let span = self.take()?.span;
                Ok(Name { text: word.to_owned(), span })
            }
            _ => self.unexpected(),
        }
    }

    fn at_name(&self) -> bool {
        matches!(self.current.token, Token::Word(word) if !is_reserved(word))
    }

    fn at_query(&self) -> bool {
        self.at_sign("(") && is_word(&self.next.token, "SELECT")
    }

    /// An unsigned integer or a parameter.
    fn count(&mut self) -> Parsed<Count> {
        let span = self.current.span;
        let kind = match &self.current.token {
            Token::Parameter(name) if name.len() > 1 => CountKind::Parameter((*name).to_owned()),
            Token::Number(text) if text.bytes().all(|b| b.is_ascii_digit()) => {
                // Beyond 64 bits it is as far beyond the limit as it can be.
                CountKind::Literal(text.parse().unwrap_or(u64::MAX))
            }
            _ => return self.unexpected(),
        };
        self.take()?;
        Ok(Count { kind, span })
    }

    /// One level deeper.
    fn enter(&mut self) -> Parsed<()> {
        if self.depth == limits::NESTING {
            return Err(too_deep(self.current.span));
        }
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// An expression whose last token was just taken.
    fn expr(&self, kind: ExprKind, start: Span) -> Parsed<Expr> {
        let expr = Expr::new(kind, self.since(start));
        if usize::from(expr.height) > limits::TREE_HEIGHT {
            return Err(too_deep(expr.span));
        }
        Ok(expr)
    }

    /// A list of at least one, separated by commas.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut list = vec![one(self)?];
        while self.take_sign(",")? {
            list.push(one(self)?);
        }
        Ok(list)
    }
}

fn too_deep(span: Span) -> Box<Problem> {
    let message = format!(
        "The query is nested too deeply: at most {} levels of brackets and {} of operators.",
        limits::NESTING,
        limits::TREE_HEIGHT
    );
    Box::new(Problem::new("SC3001", message, span))
}

fn following<'t>(lexer: &mut Lexer<'t>, before: &Placed<'t>) -> Placed<'t> {
    match before.token {
        Token::End | Token::Bad(_) => before.clone(),
        _ => read(lexer),
    }
}

/// A token that cannot be read is no trouble before its turn has come.
fn read<'t>(lexer: &mut Lexer<'t>) -> Placed<'t> {
    lexer.next().unwrap_or_else(|problem| {
        let span = problem.span.unwrap_or_default();
        Placed { token: Token::Bad(Box::new(problem)), span, shown: "" }
    })
}

fn is_sign(token: &Token<'_>, sign: &str) -> bool {
    matches!(token, Token::Sign(found) if *found == sign)
}

fn is_word(token: &Token<'_>, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.eq_ignore_ascii_case(word))
}

fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// Whether a name needs no quotes and brackets after its owner.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !is_reserved(name)
}
