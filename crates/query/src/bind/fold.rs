//! Constants that expressions over constants are.

use model::{Error, Result};

use crate::bound::{Fields, Node};
use crate::eval::{Context, Frame};
use crate::function::Run;
use crate::value::Value;
use crate::world::{Budget, Settings, World};

/// The constant that a node is, where it is one; otherwise the node. Only the node itself is
/// looked at: what is below it has been folded before.
pub(super) fn folded(node: Node, settings: &Settings) -> Node {
    if !is_foldable(&node) {
        return node;
    }
    let budget = Budget::default();
    let fields = Fields::default();
    let context =
        Context { world: &Nowhere, started_ticks: 0, settings, budget: &budget, fields: &fields };
    let value = node.eval(&mut Frame::empty(&context, 1)).map(Value::into_owned);
    value.map_or(node, Node::Constant)
}

fn is_foldable(node: &Node) -> bool {
    let constant = |node: &Node| node.constant().is_some();
    match node {
        Node::Unary(_, inner) => constant(inner),
        Node::Binary(_, pair) => constant(&pair.0) && constant(&pair.1),
        Node::Array(nodes) => nodes.iter().all(constant),
        Node::Object(members) => members.iter().all(|(_, node)| constant(node)),
        Node::Call(call) => {
            let scalar = matches!(call.function.run, Run::Scalar(_));
            scalar && call.function.stable && call.arguments.iter().all(constant)
        }
        _ => false,
    }
}

/// Where constants are computed there is no time and no chance.
struct Nowhere;

impl World for Nowhere {
    fn now_ticks(&self) -> i64 {
        0
    }

    fn random(&self) -> f64 {
        0.0
    }

    fn call(&self, _: &str, _: &[Value<'_>]) -> Result<Value<'static>> {
        Err(Error::bad_request("no script runs here"))
    }
}
