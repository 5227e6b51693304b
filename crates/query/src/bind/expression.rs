//! Expressions.

use std::collections::HashSet;

use super::{Binder, fold};
use crate::ast::{Expr, ExprKind, Literal};
use crate::bound::{ITEM, LikePattern, List, Named, Node};
use crate::eval::like::Pattern;
use crate::value::{Number, Value, identity_into};

impl Binder<'_> {
    pub(super) fn expression(&mut self, expr: &Expr) -> Node {
        match self.grouped(expr) {
            Some(node) => node,
            None => fold::folded(self.plain(expr), self.settings),
        }
    }

    fn plain(&mut self, expr: &Expr) -> Node {
        match &expr.kind {
            ExprKind::Literal(literal) => Node::Constant(constant(literal)),
            ExprKind::Parameter(name) => Node::Constant(self.parameter(name, expr.span)),
            ExprKind::Name(name) => self.name(name, expr),
            ExprKind::Member(owner, name) => {
                let owner = self.expression(owner);
                self.member(owner, name)
            }
            ExprKind::Index(owner, index) => self.index(owner, index),
            ExprKind::Unary(operator, e) => Node::Unary(*operator, self.boxed(e)),
            ExprKind::Binary(operator, pair) => Node::Binary(
                *operator,
                Box::new((self.expression(&pair.0), self.expression(&pair.1))),
            ),
            ExprKind::And(all) => Node::And(self.flat(all, true)),
            ExprKind::Or(all) => Node::Or(self.flat(all, false)),
            ExprKind::Coalesce(all) => Node::Coalesce(self.all(all)),
            ExprKind::Conditional(e) => Node::Conditional(self.three(e)),
            ExprKind::In(e, all, negated) => {
                let needle = self.boxed(e);
                Node::In(needle, list(self.all(all)), *negated)
            }
            ExprKind::Between(e, negated) => Node::Between(self.three(e), *negated),
            ExprKind::Like(pair, escape, negated) => {
                let text = self.boxed(&pair.0);
                let pattern = self.expression(&pair.1);
                Node::Like(text, like(pattern, *escape), *negated)
            }
            ExprKind::Array(all) => Node::Array(self.all(all)),
            ExprKind::Object(members) => {
                let mut named = Named::default();
                for (name, e) in members {
                    named.put(name.clone(), self.expression(e));
                }
                Node::Object(named.finish())
            }
            ExprKind::Call(name, arguments) => self.call(expr, name, arguments),
            ExprKind::Udf(name, arguments) => self.udf(name, arguments, expr.span),
            ExprKind::Subquery(kind, query) => {
                Node::Subquery(*kind, Box::new(self.subquery(query)))
            }
        }
    }

    fn boxed(&mut self, expr: &Expr) -> Box<Node> {
        Box::new(self.expression(expr))
    }

    fn three(&mut self, three: &(Expr, Expr, Expr)) -> Box<(Node, Node, Node)> {
        let first = self.expression(&three.0);
        let second = self.expression(&three.1);
        Box::new((first, second, self.expression(&three.2)))
    }

    pub(super) fn all(&mut self, all: &[Expr]) -> Vec<Node> {
        all.iter().map(|expr| self.expression(expr)).collect()
    }

    /// A chain of `AND` or `OR`; chains of the same word in brackets become part of it.
    fn flat(&mut self, all: &[Expr], and: bool) -> Vec<Node> {
        let mut flat = Vec::with_capacity(all.len());
        for expr in all {
            match self.expression(expr) {
                Node::And(inner) if and => flat.extend(inner),
                Node::Or(inner) if !and => flat.extend(inner),
                node => flat.push(node),
            }
        }
        flat
    }

    /// A group key or aggregate in the output of a grouped query, or what may not be there.
    fn grouped(&mut self, expr: &Expr) -> Option<Node> {
        let groups = self.grouping.as_ref()?;
        if let Some((_, slot)) = groups.keys.iter().find(|(key, _)| key == expr) {
            return Some(Node::Slot(*slot));
        }
        let root = root_name(expr)?;
        let grouped = self.alias(root).is_some_and(|alias| alias.grouped);
        grouped.then(|| self.not_grouped(expr))
    }

    fn not_grouped(&mut self, expr: &Expr) -> Node {
        let message = format!(
            "Property reference '{expr}' is invalid in the select list because it is not \
             contained in either an aggregate function or the GROUP BY clause."
        );
        self.wrong("SC2102", message, expr.span)
    }

    fn name(&mut self, name: &str, expr: &Expr) -> Node {
        match self.alias(name) {
            Some(alias) if alias.grouped => self.not_grouped(expr),
            Some(alias) => Node::Slot(alias.slot),
            None if name.eq_ignore_ascii_case("nan") => Node::Constant(Value::number(f64::NAN)),
            None if name.eq_ignore_ascii_case("infinity") => {
                Node::Constant(Value::number(f64::INFINITY))
            }
            None => {
                let message = format!("Identifier '{name}' could not be resolved.");
                self.wrong("SC2001", message, expr.span)
            }
        }
    }

    /// A member; of the item it is a field or a computed property.
    pub(super) fn member(&mut self, owner: Node, name: &str) -> Node {
        if !matches!(owner, Node::Slot(ITEM)) {
            return Node::Member(Box::new(owner), name.to_owned());
        }
        if let Some(node) = self.computed(name) {
            return Node::Computed(name.to_owned(), Box::new(node));
        }
        Node::Field(self.fields.place(name))
    }

    fn computed(&mut self, name: &str) -> Option<Node> {
        if self.computing {
            return None;
        }
        let (_, text) = self.settings.computed.iter().find(|(known, _)| known == name)?;
        // Texts were checked when the container was made; one that is not sound computes nothing.
        let query = crate::parse::parse(text).ok()?;
        self.computing = true;
        let around = (self.grouping.take(), std::mem::take(&mut self.aliases));
        let (block, _) = self.root(&query);
        (self.grouping, self.aliases) = around;
        self.computing = false;
        match (block.output, block.from.is_empty()) {
            (crate::bound::Shape::Value(node), true) => Some(node),
            _ => Some(Node::Constant(Value::Undefined)),
        }
    }

    fn index(&mut self, owner: &Expr, index: &Expr) -> Node {
        let owner = self.expression(owner);
        match self.expression(index) {
            Node::Constant(Value::String(name)) => self.member(owner, &name),
            index => Node::Index(Box::new(owner), Box::new(index)),
        }
    }
}

/// The name at the beginning of a path.
fn root_name(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        ExprKind::Member(owner, _) | ExprKind::Index(owner, _) => root_name(owner),
        _ => None,
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Undefined => Value::Undefined,
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::String(text) => Value::text(text.as_str()),
        Literal::Number(text) => number(text),
    }
}

/// Integers stay exact; everything else is the nearest double.
fn number(text: &str) -> Value<'static> {
    if let Some(hex) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        let value = u64::from_str_radix(hex, 16).unwrap_or_default();
        return i64::try_from(value).map_or(Value::number(value as f64), Value::int);
    }
    match text.parse::<i64>() {
        Ok(value) => Value::int(value),
        // A spelling such as 1.0 or 1e2 is that of the query, not of a document.
        Err(_) => {
            text.parse().map_or(Value::Undefined, |value| Value::Number(Number::computed(value)))
        }
    }
}

fn list(nodes: Vec<Node>) -> List {
    let constants: Option<Vec<_>> = nodes.iter().map(|node| node.constant().cloned()).collect();
    let Some(constants) = constants else { return List::Nodes(nodes) };
    let identity = |value: &Value<'_>| {
        let mut out = Vec::new();
        identity_into(value, &mut out);
        out
    };
    let identities: HashSet<_> =
        constants.iter().filter(|value| value.is_defined()).map(identity).collect();
    List::Constants(constants, identities)
}

fn like(pattern: Node, escape: Option<char>) -> LikePattern {
    match pattern.constant().and_then(Value::as_str) {
        Some(text) => LikePattern::Fixed(Pattern::new(text, escape)),
        None => LikePattern::Computed(Box::new(pattern), escape),
    }
}
