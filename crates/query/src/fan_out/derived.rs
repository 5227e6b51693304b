//! Plans of queries over the rows of another query: `FROM (SELECT DISTINCT …)`, with groups or
//! aggregates of all items.
//!
//! A partition knows only the rows of its own items, and clients put together rows, not queries
//! over them. That is right where different partitions never have the same row, where rows are
//! kept as they are, and where they are only counted; anything else is refused.

use model::Result;
use model::partition_key::Definition;

use super::{Info, info};
use crate::ast::{Collection, Expr, ExprKind, FromItem, Output, Query};
use crate::bind::{aggregate_of, has_aggregate, names_of};
use crate::error::unserved;
use crate::function::Aggregate;
use crate::statement::Statement;

pub(super) fn info_of(statement: &Statement, inner: &Statement, key: &Definition) -> Result<Info> {
    let query = &statement.query;
    if query.order_by.is_none() && inner.derived.is_none() {
        if is_local(&inner.query, key) {
            return info(statement);
        }
        if let Some(info) = counted(statement, &inner.query) {
            return Ok(info);
        }
        if keeps_rows(query) && is_distinct(&inner.query) {
            return Ok(Info { distinct: "Unordered", ..info(statement)? });
        }
        if keeps_rows(query) && query.filter.is_none() && query.distinct.is_none() {
            let (top, offset_limit) = (statement.bound.top, statement.bound.offset_limit);
            return Ok(Info { top, offset_limit, ..info(inner)? });
        }
    }
    Err(unserved(
        "Queries over DISTINCT, GROUP BY or aggregates of all items in a subquery are planned for \
         several partitions only where their rows are kept or counted, or tell partition keys apart.",
    ))
}

/// Whether rows are different ones of items, and nothing more.
fn is_distinct(inner: &Query) -> bool {
    inner.distinct.is_some() && inner.group_by.is_empty() && !has_aggregate(&inner.output)
}

/// Whether no row comes from items of more than one partition key.
fn is_local(inner: &Query, key: &Definition) -> bool {
    let Some(item) = item_name(inner) else { return false };
    let every_key = |is_known: &dyn Fn(&Expr) -> bool| {
        key.paths.iter().all(|path| is_known(&property(item, &path.segments)))
    };
    let grouped = !inner.group_by.is_empty() || has_aggregate(&inner.output);
    let distinct = inner.distinct.is_some();
    (!grouped || every_key(&|path| inner.group_by.contains(path)))
        && (!distinct
            || every_key(&|path| match &inner.output {
                Output::Star(_) => false,
                Output::Value(expr) => **expr == *path,
                Output::List(items) => items.iter().any(|item| item.expr == *path),
            }))
}

/// What the items are called in a query that begins with them.
fn item_name(query: &Query) -> Option<&str> {
    let FromItem { each: false, collection: Collection::Path(name, steps), alias, .. } =
        query.from.first()?
    else {
        return None;
    };
    steps.is_empty().then(|| alias.as_ref().map_or(&*name.text, |alias| &alias.text))
}

fn property(item: &str, segments: &[String]) -> Expr {
    let item = Expr::new(ExprKind::Name(item.to_owned()), Default::default());
    segments.iter().fold(item, |owner, name| {
        Expr::new(ExprKind::Member(Box::new(owner), name.clone()), Default::default())
    })
}

/// Whether a query filters rows and gives them as they are.
fn keeps_rows(query: &Query) -> bool {
    let [FromItem { each: false, alias, .. }] = &query.from[..] else { return false };
    let same = match &query.output {
        Output::Star(_) => true,
        Output::Value(expr) => is_name(expr, alias.as_ref().map(|alias| &*alias.text)),
        Output::List(_) => false,
    };
    same && query.group_by.is_empty()
}

fn is_name(expr: &Expr, wanted: Option<&str>) -> bool {
    matches!(&expr.kind, ExprKind::Name(name) if Some(&**name) == wanted)
}

/// The plan of a query that counts different rows, or groups.
fn counted(statement: &Statement, inner: &Query) -> Option<Info> {
    let query = &statement.query;
    let [FromItem { each: false, alias: rows, .. }] = &query.from[..] else { return None };
    let name = match &query.output {
        Output::Value(expr) if counts_rows(expr, rows.as_ref().map(|rows| &*rows.text)) => {
            String::new()
        }
        Output::List(items) => match &items[..] {
            [item] if counts_rows(&item.expr, rows.as_ref().map(|rows| &*rows.text)) => {
                names_of(items).pop()?
            }
            _ => return None,
        },
        _ => return None,
    };
    let plain = query.group_by.is_empty() && query.distinct.is_none();
    let rewritten = match &query.filter {
        _ if !plain => return None,
        None if is_distinct(inner) => inner.to_string(),
        None => counted_groups(inner)?,
        Some(_) if is_distinct(inner) => {
            let mut kept = Query::clone(query);
            (kept.top, kept.offset_limit) = (None, None);
            let rows = ExprKind::Name(rows.as_ref()?.text.clone());
            kept.output = Output::Value(Box::new(Expr::new(rows, query.span)));
            kept.to_string()
        }
        Some(_) => return None,
    };
    Some(Info {
        distinct: "Unordered",
        top: statement.bound.top,
        offset_limit: statement.bound.offset_limit,
        has_select_value: matches!(query.output, Output::Value(_)),
        distinct_count: Some(name),
        rewritten,
        ..Info::default()
    })
}

/// The keys of groups as different rows, where every group is a row.
fn counted_groups(inner: &Query) -> Option<String> {
    if inner.group_by.is_empty() || inner.distinct.is_some() || !gives_objects(&inner.output) {
        return None;
    }
    let item = |key: &Expr| {
        let item = ExprKind::Object(vec![("item".to_owned(), key.clone())]);
        Expr::new(item, key.span)
    };
    let keys = ExprKind::Array(inner.group_by.iter().map(item).collect());
    let mut keyed = inner.clone();
    keyed.distinct = Some(inner.span);
    keyed.output = Output::Value(Box::new(Expr::new(keys, inner.span)));
    keyed.group_by = Vec::new();
    Some(keyed.to_string())
}

/// Whether an output is there, whatever is in it.
fn gives_objects(output: &Output) -> bool {
    match output {
        Output::Star(_) => false,
        Output::Value(expr) => matches!(expr.kind, ExprKind::Object(_) | ExprKind::Array(_)),
        Output::List(_) => true,
    }
}

/// Whether an expression is `COUNT` of a constant that is there, or of the rows themselves.
fn counts_rows(expr: &Expr, rows: Option<&str>) -> bool {
    let ExprKind::Call(_, arguments) = &expr.kind else { return false };
    let always = |argument: &Expr| match &argument.kind {
        ExprKind::Literal(literal) => *literal != crate::ast::Literal::Undefined,
        _ => is_name(argument, rows),
    };
    aggregate_of(expr) == Some(Aggregate::Count) && matches!(&arguments[..], [one] if always(one))
}
