//! From syntax tree to bound tree: names are resolved, functions looked up, rules checked.
//!
//! Everything that is wrong is gathered and refused together, in the order of the text.

use std::collections::HashMap;

use model::Result;
use serde_json::Value as Tree;

use crate::ast::{Count, CountKind, Query, Span};
use crate::bound::{Block, Fields, ITEM, Node};
use crate::error::{Problem, Problems, refusal};
use crate::limits;
use crate::value::Value;
use crate::world::Settings;

mod call;
mod expression;
mod fold;
mod order;
mod query;

pub(crate) use order::{Component, Order, Rank, Score};
pub(crate) use query::{aggregate_in, aggregate_of, has_aggregate, names_of};

/// Parameters by name, the `@` included. Of equal names the last one counts.
pub(crate) struct Parameters<'p> {
    all: &'p [(String, Tree)],
    /// Where they are, if there are many.
    places: HashMap<&'p str, usize>,
}

/// Up to here comparing all names is quicker than a map.
const FEW_PARAMETERS: usize = 12;

impl<'p> Parameters<'p> {
    pub(crate) fn new(all: &'p [(String, Tree)]) -> Self {
        let named = all.iter().enumerate().map(|(place, (name, _))| (name.as_str(), place));
        let places = if all.len() > FEW_PARAMETERS { named.collect() } else { HashMap::default() };
        Self { all, places }
    }

    fn get(&self, name: &str) -> Option<Value<'static>> {
        let place = match self.all.len() > FEW_PARAMETERS {
            true => *self.places.get(name)?,
            false => self.all.iter().rposition(|(known, _)| known == name)?,
        };
        Some(Value::from_tree(&self.all[place].1))
    }
}

/// A bound query.
pub(crate) struct Bound {
    pub block: Block,
    pub order: Order,
    pub top: Option<u64>,
    pub offset_limit: Option<(u64, u64)>,
    /// The members of the item that it names.
    pub fields: Fields,
    pub slots: usize,
    /// Places where it calls user-defined functions.
    pub udf_calls: usize,
    /// Whether it reads items at all: one without `FROM` does not.
    pub reads: bool,
}

impl Bound {
    /// The first rows of all that are wanted, if not all are.
    pub(crate) fn rows_wanted(&self) -> Option<usize> {
        let wanted = match (self.top, self.offset_limit) {
            (top, None) => top?,
            (_, Some((offset, limit))) => offset.saturating_add(limit),
        };
        usize::try_from(wanted).ok()
    }
}

/// Binds a query.
pub(crate) fn bind(
    query: &Query,
    parameters: &Parameters<'_>,
    settings: &Settings,
) -> Result<Bound> {
    let mut binder = Binder {
        parameters,
        settings,
        aliases: Vec::new(),
        fields: Fields::default(),
        slots: ITEM + 1,
        problems: Vec::new(),
        udf_calls: 0,
        grouping: None,
        computing: false,
    };
    let top = query.top.as_ref().and_then(|count| binder.count(count, "SC2060", "TOP"));
    let offset_limit = query.offset_limit.as_ref().and_then(|(offset, limit)| {
        let offset = binder.count(offset, "SC2062", "OFFSET");
        offset.zip(binder.count(limit, "SC2061", "LIMIT"))
    });
    let (block, order) = binder.root(query);
    if !binder.problems.is_empty() {
        binder.problems.sort_by_key(|problem| problem.span.map_or(0, |span| span.start));
        return Err(refusal(&binder.problems));
    }
    let Binder { fields, slots, udf_calls, .. } = binder;
    let reads = !query.from.is_empty();
    Ok(Bound { block, order, top, offset_limit, fields, slots, udf_calls, reads })
}

struct Binder<'b> {
    parameters: &'b Parameters<'b>,
    settings: &'b Settings,
    /// Those in sight, innermost last.
    aliases: Vec<Alias>,
    fields: Fields,
    slots: usize,
    problems: Problems,
    udf_calls: usize,
    /// What the output of a grouped query may use; none outside of such outputs.
    grouping: Option<query::Groups>,
    /// Whether a computed property is being bound: it sees the stored ones only.
    computing: bool,
}

#[derive(Clone)]
struct Alias {
    name: String,
    slot: usize,
    /// Whether the rows behind it have been grouped, so that it has no one value.
    grouped: bool,
}

impl Binder<'_> {
    fn slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    fn problem(&mut self, code: &'static str, message: impl Into<String>, span: Span) {
        self.problems.push(Problem::new(code, message, span));
    }

    /// Reports and goes on with a value that does no harm.
    fn wrong(&mut self, code: &'static str, message: impl Into<String>, span: Span) -> Node {
        self.problem(code, message, span);
        Node::Constant(Value::Undefined)
    }

    fn alias(&self, name: &str) -> Option<&Alias> {
        self.aliases.iter().rev().find(|alias| alias.name == name)
    }

    fn parameter(&mut self, name: &str, span: Span) -> Value<'static> {
        match self.parameters.get(name) {
            Some(value) => value,
            None => {
                let message = format!("The parameter '{name}' has no value: send one.");
                self.problem("SC2007", message, span);
                Value::Undefined
            }
        }
    }

    fn count(&mut self, count: &Count, code: &'static str, clause: &str) -> Option<u64> {
        let value = match &count.kind {
            CountKind::Literal(value) => Some(*value),
            CountKind::Parameter(name) => {
                let value = self.parameter(name, count.span);
                value.as_int().and_then(|value| u64::try_from(value).ok())
            }
        };
        match value {
            Some(value) if value <= limits::COUNT_MAX => return Some(value),
            Some(_) => {
                let message = format!("{clause} count exceeds the maximum allowed value.");
                self.problem(code, message, count.span);
            }
            None => {
                let message = format!("{clause} count must be a non-negative integer.");
                self.problem(code, message, count.span);
            }
        }
        None
    }
}
