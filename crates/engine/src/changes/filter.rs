//! A query over changes: which of them a reader wants, and what of each.

use std::fmt;
use std::sync::Arc;

use model::{Error, Result};
use query::Statement;
use serde_json::Value;

use crate::api::Changed;
use crate::functions::Around;
use crate::{Container, Env, QueryFunctions};

/// A filter and projection of changes. Each change is looked at by itself.
#[derive(Clone)]
pub struct ChangesFilter {
    statement: Arc<Statement>,
    env: Env,
    functions: Option<QueryFunctions>,
}

/// A filter that looks at the changes of one page.
pub(super) struct Looking<'f> {
    filter: &'f ChangesFilter,
    around: Around<'f>,
}

impl fmt::Debug for ChangesFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChangesFilter({})", self.statement.query())
    }
}

impl Container {
    /// Reads a filter of changes.
    pub fn changes_filter(
        &self,
        text: &str,
        parameters: &[(String, Value)],
        functions: Option<QueryFunctions>,
    ) -> Result<ChangesFilter> {
        let statement = self.statement(text, parameters)?;
        if !statement.is_item_wise() {
            return Err(Error::bad_request(
                "a filter of changes looks at one item at a time: it may have FROM, WHERE and a \
                 projection, but no ORDER BY, GROUP BY, DISTINCT, TOP, OFFSET LIMIT or aggregates",
            ));
        }
        Ok(ChangesFilter { statement: Arc::new(statement), env: self.env.clone(), functions })
    }
}

impl ChangesFilter {
    /// Begins a page.
    pub(super) fn begin(&self) -> Looking<'_> {
        Looking { filter: self, around: Around::new(&self.env, self.functions.as_ref()) }
    }
}

impl Looking<'_> {
    /// What a reader gets of a change. Of a delete there is nothing to look at: every reader is
    /// told, since what is gone may be what it has.
    pub(super) fn apply(&self, changed: Changed) -> Result<Vec<Changed>> {
        if changed.body.is_empty() {
            return Ok(vec![changed]);
        }
        let rows = self.filter.statement.rows_of(&changed.body, &self.around)?;
        let one = |row| Changed { body: row, ..changed.clone() };
        Ok(rows.into_iter().map(one).collect())
    }
}
