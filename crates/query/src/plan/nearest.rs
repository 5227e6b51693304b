//! What a vector index is asked for.

use super::path::member_names;
use super::{Access, index_path};
use crate::bound::Node;
use crate::function::Metric;
use crate::source::IndexPath;
use crate::statement::Statement;
use crate::value::Value;

/// The most neighbours that an index is asked for.
pub(crate) const NEIGHBOURS: usize = 10_000;
/// So few documents that a filter finds are all looked at, which is exact.
pub(super) const FEW: u64 = 2_000;

/// The nearest items to a vector.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Nearest {
    pub path: IndexPath,
    pub vector: Vec<f64>,
    /// How many must pass the filter.
    pub count: usize,
}

/// What a vector index could answer: one distance to order by, as near as can be first, and a
/// count. Where the filter finds few documents by itself, no index is asked.
pub(super) fn of(statement: &Statement, access: &Access, cost: u64) -> Option<Nearest> {
    let bound = &statement.bound;
    let [key] = &bound.order.keys[..] else { return None };
    let Node::Call(call) = &key.node else { return None };
    let few = *access != Access::Documents && cost <= FEW;
    if few || !bound.block.from.is_empty() || bound.block.distinct {
        return None;
    }
    let count = bound.rows_wanted().filter(|count| *count <= NEIGHBOURS)?;
    let constant = |at: usize| call.arguments.get(at).and_then(Node::constant);
    let brute_force = constant(2).is_some_and(Value::is_true);
    if call.function.name != "VECTORDISTANCE" || brute_force {
        return None;
    }
    // The index has the metric and direction of the policy.
    let settings = &statement.settings;
    let metric = Metric::chosen(constant(3), &call.paths, settings);
    let nearest_first = key.descending == (metric != Metric::Euclidean);
    if metric != Metric::chosen(None, &call.paths, settings) || !nearest_first {
        return None;
    }
    let (property, vector) = match (constant(0), constant(1)) {
        (None, Some(vector)) => (&call.arguments[0], vector),
        (Some(vector), None) => (&call.arguments[1], vector),
        _ => return None,
    };
    let names = member_names(property, &bound.fields).filter(|names| !names.is_empty())?;
    let vector = vector.elements()?.map(|number| number.as_f64()).collect::<Option<Vec<_>>>()?;
    Some(Nearest { path: index_path(&names), vector, count })
}
