//! Which of the lookups pay: by the numbers that the source gives.

use model::Result;

use super::{Access, Lookup};
use crate::limits;
use crate::source::{Scan, Source};

/// What reading a document by its key costs, in documents read in a row.
const SEEK: u64 = 4;
/// What an index entry costs, in hundredths of a document.
const ENTRY_PERCENT: u64 = 20;
/// A further lookup is intersected with the best one if it has at most so many times its entries.
const WORTH: u64 = 8;

/// How documents are found, and about what it costs in documents read.
pub(super) async fn access<S: Source>(
    lookup: Option<&Lookup>,
    source: &S,
) -> Result<(Access, u64)> {
    let documents = source.documents_estimate();
    let Some(lookup) = lookup else { return Ok((Access::Documents, documents)) };
    let (lookup, entries) = trimmed(lookup, source).await?;
    if matches!(&lookup, Lookup::Any(none) if none.is_empty()) {
        return Ok((Access::Nothing, 0));
    }
    let cost = entries.saturating_mul(SEEK * 100 + ENTRY_PERCENT) / 100;
    if cost > documents || (!streams(&lookup) && entries > limits::INDEX_KEYS as u64) {
        return Ok((Access::Documents, documents));
    }
    let access = match lookup {
        Lookup::Scan(scan) if scan.is_single() => Access::Stream(scan),
        other => Access::Keys(other),
    };
    Ok((access, cost))
}

/// Whether it is read as it is needed.
fn streams(lookup: &Lookup) -> bool {
    matches!(lookup, Lookup::Scan(scan) if scan.is_single())
}

/// A lookup with only the parts that pay, and how many entries it reads.
async fn trimmed<S: Source>(lookup: &Lookup, source: &S) -> Result<(Lookup, u64)> {
    match lookup {
        Lookup::Scan(Scan::Range { range, .. }) if range.is_empty() => {
            Ok((Lookup::Any(Vec::new()), 0))
        }
        Lookup::Scan(scan) => Ok((lookup.clone(), source.estimate(scan).await?)),
        Lookup::Any(all) => {
            let mut total = 0_u64;
            let mut parts = Vec::with_capacity(all.len());
            for part in all {
                let (part, entries) = Box::pin(trimmed(part, source)).await?;
                total = total.saturating_add(entries);
                if !matches!(&part, Lookup::Any(none) if none.is_empty()) {
                    parts.push(part);
                }
            }
            let only = if parts.len() == 1 { parts.pop() } else { None };
            Ok((only.unwrap_or(Lookup::Any(parts)), total))
        }
        Lookup::All(all) => {
            let mut parts = Vec::with_capacity(all.len());
            for part in all {
                parts.push(Box::pin(trimmed(part, source)).await?);
            }
            Ok(best(parts))
        }
    }
}

/// The smallest of several lookups, with those that make it smaller still.
fn best(mut parts: Vec<(Lookup, u64)>) -> (Lookup, u64) {
    parts.sort_by_key(|(_, entries)| *entries);
    let Some((_, least)) = parts.first() else { return (Lookup::Any(Vec::new()), 0) };
    let least = *least;
    // Few entries are read and filtered sooner than intersected, and ranges would be gathered.
    let worth = |(lookup, entries): &(Lookup, u64)| {
        let points = lookup.scans().into_iter().all(|scan| scan.single_value().is_some());
        least > FEW && points && *entries <= least.saturating_mul(WORTH)
    };
    let first = parts.remove(0);
    let mut kept: Vec<Lookup> = parts.into_iter().filter(worth).map(|(lookup, _)| lookup).collect();
    if kept.is_empty() || !first.0.scans().iter().all(|scan| scan.single_value().is_some()) {
        return first;
    }
    kept.insert(0, first.0);
    (Lookup::All(kept), least)
}

/// So few entries are not worth a second lookup.
const FEW: u64 = 32;
