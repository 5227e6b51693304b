//! Regular expressions, matched in time that grows with the text alone.
//!
//! Look-around and references back cannot be matched so; they are refused.

use std::sync::{Arc, Mutex, PoisonError};

use model::{Error, Result};
use regex::{Regex, RegexBuilder};

use crate::function::Call;
use crate::limits;
use crate::value::Value;

/// A pattern as it was given, and compiled.
struct Compiled {
    pattern: String,
    modifiers: String,
    regex: Regex,
}

/// The last pattern of a place in the query: nearly always the only one. It is shared, not cloned:
/// what a compiled pattern learns while it matches stays with it.
type Last = Mutex<Option<Arc<Compiled>>>;

pub(super) fn regex_match<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(text), Some(pattern)) = (arguments[0].as_str(), arguments[1].as_str()) else {
        return Ok(Value::Undefined);
    };
    let modifiers = arguments.get(2).and_then(Value::as_str).unwrap_or("");
    call.budget.spend(1 + text.len() as u64 / 16)?;
    Ok(compiled(call, pattern, modifiers)?.regex.is_match(text).into())
}

fn compiled(call: &Call<'_>, pattern: &str, modifiers: &str) -> Result<Arc<Compiled>> {
    let fresh = || -> Result<Arc<Compiled>> {
        let regex = compile(call, pattern, modifiers)?;
        let (pattern, modifiers) = (pattern.to_owned(), modifiers.to_owned());
        Ok(Arc::new(Compiled { pattern, modifiers, regex }))
    };
    let memo = call.memo.get_or_init(|| Box::new(Last::default()));
    let Some(last) = memo.downcast_ref::<Last>() else { return fresh() };
    // Nothing panics while it holds the lock; were it so, what is there would still be whole.
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some(known) if known.pattern == pattern && known.modifiers == modifiers => {
            Ok(Arc::clone(known))
        }
        _ => Ok(Arc::clone(last.insert(fresh()?))),
    }
}

fn compile(call: &Call<'_>, pattern: &str, modifiers: &str) -> Result<Regex> {
    if pattern.len() > limits::PATTERN_BYTES {
        return Err(crate::error::too_much("bytes of a pattern", limits::PATTERN_BYTES));
    }
    // A pattern for each item is allowed, but not for nothing.
    call.budget.spend(limits::PATTERN_STEPS)?;
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(limits::PATTERN_PROGRAM_BYTES);
    builder.dfa_size_limit(limits::PATTERN_PROGRAM_BYTES);
    for modifier in modifiers.chars() {
        match modifier {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            other => {
                return Err(Error::bad_request(format!(
                    "REGEXMATCH knows the modifiers i, m, s and x, but not '{other}'"
                )));
            }
        };
    }
    builder.build().map_err(|error| {
        let all = error.to_string();
        let last = all.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Error::bad_request(format!("REGEXMATCH cannot use its pattern: {last}"))
    })
}
