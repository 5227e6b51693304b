//! Positions of readers of several parts of the key space: what they cover, and how they are put
//! together.

use std::sync::Arc;

use model::epk::EpkRange;
use model::token::Position;
use model::{Error, Result};

use super::Part;

/// A position of another scope would silently leave out what it does not mention.
pub(super) fn check_covered<'a>(
    position: &Position,
    spans: impl Iterator<Item = &'a EpkRange>,
) -> Result<()> {
    for span in spans {
        let mut covered = position.within(span);
        covered.sort_by(|(a, _), (b, _)| a.min.cmp(&b.min));
        let mut reached = span.min.clone();
        for (part, _) in &covered {
            if part.min > reached {
                break;
            }
            reached = part.max.clone();
        }
        if reached < span.max {
            return Err(Error::bad_request(
                "the etag is of a feed of another scope: it does not cover all that is asked for; \
                 send it with the scope it was given for",
            ));
        }
    }
    Ok(())
}

/// The next position: what was not served fully stays in front of what was.
pub(super) fn position_of(mut parts: Vec<Part>) -> Position {
    if !parts.is_empty() {
        // The part served last goes to the end, so that a busy one does not starve the others.
        parts.rotate_left(1);
    }
    let parts = joined(parts);
    let pieces = |lsn: fn(&Part) -> u64| {
        position_at(parts.iter().map(|part| (part.keys.clone(), lsn(part))).collect())
    };
    let at = pieces(|part| part.lsn);
    if parts.iter().all(|part| part.began <= part.lsn) {
        return at;
    }
    Position::Copy { began: Box::new(pieces(|part| part.began)), at: Box::new(at) }
}

pub(super) fn position_at(pieces: Vec<(EpkRange, u64)>) -> Position {
    match &pieces[..] {
        [(_, lsn)] => Position::Lsn(*lsn),
        _ => Position::Parts(pieces),
    }
}

/// Puts neighbours together that have come equally far in one partition. What splits have cut apart
/// would otherwise stay so after a merge, and positions grow for as long as partitions change.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut turns: Vec<(usize, Part)> = parts.into_iter().enumerate().collect();
    turns.sort_by(|(_, a), (_, b)| a.keys.min.cmp(&b.keys.min));
    let mut joined: Vec<(usize, Part)> = Vec::with_capacity(turns.len());
    for (turn, part) in turns {
        match joined.last_mut() {
            Some((first, last)) if goes_on(last, &part) => {
                last.keys.max = part.keys.max;
                *first = turn.min(*first);
            }
            _ => joined.push((turn, part)),
        }
    }
    joined.sort_by_key(|(turn, _)| *turn);
    joined.into_iter().map(|(_, part)| part).collect()
}

/// Whether a reader of one part would read on in the other as if they were one.
fn goes_on(a: &Part, b: &Part) -> bool {
    let alike = (a.lsn, a.began) == (b.lsn, b.began) && Arc::ptr_eq(&a.partition, &b.partition);
    alike && a.keys.max == b.keys.min
}
