//! Words and phrases sought in a text, in one pass over it.

use std::collections::VecDeque;

use model::Result;

use super::phrase::Phrase;
use crate::function::Call;
use crate::function::text::{Language, Token, language, tokens};
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
