//! Partition key ranges as clients read them.

use engine::{Container, Range, Ranges};
use serde_json::{Value, json};

/// The list of all ranges of a container.
pub fn list(container: &Container, ranges: &Ranges) -> Value {
    let entries: Vec<Value> =
        ranges.ranges.iter().map(|range| entry(container, ranges, range)).collect();
    json!({ "_rid": container.rid(), "_count": entries.len(), "PartitionKeyRanges": entries })
}

fn entry(container: &Container, ranges: &Ranges, range: &Range) -> Value {
    let owner = container.resource();
    json!({
        "_rid": range.rid,
        "id": &*range.id,
        "_etag": ranges.etag.to_string(),
        "minInclusive": range.span.min.to_string(),
        "maxExclusive": range.span.max.to_string(),
        "ridPrefix": range.id.parse::<u64>().unwrap_or(0),
        "_self": format!("{}pkranges/{}/", owner.self_link, range.rid),
        "throughputFraction": range.throughput_fraction,
        "status": "online",
        "parents": range.parents,
        "_ts": owner.ts,
    })
}
