//! Which index entries a filter asks for.
//!
//! A condition becomes a scan where an index covers its path; `AND` keeps what any of its parts
//! can look up, `OR` only where all can. What cannot be looked up is left to the filter.

use std::fmt;
use std::ops::Bound;

use bytes::Bytes;

use super::path::{index_path_of, member_names};
use crate::ast::{BinaryOp, SubqueryKind};
use crate::bound::{Block, CallNode, LikePattern, List, Node};
use crate::limits;
use crate::source::{IndexPath, KeyRange, PathStep, Scan, Source};
use crate::statement::Statement;
use crate::value::{Type, Value, sort_key_into, text_key_into};

/// Items that indexes find.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Lookup {
    /// Those of one scan.
    Scan(Scan),
    /// Those of all.
    All(Vec<Lookup>),
    /// Those of any; of none where there are none.
    Any(Vec<Lookup>),
}

/// What the filter of a statement looks up, where anything can be.
pub(crate) fn of<S: Source>(statement: &Statement, source: &S) -> Option<Lookup> {
    let block = &statement.bound.block;
    let covers = Covers {
        range: &|path| source.covers(path),
        text: &|path| source.covers_text(path),
        spatial: &|path| source.covers_spatial(path),
    };
    let reader = Reader { statement, covers, aliases: Vec::new() };
    reader.of_block(block).filter(|lookup| lookup.count() <= limits::INDEX_SCANS)
}

/// Whether the filter is nothing but conditions on the property of a scan, which finds exactly the
/// items that they hold for.
pub(crate) fn is_exact(statement: &Statement, scan: &Scan) -> bool {
    let Scan::Range { path, .. } = scan else { return false };
    match &statement.bound.block.filter {
        _ if path.is_plural() => false,
        Some(Node::And(all)) => {
            all.len() <= AND_SCANS && all.iter().all(|node| is_on(statement, node, path))
        }
        Some(node) => is_on(statement, node, path),
        None => false,
    }
}

/// Whether a condition compares one property, the one at the path, with constants.
fn is_on(statement: &Statement, node: &Node, path: &IndexPath) -> bool {
    let is_property = |node: &Node| {
        let names = member_names(node, &statement.bound.fields);
        names.is_some_and(|names| super::index_path(&names) == *path)
    };
    match node {
        Node::Binary(operator, pair) if *operator == BinaryOp::Equal || is_order(*operator) => {
            match (pair.0.constant(), pair.1.constant()) {
                (None, Some(_)) => is_property(&pair.0),
                (Some(_), None) => is_property(&pair.1),
                _ => false,
            }
        }
        Node::Between(three, false) => {
            is_property(&three.0) && three.1.constant().is_some() && three.2.constant().is_some()
        }
        _ => false,
    }
}

/// Conditions of one `AND` that are looked up; the filter has them all.
const AND_SCANS: usize = 64;

/// Which paths have which index.
#[derive(Clone, Copy)]
pub(super) struct Covers<'r> {
    pub range: &'r dyn Fn(&IndexPath) -> bool,
    pub text: &'r dyn Fn(&IndexPath) -> bool,
    pub spatial: &'r dyn Fn(&IndexPath) -> bool,
}

/// Reads what a filter looks up.
pub(super) struct Reader<'r> {
    pub statement: &'r Statement,
    pub covers: Covers<'r>,
    /// Slots that stand for elements of arrays, and the paths of those.
    aliases: Vec<(usize, IndexPath)>,
}

impl Reader<'_> {
    /// What a block needs to have a row: its filter, with its aliases as elements.
    fn of_block(&self, block: &Block) -> Option<Lookup> {
        let mut aliases = self.aliases.clone();
        for level in &block.from {
            let crate::bound::Over::Node(node) = &level.over else { continue };
            if let Some(path) = index_path_of(node, &self.statement.bound.fields, &aliases) {
                let path = if level.each { path.then(PathStep::Elements) } else { path };
                aliases.push((level.slot, path));
            }
        }
        let inner = Reader { statement: self.statement, covers: self.covers, aliases };
        inner.condition(block.filter.as_ref()?)
    }

    fn condition(&self, node: &Node) -> Option<Lookup> {
        match node {
            Node::Constant(value) if !value.is_true() => Some(Lookup::Any(Vec::new())),
            Node::And(all) => self.all(all),
            Node::Or(all) => {
                let mut parts = Vec::new();
                for node in all {
                    parts.push(self.condition(node)?);
                    if parts.len() > limits::INDEX_SCANS {
                        return None;
                    }
                }
                Some(any(parts))
            }
            Node::Binary(operator, pair) => self.comparison(*operator, &pair.0, &pair.1),
            Node::Between(three, false) => self.between(three),
            Node::In(needle, List::Constants(values, _), false)
                if values.len() <= limits::INDEX_SCANS =>
            {
                let path = self.path(needle)?;
                let defined = values.iter().filter(|value| value.is_defined());
                Some(any(defined.map(|value| equal(&path, value)).collect()))
            }
            Node::Like(text, LikePattern::Fixed(pattern), false) => {
                let path = self.path(text)?;
                match pattern.exactly() {
                    Some(text) => Some(equal(&path, &Value::text(text))),
                    None => Some(begins(&path, &pattern.prefix().0)),
                }
            }
            Node::Subquery(SubqueryKind::Exists, block) => self.of_block(block),
            Node::Call(call) => self.call(call),
            // A property that must be true by itself.
            node => Some(equal(&self.path(node)?, &Value::Bool(true))),
        }
    }

    fn all(&self, nodes: &[Node]) -> Option<Lookup> {
        let mut scans: Vec<Lookup> = Vec::new();
        for part in nodes.iter().filter_map(|node| self.condition(node)).take(AND_SCANS) {
            merge(&mut scans, part);
        }
        match scans.len() {
            0 => None,
            1 => scans.pop(),
            _ => Some(Lookup::All(scans)),
        }
    }

    /// The path of a property of the item itself.
    pub(super) fn plain_path(&self, node: &Node) -> Option<IndexPath> {
        let names = member_names(node, &self.statement.bound.fields)?;
        (!names.is_empty()).then(|| super::index_path(&names))
    }

    /// The path of an expression, where an index covers it.
    fn path(&self, node: &Node) -> Option<IndexPath> {
        let path = index_path_of(node, &self.statement.bound.fields, &self.aliases)?;
        (!path.0.is_empty() && (self.covers.range)(&path)).then_some(path)
    }

    fn comparison(&self, operator: BinaryOp, left: &Node, right: &Node) -> Option<Lookup> {
        let (property, operator, value) = match (left.constant(), right.constant()) {
            (None, Some(value)) => (left, operator, value),
            (Some(value), None) => (right, mirrored(operator), value),
            _ => return None,
        };
        if let Some(near) = self.within_distance(operator, property, value) {
            return Some(near);
        }
        let path = self.path(property)?;
        if operator == BinaryOp::Equal {
            return Some(if value.is_defined() { equal(&path, value) } else { none() });
        }
        if !is_order(operator) {
            return None;
        }
        let ordered = matches!(value.kind(), Type::Null | Type::Bool | Type::Number | Type::String);
        let finite = value.as_f64().is_none_or(|number| !number.is_nan());
        if !ordered || !finite {
            return Some(none());
        }
        Some(range(&path, of_type(value.kind()).intersect(&side(operator, value))))
    }

    fn between(&self, three: &(Node, Node, Node)) -> Option<Lookup> {
        let path = self.path(&three.0)?;
        let low = three.1.constant()?;
        let high = three.2.constant()?;
        let primitive = |value: &Value<'_>| {
            matches!(value.kind(), Type::Null | Type::Bool | Type::Number | Type::String)
        };
        if !primitive(low) || low.kind() != high.kind() {
            return Some(none());
        }
        let from = side(BinaryOp::GreaterOrEqual, low);
        let to = side(BinaryOp::LessOrEqual, high);
        Some(range(&path, of_type(low.kind()).intersect(&from).intersect(&to)))
    }

    fn call(&self, call: &CallNode) -> Option<Lookup> {
        let arguments = &call.arguments[..];
        let argument = |at: usize| arguments.get(at).and_then(Node::constant);
        // A comparison that ignores case reaches further than one range.
        let ignores_case = arguments.get(2).is_some();
        match call.function.name {
            "STARTSWITH" if !ignores_case => {
                Some(begins(&self.path(&arguments[0])?, argument(1)?.as_str()?))
            }
            "STRINGEQUALS" if !ignores_case => {
                let text = argument(1).filter(|value| value.as_str().is_some())?;
                Some(equal(&self.path(&arguments[0])?, text))
            }
            "STARTSWITH" | "STRINGEQUALS" | "CONTAINS" | "ENDSWITH" | "REGEXMATCH" => {
                Some(range(&self.path(&arguments[0])?, of_type(Type::String)))
            }
            "IS_DEFINED" => Some(range(&self.path(&arguments[0])?, KeyRange::ALL)),
            "IS_STRING" => Some(range(&self.path(&arguments[0])?, of_type(Type::String))),
            "IS_NUMBER" => Some(range(&self.path(&arguments[0])?, of_type(Type::Number))),
            "IS_BOOL" => Some(range(&self.path(&arguments[0])?, of_type(Type::Bool))),
            "IS_NULL" => Some(range(&self.path(&arguments[0])?, of_type(Type::Null))),
            "IS_ARRAY" => Some(range(&self.path(&arguments[0])?, of_type(Type::Array))),
            "IS_OBJECT" => Some(range(&self.path(&arguments[0])?, of_type(Type::Object))),
            "ARRAY_CONTAINS" => self.array_contains(arguments),
            "FULLTEXTCONTAINS" | "FULLTEXTCONTAINSALL" | "FULLTEXTCONTAINSANY" => self.words(call),
            "ST_WITHIN" | "ST_INTERSECTS" => self.touching(arguments),
            _ => None,
        }
    }

    /// Whole elements are entries of `/a/[]/?`; the members of a partial one, of `/a/[]/m/?`.
    fn array_contains(&self, arguments: &[Node]) -> Option<Lookup> {
        let array = index_path_of(&arguments[0], &self.statement.bound.fields, &self.aliases)?;
        let elements = array.then(PathStep::Elements);
        let value = arguments[1].constant().filter(|value| value.is_defined())?;
        let partial = match arguments.get(2) {
            None => false,
            Some(node) => node.constant()?.is_true(),
        };
        if !partial || value.kind() != Type::Object {
            return (self.covers.range)(&elements).then(|| equal(&elements, value));
        }
        let mut parts = Vec::new();
        for (name, member) in value.members()? {
            let path = elements.then(PathStep::Member(name.into_owned()));
            if (self.covers.range)(&path) {
                parts.push(equal(&path, &member));
            }
        }
        (!parts.is_empty()).then_some(Lookup::All(parts))
    }
}

impl Lookup {
    /// How many scans are in it.
    fn count(&self) -> usize {
        match self {
            Self::Scan(_) => 1,
            Self::All(all) | Self::Any(all) => all.iter().map(Self::count).sum(),
        }
    }

    /// All scans in it.
    pub(crate) fn scans(&self) -> Vec<&Scan> {
        match self {
            Self::Scan(scan) => vec![scan],
            Self::All(all) | Self::Any(all) => all.iter().flat_map(Self::scans).collect(),
        }
    }
}

/// Adds a condition to others that must hold too: ranges of one value become one range.
fn merge(scans: &mut Vec<Lookup>, part: Lookup) {
    match part {
        Lookup::All(parts) => parts.into_iter().for_each(|part| merge(scans, part)),
        Lookup::Scan(Scan::Range { path, range, reverse }) if !path.is_plural() => {
            let known = scans.iter_mut().find_map(|scan| match scan {
                Lookup::Scan(Scan::Range { path: known, range, .. }) if *known == path => {
                    Some(range)
                }
                _ => None,
            });
            match known {
                Some(known) => *known = known.intersect(&range),
                None => scans.push(Lookup::Scan(Scan::Range { path, range, reverse })),
            }
        }
        other => scans.push(other),
    }
}

pub(super) fn any(mut parts: Vec<Lookup>) -> Lookup {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    Lookup::Any(parts)
}

fn none() -> Lookup {
    Lookup::Any(Vec::new())
}

fn range(path: &IndexPath, range: KeyRange) -> Lookup {
    Lookup::Scan(Scan::Range { path: path.clone(), range, reverse: false })
}

fn equal(path: &IndexPath, value: &Value<'_>) -> Lookup {
    range(path, KeyRange::exactly(key_of(value)))
}

fn begins(path: &IndexPath, text: &str) -> Lookup {
    // The type comes first in the keys of all texts.
    let mut prefix = key_of(&Value::text(""));
    prefix.truncate(1);
    text_key_into(text, &mut prefix);
    range(path, KeyRange::beginning(prefix))
}

pub(super) fn key_of(value: &Value<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    sort_key_into(value, &mut key);
    key
}

/// All values of a type: their keys begin with the same byte.
fn of_type(kind: Type) -> KeyRange {
    let example = match kind {
        Type::Undefined => Value::Undefined,
        Type::Null => Value::Null,
        Type::Bool => Value::Bool(false),
        Type::Number => Value::int(0),
        Type::String => Value::text(""),
        Type::Array => Value::array(Vec::new()),
        Type::Object => Value::object(Vec::new()),
    };
    KeyRange::beginning(vec![key_of(&example)[0]])
}

fn side(operator: BinaryOp, value: &Value<'_>) -> KeyRange {
    let key = Bytes::from(key_of(value));
    let (from, to) = match operator {
        BinaryOp::Less => (Bound::Unbounded, Bound::Excluded(key)),
        BinaryOp::LessOrEqual => (Bound::Unbounded, Bound::Included(key)),
        BinaryOp::Greater => (Bound::Excluded(key), Bound::Unbounded),
        _ => (Bound::Included(key), Bound::Unbounded),
    };
    KeyRange { from, to }
}

fn is_order(operator: BinaryOp) -> bool {
    matches!(
        operator,
        BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Greater | BinaryOp::GreaterOrEqual
    )
}

fn mirrored(operator: BinaryOp) -> BinaryOp {
    match operator {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        other => other,
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, all) = match self {
            Self::Scan(scan) => return write!(f, "{scan}"),
            Self::All(all) => ("all", all),
            Self::Any(all) => ("any", all),
        };
        write!(f, "{word} of (")?;
        for (at, lookup) in all.iter().take(SHOWN).enumerate() {
            write!(f, "{}{lookup}", if at == 0 { "" } else { "; " })?;
        }
        f.write_str(if all.len() > SHOWN { "; …)" } else { ")" })
    }
}

/// Scans that an explanation names.
const SHOWN: usize = 8;
