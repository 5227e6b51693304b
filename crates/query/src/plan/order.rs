//! Which index has the order that `ORDER BY` asks for.

use bytes::Bytes;
use model::Result;

use super::composite::{Conditions, Stretch};
use super::index_path;
use crate::source::{IndexPath, KeyRange, Scan, Source};
use crate::statement::Statement;

/// An index in the order asked for.
#[derive(Debug, Clone)]
pub(crate) struct OrderScan {
    pub scan: Scan,
    /// Whether items without a value must be looked for beside it.
    pub missing: bool,
    /// Whether order keys are the bytes of entries inverted: entries are read backwards then.
    inverted: bool,
    /// What all entries begin with: values that the filter asks for and nobody sorts by.
    prefix: Bytes,
}

impl OrderScan {
    /// Whether items of one value come backwards.
    pub(crate) fn is_backwards(&self) -> bool {
        self.inverted
    }

    /// The order key of an entry.
    pub(crate) fn order_key(&self, value: &Bytes) -> Bytes {
        let value = value.slice(self.prefix.len().min(value.len())..);
        if self.inverted { value.iter().map(|byte| !byte).collect() } else { value }
    }

    /// The value of the entry with an order key.
    pub(crate) fn entry_value(&self, key: &Bytes) -> Bytes {
        let mask = if self.inverted { 0xFF } else { 0 };
        self.prefix.iter().copied().chain(key.iter().map(|byte| byte ^ mask)).collect()
    }
}

/// A sort that keeps this few documents is as good as an index in order.
const FEW: u64 = 500;
/// Rows of a page, about, where the query does not say how many it wants.
const PAGE_ROWS: u64 = 100;

/// The index that has the order, unless finding documents and sorting them costs less.
pub(super) async fn of<S: Source>(
    statement: &Statement,
    source: &S,
    conditions: &Conditions,
    cost: u64,
) -> Result<Option<OrderScan>> {
    let bound = &statement.bound;
    let all_documents = cost >= source.documents_estimate();
    if bound.order.keys.is_empty() || bound.block.distinct || (cost <= FEW && !all_documents) {
        return Ok(None);
    }
    let scan = match composite(statement, source, conditions) {
        Some(scan) => scan,
        None => match range(statement, source, conditions).await? {
            Some(scan) => scan,
            None => return Ok(None),
        },
    };
    // Where the filter finds few of the many that are in order, a page passes most of them by.
    if !all_documents {
        let entries = source.estimate(&scan.scan).await?;
        let limit = bound.offset_limit.map(|(offset, limit)| offset.saturating_add(limit));
        let rows = bound.top.or(limit).unwrap_or(PAGE_ROWS).max(1);
        let passed = entries.saturating_mul(rows).saturating_mul(super::choose::SEEK) / cost.max(1);
        if passed.min(entries).saturating_mul(super::choose::SEEK) > cost {
            return Ok(None);
        }
    }
    Ok(Some(scan))
}

/// The range index of the one property that is sorted by.
async fn range<S: Source>(
    statement: &Statement,
    source: &S,
    conditions: &Conditions,
) -> Result<Option<OrderScan>> {
    let [key] = &statement.bound.order.keys[..] else { return Ok(None) };
    let Some(path) = key.path.as_ref().map(|names| index_path(names)) else { return Ok(None) };
    if !source.covers(&path) {
        return Ok(None);
    }
    let reverse = key.descending;
    // A filter on the same property leaves a part of the index, without what is missing.
    let (range, missing) = match conditions.of_path(&path) {
        Some(range) => (range.clone(), false),
        None => (KeyRange::ALL, !source.complete(&path).await?),
    };
    let scan = Scan::Range { path, range, reverse };
    Ok(Some(OrderScan { scan, missing, inverted: reverse, prefix: Bytes::new() }))
}

/// The composite index whose last columns are sorted by, the filter asking for one value of each of
/// those before.
fn composite<S: Source>(
    statement: &Statement,
    source: &S,
    conditions: &Conditions,
) -> Option<OrderScan> {
    let keys = statement.bound.order.keys.len();
    let mut best: Option<(OrderScan, Stretch)> = None;
    for composite in source.composites() {
        let Some(first) = composite.len().checked_sub(keys) else { continue };
        let Some(reverse) = fits(statement, &composite[first..]) else { continue };
        let stretch = conditions.stretch(composite, None);
        let better = best.as_ref().is_none_or(|(_, best)| stretch.points() > best.points());
        // Without a value to begin with, the range index of a single key is as good, and smaller.
        if stretch.points() < first || (keys == 1 && first == 0) || !better {
            continue;
        }
        let prefix = stretch.prefix(first);
        let scan =
            Scan::Composite { columns: composite.clone(), range: stretch.range.clone(), reverse };
        // Entries of a composite have descending parts inverted already.
        best = Some((OrderScan { scan, missing: false, inverted: reverse, prefix }, stretch));
    }
    best.map(|(scan, _)| scan)
}

/// Whether a composite index has the keys of `ORDER BY`, and if so, whether backwards.
fn fits(statement: &Statement, composite: &[(IndexPath, bool)]) -> Option<bool> {
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
