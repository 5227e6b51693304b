//! The items whose texts fit some words best, for clients that rank themselves: scored from the
//! postings of a full-text index, until enough of them pass the filter.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use model::Result;

use super::postings::Scored;
use super::{Run, Sheet};
use crate::function::text;
use crate::plan::{Access, BestWords};
use crate::source::Source;

impl<S: Source> Run<'_, S> {
    /// Reads what a full-text index finds best instead of what was planned, where it finds enough.
    /// Otherwise items without any of the words have their place too.
    pub(super) async fn ask_words(&mut self, sheet: &mut Sheet) -> Result<()> {
        let Some(best) = self.plan.words.clone() else { return Ok(()) };
        let mut words: Vec<&String> = best.terms.iter().flat_map(|(words, _)| words).collect();
        words.sort_unstable();
        words.dedup();
        let mut items = Some(HashMap::new());
        for (at, word) in words.iter().enumerate() {
            self.gather(&best.path, (at, word, words.len()), &mut items, sheet).await?;
        }
        let Some(order) = items.map(|items| best.order(&words, items)) else { return Ok(()) };
        let (mut passed, mut looked_at) = (Vec::new(), 0);
        while passed.len() < best.count {
            if looked_at >= order.len() {
                return Ok(());
            }
            // All that stand equal to the last one: which of them come first is not decided here.
            let least = order[(looked_at + best.count).min(order.len()) - 1].0;
            let end = order.partition_point(|(score, _)| *score >= least);
            let chunk: Vec<Bytes> =
                order[looked_at..end].iter().map(|(_, item)| item.clone()).collect();
            self.passing(&chunk, &mut passed, &mut sheet.metrics).await?;
            looked_at = end;
        }
        passed.sort_unstable();
        Arc::make_mut(&mut self.plan).access = Access::Items(passed.into());
        Ok(())
    }
}

impl BestWords {
    /// Items from best to worst, those with no score at all left out.
    fn order(&self, words: &[&String], items: HashMap<Bytes, Scored>) -> Vec<(f64, Bytes)> {
        let terms: Vec<(Vec<usize>, f64)> = self
            .terms
            .iter()
            .map(|(term, hits)| {
                let places = term.iter().filter_map(|word| words.binary_search(&word).ok());
                (places.collect(), *hits)
            })
            .collect();
        let score = |scored: &Scored| {
            let found = terms.iter().map(|(places, hits)| {
                // A phrase is there as often as its rarest word, at most.
                let count = places.iter().map(|at| scored.counts[*at]).min().unwrap_or(0);
                (f64::from(count), *hits)
            });
            text::score(found, f64::from(scored.length), self.texts, self.words)
        };
        let mut order: Vec<(f64, Bytes)> = items
            .into_iter()
            .map(|(item, scored)| (score(&scored), item))
            .filter(|(score, _)| *score > 0.0)
            .collect();
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        order
    }
}
