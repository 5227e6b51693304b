//! Entries of full-text indexes: items whose texts have a word, in the order of their keys.

use std::ops::Bound;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use kv::Scan;
use model::Result;
use model::policy::FullTextIndex;
use query::source::{Chunk, Entry, IndexPath, PathStep, Posting, Texts};

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

    /// Entries of a word: its items.
    pub(super) async fn words(
        &self,
        path: &IndexPath,
        word: &str,
        after: Option<&Entry>,
        limit: usize,
    ) -> Result<Chunk<Entry>> {
        let found = self.word_postings(path, word, after.map(|entry| &entry.item), limit).await?;
        let entry = |posting: Posting| Entry { value: Bytes::new(), item: posting.item };
        Ok(Chunk { rows: found.rows.into_iter().map(entry).collect(), more: found.more })
    }

    pub(super) async fn word_postings(
        &self,
        path: &IndexPath,
        word: &str,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Chunk<Posting>> {
        let Some(head) = self.word_head(path, word) else {
            return Ok(Chunk { rows: Vec::new(), more: false });
        };
        // Items are in the order of parts, so one part after the other is in order.
        let mut rows = Vec::new();
        for part in &self.parts {
            let more = self.part_postings(part, &head, after, limit, &mut rows).await?;
            if more {
                return Ok(Chunk { rows, more });
            }
        }
        Ok(Chunk { rows, more: false })
    }

    /// Adds postings of a part; true where the list is full.
    async fn part_postings(
        &self,
        part: &Part,
        head: &[u8],
        after: Option<&Bytes>,
        limit: usize,
        rows: &mut Vec<Posting>,
    ) -> Result<bool> {
        let (mut from, to) = part.rows_of(head);
        if let Some(after) = after {
            let passed = Bytes::from([head, after].concat());
            if matches!(&from, Bound::Included(from) if *from <= passed) {
                from = Bound::Excluded(passed);
            }
        }
        loop {
            let room = (limit - rows.len()).clamp(1, CHUNK_ROWS);
            let scan = Scan { keys_only: false, ..index_rows(from, to.clone(), room) };
            let chunk = part.view.scan(scan).await.map_err(storage)?;
            let mut found = Vec::with_capacity(chunk.rows.len());
            let mut says = HashMap::with_capacity(chunk.rows.len());
            for (row_key, stored) in &chunk.rows {
                let row = RowKey::read(row_key).ok_or_else(|| keys::corrupt("an index row"))?;
                let said = key::read_word_value(stored).ok_or_else(|| keys::corrupt("a word"))?;
                let item = row_key.slice(row.item_at..);
                if part.holds(&item) {
                    says.insert(item.clone(), said);
                    found.push(Entry { value: Bytes::new(), item });
                }
            }
            for Entry { item, .. } in self.alive(part, found).await? {
                let (count, length) = says.get(&item).copied().unwrap_or_default();
                rows.push(Posting { item, count, length });
            }
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

    /// How many texts there are at a path, and how many words they have together. Of a whole
    /// partition in which nothing goes by itself that is known; of others it is counted.
    pub(super) async fn all_texts(&self, path: &IndexPath) -> Result<Option<Texts>> {
        let Some(index) = self.text_index(path) else { return Ok(None) };
        let id = PathId::of_names(&index.names);
        let mut all = Texts::default();
        for part in &self.parts {
            let known = match part.whole && self.all_alive(part) {
                true => part.span.partition.texts(id, part.head_lsn).await?,
                false => None,
            };
            let Texts { texts, words } = match known {
                Some(known) => known,
                None => self.count_texts(part, path).await?,
            };
            all.texts += texts;
            all.words += words;
        }
        Ok(Some(all))
    }

    async fn count_texts(&self, part: &Part, path: &IndexPath) -> Result<Texts> {
        let Some(head) = self.word_head(path, "") else { return Ok(Texts::default()) };
        let (mut all, mut after, mut more) = (Texts::default(), None, true);
        while more {
            let mut rows = Vec::new();
            more = self.part_postings(part, &head, after.as_ref(), CHUNK_ROWS, &mut rows).await?;
            all.texts += rows.len() as u64;
            all.words += rows.iter().map(|posting| u64::from(posting.length)).sum::<u64>();
            after = rows.pop().map(|posting| posting.item);
        }
        Ok(all)
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
