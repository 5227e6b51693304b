//! Calls of functions.

use super::Binder;
use super::query::{aggregate_in, contains_subquery};
use crate::ast::{Expr, Name, Span};
use crate::bound::{AggregateNode, CallNode, Node};
use crate::function::{self, Aggregate, Memo, Run};
use crate::limits;

impl Binder<'_> {
    pub(super) fn call(&mut self, expr: &Expr, name: &Name, arguments: &[Expr]) -> Node {
        let Some(function) = function::find(&name.text) else {
            let message = format!("'{}' is not a recognized built-in function name.", name.text);
            return self.wrong("SC2005", message, name.span);
        };
        if !function.takes(arguments.len()) {
            let message = format!("The {} function {}.", function.name, function.arity());
            return self.wrong("SC2050", message, expr.span);
        }
        match function.run {
            Run::Aggregate(aggregate) => self.aggregate(aggregate, arguments, expr.span),
            Run::Rank => {
                let message = format!(
                    "The {} function is only allowed in the ORDER BY RANK clause.",
                    name.text
                );
                self.wrong("SC2240", message, expr.span)
            }
            Run::Scalar(_) => {
                let arguments = self.all(arguments);
                if let Some(problem) = function::vector::wrong_options(function, &arguments) {
                    return self.wrong("SC2213", problem, expr.span);
                }
                let paths = arguments.iter().map(|node| self.policy_path(node)).collect();
                Node::Call(Box::new(CallNode { function, arguments, paths, memo: Memo::new() }))
            }
        }
    }

    fn aggregate(&mut self, aggregate: Aggregate, arguments: &[Expr], span: Span) -> Node {
        let argument = &arguments[0];
        if aggregate_in(argument).is_some() || contains_subquery(argument) {
            let message = "Cannot perform an aggregate function on an expression containing an \
                           aggregate or a subquery.";
            return self.wrong("SC2101", message, span);
        }
        let Some(mut groups) = self.grouping.take() else {
            // The clause that it stands in has been reported.
            return Node::Constant(crate::value::Value::Undefined);
        };
        // Its argument sees the rows, not the groups.
        let hidden: Vec<bool> = self.aliases.iter().map(|alias| alias.grouped).collect();
        self.aliases.iter_mut().for_each(|alias| alias.grouped = false);
        let argument = self.expression(argument);
        for (alias, grouped) in self.aliases.iter_mut().zip(hidden) {
            alias.grouped = grouped;
        }
        let slot = self.slot();
        groups.aggregates.push(AggregateNode { aggregate, argument, slot });
        self.grouping = Some(groups);
        Node::Slot(slot)
    }

    pub(super) fn udf(&mut self, name: &Name, arguments: &[Expr], span: Span) -> Node {
        self.udf_calls += 1;
        if self.udf_calls == limits::UDF_CALLS + 1 {
            let message = format!(
                "The query exceeded the maximum number of user-defined function calls. \
                 The allowed limit is {}.",
                limits::UDF_CALLS
            );
            self.problem("SC3005", message, span);
        }
        Node::Udf(name.text.clone(), self.all(arguments))
    }

    /// The path of a property of the item as policies write it: `/a/b`.
    pub(super) fn policy_path(&self, node: &Node) -> Option<String> {
        let names = crate::plan::path::member_names(node, &self.fields)?;
        (!names.is_empty()).then(|| format!("/{}", names.join("/")))
    }
}
