//! The bodies of items whose keys are known: where they are first, then all of them together.
//!
//! Where a body is, the item's row in `Docs` says. Where a guess says it, the row need not be read:
//! see [`crate::hints`].

use bytes::Bytes;
use kv::Keyspace;
use model::Result;

use super::{CHUNK_BYTES, Part, Snapshot};
use crate::api::storage;
use crate::hints::Guess;
use crate::item::body_of;
use crate::keys::{self, Change, Row, Slot};

/// Where the newest version of an item is.
#[derive(Clone)]
enum Whereabouts {
    Gone,
    Guessed(Guess),
    Known(Row),
}

impl Whereabouts {
    fn body_bytes(&self) -> usize {
        match self {
            Self::Gone => 0,
            Self::Guessed(guess) => guess.body_bytes as usize,
            Self::Known(row) => row.body_bytes as usize,
        }
    }

    fn feed_key(&self) -> Option<Bytes> {
        match self {
            Self::Gone => None,
            Self::Guessed(guess) => Some(guess.feed_key()),
            Self::Known(row) => Some(row.feed_key()),
        }
    }
}

impl Snapshot<'_> {
    /// The bodies of the first of some items: as many as may be read at once, at least one.
    pub(super) async fn bodies(&self, items: &[Bytes]) -> Result<Vec<Option<Bytes>>> {
        let mut found = vec![Whereabouts::Gone; items.len()];
        for part in &self.parts {
            let (number, cache) = (part.span.partition.number, &part.span.partition.cache);
            let mut unknown = Vec::new();
            for at in self.places_in(part, items, items.len()) {
                match cache.hints.get(number, &items[at]) {
                    Some(guess) => found[at] = Whereabouts::Guessed(guess),
                    None => unknown.push(at),
                }
            }
            self.look_up(part, items, &unknown, &mut found).await?;
        }
        let count = affordable(&found);
        let mut bodies = vec![None; count];
        for part in &self.parts {
            let places = self.places_in(part, items, count);
            let wrong = self.read(part, items, &places, &found, &mut bodies).await?;
            if !wrong.is_empty() {
                // Those items have been written since: their rows know.
                self.look_up(part, items, &wrong, &mut found).await?;
                self.read(part, items, &wrong, &found, &mut bodies).await?;
            }
        }
        Ok(bodies)
    }

    /// Which of the first items lie in a part.
    fn places_in(&self, part: &Part, items: &[Bytes], count: usize) -> Vec<usize> {
        let mine = |item: &Bytes| self.part_of(item).is_some_and(|one| std::ptr::eq(one, part));
        (0..count).filter(|at| self.parts.len() == 1 || mine(&items[*at])).collect()
    }

    /// Reads the rows of some of the items.
    async fn look_up(
        &self,
        part: &Part,
        items: &[Bytes],
        places: &[usize],
        found: &mut [Whereabouts],
    ) -> Result<()> {
        let wanted: Vec<Bytes> = places.iter().map(|at| items[*at].clone()).collect();
        let slots = part.view.get_many(Keyspace::Docs, &wanted).await.map_err(storage)?;
        let partition = &part.span.partition;
        for (at, slot) in places.iter().zip(slots) {
            let row = Slot::item(slot.as_ref())?;
            found[*at] = match row.filter(|row| self.is_alive(part, &items[*at], row)) {
                Some(row) => {
                    partition.cache.hints.put(partition.number, &items[*at], &row);
                    Whereabouts::Known(row)
                }
                None => Whereabouts::Gone,
            };
        }
        Ok(())
    }

    /// Reads the bodies of some of the items. Returns those for which the guess was wrong.
    async fn read(
        &self,
        part: &Part,
        items: &[Bytes],
        places: &[usize],
        found: &[Whereabouts],
        bodies: &mut [Option<Bytes>],
    ) -> Result<Vec<usize>> {
        let (mut feed, mut read) = (Vec::with_capacity(places.len()), Vec::new());
        for at in places {
            if let Some(key) = found[*at].feed_key() {
                feed.push(key);
                read.push(*at);
            }
        }
        let stored = part.view.get_many(Keyspace::Feed, &feed).await.map_err(storage)?;
        let mut wrong = Vec::new();
        for ((at, key), stored) in read.into_iter().zip(&feed).zip(stored) {
            let item = &items[at];
            if let Whereabouts::Known(row) = &found[at] {
                bodies[at] = Some(body_of(row, item, stored.as_ref())?);
                continue;
            }
            let change = stored.as_ref().map(Change::decode).transpose()?;
            match change.filter(|change| change.item_key == *item) {
                None => wrong.push(at),
                Some(change) => {
                    let expired = change.expired(self.definition.default_ttl, self.now_seconds);
                    let gone = expired || part.doomed.hides(item, keys::lsn_of(key)?);
                    bodies[at] = (!gone).then_some(change.body);
                }
            }
        }
        Ok(wrong)
    }
}

/// How many bodies, from the first on, may be in memory at once.
fn affordable(found: &[Whereabouts]) -> usize {
    let mut bytes = 0;
    let within = found.iter().take_while(|one| {
        bytes += one.body_bytes();
        bytes <= CHUNK_BYTES
    });
    within.count().max(found.len().min(1))
}
