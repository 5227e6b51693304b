//! A query that is ready to run.

use std::sync::Arc;

use model::Result;
use serde_json::Value as Tree;

use crate::ast::{Collection, FromItem, Name, Query};
use crate::bind::{Bound, Parameters, bind, has_aggregate};
use crate::error::too_much;
use crate::limits;
use crate::parse::parse;
use crate::world::Settings;

/// A query that is ready to run, over and over, from any place.
pub struct Statement {
    pub(crate) query: Arc<Query>,
    pub(crate) bound: Bound,
    pub(crate) settings: Arc<Settings>,
    /// What it is made of, where it is about the rows of another query over all items.
    pub(crate) derived: Option<Box<Derived>>,
}

/// A query over the rows of another.
pub(crate) struct Derived {
    pub inner: Statement,
    /// Its items are the rows of the inner one.
    pub outer: Statement,
}

impl Statement {
    /// Reads and binds a query. Names of parameters include the `@`, as on the wire.
    pub fn new(text: &str, parameters: &[(String, Tree)], settings: &Settings) -> Result<Self> {
        Self::of(Arc::new(parse(text)?), parameters, &Arc::new(settings.clone()))
    }

    /// Whether every page goes over all items anew, so that few large ones are better than many.
    pub fn starts_over(&self) -> bool {
        let (block, order) = (&self.bound.block, &self.bound.order);
        let sorted_apart = block.distinct && !order.keys.is_empty();
        block.grouping.is_some() || order.rank.is_some() || sorted_apart || self.derived.is_some()
    }

    /// Binds a query that has been read.
    pub fn of(
        query: Arc<Query>,
        parameters: &[(String, Tree)],
        settings: &Arc<Settings>,
    ) -> Result<Self> {
        let values = Parameters::new(parameters);
        // Whatever is wrong is said of the query as it stands.
        let bound = bind(&query, &values, settings)?;
        if first_subquery(&query).is_some_and(|inner| depth(inner) > limits::WHOLE_SUBQUERIES) {
            return Err(too_much("subqueries over all items", limits::WHOLE_SUBQUERIES));
        }
        let derived = match whole_subquery(&query) {
            Some((inner, outer)) => {
                let inner = Self::of(Arc::new(inner), parameters, settings)?;
                let stored_only = Settings { computed: Vec::new(), ..Settings::clone(settings) };
                let outer = Self::of(Arc::new(outer), parameters, &Arc::new(stored_only))?;
                Some(Box::new(Derived { inner, outer }))
            }
            None => None,
        };
        Ok(Self { query, bound, settings: settings.clone(), derived })
    }

    /// What the text says.
    pub fn query(&self) -> &Query {
        &self.query
    }
}

/// A query in `FROM` of different rows, groups or aggregates of all items, and what is asked of
/// those: the same query with the rows as its items.
fn whole_subquery(query: &Query) -> Option<(Query, Query)> {
    let inner = first_subquery(query).filter(|inner| depth(inner) > 0)?;
    let mut outer = query.clone();
    // No text can name it so.
    let rows = Name { text: "(rows)".to_owned(), span: inner.span };
    outer.from[0].collection = Collection::Path(rows, Vec::new());
    Some((inner.clone(), outer))
}

fn first_subquery(query: &Query) -> Option<&Query> {
    match query.from.first() {
        Some(FromItem { collection: Collection::Query(inner), .. }) => Some(inner),
        _ => None,
    }
}

/// How many queries below each other are about all items together.
fn depth(query: &Query) -> usize {
    let (mut depth, mut whole) = (0, 0);
    let mut next = Some(query);
    while let Some(query) = next {
        depth += 1;
        let all =
            query.distinct.is_some() || !query.group_by.is_empty() || has_aggregate(&query.output);
        if all {
            whole = depth;
        }
        next = first_subquery(query);
    }
    whole
}
