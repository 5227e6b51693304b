//! The syntax tree: what a text says, before anything is looked up.
//!
//! Chains of `AND`, `OR` and `??` are flat, so that thousands of alternatives do not make a deep
//! tree. Two trees are equal whatever their places in the text.

/// A stretch of the text, in characters from 0; the end is not part of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// The first character.
    pub start: usize,
    /// The first character after it.
    pub end: usize,
}

/// Places do not make expressions different.
impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Span {
    /// From the start of this one to the end of the other.
    pub fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }
}

/// A name and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A whole query or subquery.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// `DISTINCT`, with its place.
    pub distinct: Option<Span>,
    /// `TOP n`
    pub top: Option<Count>,
    /// What a row becomes.
    pub output: Output,
    /// `FROM` and its `JOIN`s, in order; empty where there is no `FROM`.
    pub from: Vec<FromItem>,
    /// `WHERE`
    pub filter: Option<Expr>,
    /// `GROUP BY`
    pub group_by: Vec<Expr>,
    /// `ORDER BY`
    pub order_by: Option<OrderBy>,
    /// `OFFSET n LIMIT m`
    pub offset_limit: Option<(Count, Count)>,
    /// Where it stands.
    pub span: Span,
}

/// A count: written, or given as a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// The number or the parameter.
    pub kind: CountKind,
    /// Where it stands.
    pub span: Span,
}

/// Where a count comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum CountKind {
    /// Written out.
    Literal(u64),
    /// `@name`
    Parameter(String),
}

/// What `SELECT` makes of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// `*`
    Star(Span),
    /// `VALUE e`
    Value(Box<Expr>),
    /// `e AS a, …`
    List(Vec<SelectItem>),
}

/// One item of the select list.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectItem {
    /// What is selected.
    pub expr: Expr,
    /// What it is called.
    pub alias: Option<Name>,
}

/// One source of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct FromItem {
    /// Whether it goes through the elements (`x IN …`).
    pub each: bool,
    /// What it reads.
    pub collection: Collection,
    /// The name given to it.
    pub alias: Option<Name>,
    /// Where it stands.
    pub span: Span,
}

/// What a source of rows reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Collection {
    /// `name.path[0]["x"]`
    Path(Name, Vec<Step>),
    /// `(SELECT …)`
    Query(Box<Query>),
    /// A call, such as `OBJECTTOARRAY(c.m)`.
    Expr(Box<Expr>),
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// `.name` or `["name"]`
    Member(String),
    /// `[n]`
    Element(u64),
}

/// `ORDER BY`
#[derive(Debug, Clone, PartialEq)]
pub struct OrderBy {
    /// Whether it is `ORDER BY RANK`.
    pub rank: bool,
    /// The keys.
    pub keys: Vec<OrderKey>,
    /// Where it stands.
    pub span: Span,
}

/// One key of `ORDER BY`.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderKey {
    /// What is compared.
    pub expr: Expr,
    /// `DESC`
    pub descending: bool,
    /// Whether `ASC` or `DESC` was written.
    pub said: bool,
}

/// An expression and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
    /// How many levels it has below it.
    pub height: u16,
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// `@name`
    Parameter(String),
    /// An alias.
    Name(String),
    /// `e.name` or `e["name"]`
    Member(Box<Expr>, String),
    /// `e[i]`, where `i` is not a text.
    Index(Box<Expr>, Box<Expr>),
    /// `- e`, `+ e`, `~ e`, `NOT e`
    Unary(UnaryOp, Box<Expr>),
    /// `a op b`
    Binary(BinaryOp, Box<(Expr, Expr)>),
    /// `a AND b AND …`
    And(Vec<Expr>),
    /// `a OR b OR …`
    Or(Vec<Expr>),
    /// `a ?? b ?? …`
    Coalesce(Vec<Expr>),
    /// `c ? a : b`
    Conditional(Box<(Expr, Expr, Expr)>),
    /// `e [NOT] IN (…)`
    In(Box<Expr>, Vec<Expr>, bool),
    /// `e [NOT] BETWEEN a AND b`
    Between(Box<(Expr, Expr, Expr)>, bool),
    /// `e [NOT] LIKE p [ESCAPE c]`
    Like(Box<(Expr, Expr)>, Option<char>, bool),
    /// `[a, …]`
    Array(Vec<Expr>),
    /// `{a: e, …}`
    Object(Vec<(String, Expr)>),
    /// `F(a, …)`
    Call(Name, Vec<Expr>),
    /// `udf.f(a, …)`
    Udf(Name, Vec<Expr>),
    /// A query as an expression.
    Subquery(SubqueryKind, Box<Query>),
}

/// Constants.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `undefined`
    Undefined,
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it was spelled.
    Number(String),
    /// A text.
    String(String),
}

/// What a query means where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubqueryKind {
    /// `(SELECT …)`: the one row.
    Scalar,
    /// `EXISTS (…)`
    Exists,
    /// `ARRAY (…)`
    Array,
    /// `ALL (…)`: no row fails the filter.
    All,
    /// `FIRST (…)`
    First,
    /// `LAST (…)`
    Last,
}

/// Operators of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Minus,
    /// `+`
    Plus,
    /// `~`
    BitNot,
    /// `NOT`
    Not,
}

/// Operators of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    /// `=`
    Equal,
    /// `!=`, `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `>>>`
    ShiftRightZero,
    /// `||`
    Concat,
}

impl ExprKind {
    /// The expressions directly below, those of subqueries left out.
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Parameter(_) | Self::Name(_) | Self::Subquery(..) => vec![],
            Self::Member(e, _) | Self::Unary(_, e) => vec![e],
            Self::Index(a, b) => vec![a, b],
            Self::Binary(_, pair) | Self::Like(pair, ..) => vec![&pair.0, &pair.1],
            Self::Conditional(three) | Self::Between(three, _) => {
                vec![&three.0, &three.1, &three.2]
            }
            Self::In(e, list, _) => std::iter::once(&**e).chain(list).collect(),
            Self::Object(members) => members.iter().map(|(_, e)| e).collect(),
            Self::And(list)
            | Self::Or(list)
            | Self::Coalesce(list)
            | Self::Array(list)
            | Self::Call(_, list)
            | Self::Udf(_, list) => list.iter().collect(),
        }
    }
}

impl Expr {
    /// An expression over what is below it.
    pub fn new(kind: ExprKind, span: Span) -> Self {
        let below = kind.children().iter().map(|e| e.height).max().unwrap_or(0);
        let below = match &kind {
            ExprKind::Subquery(_, query) => below.max(query.height()),
            _ => below,
        };
        Self { kind, span, height: below.saturating_add(1) }
    }
}

impl Query {
    /// How many levels of expressions it has.
    pub fn height(&self) -> u16 {
        let output: Vec<&Expr> = match &self.output {
            Output::Star(_) => vec![],
            Output::Value(e) => vec![e],
            Output::List(items) => items.iter().map(|item| &item.expr).collect(),
        };
        let from = self.from.iter().map(|item| match &item.collection {
            Collection::Path(..) => 0,
            Collection::Query(query) => query.height(),
            Collection::Expr(e) => e.height,
        });
        let order = self.order_by.iter().flat_map(|order| &order.keys).map(|key| &key.expr);
        let all = output.into_iter().chain(&self.filter).chain(&self.group_by).chain(order);
        all.map(|e| e.height).chain(from).max().unwrap_or(0).saturating_add(1)
    }
}
