//! The processor in a simulated world: seeds of faults, and what must hold whatever happens.
//!
//! `ASTRARIUM_SEEDS=10000 cargo test -p astrarium-processor --test simulation -- seeds` is the long run;
//! `ASTRARIUM_SEED=n` replays one.

mod balancing;
mod chaos;
mod dotnet;
mod executor;
mod fleet;
mod leases;
mod ledger;
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
        None => (0..number("ASTRARIUM_SEEDS").unwrap_or(SEEDS) / share).collect(),
    };
    for seed in seeds {
        let wrong = run(kind, seed);
        assert!(
            wrong.is_empty(),
            "seed {seed}: {}\nreplay: ASTRARIUM_SEED={seed} cargo test -p astrarium-processor --test simulation -- {test}",
            wrong.join("\n")
        );
    }
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
