//! What can be wrong with a query, in the shape that clients look into.

use model::{Error, Fault};
use serde_json::json;

use crate::ast::Span;

/// One thing that is wrong with a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The code, such as `SC1001`.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// Where, if it is somewhere.
    pub span: Option<Span>,
}

/// All that is wrong with a text, in the order of the text. Never empty.
pub type Problems = Vec<Problem>;

impl Problem {
    /// A problem at a place.
    pub fn new(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self { code, message: message.into(), span: Some(span) }
    }

    /// A word, sign or end that has no business where it stands.
    pub fn near(shown: &str, span: Span) -> Self {
        let shown: String = shown.chars().take(SHOWN_CHARS).collect();
        Self::new("SC1001", format!("Syntax error, incorrect syntax near '{shown}'."), span)
    }

    /// A text that stops too early.
    pub fn end(length: usize) -> Self {
        let span = Span { start: length, end: length };
        Self::new("SC1002", "Syntax error, unexpected end-of-file.", span)
    }
}

/// A long token does not come back whole.
const SHOWN_CHARS: usize = 100;

/// The refusal of a text.
pub fn refusal(problems: &[Problem]) -> Error {
    let errors: Vec<_> = problems.iter().map(one).collect();
    Error::bad_request(format!("Message: {}", json!({ "errors": errors })))
}

fn one(problem: &Problem) -> serde_json::Value {
    // The one problem without a place has its code as a number.
    match problem.span {
        Some(span) => json!({
            "severity": "Error",
            "location": { "start": span.start, "end": span.end },
            "code": problem.code,
            "message": problem.message,
        }),
        None => json!({
            "severity": "Error",
            "code": problem.code.parse::<u32>().unwrap_or_default(),
            "message": problem.message,
        }),
    }
}

/// The refusal of a query whose text is sound but which cannot be served.
pub fn unserved(message: &str) -> Error {
    Error::bad_request(format!("Message: {}", json!({ "Errors": [message] })))
}

/// The refusal of a query that would take more than is allowed.
pub fn too_much(what: &str, limit: impl std::fmt::Display) -> Error {
    Error::new(
        Fault::BadRequest,
        format!("the query needs more than the allowed {what} ({limit}): narrow it down"),
    )
}
