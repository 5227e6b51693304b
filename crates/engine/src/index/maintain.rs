//! What a commit changes in the indexes: the one place where rows are written for items.
//!
//! Every write says which versions it takes out of the feed and which it adds; whatever it is (a
//! write, a batch, an expiry), the indexes follow from those.

use std::sync::Arc;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use kv::{Keyspace, Op};
use model::Result;

use super::own::OwnRows;
use super::terms::{self, Row};
use super::{Indexes, Indexing};
use crate::keys::Change;

/// A version that a commit adds to the feed, or takes out of it, as it is stored there.
#[derive(Debug)]
pub(crate) enum Moved {
    Added(Bytes, Option<Beforehand>),
    Removed(Bytes),
    /// It stays, and its rows are to become those of the current policy.
    Rebuilt(Bytes),
}

/// Rows that were worked out before the commit, and where the members begin that were added to the
/// item since.
pub(crate) type Beforehand = (Arc<OwnRows>, usize);

/// Up to here comparing is cheaper than hashing.
const FEW: usize = 16;

/// What becomes of one item.
struct Turn {
    item_key: Bytes,
    old: Option<Bytes>,
    new: Option<Bytes>,
    /// Rows of the new version, with what was added to it since they were worked out.
    beforehand: Option<(Arc<OwnRows>, Bytes)>,
}

/// Adds to a batch what its versions change in the indexes, and says of each item which rows it
/// had and has, while that is known.
pub(crate) fn maintain(
    indexing: &Indexing,
    moved: &[Moved],
    batch: &mut Vec<Op>,
    mut note: impl FnMut(Option<&[Row]>, Option<&[Row]>),
) -> Result<()> {
    if moved.is_empty() || !indexing.reads_bodies() {
        return Ok(());
    }
    for Turn { item_key, old, new, beforehand } in turns(moved)? {
        let rows = |indexes: &Arc<Indexes>, body: &Option<Bytes>| match body {
            Some(body) => terms::rows(indexes, &item_key, body),
            None => Ok(Vec::new()),
        };
        let (was, is) = (old.is_some(), new.is_some());
        let known = match beforehand {
            Some((own, added)) => own.rows(&indexing.current, &item_key, &added)?,
            None => None,
        };
        let new = match known {
            Some(known) => known,
            None => rows(&indexing.current, &new)?,
        };
        if !indexing.is_building() {
            let old = rows(&indexing.current, &old)?;
            note(was.then_some(&old), is.then_some(&new));
            if old.is_empty() {
                batch.extend(new.into_iter().map(put));
            } else {
                difference(&old, &new, batch);
            }
            continue;
        }
        // Nobody knows which of its rows are there: all that may be go, all that must be come.
        let mut gone = rows(&indexing.current, &old)?;
        for older in &indexing.older {
            gone.extend(rows(older, &old)?);
        }
        gone.sort_unstable();
        gone.dedup_by(|a, b| a.0 == b.0);
        gone.retain(|(key, _)| new.binary_search_by(|(known, _)| known.cmp(key)).is_err());
        batch.extend(gone.into_iter().map(|(key, _)| Op::Delete(Keyspace::Terms, key)));
        batch.extend(new.into_iter().map(put));
    }
    Ok(())
}

/// Each item once: as it was before the commit, and as it is after.
fn turns(moved: &[Moved]) -> Result<Vec<Turn>> {
    let mut turns: Vec<Turn> = Vec::with_capacity(1);
    // Of all turns, once a commit has so many that comparing would show.
    let mut places: HashMap<Bytes, usize> = HashMap::new();
    for one in moved {
        let (Moved::Added(stored, _) | Moved::Removed(stored) | Moved::Rebuilt(stored)) = one;
        let Change { item_key, body, .. } = Change::decode(stored)?;
        let body = Some(body);
        let beforehand = match one {
            Moved::Added(stored, Some((own, at))) => Some((own.clone(), stored.slice(*at..))),
            _ => None,
        };
        let (old, new) = match one {
            Moved::Added(..) => (None, body),
            Moved::Removed(_) => (body, None),
            Moved::Rebuilt(_) => (body.clone(), body),
        };
        let at = if turns.len() <= FEW {
            turns.iter().rposition(|turn| turn.item_key == item_key)
        } else {
            places.get(&item_key).copied()
        };
        match at {
            Some(at) => (turns[at].new, turns[at].beforehand) = (new, beforehand),
            None => turns.push(Turn { item_key, old, new, beforehand }),
        }
        for (at, turn) in turns.iter().enumerate().skip(places.len()).filter(|_| turns.len() > FEW)
        {
            places.insert(turn.item_key.clone(), at);
        }
    }
    Ok(turns)
}

fn put((key, value): Row) -> Op {
    Op::Put(Keyspace::Terms, key, value)
}

/// Both are in order.
fn difference(old: &[Row], new: &[Row], batch: &mut Vec<Op>) {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (old.peek(), new.peek()) {
            (Some(was), Some(is)) if was.0 == is.0 => {
                if was.1 != is.1 {
                    batch.push(put((*is).clone()));
                }
                old.next();
                new.next();
            }
            (Some(was), is) if is.is_none_or(|is| was.0 < is.0) => {
                batch.push(Op::Delete(Keyspace::Terms, was.0.clone()));
                old.next();
            }
            (_, Some(is)) => {
                batch.push(put((*is).clone()));
                new.next();
            }
            (Some(_), None) | (None, None) => return,
        }
    }
}
