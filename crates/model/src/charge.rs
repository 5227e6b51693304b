//! What a request costs in request units, by one rule.
//!
//! The service publishes a few figures, not its formula. The rule here is the straight line
//! through them. With `k` the size in KB of 1024 bytes, let
//!
//! ```text
//! size = 1 + 9 × (k − 1) ÷ 99      and never below 1
//! ```
//!
//! | request | charge | anchor |
//! |---|---|---|
//! | point read | size | 1 KB: 1 RU, 100 KB: 10 RU |
//! | create | 5 × size + ¼ for each indexed term | not indexed, 1 KB: 5 RU, 100 KB: 50 RU |
//! | replace | twice a create | about twice an insert |
//! | upsert | a create or a replace, whichever it was | |
//! | delete | a create of what is deleted | about an insert |
//! | page of a feed | the reads of its items, at least 1 | 1,000 items of 1 KB: 1,000 RU |
//! | page of a query | 2 + 1/20 for each KB read, an item counting at least one, + 1/1000 for each index entry | one item by an indexed property: 2 to 3 RU |
//! | metadata | 1 | 1 to 2 RU |
//! | refused request | 1 | failures are charged too |
//!
//! Reads with strong or bounded-staleness consistency ask two replicas and cost
//! [double](doubled); writes cost the same at all levels. All charges have two decimals.

const KB: f64 = 1024.0;
/// Request units that a KB adds, beyond the first.
const PER_KB: f64 = 9.0 / 99.0;
const WRITE_FACTOR: f64 = 5.0;
const PER_INDEXED_TERM: f64 = 0.25;
const QUERY: f64 = 2.0;
const PER_KB_QUERIED: f64 = 0.05;
const PER_INDEX_ENTRY: f64 = 0.001;

/// A point read of an item of this size.
pub fn read(bytes: usize) -> f64 {
    rounded(size(bytes))
}

/// A create of an item of this size that adds so many terms to the index.
pub fn create(bytes: usize, indexed_terms: usize) -> f64 {
    rounded(WRITE_FACTOR * size(bytes) + PER_INDEXED_TERM * indexed_terms as f64)
}

/// A replace, given the size and the terms of the new version.
pub fn replace(bytes: usize, indexed_terms: usize) -> f64 {
    rounded(2.0 * create(bytes, indexed_terms))
}

/// An upsert, given the size and the terms of the new version, and whether there was an old one.
pub fn upsert(bytes: usize, indexed_terms: usize, existed: bool) -> f64 {
    if existed { replace(bytes, indexed_terms) } else { create(bytes, indexed_terms) }
}

/// A delete, given the size and the terms of what is deleted.
pub fn delete(bytes: usize, indexed_terms: usize) -> f64 {
    create(bytes, indexed_terms)
}

/// A page of so many items which have so many bytes together; also an empty page.
pub fn feed(bytes: usize, items: usize) -> f64 {
    let items = items as f64;
    let beyond_first_kb = (bytes as f64 / KB - items).max(0.0);
    rounded((items + PER_KB * beyond_first_kb).max(1.0))
}

/// A page of a query that has read so many items, which have so many bytes together, and so many
/// entries of indexes.
pub fn query(items: u64, bytes: u64, entries: u64) -> f64 {
    let kb = (bytes as f64 / KB).max(items as f64);
    rounded(QUERY + kb * PER_KB_QUERIED + entries as f64 * PER_INDEX_ENTRY)
}

/// A request for a database, container, script, offer and so on.
pub fn metadata() -> f64 {
    1.0
}

/// A request that was refused after it was understood.
pub fn refused() -> f64 {
    1.0
}

/// A read with strong or bounded-staleness consistency, given what it costs otherwise.
pub fn doubled(charge: f64) -> f64 {
    rounded(2.0 * charge)
}

fn size(bytes: usize) -> f64 {
    (1.0 + PER_KB * (bytes as f64 / KB - 1.0)).max(1.0)
}

fn rounded(charge: f64) -> f64 {
    (charge * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: usize = 1024;
    const HUNDRED: usize = 100 * 1024;

    #[test]
    fn published_figures_hold() {
        assert_eq!(read(ONE), 1.0);
        assert_eq!(read(HUNDRED), 10.0);
        assert_eq!(create(ONE, 0), 5.0);
        assert_eq!(create(HUNDRED, 0), 50.0);
        assert_eq!(replace(ONE, 0), 10.0);
        assert_eq!(delete(ONE, 0), 5.0);
        assert_eq!(feed(1000 * ONE, 1000), 1000.0);
        assert_eq!(doubled(read(ONE)), 2.0);
    }

    #[test]
    fn small_things_cost_the_least_and_index_terms_add() {
        assert_eq!(read(0), 1.0);
        assert_eq!(feed(0, 0), 1.0);
        assert_eq!(feed(10, 3), 3.0);
        assert_eq!(create(100, 3), 5.75);
        assert_eq!(upsert(100, 3, false), create(100, 3));
        assert_eq!(upsert(100, 3, true), replace(100, 3));
    }

    #[test]
    fn a_page_of_one_costs_as_its_point_read() {
        for bytes in [1, ONE, 3 * ONE + 17, HUNDRED] {
            assert_eq!(feed(bytes, 1), read(bytes));
        }
    }

    #[test]
    fn queries_cost_what_they_read() {
        assert_eq!(query(0, 0, 0), 2.0);
        assert_eq!(query(1, 300, 1), 2.05);
        assert_eq!(query(100, 100 * 1024, 100), 7.1);
    }

    #[test]
    fn charges_have_two_decimals() {
        assert_eq!(read(2 * ONE), 1.09);
        assert_eq!(doubled(1.09), 2.18);
    }
}
