//! A query that is ready to run.

use model::Result;
use serde_json::Value as Tree;

use crate::ast::Query;
use crate::bind::{Bound, Parameters, bind};
use crate::parse::parse;
use crate::value::Value;
use crate::world::Settings;

/// A query that is ready to run, over and over, from any place.
pub struct Statement {
    pub(crate) query: Query,
    pub(crate) bound: Bound,
    pub(crate) settings: Settings,
}

impl Statement {
    /// Reads and binds a query. Names of parameters include the `@`, as on the wire.
    pub fn new(text: &str, parameters: &[(String, Tree)], settings: &Settings) -> Result<Self> {
        Self::of(parse(text)?, parameters, settings)
    }

    /// Binds a query that has been read.
    pub fn of(query: Query, parameters: &[(String, Tree)], settings: &Settings) -> Result<Self> {
        let parameters: Parameters = parameters
            .iter()
            .map(|(name, value)| (name.clone(), Value::from_tree(value)))
            .collect();
        let bound = bind(&query, &parameters, settings)?;
        Ok(Self { query, bound, settings: settings.clone() })
    }

    /// What the text says.
    pub fn query(&self) -> &Query {
        &self.query
    }
}
