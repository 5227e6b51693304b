//! Expressions with operators.
//!
//! One function climbs all levels of binding, so that a level of brackets costs few stack frames.

use super::{Parsed, Parser, is_word};
use crate::ast::{BinaryOp, Expr, ExprKind, Literal, Span, UnaryOp};
use crate::error::Problem;
use crate::lexer::Token;

/// How tightly words and signs bind; operators of two operands follow in [`OPERATORS`].
const CONDITIONAL: u8 = 1;
const COALESCE: u8 = 2;
const OR: u8 = 3;
const AND: u8 = 4;
const NOT: u8 = 5;
const PREDICATE: u8 = 6;

/// Operators of two operands and how tightly they bind.
const OPERATORS: &[(&str, BinaryOp, u8)] = &[
    ("=", BinaryOp::Equal, 7),
    ("!=", BinaryOp::NotEqual, 7),
    ("<>", BinaryOp::NotEqual, 7),
    ("<", BinaryOp::Less, 8),
    ("<=", BinaryOp::LessOrEqual, 8),
    (">", BinaryOp::Greater, 8),
    (">=", BinaryOp::GreaterOrEqual, 8),
    ("|", BinaryOp::BitOr, 9),
    ("^", BinaryOp::BitXor, 10),
    ("&", BinaryOp::BitAnd, 11),
    ("<<", BinaryOp::ShiftLeft, 12),
    (">>", BinaryOp::ShiftRight, 12),
    (">>>", BinaryOp::ShiftRightZero, 12),
    ("||", BinaryOp::Concat, 13),
    ("+", BinaryOp::Add, 14),
    ("-", BinaryOp::Subtract, 14),
    ("*", BinaryOp::Multiply, 15),
    ("/", BinaryOp::Divide, 15),
    ("%", BinaryOp::Remainder, 15),
];

/// What stands between two operands.
#[derive(Clone, Copy)]
enum Infix {
    Conditional,
    Chain(u8),
    Predicate,
    Binary(BinaryOp, u8),
}

impl Parser<'_> {
    /// `expr = cond`
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.above(0)
    }

    /// An expression whose operators all bind tighter than a level.
    fn above(&mut self, level: u8) -> Parsed<Expr> {
        self.enter()?;
        let start = self.current.span;
        let mut left = if self.at_word("NOT") { self.not()? } else { self.unary()? };
        while let Some(infix) = self.infix(level) {
            left = match infix {
                Infix::Conditional => self.conditional(left, start)?,
                Infix::Chain(binds) => self.chain(left, binds, start)?,
                Infix::Predicate => self.predicate(left, start)?,
                Infix::Binary(operator, binds) => self.binary(left, operator, binds, start)?,
            };
        }
        self.leave();
        Ok(left)
    }

    /// The operator at the current token, if it binds tighter than a level.
    fn infix(&self, level: u8) -> Option<Infix> {
        let (infix, binds) = match self.current.token {
            Token::Sign("?") => (Infix::Conditional, CONDITIONAL),
            Token::Sign("??") => (Infix::Chain(COALESCE), COALESCE),
            Token::Sign(sign) => {
                let (_, operator, binds) = OPERATORS.iter().find(|(known, ..)| *known == sign)?;
                (Infix::Binary(*operator, *binds), *binds)
            }
            Token::Word(_) if self.at_word("OR") => (Infix::Chain(OR), OR),
            Token::Word(_) if self.at_word("AND") => (Infix::Chain(AND), AND),
            Token::Word(_) if self.at_predicate() => (Infix::Predicate, PREDICATE),
            _ => return None,
        };
        (binds > level).then_some(infix)
    }

    fn at_predicate(&self) -> bool {
        const WORDS: [&str; 3] = ["IN", "BETWEEN", "LIKE"];
        let token = if self.at_word("NOT") { &self.next.token } else { &self.current.token };
        WORDS.iter().any(|word| is_word(token, word))
    }

    /// `cond = coal [ "?" expr ":" expr ]`
    fn conditional(&mut self, condition: Expr, start: Span) -> Parsed<Expr> {
        self.take()?;
        let then = self.expression()?;
        self.expect_sign(":")?;
        let otherwise = self.expression()?;
        self.expr(ExprKind::Conditional(Box::new((condition, then, otherwise))), start)
    }

    /// `coal = or { "??" or }`, `or = and { OR and }`, `and = not { AND not }`
    fn chain(&mut self, first: Expr, binds: u8, start: Span) -> Parsed<Expr> {
        let mut all = vec![first];
        while let Some(Infix::Chain(next)) = self.infix(binds - 1)
            && next == binds
        {
            self.take()?;
            all.push(self.above(binds)?);
        }
        let kind = match binds {
            COALESCE => ExprKind::Coalesce(all),
            OR => ExprKind::Or(all),
            _ => ExprKind::And(all),
        };
        self.expr(kind, start)
    }

    /// `not = { NOT } pred`
    fn not(&mut self) -> Parsed<Expr> {
        let mut starts = Vec::new();
        while self.at_word("NOT") {
            starts.push(self.take()?.span);
        }
        let expr = self.above(NOT)?;
        starts.into_iter().rev().try_fold(expr, |expr, start| {
            self.expr(ExprKind::Unary(UnaryOp::Not, Box::new(expr)), start)
        })
    }

    /// `pred = bin [ [NOT] IN (…) | [NOT] BETWEEN bin AND bin | [NOT] LIKE bin [ESCAPE c] ]`
    fn predicate(&mut self, operand: Expr, start: Span) -> Parsed<Expr> {
        let negated = self.take_word("NOT")?;
        let kind = if self.take_word("IN")? {
            self.expect_sign("(")?;
            let list = self.list(Self::expression)?;
            self.expect_sign(")")?;
            ExprKind::In(Box::new(operand), list, negated)
        } else if self.take_word("BETWEEN")? {
            let low = self.above(PREDICATE)?;
            self.expect_word("AND")?;
            let high = self.above(PREDICATE)?;
            ExprKind::Between(Box::new((operand, low, high)), negated)
        } else {
            self.expect_word("LIKE")?;
            let pattern = self.above(PREDICATE)?;
            let escape = if self.take_word("ESCAPE")? { Some(self.escape()?) } else { None };
            ExprKind::Like(Box::new((operand, pattern)), escape, negated)
        };
        self.expr(kind, start)
    }

    /// The one character after `ESCAPE`.
    fn escape(&mut self) -> Parsed<char> {
        let Token::Text(text) = &self.current.token else { return self.unexpected() };
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => {
                self.take()?;
                Ok(c)
            }
            _ => Err(Box::new(Problem::new(
                "SC2070",
                "The ESCAPE clause requires a string of one character.",
                self.current.span,
            ))),
        }
    }

    fn binary(&mut self, left: Expr, operator: BinaryOp, binds: u8, start: Span) -> Parsed<Expr> {
        self.take()?;
        let right = self.above(binds)?;
        self.expr(ExprKind::Binary(operator, Box::new((left, right))), start)
    }

    /// `unary = ("-"|"+"|"~") unary | postfix`
    fn unary(&mut self) -> Parsed<Expr> {
        let mut operators: Vec<(UnaryOp, Span)> = Vec::new();
        loop {
            let operator = match self.current.token {
                Token::Sign("-") => UnaryOp::Minus,
                Token::Sign("+") => UnaryOp::Plus,
                Token::Sign("~") => UnaryOp::BitNot,
                _ => break,
            };
            operators.push((operator, self.take()?.span));
        }
        let expr = self.postfix()?;
        operators.into_iter().rev().try_fold(expr, |expr, (operator, start)| {
            self.expr(ExprKind::Unary(operator, Box::new(expr)), start)
        })
    }

    /// `postfix = prim { "." ident | "[" expr "]" }`
    fn postfix(&mut self) -> Parsed<Expr> {
        let start = self.current.span;
        let mut expr = self.primary()?;
        while self.at_sign(".") || self.at_sign("[") {
            expr = self.access(expr, start)?;
        }
        Ok(expr)
    }

    fn access(&mut self, owner: Expr, start: Span) -> Parsed<Expr> {
        let owner = Box::new(owner);
        let kind = if self.take_sign(".")? {
            ExprKind::Member(owner, self.name()?.text)
        } else {
            self.expect_sign("[")?;
            let index = self.expression()?;
            self.expect_sign("]")?;
            match index.kind {
                ExprKind::Literal(Literal::String(name)) => ExprKind::Member(owner, name),
                _ => ExprKind::Index(owner, Box::new(index)),
            }
        };
        self.expr(kind, start)
    }
}
