//! Computed properties: which names and which queries may define them.
//!
//! The queries are looked at as a row of words, not parsed: enough to refuse at once what no
//! computed property may contain. Whether the rest is a sound expression is for the query
//! language to say.

use serde_json::{Map, Value};

use super::field;
use crate::{Error, Result, limits};

const RESERVED_NAMES: &[&str] = &["id", "_rid", "_self", "_etag", "_ts", "_attachments"];

/// Words that are refused wherever they are not a name.
const FORBIDDEN_WORDS: &[&str] = &[
    "SELECT", "WHERE", "GROUP", "ORDER", "TOP", "DISTINCT", "OFFSET", "LIMIT", "EXISTS", "ALL",
    "LAST", "FIRST", "NONE", "JOIN",
];

/// Functions that are refused: aggregates, and those that answer differently each time.
const FORBIDDEN_FUNCTIONS: &[&str] = &[
    "COUNT",
    "SUM",
    "MIN",
    "MAX",
    "AVG",
    "RAND",
    "GETCURRENTDATETIME",
    "GETCURRENTTICKS",
    "GETCURRENTTIMESTAMP",
];

/// Checks the computed properties of a body.
pub(super) fn check(body: &Map<String, Value>) -> Result<()> {
    let properties = field::objects(body, "computedProperties")?;
    field::at_most(properties.len(), limits::COMPUTED_PROPERTIES, "computedProperties")?;
    let mut names = Vec::new();
    for property in &properties {
        let name = field::required(property, "name", "computedProperties")?;
        check_name(name, &names)?;
        names.push(name);
    }
    for (property, &name) in properties.iter().zip(&names) {
        let query = field::required(property, "query", "computedProperties")?;
        // Its own name can only mean the stored property of that name.
        let others: Vec<&str> = names.iter().copied().filter(|other| *other != name).collect();
        check_query(query, &others).map_err(|reason| {
            Error::bad_request(format!("the query of computed property '{name}' {reason}"))
        })?;
    }
    Ok(())
}

fn check_name(name: &str, earlier: &[&str]) -> Result<()> {
    if RESERVED_NAMES.contains(&name) {
        return Err(Error::bad_request(format!(
            "a computed property cannot be named '{name}': the name belongs to the server"
        )));
    }
    if name.contains(['/', '.', '[', ']']) {
        return Err(Error::bad_request(format!(
            "computed property '{name}' must be a top-level name, without / . [ ]"
        )));
    }
    if earlier.contains(&name) {
        return Err(Error::bad_request(format!("computedProperties names '{name}' twice")));
    }
    Ok(())
}

/// One piece of a query: a word, a quoted text without its quotes, or a sign.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Quoted(&'a str),
    Sign(char),
}

fn check_query(query: &str, others: &[&str]) -> std::result::Result<(), String> {
    let tokens = tokens(query).ok_or("has a text without closing quote")?;
    let starts = matches!(tokens.as_slice(), [Token::Word(a), Token::Word(b), ..]
        if a.eq_ignore_ascii_case("SELECT") && b.eq_ignore_ascii_case("VALUE"));
    if !starts {
        return Err("must start with SELECT VALUE".to_owned());
    }
    let alias = alias(&tokens).ok_or("needs FROM with a name at its end")?;
    for at in 2..tokens.len() {
        if let Some(word) = forbidden(&tokens, at) {
            return Err(format!("cannot contain {word}"));
        }
        if let Some(name) = member(&tokens, at, alias).filter(|name| others.contains(name)) {
            return Err(format!("cannot use the computed property '{name}'"));
        }
    }
    Ok(())
}

/// The name by which the query calls the item: the last word, after `FROM`.
fn alias<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let is_from = |t: &Token| matches!(t, Token::Word(w) if w.eq_ignore_ascii_case("FROM"));
    let from = tokens.iter().rposition(is_from)?;
    match tokens[from + 1..] {
        [Token::Word(name)] => Some(name),
        [Token::Word(_), Token::Word(alias)] => Some(alias),
        [Token::Word(_), Token::Word(keyword), Token::Word(alias)]
            if keyword.eq_ignore_ascii_case("AS") =>
        {
            Some(alias)
        }
        // Longer clauses are refused for their words, or later by the query language.
        [Token::Word(name), ..] => Some(name),
        _ => None,
    }
}

/// The word at this place if it is one that may not stand there.
fn forbidden<'a>(tokens: &[Token<'a>], at: usize) -> Option<&'a str> {
    let Token::Word(word) = tokens[at] else { return None };
    let before = at.checked_sub(1).and_then(|i| tokens.get(i));
    let after = tokens.get(at + 1);
    // A property of something, or the name in `{name: …}`.
    if before == Some(&Token::Sign('.')) || after == Some(&Token::Sign(':')) {
        return None;
    }
    let upper = word.to_ascii_uppercase();
    let called = after == Some(&Token::Sign('('));
    let function = FORBIDDEN_FUNCTIONS.contains(&upper.as_str()) || upper.starts_with("ST_");
    let user_function = upper == "UDF" && after == Some(&Token::Sign('.'));
    let refused =
        FORBIDDEN_WORDS.contains(&upper.as_str()) || (called && function) || user_function;
    refused.then_some(word)
}

/// The property of the item that is named at this place.
fn member<'a>(tokens: &[Token<'a>], at: usize, alias: &str) -> Option<&'a str> {
    match tokens.get(at.checked_sub(2)?..=at)? {
        [Token::Word(owner), Token::Sign('.'), Token::Word(name)]
        | [Token::Word(owner), Token::Sign('['), Token::Quoted(name)]
            if *owner == alias =>
        {
            Some(name)
        }
        _ => None,
    }
}

/// `None` if a quote does not close.
fn tokens(query: &str) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => {
                let inside = closing_quote(&rest[1..], first)?;
                found.push(Token::Quoted(&rest[1..=inside]));
                inside + 2
            }
            c if is_word(c) => {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                found.push(Token::Word(&rest[..end]));
                end
            }
            sign => {
                found.push(Token::Sign(sign));
                sign.len_utf8()
            }
        };
        rest = rest[length..].trim_start();
    }
    Some(found)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@')
}

fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expect: &str) {
        let got = check_query(query, &["lower", "upper"]);
        assert_eq!(got.err().as_deref().unwrap_or("ok"), expect, "{query}");
    }

    #[test]
    fn expressions_over_the_item() {
        check("SELECT VALUE LOWER(c.name) FROM c", "ok");
        check("select value r['first'] || ' WHERE ' from root AS r", "ok");
        check("SELECT VALUE {first: c.order.top, 'all': 1} FROM c", "ok");
        check("SELECT VALUE c.a.lower FROM c", "ok");
        check("SELECT VALUE 'it\\'s' FROM c", "ok");
        check("SELECT VALUE c.max FROM c", "ok");
    }

    #[test]
    fn forbidden_parts() {
        check("SELECT c.name FROM c", "must start with SELECT VALUE");
        check("SELECT VALUE 1", "needs FROM with a name at its end");
        check("SELECT VALUE c.a FROM c WHERE c.b", "cannot contain WHERE");
        check("SELECT VALUE (select value 1) FROM c", "cannot contain select");
        check("SELECT VALUE COUNT(1) FROM c", "cannot contain COUNT");
        check("SELECT VALUE st_distance (c.a, c.b) FROM c", "cannot contain st_distance");
        check("SELECT VALUE udf.f(c.a) FROM c", "cannot contain udf");
        check("SELECT VALUE GetCurrentTicks() FROM c", "cannot contain GetCurrentTicks");
        check("SELECT VALUE 'open FROM c", "has a text without closing quote");
        check("SELECT VALUE c.lower FROM c", "cannot use the computed property 'lower'");
        check("SELECT VALUE c[\"upper\"] FROM c", "cannot use the computed property 'upper'");
    }
}
