//! `ORDER BY`: which keys can be, and what they are.

use super::Binder;
use super::query::has_aggregate;
use crate::ast::{Expr, ExprKind, OrderBy, OrderKey, Query};
use crate::bound::Node;
use crate::error::Problem;
use crate::function::{Metric, Run};
use crate::plan::path::member_names;

/// What orders the rows of a query.
#[derive(Default)]
pub(crate) struct Order {
    pub keys: Vec<OrderNode>,
    /// `ORDER BY RANK`: the components of the score, one where there is no fusion.
    pub rank: Option<Rank>,
}

/// One key.
pub(crate) struct OrderNode {
    pub node: Node,
    pub descending: bool,
    /// The members on the way to it, where it is a property of the item.
    pub path: Option<Vec<String>>,
}

/// A score put together from components.
pub(crate) struct Rank {
    pub components: Vec<Component>,
    /// Whether `RRF` fuses the ranks; otherwise there is one component.
    pub fused: bool,
}

/// One component of a score.
pub(crate) struct Component {
    pub score: Score,
    pub weight: f64,
}

/// What gives a component its score.
pub(crate) enum Score {
    /// Words looked for in a text.
    Text { text: Node, path: Option<String>, terms: Vec<Node> },
    /// The distance of vectors; smaller is better where `ascending`.
    Vector { distance: Node, ascending: bool },
}

impl Binder<'_> {
    pub(super) fn order(&mut self, query: &Query) -> Order {
        let Some(order) = &query.order_by else { return Order::default() };
        if !query.group_by.is_empty() || has_aggregate(&query.output) {
            let message = "'ORDER BY' is not supported with GROUP BY or aggregates.";
            self.problem("SC2105", message, order.span);
            return Order::default();
        }
        if order.rank {
            return self.rank(query, order);
        }
        let keys = order.keys.iter().map(|key| self.key(key, order)).collect();
        Order { keys, rank: None }
    }

    fn key(&mut self, key: &OrderKey, order: &OrderBy) -> OrderNode {
        let node = self.expression(&key.expr);
        // What clients send that fuse ranks themselves orders by the score of words.
        let words = is_call(&key.expr, "_FULLTEXTSCORE");
        if words || is_call(&key.expr, "VECTORDISTANCE") {
            if order.keys.len() > 1 {
                let message = "VectorDistance cannot be combined with other ORDER BY keys.";
                self.problem("SC2207", message, key.expr.span);
            }
            let nearest = words || !self.smaller_is_nearer(&node);
            let descending = if key.said { key.descending } else { nearest };
            return OrderNode { node, descending, path: None };
        }
        let path = member_names(&node, &self.fields).filter(|path| !path.is_empty());
        let resolved = !matches!(node, Node::Constant(crate::value::Value::Undefined));
        if path.is_none() && resolved {
            self.problems.push(Problem {
                code: "2206",
                message: "Unsupported ORDER BY clause. ORDER BY item expression could not be \
                          mapped to a document path."
                    .to_owned(),
                span: None,
            });
        }
        OrderNode { node, descending: key.descending, path }
    }

    fn rank(&mut self, query: &Query, order: &OrderBy) -> Order {
        for (at, item) in query.from.iter().enumerate() {
            let (code, what) = match (&item.collection, item.each, at) {
                (crate::ast::Collection::Query(_), ..) => ("SC2225", "A subquery in FROM"),
                (_, true, 0) => ("SC2223", "FROM … IN"),
                (_, _, 0) => continue,
                _ => ("SC2224", "JOIN"),
            };
            let message = format!("{what} is not allowed with ORDER BY RANK.");
            self.problem(code, message, item.span);
        }
        let rank = match &order.keys[..] {
            [key] if is_call(&key.expr, "RRF") => self.fusion(&key.expr),
            [key] => {
                let components = self.component(&key.expr).into_iter().collect();
                Rank { components, fused: false }
            }
            _ => {
                self.rank_problem(&order.keys[1].expr);
                Rank { components: Vec::new(), fused: false }
            }
        };
        Order { keys: Vec::new(), rank: Some(rank) }
    }

    fn fusion(&mut self, expr: &Expr) -> Rank {
        let ExprKind::Call(_, arguments) = &expr.kind else {
            return Rank { components: Vec::new(), fused: true };
        };
        let (scores, weights) = match arguments.split_last() {
            Some((last, scores)) if !matches!(last.kind, ExprKind::Call(..)) => {
                (scores, Some(last))
            }
            _ => (&arguments[..], None),
        };
        let mut components: Vec<Component> =
            scores.iter().filter_map(|score| self.component(score)).collect();
        if let Some(list) = weights {
            let node = self.expression(list);
            let weights = literal_numbers(&node);
            match weights.filter(|weights| weights.len() == scores.len()) {
                Some(weights) => {
                    components.iter_mut().zip(weights).for_each(|(c, weight)| c.weight = weight);
                }
                None => {
                    let message = "The weights of RRF must be a literal array of numbers, one for \
                                   each component.";
                    self.problem("SC2229", message, list.span);
                }
            }
        }
        if components.len() < 2 && self.problems.is_empty() {
            let message = "The RRF function requires at least 2 argument(s).";
            self.problem("SC2050", message, expr.span);
        }
        Rank { components, fused: true }
    }

    fn component(&mut self, expr: &Expr) -> Option<Component> {
        if is_call(expr, "VECTORDISTANCE") {
            let distance = self.expression(expr);
            let ascending = self.smaller_is_nearer(&distance);
            return Some(Component { score: Score::Vector { distance, ascending }, weight: 1.0 });
        }
        let ExprKind::Call(name, arguments) = &expr.kind else {
            self.rank_problem(expr);
            return None;
        };
        let function = crate::function::find(&name.text)
            .filter(|f| matches!(f.run, Run::Rank) && f.name == "FULLTEXTSCORE");
        let Some(function) = function else {
            self.rank_problem(expr);
            return None;
        };
        if !function.takes(arguments.len()) {
            let message = format!("The {} function {}.", function.name, function.arity());
            self.problem("SC2050", message, expr.span);
            return None;
        }
        let text = self.expression(&arguments[0]);
        let path = self.policy_path(&text);
        let terms = self.all(&arguments[1..]);
        Some(Component { score: Score::Text { text, path, terms }, weight: 1.0 })
    }

    fn rank_problem(&mut self, expr: &Expr) {
        let message = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a \
                       FullTextScore function call.";
        self.problem("SC2221", message, expr.span);
    }

    /// Whether the metric of a distance says that less is more alike.
    fn smaller_is_nearer(&self, node: &Node) -> bool {
        let Node::Call(call) = node else { return false };
        let options = call.arguments.get(3).and_then(Node::constant);
        Metric::chosen(options, &call.paths, self.settings) == Metric::Euclidean
    }
}

fn is_call(expr: &Expr, function: &str) -> bool {
    matches!(&expr.kind, ExprKind::Call(name, _) if name.text.eq_ignore_ascii_case(function))
}

fn literal_numbers(node: &Node) -> Option<Vec<f64>> {
    let number = |node: &Node| match node {
        Node::Unary(crate::ast::UnaryOp::Minus, inner) => Some(-inner.constant()?.as_f64()?),
        node => node.constant()?.as_f64(),
    };
    match node {
        Node::Array(nodes) => nodes.iter().map(number).collect(),
        Node::Constant(value) => value.elements()?.map(|value| value.as_f64()).collect(),
        _ => None,
    }
}
