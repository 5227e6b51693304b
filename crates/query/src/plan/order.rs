//! Which index has the order that `ORDER BY` asks for.

use bytes::Bytes;
use model::Result;

use super::{Lookup, index_path};
use crate::source::{Composite, IndexPath, KeyRange, Scan, Source};
use crate::statement::Statement;

/// An index in the order asked for.
#[derive(Debug, Clone)]
pub(crate) struct OrderScan {
    pub scan: Scan,
    /// Whether items without a value must be looked for beside it.
    pub missing: bool,
    /// Whether order keys are the bytes of entries inverted.
    inverted: bool,
}

impl OrderScan {
    /// The order key of an entry.
    pub(crate) fn order_key(&self, value: &Bytes) -> Bytes {
        if self.inverted { value.iter().map(|byte| !byte).collect() } else { value.clone() }
    }

    /// The value of the entry with an order key.
    pub(crate) fn entry_value(&self, key: &Bytes) -> Bytes {
        self.order_key(key)
    }
}

/// A sort that keeps this few documents is as good as an index in order.
const FEW: u64 = 500;

/// The index that has the order, unless finding few documents and sorting them costs less.
pub(super) async fn of<S: Source>(
    statement: &Statement,
    source: &S,
    lookup: Option<&Lookup>,
    cost: u64,
) -> Result<Option<OrderScan>> {
    let bound = &statement.bound;
    let keys = &bound.order.keys;
    let Some(first) = keys.first() else { return Ok(None) };
    let all_documents = cost >= source.documents_estimate();
    if (cost <= FEW && !all_documents) || bound.block.distinct {
        return Ok(None);
    }
    let Some(path) = &first.path else { return Ok(None) };
    if keys.len() > 1 {
        return Ok(composite(statement, source));
    }
    let path = index_path(path);
    if !source.covers(&path) {
        return Ok(None);
    }
    let reverse = first.descending;
    // A filter on the same property leaves a part of the index, without what is missing.
    if let Some(range) = lookup.and_then(|lookup| range_of(lookup, &path)) {
        let scan = Scan::Range { path, range, reverse };
        return Ok(Some(OrderScan { scan, missing: false, inverted: reverse }));
    }
    let missing = !source.complete(&path).await?;
    let scan = Scan::Range { path, range: KeyRange::ALL, reverse };
    Ok(Some(OrderScan { scan, missing, inverted: reverse }))
}

/// The values of a property that a filter lets through, if it says so.
fn range_of(lookup: &Lookup, path: &IndexPath) -> Option<KeyRange> {
    match lookup {
        Lookup::Scan(Scan::Range { path: known, range, .. }) if known == path => {
            Some(range.clone())
        }
        Lookup::All(all) => all.iter().find_map(|part| range_of(part, path)),
        _ => None,
    }
}

fn composite<S: Source>(statement: &Statement, source: &S) -> Option<OrderScan> {
    let (index, reverse) = source
        .composites()
        .iter()
        .enumerate()
        .find_map(|(index, composite)| Some((index, fits(statement, composite)?)))?;
    let scan = Scan::Composite { index, range: KeyRange::ALL, reverse };
    // Entries of a composite have descending parts inverted already.
    Some(OrderScan { scan, missing: false, inverted: reverse })
}

/// Whether a composite index has the keys of `ORDER BY`, and if so, whether backwards.
fn fits(statement: &Statement, composite: &Composite) -> Option<bool> {
    let keys = &statement.bound.order.keys;
    if keys.len() != composite.len() {
        return None;
    }
    let reverse = keys[0].descending != composite[0].1;
    let fits = keys.iter().zip(composite).all(|(key, (path, descending))| {
        let same = key.path.as_ref().is_some_and(|names| index_path(names) == *path);
        same && (key.descending != *descending) == reverse
    });
    fits.then_some(reverse)
}

/// Whether the source serves the order, by an index or by sorting.
pub(super) fn is_allowed<S: Source>(statement: &Statement, source: &S) -> bool {
    let keys = &statement.bound.order.keys;
    if source.sorts() || keys.is_empty() {
        return true;
    }
    match &keys[..] {
        [key] => key.path.as_ref().is_none_or(|path| source.covers(&index_path(path))),
        _ => source.composites().iter().any(|composite| fits(statement, composite).is_some()),
    }
}

/// Why an order is refused.
pub(super) fn refusal(statement: &Statement) -> &'static str {
    if statement.bound.order.keys.len() > 1 {
        "The order by query does not have a corresponding composite index that it can be served \
         from."
    } else {
        "The index path corresponding to the specified order-by item is excluded."
    }
}
