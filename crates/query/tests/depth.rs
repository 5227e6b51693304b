//! The deepest queries that are allowed run on a small stack; deeper ones are refused.

extern crate astrarium_query as query;

mod support;

use query::limits;
use support::memory::Memory;

/// Half of what threads have by default.
const STACK_BYTES: usize = 1 << 20;

fn on_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(test);
    thread.expect("a thread").join().expect("no panic");
}

/// The most levels of a wrapping that are accepted.
fn deepest(wrap: impl Fn(usize) -> String) -> usize {
    let accepted = |depth: usize| support::statement(&wrap(depth), &[]).is_ok();
    assert!(accepted(8), "{}", wrap(8));
    let deepest = (8..=limits::TREE_HEIGHT + 8).take_while(|depth| accepted(*depth)).last();
    let deepest = deepest.expect("some depth");
    assert!(deepest < limits::TREE_HEIGHT + 8, "{} has no limit", wrap(8));
    deepest
}

#[test]
fn the_deepest_queries_run() {
    on_small_stack(|| {
        let item = format!("{{\"a\":{}1{}}}", "[".repeat(126), "]".repeat(126));
        let source = Memory::new(&[item], true, Vec::new());
        type Wrap = (&'static str, &'static str, &'static str);
        let wraps: [Wrap; 10] = [
            ("(", "c.a", ")"),
            ("[", "c.a", "]"),
            ("{x: ", "c.a", "}"),
            ("IIF(true, ", "c.a", ", 1)"),
            ("- ", "1", ""),
            ("NOT ", "true", ""),
            ("1 + ", "1", ""),
            ("(SELECT VALUE ", "c.a", ")"),
            ("ARRAY(SELECT VALUE x FROM x IN (SELECT VALUE [", "1", "]))"),
            ("true ? ", "1", " : 0"),
        ];
        for (open, inner, close) in wraps {
            let wrap = |depth: usize| {
                format!("SELECT VALUE {}{inner}{} FROM c", open.repeat(depth), close.repeat(depth))
            };
            let depth = deepest(wrap);
            let statement = support::statement(&wrap(depth), &[]).expect("a query");
            let rows = support::rows(&statement, &source, 10).expect("rows");
            assert_eq!(rows.len(), 1, "{open} {depth}");
            assert!(depth >= 24, "{open} only {depth} levels");
        }
    });
}
