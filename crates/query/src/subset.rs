//! The part of the language that serves queries until the whole of it does.

mod document;
mod parse;
mod token;

use model::Result;
use serde_json::Value;

/// A query, ready to be asked of items.
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    conditions: Vec<Condition>,
}

/// One `path = value`. The value is a scalar.
#[derive(Debug, Clone, PartialEq)]
struct Condition {
    path: Vec<String>,
    value: Value,
}

/// Reads a query. Parameters carry the `@` in their names, as on the wire.
pub fn parse(text: &str, parameters: &[(String, Value)]) -> Result<Select> {
    parse::select(text, parameters)
}

impl Select {
    /// Whether an item belongs to the answer, given as JSON text that has been validated.
    pub fn matches(&self, document: &[u8]) -> bool {
        self.conditions.iter().all(|c| document::equals(document, &c.path, &c.value))
    }

    /// Whether an item belongs to the answer.
    pub fn matches_value(&self, document: &Value) -> bool {
        self.conditions.iter().all(|c| document::value_equals(document, &c.path, &c.value))
    }

    /// What the query wants this path to be, if it says so: a caller with an index on the path
    /// may look there instead of everywhere. The other conditions remain to be checked.
    pub fn equals(&self, path: &[&str]) -> Option<&Value> {
        let condition = self.conditions.iter().find(|c| c.path == path)?;
        Some(&condition.value)
    }
}

#[cfg(test)]
mod tests;
