//! Indexes that a query would have used if the policy had them.

use std::cell::RefCell;

use super::composite::Conditions;
use super::index_path;
use super::lookup::{Covers, Reader};
use crate::source::{Composite, IndexPath, Source};
use crate::statement::Statement;

/// Columns of a composite index, at most.
const COLUMNS_MAX: usize = 8;

/// What a policy lacks.
#[derive(Debug, Default, PartialEq)]
pub struct Advice {
    /// Properties that the query filters by and no range index has.
    pub single: Vec<IndexPath>,
    /// A composite index that would have what the filter asks for together, and the order.
    pub composite: Option<Composite>,
}

impl Statement {
    /// Which indexes would serve the query that are not there.
    pub fn advice<S: Source>(&self, source: &S) -> Advice {
        let statement = self.derived.as_ref().map_or(self, |derived| &derived.inner);
        if !statement.bound.reads {
            return Advice::default();
        }
        Advice { single: single(statement, source), composite: composite(statement, source) }
    }
}

/// Everything that a lookup would ask a range index for.
fn single<S: Source>(statement: &Statement, source: &S) -> Vec<IndexPath> {
    let asked = RefCell::new(Vec::new());
    let covers = |path: &IndexPath| {
        asked.borrow_mut().push(path.clone());
        true
    };
    let covers = Covers { range: &covers, text: &|_| false, spatial: &|_| false };
    Reader::new(statement, covers).whole_filter();
    let mut asked = asked.into_inner();
    asked.sort_unstable();
    asked.dedup();
    asked.retain(|path| !source.covers(path));
    asked
}

/// Values of several properties, or of some and the order by others.
fn composite<S: Source>(statement: &Statement, source: &S) -> Option<Composite> {
    let conditions = Conditions::of(statement);
    let mut columns: Composite = Vec::new();
    let points = conditions.paths().filter(|(_, range)| range.is_point());
    columns.extend(points.map(|(path, _)| (path.clone(), false)));
    let keys = &statement.bound.order.keys;
    let known = |columns: &Composite, path: &IndexPath| columns.iter().any(|(one, _)| one == path);
    for key in keys {
        let path = index_path(key.path.as_ref()?);
        if !known(&columns, &path) {
            columns.push((path, key.descending));
        }
    }
    if keys.is_empty() {
        let range = conditions.paths().find(|(_, range)| !range.is_point());
        columns.extend(range.map(|(path, _)| (path.clone(), false)));
    }
    let served = |composite: &Composite| {
        let same = composite.iter().map(|(path, _)| path).eq(columns.iter().map(|(path, _)| path));
        let used = conditions.stretch(composite, None).used() >= columns.len();
        same || (keys.is_empty() && used)
    };
    let useful = (2..=COLUMNS_MAX).contains(&columns.len())
        && conditions.paths().next().is_some()
        && !source.composites().iter().any(served);
    useful.then_some(columns)
}
