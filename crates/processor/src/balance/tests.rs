//! Checks of the plan.

use super::*;

fn host(owner: &str) -> Host {
    Host { owner: owner.into(), weight: 1.0, min: 0, max: 0, closed: false, leaving: false }
}

/// Leases `l00`, `l01`, … with these owners; `-` is free.
fn leases(owners: &str) -> Vec<Item> {
    let item = |(nth, owner): (usize, &str)| Item {
        id: format!("l{nth:03}"),
        owner: (owner != "-").then(|| owner.to_owned()),
        load: 0.0,
    };
    owners.split_whitespace().enumerate().map(item).collect()
}

fn counts(plan: &BTreeMap<String, Option<String>>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for owner in plan.values() {
        *counts.entry(owner.clone().unwrap_or("-".into())).or_default() += 1;
    }
    counts
}

fn moves(leases: &[Item], plan: &BTreeMap<String, Option<String>>) -> usize {
    leases.iter().filter(|lease| lease.owner.is_some() && plan[&lease.id] != lease.owner).count()
}

#[test]
fn a_joining_host_gets_its_share_with_the_fewest_moves() {
    let owners: Vec<&str> = (0..100).map(|n| ["a", "b", "c", "d"][n % 4]).collect();
    let leases = leases(&owners.join(" "));
    let hosts = ["a", "b", "c", "d", "e"].map(host);
    let planned = plan(&hosts, &leases, false);
    assert_eq!(moves(&leases, &planned), 20);
    assert!(counts(&planned).values().all(|count| *count == 20), "{:?}", counts(&planned));
}

#[test]
fn a_balanced_fleet_stays_as_it_is() {
    let leases = leases("a b a b a");
    let planned = plan(&["a", "b"].map(host), &leases, false);
    assert_eq!(moves(&leases, &planned), 0);
}

#[test]
fn all_hosts_agree_whatever_the_order() {
    let mut leases = leases("- - - a a a a b -");
    let mut hosts = ["a", "b", "c"].map(host);
    let first = plan(&hosts, &leases, false);
    leases.reverse();
    hosts.reverse();
    assert_eq!(plan(&hosts, &leases, false), first);
}

#[test]
fn a_leaving_host_is_emptied_and_a_closed_one_keeps() {
    let leases = leases("a a b b");
    let mut hosts = ["a", "b"].map(host);
    hosts[0].closed = true;
    hosts[0].leaving = true;
    assert_eq!(counts(&plan(&hosts, &leases, false)), BTreeMap::from([("b".into(), 4)]));
    hosts[0].leaving = false;
    assert_eq!(moves(&leases, &plan(&hosts, &leases, false)), 0);
    // The last one out keeps what nobody can take, until it is free.
    hosts[0].leaving = true;
    let alone = self::leases("a a");
    assert_eq!(moves(&alone, &plan(&hosts[..1], &alone, false)), 0);
}

#[test]
fn min_max_weights() {
    let mut hosts = ["a", "b"].map(host);
    hosts[0].max = 2;
    let planned = plan(&hosts[..1], &leases("- - -"), false);
    assert_eq!(counts(&planned), BTreeMap::from([("-".into(), 1), ("a".into(), 2)]));

    hosts[0].max = 0;
    hosts[1].min = 3;
    let planned = plan(&hosts, &leases("a a a a"), false);
    assert_eq!(counts(&planned), BTreeMap::from([("a".into(), 1), ("b".into(), 3)]));

    hosts[1].min = 0;
    hosts[1].weight = 3.0;
    let planned = plan(&hosts, &leases("- - - - - - - -"), false);
    assert_eq!(counts(&planned), BTreeMap::from([("a".into(), 2), ("b".into(), 6)]));
}

#[test]
fn more_hosts_than_leases_leaves_some_idle() {
    let hosts: Vec<Host> = (0..10).map(|n| host(&format!("h{n}"))).collect();
    let planned = plan(&hosts, &leases("- - -"), false);
    assert_eq!(counts(&planned).len(), 3);
}

#[test]
fn load_aware_move() {
    let mut leases = leases("a a a a a b b b b b");
    for lease in &mut leases {
        lease.load = 10.0;
    }
    leases[0].load = 100.0;
    let hosts = ["a", "b"].map(host);
    // The hot host sheds cold leases until the plan is at rest.
    let mut rounds = 0;
    loop {
        let planned = plan(&hosts, &leases, true);
        if moves(&leases, &planned) == 0 {
            break;
        }
        for lease in &mut leases {
            lease.owner.clone_from(&planned[&lease.id]);
        }
        rounds += 1;
        assert!(rounds < 10, "it swings");
    }
    let load = |owner: &str| -> f64 {
        leases.iter().filter(|l| l.owner.as_deref() == Some(owner)).map(|l| l.load).sum()
    };
    assert_eq!(leases[0].owner.as_deref(), Some("a"));
    assert!(load("a") <= 110.0 && load("b") >= 80.0, "{} {}", load("a"), load("b"));
}
