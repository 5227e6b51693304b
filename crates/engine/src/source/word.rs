//! Entries of full-text indexes: items whose texts have a word, in the order of their keys.

use std::ops::Bound;

use bytes::Bytes;
use model::Result;
use model::policy::FullTextIndex;
use query::source::{Chunk, Entry, IndexPath, PathStep};

use super::{Part, Snapshot, index_rows};
use crate::api::storage;
use crate::index::key::{self, PathId, RowKey};
use crate::keys;

/// Rows read at once.
const CHUNK_ROWS: usize = 1_024;

impl Snapshot<'_> {
    /// The full-text index on a path, where all views have it.
    pub(super) fn text_index(&self, path: &IndexPath) -> Option<&FullTextIndex> {
        let is_path = |names: &[String]| {
            names.len() == path.0.len()
                && names
                    .iter()
                    .zip(&path.0)
                    .all(|(name, step)| matches!(step, PathStep::Member(member) if member == name))
        };
        let mut indexes = self.definition.index_rules.full_text.iter();
        let index = indexes.find(|index| is_path(&index.names))?;
        self.all_rules(|rules| rules.full_text.contains(index)).then_some(index)
    }

    /// What the rows of a word begin with.
    fn word_head(&self, path: &IndexPath, word: &str) -> Option<Vec<u8>> {
        let index = self.text_index(path)?;
        let mut head = Vec::new();
        key::put_head(key::WORD, PathId::of_names(&index.names), &mut head);
        key::put_word(word, &mut head);
        Some(head)
    }

    pub(super) async fn words_estimate(&self, path: &IndexPath, word: &str) -> Result<u64> {
        let Some(head) = self.word_head(path, word) else { return Ok(0) };
        let mut sum = 0;
        for part in &self.parts {
            sum += self.rows_estimate(part, part.rows_of(&head), true).await?;
        }
        Ok(sum)
    }

    pub(super) async fn words(
        &self,
        path: &IndexPath,
        word: &str,
        after: Option<&Entry>,
        limit: usize,
    ) -> Result<Chunk<Entry>> {
        let Some(head) = self.word_head(path, word) else {
            return Ok(Chunk { rows: Vec::new(), more: false });
        };
        // Items are in the order of parts, so one part after the other is in order.
        let mut rows = Vec::new();
        for part in &self.parts {
            let more = self.part_words(part, &head, after, limit, &mut rows).await?;
            if more {
                return Ok(Chunk { rows, more });
            }
        }
        Ok(Chunk { rows, more: false })
    }

    /// Adds entries of a part; true where the list is full.
    async fn part_words(
        &self,
        part: &Part,
        head: &[u8],
        after: Option<&Entry>,
        limit: usize,
        rows: &mut Vec<Entry>,
    ) -> Result<bool> {
        let (mut from, to) = part.rows_of(head);
        if let Some(after) = after {
            let passed = Bytes::from([head, &after.item].concat());
            if matches!(&from, Bound::Included(from) if *from <= passed) {
                from = Bound::Excluded(passed);
            }
        }
        loop {
            let scan = index_rows(from, to.clone(), (limit - rows.len()).clamp(1, CHUNK_ROWS));
            let chunk = part.view.scan(scan).await.map_err(storage)?;
            let mut found = Vec::with_capacity(chunk.rows.len());
            for (row_key, _) in &chunk.rows {
                let row = RowKey::read(row_key).ok_or_else(|| keys::corrupt("an index row"))?;
                let item = row_key.slice(row.item_at..);
                if part.holds(&item) {
                    found.push(Entry { value: Bytes::new(), item });
                }
            }
            rows.extend(self.alive(part, found).await?);
            if rows.len() >= limit {
                return Ok(true);
            }
            match chunk.resume {
                Some(resume) => from = Bound::Excluded(resume),
                None => return Ok(false),
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Part {
    /// Where the rows of items in the scope lie that begin with these bytes.
    fn rows_of(&self, head: &[u8]) -> (Bound<Bytes>, Bound<Bytes>) {
        let (all, mut to) = key::beginning(head.to_vec());
        if self.whole {
            return (all, to);
        }
        if !self.span.is_last() {
            let max = [head, self.span.keys.max.significant()].concat();
            to = Bound::Excluded(max.into());
        }
        (Bound::Included([head, self.span.keys.min.significant()].concat().into()), to)
    }
}
