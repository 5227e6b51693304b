//! Words and phrases sought in a text, in one pass over it.

use std::collections::{HashMap, VecDeque};

use model::Result;

use super::phrase::Phrase;
use crate::function::Call;
use crate::function::text::{self, Language, Token, language, tokens, words};
use crate::value::Value;

pub(super) fn contains_all<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    contains(call, arguments, |found, sought| found == sought)
}

pub(super) fn contains_any<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    contains(call, arguments, |found, _| found > 0)
}

pub(super) fn word_count<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(text) = arguments[0].as_str() else { return Ok(Value::Undefined) };
    call.budget.spend(text.len() as u64 / 4)?;
    let count = tokens(text, language_of(call)).count();
    Ok(Value::int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// The score by statistics that were counted elsewhere.
pub(super) fn score<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let language = language_of(call);
    let Some(text) = arguments[0].as_str() else { return Ok(Value::Undefined) };
    call.budget.spend(1 + text.len() as u64 / 4)?;
    let mut length = 0_u32;
    let mut counts: HashMap<String, u32> = HashMap::new();
    for word in words(text, language) {
        length += 1;
        *counts.entry(word).or_default() += 1;
    }
    let terms = arguments[1].elements().into_iter().flatten();
    let hits = arguments[4].elements().into_iter().flatten();
    let mut found = Vec::new();
    for (term, hits) in terms.zip(hits) {
        let (Some(term), Some(hits)) = (term.as_str(), hits.as_f64()) else {
            return Ok(Value::Undefined);
        };
        call.budget.spend(1 + term.len() as u64 / 4)?;
        let count = |word: String| f64::from(counts.get(&word).copied().unwrap_or(0));
        // A phrase is there as often as its rarest word, at most.
        let count = words(term, language).map(count).reduce(f64::min).unwrap_or(0.0);
        found.push((count, hits));
    }
    let number = |at: usize| arguments[at].as_f64().unwrap_or(0.0);
    let score = text::score(found.into_iter(), f64::from(length), number(2), number(3));
    Ok(Value::number(score))
}

/// The text is in the language of its path.
fn language_of(call: &Call<'_>) -> Language {
    language(call.paths.first().and_then(Option::as_deref), call.settings)
}

fn contains<'a>(
    call: &Call<'_>,
    arguments: &[Value<'a>],
    enough: fn(usize, usize) -> bool,
) -> Result<Value<'a>> {
    let language = language_of(call);
    let phrases = arguments[1..].iter().map(|term| Phrase::of(term, language));
    let (Some(text), Some(phrases)) = (arguments[0].as_str(), phrases.collect::<Option<Vec<_>>>())
    else {
        return Ok(Value::Undefined);
    };
    call.budget.spend(1 + text.len() as u64 / 4)?;
    let found = found_in(call, text, language, &phrases, enough)?;
    Ok(Value::Bool(enough(found, phrases.len())))
}

/// How many of the phrases are in the text; counted until they are enough.
fn found_in(
    call: &Call<'_>,
    text: &str,
    language: Language,
    phrases: &[Phrase],
    enough: fn(usize, usize) -> bool,
) -> Result<usize> {
    // As much of the text as the longest phrase may cover.
    let span = phrases.iter().map(Phrase::span).max().unwrap_or(0);
    let mut window: VecDeque<Token> = VecDeque::new();
    let mut missing: Vec<&Phrase> = phrases.iter().collect();
    for token in tokens(text, language) {
        while window.front().is_some_and(|first| first.place + span < token.place) {
            window.pop_front();
        }
        window.push_back(token);
        call.budget.spend(missing.len() as u64)?;
        missing.retain(|phrase| !phrase.ends(&window));
        let found = phrases.len() - missing.len();
        if enough(found, phrases.len()) {
            break;
        }
    }
    Ok(phrases.len() - missing.len())
}
