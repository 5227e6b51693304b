//! Merges the layers in memory and the tree into one run of rows.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use fjall::Readable;

use super::apply::{Base, Published};
use super::recent::{Recent, State, Value};
use super::stems::{FEW_ROWS, StemRows};
use super::tree::{Pointer, Tree, failed};
use super::view::is_pointed;
use crate::{Keyspace, Result};

/// Rows of a layer that are gathered under its lock at once: few at first, since a reader of older
/// rows may not come to this layer at all, then more and more.
const WINDOW_ROWS_FIRST: usize = 4;
const WINDOW_ROWS_MAX: usize = 1024;

type Range = (Bound<Bytes>, Bound<Bytes>);

/// The rows of a range, as one published state has them.
pub(crate) struct Merge {
    layers: Vec<Layer>,
    tree: Option<TreeRows>,
    reverse: bool,
}

/// What a layer holds of the range.
struct Layer {
    recent: Arc<Recent>,
    keyspace: Keyspace,
    state: State,
    reverse: bool,
    window_rows: usize,
    /// What is left of the range; `None` once all of it has been gathered.
    rest: Option<Range>,
    window: std::iter::Peekable<std::vec::IntoIter<(Bytes, Value)>>,
}

/// What the tree holds of the range.
struct TreeRows {
    rows: Rows,
    keyspace: Keyspace,
    reverse: bool,
    next: Option<(Bytes, Value)>,
}

/// By which way rows come out of the tree.
enum Rows {
    All(fjall::Iter),
    OfStem(StemRows),
}

impl Merge {
    /// `tree` is left out when it cannot hold anything of the range. About so many rows are
    /// wanted.
    pub(crate) fn new(
        published: &Published,
        tree: Option<&Tree>,
        keyspace: Keyspace,
        range: Range,
        (reverse, wanted): (bool, usize),
    ) -> Result<Self> {
        let layers = published.layers.iter().filter(|layer| !layer.is_empty());
        let layers = layers.map(|recent| Layer {
            recent: recent.clone(),
            keyspace,
            state: published.state,
            reverse,
            window_rows: WINDOW_ROWS_FIRST,
            rest: Some(range.clone()),
            window: Vec::new().into_iter().peekable(),
        });
        let mut merge = Self { layers: layers.collect(), tree: None, reverse };
        for layer in &mut merge.layers {
            layer.fill();
        }
        if let Some(tree) = tree {
            let Base { snapshot, terms, .. } = &*published.base;
            let few = keyspace == Keyspace::Terms && !reverse && wanted <= FEW_ROWS;
            let rows = match few.then(|| terms.rows(snapshot, &range)).flatten() {
                Some(rows) => Rows::OfStem(rows),
                None => Rows::All(snapshot.range(tree.space(keyspace), range)),
            };
            let mut rows = TreeRows { rows, keyspace, reverse, next: None };
            rows.step()?;
            merge.tree = Some(rows);
        }
        Ok(merge)
    }

    /// The next row, removed ones included.
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, Value)>> {
        let mut first: Option<(usize, &Bytes)> = None;
        for (i, layer) in self.layers.iter_mut().enumerate() {
            let Some((key, _)) = layer.window.peek() else { continue };
            if first.is_none_or(|(_, best)| order(self.reverse, key, best).is_lt()) {
                first = Some((i, key));
            }
        }
        let from_tree = self.tree.as_ref().and_then(|tree| tree.next.as_ref());
        let tree_first = match (&first, from_tree) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some((_, best)), Some((key, _))) => order(self.reverse, key, best).is_lt(),
        };
        if tree_first {
            return self.tree.as_mut().map_or(Ok(None), TreeRows::step);
        }
        let Some((newest, _)) = first else { return Ok(None) };
        let Some(row) = self.layers[newest].next() else { return Ok(None) };
        // The newest layer that has a key says what it is; the others are passed over.
        for layer in &mut self.layers[newest + 1..] {
            if layer.window.peek().is_some_and(|(key, _)| *key == row.0) {
                layer.next();
            }
        }
        if let Some(tree) = &mut self.tree
            && tree.next.as_ref().is_some_and(|(key, _)| *key == row.0)
        {
            tree.step()?;
        }
        Ok(Some(row))
    }
}

impl Layer {
    fn next(&mut self) -> Option<(Bytes, Value)> {
        let row = self.window.next();
        if self.window.peek().is_none() {
            self.fill();
        }
        row
    }

    /// Gathers rows until there are some, or the range is at its end.
    fn fill(&mut self) {
        let mut rows = Vec::new();
        while rows.is_empty()
            && let Some((from, to)) = self.rest.take()
        {
            let range = (as_slice(&from), as_slice(&to));
            let most = self.window_rows;
            self.window_rows = (most * 8).min(WINDOW_ROWS_MAX);
            let (keyspace, state) = (self.keyspace, self.state);
            let last = self.recent.range(keyspace, range, self.reverse, state, most, &mut rows);
            self.rest = last.and_then(|last| {
                let rest = if self.reverse {
                    (from, Bound::Excluded(last))
                } else {
                    (Bound::Excluded(last), to)
                };
                (!is_empty(&rest)).then_some(rest)
            });
        }
        self.window = rows.into_iter().peekable();
    }
}

impl TreeRows {
    /// Moves to the next row, and returns the one it leaves.
    fn step(&mut self) -> Result<Option<(Bytes, Value)>> {
        let row = match &mut self.rows {
            Rows::OfStem(rows) => return Ok(std::mem::replace(&mut self.next, rows.next()?)),
            Rows::All(rows) if self.reverse => rows.next_back(),
            Rows::All(rows) => rows.next(),
        };
        let next = match row {
            None => None,
            Some(row) => {
                let (key, value) = row.into_inner().map_err(|error| failed(&error))?;
                let value = if is_pointed(self.keyspace) {
                    Value::Point(Pointer::decode(&value)?)
                } else {
                    Value::Put(value.into())
                };
                Some((key.into(), value))
            }
        };
        Ok(std::mem::replace(&mut self.next, next))
    }
}

/// Whether nothing can lie in a range.
pub(crate) fn is_empty((from, to): &Range) -> bool {
    match (from, to) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a >= b
        }
        _ => false,
    }
}

fn order(reverse: bool, a: &Bytes, b: &Bytes) -> Ordering {
    if reverse { b.cmp(a) } else { a.cmp(b) }
}

fn as_slice(bound: &Bound<Bytes>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &key[..])
}
