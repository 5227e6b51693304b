//! Every function and every clause has at least three text cases, one of them with wrong types,
//! with something undefined, or refused.
//!
//! What a case is about is read off its syntax tree. No item has a property called `missing`.

extern crate astrarium_query as query;

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use query::Statement;
use query::ast::{
    BinaryOp, Collection, Expr, ExprKind, Literal, Output, Query, Step, SubqueryKind, UnaryOp,
};
use query::function::{FAMILIES, Function, find};
use query::value::Value;
use query::world::Settings;
use support::memory::Memory;

const CASES_MIN: usize = 3;

/// A query of a case file, and what it expects.
struct Case {
    query: Query,
    refused: bool,
}

/// How many cases there are of something, and how many of them go wrong.
#[derive(Default)]
struct Count {
    all: usize,
    wrong: usize,
}

impl Count {
    fn add(&mut self, wrong: bool) {
        self.all += 1;
        self.wrong += usize::from(wrong);
    }
}

#[test]
fn every_function_has_cases() {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for case in calls().iter().chain(&queries()) {
        let mut calls = Vec::new();
        each_expr(&case.query, &mut |expr| {
            if let ExprKind::Call(name, arguments) = &expr.kind {
                calls.extend(find(&name.text).map(|function| (function, arguments.clone())));
            }
        });
        let wrong: BTreeSet<&str> = calls
            .iter()
            .filter(|(function, arguments)| case.refused || is_wrong(function, arguments))
            .map(|(function, _)| function.name)
            .collect();
        let named: BTreeSet<&str> = calls.iter().map(|(function, _)| function.name).collect();
        for name in named {
            counts.entry(name).or_default().add(wrong.contains(name));
        }
    }
    let functions = FAMILIES.iter().flat_map(|(_, table)| table.iter());
    enough(functions.map(|function| function.name), &counts);
}

#[test]
fn every_clause_has_cases() {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for case in queries() {
        each_expr(&case.query, &mut |expr| {
            // One query may try an operator on many values: each of them is a case.
            let wrong = case.refused || gives_nothing(expr);
            operator(expr).iter().for_each(|name| counts.entry(name).or_default().add(wrong));
        });
        let mut found = BTreeSet::new();
        each_query(&case.query, &mut |query| found.extend(clauses(query)));
        for name in found {
            counts.entry(name).or_default().add(case.refused || has_undefined(&case.query));
        }
    }
    enough(CLAUSES.iter().copied(), &counts);
}

#[track_caller]
fn enough<'n>(names: impl Iterator<Item = &'n str>, counts: &BTreeMap<&str, Count>) {
    let none = Count::default();
    let lacking: Vec<String> = names
        .map(|name| (name, counts.get(name).unwrap_or(&none)))
        .filter(|(_, count)| count.all < CASES_MIN || count.wrong == 0)
        .map(|(name, count)| format!("{name}: {} cases, {} go wrong", count.all, count.wrong))
        .collect();
    assert!(lacking.is_empty(), "too few cases of {}\n{}", lacking.len(), lacking.join("\n"));
}

fn files(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let read = |entry: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(entry.expect("an entry").path()).expect("cases")
    };
    fs::read_dir(folder).expect("cases").map(read).collect()
}

/// The lines of `functions/*.cases`.
fn calls() -> Vec<Case> {
    let case = |line: &str| {
        let (call, expected) = line.split_once('→')?;
        let query = query::parse(&format!("SELECT VALUE {}", call.trim())).ok()?;
        Some(Case { query, refused: expected.trim().starts_with('!') })
    };
    let lines = |text: &String| text.lines().filter_map(case).collect::<Vec<_>>();
    files("functions").iter().flat_map(lines).collect()
}

/// The queries of `cases/*.case`.
fn queries() -> Vec<Case> {
    let mut cases = Vec::new();
    for text in files("cases") {
        for block in text.split("\n\n") {
            let Some((head, expected)) = block.split_once("\n----") else { continue };
            let Some(at) = head.find("query") else { continue };
            let Some((_, text)) = head[at..].split_once('\n') else { continue };
            if let Ok(query) = query::parse(text) {
                cases.push(Case { query, refused: expected.trim().starts_with("error") });
            }
        }
    }
    assert!(cases.len() > 100, "only {} cases are read", cases.len());
    cases
}

/// Whether any argument is undefined or of another type than the function takes.
fn is_wrong(function: &Function, arguments: &[Expr]) -> bool {
    arguments.iter().enumerate().any(|(at, argument)| {
        is_undefined(argument)
            || constant(argument).is_some_and(|json| {
                json.is_empty() || {
                    let tree = serde_json::from_str(&json).expect("JSON");
                    !function.param(at).accepts(&Value::from_tree(&tree))
                }
            })
    })
}

/// The value of an expression that is about no item, as JSON; empty where it is undefined.
fn constant(expr: &Expr) -> Option<String> {
    let text = format!("SELECT VALUE {expr}");
    let statement = Statement::new(&text, &[], &Settings::default()).ok()?;
    let nothing = Memory::new(&[], false, Vec::new());
    Some(support::rows(&statement, &nothing, 10).ok()?.concat())
}

/// Whether an expression is undefined, or is about something that is.
fn gives_nothing(expr: &Expr) -> bool {
    let mut undefined = expr.kind.children().into_iter().any(is_undefined);
    if let ExprKind::Subquery(_, query) = &expr.kind {
        undefined |= has_undefined(query);
    }
    undefined || constant(expr).is_some_and(|json| json.is_empty())
}

/// Whether anything of a query is undefined.
fn has_undefined(query: &Query) -> bool {
    let mut undefined = false;
    each_expr(query, &mut |expr| undefined |= is_undefined(expr));
    each_query(query, &mut |query| {
        undefined |= query.from.iter().any(|item| match &item.collection {
            Collection::Path(_, steps) => steps.contains(&Step::Member("missing".to_owned())),
            _ => false,
        });
    });
    undefined
}

fn is_undefined(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(literal) => *literal == Literal::Undefined,
        ExprKind::Member(_, name) => name == "missing",
        _ => false,
    }
}

/// The query and all below it.
fn each_query(query: &Query, see: &mut dyn FnMut(&Query)) {
    see(query);
    for item in &query.from {
        if let Collection::Query(inner) = &item.collection {
            each_query(inner, see);
        }
    }
    let mut below = Vec::new();
    each_own_expr(query, &mut |expr| {
        if let ExprKind::Subquery(_, inner) = &expr.kind {
            below.push(inner.clone());
        }
    });
    below.iter().for_each(|inner| each_query(inner, see));
}

/// All expressions of a query and of those below it.
fn each_expr(query: &Query, see: &mut dyn FnMut(&Expr)) {
    each_query(query, &mut |query| each_own_expr(query, see));
}

fn each_own_expr(query: &Query, see: &mut dyn FnMut(&Expr)) {
    let mut next: Vec<&Expr> = match &query.output {
        Output::Star(_) => Vec::new(),
        Output::Value(expr) => vec![expr],
        Output::List(items) => items.iter().map(|item| &item.expr).collect(),
    };
    next.extend(query.from.iter().filter_map(|item| match &item.collection {
        Collection::Expr(expr) => Some(&**expr),
        _ => None,
    }));
    next.extend(&query.filter);
    next.extend(&query.group_by);
    next.extend(query.order_by.iter().flat_map(|order| &order.keys).map(|key| &key.expr));
    while let Some(expr) = next.pop() {
        see(expr);
        next.extend(expr.kind.children());
    }
}

/// Everything that [`clauses`] and [`operator`] know.
const CLAUSES: &[&str] = &[
    "SELECT *",
    "SELECT VALUE",
    "SELECT list",
    "AS",
    "DISTINCT",
    "TOP",
    "FROM",
    "FROM path",
    "FROM IN",
    "FROM (subquery)",
    "JOIN",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "ORDER BY several",
    "ORDER BY DESC",
    "ORDER BY RANK",
    "OFFSET LIMIT",
    "@parameter",
    ".name",
    "[index]",
    "[array]",
    "{object}",
    "udf",
    "IN",
    "NOT IN",
    "BETWEEN",
    "NOT BETWEEN",
    "LIKE",
    "NOT LIKE",
    "ESCAPE",
    "AND",
    "OR",
    "NOT",
    "??",
    "? :",
    "(subquery)",
    "EXISTS",
    "ARRAY",
    "ALL",
    "FIRST",
    "LAST",
    "unary -",
    "unary +",
    "~",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    ">>>",
    "||",
];

fn clauses(query: &Query) -> Vec<&'static str> {
    let mut found = match &query.output {
        Output::Star(_) => vec!["SELECT *"],
        Output::Value(_) => vec!["SELECT VALUE"],
        Output::List(items) if items.iter().any(|item| item.alias.is_some()) => {
            vec!["SELECT list", "AS"]
        }
        Output::List(_) => vec!["SELECT list"],
    };
    for item in &query.from {
        found.push(match &item.collection {
            _ if item.each => "FROM IN",
            Collection::Path(_, steps) if steps.is_empty() => "FROM",
            Collection::Path(..) => "FROM path",
            Collection::Query(_) => "FROM (subquery)",
            Collection::Expr(_) => "FROM",
        });
    }
    let order = query.order_by.as_ref();
    let has = [
        (query.distinct.is_some(), "DISTINCT"),
        (query.top.is_some(), "TOP"),
        (query.from.len() > 1, "JOIN"),
        (query.filter.is_some(), "WHERE"),
        (!query.group_by.is_empty(), "GROUP BY"),
        (order.is_some_and(|order| !order.rank), "ORDER BY"),
        (order.is_some_and(|order| order.keys.len() > 1), "ORDER BY several"),
        (order.is_some_and(|order| order.keys.iter().any(|key| key.descending)), "ORDER BY DESC"),
        (order.is_some_and(|order| order.rank), "ORDER BY RANK"),
        (query.offset_limit.is_some(), "OFFSET LIMIT"),
    ];
    found.extend(has.into_iter().filter(|(has, _)| *has).map(|(_, name)| name));
    found
}

fn operator(expr: &Expr) -> Vec<&'static str> {
    let either = |not: bool, plain, negated| if not { negated } else { plain };
    vec![match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Name(_) | ExprKind::Call(..) => return Vec::new(),
        ExprKind::Parameter(_) => "@parameter",
        ExprKind::Member(..) => ".name",
        ExprKind::Index(..) => "[index]",
        ExprKind::Array(_) => "[array]",
        ExprKind::Object(_) => "{object}",
        ExprKind::Udf(..) => "udf",
        ExprKind::In(_, _, not) => either(*not, "IN", "NOT IN"),
        ExprKind::Between(_, not) => either(*not, "BETWEEN", "NOT BETWEEN"),
        ExprKind::Like(_, Some(_), _) => return vec!["LIKE", "ESCAPE"],
        ExprKind::Like(_, None, not) => either(*not, "LIKE", "NOT LIKE"),
        ExprKind::And(_) => "AND",
        ExprKind::Or(_) => "OR",
        ExprKind::Coalesce(_) => "??",
        ExprKind::Conditional(_) => "? :",
        ExprKind::Unary(UnaryOp::Minus, _) => "unary -",
        ExprKind::Unary(UnaryOp::Plus, _) => "unary +",
        ExprKind::Unary(UnaryOp::BitNot, _) => "~",
        ExprKind::Unary(UnaryOp::Not, _) => "NOT",
        ExprKind::Subquery(kind, _) => match kind {
            SubqueryKind::Scalar => "(subquery)",
            SubqueryKind::Exists => "EXISTS",
            SubqueryKind::Array => "ARRAY",
            SubqueryKind::All => "ALL",
            SubqueryKind::First => "FIRST",
            SubqueryKind::Last => "LAST",
        },
        ExprKind::Binary(operator, _) => match operator {
            BinaryOp::Equal => "=",
            BinaryOp::NotEqual => "!=",
            BinaryOp::Less => "<",
            BinaryOp::LessOrEqual => "<=",
            BinaryOp::Greater => ">",
            BinaryOp::GreaterOrEqual => ">=",
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Remainder => "%",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::ShiftLeft => "<<",
            BinaryOp::ShiftRight => ">>",
            BinaryOp::ShiftRightZero => ">>>",
            BinaryOp::Concat => "||",
        },
    }]
}
