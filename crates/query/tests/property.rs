//! Random queries over random documents: the same rows by a scan, by indexes, in pages of any size,
//! and by a client that fans out. `SEED=n` replays one run, `RUNS=n` does more of them.

extern crate astrarium_query as query;

mod support;

use serde_json::Value as Tree;
use support::chance::Chance;
use support::memory::Memory;
use support::random::{self, Kind};

const RUNS: u64 = 25;
const QUERIES: usize = 40;

#[test]
fn every_way_gives_the_same_rows() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RUNS").unwrap_or(RUNS),
    };
    for seed in seeds {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut chance = Chance::new(seed);
    let count = chance.below(40);
    let documents: Vec<String> = (0..count).map(|id| random::document(&mut chance, id)).collect();
    let composites = random::COMPOSITES
        .map(|columns| columns.map(|(name, down)| (path(&[name]), down)).to_vec());
    let plain = Memory::new(&documents, false, Vec::new());
    let indexed = Memory::new(&documents, true, composites.to_vec());
    for _ in 0..QUERIES {
        let query = random::query(&mut chance);
        let place = format!("seed {seed}: {}", query.text);
        let statement = support::statement(&query.text, &[]).expect(&place);
        let expected = support::rows(&statement, &plain, 1_000).expect(&place);
        let page = 1 + chance.below(7);
        let ways = [
            ("scan by pages", &plain, page),
            ("index", &indexed, 1_000),
            ("index by pages", &indexed, page),
        ];
        for (way, source, per_page) in ways {
            let got = support::rows(&statement, source, per_page).expect(&place);
            let trees = |rows: &[String]| -> Vec<Tree> {
                rows.iter().map(|row| serde_json::from_str(row).expect("JSON")).collect()
            };
            same(&place, way, query.kind, &trees(&expected), &trees(&got));
        }
        for parts in [1, 2, 7] {
            // Stretches of the order of keys, as partitions are.
            let share = count.div_ceil(parts).max(1);
            let partitions: Vec<Memory> =
                (0..parts).map(|part| indexed.part(|at| at / share == part)).collect();
            let got = support::fan_out::rows(&query.text, &partitions, page).expect(&place);
            let expected: Vec<Tree> =
                expected.iter().map(|row| serde_json::from_str(row).expect("JSON")).collect();
            same(&place, &format!("{parts} partitions"), query.kind, &expected, &got);
        }
    }
}

fn path(names: &[&str]) -> query::source::IndexPath {
    query::source::IndexPath::members(names)
}

#[track_caller]
fn same(place: &str, way: &str, kind: Kind, expected: &[Tree], got: &[Tree]) {
    let show = |rows: &[Tree]| {
        let rows: Vec<String> = rows.iter().map(Tree::to_string).collect();
        rows.join("\n  ")
    };
    let fits = match kind {
        Kind::Count => expected.len() == got.len(),
        Kind::Set => sorted(expected) == sorted(got),
        Kind::Ordered => keys(expected) == keys(got) && sorted(expected) == sorted(got),
        Kind::OrderedKeys => keys(expected) == keys(got),
    };
    assert!(fits, "{place}\n{way} differs\nexpected\n  {}\ngot\n  {}", show(expected), show(got));
}

/// Rows by their identities: 1 and 1.0 are the same, and members have no order.
fn sorted(rows: &[Tree]) -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = rows.iter().map(identity).collect();
    rows.sort();
    rows
}

fn keys(rows: &[Tree]) -> Vec<Vec<Vec<u8>>> {
    let key = |row: &Tree| ["k0", "k1"].iter().map(|name| identity(&row[*name])).collect();
    rows.iter().map(key).collect()
}

fn identity(row: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    query::value::identity_into(&query::value::Value::from_tree(row), &mut out);
    out
}

/// Values as long as items can be do not make continuations long, and pages are the same.
#[test]
fn long_values_make_short_continuations() {
    let documents: Vec<String> = (0..12)
        .map(|at| format!("{{\"id\":\"{at}\",\"a\":\"{}{}\"}}", "x".repeat(5_000), at % 5))
        .collect();
    let texts = [
        "SELECT c.a AS k0, c.id FROM c ORDER BY c.a",
        "SELECT c.a AS k0, c.id FROM c ORDER BY c.a DESC",
        "SELECT VALUE c.id FROM c WHERE c.a > 'a'",
        "SELECT VALUE c.id FROM c WHERE STARTSWITH(c.a, 'xx')",
        "SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a",
        "SELECT c.a, MAX(c.id) AS n FROM c GROUP BY c.a",
    ];
    for indexed in [false, true] {
        let source = Memory::new(&documents, indexed, Vec::new());
        for text in texts {
            let statement = support::statement(text, &[]).expect(text);
            let expected = support::rows(&statement, &source, 1_000).expect(text);
            let want = query::Want { rows: 2, bytes: 4 << 20 };
            let (mut rows, mut resume) = (Vec::new(), None::<bytes::Bytes>);
            loop {
                let page = statement.page(&source, &support::Still, want, resume.as_deref());
                let page = support::block_on(page).expect(text);
                rows.extend(page.rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()));
                match page.resume {
                    Some(next) => resume = Some(next),
                    None => break,
                }
                assert!(resume.as_ref().is_some_and(|next| next.len() < 2_000), "{text}");
            }
            assert_eq!(rows, expected, "{text}");
        }
    }
}
