//! The rows of `FROM` and its `JOIN`s over one item: a cross product from left to right, one row
//! at a time.

use std::sync::Arc;

use model::{Result, json};

use super::Frame;
use crate::bound::{Block, Over};
use crate::value::{Type, Value};

/// A walk over the rows of a block. The current row is in the slots of the frame.
pub(crate) struct Rows<'a> {
    block: &'a Block,
    walks: Vec<Walk<'a>>,
    begun: bool,
}

/// What is left of one source of rows.
enum Walk<'a> {
    Raw(json::Elements<'a>),
    Built(Arc<[Value<'a>]>, usize),
    List(std::vec::IntoIter<Value<'a>>),
    /// The elements of each value of a list.
    Each(std::vec::IntoIter<Value<'a>>, Box<Walk<'a>>),
}

impl<'a> Rows<'a> {
    pub(crate) fn new(block: &'a Block) -> Self {
        Self { block, walks: Vec::with_capacity(block.from.len()), begun: false }
    }

    /// Goes to the next row; false where there is none.
    pub(crate) fn next(&mut self, frame: &mut Frame<'a>) -> Result<bool> {
        frame.context.budget.spend(1)?;
        let block = self.block;
        if block.from.is_empty() {
            return Ok(!std::mem::replace(&mut self.begun, true));
        }
        if !self.begun {
            self.begun = true;
            self.walks.push(walk(block, 0, frame)?);
        }
        // Deeper where there is a value, back where there is none.
        while let Some(level) = self.walks.len().checked_sub(1) {
            let Some(value) = self.walks[level].next() else {
                self.walks.pop();
                continue;
            };
            frame.slots[block.from[level].slot] = value;
            if level + 1 == block.from.len() {
                return Ok(true);
            }
            frame.context.budget.spend(1)?;
            self.walks.push(walk(block, level + 1, frame)?);
        }
        Ok(false)
    }
}

fn walk<'a>(block: &'a Block, level: usize, frame: &mut Frame<'a>) -> Result<Walk<'a>> {
    let level = &block.from[level];
    Ok(match &level.over {
        Over::Node(node) => {
            let value = node.eval(frame)?;
            if level.each {
                elements(value)
            } else {
                let rows: Vec<_> = Some(value).filter(Value::is_defined).into_iter().collect();
                Walk::List(rows.into_iter())
            }
        }
        Over::Block(inner) => {
            let rows = inner.all(frame)?.into_iter();
            if level.each { Walk::Each(rows, Box::new(nothing())) } else { Walk::List(rows) }
        }
    })
}

fn nothing<'a>() -> Walk<'a> {
    Walk::List(Vec::new().into_iter())
}

fn elements(value: Value<'_>) -> Walk<'_> {
    match value {
        Value::Array(elements) => Walk::Built(elements, 0),
        Value::Raw(raw) if value.kind() == Type::Array => Walk::Raw(json::elements(raw)),
        _ => nothing(),
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        match self {
            Self::Raw(raw) => raw.next().map(Value::from_raw),
            Self::Built(elements, at) => {
                *at += 1;
                elements.get(*at - 1).cloned()
            }
            Self::List(list) => list.next(),
            Self::Each(list, inner) => loop {
                if let Some(value) = inner.next() {
                    return Some(value);
                }
                **inner = elements(list.next()?);
            },
        }
    }
}
