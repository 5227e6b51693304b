//! Plans of `ORDER BY RANK`: statistics of all partitions first, then one query per component,
//! whose ranks the client fuses.

use model::Result;
use serde_json::{Value, json};

use super::Info;
use super::rewrite::PLACEHOLDER;
use crate::ast::{Expr, ExprKind, Output};
use crate::bind::{Component, Rank, Score};
use crate::error::unserved;
use crate::limits;
use crate::statement::Statement;

/// A search that fuses several ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Hybrid {
    /// Counts of items, words and hits.
    pub statistics: String,
    /// One query per component of the score.
    pub components: Vec<Info>,
    /// How much each component counts.
    pub weights: Vec<f64>,
    /// `OFFSET`
    pub skip: Option<u64>,
    /// `TOP` or `LIMIT`
    pub take: Option<u64>,
    /// Whether any component weighs words.
    pub needs_statistics: bool,
}

const TOTAL_DOCUMENTS: &str = "{documentdb-formattablehybridsearchquery-totaldocumentcount}";

/// Ranks of all components need more rows than are wanted in the end.
const OVERSAMPLE: u64 = 2;
const COMPONENT_ROWS_MIN: u64 = 120;

/// A score, or one that is worse than any where there is none.
fn or_worst((component, score): (&Component, &String)) -> String {
    let worst = match component.score {
        Score::Text { .. } => "-1",
        Score::Vector { ascending: true, .. } => "999999",
        Score::Vector { ascending: false, .. } => "-999999",
    };
    format!("({score} ?? {worst})")
}

/// The plan of a query with `ORDER BY RANK`.
pub(super) fn of(statement: &Statement, rank: &Rank) -> Result<Hybrid> {
    let query = &statement.query;
    let calls = components_of(query.order_by.as_ref().map(|order| &order.keys[0].expr));
    let alias = super::rewrite::root_alias(query);
    let all_scores: Vec<String> = scored(rank, &calls);
    let (skip, take) = match (statement.bound.top, statement.bound.offset_limit) {
        (top, None) => (None, top),
        (_, Some((offset, limit))) => (Some(offset), Some(limit)),
    };
    let Some(all) = take.map(|take| take.saturating_add(skip.unwrap_or(0))) else {
        return Err(unserved("ORDER BY RANK over several partitions needs TOP or LIMIT."));
    };
    // Clients that fuse ranks do not look for equal rows.
    if query.distinct.is_some() {
        return Err(unserved("DISTINCT with ORDER BY RANK is not served over several partitions."));
    }
    let payload = match &query.output {
        Output::Star(_) => alias.clone(),
        Output::Value(expr) => expr.to_string(),
        Output::List(items) => super::rewrite::list_payload(items),
    };
    let filter = match &query.filter {
        Some(filter) => format!("(({filter}) AND ({PLACEHOLDER}))"),
        None => format!("({PLACEHOLDER})"),
    };
    let from = &query.from[0];
    let top = all.saturating_mul(OVERSAMPLE).clamp(COMPONENT_ROWS_MIN, limits::COUNT_MAX);
    let found: Vec<String> = rank.components.iter().zip(&all_scores).map(or_worst).collect();
    let info = |(component, score): (&Component, &String)| {
        // Ranks go backwards where the weight is negative.
        let backwards = component.weight < 0.0;
        let nearest = matches!(component.score, Score::Vector { ascending: true, .. });
        let ascending = nearest != backwards;
        let direction = match &component.score {
            Score::Text { .. } if !backwards => " DESC",
            _ => "",
        };
        Info {
            distinct: "None",
            top: Some(top),
            order_by: vec![!ascending],
            order_by_expressions: vec![score.clone()],
            rewritten: format!(
                "SELECT TOP {top} {alias}._rid, [{{\"item\": {score}}}] AS orderByItems, \
                 {{\"payload\": {payload}, \"componentScores\": [{}]}} AS payload FROM {from} \
                 WHERE {filter} ORDER BY {score}{direction}",
                found.join(", "),
            ),
            non_streaming: true,
            ..Info::default()
        }
    };
    Ok(Hybrid {
        statistics: statistics(rank, &calls, from),
        components: rank.components.iter().zip(&all_scores).map(info).collect(),
        weights: rank.components.iter().map(|component| component.weight).collect(),
        skip,
        take,
        needs_statistics: rank.components.iter().any(|c| matches!(c.score, Score::Text { .. })),
    })
}

/// The calls that give the scores.
fn components_of(expr: Option<&Expr>) -> Vec<&Expr> {
    let Some(expr) = expr else { return Vec::new() };
    match &expr.kind {
        ExprKind::Call(name, arguments) if name.text.eq_ignore_ascii_case("RRF") => {
            arguments.iter().filter(|e| matches!(e.kind, ExprKind::Call(..))).collect()
        }
        _ => vec![expr],
    }
}

/// The scores as expressions, words with the statistics that clients put in.
fn scored(rank: &Rank, calls: &[&Expr]) -> Vec<String> {
    let mut texts = 0;
    let score = |(component, call): (&Component, &&Expr)| match &component.score {
        Score::Vector { .. } => call.to_string(),
        Score::Text { .. } => {
            let ExprKind::Call(_, arguments) = &call.kind else { return call.to_string() };
            let words: Vec<String> = arguments[1..].iter().map(Expr::to_string).collect();
            let at = texts;
            texts += 1;
            format!(
                "_FullTextScore({}, [{}], {TOTAL_DOCUMENTS}, \
                 {{documentdb-formattablehybridsearchquery-totalwordcount-{at}}}, \
                 {{documentdb-formattablehybridsearchquery-hitcountsarray-{at}}})",
                arguments[0],
                words.join(", ")
            )
        }
    };
    rank.components.iter().zip(calls).map(score).collect()
}

/// Counts over all items, whatever the filter.
fn statistics(rank: &Rank, calls: &[&Expr], from: &crate::ast::FromItem) -> String {
    let mut all = Vec::new();
    for (component, call) in rank.components.iter().zip(calls) {
        let (Score::Text { .. }, ExprKind::Call(_, arguments)) = (&component.score, &call.kind)
        else {
            continue;
        };
        let text = &arguments[0];
        let hits: Vec<String> = arguments[1..]
            .iter()
            .map(|word| format!("COUNTIF(FullTextContains({text}, {word}))"))
            .collect();
        all.push(format!(
            "{{\"totalWordCount\": SUM(_FullTextWordCount({text})), \"hitCounts\": [{}]}}",
            hits.join(", ")
        ));
    }
    format!(
        "SELECT COUNT(1) AS documentCount, [{}] AS fullTextStatistics FROM {from}",
        all.join(", ")
    )
}

impl Hybrid {
    pub(super) fn to_json(&self) -> Value {
        let components: Vec<Value> = self.components.iter().map(Info::to_json).collect();
        json!({
            "globalStatisticsQuery": self.statistics,
            "componentQueryInfos": components,
            "componentWithoutPayloadQueryInfos": [],
            "projectionQueryInfo": null,
            "componentWeights": self.weights,
            "skip": self.skip,
            "take": self.take,
            "requiresGlobalStatistics": self.needs_statistics,
        })
    }
}
