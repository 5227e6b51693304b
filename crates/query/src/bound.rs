//! The bound tree: names are places, functions are looked up, constants are values.
//!
//! Every alias, group key and aggregate of a query has a *slot*; slot 0 is the item. The members
//! of the item that a query names are its *fields*, looked up together in one pass over the text.

use std::collections::{HashMap, HashSet};

use model::json;

use crate::ast::{BinaryOp, SubqueryKind, UnaryOp};
use crate::eval::like::Pattern;
use crate::function::{Aggregate, Function, Memo};
use crate::value::Value;

/// The members of the item that a query names.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    names: Vec<String>,
    /// Where they are, once they are more than a few.
    places: HashMap<String, usize>,
}

/// Up to here comparing all names is quicker than a map.
const FEW: usize = 12;

impl Fields {
    /// The place of a name, which is added where it is new.
    pub(crate) fn place(&mut self, name: &str) -> usize {
        let known = match self.names.len() <= FEW {
            true => self.names.iter().position(|known| known == name),
            false => self.places.get(name).copied(),
        };
        if let Some(place) = known {
            return place;
        }
        self.names.push(name.to_owned());
        let place = self.names.len() - 1;
        // The map begins with all that were there before it.
        let from = if place < FEW { self.names.len() } else { self.places.len() };
        for (place, name) in self.names.iter().enumerate().skip(from) {
            self.places.insert(name.clone(), place);
        }
        place
    }

    /// The place of a name as it is spelled in JSON text.
    pub(crate) fn find(&self, raw: &[u8]) -> Option<usize> {
        if self.names.len() <= FEW {
            return self.names.iter().position(|name| json::key_is(raw, name));
        }
        self.places.get(&*json::unescape(raw)?).copied()
    }

    /// The name at a place.
    pub(crate) fn name(&self, place: usize) -> &String {
        &self.names[place]
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// An object's or output's members: of equal names the last one counts, where the first stood.
#[derive(Default)]
pub(crate) struct Named {
    members: Vec<(String, Node)>,
    places: HashMap<String, usize>,
}

impl Named {
    pub(crate) fn put(&mut self, name: String, node: Node) {
        match self.places.get(&name) {
            Some(place) => self.members[*place].1 = node,
            None => {
                self.places.insert(name.clone(), self.members.len());
                self.members.push((name, node));
            }
        }
    }

    pub(crate) fn finish(self) -> Vec<(String, Node)> {
        self.members
    }
}

/// The slot of the item.
pub(crate) const ITEM: usize = 0;

/// An expression.
pub(crate) enum Node {
    Constant(Value<'static>),
    Slot(usize),
    /// A member of the item, by its place among the [`Fields`].
    Field(usize),
    /// A computed property: its name and what it is computed by.
    Computed(String, Box<Node>),
    Member(Box<Node>, String),
    Index(Box<Node>, Box<Node>),
    Unary(UnaryOp, Box<Node>),
    Binary(BinaryOp, Box<(Node, Node)>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Coalesce(Vec<Node>),
    Conditional(Box<(Node, Node, Node)>),
    In(Box<Node>, List, bool),
    Between(Box<(Node, Node, Node)>, bool),
    Like(Box<Node>, LikePattern, bool),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
    Call(Box<CallNode>),
    Udf(String, Vec<Node>),
    Subquery(SubqueryKind, Box<Block>),
}

/// A call of a built-in function.
pub(crate) struct CallNode {
    pub function: &'static Function,
    pub arguments: Vec<Node>,
    /// The path of each argument that is a property of the item.
    pub paths: Vec<Option<String>>,
    pub memo: Memo,
}

/// What `IN` looks through.
pub(crate) enum List {
    /// Constants: their values, and the identities by which they are found.
    Constants(Vec<Value<'static>>, HashSet<Vec<u8>>),
    Nodes(Vec<Node>),
}

/// What `LIKE` matches.
pub(crate) enum LikePattern {
    Fixed(Pattern),
    Computed(Box<Node>, Option<char>),
}

/// A query or subquery.
pub(crate) struct Block {
    pub from: Vec<Level>,
    pub filter: Option<Node>,
    pub grouping: Option<Grouping>,
    pub output: Shape,
    pub distinct: bool,
}

/// One source of rows: what it reads, and the slot of what it finds.
pub(crate) struct Level {
    pub each: bool,
    pub over: Over,
    pub slot: usize,
}

/// What a source of rows reads.
pub(crate) enum Over {
    Node(Node),
    Block(Box<Block>),
}

/// How rows become groups. Keys and aggregates have slots that the output reads.
pub(crate) struct Grouping {
    pub keys: Vec<(Node, usize)>,
    pub aggregates: Vec<AggregateNode>,
}

/// One aggregate.
pub(crate) struct AggregateNode {
    pub aggregate: Aggregate,
    pub argument: Node,
    pub slot: usize,
}

/// What a row becomes.
pub(crate) enum Shape {
    Value(Node),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// The constant, if it is one.
    pub(crate) fn constant(&self) -> Option<&Value<'static>> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }
}
