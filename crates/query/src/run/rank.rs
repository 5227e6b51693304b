//! `ORDER BY RANK`: scores by words (BM25) and by vectors, alone or fused by their ranks.
//!
//! Words are weighed against all items in reach, not only those that pass the filter: a full-text
//! index says how many those are, or every item is looked at. The scores of all rows are held, up
//! to the limit.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use model::Result;

use super::place::foreign;
use super::postings::Postings;
use super::{Page, Place, Run, Sheet};
use crate::bind::{Component, Score};
use crate::error::too_much;
use crate::eval::Frame;
use crate::function::text;
use crate::limits;
use crate::plan::Access;
use crate::source::{Document, Source};
use crate::value::identity_into;

/// How little the very first ranks count more than the next.
const RRF_K: f64 = 60.0;

/// What a component knows of one row.
enum Part {
    /// How often each term occurs, and how many words there are.
    Words(Vec<u32>, u32),
    Distance(f64),
    Nothing,
}

struct Row {
    item: Bytes,
    row: Bytes,
    /// By what equal rows are known; empty where they need not be.
    identity: Vec<u8>,
    parts: Vec<Part>,
}

/// What a component of words knows of all items.
#[derive(Default, Clone)]
pub(super) struct Corpus {
    pub items: u64,
    pub words: u64,
    /// Items that have each term.
    pub hits: Vec<u64>,
}

impl<S: Source> Run<'_, S> {
    pub(super) async fn ranked(&self, mut sheet: Sheet, place: Place) -> Result<Page> {
        let given = match place {
            Place::Start => 0,
            Place::Count { rows } => rows,
            _ => return Err(foreign()),
        };
        let Some(rank) = &self.bound().order.rank else { return Err(foreign()) };
        let components = &rank.components;
        let terms = self.terms(components)?;
        let mut known = Vec::with_capacity(components.len());
        for (component, terms) in components.iter().zip(&terms) {
            known.push(self.postings(component, terms, &mut sheet).await?);
        }
        let distinct = self.block().distinct;
        if let ([Some(postings)], false) = (&known[..], rank.fused || distinct) {
            let wanted = usize::try_from(given).unwrap_or(usize::MAX).saturating_add(sheet.room());
            if let Some(rows) = self.best_rows(postings, wanted, &mut sheet).await? {
                sheet.metrics.instead =
                    Some(format!("best of the words of {}", terms[0].join(", ")));
                return give(sheet, rows.into_iter(), given, true);
            }
        }
        let (rows, corpora) = self.all_rows(components, &terms, &known, &mut sheet).await?;
        let mut order = order(components, &corpora, &rows, rank.fused);
        if distinct {
            let mut seen = HashSet::new();
            order.retain(|at| seen.insert(&rows[*at].identity));
        }
        give(sheet, order.into_iter().map(|at| rows[at].row.clone()), given, false)
    }

    /// The rows that pass the filter, and what all items say of words: the index where there is
    /// one, or the items themselves.
    async fn all_rows(
        &self,
        components: &[Component],
        terms: &[Vec<String>],
        known: &[Option<Postings>],
        sheet: &mut Sheet,
    ) -> Result<(Vec<Row>, Vec<Corpus>)> {
        let is_text = |component: &Component| matches!(component.score, Score::Text { .. });
        let mut parts = components.iter().zip(known);
        let all_known = parts.all(|(component, known)| known.is_some() || !is_text(component));
        let access = if all_known { &self.plan.access } else { &Access::Documents };
        let empty =
            |terms: &Vec<String>| Corpus { hits: vec![0; terms.len()], ..Corpus::default() };
        let mut corpora: Vec<Corpus> = terms.iter().map(empty).collect();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut cursor = self.cursor(access);
        while !cursor.has_ended() {
            let chunk = cursor.next(&mut sheet.metrics).await?;
            let mut ahead = self.ahead(&chunk);
            for (at, found) in chunk.iter().enumerate() {
                ahead.item(at);
                let row = self.row(components, terms, &mut corpora, &found.document)?;
                if let Some(row) = row {
                    bytes += row.row.len() + row.item.len() + row.identity.len();
                    bytes += 32 * (row.parts.len() + 1);
                    rows.push(row);
                }
                if bytes > limits::MEMORY_BYTES {
                    return Err(too_much("bytes of ranked rows", limits::MEMORY_BYTES));
                }
                self.breathe().await?;
            }
        }
        for (corpus, known) in corpora.iter_mut().zip(known) {
            if let Some(known) = known {
                *corpus = known.corpus.clone();
            }
        }
        Ok((rows, corpora))
    }

    /// The words that each component looks for.
    fn terms(&self, components: &[Component]) -> Result<Vec<Vec<String>>> {
        let mut frame = Frame::empty(self.context, self.bound().slots);
        let mut all = Vec::with_capacity(components.len());
        for component in components {
            let mut words = Vec::new();
            if let Score::Text { path, terms, .. } = &component.score {
                let language = text::language(path.as_deref(), self.context.settings);
                for term in terms {
                    if let Some(term) = term.eval(&mut frame)?.as_str() {
                        words.extend(text::words(term, language));
                    }
                }
                words.sort_unstable();
                words.dedup();
            }
            all.push(words);
        }
        Ok(all)
    }

    /// What one item adds to the corpora, and its row if it passes the filter.
    fn row(
        &self,
        components: &[Component],
        terms: &[Vec<String>],
        corpora: &mut [Corpus],
        document: &Document,
    ) -> Result<Option<Row>> {
        let block = self.block();
        self.context.budget.begin_row();
        let mut frame = Frame::new(self.context, self.bound().slots, &document.body);
        let mut parts = Vec::with_capacity(components.len());
        for ((component, terms), corpus) in components.iter().zip(terms).zip(corpora) {
            parts.push(match &component.score {
                Score::Vector { distance, .. } => {
                    distance.eval(&mut frame)?.as_f64().map_or(Part::Nothing, Part::Distance)
                }
                Score::Text { text, path, .. } => {
                    let language = text::language(path.as_deref(), self.context.settings);
                    match text.eval(&mut frame)?.as_str() {
                        Some(text) => words_of(text, language, terms, corpus),
                        None => Part::Nothing,
                    }
                }
            });
        }
        let mut out = Vec::new();
        if !block.passes(&mut frame)? {
            return Ok(None);
        }
        let value = block.output(&mut frame)?;
        let mut identity = Vec::new();
        if block.distinct {
            identity_into(&value, &mut identity);
        }
        let item = document.key.clone();
        Ok(value.write_into(&mut out).then(|| Row { item, row: out.into(), identity, parts }))
    }
}

/// A page of rows in their order, of which some were given before. Whether there are more behind
/// the last one is known, or there may be.
fn give(
    mut sheet: Sheet,
    rows: impl ExactSizeIterator<Item = Bytes>,
    mut given: u64,
    may_have_more: bool,
) -> Result<Page> {
    let count = rows.len() as u64;
    for row in rows.skip(usize::try_from(given).unwrap_or(usize::MAX)) {
        sheet.put_row(row)?;
        given += 1;
        if sheet.is_full() {
            break;
        }
    }
    let more = may_have_more || given < count;
    Ok(sheet.finish(more.then_some(Place::Count { rows: given })))
}

fn words_of(text: &str, language: text::Language, terms: &[String], corpus: &mut Corpus) -> Part {
    let mut counts: HashMap<String, u32> = HashMap::new();
    let mut length = 0;
    for word in text::words(text, language) {
        length += 1;
        *counts.entry(word).or_default() += 1;
    }
    let found: Vec<u32> = terms.iter().map(|term| counts.get(term).copied().unwrap_or(0)).collect();
    corpus.items += 1;
    corpus.words += u64::from(length);
    for (hits, found) in corpus.hits.iter_mut().zip(&found) {
        *hits += u64::from(*found > 0);
    }
    Part::Words(found, length)
}

/// The rows from best to worst.
fn order(components: &[Component], corpora: &[Corpus], rows: &[Row], fused: bool) -> Vec<usize> {
    let mut totals = vec![0.0; rows.len()];
    for (at, component) in components.iter().enumerate() {
        let scores: Vec<f64> =
            rows.iter().map(|row| score(component, &corpora[at], &row.parts[at])).collect();
        if !fused {
            totals = scores;
            continue;
        }
        for (total, rank) in totals.iter_mut().zip(ranks(&scores, component.weight < 0.0)) {
            *total += component.weight / (RRF_K + rank as f64);
        }
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| {
        totals[*b].total_cmp(&totals[*a]).then_with(|| rows[*a].item.cmp(&rows[*b].item))
    });
    order
}

/// More is better; what cannot be scored is worst.
fn score(component: &Component, corpus: &Corpus, part: &Part) -> f64 {
    match (part, &component.score) {
        (Part::Distance(distance), Score::Vector { ascending: true, .. }) => -distance,
        (Part::Distance(distance), _) => *distance,
        (Part::Words(found, length), _) => {
            let found = found.iter().zip(&corpus.hits);
            let counts = found.map(|(count, hits)| (f64::from(*count), *hits as f64));
            text::score(counts, f64::from(*length), corpus.items as f64, corpus.words as f64)
        }
        (Part::Nothing, _) => f64::NEG_INFINITY,
    }
}

/// Ranks from 1, each the next after the one before, which ties share: so do the clients that fuse
/// ranks themselves. Backwards where the weight is negative.
fn ranks(scores: &[f64], backwards: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    if backwards {
        order.reverse();
    }
    let mut ranks = vec![0; scores.len()];
    let mut previous: Option<(f64, usize)> = None;
    for at in order {
        let rank = match previous {
            Some((score, rank)) if score == scores[at] => rank,
            Some((_, rank)) => rank + 1,
            None => 1,
        };
        previous = Some((scores[at], rank));
        ranks[at] = rank;
    }
    ranks
}
