//! Vectors: how far two are apart, or how alike.

use model::Result;

use super::{Call, Function, Param};
use crate::bound::Node;
use crate::value::Value;
use crate::world::Settings;

pub(super) const TABLE: &[Function] = &[Function::scalar(
    "VECTORDISTANCE",
    &[Param::Array, Param::Array, Param::Bool, Param::Object],
    vector_distance,
    "How alike two vectors are, or how far apart, by the metric of the policy or of the options.",
    ("VECTORDISTANCE([3, 4], [0, 0], false, {'distanceFunction': 'euclidean'})", "5"),
)
.optional(2)];

/// How vectors are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    Cosine,
    DotProduct,
    Euclidean,
}

impl Metric {
    fn of(name: &str) -> Option<Self> {
        let known = [
            ("cosine", Self::Cosine),
            ("dotproduct", Self::DotProduct),
            ("euclidean", Self::Euclidean),
        ];
        known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, metric)| *metric)
    }

    /// The metric of the options, of the policy of the first path that has one, or cosine.
    pub(crate) fn chosen(
        options: Option<&Value<'_>>,
        paths: &[Option<String>],
        settings: &Settings,
    ) -> Self {
        let said = options.map(|options| options.member("distanceFunction"));
        if let Some(metric) = said.as_ref().and_then(Value::as_str).and_then(Self::of) {
            return metric;
        }
        let mut policies = paths
            .iter()
            .flatten()
            .filter_map(|path| settings.vectors.iter().find(|vector| vector.path == *path));
        policies.next().and_then(|vector| Self::of(&vector.distance)).unwrap_or(Self::Cosine)
    }
}

/// What is wrong with the options of a call, where they are known before it.
pub(crate) fn wrong_options(function: &Function, arguments: &[Node]) -> Option<&'static str> {
    let Some(Node::Constant(options)) = arguments.get(3) else { return None };
    if function.name != "VECTORDISTANCE" {
        return None;
    }
    let multiplier = options.member("searchListSizeMultiplier");
    if multiplier.is_defined() && !multiplier.as_f64().is_some_and(|by| (1.0..=100.0).contains(&by))
    {
        return Some("The searchListSizeMultiplier of VectorDistance must be from 1 to 100.");
    }
    let metric = options.member("distanceFunction");
    if metric.is_defined() && metric.as_str().and_then(Metric::of).is_none() {
        return Some("The distanceFunction must be cosine, dotproduct or euclidean.");
    }
    None
}

fn vector_distance<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(a), Some(b)) = (numbers(&arguments[0]), numbers(&arguments[1])) else {
        return Ok(Value::Undefined);
    };
    if a.len() != b.len() || a.is_empty() {
        return Ok(Value::Undefined);
    }
    call.budget.spend(a.len() as u64 / 8)?;
    let metric = Metric::chosen(arguments.get(3), call.paths, call.settings);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    Ok(Value::number(match metric {
        Metric::DotProduct => dot(&a, &b),
        Metric::Euclidean => a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt(),
        Metric::Cosine => {
            let lengths = (dot(&a, &a) * dot(&b, &b)).sqrt();
            if lengths == 0.0 {
                return Ok(Value::Undefined);
            }
            dot(&a, &b) / lengths
        }
    }))
}

fn numbers(value: &Value<'_>) -> Option<Vec<f64>> {
    value.elements()?.map(|element| element.as_f64()).collect()
}
