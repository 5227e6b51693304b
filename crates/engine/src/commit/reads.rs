//! What a decision has read so far, and from how old a view.

use bytes::Bytes;
use kv::{CommitNo, Keyspace, Owner, View};
use model::Result;

use crate::api::storage;
use crate::keys::{self, Slot};
use crate::places::{Place, Places};

/// What a decision has read so far.
#[derive(Default)]
pub(super) struct Reads {
    pub values: Places<Option<Bytes>>,
    /// The oldest view that a value is from.
    pub oldest: Option<CommitNo>,
}

impl Reads {
    pub async fn add(&mut self, view: &dyn View, places: &[Place]) -> Result<()> {
        for run in places.chunk_by(|a, b| a.0 == b.0) {
            if let [place] = run {
                let value = view.get(place.0, &place.1).await.map_err(storage)?;
                self.values.set(place.clone(), value);
                continue;
            }
            let keys: Vec<Bytes> = run.iter().map(|(_, key)| key.clone()).collect();
            let values = view.get_many(run[0].0, &keys).await.map_err(storage)?;
            run.iter().cloned().zip(values).for_each(|(place, value)| {
                self.values.set(place, value);
            });
        }
        self.oldest = Some(self.oldest.map_or(view.commit(), |oldest| oldest.min(view.commit())));
        Ok(())
    }

    /// Adds the one place that is looked at, if it is known at once that nothing is there: most items that are
    /// created are new, and no view has to be made to see that.
    pub fn add_lacking(&mut self, owner: &dyn Owner, places: &[Place]) -> bool {
        let [place] = places else { return false };
        let Some(commit) = owner.lacks(place.0, &place.1) else { return false };
        self.values.set(place.clone(), None);
        self.oldest = Some(commit);
        true
    }

    /// Reads what a new version of the items that were found, or their end, will want to see.
    pub async fn follow(&mut self, view: &dyn View, bodies: bool) -> Result<()> {
        let mut places = Vec::new();
        for ((keyspace, _), value) in self.values.entries() {
            if *keyspace == Keyspace::Docs
                && let Some(row) = Slot::item(value.as_ref())?
            {
                places.push((Keyspace::Index, keys::block_key(row.etag.lsn())));
                places.extend(bodies.then(|| (Keyspace::Feed, row.feed_key())));
            }
        }
        self.add(view, &places).await
    }

    pub async fn renew(&mut self, view: &dyn View) -> Result<()> {
        let places: Vec<Place> = std::mem::take(self).values.into_places().collect();
        self.add(view, &places).await
    }
}
