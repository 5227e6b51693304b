//! The paths of policies: to a property, or a pattern that an index covers.
//!
//! ```text
//! property  /a/b              /"odd name"/b
//! pattern   /a/?  the value   /a/*  all below   /a/[]/b/?  of each element   /*  everything
//! tuple     /a/[]/{x, y/z}/?  some properties of each element, together
//! ```

use crate::{Error, Result};

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Name(String),
    Elements,
    /// Each member as the names that lead to it.
    Tuple(Vec<Vec<String>>),
    Value,
    Below,
}

/// Checks a path that leads to one property; `key` is where it stands, for the message.
pub(super) fn check_property(key: &str, path: &str) -> Result<()> {
    match segments(path) {
        Some(segments) if segments.iter().all(|s| matches!(s, Segment::Name(_))) => Ok(()),
        _ => Err(Error::bad_request(format!(
            "{key} '{path}' is not a path to a property: write it as /a/b, without wildcards, \
             and put names with other characters than letters, digits and _ in double quotes"
        ))),
    }
}

/// Checks a pattern of an indexing policy.
pub(super) fn check_pattern(path: &str) -> Result<()> {
    if segments(path).is_some_and(|segments| is_pattern(&segments)) {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "indexing path '{path}' is not valid: it must end in /? or /*, with names, [] or one \
         tuple such as []/{{x,y}} before, and names with other characters than letters, digits \
         and _ in double quotes"
    )))
}

fn is_pattern(segments: &[Segment]) -> bool {
    let Some((last, steps)) = segments.split_last() else { return false };
    if !matches!(last, Segment::Value | Segment::Below) {
        return false;
    }
    if steps.iter().any(|step| matches!(step, Segment::Value | Segment::Below)) {
        return false;
    }
    let count = |kind: fn(&Segment) -> bool| steps.iter().filter(|step| kind(step)).count();
    let tuples = count(|step| matches!(step, Segment::Tuple(_)));
    let arrays = count(|step| *step == Segment::Elements);
    // A tuple closes its path: the properties are of the elements of exactly one array.
    tuples == 0
        || (tuples == 1
            && arrays == 1
            && matches!(steps, [.., Segment::Elements, Segment::Tuple(_)])
            && *last == Segment::Value)
}

/// The steps of a path or pattern; none where it is neither.
pub(super) fn segments(path: &str) -> Option<Vec<Segment>> {
    let mut rest = path;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (segment, after) = segment(rest.strip_prefix('/')?)?;
        found.push(segment);
        rest = after;
    }
    (!found.is_empty()).then_some(found)
}

fn segment(text: &str) -> Option<(Segment, &str)> {
    let wild = [("[]", Segment::Elements), ("?", Segment::Value), ("*", Segment::Below)];
    for (token, segment) in wild {
        if let Some(rest) = text.strip_prefix(token) {
            return Some((segment, rest));
        }
    }
    match text.strip_prefix('{') {
        Some(members) => tuple(members).map(|(members, rest)| (Segment::Tuple(members), rest)),
        None => name(text).map(|(name, rest)| (Segment::Name(name), rest)),
    }
}

/// The members of a tuple and what follows it, given what follows its opening brace.
fn tuple(text: &str) -> Option<(Vec<Vec<String>>, &str)> {
    let mut rest = text.trim_start();
    let mut members = vec![Vec::new()];
    loop {
        let (found, after) = name(rest)?;
        members.last_mut()?.push(found);
        rest = after.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Some((members, after));
        }
        if rest.starts_with(',') {
            members.push(Vec::new());
        }
        rest = rest.strip_prefix([',', '/'])?.trim_start();
    }
}

/// A name, quoted or not, and what follows it.
fn name(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let rest = quoted_name(quoted)?;
        let spelled = &text[..text.len() - rest.len()];
        // Other escapes than those of JSON stand for the character behind the backslash.
        let plain = || spelled[1..spelled.len() - 1].replace('\\', "");
        let name = crate::json::check(spelled.as_bytes()).ok().and_then(crate::json::unescape);
        return Some((name.map_or_else(plain, |name| name.into_owned()), rest));
    }
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    let end = text.find(|c| !plain(c)).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_owned(), &text[end..]))
}

fn quoted_name(text: &str) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(&text[at + 1..]),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expect: &str) {
        let got = match (check_property("path", path), check_pattern(path)) {
            (Ok(()), Err(_)) => "property",
            (Err(_), Ok(())) => "pattern",
            (Err(_), Err(_)) => "refused",
            (Ok(()), Ok(())) => "both",
        };
        assert_eq!(got, expect, "{path}");
    }

    #[test]
    fn properties() {
        check("/a", "property");
        check("/a/b_2/été", "property");
        check(r#"/"odd name"/b"#, "property");
        check(r#"/"with \" and / inside""#, "property");
    }

    #[test]
    fn patterns() {
        for path in ["/*", "/?", "/a/?", "/a/b/*", "/a/[]/b/?", "/a/[]/b/[]/c/*"] {
            check(path, "pattern");
        }
        for path in [r#"/"_etag"/?"#, r#"/"a/b"/*"#, "/a/[]/{x,y}/?", r#"/a/[]/{x, "y z"/w}/?"#] {
            check(path, "pattern");
        }
    }

    #[test]
    fn refused() {
        for path in ["", "/", "a", "a/?", "/a/", "/a//b/?", "/a-b/?", "/*/a", "/a/*/b/?", "/a/?/*"]
        {
            check(path, "refused");
        }
        for path in ["/\"a/?", "/\"a\\", "/a?", "/a/[]", "/a/[0]/?", "/é-/?", "/a/{é"] {
            check(path, "refused");
        }
        for path in ["/a/{x,y}/?", "/a/[]/[]/{x,y}/?", "/a/[]/{x,y}/*", "/a/[]/{/x,y}/?"] {
            check(path, "refused");
        }
        for path in
            ["/a/[]/{x,*}/?", "/a/[]/{x,[]/y}/?", "/a/[]/{}/?", "/a/[]/{x,y/?", "/a/[]/{xé-}"]
        {
            check(path, "refused");
        }
    }
}
