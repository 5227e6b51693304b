//! Who should have which lease: a pure function that all hosts compute alike.
//!
//! Sticky: it begins with who has what, gives the free ones to those who have least, then moves a
//! lease only from the one that has most to the one that has least, and only while that levels
//! them. Nobody takes from the living by this plan; an owner that sees a lease planned for another
//! hands it over.

pub mod equal;

use std::collections::BTreeMap;

/// A load difference below this share of the mean is left alone.
const LOAD_TOLERANCE: f64 = 0.1;
/// Moves for the sake of load per plan, as a share of all leases: enough to converge, few enough
/// not to swing.
const LOAD_MOVES_SHARE: usize = 10;
/// A lease weighs at least this much, however idle, so that idle ones are spread too.
const COST_FLOOR: f64 = 0.1;

/// A host that takes part.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// As whom it owns leases.
    pub owner: String,
    /// How much it carries compared with others.
    pub weight: f64,
    /// Fewest leases; 0: no floor.
    pub min: usize,
    /// Most leases; 0: no limit.
    pub max: usize,
    /// It keeps what it has but is given nothing: away, leaving, or of another library.
    pub closed: bool,
    /// It keeps nothing that anyone else can take.
    pub leaving: bool,
}

/// A lease to be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// Its live owner, one of the hosts.
    pub owner: Option<String>,
    /// What it costs: changes per second, or anything comparable. Only used with `by_load`.
    pub load: f64,
}

/// For each lease, the host that should have it; nothing for those that nobody may take.
pub fn plan(hosts: &[Host], leases: &[Item], by_load: bool) -> BTreeMap<String, Option<String>> {
    let mut table = Table::new(hosts, leases, by_load);
    table.evict();
    table.place_free();
    table.level_counts();
    if by_load {
        table.level_loads();
    }
    table.placed()
}

struct Table<'a> {
    hosts: Vec<&'a Host>,
    leases: Vec<&'a Item>,
    /// Cost of each lease.
    costs: Vec<f64>,
    /// Host of each lease.
    places: Vec<Option<usize>>,
    by_load: bool,
}

impl<'a> Table<'a> {
    fn new(hosts: &'a [Host], leases: &'a [Item], by_load: bool) -> Self {
        let mut hosts: Vec<&Host> = hosts.iter().collect();
        hosts.sort_by(|a, b| a.owner.cmp(&b.owner));
        let mut leases: Vec<&Item> = leases.iter().collect();
        leases.sort_by(|a, b| a.id.cmp(&b.id));
        let total: f64 = leases.iter().map(|lease| lease.load.max(0.0)).sum();
        let mean = total / leases.len().max(1) as f64;
        let cost = |lease: &&Item| match by_load && mean > 0.0 {
            true => (lease.load.max(0.0) / mean).max(COST_FLOOR),
            false => 1.0,
        };
        let costs = leases.iter().map(cost).collect();
        let host_of =
            |lease: &&Item| hosts.iter().position(|host| Some(&host.owner) == lease.owner.as_ref());
        let places = leases.iter().map(host_of).collect();
        Self { hosts, leases, costs, places, by_load }
    }

    fn count(&self, host: usize) -> usize {
        self.places.iter().filter(|place| **place == Some(host)).count()
    }

    /// What a host carries for its weight.
    fn burden(&self, host: usize) -> f64 {
        let costs = self.costs.iter().zip(&self.places);
        let sum: f64 = costs.filter(|(_, place)| **place == Some(host)).map(|(cost, _)| cost).sum();
        sum / self.hosts[host].weight
    }

    /// By count alone, for its weight.
    fn crowd(&self, host: usize) -> f64 {
        self.count(host) as f64 / self.hosts[host].weight
    }

    fn has_room(&self, host: usize) -> bool {
        let max = self.hosts[host].max;
        !self.hosts[host].closed && (max == 0 || self.count(host) < max)
    }

    /// The open host with room that would carry least with one lease more. The first by name wins
    /// ties, so that everybody agrees.
    fn least(&self) -> Option<usize> {
        let open = (0..self.hosts.len()).filter(|host| self.has_room(*host));
        let after = |host: usize| {
            if self.by_load {
                self.burden(host)
            } else {
                (self.count(host) as f64 + 1.0) / self.hosts[host].weight
            }
        };
        open.min_by(|a, b| after(*a).total_cmp(&after(*b)))
    }

    /// Hosts that leave, and those beyond their limit, give up what they have too much.
    fn evict(&mut self) {
        for host in 0..self.hosts.len() {
            let rules = self.hosts[host];
            while rules.max > 0 && !rules.closed && self.count(host) > rules.max {
                let last = self.places.iter().rposition(|place| *place == Some(host));
                let Some(last) = last else { break };
                self.places[last] = None;
            }
        }
        if (0..self.hosts.len()).any(|host| self.has_room(host)) {
            let leaving: Vec<bool> = self.hosts.iter().map(|host| host.leaving).collect();
            for place in &mut self.places {
                if place.is_some_and(|host| leaving[host]) {
                    *place = None;
                }
            }
        }
    }

    fn place_free(&mut self) {
        let mut free: Vec<usize> =
            (0..self.leases.len()).filter(|lease| self.places[*lease].is_none()).collect();
        free.sort_by(|a, b| self.costs[*b].total_cmp(&self.costs[*a]));
        for lease in free {
            self.places[lease] = self.least();
        }
    }

    /// Evens the counts out, and fills floors. Each move levels two hosts, so it ends; the bound is
    /// there for the reader.
    fn level_counts(&mut self) {
        for _ in 0..self.leases.len() {
            let Some((from, to)) = self.next_move() else { return };
            let last = self.places.iter().rposition(|place| *place == Some(from));
            let Some(lease) = last else { return };
            self.places[lease] = Some(to);
        }
    }

    fn next_move(&self) -> Option<(usize, usize)> {
        let givers = || {
            let gives = |host: &usize| {
                !self.hosts[*host].closed && self.count(*host) > self.hosts[*host].min
            };
            (0..self.hosts.len()).filter(gives)
        };
        let most = |except: usize| {
            let others = givers().filter(|host| *host != except);
            others.max_by(|a, b| self.crowd(*a).total_cmp(&self.crowd(*b)).then(b.cmp(a)))
        };
        let hungry = (0..self.hosts.len())
            .find(|host| self.has_room(*host) && self.count(*host) < self.hosts[*host].min);
        if let Some(to) = hungry {
            return most(to)
                .filter(|from| self.count(*from) > self.hosts[*from].min)
                .map(|from| (from, to));
        }
        if self.by_load {
            return None;
        }
        let to = self.least()?;
        let from = most(to)?;
        let after = (self.count(to) as f64 + 1.0) / self.hosts[to].weight;
        (after < self.crowd(from)).then_some((from, to))
    }

    /// Moves leases from the most to the least loaded while the higher of both sinks clearly.
    fn level_loads(&mut self) {
        let moves_max = self.leases.len().div_ceil(LOAD_MOVES_SHARE);
        let open: Vec<usize> =
            (0..self.hosts.len()).filter(|host| !self.hosts[*host].closed).collect();
        let mean =
            open.iter().map(|host| self.burden(*host)).sum::<f64>() / open.len().max(1) as f64;
        for _ in 0..moves_max {
            let most =
                open.iter().copied().max_by(|a, b| self.burden(*a).total_cmp(&self.burden(*b)));
            let least = open
                .iter()
                .copied()
                .filter(|host| self.has_room(*host))
                .min_by(|a, b| self.burden(*a).total_cmp(&self.burden(*b)));
            let (Some(from), Some(to)) = (most, least) else { return };
            let (high, low) = (self.burden(from), self.burden(to));
            let after = |lease: &usize| {
                let cost = self.costs[*lease];
                (high - cost / self.hosts[from].weight).max(low + cost / self.hosts[to].weight)
            };
            let best = (0..self.leases.len())
                .filter(|lease| self.places[*lease] == Some(from))
                .min_by(|a, b| after(a).total_cmp(&after(b)));
            let Some(lease) = best.filter(|lease| high - after(lease) > mean * LOAD_TOLERANCE)
            else {
                return;
            };
            if from == to || self.count(from) <= self.hosts[from].min {
                return;
            }
            self.places[lease] = Some(to);
        }
    }

    fn placed(&self) -> BTreeMap<String, Option<String>> {
        let name = |host: usize| self.hosts[host].owner.clone();
        let pairs = self.leases.iter().zip(&self.places);
        pairs.map(|(lease, place)| (lease.id.clone(), place.map(name))).collect()
    }
}

#[cfg(test)]
mod tests;
