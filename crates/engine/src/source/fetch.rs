//! The bodies of items whose keys are known: rows first, then all bodies together.

use bytes::Bytes;
use kv::Keyspace;
use model::Result;

use super::{CHUNK_BYTES, Part, Snapshot};
use crate::api::storage;
use crate::item::body_of;
use crate::keys::{Row, Slot};

impl Snapshot<'_> {
    /// The bodies of the first of some items: as many as may be read at once, at least one.
    pub(super) async fn bodies(&self, items: &[Bytes]) -> Result<Vec<Option<Bytes>>> {
        let mut rows: Vec<Option<Row>> = vec![None; items.len()];
        for part in &self.parts {
            let places = self.places_in(part, items, 0..items.len());
            self.rows_in(part, items, &places, &mut rows).await?;
        }
        let count = affordable(&rows);
        let mut bodies = vec![None; count];
        for part in &self.parts {
            let mut places = self.places_in(part, items, 0..count);
            places.retain(|at| rows[*at].is_some());
            let feed: Vec<Bytes> =
                places.iter().filter_map(|at| rows[*at].as_ref()).map(Row::feed_key).collect();
            let stored = part.view.get_many(Keyspace::Feed, &feed).await.map_err(storage)?;
            for (at, stored) in places.into_iter().zip(stored) {
                if let Some(row) = &rows[at] {
                    bodies[at] = Some(body_of(row, &items[at], stored.as_ref())?);
                }
            }
        }
        Ok(bodies)
    }

    /// Which of the items lie in a part.
    fn places_in(&self, part: &Part, items: &[Bytes], of: std::ops::Range<usize>) -> Vec<usize> {
        let mine = |item: &Bytes| self.part_of(item).is_some_and(|one| std::ptr::eq(one, part));
        of.filter(|at| self.parts.len() == 1 || mine(&items[*at])).collect()
    }

    /// The rows of some of the items, where they are alive.
    async fn rows_in(
        &self,
        part: &Part,
        items: &[Bytes],
        places: &[usize],
        rows: &mut [Option<Row>],
    ) -> Result<()> {
        let gathered: Vec<Bytes>;
        let wanted = if places.len() == items.len() {
            items
        } else {
            gathered = places.iter().map(|at| items[*at].clone()).collect();
            &gathered[..]
        };
        let slots = part.view.get_many(Keyspace::Docs, wanted).await.map_err(storage)?;
        for (at, slot) in places.iter().zip(slots) {
            let row = Slot::item(slot.as_ref())?;
            rows[*at] = row.filter(|row| self.is_alive(part, &items[*at], row));
        }
        Ok(())
    }
}

/// How many bodies, from the first on, may be in memory at once.
fn affordable(rows: &[Option<Row>]) -> usize {
    let mut bytes = 0;
    let within = rows.iter().take_while(|row| {
        bytes += row.as_ref().map_or(0, |row| row.body_bytes as usize);
        bytes <= CHUNK_BYTES
    });
    within.count().max(rows.len().min(1))
}
