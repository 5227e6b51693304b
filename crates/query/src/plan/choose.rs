//! Which of the lookups pay: by the numbers that the source gives.

use model::Result;

use super::{Access, Lookup, Tests};
use crate::limits;
use crate::source::{IndexPath, Scan, Source};

/// What reading a document by its key costs, in documents read in a row.
pub(super) const SEEK: u64 = 4;
/// What an index entry costs, in hundredths of a document.
const ENTRY_PERCENT: u64 = 20;
/// A further lookup is intersected with the best one if it has at most so many times its entries.
const WORTH: u64 = 8;

/// How documents are found, and about what it costs in documents read.
pub(super) async fn access<S: Source>(
    lookup: Option<&Lookup>,
    tests: &[Tests],
    source: &S,
) -> Result<(Access, u64)> {
    let documents = source.documents_estimate();
    let Some(lookup) = lookup else { return Ok((Access::Documents, documents)) };
    let (lookup, entries) = trimmed(lookup, tests, source).await?;
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
async fn trimmed<S: Source>(lookup: &Lookup, tests: &[Tests], source: &S) -> Result<(Lookup, u64)> {
    match lookup {
        Lookup::Scan(Scan::Range { range, .. } | Scan::Composite { range, .. })
            if range.is_empty() =>
        {
            Ok((Lookup::Any(Vec::new()), 0))
        }
        Lookup::Scan(scan) => Ok((lookup.clone(), worth(scan, tests, source).await?)),
        Lookup::Any(all) => {
            let mut total = 0_u64;
            let mut parts = Vec::with_capacity(all.len());
            for part in all {
                // What the filter says of all rows is not checked on the entries of some.
                let (part, entries) = Box::pin(trimmed(part, &[], source)).await?;
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
                parts.push(Box::pin(trimmed(part, tests, source)).await?);
            }
            Ok(best(parts))
        }
    }
}

/// How many entries a scan has, as many as cost the same: those that a test leaves out cost no
/// document. How many that are is told from the first of them.
async fn worth<S: Source>(scan: &Scan, tests: &[Tests], source: &S) -> Result<u64> {
    let entries = source.estimate(scan).await?;
    let Some(tests) = Tests::of_scan(tests, scan).filter(|_| scan.is_single()) else {
        return Ok(entries);
    };
    let mut sample = source.scan(scan, None, SAMPLE).await?.rows;
    let looked_at = sample.len().max(1) as u64;
    tests.retain(&mut sample)?;
    let found = entries.saturating_mul(sample.len() as u64) / looked_at;
    let one = SEEK * 100 + ENTRY_PERCENT;
    let left_out = (entries - found.min(entries)).saturating_mul(ENTRY_PERCENT) / one;
    Ok(found.saturating_add(left_out))
}

/// Entries that are looked at to tell how many pass a test.
const SAMPLE: usize = 64;

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
    let adds = |(lookup, _): &(Lookup, u64)| !says_all_of(&first.0, lookup);
    let others = parts.into_iter().filter(|part| worth(part) && adds(part));
    let mut kept: Vec<Lookup> = others.map(|(lookup, _)| lookup).collect();
    if kept.is_empty() || !first.0.scans().iter().all(|scan| scan.single_value().is_some()) {
        return first;
    }
    kept.insert(0, first.0);
    (Lookup::All(kept), least)
}

/// Whether a composite index leaves nothing to another one that is about the same properties.
fn says_all_of(first: &Lookup, other: &Lookup) -> bool {
    let Lookup::Scan(Scan::Composite { columns, .. }) = first else { return false };
    let known = |path: &IndexPath| columns.iter().any(|(column, _)| column == path);
    match other {
        Lookup::Scan(Scan::Range { path, .. }) => known(path),
        Lookup::Scan(Scan::Composite { columns, .. }) => {
            columns.iter().all(|(path, _)| known(path))
        }
        _ => false,
    }
}

/// So few entries are not worth a second lookup.
const FEW: u64 = 32;
