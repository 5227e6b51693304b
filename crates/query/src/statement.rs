//! A query that is ready to run.

use model::Result;
use serde_json::Value as Tree;

use crate::ast::Query;
use crate::bind::{Bound, Parameters, bind};
use crate::fan_out::distinct_count;
use crate::parse::parse;
use crate::value::Value;
use crate::world::Settings;

/// A query that is ready to run, over and over, from any place.
pub struct Statement {
    pub(crate) query: Query,
    pub(crate) bound: Bound,
    pub(crate) settings: Settings,
    /// The query whose different rows this one counts, and what it calls the count: a value where
    /// that is empty.
    pub(crate) distinct_count: Option<(Box<Statement>, String)>,
}

impl Statement {
    /// Reads and binds a query. Names of parameters include the `@`, as on the wire.
    pub fn new(text: &str, parameters: &[(String, Tree)], settings: &Settings) -> Result<Self> {
        Self::of(parse(text)?, parameters, settings)
    }

    /// Binds a query that has been read.
    pub fn of(query: Query, parameters: &[(String, Tree)], settings: &Settings) -> Result<Self> {
        let values: Parameters = parameters
            .iter()
            .map(|(name, value)| (name.clone(), Value::from_tree(value)))
            .collect();
        let bound = bind(&query, &values, settings)?;
        let distinct_count = match distinct_count(&query) {
            Some((inner, alias)) => {
                let inner = Self::of(inner.clone(), parameters, settings)?;
                Some((Box::new(inner), alias))
            }
            None => None,
        };
        Ok(Self { query, bound, settings: settings.clone(), distinct_count })
    }

    /// What the text says.
    pub fn query(&self) -> &Query {
        &self.query
    }
}
