//! Who is alive, by what was seen to change.
//!
//! Wall clocks decide nothing. Each observer notes on its own monotonic clock when it first saw a
//! mark; a mark that has not changed for the expiration interval belongs to the dead. The owner
//! measures from before its write, the observer from after: the owner gives up first.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// When each thing was last seen to change.
#[derive(Debug, Clone)]
pub struct Sightings<K> {
    seen: HashMap<K, (String, Duration)>,
}

impl<K> Default for Sightings<K> {
    fn default() -> Self {
        Self { seen: HashMap::new() }
    }
}

impl<K: Hash + Eq> Sightings<K> {
    /// Notes what a thing looks like now.
    pub fn see(&mut self, thing: K, mark: &str, now: Duration) {
        let entry = self.seen.entry(thing).or_insert_with(|| (mark.to_owned(), now));
        if entry.0 != mark {
            *entry = (mark.to_owned(), now);
        }
    }

    /// For how long it has looked the same; nothing for what was never seen.
    pub fn still_for(&self, thing: &K, now: Duration) -> Duration {
        self.seen.get(thing).map_or(Duration::ZERO, |(_, since)| now.saturating_sub(*since))
    }

    /// Forgets what is not among these.
    pub fn keep(&mut self, is_known: impl Fn(&K) -> bool) {
        self.seen.retain(|thing, _| is_known(thing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_change_counts() {
        let mut sightings = Sightings::default();
        let second = Duration::from_secs;
        sightings.see("a", "1", second(0));
        sightings.see("a", "1", second(9));
        assert_eq!(sightings.still_for(&"a", second(10)), second(10));
        sightings.see("a", "2", second(11));
        assert_eq!(sightings.still_for(&"a", second(12)), second(1));
        assert_eq!(sightings.still_for(&"b", second(12)), second(0));
        sightings.keep(|_| false);
        assert_eq!(sightings.still_for(&"a", second(99)), second(0));
    }
}
