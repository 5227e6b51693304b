//! What a client must be able to do to carry out a plan.

use model::{Error, Result};

use super::FanOut;

/// Refuses where a feature that the plan needs is not among those that the client has, in the words
/// by which clients know this refusal.
pub(super) fn check(plan: &FanOut, features: &str) -> Result<()> {
    let has = |wanted: &str| features.split(',').any(|name| name.trim() == wanted);
    let lacking: Vec<String> = needed(plan)
        .into_iter()
        .filter(|feature| !has(feature))
        .map(|feature| {
            format!("\r\nQuery contained {feature}, which the calling client does not support.")
        })
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "Query contains 1 or more unsupported features. Upgrade your SDK to a version that does \
         support the requested features:{}",
        lacking.concat()
    )))
}

fn needed(plan: &FanOut) -> Vec<&'static str> {
    let info = &plan.info;
    let mut all = Vec::new();
    let aliased = info.aliases.iter().filter_map(|(_, aggregate)| *aggregate);
    let aggregates: Vec<&str> = info.aggregates.iter().copied().chain(aliased).collect();
    match &aggregates[..] {
        [] => {}
        [_] if info.has_select_value => all.push("Aggregate"),
        [_] => all.push("NonValueAggregate"),
        _ => all.extend(["NonValueAggregate", "MultipleAggregates"]),
    }
    let uses = |names: &[&str]| aggregates.iter().any(|aggregate| names.contains(aggregate));
    let weighted = |weights: &[f64]| weights.iter().any(|weight| *weight != 1.0);
    let hybrid = plan.hybrid.as_ref();
    let rest = [
        (uses(&["CountIf"]), "CountIf"),
        (uses(&["MakeList", "MakeSet"]), "ListAndSetAggregate"),
        (info.distinct != "None", "Distinct"),
        (info.distinct_count.is_some(), "DCount"),
        (!info.group_by_expressions.is_empty(), "GroupBy"),
        (info.offset_limit.is_some(), "OffsetAndLimit"),
        (info.order_by.len() == 1, "OrderBy"),
        (info.order_by.len() > 1, "MultipleOrderBy"),
        (info.non_streaming, "NonStreamingOrderBy"),
        (info.top.is_some(), "Top"),
        (hybrid.is_some(), "HybridSearch"),
        (hybrid.is_some_and(|hybrid| weighted(&hybrid.weights)), "WeightedRankFusion"),
    ];
    all.extend(rest.into_iter().filter(|(needs, _)| *needs).map(|(_, feature)| feature));
    all
}
