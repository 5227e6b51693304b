//! Sorted lists put together to one: how a source over several partitions answers.

use std::collections::VecDeque;

use super::Chunk;

/// Merges chunks that are each sorted by `before` into one chunk of at most `limit` rows. Of rows
/// that are equal those of earlier chunks come first.
///
/// What follows the end of a chunk that has more is unknown, so the merged chunk stops at the
/// first such end: every row in it stands where it belongs.
pub fn merge<T>(chunks: Vec<Chunk<T>>, limit: usize, before: impl Fn(&T, &T) -> bool) -> Chunk<T> {
    let mut lists: Vec<(VecDeque<T>, bool)> =
        chunks.into_iter().map(|chunk| (chunk.rows.into(), chunk.more)).collect();
    let mut rows = Vec::new();
    loop {
        if lists.iter().any(|(rest, more)| *more && rest.is_empty()) {
            return Chunk { rows, more: true };
        }
        let heads =
            lists.iter().enumerate().filter_map(|(at, (rest, _))| Some((at, rest.front()?)));
        let first = heads.reduce(|best, next| if before(next.1, best.1) { next } else { best });
        let Some((first, _)) = first else { return Chunk { rows, more: false } };
        if rows.len() == limit {
            return Chunk { rows, more: true };
        }
        rows.extend(lists[first].0.pop_front());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chunks: &[(&[u32], bool)], limit: usize, expect: (&[u32], bool)) {
        let chunks =
            chunks.iter().map(|(rows, more)| Chunk { rows: rows.to_vec(), more: *more }).collect();
        let merged = merge(chunks, limit, |a, b| a < b);
        assert_eq!((&merged.rows[..], merged.more), expect);
    }

    #[test]
    fn rows_stand_where_they_belong() {
        check(&[(&[1, 4], false), (&[2, 3], false)], 9, (&[1, 2, 3, 4], false));
        check(&[(&[1, 4], false), (&[2, 3], false)], 3, (&[1, 2, 3], true));
        check(&[(&[1, 4], true), (&[2, 9], false)], 9, (&[1, 2, 4], true));
        check(&[(&[], false), (&[], false)], 9, (&[], false));
    }
}
