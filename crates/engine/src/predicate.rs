//! The condition of a patch: the `FROM … WHERE …` of a query, asked of one item.
//!
//! This is all that a patch knows of the query language. What the language cannot say is refused
//! when the patch is read.

use model::{Error, Result};

/// A condition on an item.
pub(crate) struct Predicate(query::Filter);

impl Predicate {
    pub fn parse(text: &str) -> Result<Self> {
        let select = query::Filter::new(&format!("SELECT * {text}"), &[]);
        select.map(Self).map_err(|error| {
            let message = format!("the condition of the patch: {}", error.message);
            Error { message, ..error }
        })
    }

    /// Whether an item, with its system properties, fulfils it.
    pub fn holds(&self, body: &[u8]) -> Result<bool> {
        self.0.matches(body)
    }
}
