//! The text of a case file: steps between comments.
//!
//! ```text
//! # What is shown.
//! # Source: where its truth comes from
//! container orders pk=/customer
//!
//! POST docs pk=["c1"] show=body
//! header x-ms-version: 2018-12-31
//! {"id":"1","customer":"c1"}
//! ----
//! 201 etag#1
//! {"id":"1","customer":"c1"}
//! ```
//!
//! A step ends at an empty line. Its first line is the directive, `header`, `without` and `hex`
//! lines follow, the rest above `----` is the body, and below it stands the expected answer.
//!
//! Directives:
//! - `container NAME pk=/PATH[,/PATH] …` creates a container, which later paths are relative to;
//! - `items [N..M]` creates items, one a line; with a range, once per number in place of `{n}`;
//! - `query [pk=…]` runs the body as SQL, and expects one result a line;
//! - `restart` kills the server and starts it again on the same data;
//! - `VERB PATH option=value …` is any request. A path that begins with `/` is absolute, `docs…`
//!   and other children of containers are relative to the container, `colls…` and `users…` to the
//!   database of the case file; `container` and `database` are these themselves.
//!
//! Options are short for headers ([`HEADERS`]); `as=` says who signs (`none`, `token#1`, a key),
//! `a-im=incremental` or `full` asks for changes, `date=-1000` moves the date, `by=rid` signs a path of rids, `show=` says what of the answer is
//! compared: `body`, `none`, `keys`, `message`, `system`, header names, JSON pointers.

/// Options that stand for headers.
pub const HEADERS: [(&str, &str); 17] = [
    ("pk", "x-ms-documentdb-partitionkey"),
    ("if-match", "if-match"),
    ("if-none-match", "if-none-match"),
    ("max", "x-ms-max-item-count"),
    ("continuation", "x-ms-continuation"),
    ("session", "x-ms-session-token"),
    ("consistency", "x-ms-consistency-level"),
    ("range", "x-ms-documentdb-partitionkeyrangeid"),
    ("throughput", "x-ms-offer-throughput"),
    ("autoscale", "x-ms-cosmos-offer-autopilot-settings"),
    ("upsert", "x-ms-documentdb-is-upsert"),
    ("intended", "x-ms-cosmos-intended-collection-rid"),
    ("expiry", "x-ms-documentdb-expiry-seconds"),
    ("a-im", "a-im"),
    ("prefer", "prefer"),
    ("migrate", "x-ms-cosmos-migrate-offer-to-autopilot"),
    ("type", "content-type"),
];

/// A part of a case file, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Comments and empty lines, kept for rewriting.
    Text(String),
    /// Something to do.
    Step(Step),
}

/// Something to do, and what should come of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Line of the directive, from 1.
    pub line: usize,
    /// The directive and what belongs to it.
    pub given: Vec<String>,
    /// The lines below `----`; `None` where there is no such line.
    pub expected: Option<Vec<String>>,
}

/// Reads a case file.
pub fn parse(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            parts.push(Part::Text(line.to_owned()));
            continue;
        }
        let mut step = Step { line: number + 1, given: vec![line.to_owned()], expected: None };
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
            match &mut step.expected {
                None if line.trim_end() == "----" => step.expected = Some(Vec::new()),
                None => step.given.push(line.to_owned()),
                Some(expected) => expected.push(line.trim_end().to_owned()),
            }
        }
        parts.push(Part::Step(step));
    }
    parts
}

/// Writes a case file.
pub fn print(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        let lines = match part {
            Part::Text(line) => vec![line.clone()],
            Part::Step(step) => step.lines(),
        };
        for line in lines {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

impl Step {
    fn lines(&self) -> Vec<String> {
        let mut lines = self.given.clone();
        if let Some(expected) = &self.expected {
            lines.push("----".to_owned());
            lines.extend(expected.iter().cloned());
        }
        lines
    }
}

/// The first line of a step: a word, a second one where it has one, and options.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Directive {
    /// `container`, `items`, `GET`, …
    pub word: String,
    /// Name or path.
    pub target: String,
    /// `name=value`, in order; a bare word has the value `true`.
    pub options: Vec<(String, String)>,
}

impl Directive {
    /// Reads the line.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut words = split_words(line)?.into_iter().peekable();
        let word = words.next().ok_or("an empty line is no directive")?;
        let target = words.next_if(|next| !is_option(next)).unwrap_or_default();
        let option = |word: String| match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (word, "true".to_owned()),
        };
        Ok(Self { word, target, options: words.map(option).collect() })
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Whether the second word of a directive is already an option.
fn is_option(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'))
}

/// Splits at spaces that are not within quotes or brackets.
fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = vec![String::new()];
    let (mut quoted, mut depth, mut escaped) = (false, 0usize, false);
    for c in line.trim().chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            ' ' if !quoted && depth == 0 => {
                words.push(String::new());
                continue;
            }
            _ => {}
        }
        words.last_mut().expect("there is always a last word").push(c);
    }
    if quoted {
        return Err(format!("a quote without end: {line}"));
    }
    Ok(words.into_iter().filter(|word| !word.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Why.\ncontainer c pk=/a\n\nPOST docs pk=[\"x\"]\n{\"id\":\n\"1\"}\n----\n201 etag#1\n\n# End.\n";

    #[test]
    fn a_file_is_steps_between_comments_and_prints_as_it_was() {
        let parts = parse(TEXT);
        let steps: Vec<_> = parts.iter().filter(|part| matches!(part, Part::Step(_))).collect();
        assert_eq!(steps.len(), 2);
        let Part::Step(second) = steps[1] else { panic!("a step") };
        assert_eq!(second.line, 4);
        assert_eq!(second.given.len(), 3);
        assert_eq!(second.expected.as_deref(), Some(&["201 etag#1".to_owned()][..]));
        assert_eq!(print(&parts), TEXT);
    }

    #[test]
    fn options_may_hold_spaces_within_quotes_and_brackets() {
        let directive =
            Directive::parse(r#"POST docs pk=["a b", 1] if-match="x y" upsert show=etag,/a"#)
                .expect("valid");
        assert_eq!(directive.word, "POST");
        assert_eq!(directive.target, "docs");
        assert_eq!(directive.option("pk"), Some(r#"["a b", 1]"#));
        assert_eq!(directive.option("if-match"), Some(r#""x y""#));
        assert_eq!(directive.option("upsert"), Some("true"));
        assert_eq!(directive.option("show"), Some("etag,/a"));
    }

    #[test]
    fn a_directive_may_have_no_target() {
        let directive = Directive::parse(r#"query pk=["a"]"#).expect("valid");
        assert_eq!((directive.target.as_str(), directive.option("pk")), ("", Some(r#"["a"]"#)));
    }
}
