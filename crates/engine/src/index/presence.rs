//! What is counted of paths that queries ask about: how many items have no value there, or how many
//! texts and words are there.
//!
//! Sorting puts items without a value first, but no row says that a value is missing: where it is
//! known that none is, the rows alone are the answer. Scores of words weigh them against all texts.
//! So what was asked for once is watched: its rows are counted once, and from then on every commit
//! says what it changes. Nothing of this is stored; after a start, the first query counts again.

use std::collections::VecDeque;

use bytes::Bytes;
use kv::{Keyspace, Scan};
use model::Result;
use query::source::Texts;

use super::key::{self, PathId};
use super::terms::Row;
use crate::api::storage;
use crate::keys;
use crate::partition::{Partition, head_of};

/// Figures watched in one partition; the one that was asked for least lately makes room.
const WATCHED_MAX: usize = 16;
/// Commits that may pass while rows are counted.
const PENDING_MAX: usize = 100_000;
/// Changes that are remembered, for readers of views that are a little older.
const RECENT_MAX: usize = 1_000;
/// Rows counted at once.
const COUNT_ROWS: usize = 8_192;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Items without a value at a path.
    Missing(PathId),
    /// Texts at a path, and their words.
    Texts(PathId),
}

/// Two figures; of some things only the first means anything.
type Amount = [i64; 2];

/// What is known of some paths, behind the writer's lock.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// The one asked for last is last.
    watches: Vec<Watch>,
}

#[derive(Debug)]
struct Watch {
    what: What,
    known: Known,
}

#[derive(Debug)]
enum Known {
    /// What it is now, and what the last changes since an LSN were.
    Counted { now: Amount, since: u64, recent: VecDeque<(u64, Amount)> },
    /// Rows are being counted: what commits have changed meanwhile.
    Counting(VecDeque<(u64, Amount)>),
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
            let amount = |rows: Option<&[Row]>| rows.map_or([0; 2], |rows| watch.what.of(rows));
            let (new, old) = (amount(new), amount(old));
            if new != old {
                watch.known.add(lsn, [new[0] - old[0], new[1] - old[1]]);
            }
        }
        let stuck =
            |known: &Known| matches!(known, Known::Counting(seen) if seen.len() > PENDING_MAX);
        self.watches.retain(|watch| !stuck(&watch.known));
    }

    /// A figure in the state of an LSN, if that is known.
    fn amount(&mut self, what: What, lsn: u64) -> Option<Amount> {
        let at = self.watches.iter().position(|watch| watch.what == what)?;
        let watch = self.watches.remove(at);
        self.watches.push(watch);
        self.watches.last()?.known.at(lsn)
    }

    /// Begins to watch; false where somebody does already.
    fn begin(&mut self, what: What) -> bool {
        if self.watches.iter().any(|watch| watch.what == what) {
            return false;
        }
        if self.watches.len() == WATCHED_MAX {
            self.watches.remove(0);
        }
        self.watches.push(Watch { what, known: Known::Counting(VecDeque::new()) });
        true
    }

    /// It was so much in the state of an LSN.
    fn counted(&mut self, what: What, amount: Amount, lsn: u64) {
        let Some(watch) = self.watches.iter_mut().find(|watch| watch.what == what) else { return };
        let Known::Counting(seen) = &watch.known else { return };
        let begin = Known::Counted { now: amount, since: lsn, recent: VecDeque::new() };
        let later = seen.iter().filter(|(at, _)| *at > lsn);
        watch.known = later.fold(begin, |mut known, (at, change)| {
            known.add(*at, *change);
            known
        });
    }
}

impl Known {
    fn add(&mut self, lsn: u64, change: Amount) {
        match self {
            Self::Counted { now, since, recent } => {
                *now = [now[0] + change[0], now[1] + change[1]];
                recent.push_back((lsn, change));
                if recent.len() > RECENT_MAX
                    && let Some((lsn, _)) = recent.pop_front()
                {
                    *since = lsn;
                }
            }
            Self::Counting(seen) => seen.push_back((lsn, change)),
        }
    }

    /// What it was in the state of an LSN.
    fn at(&self, lsn: u64) -> Option<Amount> {
        let Self::Counted { now, since, recent } = self else { return None };
        let later = recent.iter().rev().take_while(|(at, _)| *at > lsn);
        let amount = later.fold(*now, |now, (_, change)| [now[0] - change[0], now[1] - change[1]]);
        (*since <= lsn).then_some(amount)
    }
}

impl What {
    /// What the rows of one item count for.
    fn of(self, rows: &[Row]) -> Amount {
        let head = self.head();
        let at = rows.partition_point(|(key, _)| key[..] < head[..]);
        let row = rows.get(at).filter(|(key, _)| key.starts_with(&head));
        match self {
            Self::Missing(_) => [i64::from(row.is_none()), 0],
            Self::Texts(_) => row.map_or([0; 2], |(_, stored)| [1, words(stored)]),
        }
    }

    /// What the rows that are counted begin with.
    fn head(self) -> Vec<u8> {
        let mut head = Vec::with_capacity(10);
        match self {
            Self::Missing(path) => key::put_head(key::RANGE, path, &mut head),
            Self::Texts(path) => {
                key::put_head(key::WORD, path, &mut head);
                key::put_word("", &mut head);
            }
        }
        head
    }
}

fn words(stored: &[u8]) -> i64 {
    key::read_word_value(stored).map_or(0, |(_, length)| i64::from(length))
}

/// Ends a count that was given up, by a failure or because nobody waits for it any more: else it
/// would be taken for one that is under way.
struct GivenUp<'a> {
    partition: &'a Partition,
    what: What,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let counting = |watch: &Watch| matches!(watch.known, Known::Counting(_));
        let mut writer = self.partition.writer();
        writer.presence.watches.retain(|watch| watch.what != self.what || !counting(watch));
    }
}

impl Partition {
    /// Whether every item has a value at a path in the state of an LSN. False where that is not
    /// known. The path must lead to at most one value of an item.
    pub(crate) async fn all_have(&self, path: PathId, lsn: u64) -> Result<bool> {
        let missing = self.figure(What::Missing(path), lsn).await?;
        Ok(missing.is_some_and(|[missing, _]| missing == 0))
    }

    /// How many texts and words are at a path in the state of an LSN, if that is known.
    pub(crate) async fn texts(&self, path: PathId, lsn: u64) -> Result<Option<Texts>> {
        let texts = self.figure(What::Texts(path), lsn).await?;
        let number = |amount: i64| u64::try_from(amount).unwrap_or(0);
        Ok(texts.map(|[texts, words]| Texts { texts: number(texts), words: number(words) }))
    }

    async fn figure(&self, what: What, lsn: u64) -> Result<Option<Amount>> {
        let known = self.writer().presence.amount(what, lsn);
        if known.is_some() || !self.watch(what).await? {
            return Ok(known);
        }
        Ok(self.writer().presence.amount(what, lsn))
    }

    /// Counts rows; false where somebody else is at it.
    async fn watch(&self, what: What) -> Result<bool> {
        let ticket = {
            let mut writer = self.writer();
            if writer.indexing().is_building() || !writer.presence.begin(what) {
                return Ok(false);
            }
            // A batch that changes nothing: a view that has it has all that was not noted.
            let head = kv::Op::Put(Keyspace::Meta, keys::HEAD, writer.head().encode());
            self.owner.submit(vec![head])
        };
        let _given_up = GivenUp { partition: self, what };
        ticket.map_err(storage)?.durable().await.map_err(storage)?;
        let (amount, lsn) = self.count_rows(what).await?;
        self.writer().presence.counted(what, amount, lsn);
        Ok(true)
    }

    async fn count_rows(&self, what: What) -> Result<(Amount, u64)> {
        let view = self.owner.published();
        let head = head_of(&*view).await?;
        let (mut from, to) = key::beginning(what.head());
        let (mut rows, mut all_words) = (0, 0);
        loop {
            let scan = Scan {
                keyspace: Keyspace::Terms,
                from,
                to: to.clone(),
                reverse: false,
                rows: COUNT_ROWS,
                bytes: usize::MAX,
                keys_only: matches!(what, What::Missing(_)),
            };
            let chunk = view.scan(scan).await.map_err(storage)?;
            rows += chunk.rows.len() as i64;
            all_words += chunk.rows.iter().map(|(_, stored)| words(stored)).sum::<i64>();
            match chunk.resume {
                Some(resume) => from = std::ops::Bound::<Bytes>::Excluded(resume),
                None => break,
            }
            tokio::task::yield_now().await;
        }
        let amount = match what {
            What::Missing(_) => [head.items as i64 - rows, 0],
            What::Texts(_) => [rows, all_words],
        };
        Ok((amount, head.lsn))
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
        let what = What::Missing(path);
        assert!(presence.begin(what) && !presence.begin(what));
        assert_eq!(presence.amount(what, 100), None);
        let (has, lacks) = (rows(Some(path)), rows(None));
        presence.note(4, None, Some(&lacks));
        presence.note(6, None, Some(&lacks));
        // The view that was counted had the first of them already.
        presence.counted(what, [3, 0], 5);
        assert_eq!(presence.amount(what, 6), Some([4, 0]));
        assert_eq!(presence.amount(what, 5), Some([3, 0]), "it was another number then");
        assert_eq!(presence.amount(what, 4), None, "nobody knows what was before");
        presence.note(7, Some(&lacks), Some(&has));
        presence.note(8, Some(&has), None);
        let at = [9, 8, 7, 6, 5].map(|lsn| presence.amount(what, lsn));
        assert_eq!(at, [3, 3, 3, 4, 3].map(|missing| Some([missing, 0])));
    }

    #[test]
    fn texts_and_their_words_are_counted() {
        let (path, mut presence) = (PathId(9), Presence::default());
        let what = What::Texts(path);
        let text = |length| vec![(Bytes::from(what.head()), key::word_value(0, length))];
        presence.begin(what);
        presence.counted(what, [2, 10], 1);
        presence.note(2, None, Some(&text(7)));
        presence.note(3, Some(&text(7)), Some(&text(5)));
        presence.note(4, None, Some(&rows(None)));
        presence.note(5, Some(&text(5)), None);
        let at = [1, 2, 4, 5].map(|lsn| presence.amount(what, lsn));
        assert_eq!(at, [[2, 10], [3, 17], [3, 15], [2, 10]].map(Some));
    }

    #[test]
    fn old_changes_are_forgotten() {
        let (what, mut presence) = (What::Missing(PathId(9)), Presence::default());
        presence.begin(what);
        presence.counted(what, [0, 0], 1);
        for lsn in 2..=RECENT_MAX as u64 + 2 {
            presence.note(lsn, None, Some(&rows(None)));
        }
        assert_eq!(presence.amount(what, 1), None);
        assert_eq!(presence.amount(what, 2), Some([1, 0]));
    }

    #[test]
    fn few_paths_are_watched() {
        let mut presence = Presence::default();
        for n in 0..100 {
            presence.begin(What::Missing(PathId(n)));
            presence.amount(What::Missing(PathId(0)), 1);
        }
        assert_eq!(presence.watches.len(), WATCHED_MAX);
        assert!(presence.watches.iter().any(|watch| watch.what == What::Missing(PathId(0))));
    }
}
