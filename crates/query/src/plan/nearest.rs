//! What a vector index finds.

use std::sync::Arc;

use bytes::Bytes;
use model::Result;

use super::index_path;
use super::path::member_names;
use crate::bound::Node;
use crate::function::Metric;
use crate::source::Source;
use crate::statement::Statement;
use crate::value::Value;

/// The most neighbours that an index is asked for.
const NEIGHBOURS: u64 = 10_000;

/// The keys of the nearest items, sorted, where a vector index answers the query: one distance to
/// order by, as near as can be first, a count, and no filter that could leave too few.
pub(super) async fn items<S: Source>(
    statement: &Statement,
    source: &S,
) -> Result<Option<Arc<[Bytes]>>> {
    let bound = &statement.bound;
    let block = &bound.block;
    let [key] = &bound.order.keys[..] else { return Ok(None) };
    let Node::Call(call) = &key.node else { return Ok(None) };
    let plain = block.filter.is_none() && block.from.is_empty() && !block.distinct;
    let wanted = match (bound.top, bound.offset_limit) {
        (Some(top), None) => Some(top),
        (_, Some((offset, limit))) => Some(offset.saturating_add(limit)),
        (None, None) => None,
    };
    let Some(wanted) = wanted.filter(|wanted| plain && *wanted <= NEIGHBOURS) else {
        return Ok(None);
    };
    let constant = |at: usize| call.arguments.get(at).and_then(Node::constant);
    let brute_force = constant(2).is_some_and(Value::is_true);
    if call.function.name != "VECTORDISTANCE" || brute_force {
        return Ok(None);
    }
    // The index has the metric and direction of the policy.
    let settings = &statement.settings;
    let metric = Metric::chosen(constant(3), &call.paths, settings);
    let nearest_first = key.descending == (metric != Metric::Euclidean);
    if metric != Metric::chosen(None, &call.paths, settings) || !nearest_first {
        return Ok(None);
    }
    let (property, vector) = match (constant(0), constant(1)) {
        (None, Some(vector)) => (&call.arguments[0], vector),
        (Some(vector), None) => (&call.arguments[1], vector),
        _ => return Ok(None),
    };
    let names = member_names(property, &bound.fields).filter(|names| !names.is_empty());
    let numbers = vector.elements().map(|all| all.map(|n| n.as_f64()).collect::<Option<Vec<_>>>());
    let (Some(names), Some(Some(vector))) = (names, numbers) else { return Ok(None) };
    let count = usize::try_from(wanted).unwrap_or(usize::MAX);
    let found = source.nearest(&index_path(&names), &vector, count).await?;
    // With fewer than asked for, items without a vector have their place too.
    let Some(mut found) = found.filter(|found| found.len() >= count) else { return Ok(None) };
    found.sort_unstable();
    found.dedup();
    Ok(Some(found.into()))
}
