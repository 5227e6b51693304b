//! Of paths that queries sort by: how many items have no value there.
//!
//! Sorting puts items without a value first, but no row says that a value is missing. Where it is
//! known that none is, the rows alone are the answer. So paths that were sorted by are watched:
//! their rows are counted once, and from then on every commit says what it changes. Nothing of
//! this is stored; after a start, the first query counts again.

use std::collections::VecDeque;

use bytes::Bytes;
use kv::{Keyspace, Scan};
use model::Result;

use super::key::{self, PathId};
use super::terms::Row;
use crate::api::storage;
use crate::keys::{self, Head};
use crate::partition::Partition;

/// Paths watched in one partition; the one that was asked for least lately makes room.
const WATCHED_MAX: usize = 16;
/// Commits that may pass while rows are counted.
const PENDING_MAX: usize = 100_000;
/// Rows counted at once.
const COUNT_ROWS: usize = 8_192;

/// What is known of some paths, behind the writer's lock.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// The one asked for last is last.
    watches: Vec<Watch>,
}

#[derive(Debug)]
struct Watch {
    path: PathId,
    known: Known,
}

#[derive(Debug)]
enum Known {
    /// So many are missing, since this LSN at the latest.
    Missing(i64, u64),
    /// Rows are being counted: what commits have changed meanwhile.
    Counting(VecDeque<(u64, i64)>),
}

impl Presence {
    pub fn is_idle(&self) -> bool {
        self.watches.is_empty()
    }

    /// Knows nothing any more: rows are being built anew.
    pub fn forget(&mut self) {
        self.watches.clear();
    }

    /// An item had these rows, and now has those; none where it was or is not there.
    pub fn note(&mut self, lsn: u64, old: Option<&[Row]>, new: Option<&[Row]>) {
        for watch in &mut self.watches {
            let missing = |rows: Option<&[Row]>| {
                rows.map_or(0, |rows| i64::from(!has_path(rows, watch.path)))
            };
            let change = missing(new) - missing(old);
            if change != 0 {
                watch.known.add(lsn, change);
            }
        }
        let stuck =
            |known: &Known| matches!(known, Known::Counting(seen) if seen.len() > PENDING_MAX);
        self.watches.retain(|watch| !stuck(&watch.known));
    }

    /// How many miss the path in the state of an LSN, if that is known.
    fn missing(&mut self, path: PathId, lsn: u64) -> Option<i64> {
        let at = self.watches.iter().position(|watch| watch.path == path)?;
        let watch = self.watches.remove(at);
        self.watches.push(watch);
        match self.watches.last()?.known {
            Known::Missing(missing, since) if since <= lsn => Some(missing),
            _ => None,
        }
    }

    /// Begins to watch; false where somebody does already.
    fn begin(&mut self, path: PathId) -> bool {
        if self.watches.iter().any(|watch| watch.path == path) {
            return false;
        }
        if self.watches.len() == WATCHED_MAX {
            self.watches.remove(0);
        }
        self.watches.push(Watch { path, known: Known::Counting(VecDeque::new()) });
        true
    }

    /// So many were missing in the state of an LSN.
    fn counted(&mut self, path: PathId, missing: i64, lsn: u64) {
        let Some(watch) = self.watches.iter_mut().find(|watch| watch.path == path) else { return };
        let Known::Counting(seen) = &watch.known else { return };
        let later = seen.iter().filter(|(at, _)| *at > lsn);
        watch.known = later.fold(Known::Missing(missing, lsn), |mut known, (at, change)| {
            known.add(*at, *change);
            known
        });
    }
}

impl Known {
    fn add(&mut self, lsn: u64, change: i64) {
        match self {
            Self::Missing(missing, since) => (*missing, *since) = (*missing + change, lsn),
            Self::Counting(seen) => seen.push_back((lsn, change)),
        }
    }
}

fn has_path(rows: &[Row], path: PathId) -> bool {
    let mut head = Vec::with_capacity(9);
    key::put_head(key::RANGE, path, &mut head);
    let at = rows.partition_point(|(key, _)| key[..] < head[..]);
    rows.get(at).is_some_and(|(key, _)| key.starts_with(&head))
}

/// Ends a count that was given up, by a failure or because nobody waits for it any more: else the
/// path would be taken for one that is being counted.
struct GivenUp<'a> {
    partition: &'a Partition,
    path: PathId,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let counting = |watch: &Watch| matches!(watch.known, Known::Counting(_));
        let mut writer = self.partition.writer();
        writer.presence.watches.retain(|watch| watch.path != self.path || !counting(watch));
    }
}

impl Partition {
    /// Whether every item has a value at a path in the state of an LSN. False where that is not
    /// known. The path must lead to at most one value of an item.
    pub(crate) async fn all_have(&self, path: PathId, lsn: u64) -> Result<bool> {
        let known = self.writer().presence.missing(path, lsn);
        if let Some(missing) = known {
            return Ok(missing == 0);
        }
        if !self.watch(path).await? {
            return Ok(false);
        }
        Ok(self.writer().presence.missing(path, lsn) == Some(0))
    }

    /// Counts a path's rows; false where somebody else is at it.
    async fn watch(&self, path: PathId) -> Result<bool> {
        let ticket = {
            let mut writer = self.writer();
            if writer.indexing().is_building() || !writer.presence.begin(path) {
                return Ok(false);
            }
            // A batch that changes nothing: a view that has it has all that was not noted.
            let head = kv::Op::Put(Keyspace::Meta, keys::HEAD, writer.head().encode());
            self.owner.submit(vec![head])
        };
        let _given_up = GivenUp { partition: self, path };
        ticket.map_err(storage)?.durable().await.map_err(storage)?;
        let (missing, lsn) = self.count_missing(path).await?;
        self.writer().presence.counted(path, missing, lsn);
        Ok(true)
    }

    async fn count_missing(&self, path: PathId) -> Result<(i64, u64)> {
        let view = self.owner.published();
        let head = view.get(Keyspace::Meta, &keys::HEAD).await.map_err(storage)?;
        let head = head.map(|stored| Head::decode(&stored)).transpose()?.unwrap_or_default();
        let mut prefix = Vec::with_capacity(9);
        key::put_head(key::RANGE, path, &mut prefix);
        let (mut from, to) = key::beginning(prefix);
        let mut rows = 0;
        loop {
            let scan = Scan {
                keyspace: Keyspace::Terms,
                from,
                to: to.clone(),
                reverse: false,
                rows: COUNT_ROWS,
                bytes: usize::MAX,
                keys_only: true,
            };
            let chunk = view.scan(scan).await.map_err(storage)?;
            rows += chunk.rows.len() as u64;
            match chunk.resume {
                Some(resume) => from = std::ops::Bound::<Bytes>::Excluded(resume),
                None => return Ok((head.items as i64 - rows as i64, head.lsn)),
            }
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(path: Option<PathId>) -> Vec<Row> {
        let mut head = Vec::new();
        key::put_head(key::RANGE, path.unwrap_or(PathId(1)), &mut head);
        head.push(key::tag(query::value::Type::Null));
        vec![(head.into(), Bytes::new())]
    }

    #[test]
    fn what_changes_while_rows_are_counted_counts_too() {
        let (path, mut presence) = (PathId(9), Presence::default());
        assert!(presence.begin(path) && !presence.begin(path));
        assert_eq!(presence.missing(path, 100), None);
        let (has, lacks) = (rows(Some(path)), rows(None));
        presence.note(4, None, Some(&lacks));
        presence.note(6, None, Some(&lacks));
        // The view that was counted had the first of them already.
        presence.counted(path, 3, 5);
        assert_eq!(presence.missing(path, 6), Some(4));
        assert_eq!(presence.missing(path, 5), None, "it was another number then");
        presence.note(7, Some(&lacks), Some(&has));
        presence.note(8, Some(&has), None);
        assert_eq!((presence.missing(path, 7), presence.missing(path, 6)), (Some(3), None));
    }

    #[test]
    fn few_paths_are_watched() {
        let mut presence = Presence::default();
        for n in 0..100 {
            presence.begin(PathId(n));
            presence.missing(PathId(0), 1);
        }
        assert_eq!(presence.watches.len(), WATCHED_MAX);
        assert!(presence.watches.iter().any(|watch| watch.path == PathId(0)));
    }
}
