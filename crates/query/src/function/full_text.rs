//! Full text.

use super::{Function, Param, Run};

const fn rank(
    name: &'static str,
    params: &'static [Param],
    doc: &'static str,
    example: (&'static str, &'static str),
) -> Function {
    Function {
        name,
        aliases: &[],
        params,
        optional: 0,
        repeats: true,
        sees_all: true,
        stable: true,
        run: Run::Rank,
        doc,
        example,
    }
}

pub(super) const TABLE: &[Function] = &[
    rank(
        "FULLTEXTSCORE",
        &[Param::String, Param::String],
        "How well a text fits the words (BM25); only in ORDER BY RANK.",
        ("", ""),
    ),
    rank(
        "RRF",
        &[Param::Any, Param::Any],
        "Scores fused by their ranks; only in ORDER BY RANK.",
        ("", ""),
    ),
];
