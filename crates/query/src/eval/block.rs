//! Subqueries over one item, and what they mean as values.

use std::collections::{HashMap, HashSet};

use model::{Error, Result};

use super::Frame;
use super::aggregate::Accumulator;
use super::rows::Rows;
use crate::bound::{Block, Grouping, Shape};
use crate::error::too_much;
use crate::function::Aggregate;
use crate::limits;
use crate::value::{Value, identity_into};

impl Block {
    /// What the current row becomes; undefined drops it.
    pub(crate) fn output<'a>(&'a self, frame: &mut Frame<'a>) -> Result<Value<'a>> {
        match &self.output {
            Shape::Value(node) => node.eval(frame),
            Shape::Object(members) => super::object(members, frame),
        }
    }

    /// Whether the current row passes the filter.
    pub(crate) fn passes<'a>(&'a self, frame: &mut Frame<'a>) -> Result<bool> {
        self.filter.as_ref().map_or(Ok(true), |filter| filter.holds(frame))
    }

    /// All rows.
    pub(crate) fn all<'a>(&'a self, frame: &mut Frame<'a>) -> Result<Vec<Value<'a>>> {
        let mut all = Vec::new();
        let mut weight = 0;
        self.each(frame, &mut |value| {
            weight += value.weight();
            if weight > limits::VALUE_BYTES {
                return Err(too_much("bytes of one subquery", limits::VALUE_BYTES));
            }
            all.push(value);
            Ok(true)
        })?;
        Ok(all)
    }

    /// The first row.
    pub(crate) fn first<'a>(&'a self, frame: &mut Frame<'a>) -> Result<Option<Value<'a>>> {
        let mut first = None;
        self.each(frame, &mut |value| {
            first = Some(value);
            Ok(false)
        })?;
        Ok(first)
    }

    /// The only row; undefined where there is none.
    pub(crate) fn single<'a>(&'a self, frame: &mut Frame<'a>) -> Result<Value<'a>> {
        let mut rows = Vec::new();
        self.each(frame, &mut |value| {
            rows.push(value);
            Ok(rows.len() < 2)
        })?;
        if rows.len() > 1 {
            return Err(Error::bad_request(
                "a subquery that stands for a value gave more than one row: \
                 use ARRAY(…), EXISTS(…) or an aggregate",
            ));
        }
        Ok(rows.pop().unwrap_or_default())
    }

    /// Whether no row fails the filter.
    pub(crate) fn none_fails<'a>(&'a self, frame: &mut Frame<'a>) -> Result<bool> {
        let mut rows = Rows::new(self);
        while rows.next(frame)? {
            if !self.passes(frame)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands out the rows one by one until told to stop.
    fn each<'a>(
        &'a self,
        frame: &mut Frame<'a>,
        take: &mut dyn FnMut(Value<'a>) -> Result<bool>,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        let mut hand_out = |value: Value<'a>| {
            if value.is_undefined() || (self.distinct && !is_new(&mut seen, &value)) {
                return Ok(true);
            }
            take(value)
        };
        let mut rows = Rows::new(self);
        if let Some(grouping) = &self.grouping {
            return self.each_group(grouping, rows, frame, &mut hand_out);
        }
        while rows.next(frame)? {
            if self.passes(frame)? && !hand_out(self.output(frame)?)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn each_group<'a>(
        &'a self,
        grouping: &'a Grouping,
        mut rows: Rows<'a>,
        frame: &mut Frame<'a>,
        take: &mut dyn FnMut(Value<'a>) -> Result<bool>,
    ) -> Result<()> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut weight = 0;
        if grouping.keys.is_empty() {
            groups.push(grouping.begin(Vec::new()));
            places.insert(Vec::new(), 0);
        }
        while rows.next(frame)? {
            if !self.passes(frame)? {
                continue;
            }
            let (identity, keys) = grouping.keys_of(frame)?;
            let size = identity.len() + GROUP_BYTES;
            let place = *places.entry(identity).or_insert(groups.len());
            if place == groups.len() {
                groups.push(grouping.begin(keys));
                weight += size;
            }
            weight += grouping.add(&mut groups[place], frame)?;
            if weight > limits::VALUE_BYTES {
                return Err(too_much("bytes of the groups of a subquery", limits::VALUE_BYTES));
            }
        }
        for group in groups {
            grouping.place(group, frame);
            if !take(self.output(frame)?)? {
                break;
            }
        }
        Ok(())
    }
}

/// About what a group takes beside its keys.
pub(crate) const GROUP_BYTES: usize = 200;

/// One group under way.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub keys: Vec<Value<'static>>,
    pub accumulators: Vec<Accumulator>,
}

impl Grouping {
    /// Whether the order of rows has no say in what becomes of them.
    pub(crate) fn is_blind(&self) -> bool {
        let ordered = |aggregate| matches!(aggregate, Aggregate::MakeList | Aggregate::MakeSet);
        !self.aggregates.iter().any(|node| ordered(node.aggregate))
    }

    /// A group without rows.
    pub(crate) fn begin(&self, keys: Vec<Value<'static>>) -> Group {
        let fresh = |node: &crate::bound::AggregateNode| Accumulator::new(node.aggregate);
        Group { keys, accumulators: self.aggregates.iter().map(fresh).collect() }
    }

    /// The identity and the values of the keys of the current row.
    pub(crate) fn keys_of<'a>(
        &'a self,
        frame: &mut Frame<'a>,
    ) -> Result<(Vec<u8>, Vec<Value<'static>>)> {
        let mut identity = Vec::new();
        let mut keys = Vec::with_capacity(self.keys.len());
        for (node, _) in &self.keys {
            let value = node.eval(frame)?;
            identity_into(&value, &mut identity);
            keys.push(value.into_owned());
        }
        Ok((identity, keys))
    }

    /// Adds the current row to a group; answers by how many bytes it grew.
    pub(crate) fn add<'a>(&'a self, group: &mut Group, frame: &mut Frame<'a>) -> Result<usize> {
        let mut grown = 0;
        for (node, accumulator) in self.aggregates.iter().zip(&mut group.accumulators) {
            grown += accumulator.add(node.argument.eval(frame)?)?;
        }
        Ok(grown)
    }

    /// Puts the keys and results of a group where the output reads them.
    pub(crate) fn place(&self, group: Group, frame: &mut Frame<'_>) {
        for ((_, slot), key) in self.keys.iter().zip(group.keys) {
            frame.slots[*slot] = key;
        }
        for (node, accumulator) in self.aggregates.iter().zip(group.accumulators) {
            frame.slots[node.slot] = accumulator.finish();
        }
    }
}

/// Whether a value is the first of its kind.
pub(crate) fn is_new(seen: &mut HashSet<Vec<u8>>, value: &Value<'_>) -> bool {
    let mut identity = Vec::new();
    identity_into(value, &mut identity);
    seen.insert(identity)
}
