//! Queries, subqueries, their sources and outputs.

use super::{Alias, Binder, Order};
use crate::ast::{Collection, Expr, ExprKind, FromItem, Output, Query, SelectItem, Span, Step};
use crate::bound::{AggregateNode, Block, Grouping, ITEM, Level, Named, Node, Over, Shape};
use crate::function::{self, Run};
use crate::value::Value;

/// What the output of a grouped query may use.
pub(super) struct Groups {
    pub keys: Vec<(Expr, usize)>,
    pub aggregates: Vec<AggregateNode>,
}

impl Binder<'_> {
    /// The whole query, and what orders it.
    pub(super) fn root(&mut self, query: &Query) -> (Block, Order) {
        let outer = self.aliases.len();
        let from = self.from(query, true);
        let filter = self.filter(query);
        let order = self.order(query);
        let (grouping, output) = self.outcome(query, outer);
        self.aliases.truncate(outer);
        (Block { from, filter, grouping, output, distinct: query.distinct.is_some() }, order)
    }

    pub(super) fn subquery(&mut self, query: &Query) -> Block {
        self.check_subquery(query);
        let outer = self.aliases.len();
        // The groups of the query around it are no business of this one.
        let around = self.grouping.take();
        let from = self.from(query, false);
        let filter = self.filter(query);
        let (grouping, output) = self.outcome(query, outer);
        self.grouping = around;
        self.aliases.truncate(outer);
        Block { from, filter, grouping, output, distinct: query.distinct.is_some() }
    }

    fn check_subquery(&mut self, query: &Query) {
        if let Some(order) = &query.order_by {
            let (code, clause) =
                if order.rank { ("SC2228", "ORDER BY RANK") } else { ("SC2202", "ORDER BY") };
            let message = format!("'{clause}' is not supported in subqueries.");
            self.problem(code, message, order.span);
        }
        if let Some(top) = &query.top {
            self.problem("SC2203", "'TOP' is not supported in subqueries.", top.span);
        }
        if let Some((offset, limit)) = &query.offset_limit {
            let message = "'OFFSET LIMIT' clause is not supported in subqueries.";
            self.problem("SC2204", message, offset.span.to(limit.span));
        }
    }

    fn filter(&mut self, query: &Query) -> Option<Node> {
        let filter = query.filter.as_ref()?;
        self.refuse_aggregates(filter, "WHERE");
        Some(self.expression(filter))
    }

    /// The sources of rows. A plain `FROM c` needs no level: its rows are the items.
    fn from(&mut self, query: &Query, root: bool) -> Vec<Level> {
        let mut levels = Vec::new();
        let outer = self.aliases.len();
        for (at, item) in query.from.iter().enumerate() {
            let first = at == 0;
            if let Some(name) = plain_item(item).filter(|name| first && self.is_item(name, root)) {
                let alias = item.alias.as_ref().map_or(name, |alias| &alias.text);
                self.aliases.push(Alias { name: alias.to_owned(), slot: ITEM, grouped: false });
                continue;
            }
            let over = self.collection(&item.collection, first);
            let slot = self.slot();
            levels.push(Level { each: item.each, over, slot });
            if let Some((name, span)) = alias_of(item) {
                if self.aliases[outer..].iter().any(|alias| alias.name == name) {
                    let message = format!("The alias '{name}' is used more than once.");
                    self.problem("SC2003", message, span);
                }
                self.aliases.push(Alias { name, slot, grouped: false });
            }
        }
        levels
    }

    /// Whether a name after `FROM` means the item: always in the query itself, and in a subquery
    /// where it names nothing else.
    fn is_item(&self, name: &str, root: bool) -> bool {
        root || self.alias(name).is_none_or(|alias| alias.slot == ITEM)
    }

    fn collection(&mut self, collection: &Collection, first: bool) -> Over {
        match collection {
            Collection::Query(query) => Over::Block(Box::new(self.subquery(query))),
            Collection::Expr(expr) => {
                self.refuse_aggregates(expr, "FROM");
                Over::Node(self.expression(expr))
            }
            Collection::Path(name, steps) => {
                let known = self.alias(&name.text).map(|alias| alias.slot);
                let slot = match known {
                    Some(slot) => slot,
                    None if first || name.text.eq_ignore_ascii_case("root") => ITEM,
                    None => {
                        let message = format!("Identifier '{}' could not be resolved.", name.text);
                        return Over::Node(self.wrong("SC2001", message, name.span));
                    }
                };
                let mut node = Node::Slot(slot);
                for step in steps {
                    node = match step {
                        Step::Member(name) => self.member(node, name),
                        Step::Element(at) => {
                            let at = i64::try_from(*at).unwrap_or(i64::MAX);
                            Node::Index(Box::new(node), Box::new(Node::Constant(Value::int(at))))
                        }
                    };
                }
                Over::Node(node)
            }
        }
    }

    /// Grouping and output. After grouping the aliases of this query have no one value.
    fn outcome(&mut self, query: &Query, outer: usize) -> (Option<Grouping>, Shape) {
        let grouped = !query.group_by.is_empty() || has_aggregate(&query.output);
        if !grouped {
            return (None, self.output(query, outer));
        }
        let mut keys = Vec::new();
        let mut groups = Groups { keys: Vec::new(), aggregates: Vec::new() };
        for expr in &query.group_by {
            self.refuse_aggregates(expr, "GROUP BY");
            if contains_subquery(expr) {
                let message = "Subqueries are not supported in the GROUP BY clause.";
                self.problem("SC2104", message, expr.span);
            }
            let slot = self.slot();
            keys.push((self.expression(expr), slot));
            groups.keys.push((expr.clone(), slot));
        }
        if let Output::Star(span) = query.output {
            self.problem("SC2041", "'SELECT *' is not allowed with GROUP BY.", span);
            return (None, Shape::Value(Node::Constant(Value::Undefined)));
        }
        for alias in &mut self.aliases[outer..] {
            alias.grouped = true;
        }
        self.grouping = Some(groups);
        let output = self.output(query, outer);
        let aggregates = self.grouping.take().map_or_else(Vec::new, |groups| groups.aggregates);
        (Some(Grouping { keys, aggregates }), output)
    }

    fn output(&mut self, query: &Query, outer: usize) -> Shape {
        match &query.output {
            Output::Star(span) => Shape::Value(self.star(*span, outer)),
            Output::Value(expr) => Shape::Value(self.expression(expr)),
            Output::List(items) => {
                let mut named = Named::default();
                for (name, item) in names_of(items).into_iter().zip(items) {
                    named.put(name, self.expression(&item.expr));
                }
                Shape::Object(named.finish())
            }
        }
    }

    fn star(&mut self, span: Span, outer: usize) -> Node {
        match &self.aliases[outer..] {
            [alias] => Node::Slot(alias.slot),
            [] => self.wrong("SC2040", "'SELECT *' is not valid without a FROM clause.", span),
            _ => {
                let message = "'SELECT *' is only valid with a single input set.";
                self.wrong("SC2040", message, span)
            }
        }
    }

    pub(super) fn refuse_aggregates(&mut self, expr: &Expr, clause: &str) {
        if let Some(span) = aggregate_in(expr) {
            let message = format!("Aggregate functions are not allowed in the {clause} clause.");
            self.problem("SC2103", message, span);
        }
    }
}

/// The name of a source that is a name and nothing more.
fn plain_item(item: &FromItem) -> Option<&str> {
    match &item.collection {
        Collection::Path(name, steps) if steps.is_empty() && !item.each => Some(&name.text),
        _ => None,
    }
}

/// The alias of a source: given, or the last name of its path.
fn alias_of(item: &FromItem) -> Option<(String, Span)> {
    if let Some(alias) = &item.alias {
        return Some((alias.text.clone(), alias.span));
    }
    match &item.collection {
        Collection::Path(name, steps) => match steps.last() {
            None => Some((name.text.clone(), name.span)),
            Some(Step::Member(name)) => Some((name.clone(), item.span)),
            Some(Step::Element(_)) => None,
        },
        _ => None,
    }
}

/// What the items of a select list are called in the output.
pub(crate) fn names_of(items: &[SelectItem]) -> Vec<String> {
    let mut unnamed = 0;
    let name = |item: &SelectItem| match (&item.alias, &item.expr.kind) {
        (Some(alias), _) => alias.text.clone(),
        (None, ExprKind::Member(_, name) | ExprKind::Name(name)) => name.clone(),
        _ => {
            unnamed += 1;
            format!("${unnamed}")
        }
    };
    items.iter().map(name).collect()
}

/// The aggregate of a call, if it is one.
pub(crate) fn aggregate_of(expr: &Expr) -> Option<function::Aggregate> {
    let ExprKind::Call(name, _) = &expr.kind else { return None };
    match function::find(&name.text)?.run {
        Run::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    }
}

/// Where an expression has an aggregate, subqueries left out.
pub(crate) fn aggregate_in(expr: &Expr) -> Option<Span> {
    if aggregate_of(expr).is_some() {
        return Some(expr.span);
    }
    expr.kind.children().into_iter().find_map(aggregate_in)
}

pub(crate) fn has_aggregate(output: &Output) -> bool {
    match output {
        Output::Star(_) => false,
        Output::Value(expr) => aggregate_in(expr).is_some(),
        Output::List(items) => items.iter().any(|item| aggregate_in(&item.expr).is_some()),
    }
}

pub(super) fn contains_subquery(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Subquery(..))
        || expr.kind.children().into_iter().any(contains_subquery)
}
