//! Where the time of a page or the memory of a query ends, no row is lost and none comes twice.

extern crate astrarium_query as query;

mod support;

use support::memory::Memory;

fn rows(text: &str, source: &Memory, per_page: usize) -> model::Result<Vec<String>> {
    support::rows(&support::statement(text, &[])?, source, per_page)
}

/// One item of 1 MB and a number in it, which others are wide apart from.
fn large(n: usize, kind: usize) -> String {
    let text = format!("{n:03}{}", "x".repeat(1 << 20));
    format!("{{\"id\":\"{n:03}\",\"k\":{n},\"kind\":{kind},\"big\":\"{text}\"}}")
}

#[test]
fn a_page_that_is_over_goes_on_behind_what_it_has_looked_at() {
    let many = format!("[{}0]", "1,".repeat(99));
    let item = |n: usize| {
        format!("{{\"n\":{n},\"m\":{},\"a\":{many}}}", usize::from(n.is_multiple_of(100)))
    };
    let items: Vec<String> = (0..250).map(item).collect();
    // Costly enough that it takes a breath with each item.
    let costly = "(SELECT VALUE COUNT(1) FROM x IN c.a JOIN y IN c.a WHERE x + y < 0) = 0";
    for descends in ["", " DESC"] {
        for page_breaths in [3, 50] {
            let mut source = Memory::new(&items, true, Vec::new());
            source.page_breaths = page_breaths;
            let filter = format!("{costly} AND c.m + 0 = 1");
            let text = format!("SELECT VALUE c.n FROM c WHERE {filter} ORDER BY c.n{descends}");
            let mut found = rows(&text, &source, 10).expect("rows");
            if !descends.is_empty() {
                found.reverse();
            }
            assert_eq!(found, ["0", "100", "200"], "{page_breaths}{descends}");
        }
    }
}

#[test]
fn rows_given_up_for_memory_come_later() {
    let mut items: Vec<String> = (0..90).map(|n| large(n, 1)).collect();
    // Small ones behind the large ones, which would fit.
    let last = |n: usize| format!("{{\"id\":\"{n:03}\",\"k\":{n},\"kind\":1,\"big\":\"9{n}\"}}");
    items.extend((90..95).map(last));
    let source = Memory::new(&items, false, Vec::new());
    let expected: Vec<String> = (0..95).map(|n| n.to_string()).collect();
    for per_page in [1000, 10] {
        let found = rows("SELECT VALUE c.k FROM c ORDER BY c.big", &source, per_page);
        assert_eq!(found.expect("rows"), expected, "{per_page}");
    }
}

#[test]
fn groups_are_held_within_bounds() {
    let items: Vec<String> = (0..90).map(|n| large(n, 1)).collect();
    let source = Memory::new(&items, false, Vec::new());
    let sizes = "SELECT VALUE LENGTH(MAX(c.big)) FROM c GROUP BY c.k";
    assert_eq!(rows(sizes, &source, 100).expect("rows").len(), 90);
    let keys = "SELECT VALUE COUNT(1) FROM c GROUP BY c.big";
    assert_eq!(rows(keys, &source, 100).expect("rows"), vec!["1"; 90]);
    let lists = "SELECT DISTINCT c.k, ARRAY_LENGTH(MAKELIST(c.big)) AS m FROM c GROUP BY c.k";
    let refused = rows(lists, &source, 100).expect_err("too much");
    assert!(refused.to_string().contains("DISTINCT"), "{refused}");
}
