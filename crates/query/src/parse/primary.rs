//! What operators stand between: constants, names, calls, literals, brackets, subqueries.

use super::{Parsed, Parser, is_reserved, is_sign};
use crate::ast::{Expr, ExprKind, Literal, Name, SubqueryKind};
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        let start = self.current.span;
        let kind = match self.current.token.clone() {
            Token::Number(text) => self.literal(Literal::Number(text.to_owned()))?,
            Token::Text(text) => self.literal(Literal::String(text))?,
            Token::Parameter(name) if name.len() > 1 => {
                self.take()?;
                ExprKind::Parameter(name.to_owned())
            }
            Token::Sign("[") => self.array()?,
            Token::Sign("{") => self.object()?,
            Token::Sign("(") if self.at_query() => self.subquery(SubqueryKind::Scalar)?,
            Token::Sign("(") => {
                self.take()?;
                let expr = self.expression()?;
                self.expect_sign(")")?;
                // Brackets belong to it: a refusal shows them too.
                return Ok(Expr { span: self.since(start), ..expr });
            }
            Token::Word(word) => self.word(word)?,
            _ => return self.unexpected(),
        };
        self.expr(kind, start)
    }

    fn literal(&mut self, literal: Literal) -> Parsed<ExprKind> {
        self.take()?;
        Ok(ExprKind::Literal(literal))
    }

    fn subquery(&mut self, kind: SubqueryKind) -> Parsed<ExprKind> {
        let (query, _) = self.bracketed_query()?;
        Ok(ExprKind::Subquery(kind, Box::new(query)))
    }

    fn array(&mut self) -> Parsed<ExprKind> {
        self.take()?;
        let elements = if self.at_sign("]") { Vec::new() } else { self.list(Self::expression)? };
        self.expect_sign("]")?;
        Ok(ExprKind::Array(elements))
    }

    fn object(&mut self) -> Parsed<ExprKind> {
        self.take()?;
        let members = if self.at_sign("}") { Vec::new() } else { self.list(Self::property)? };
        self.expect_sign("}")?;
        Ok(ExprKind::Object(members))
    }

    /// `prop = (string | ident) ":" expr`
    fn property(&mut self) -> Parsed<(String, Expr)> {
        let name = match &self.current.token {
            Token::Text(name) => {
                let name = name.clone();
                self.take()?;
                name
            }
            _ => self.name()?.text,
        };
        self.expect_sign(":")?;
        Ok((name, self.expression()?))
    }

    /// A constant, a subquery with a word before it, a call, or a name.
    fn word(&mut self, word: &str) -> Parsed<ExprKind> {
        let called = is_sign(&self.next.token, "(");
        let kind = match word.to_ascii_uppercase().as_str() {
            "TRUE" => return self.literal(Literal::Bool(true)),
            "FALSE" => return self.literal(Literal::Bool(false)),
            "NULL" => return self.literal(Literal::Null),
            "UNDEFINED" => return self.literal(Literal::Undefined),
            "UDF" if is_sign(&self.next.token, ".") => return self.udf(),
            "EXISTS" => Some(SubqueryKind::Exists),
            "ARRAY" => Some(SubqueryKind::Array),
            "ALL" if called => Some(SubqueryKind::All),
            "FIRST" if called => Some(SubqueryKind::First),
            "LAST" if called => Some(SubqueryKind::Last),
            _ => None,
        };
        if let Some(kind) = kind {
            self.take()?;
            return self.subquery(kind);
        }
        if is_reserved(word) {
            return self.unexpected();
        }
        let name = self.name()?;
        if !called {
            return Ok(ExprKind::Name(name.text));
        }
        let arguments = self.arguments()?;
        Ok(ExprKind::Call(name, arguments))
    }

    fn udf(&mut self) -> Parsed<ExprKind> {
        self.take()?;
        self.take()?;
        let name: Name = self.name()?;
        let arguments = self.arguments()?;
        Ok(ExprKind::Udf(name, arguments))
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.expect_sign("(")?;
        let arguments = if self.at_sign(")") { Vec::new() } else { self.list(Self::expression)? };
        self.expect_sign(")")?;
        Ok(arguments)
    }
}
