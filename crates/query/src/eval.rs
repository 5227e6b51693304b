//! Evaluation: a bound tree and an item in, values out.
//!
//! It cannot fail on data; what fails is a limit or a user-defined function. Values borrow from
//! the item and the tree, so a filter that says no has copied nothing.

use model::{Result, json};

use crate::ast::SubqueryKind;
use crate::bound::{CallNode, Fields, ITEM, LikePattern, List, Node};
use crate::function::{Call, Run};
use crate::value::{Value, equal, identity_into};
use crate::world::{Budget, Settings, World};

pub(crate) mod aggregate;
pub(crate) mod block;
pub(crate) mod like;
mod operator;
pub(crate) mod rows;

/// What all evaluations of one execution share.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    pub world: &'c dyn World,
    pub started_ticks: i64,
    pub settings: &'c Settings,
    pub budget: &'c Budget,
    pub fields: &'c Fields,
}

/// The state of the evaluation over one item.
pub(crate) struct Frame<'a> {
    pub context: &'a Context<'a>,
    pub slots: Vec<Value<'a>>,
    fields: Vec<Option<&'a [u8]>>,
    fields_found: bool,
}

impl<'a> Frame<'a> {
    /// Over an item, given as checked JSON text.
    pub(crate) fn new(context: &'a Context<'a>, slots: usize, item: &'a [u8]) -> Self {
        let mut all = Vec::with_capacity(slots);
        all.push(Value::from_raw(item));
        all.resize_with(slots.max(1), Value::default);
        Self { context, slots: all, fields: Vec::new(), fields_found: false }
    }

    /// Over no item at all.
    pub(crate) fn empty(context: &'a Context<'a>, slots: usize) -> Self {
        Self::new(context, slots, b"")
    }

    fn field(&mut self, at: usize) -> Value<'a> {
        if !self.fields_found {
            self.find_fields();
        }
        self.fields[at].map_or(Value::Undefined, Value::from_raw)
    }

    /// One pass over the item for all its fields. The last of repeated names counts.
    fn find_fields(&mut self) {
        let names = self.context.fields;
        self.fields = vec![None; names.len()];
        self.fields_found = true;
        if let Value::Raw(item) = self.slots[ITEM] {
            for (key, value) in json::raw_members(item) {
                if let Some(at) = names.find(key) {
                    self.fields[at] = Some(value);
                }
            }
        }
    }
}

impl Node {
    /// The value of the expression.
    pub(crate) fn eval<'a>(&'a self, frame: &mut Frame<'a>) -> Result<Value<'a>> {
        Ok(match self {
            Self::Constant(value) => value.borrowed(),
            Self::Slot(at) => frame.slots[*at].clone(),
            Self::Field(at) => frame.field(*at),
            Self::Computed(_, node) => node.eval(frame)?,
            Self::Member(owner, name) => owner.eval(frame)?.member(name),
            Self::Index(owner, index) => index_of(owner, index, frame)?,
            Self::Unary(operator, node) => operator::unary(*operator, &node.eval(frame)?),
            Self::Binary(operator, pair) => {
                let left = pair.0.eval(frame)?;
                // What one side decides, the other need not be asked.
                if left.is_undefined() {
                    return Ok(Value::Undefined);
                }
                let right = pair.1.eval(frame)?;
                operator::binary(*operator, left, right, frame.context.budget)?
            }
            Self::And(all) => chain(all, false, frame)?,
            Self::Or(all) => chain(all, true, frame)?,
            Self::Coalesce(all) => coalesce(all, frame)?,
            Self::Conditional(three) => {
                let chosen = if three.0.eval(frame)?.is_true() { &three.1 } else { &three.2 };
                chosen.eval(frame)?
            }
            Self::In(needle, list, negated) => is_in(needle, list, *negated, frame)?,
            Self::Between(three, negated) => between(three, *negated, frame)?,
            Self::Like(text, pattern, negated) => matches(text, pattern, *negated, frame)?,
            Self::Array(nodes) => array(nodes, frame)?,
            Self::Object(members) => object(members, frame)?,
            Self::Call(call) => call.eval(frame)?,
            Self::Udf(name, arguments) => udf(name, arguments, frame)?,
            Self::Subquery(kind, block) => subquery(*kind, block, frame)?,
        })
    }

    /// Whether the expression is exactly `true`.
    pub(crate) fn holds<'a>(&'a self, frame: &mut Frame<'a>) -> Result<bool> {
        if let Self::And(all) = self {
            for node in all {
                if !node.holds(frame)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(self.eval(frame)?.is_true())
    }
}

fn index_of<'a>(owner: &'a Node, index: &'a Node, frame: &mut Frame<'a>) -> Result<Value<'a>> {
    let owner = owner.eval(frame)?;
    Ok(match index.eval(frame)? {
        Value::String(name) => owner.member(&name),
        Value::Number(number) => {
            let at = number.as_int().and_then(|at| usize::try_from(at).ok());
            at.map_or(Value::Undefined, |at| owner.element(at))
        }
        _ => Value::Undefined,
    })
}

/// `AND` (decided by false) and `OR` (decided by true), with what is no boolean as unknown.
fn chain<'a>(all: &'a [Node], decisive: bool, frame: &mut Frame<'a>) -> Result<Value<'a>> {
    let mut unknown = false;
    for node in all {
        match node.eval(frame)?.as_bool() {
            Some(value) if value == decisive => return Ok(Value::Bool(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Undefined } else { Value::Bool(!decisive) })
}

fn coalesce<'a>(all: &'a [Node], frame: &mut Frame<'a>) -> Result<Value<'a>> {
    for node in all {
        let value = node.eval(frame)?;
        if value.is_defined() {
            return Ok(value);
        }
    }
    Ok(Value::Undefined)
}

fn is_in<'a>(
    needle: &'a Node,
    list: &'a List,
    negated: bool,
    frame: &mut Frame<'a>,
) -> Result<Value<'a>> {
    let needle = needle.eval(frame)?;
    if needle.is_undefined() {
        return Ok(Value::Undefined);
    }
    let found = match list {
        List::Constants(_, identities) => {
            let mut identity = Vec::new();
            identity_into(&needle, &mut identity);
            // What is no number has an identity but equals nothing.
            identities.contains(&identity) && equal(&needle, &needle)
        }
        List::Nodes(nodes) => {
            let mut found = false;
            for node in nodes {
                found |= equal(&needle, &node.eval(frame)?);
            }
            found
        }
    };
    Ok(Value::Bool(found != negated))
}

fn between<'a>(
    three: &'a (Node, Node, Node),
    negated: bool,
    frame: &mut Frame<'a>,
) -> Result<Value<'a>> {
    let value = three.0.eval(frame)?;
    let low = operator::ordered(&value, &three.1.eval(frame)?).map(|order| order.is_ge());
    let high = operator::ordered(&value, &three.2.eval(frame)?).map(|order| order.is_le());
    let within = match (low, high) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    };
    Ok(within.map(|within| within != negated).into())
}

fn matches<'a>(
    text: &'a Node,
    pattern: &'a LikePattern,
    negated: bool,
    frame: &mut Frame<'a>,
) -> Result<Value<'a>> {
    let text = text.eval(frame)?;
    let Some(text) = text.as_str() else { return Ok(Value::Undefined) };
    let budget = frame.context.budget;
    let found = match pattern {
        LikePattern::Fixed(pattern) => pattern.matches(text, budget)?,
        LikePattern::Computed(node, escape) => {
            let pattern = node.eval(frame)?;
            let Some(pattern) = pattern.as_str() else { return Ok(Value::Undefined) };
            like::Pattern::new(pattern, *escape).matches(text, budget)?
        }
    };
    Ok(Value::Bool(found != negated))
}

fn array<'a>(nodes: &'a [Node], frame: &mut Frame<'a>) -> Result<Value<'a>> {
    let values: Result<Vec<_>> = nodes.iter().map(|node| node.eval(frame)).collect();
    Ok(Value::array(values?))
}

fn object<'a>(members: &'a [(String, Node)], frame: &mut Frame<'a>) -> Result<Value<'a>> {
    let mut values = Vec::with_capacity(members.len());
    for (name, node) in members {
        let value = node.eval(frame)?;
        if value.is_defined() {
            values.push((name.as_str().into(), value));
        }
    }
    // No name comes twice: binding saw to it.
    Ok(Value::Object(values.into()))
}

impl CallNode {
    fn eval<'a>(&'a self, frame: &mut Frame<'a>) -> Result<Value<'a>> {
        let Run::Scalar(run) = self.function.run else { return Ok(Value::Undefined) };
        let mut arguments = Vec::with_capacity(self.arguments.len());
        for (at, node) in self.arguments.iter().enumerate() {
            let value = node.eval(frame)?;
            if !self.function.sees_all && !self.function.param(at).accepts(&value) {
                return Ok(Value::Undefined);
            }
            arguments.push(value);
        }
        let context = frame.context;
        context.budget.spend(1)?;
        let call = Call {
            world: context.world,
            started_ticks: context.started_ticks,
            settings: context.settings,
            budget: context.budget,
            paths: &self.paths,
            memo: &self.memo,
        };
        run(&call, &arguments)
    }
}

fn udf<'a>(name: &str, arguments: &'a [Node], frame: &mut Frame<'a>) -> Result<Value<'a>> {
    let mut values = Vec::with_capacity(arguments.len());
    for node in arguments {
        let value = node.eval(frame)?;
        if value.is_undefined() {
            return Ok(Value::Undefined);
        }
        values.push(value);
    }
    frame.context.world.call(name, &values)
}

fn subquery<'a>(
    kind: SubqueryKind,
    block: &'a crate::bound::Block,
    frame: &mut Frame<'a>,
) -> Result<Value<'a>> {
    Ok(match kind {
        SubqueryKind::Scalar => block.single(frame)?,
        SubqueryKind::Exists => Value::Bool(block.first(frame)?.is_some()),
        SubqueryKind::Array => Value::array(block.all(frame)?),
        SubqueryKind::All => Value::Bool(block.none_fails(frame)?),
        SubqueryKind::First => block.first(frame)?.unwrap_or_default(),
        SubqueryKind::Last => block.all(frame)?.pop().unwrap_or_default(),
    })
}
