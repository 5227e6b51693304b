//! Scores of words by a full-text index: from its postings alone, without the texts.

use std::collections::HashMap;

use bytes::Bytes;
use model::Result;

use super::rank::Corpus;
use super::{Run, Sheet};
use crate::bind::{Component, Score};
use crate::error::too_much;
use crate::eval::Frame;
use crate::function::text;
use crate::limits;
use crate::plan::index_path;
use crate::plan::path::member_names;
use crate::source::{IndexPath, Source};

/// Postings read at once.
const CHUNK_POSTINGS: usize = 1_000;
/// Items with any of the words that are scored from postings; of more, the texts are read.
const SCORED_MAX: usize = 200_000;

/// What postings say of one item: how often it has each word, and how long its text is.
pub(super) struct Scored {
    pub counts: Vec<u32>,
    pub length: u32,
}

/// All that a full-text index says of some words.
pub(super) struct Postings {
    pub corpus: Corpus,
    /// None where they are too many to hold.
    items: Option<HashMap<Bytes, Scored>>,
}

impl<S: Source> Run<'_, S> {
    /// What the index on the text of a component says of its words; none where there is none.
    pub(super) async fn postings(
        &self,
        component: &Component,
        terms: &[String],
        sheet: &mut Sheet,
    ) -> Result<Option<Postings>> {
        let Score::Text { text, .. } = &component.score else { return Ok(None) };
        let names = member_names(text, &self.bound().fields).filter(|names| !names.is_empty());
        let Some(path) = names.map(|names| index_path(&names)) else { return Ok(None) };
        if !self.source.covers_text(&path) {
            return Ok(None);
        }
        let Some(all) = self.source.texts(&path).await? else { return Ok(None) };
        let mut corpus = Corpus { items: all.texts, words: all.words, hits: Vec::new() };
        let mut items = Some(HashMap::new());
        for (at, word) in terms.iter().enumerate() {
            let word = (at, word.as_str(), terms.len());
            corpus.hits.push(self.gather(&path, word, &mut items, sheet).await?);
        }
        Ok(Some(Postings { corpus, items }))
    }

    /// Reads the postings of a word; how many there are.
    pub(super) async fn gather(
        &self,
        path: &IndexPath,
        (at, word, words): (usize, &str, usize),
        items: &mut Option<HashMap<Bytes, Scored>>,
        sheet: &mut Sheet,
    ) -> Result<u64> {
        let (mut hits, mut after) = (0, None);
        loop {
            let chunk = self.source.postings(path, word, after.as_ref(), CHUNK_POSTINGS).await?;
            hits += chunk.rows.len() as u64;
            sheet.metrics.entries += chunk.rows.len() as u64;
            after = chunk.rows.last().map(|posting| posting.item.clone());
            if let Some(known) = items {
                for posting in chunk.rows {
                    let empty = || Scored { counts: vec![0; words], length: posting.length };
                    known.entry(posting.item).or_insert_with(empty).counts[at] = posting.count;
                }
            }
            if items.as_ref().is_some_and(|known| known.len() > SCORED_MAX) {
                *items = None;
            }
            self.context.budget.begin_row();
            self.context.budget.spend(CHUNK_POSTINGS as u64)?;
            self.breathe().await?;
            if !chunk.more || after.is_none() {
                return Ok(hits);
            }
        }
    }

    /// The first rows from best to worst, as many as are wanted; none where fewer items than that
    /// have any of the words, so that others have their place too.
    pub(super) async fn best_rows(
        &self,
        postings: &Postings,
        wanted: usize,
        sheet: &mut Sheet,
    ) -> Result<Option<Vec<Bytes>>> {
        let Some(order) = postings.order().filter(|order| order.len() >= wanted) else {
            return Ok(None);
        };
        let block = self.block();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut rest = &order[..];
        while !rest.is_empty() {
            let most = limits::CHUNK_DOCUMENTS.min(wanted.max(1));
            for (_, body) in self.fetch_next(&mut rest, most).await? {
                sheet.metrics.documents += 1;
                sheet.metrics.document_bytes += body.len() as u64;
                self.context.budget.begin_row();
                let mut frame = Frame::new(self.context, self.bound().slots, &body);
                let mut out = Vec::new();
                if block.passes(&mut frame)? && block.output(&mut frame)?.write_into(&mut out) {
                    sheet.metrics.kept += 1;
                    bytes += out.len();
                    rows.push(Bytes::from(out));
                }
                if bytes > limits::MEMORY_BYTES {
                    return Err(too_much("bytes of ranked rows", limits::MEMORY_BYTES));
                }
                if rows.len() >= wanted {
                    return Ok(Some(rows));
                }
                self.breathe().await?;
            }
        }
        Ok(None)
    }
}

impl Postings {
    /// Items from best to worst; of equal ones in the order of keys. None where they are too many.
    fn order(&self) -> Option<Vec<Bytes>> {
        let corpus = &self.corpus;
        let score = |scored: &Scored| {
            let counts = scored.counts.iter().zip(&corpus.hits);
            let counts = counts.map(|(count, hits)| (f64::from(*count), *hits as f64));
            let length = f64::from(scored.length);
            text::score(counts, length, corpus.items as f64, corpus.words as f64)
        };
        let items = self.items.as_ref()?;
        let mut order: Vec<(f64, &Bytes)> =
            items.iter().map(|(item, scored)| (score(scored), item)).collect();
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        Some(order.into_iter().map(|(_, item)| item.clone()).collect())
    }
}
