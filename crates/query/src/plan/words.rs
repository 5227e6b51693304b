//! What a full-text index is asked for by clients that rank themselves: `ORDER BY _FullTextScore(…)`.

use super::path::member_names;
use super::{Access, FEW, NEIGHBOURS, index_path};
use crate::bound::Node;
use crate::function::text;
use crate::source::{IndexPath, Source};
use crate::statement::Statement;
use crate::value::Value;

/// The items whose texts fit some words best.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BestWords {
    pub path: IndexPath,
    /// The words of each term, and how many texts have the term.
    pub terms: Vec<(Vec<String>, f64)>,
    /// How many texts there are, and words in them.
    pub texts: f64,
    pub words: f64,
    /// How many must pass the filter.
    pub count: usize,
}

/// What a full-text index could answer: one score to order by, best first, and a count. Where the
/// filter finds few documents by itself, no index is asked.
pub(super) fn of<S: Source>(
    statement: &Statement,
    source: &S,
    access: &Access,
    cost: u64,
) -> Option<BestWords> {
    let bound = &statement.bound;
    let [key] = &bound.order.keys[..] else { return None };
    let Node::Call(call) = &key.node else { return None };
    let few = *access != Access::Documents && cost <= FEW;
    let plain = bound.block.from.is_empty() && !bound.block.distinct;
    if call.function.name != "_FULLTEXTSCORE" || !key.descending || few || !plain {
        return None;
    }
    let count = bound.rows_wanted().filter(|count| *count <= NEIGHBOURS)?;
    let constant = |at: usize| call.arguments.get(at).and_then(Node::constant);
    let names = member_names(call.arguments.first()?, &bound.fields);
    let path = index_path(&names.filter(|names| !names.is_empty())?);
    if !source.covers_text(&path) {
        return None;
    }
    let language = text::language(call.paths.first()?.as_deref(), &statement.settings);
    let pairs = constant(1)?.elements()?.zip(constant(4)?.elements()?);
    let term = |(term, hits): (Value<'_>, Value<'_>)| {
        Some((text::words(term.as_str()?, language).collect(), hits.as_f64()?))
    };
    let terms = pairs.map(term).collect::<Option<Vec<_>>>()?;
    let (texts, words) = (constant(2)?.as_f64()?, constant(3)?.as_f64()?);
    Some(BestWords { path, terms, texts, words, count })
}
