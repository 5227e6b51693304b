//! The rule of version 3 of the .NET library, exactly.
//!
//! Used towards hosts of that library, which know no hand-off, and by the simulation as the
//! reference that repeats changes when leases move.

use std::collections::BTreeMap;

/// A lease as the rule sees it; `owner` is empty for one that is free or expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its live owner.
    pub owner: Option<&'a str>,
}

/// The leases that a host takes now: free ones up to its share, else one of the busiest host.
pub fn take<'a>(leases: &[Seen<'a>], me: &str, min: usize, max: usize) -> Vec<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::from([(me, 0)]);
    for owner in leases.iter().filter_map(|lease| lease.owner) {
        *counts.entry(owner).or_default() += 1;
    }
    let mine = counts.get(me).copied().unwrap_or(0);
    let target = share(leases.len(), counts.len(), min, max);
    if leases.is_empty() || target <= mine {
        return Vec::new();
    }
    let need = target - mine;
    let free: Vec<&str> =
        leases.iter().filter(|lease| lease.owner.is_none()).map(|lease| lease.id).collect();
    if !free.is_empty() {
        return free.into_iter().take(need).collect();
    }
    let busiest = counts.iter().max_by_key(|(_, count)| **count);
    let Some((busiest, count)) = busiest.map(|(owner, count)| (*owner, *count)) else {
        return Vec::new();
    };
    if count <= target - usize::from(need > 1) {
        return Vec::new();
    }
    leases
        .iter()
        .find(|lease| lease.owner == Some(busiest))
        .map(|lease| lease.id)
        .into_iter()
        .collect()
}

fn share(leases: usize, workers: usize, min: usize, max: usize) -> usize {
    let mut target = if leases <= workers { 1 } else { leases.div_ceil(workers) };
    if max > 0 {
        target = target.min(max);
    }
    if min > 0 { target.max(min) } else { target }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owners in order: `-` is free, `me` is the host that asks.
    fn check(owners: &str, min: usize, max: usize, taken: &str) {
        let ids: Vec<String> =
            (0..owners.split_whitespace().count()).map(|n| n.to_string()).collect();
        let leases: Vec<Seen<'_>> = owners
            .split_whitespace()
            .zip(&ids)
            .map(|(owner, id)| Seen { id, owner: (owner != "-").then_some(owner) })
            .collect();
        assert_eq!(take(&leases, "me", min, max).join(" "), taken, "{owners}");
    }

    #[test]
    fn strategy_table() {
        check("", 0, 0, "");
        check("me me", 0, 0, "");
        check("-", 0, 0, "0");
        check("- -", 0, 0, "0 1");
        check("- - -", 0, 2, "0 1");
        check("a a", 0, 0, "0");
        check("a b", 0, 0, "");
        check("a a me", 0, 0, "");
        check("a a a me", 0, 0, "0");
        check("a a a me", 0, 1, "");
        check("a - me", 0, 0, "1");
        check("a a b b b", 0, 0, "2");
        check("a a a b b b", 0, 0, "3");
        check("a a", 2, 0, "0");
        check("me a a b b", 0, 0, "");
        check("- - - a a a a", 0, 0, "0 1 2");
    }
}
