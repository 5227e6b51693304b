//! What partitions are asked instead of the query: the same rows, with what merging them needs.

use crate::ast::{Count, CountKind, Expr, ExprKind, Output, Query, SelectItem, Span};
use crate::bind::{aggregate_of, names_of};
use crate::function::Aggregate;
use crate::statement::Statement;

/// Where clients put the filter by which they go on.
pub(super) const PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";

/// A query being rewritten: its output as text, the rest as it was.
pub(super) struct Rewrite {
    query: Query,
    /// What follows `SELECT`, and the filter, once they differ from the query.
    output: Option<String>,
    filter: Option<String>,
}

impl Rewrite {
    pub(super) fn of(statement: &Statement) -> Self {
        let mut query = Query::clone(&statement.query);
        // Parameters of counts are known here and need not travel.
        if let (Some(top), Some(value)) = (&mut query.top, statement.bound.top) {
            top.kind = CountKind::Literal(value);
        }
        Self { query, output: None, filter: None }
    }

    /// Rows in order, each with its keys.
    pub(super) fn order(&mut self, query: &Query) {
        let keys = query.order_by.iter().flat_map(|order| &order.keys);
        let items: Vec<String> = keys.map(|key| format!("{{\"item\": {}}}", key.expr)).collect();
        let alias = root_alias(query);
        let payload = match &query.output {
            Output::Star(_) => alias.clone(),
            Output::Value(expr) => expr.to_string(),
            Output::List(list) => object(list, |item| item.expr.to_string()),
        };
        self.output = Some(format!(
            "{alias}._rid, [{}] AS orderByItems, {payload} AS payload",
            items.join(", ")
        ));
        // A value that is not there is no row.
        let defined = match &query.output {
            Output::Value(expr) if !matches!(expr.kind, ExprKind::Name(_)) => {
                Some(format!("IS_DEFINED({expr})"))
            }
            _ => None,
        };
        let filter = query.filter.as_ref().map(|filter| format!("({filter})"));
        let parts: Vec<String> = filter.into_iter().chain(defined).collect();
        self.filter = Some(match &parts[..] {
            [] => format!("({PLACEHOLDER})"),
            parts => format!("({} AND {PLACEHOLDER})", parts.join(" AND ")),
        });
        self.query.distinct = None;
    }

    /// Rows in groups, each with its keys and the parts of its aggregates.
    pub(super) fn group(&mut self, query: &Query, payload: String) {
        let keys: Vec<String> =
            query.group_by.iter().map(|expr| format!("{{\"item\": {expr}}}")).collect();
        self.output = Some(match (&keys[..], &query.output) {
            ([], Output::Value(_)) => format!("VALUE {payload}"),
            ([], _) => format!("{payload} AS payload"),
            (keys, _) => format!("[{}] AS groupByItems, {payload} AS payload", keys.join(", ")),
        });
        // Counts are of groups of all partitions.
        self.query.top = None;
        self.query.offset_limit = None;
        self.query.distinct = None;
    }

    /// The text; empty where it is the query as it was.
    pub(super) fn finish(mut self, offset_limit: Option<(u64, u64)>) -> String {
        if let (Some((offset, limit)), Some(_)) = (offset_limit, &self.query.offset_limit) {
            let count = |value| Count { kind: CountKind::Literal(value), span: Span::default() };
            let all = offset.saturating_add(limit).min(crate::limits::COUNT_MAX);
            self.query.offset_limit = Some((count(0), count(all)));
        } else if self.output.is_none() {
            return String::new();
        }
        // Texts that are no expressions stand in for a moment as names.
        let name = |text: &str| Expr::new(ExprKind::Name(text.to_owned()), Span::default());
        if let Some(output) = &self.output {
            self.query.output = Output::List(vec![SelectItem { expr: name(output), alias: None }]);
        }
        if let Some(filter) = &self.filter {
            self.query.filter = Some(name(filter));
        }
        self.query.to_string()
    }
}

/// The name of the item.
pub(super) fn root_alias(query: &Query) -> String {
    let Some(first) = query.from.first() else { return "c".to_owned() };
    match (&first.alias, &first.collection) {
        (Some(alias), _) => alias.text.clone(),
        (None, crate::ast::Collection::Path(name, _)) => name.text.clone(),
        _ => "c".to_owned(),
    }
}

fn object(items: &[SelectItem], value: impl Fn(&SelectItem) -> String) -> String {
    let member = |(name, item): (String, &SelectItem)| {
        let mut key = Vec::new();
        model::json::escape_into(&mut key, &name);
        format!("{}: {}", String::from_utf8_lossy(&key), value(item))
    };
    let members: Vec<String> = names_of(items).into_iter().zip(items).map(member).collect();
    format!("{{{}}}", members.join(", "))
}

/// The columns of a group, aggregates in parts.
pub(super) fn list_payload(items: &[SelectItem]) -> String {
    object(items, |item| partial(&item.expr).unwrap_or_else(|| item.expr.to_string()))
}

/// The value of a group, an aggregate in parts.
pub(super) fn value_payload(expr: &Expr) -> String {
    match partial(expr) {
        Some(partial) => format!("[{partial}]"),
        None => expr.to_string(),
    }
}

/// What of an aggregate a partition can tell.
fn partial(expr: &Expr) -> Option<String> {
    let aggregate = aggregate_of(expr)?;
    let ExprKind::Call(_, arguments) = &expr.kind else { return None };
    let argument = arguments.first()?;
    Some(match aggregate {
        Aggregate::Average => {
            format!("{{\"item\": {{\"sum\": SUM({argument}), \"count\": COUNT({argument})}}}}")
        }
        Aggregate::Min => extreme("MIN", "min", argument),
        Aggregate::Max => extreme("MAX", "max", argument),
        _ => format!("{{\"item\": {expr}}}"),
    })
}

fn extreme(function: &str, name: &str, argument: &Expr) -> String {
    format!(
        "{{\"item\": {function}({argument}), \"item2\": {{\"{name}\": {function}({argument}), \
         \"count\": COUNT({argument})}}}}"
    )
}
