//! Where the rows of a query can be: the ranges of hashes that its filter on the partition key
//! allows.

use model::epk::EpkRange;
use model::partition_key::{Component, Definition, PartitionKey};

use crate::ast::BinaryOp;
use crate::bound::{Fields, List, Node};
use crate::plan::path::member_names;
use crate::statement::Statement;
use crate::value::Value;

/// Different keys that are told apart; with more, all partitions are asked.
const KEYS: usize = 1_000;

/// The ranges, in order and without overlaps.
pub(super) fn of(statement: &Statement, key: &Definition) -> Vec<EpkRange> {
    let Some(filter) = &statement.bound.block.filter else { return vec![EpkRange::full()] };
    if matches!(filter, Node::Constant(value) if !value.is_true()) {
        return Vec::new();
    }
    let mut keys = vec![PartitionKey::default()];
    for path in &key.paths {
        let Some(values) = values_of(filter, &path.segments, &statement.bound.fields) else {
            break;
        };
        let further = |prefix: &PartitionKey| {
            let values: Vec<PartitionKey> = values
                .iter()
                .map(|value| {
                    let levels = prefix.0.iter().chain([value]);
                    PartitionKey(levels.cloned().collect())
                })
                .collect();
            values
        };
        if keys.len().saturating_mul(values.len()) > KEYS {
            break;
        }
        keys = keys.iter().flat_map(further).collect();
    }
    let mut ranges: Vec<EpkRange> = keys.iter().map(|prefix| key.range_of(prefix)).collect();
    ranges.sort_by(|a, b| a.min.cmp(&b.min));
    ranges.dedup();
    ranges
}

/// The values that a filter allows at a path; none where it allows any.
fn values_of(node: &Node, path: &[String], fields: &Fields) -> Option<Vec<Component>> {
    let is_key = |node: &Node| member_names(node, fields).is_some_and(|names| names == path);
    match node {
        Node::Binary(BinaryOp::Equal, pair) => match (&pair.0, &pair.1) {
            (key, Node::Constant(value)) | (Node::Constant(value), key) if is_key(key) => {
                Some(components(value))
            }
            _ => None,
        },
        Node::In(needle, List::Constants(values, _), false) if is_key(needle) => {
            Some(values.iter().flat_map(components).collect())
        }
        Node::And(all) => {
            let allowed: Vec<_> = all.iter().filter_map(|n| values_of(n, path, fields)).collect();
            allowed.into_iter().min_by_key(Vec::len)
        }
        Node::Or(all) => {
            let mut allowed = Vec::new();
            for node in all {
                allowed.extend(values_of(node, path, fields)?);
            }
            Some(allowed)
        }
        _ => None,
    }
}

/// The keys that are equal to a value: none for what no key can be.
fn components(value: &Value<'_>) -> Vec<Component> {
    match value {
        Value::Null => vec![Component::Null],
        Value::Bool(value) => vec![Component::Bool(*value)],
        // Both zeros are equal, but hash apart.
        Value::Number(number) if number.as_f64() == 0.0 => {
            vec![Component::Number(0.0), Component::Number(-0.0)]
        }
        Value::Number(number) => vec![Component::Number(number.as_f64())],
        Value::String(text) => vec![Component::String(text.to_string())],
        _ => Vec::new(),
    }
}
