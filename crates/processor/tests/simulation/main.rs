//! The processor in a simulated world: seeds of faults, and what must hold whatever happens.
//!
//! `ASTRARIUM_SEEDS=10000 cargo test --release -p astrarium-processor --test simulation -- seeds_of` is the
//! long run; `ASTRARIUM_FROM=n` makes it begin with other seeds than 0, and `ASTRARIUM_SEED=n` replays one.

mod balancing;
mod chaos;
mod dotnet;
mod executor;
mod fleet;
mod leases;
mod ledger;
mod letters;
mod mutations;
mod room;
mod splits;
mod troubles;
mod world;

use chaos::{Kind, run};

/// Seeds of a normal run.
const SEEDS: u64 = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn check(kind: Kind, test: &str, share: u64) {
    let seeds: Vec<u64> = match number("ASTRARIUM_SEED") {
        Some(seed) => vec![seed],
        None => {
            let from = number("ASTRARIUM_FROM").unwrap_or(0);
            (from..from + number("ASTRARIUM_SEEDS").unwrap_or(SEEDS) / share).collect()
        }
    };
    let count = seeds.len();
    let broken: Vec<String> =
        seeds.into_iter().filter_map(|seed| broken(kind, test, seed)).collect();
    assert!(broken.is_empty(), "{} of {count} seeds\n{}", broken.len(), broken.join("\n"));
}

/// What a seed has broken, and how to see it again. Said at once: a long run goes on.
fn broken(kind: Kind, test: &str, seed: u64) -> Option<String> {
    let wrong = run(kind, seed);
    if wrong.is_empty() {
        return None;
    }
    let text = format!(
        "seed {seed}: {}\nreplay: ASTRARIUM_SEED={seed} cargo test -p astrarium-processor --test simulation -- {test}",
        wrong.join("\n")
    );
    eprintln!("{text}");
    Some(text)
}

#[test]
fn seeds_of_faults_break_nothing() {
    check(Kind::Faults, "seeds_of_faults_break_nothing", 2);
}

#[test]
fn seeds_of_planned_moves_repeat_nothing() {
    check(Kind::Graceful, "seeds_of_planned_moves_repeat_nothing", 4);
}

#[test]
fn seeds_of_merges_lose_nothing() {
    check(Kind::Merges, "seeds_of_merges_lose_nothing", 4);
}

#[test]
fn seeds_of_mixed_fleets_lose_nothing() {
    check(Kind::Mixed, "seeds_of_mixed_fleets_lose_nothing", 4);
}

#[test]
fn sim_reference_v3_fails() {
    let fails = (0..20).any(|seed| {
        let wrong = run(Kind::Reference, seed);
        wrong.iter().any(|text| text.starts_with("invariant 6"))
    });
    assert!(fails, "planned moves by the rule of .NET repeat nothing: the harness is blind");
}

#[test]
fn a_seed_is_one_story() {
    assert_eq!(chaos::story(Kind::Faults, 3), chaos::story(Kind::Faults, 3));
}
