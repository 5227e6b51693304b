//! How aggregates add up.

use std::collections::HashSet;

use model::Result;

use crate::error::too_much;
use crate::function::Aggregate;
use crate::limits;
use crate::value::{Type, Value, compare, identity_into};

/// One aggregate under way.
#[derive(Debug, Clone)]
pub(crate) enum Accumulator {
    Count(u64),
    CountIf(u64),
    /// None once something was no number.
    Sum(Option<f64>),
    Average(Option<(f64, u64)>),
    Extreme(Extreme),
    List(Vec<Value<'static>>, usize),
    Set(Vec<Value<'static>>, HashSet<Vec<u8>>, usize),
}

/// The smallest or largest so far.
#[derive(Debug, Clone)]
pub(crate) struct Extreme {
    largest: bool,
    /// Undefined before the first.
    value: Value<'static>,
    /// What the heaviest that it ever was takes.
    weight: usize,
    /// Whether something came that has no order.
    spoiled: bool,
}

impl Accumulator {
    pub(crate) fn new(aggregate: Aggregate) -> Self {
        let extreme = |largest| {
            Self::Extreme(Extreme { largest, value: Value::Undefined, weight: 0, spoiled: false })
        };
        match aggregate {
            Aggregate::Count => Self::Count(0),
            Aggregate::CountIf => Self::CountIf(0),
            Aggregate::Sum => Self::Sum(Some(0.0)),
            Aggregate::Average => Self::Average(Some((0.0, 0))),
            Aggregate::Min => extreme(false),
            Aggregate::Max => extreme(true),
            Aggregate::MakeList => Self::List(Vec::new(), 0),
            Aggregate::MakeSet => Self::Set(Vec::new(), HashSet::new(), 0),
        }
    }

    /// Adds a value. What is undefined adds nothing. Answers by how many bytes it grew.
    pub(crate) fn add(&mut self, value: Value<'_>) -> Result<usize> {
        if value.is_undefined() {
            return Ok(0);
        }
        match self {
            Self::Count(count) => *count += 1,
            Self::CountIf(count) => *count += u64::from(value.is_true()),
            Self::Sum(sum) => {
                *sum = sum.zip(value.as_f64()).map(|(sum, number)| sum + number);
            }
            Self::Average(state) => {
                *state = state.zip(value.as_f64()).map(|((sum, n), number)| (sum + number, n + 1));
            }
            Self::Extreme(extreme) => return Ok(extreme.add(value)),
            Self::List(list, weight) => return push(list, value, weight),
            Self::Set(list, seen, weight) => {
                let mut identity = Vec::new();
                identity_into(&value, &mut identity);
                if !seen.contains(&identity) {
                    *weight += identity.len();
                    seen.insert(identity);
                    return push(list, value, weight);
                }
            }
        }
        Ok(0)
    }

    /// Adds this many defined values that all count: what an index knows without reading them.
    pub(crate) fn add_count(&mut self, more: u64) {
        if let Self::Count(count) = self {
            *count += more;
        }
    }

    /// The value of the aggregate.
    pub(crate) fn finish(self) -> Value<'static> {
        match self {
            Self::Count(count) | Self::CountIf(count) => {
                Value::int(i64::try_from(count).unwrap_or(i64::MAX))
            }
            Self::Sum(sum) => sum.map_or(Value::Undefined, Value::number),
            Self::Average(Some((sum, count))) if count > 0 => Value::number(sum / count as f64),
            Self::Average(_) => Value::Undefined,
            Self::Extreme(extreme) if extreme.spoiled => Value::Undefined,
            Self::Extreme(extreme) => extreme.value,
            Self::List(list, _) | Self::Set(list, ..) => Value::array(list),
        }
    }
}

impl Extreme {
    /// Answers by how many bytes it grew.
    fn add(&mut self, value: Value<'_>) -> usize {
        if matches!(value.kind(), Type::Array | Type::Object) {
            self.spoiled = true;
        }
        let order = compare(&value, &self.value);
        let better = if self.largest { order.is_gt() } else { order.is_lt() };
        if !self.spoiled && (better || self.value.is_undefined()) {
            self.value = value.into_owned();
        }
        let before = self.weight;
        self.weight = before.max(self.value.weight());
        self.weight - before
    }
}

fn push(list: &mut Vec<Value<'static>>, value: Value<'_>, weight: &mut usize) -> Result<usize> {
    let value = value.into_owned();
    let more = value.weight();
    *weight += more;
    if *weight > limits::VALUE_BYTES {
        return Err(too_much("bytes of one value", limits::VALUE_BYTES));
    }
    list.push(value);
    Ok(more)
}

impl Accumulator {
    /// What it has grown by so far.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::List(_, weight) | Self::Set(_, _, weight) => *weight,
            Self::Extreme(extreme) => extreme.weight,
            _ => 0,
        }
    }
}
