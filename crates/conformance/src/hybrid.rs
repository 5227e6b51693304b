//! Plans that fuse ranks, carried out as the official SDKs do: statistics of all ranges first, then
//! one query per component, whose rows are ranked by each score and put together by their ranks.

use std::collections::BTreeMap;

use crate::fan_out::{Answer, Ask, Certainty, range_rows};
use crate::json::{Json, quoted};
use crate::order::number;

const PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";
const STATISTICS: &str = "documentdb-formattablehybridsearchquery";
/// How little the very first ranks count more than the next.
const RANK_OFFSET: f64 = 60.0;

/// The rows of a query with such a plan.
pub(crate) fn rows(
    ask: Ask<'_>,
    ranges: &[String],
    plan: &Json,
    (parameters, per_page): (&str, usize),
) -> Result<Answer, String> {
    let body = |text: &str| format!(r#"{{"query":{},"parameters":{parameters}}}"#, quoted(text));
    let text = |at: &str| plan.pointer(at).and_then(Json::text).ok_or(format!("no {at}"));
    let mut counts = Counts::default();
    if matches!(plan.get("requiresGlobalStatistics"), Some(Json::Bool(true))) {
        let asked = body(text("/globalStatisticsQuery")?);
        for range in ranges {
            for row in range_rows(ask, range, &asked, per_page)? {
                counts.add(&row)?;
            }
        }
    }
    let components =
        plan.get("componentQueryInfos").and_then(Json::items).ok_or("no components")?;
    let mut found: BTreeMap<String, Json> = BTreeMap::new();
    for at in 0..components.len() {
        let asked = counts.put_into(text(&format!("/componentQueryInfos/{at}/rewrittenQuery"))?);
        for range in ranges {
            for row in range_rows(ask, range, &body(&asked), per_page)? {
                let rid = row.get("_rid").and_then(Json::text).ok_or("a row without _rid")?;
                found.insert(rid.to_owned(), row);
            }
        }
    }
    let rows: Vec<Json> = found.into_values().collect();
    let totals = totals(plan, components, &rows)?;
    Ok(ranked(plan, rows, &totals))
}

/// What each row is worth: its one score, or its ranks fused.
fn totals(plan: &Json, components: &[Json], rows: &[Json]) -> Result<Vec<f64>, String> {
    let mut totals = vec![0.0; rows.len()];
    for (at, component) in components.iter().enumerate() {
        let ascending =
            component.pointer("/orderBy/0").and_then(Json::text).ok_or("no order")? == "Ascending";
        let score = |row: &Json| match row.pointer(&format!("/payload/componentScores/{at}")) {
            Some(Json::Number(score)) if ascending => Ok(-number(score)),
            Some(Json::Number(score)) => Ok(number(score)),
            other => Err(format!("a score that is {other:?}")),
        };
        let scores = rows.iter().map(score).collect::<Result<Vec<f64>, String>>()?;
        if components.len() == 1 {
            return Ok(scores);
        }
        let weight = match plan.pointer(&format!("/componentWeights/{at}")) {
            Some(Json::Number(weight)) => number(weight),
            _ => 1.0,
        };
        let mut different = scores.clone();
        different.sort_by(|a, b| b.total_cmp(a));
        different.dedup();
        for (total, score) in totals.iter_mut().zip(&scores) {
            let better = different.partition_point(|other| other > score);
            *total += weight / (RANK_OFFSET + (better + 1) as f64);
        }
    }
    Ok(totals)
}

/// The rows from best to worst, as many as are wanted.
fn ranked(plan: &Json, rows: Vec<Json>, totals: &[f64]) -> Answer {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| totals[*b].total_cmp(&totals[*a]));
    let ties = order.windows(2).any(|pair| totals[pair[0]] == totals[pair[1]]);
    let count = |name: &str| match plan.get(name) {
        Some(Json::Number(count)) => count.parse::<usize>().ok(),
        _ => None,
    };
    let (skip, take) = (count("skip").unwrap_or(0), count("take").unwrap_or(usize::MAX));
    let cut = skip > 0 || take < rows.len();
    let certainty = match (ties, cut) {
        (false, _) => Certainty::Order,
        (true, false) => Certainty::Set,
        (true, true) => Certainty::Count,
    };
    let chosen = order.into_iter().skip(skip).take(take);
    let payload = |at: usize| rows[at].pointer("/payload/payload").cloned();
    Answer::Rows(chosen.filter_map(payload).collect(), certainty)
}

/// Counts of all ranges.
#[derive(Default)]
struct Counts {
    documents: f64,
    /// Words, and texts that have each term.
    texts: Vec<(f64, Vec<f64>)>,
}

impl Counts {
    fn add(&mut self, row: &Json) -> Result<(), String> {
        let read = |value: Option<&Json>| match value {
            Some(Json::Number(count)) => number(count),
            // No text at all.
            _ => 0.0,
        };
        self.documents += read(row.get("documentCount"));
        let texts = row.get("fullTextStatistics").and_then(Json::items).ok_or("no statistics")?;
        self.texts.resize(texts.len(), (0.0, Vec::new()));
        for (known, text) in self.texts.iter_mut().zip(texts) {
            known.0 += read(text.get("totalWordCount"));
            let hits = text.get("hitCounts").and_then(Json::items).ok_or("no hits")?;
            known.1.resize(hits.len(), 0.0);
            known.1.iter_mut().zip(hits).for_each(|(known, hits)| *known += read(Some(hits)));
        }
        Ok(())
    }

    fn put_into(&self, query: &str) -> String {
        let mut query = query.replace(PLACEHOLDER, "true");
        query = query
            .replace(&format!("{{{STATISTICS}-totaldocumentcount}}"), &self.documents.to_string());
        for (at, (words, hits)) in self.texts.iter().enumerate() {
            let hits: Vec<String> = hits.iter().map(f64::to_string).collect();
            query = query
                .replace(&format!("{{{STATISTICS}-totalwordcount-{at}}}"), &words.to_string())
                .replace(
                    &format!("{{{STATISTICS}-hitcountsarray-{at}}}"),
                    &format!("[{}]", hits.join(",")),
                );
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_a_rank_and_the_next_is_the_next() {
        let plan = Json::parse(r#"{"componentWeights":[1,2]}"#).expect("a plan");
        let component = Json::parse(r#"{"orderBy":["Descending"]}"#).expect("a component");
        let row = |one: &str, other: &str| {
            let text = format!(r#"{{"payload":{{"componentScores":[{one},{other}]}}}}"#);
            Json::parse(&text).expect("a row")
        };
        let rows = [row("5", "1"), row("5", "2"), row("3", "3")];
        let totals = totals(&plan, &[component.clone(), component], &rows).expect("totals");
        let fused = |one: f64, other: f64| 1.0 / (60.0 + one) + 2.0 / (60.0 + other);
        assert_eq!(totals, [fused(1.0, 3.0), fused(1.0, 2.0), fused(2.0, 1.0)]);
    }
}
