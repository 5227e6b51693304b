//! The regions of an account: where reads and writes go, and which addresses to leave alone.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::account::Endpoint;

/// How long the regions of an account are taken for known.
const KNOWN_FOR: Duration = Duration::from_secs(300);
/// The same, where the account could not be asked.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);
/// How long an address that could not be reached is left alone, if there is another.
const DOWN_FOR: Duration = Duration::from_secs(60);
/// Most addresses of an account that are looked at.
const ENDPOINTS_MAX: usize = 64;

/// The part of the account document that matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountDocument {
    #[serde(default)]
    writable_locations: Vec<Location>,
    #[serde(default)]
    readable_locations: Vec<Location>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    #[serde(default)]
    name: String,
    database_account_endpoint: String,
}

/// Where requests go.
#[derive(Debug)]
pub struct Regions {
    given: Endpoint,
    preferred: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    reads: Vec<Endpoint>,
    writes: Vec<Endpoint>,
    /// When to ask the account again.
    until: Option<Instant>,
    down: HashMap<Endpoint, Instant>,
}

impl Regions {
    pub fn new(given: Endpoint, preferred: Vec<String>) -> Self {
        let only = vec![given.clone()];
        let state = State { reads: only.clone(), writes: only, until: None, down: HashMap::new() };
        Self { given, preferred, state: Mutex::new(state) }
    }

    /// Whether the account should be asked.
    pub fn are_stale(&self, now: Instant) -> bool {
        self.state().until.is_none_or(|until| until <= now)
    }

    /// Whether the account has been asked before.
    pub fn are_known(&self) -> bool {
        self.state().until.is_some()
    }

    /// What was known is no longer so.
    pub fn forget(&self) {
        self.state().until = None;
    }

    /// What the account has said; `None` if it could not be asked.
    pub fn learn(&self, document: Option<AccountDocument>, now: Instant) {
        let mut state = self.state();
        let Some(document) = document else {
            state.until = now.checked_add(UNKNOWN_FOR);
            return;
        };
        state.reads = self.endpoints(document.readable_locations);
        state.writes = self.endpoints(document.writable_locations);
        state.until = now.checked_add(KNOWN_FOR);
    }

    /// The address for the next attempt.
    pub fn endpoint(&self, is_read: bool, now: Instant) -> Endpoint {
        let mut state = self.state();
        state.down.retain(|_, until| *until > now);
        let list = if is_read { &state.reads } else { &state.writes };
        let is_up = |endpoint: &&Endpoint| !state.down.contains_key(*endpoint);
        list.iter().find(is_up).or(list.first()).unwrap_or(&self.given).clone()
    }

    /// An address that did not serve is left alone for a while.
    pub fn mark_down(&self, endpoint: &Endpoint, now: Instant) {
        let mut state = self.state();
        let others = state.reads.iter().chain(&state.writes).any(|other| other != endpoint);
        if others && let Some(until) = now.checked_add(DOWN_FOR) {
            state.down.insert(endpoint.clone(), until);
        }
    }

    /// The preferred first, then the others in the account's order, and at last the address that
    /// was given: an account may advertise addresses that cannot be reached from here. An account
    /// reached over TLS cannot talk its clients out of it.
    fn endpoints(&self, locations: Vec<Location>) -> Vec<Endpoint> {
        let rank = |name: &str| {
            let same = |preferred: &String| preferred.eq_ignore_ascii_case(name);
            self.preferred.iter().position(same).unwrap_or(self.preferred.len())
        };
        let mut locations = locations;
        locations.truncate(ENDPOINTS_MAX);
        locations.sort_by_key(|location| rank(&location.name));
        let advertised = locations
            .iter()
            .filter_map(|location| Endpoint::parse(&location.database_account_endpoint).ok())
            .filter(|endpoint| endpoint.is_secure || !self.given.is_secure);
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for endpoint in advertised.chain([self.given.clone()]) {
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        endpoints
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(given: &str, preferred: &[&str]) -> Regions {
        let preferred = preferred.iter().map(|name| (*name).to_owned()).collect();
        Regions::new(Endpoint::parse(given).unwrap(), preferred)
    }

    fn learn(regions: &Regions, now: Instant) {
        let document = r#"{"writableLocations":[{"name":"East","databaseAccountEndpoint":"https://east/"}],
            "readableLocations":[{"name":"East","databaseAccountEndpoint":"https://east/"},
                {"name":"West","databaseAccountEndpoint":"https://west:443/"},
                {"name":"Odd","databaseAccountEndpoint":"not an address"},
                {"name":"Plain","databaseAccountEndpoint":"http://plain/"}]}"#;
        regions.learn(Some(serde_json::from_str(document).unwrap()), now);
    }

    #[test]
    fn reads_go_to_the_preferred_region_and_writes_where_they_can() {
        let now = Instant::now();
        let regions = regions("https://given/", &["west"]);
        assert!(regions.are_stale(now));
        assert_eq!(regions.endpoint(true, now).authority, "given");
        learn(&regions, now);
        assert!(!regions.are_stale(now));
        assert_eq!(regions.endpoint(true, now).authority, "west:443");
        assert_eq!(regions.endpoint(false, now).authority, "east");
    }

    #[test]
    fn what_is_down_is_left_alone_for_a_while() {
        let now = Instant::now();
        let regions = regions("https://given/", &[]);
        learn(&regions, now);
        for expect in ["east", "west:443", "given"] {
            let endpoint = regions.endpoint(true, now);
            assert_eq!(endpoint.authority, expect);
            regions.mark_down(&endpoint, now);
        }
        // All are down: the best of them is tried again.
        assert_eq!(regions.endpoint(true, now).authority, "east");
        assert_eq!(regions.endpoint(true, now + DOWN_FOR).authority, "east");
    }

    #[test]
    fn a_single_address_is_never_down() {
        let now = Instant::now();
        let regions = regions("http://given:1/", &[]);
        regions.learn(None, now);
        assert!(!regions.are_stale(now));
        assert!(regions.are_stale(now + UNKNOWN_FOR));
        let endpoint = regions.endpoint(false, now);
        regions.mark_down(&endpoint, now);
        assert_eq!(regions.endpoint(false, now), endpoint);
    }
}
