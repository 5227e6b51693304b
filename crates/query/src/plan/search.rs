//! What spatial and full-text indexes are asked for.

use super::lookup::{Lookup, Reader, any};
use crate::ast::BinaryOp;
use crate::bound::{CallNode, Node};
use crate::function::{spatial, text};
use crate::source::{Bounds, IndexPath, Scan};
use crate::value::Value;

impl Reader<'_> {
    /// The items whose words a call asks for.
    pub(super) fn words(&self, call: &CallNode) -> Option<Lookup> {
        let path = self.plain_path(&call.arguments[0])?;
        if !(self.covers.text)(&path) {
            return None;
        }
        let settings = &self.statement.settings;
        let language = text::language(call.paths.first()?.as_deref(), settings);
        let mut terms = Vec::new();
        for term in &call.arguments[1..] {
            // A term that may differ by some letters is in no one place.
            let term = term.constant()?.as_str()?;
            let words: Vec<Lookup> =
                text::words(term, language).map(|word| of_word(&path, word)).collect();
            terms.push(words);
        }
        if terms.iter().any(Vec::is_empty) {
            return None;
        }
        if call.function.name == "FULLTEXTCONTAINSANY" {
            return Some(any(terms.into_iter().map(all).collect()));
        }
        Some(all(terms.into_iter().flatten().collect()))
    }

    /// The items near to, or touching, a geometry that the query gives.
    pub(super) fn touching(&self, arguments: &[Node]) -> Option<Lookup> {
        let (path, geometry) = self.path_and_geometry(arguments)?;
        let bounds = spatial::bounds(geometry, self.statement.settings.planar)?;
        Some(Lookup::Scan(Scan::Spatial { path, bounds }))
    }

    /// `ST_DISTANCE(a, b) < r`, either way round.
    pub(super) fn within_distance(
        &self,
        operator: BinaryOp,
        distance: &Node,
        limit: &Value<'_>,
    ) -> Option<Lookup> {
        let Node::Call(call) = distance else { return None };
        let below = matches!(operator, BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Equal);
        if call.function.name != "ST_DISTANCE" || !below {
            return None;
        }
        let (path, geometry) = self.path_and_geometry(&call.arguments)?;
        let limit = limit.as_f64().filter(|limit| limit.is_finite())?;
        let planar = self.statement.settings.planar;
        let bounds: Bounds =
            spatial::grown(spatial::bounds(geometry, planar)?, limit.max(0.0), planar);
        Some(Lookup::Scan(Scan::Spatial { path, bounds }))
    }

    fn path_and_geometry<'n>(
        &self,
        arguments: &'n [Node],
    ) -> Option<(IndexPath, &'n Value<'static>)> {
        let (property, geometry) = match (arguments.first()?, arguments.get(1)?) {
            (property, Node::Constant(geometry)) => (property, geometry),
            (Node::Constant(geometry), property) => (property, geometry),
            _ => return None,
        };
        let path = self.plain_path(property)?;
        (self.covers.spatial)(&path).then_some((path, geometry))
    }
}

fn of_word(path: &IndexPath, word: String) -> Lookup {
    Lookup::Scan(Scan::Word { path: path.clone(), word })
}

fn all(mut parts: Vec<Lookup>) -> Lookup {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            Lookup::All(parts)
        }
        None => Lookup::Any(Vec::new()),
    }
}
