//! Syntax trees back to text: what rewritten queries and refusals show.
//!
//! Operators come in parentheses, so the text means the same whatever binds tighter.

use std::fmt::{self, Display, Formatter};

use crate::ast::{
    BinaryOp, Collection, Count, CountKind, Expr, ExprKind, FromItem, Literal, Output, Query,
    SelectItem, Step, SubqueryKind, UnaryOp,
};

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT ")?;
        if self.distinct.is_some() {
            f.write_str("DISTINCT ")?;
        }
        if let Some(top) = &self.top {
            write!(f, "TOP {top} ")?;
        }
        write!(f, "{}", self.output)?;
        for (at, item) in self.from.iter().enumerate() {
            write!(f, " {} {item}", if at == 0 { "FROM" } else { "JOIN" })?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        if !self.group_by.is_empty() {
            f.write_str(" GROUP BY ")?;
            list(f, &self.group_by)?;
        }
        if let Some(order) = &self.order_by {
            f.write_str(if order.rank { " ORDER BY RANK " } else { " ORDER BY " })?;
            for (at, key) in order.keys.iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                let direction = match (key.said, key.descending) {
                    (false, _) => "",
                    (true, false) => " ASC",
                    (true, true) => " DESC",
                };
                write!(f, "{comma}{}{direction}", key.expr)?;
            }
        }
        if let Some((offset, limit)) = &self.offset_limit {
            write!(f, " OFFSET {offset} LIMIT {limit}")?;
        }
        Ok(())
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            CountKind::Literal(count) => write!(f, "{count}"),
            CountKind::Parameter(name) => f.write_str(name),
        }
    }
}

impl Display for Output {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Star(_) => f.write_str("*"),
            Self::Value(expr) => write!(f, "VALUE {expr}"),
            Self::List(items) => list(f, items),
        }
    }
}

impl Display for SelectItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.expr)?;
        self.alias.as_ref().map_or(Ok(()), |alias| write!(f, " AS {}", alias.text))
    }
}

impl Display for FromItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.alias {
            Some(alias) if self.each => write!(f, "{} IN {}", alias.text, self.collection),
            Some(alias) => write!(f, "{} AS {}", self.collection, alias.text),
            None => write!(f, "{}", self.collection),
        }
    }
}

impl Display for Collection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(name, steps) => {
                f.write_str(&name.text)?;
                steps.iter().try_for_each(|step| write!(f, "{step}"))
            }
            Self::Query(query) => write!(f, "({query})"),
            Self::Expr(expr) => write!(f, "{expr}"),
        }
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) => member(f, name),
            Self::Element(at) => write!(f, "[{at}]"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Literal(literal) => write!(f, "{literal}"),
            ExprKind::Parameter(name) | ExprKind::Name(name) => f.write_str(name),
            ExprKind::Member(owner, name) => {
                match owner.kind {
                    // Its dot would be the number's own.
                    ExprKind::Literal(Literal::Number(_)) => write!(f, "({owner})")?,
                    _ => write!(f, "{owner}")?,
                }
                member(f, name)
            }
            ExprKind::Index(owner, index) => write!(f, "{owner}[{index}]"),
            ExprKind::Unary(UnaryOp::Not, e) => write!(f, "(NOT {e})"),
            ExprKind::Unary(UnaryOp::Minus, e) => write!(f, "(- {e})"),
            ExprKind::Unary(UnaryOp::Plus, e) => write!(f, "(+ {e})"),
            ExprKind::Unary(UnaryOp::BitNot, e) => write!(f, "(~ {e})"),
            ExprKind::Binary(operator, pair) => {
                write!(f, "({} {} {})", pair.0, operator.sign(), pair.1)
            }
            ExprKind::And(all) => chain(f, all, "AND"),
            ExprKind::Or(all) => chain(f, all, "OR"),
            ExprKind::Coalesce(all) => chain(f, all, "??"),
            ExprKind::Conditional(e) => write!(f, "({} ? {} : {})", e.0, e.1, e.2),
            ExprKind::In(e, all, negated) => {
                write!(f, "({e} {}IN (", not(*negated))?;
                list(f, all)?;
                f.write_str("))")
            }
            ExprKind::Between(e, negated) => {
                write!(f, "({} {}BETWEEN {} AND {})", e.0, not(*negated), e.1, e.2)
            }
            ExprKind::Like(e, escape, negated) => {
                write!(f, "({} {}LIKE {}", e.0, not(*negated), e.1)?;
                if let Some(escape) = escape {
                    f.write_str(" ESCAPE ")?;
                    quoted(f, &escape.to_string())?;
                }
                f.write_str(")")
            }
            ExprKind::Array(all) => {
                f.write_str("[")?;
                list(f, all)?;
                f.write_str("]")
            }
            ExprKind::Object(members) => object(f, members),
            ExprKind::Call(name, arguments) => call(f, "", &name.text, arguments),
            ExprKind::Udf(name, arguments) => call(f, "udf.", &name.text, arguments),
            ExprKind::Subquery(kind, query) => write!(f, "{}({query})", kind.word()),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined => f.write_str("undefined"),
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(text) => f.write_str(text),
            Self::String(text) => quoted(f, text),
        }
    }
}

impl BinaryOp {
    /// How it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::ShiftRightZero => ">>>",
            Self::Concat => "||",
        }
    }
}

impl SubqueryKind {
    fn word(self) -> &'static str {
        match self {
            Self::Scalar => "",
            Self::Exists => "EXISTS",
            Self::Array => "ARRAY",
            Self::All => "ALL",
            Self::First => "FIRST",
            Self::Last => "LAST",
        }
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn list(f: &mut Formatter<'_>, all: &[impl Display]) -> fmt::Result {
    for (at, one) in all.iter().enumerate() {
        write!(f, "{}{one}", if at == 0 { "" } else { ", " })?;
    }
    Ok(())
}

fn chain(f: &mut Formatter<'_>, all: &[Expr], word: &str) -> fmt::Result {
    f.write_str("(")?;
    for (at, one) in all.iter().enumerate() {
        if at > 0 {
            write!(f, " {word} ")?;
        }
        write!(f, "{one}")?;
    }
    f.write_str(")")
}

fn call(f: &mut Formatter<'_>, prefix: &str, name: &str, arguments: &[Expr]) -> fmt::Result {
    write!(f, "{prefix}{name}(")?;
    list(f, arguments)?;
    f.write_str(")")
}

fn object(f: &mut Formatter<'_>, members: &[(String, Expr)]) -> fmt::Result {
    f.write_str("{")?;
    for (at, (name, value)) in members.iter().enumerate() {
        f.write_str(if at == 0 { "" } else { ", " })?;
        quoted(f, name)?;
        write!(f, ": {value}")?;
    }
    f.write_str("}")
}

fn member(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    if crate::parse::is_plain_name(name) {
        return write!(f, ".{name}");
    }
    f.write_str("[")?;
    quoted(f, name)?;
    f.write_str("]")
}

fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    let mut out = Vec::new();
    model::json::escape_into(&mut out, text);
    f.write_str(&String::from_utf8_lossy(&out))
}
