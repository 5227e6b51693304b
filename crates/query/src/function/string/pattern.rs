//! Regular expressions, matched in time that grows with the text alone.
//!
//! Look-around and references back cannot be matched so; they are refused.

use std::sync::Mutex;

use model::{Error, Result};
use regex::{Regex, RegexBuilder};

use crate::function::Call;
use crate::limits;
use crate::value::Value;

/// The last pattern of a place in the query: nearly always the only one.
struct Compiled {
    pattern: String,
    modifiers: String,
    regex: Regex,
}

pub(super) fn regex_match<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (Some(text), Some(pattern)) = (arguments[0].as_str(), arguments[1].as_str()) else {
        return Ok(Value::Undefined);
    };
    let modifiers = arguments.get(2).and_then(Value::as_str).unwrap_or("");
    call.budget.spend(1 + text.len() as u64 / 16)?;
    let memo = call.memo.get_or_init(|| Box::new(Mutex::new(None::<Compiled>)));
    let Some(memo) = memo.downcast_ref::<Mutex<Option<Compiled>>>() else {
        return Ok(compile(call, pattern, modifiers)?.is_match(text).into());
    };
    // Nothing panics while it holds the lock; were it so, the pattern would be compiled again.
    let mut memo = memo.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = memo.as_ref().filter(|c| c.pattern == pattern && c.modifiers == modifiers);
    let regex = match known {
        Some(compiled) => compiled.regex.clone(),
        None => {
            let regex = compile(call, pattern, modifiers)?;
            let (pattern, modifiers) = (pattern.to_owned(), modifiers.to_owned());
            *memo = Some(Compiled { pattern, modifiers, regex: regex.clone() });
            regex
        }
    };
    drop(memo);
    Ok(regex.is_match(text).into())
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
