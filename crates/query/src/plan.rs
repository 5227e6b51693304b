//! From a bound query to what is read, in which order, and what remains to be checked.
//!
//! The filter is evaluated on what was read, so a plan may find too much but never too little; only
//! where a scan is all that the filter says ([`Plan::is_filtered`]) it is left out. Which indexes are used is decided by what the source says about their sizes.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use model::Result;

use crate::bound::Grouping;
use crate::error::unserved;
use crate::function::Aggregate;
use crate::run::Place;
use crate::source::{IndexPath, KeyRange, PathStep, Scan, Source};
use crate::statement::Statement;
use crate::value::Value;

mod advice;
mod choose;
mod composite;
mod lookup;
mod nearest;
mod order;
pub(crate) mod path;
mod search;
mod values;
mod words;

pub use advice::Advice;
use composite::Conditions;
pub(crate) use lookup::Lookup;
use nearest::FEW;
pub(crate) use nearest::{NEIGHBOURS, Nearest};
pub(crate) use order::OrderScan;
pub(crate) use values::Tests;
pub(crate) use words::BestWords;

/// What is read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Access {
    /// All documents, in the order of keys.
    Documents,
    /// Nothing: the filter cannot hold.
    Nothing,
    /// The documents of one scan, in its order.
    Stream(Scan),
    /// The documents of several, in the order of keys.
    Keys(Lookup),
    /// These documents, in the order of keys.
    Items(Arc<[Bytes]>),
}

/// How a query is answered.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub access: Access,
    /// What entries are checked for before their documents are read, where they are streamed.
    pub tests: Option<Tests>,
    /// The index that has the order asked for.
    pub order: Option<OrderScan>,
    /// What a vector index may find of it.
    pub nearest: Option<Nearest>,
    /// What a full-text index may find of it.
    pub words: Option<BestWords>,
    /// The scan whose number of entries is the count asked for.
    pub count: Option<Scan>,
    /// The scans whose first and last entries are all that the aggregates asked for look at.
    pub extremes: Option<Vec<Scan>>,
    /// The scan whose entries, counted by value, are the groups asked for.
    pub groups: Option<Scan>,
    /// What the filter says of single properties.
    conditions: Conditions,
}

impl Plan {
    /// The plan of a query that goes on at a place.
    pub(crate) async fn of<S: Source>(
        statement: &Statement,
        source: &S,
        place: &Place,
    ) -> Result<Self> {
        let conditions = Conditions::of(statement);
        let lookup = lookup::of(statement, source);
        let lookup = Lookup::and(lookup, composite::lookups(source, &conditions));
        let tests = values::of(statement);
        let (access, cost) = choose::access(lookup.as_ref(), &tests, source).await?;
        let access = match place {
            // Pages go on in the order in which they began.
            Place::Entry { scan, .. } => resumed(lookup.as_ref(), source, scan)?,
            Place::Item { .. } => in_key_order(access),
            _ => access,
        };
        let tests = match &access {
            Access::Stream(scan) => Tests::of_scan(&tests, scan).cloned(),
            _ => None,
        };
        let nearest = nearest::of(statement, &access, cost);
        let words = words::of(statement, source, &access, cost);
        if !order::is_allowed(statement, source) {
            return Err(unserved(order::refusal(statement)));
        }
        let order = order::of(statement, source, &conditions, cost).await?;
        let count = count(statement, source, &conditions);
        let extremes = extremes(statement, source, &conditions);
        let groups = groups(statement, source, &conditions).await?;
        Ok(Self { access, tests, order, nearest, words, count, extremes, groups, conditions })
    }
}

/// The scan that an earlier page read, which must still be there.
fn resumed<S: Source>(lookup: Option<&Lookup>, source: &S, name: &str) -> Result<Access> {
    let scans = lookup.map_or_else(Vec::new, Lookup::scans);
    let same = scans.into_iter().find(|scan| scan.name() == name);
    let covered = same.filter(|scan| match scan {
        Scan::Range { path, .. } => source.covers(path),
        Scan::Composite { columns, .. } => source.composites().contains(columns),
        Scan::Spatial { .. } | Scan::Word { .. } => true,
    });
    covered.map(|scan| Access::Stream(scan.clone())).ok_or_else(|| {
        model::Error::bad_request(
            "the index that this continuation was reading is gone: start again without it",
        )
    })
}

fn in_key_order(access: Access) -> Access {
    match access {
        Access::Stream(scan) => Access::Keys(Lookup::Scan(scan)),
        other => other,
    }
}

/// `COUNT` of something that is always defined, over exactly the items of one scan.
fn count<S: Source>(statement: &Statement, source: &S, conditions: &Conditions) -> Option<Scan> {
    let block = &statement.bound.block;
    let grouping = block.grouping.as_ref().filter(|grouping| grouping.keys.is_empty())?;
    if !block.from.is_empty() || !only_counts(grouping) {
        return None;
    }
    exact_range(source, conditions).or_else(|| composite::exact(source, conditions))
}

/// The range index that has exactly what passes the filter, where that asks for one property.
fn exact_range<S: Source>(source: &S, conditions: &Conditions) -> Option<Scan> {
    let (path, range) = conditions.paths().next()?;
    let fits = conditions.only(path) && source.covers(path);
    fits.then(|| Scan::Range { path: path.clone(), range: range.clone(), reverse: false })
}

/// Whether all that is asked of a group is how many rows it has.
fn only_counts(grouping: &Grouping) -> bool {
    grouping.aggregates.iter().all(|node| {
        node.aggregate == Aggregate::Count
            && node.argument.constant().is_some_and(Value::is_defined)
    })
}

/// Groups by one indexed property that every item has, or that an exact filter is on; or by the
/// last property of a composite index, the others being what the filter asks for.
async fn groups<S: Source>(
    statement: &Statement,
    source: &S,
    conditions: &Conditions,
) -> Result<Option<Scan>> {
    let bound = &statement.bound;
    let Some(grouping) = &bound.block.grouping else { return Ok(None) };
    let [(key, _)] = &grouping.keys[..] else { return Ok(None) };
    let names = path::member_names(key, &bound.fields).filter(|names| !names.is_empty());
    let Some(path) = names.map(|names| index_path(&names)) else { return Ok(None) };
    if !bound.block.from.is_empty() || !only_counts(grouping) {
        return Ok(None);
    }
    if bound.block.filter.is_none() && source.covers(&path) && source.complete(&path).await? {
        return Ok(Some(Scan::Range { path, range: KeyRange::ALL, reverse: false }));
    }
    if conditions.only(&path) && source.covers(&path) {
        return Ok(exact_range(source, conditions));
    }
    let filtered = bound.block.filter.is_some();
    Ok(composite::by_property(source, conditions, &path, false).filter(|_| filtered))
}

/// `MIN` and `MAX` of indexed properties, over all items or those of one exact scan that has them
/// in the order of the property: one scan for each.
fn extremes<S: Source>(
    statement: &Statement,
    source: &S,
    conditions: &Conditions,
) -> Option<Vec<Scan>> {
    let bound = &statement.bound;
    let grouping = bound.block.grouping.as_ref().filter(|grouping| grouping.keys.is_empty())?;
    if !bound.block.from.is_empty() {
        return None;
    }
    let scan = |node: &crate::bound::AggregateNode| {
        let names = path::member_names(&node.argument, &bound.fields)?;
        let path = index_path(&names);
        let extreme = matches!(node.aggregate, Aggregate::Min | Aggregate::Max);
        if !extreme || names.is_empty() {
            return None;
        }
        if bound.block.filter.is_none() {
            let all = Scan::Range { path: path.clone(), range: KeyRange::ALL, reverse: false };
            return source.covers(&path).then_some(all);
        }
        if conditions.only(&path) && source.covers(&path) {
            return exact_range(source, conditions);
        }
        composite::by_property(source, conditions, &path, true)
    };
    grouping.aggregates.iter().map(scan).collect()
}

impl Scan {
    /// What tells it from every other scan, in few bytes.
    pub(crate) fn name(&self) -> String {
        format!("{:016x}", model::epk::digest64(format!("{self:?}").as_bytes()))
    }

    /// The value of the entry that an item has, where it has one at most.
    pub(crate) fn value_in(&self, item: &Value<'_>) -> Vec<u8> {
        let key = |path: &IndexPath| {
            let value = path.0.iter().fold(item.clone(), |value, step| match step {
                PathStep::Member(name) => value.member(name),
                PathStep::Elements => Value::Undefined,
            });
            lookup::key_of(&value)
        };
        match self {
            Self::Range { path, .. } => key(path),
            Self::Composite { columns, .. } => columns
                .iter()
                .flat_map(|(path, down)| composite::masked(&key(path), *down))
                .collect(),
            Self::Spatial { .. } | Self::Word { .. } => Vec::new(),
        }
    }

    /// The same entries, last first.
    pub(crate) fn backwards(&self) -> Self {
        let mut scan = self.clone();
        if let Self::Range { reverse, .. } | Self::Composite { reverse, .. } = &mut scan {
            *reverse = !*reverse;
        }
        scan
    }

    /// The value of all its entries, where they have one: then they are in the order of items.
    pub(crate) fn single_value(&self) -> Option<Bytes> {
        match self {
            Self::Range { range, .. } | Self::Composite { range, .. } => match &range.from {
                std::ops::Bound::Included(from) if range.is_point() => Some(from.clone()),
                _ => None,
            },
            Self::Word { .. } => Some(Bytes::new()),
            _ => None,
        }
    }

    fn is_point(&self) -> bool {
        matches!(self, Self::Range { range, .. } if range.is_point())
    }

    /// Whether it has one entry for each item that it finds.
    pub(crate) fn is_single(&self) -> bool {
        match self {
            Self::Range { path, .. } => !path.is_plural() || self.is_point(),
            Self::Word { .. } | Self::Composite { .. } => true,
            Self::Spatial { .. } => false,
        }
    }
}

impl Plan {
    /// Whether everything that a scan finds passes the filter, which need not be asked then.
    pub(crate) fn is_filtered(&self, scan: &Scan, statement: &Statement) -> bool {
        let block = &statement.bound.block;
        if block.filter.is_none() {
            return true;
        }
        let Scan::Range { path, range, .. } = scan else { return false };
        let asked = self.conditions.of_path(path);
        block.from.is_empty() && self.conditions.only(path) && asked == Some(range)
    }

    /// The scans that are read.
    pub(crate) fn used(&self) -> Vec<Scan> {
        if let Some(scan) = self.count.as_ref().or(self.groups.as_ref()) {
            return vec![scan.clone()];
        }
        if let Some(scans) = &self.extremes {
            return scans.clone();
        }
        if let Some(order) = &self.order {
            return vec![order.scan.clone()];
        }
        match &self.access {
            Access::Documents | Access::Nothing | Access::Items(_) => Vec::new(),
            Access::Stream(scan) => vec![scan.clone()],
            Access::Keys(lookup) => lookup.scans().into_iter().cloned().collect(),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scan) = &self.count {
            return write!(f, "count of {scan}");
        }
        if let Some(scan) = &self.groups {
            return write!(f, "counts by value of {scan}");
        }
        if let Some(scans) = &self.extremes {
            f.write_str("first and last of")?;
            return scans.iter().try_for_each(|scan| write!(f, " {scan}"));
        }
        if let Some(order) = &self.order {
            return write!(f, "in order: {}", order.scan);
        }
        match &self.access {
            Access::Documents => f.write_str("scan of all documents"),
            Access::Nothing => f.write_str("nothing"),
            Access::Stream(scan) if self.tests.is_some() => write!(f, "values of {scan}"),
            Access::Stream(scan) => write!(f, "{scan}"),
            Access::Keys(lookup) => write!(f, "{lookup}"),
            Access::Items(items) if self.words.is_some() => {
                write!(f, "the {} best by a full-text index", items.len())
            }
            Access::Items(items) => write!(f, "the {} nearest by a vector index", items.len()),
        }
    }
}

/// The index path of members.
pub(crate) fn index_path(names: &[String]) -> IndexPath {
    IndexPath(names.iter().map(|name| PathStep::Member(name.clone())).collect())
}
