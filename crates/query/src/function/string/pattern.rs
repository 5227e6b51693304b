//! Regular expressions, matched in time that grows with the text alone.
//!
//! Look-around and references back cannot be matched so; they are refused.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use model::{Error, Result};
use regex::{Regex, RegexBuilder};

use super::cut;
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
    spend_on(call, text)?;
    Ok(compiled(call, pattern, modifiers)?.regex.is_match(text).into())
}

pub(super) fn regex_extract<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(Matched { text, groups }) = matched(call, arguments, true)? else {
        return Ok(Value::Undefined);
    };
    let first = groups.into_iter().next().flatten();
    Ok(first.map_or(Value::Undefined, |group| cut::slice(text, group)))
}

pub(super) fn regex_extract_all<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let Some(Matched { text, groups }) = matched(call, arguments, false)? else {
        return Ok(Value::Undefined);
    };
    call.budget.build(text.len() + groups.len() * size_of::<Value<'_>>())?;
    Ok(Value::array(groups.into_iter().flatten().map(|group| cut::slice(text, group)).collect()))
}

pub(super) fn regex_replace<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    replaced(call, arguments, true)
}

pub(super) fn regex_replace_all<'a>(call: &Call<'_>, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    replaced(call, arguments, false)
}

fn replaced<'a>(call: &Call<'_>, arguments: &[Value<'a>], once: bool) -> Result<Value<'a>> {
    let (Value::String(text), Some(pattern), Some(new)) =
        (&arguments[0], arguments[1].as_str(), arguments[2].as_str())
    else {
        return Ok(Value::Undefined);
    };
    let modifiers = arguments.get(3).and_then(Value::as_str).unwrap_or("");
    let compiled = compiled(call, pattern, modifiers)?;
    let places = places(call, &compiled.regex, text, 0, once)?;
    call.budget.build(text.len().saturating_add(places.len().saturating_mul(new.len())))?;
    let mut out = String::new();
    let mut copied = 0;
    for place in places.into_iter().flatten() {
        out.push_str(&text[copied..place.start]);
        out.push_str(new);
        copied = place.end;
    }
    out.push_str(&text[copied..]);
    Ok(Value::text(out))
}

/// A text, and where a group of a pattern matched in it.
struct Matched<'v, 'a> {
    text: &'v Cow<'a, str>,
    groups: Vec<Option<Range<usize>>>,
}

/// Text, pattern, modifiers and group; nothing where there is no such group.
fn matched<'v, 'a>(
    call: &Call<'_>,
    arguments: &'v [Value<'a>],
    once: bool,
) -> Result<Option<Matched<'v, 'a>>> {
    let (Value::String(text), Some(pattern)) = (&arguments[0], arguments[1].as_str()) else {
        return Ok(None);
    };
    let modifiers = arguments.get(2).and_then(Value::as_str).unwrap_or("");
    let group = arguments.get(3).and_then(Value::as_int).unwrap_or(0);
    let compiled = compiled(call, pattern, modifiers)?;
    let group = usize::try_from(group).ok().filter(|group| *group < compiled.regex.captures_len());
    let Some(group) = group else { return Ok(None) };
    let groups = places(call, &compiled.regex, text, group, once)?;
    Ok(Some(Matched { text, groups }))
}

/// Where a group matched, match by match, from the first to the last or only the first.
///
/// Every match may look at all that is left of the text before it is sure of its end, so that is
/// what it costs.
fn places(
    call: &Call<'_>,
    regex: &Regex,
    text: &str,
    group: usize,
    once: bool,
) -> Result<Vec<Option<Range<usize>>>> {
    let mut places = Vec::new();
    let mut from = 0;
    while from <= text.len() {
        spend_on(call, &text[from..])?;
        let (whole, place) = if group == 0 {
            let Some(whole) = regex.find_at(text, from) else { break };
            (whole.range(), Some(whole.range()))
        } else {
            let Some(captures) = regex.captures_at(text, from) else { break };
            let whole = captures.get(0).map_or(from..from, |whole| whole.range());
            (whole, captures.get(group).map(|group| group.range()))
        };
        places.push(place);
        if once {
            break;
        }
        // After an empty match the search goes on behind the next character.
        let step = text[whole.end..].chars().next().map_or(1, char::len_utf8);
        from = if whole.is_empty() { whole.end + step } else { whole.end };
    }
    Ok(places)
}

fn spend_on(call: &Call<'_>, text: &str) -> Result<()> {
    call.budget.spend(1 + text.len() as u64 / 16)
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
                    "regular expressions know the modifiers i, m, s and x, but not '{other}'"
                )));
            }
        };
    }
    builder.build().map_err(|error| {
        let all = error.to_string();
        let last = all.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Error::bad_request(format!("the regular expression cannot be used: {last}"))
    })
}
