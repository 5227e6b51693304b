//! Aggregates: many rows in, one value out. How they add up is in `crate::run::aggregate`.

use super::{Function, Param, Run};

/// The aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// How many are defined.
    Count,
    /// How many are `true`.
    CountIf,
    /// Their sum.
    Sum,
    /// Their mean.
    Average,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// All of them.
    MakeList,
    /// All different ones.
    MakeSet,
}

impl Aggregate {
    /// What query plans call it.
    pub fn plan_name(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::CountIf => "CountIf",
            Self::Sum => "Sum",
            Self::Average => "Average",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::MakeList => "MakeList",
            Self::MakeSet => "MakeSet",
        }
    }
}

const fn of(
    name: &'static str,
    aggregate: Aggregate,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> Function {
    Function {
        name,
        aliases: &[],
        params: &[Param::Any],
        optional: 0,
        repeats: false,
        sees_all: true,
        stable: true,
        run: Run::Aggregate(aggregate),
        doc,
        example,
    }
}

pub(super) const TABLE: &[Function] = &[
    of(
        "AVG",
        Aggregate::Average,
        "The mean; undefined where anything is no number.",
        ("(SELECT VALUE AVG(x) FROM x IN (SELECT VALUE [1, 2, 6]))", "3"),
    ),
    of(
        "COUNT",
        Aggregate::Count,
        "How many values are defined.",
        ("(SELECT VALUE COUNT(x) FROM x IN (SELECT VALUE [1, null]))", "2"),
    ),
    of(
        "COUNTIF",
        Aggregate::CountIf,
        "How many values are exactly true.",
        ("(SELECT VALUE COUNTIF(x > 1) FROM x IN (SELECT VALUE [1, 2, 3]))", "2"),
    ),
    of(
        "MAKELIST",
        Aggregate::MakeList,
        "All values as an array.",
        ("(SELECT VALUE MAKELIST(x) FROM x IN (SELECT VALUE [1, 1]))", "[1,1]"),
    ),
    of(
        "MAKESET",
        Aggregate::MakeSet,
        "All different values as an array.",
        ("(SELECT VALUE MAKESET(x) FROM x IN (SELECT VALUE [1, 1]))", "[1]"),
    ),
    of(
        "MAX",
        Aggregate::Max,
        "The largest value; undefined where anything is an array or object.",
        ("(SELECT VALUE MAX(x) FROM x IN (SELECT VALUE [1, 'a', null]))", "\"a\""),
    ),
    of(
        "MIN",
        Aggregate::Min,
        "The smallest value; undefined where anything is an array or object.",
        ("(SELECT VALUE MIN(x) FROM x IN (SELECT VALUE [3, 2]))", "2"),
    ),
    of(
        "SUM",
        Aggregate::Sum,
        "The sum; undefined where anything is no number.",
        ("(SELECT VALUE SUM(x) FROM x IN (SELECT VALUE [3, 2]))", "5"),
    ),
];
