//! A source in memory, with indexes or without.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use model::Result;
use query::source::{
    Breath, Chunk, Composite, Document, Entry, IndexPath, KeyRange, PathStep, Scan, Source,
};
use query::value::{Value, sort_key_into};

#[derive(Default)]
pub struct Memory {
    documents: BTreeMap<Bytes, Bytes>,
    /// Entries of every path, sorted.
    entries: BTreeMap<IndexPath, Vec<Entry>>,
    composites: Vec<Composite>,
    composite_entries: Vec<Vec<Entry>>,
    indexed: bool,
    /// Pages end after so many breaths, if any.
    pub page_breaths: usize,
    breaths: AtomicUsize,
}

impl Memory {
    /// Over documents; their keys are their places in the list.
    pub fn new(documents: &[String], indexed: bool, composites: Vec<Composite>) -> Self {
        let mut memory = Self { indexed, composites, ..Self::default() };
        for (at, body) in documents.iter().enumerate() {
            let key = Bytes::from(format!("{at:06}"));
            memory.documents.insert(key, Bytes::from(body.clone().into_bytes()));
        }
        if indexed {
            memory.build();
        }
        memory
    }

    /// Over some of the documents of another, with their keys.
    pub fn part(&self, keep: impl Fn(usize) -> bool) -> Self {
        let documents = self.documents.iter().enumerate().filter(|(at, _)| keep(*at));
        let documents = documents.map(|(_, (key, body))| (key.clone(), body.clone())).collect();
        let mut part = Self {
            documents,
            indexed: self.indexed,
            composites: self.composites.clone(),
            ..Self::default()
        };
        if part.indexed {
            part.build();
        }
        part
    }

    fn build(&mut self) {
        let mut entries: BTreeMap<IndexPath, Vec<Entry>> = BTreeMap::new();
        for (key, body) in &self.documents {
            index(&Value::from_raw(body), &IndexPath(vec![]), key, &mut entries);
        }
        for list in entries.values_mut() {
            list.sort();
            list.dedup();
        }
        self.entries = entries;
        for composite in &self.composites {
            let mut list = Vec::new();
            for (item, body) in &self.documents {
                let mut value = Vec::new();
                for (path, descending) in composite {
                    let start = value.len();
                    sort_key_into(&at(&Value::from_raw(body), path), &mut value);
                    if *descending {
                        value[start..].iter_mut().for_each(|byte| *byte = !*byte);
                    }
                }
                list.push(Entry { value: value.into(), item: item.clone() });
            }
            list.sort();
            self.composite_entries.push(list);
        }
    }

    fn found(&self, scan: &Scan) -> Vec<Entry> {
        let within = |list: Option<&Vec<Entry>>, range: &KeyRange, reverse: bool| {
            let list = list.into_iter().flatten();
            let mut found: Vec<Entry> =
                list.filter(|entry| range.contains(&entry.value)).cloned().collect();
            if reverse {
                found.reverse();
            }
            found
        };
        match scan {
            Scan::Range { path, range, reverse } => within(self.entries.get(path), range, *reverse),
            Scan::Composite { columns, range, reverse } => {
                let index = self.composites.iter().position(|known| known == columns);
                let entries = index.and_then(|index| self.composite_entries.get(index));
                within(entries, range, *reverse)
            }
            Scan::Spatial { .. } | Scan::Word { .. } => unreachable!("no such index here"),
        }
    }
}

fn at<'a>(value: &Value<'a>, path: &IndexPath) -> Value<'a> {
    path.0.iter().fold(value.clone(), |value, step| match step {
        PathStep::Member(name) => value.member(name),
        PathStep::Elements => Value::Undefined,
    })
}

fn index(
    value: &Value<'_>,
    path: &IndexPath,
    item: &Bytes,
    entries: &mut BTreeMap<IndexPath, Vec<Entry>>,
) {
    if !path.0.is_empty() {
        let mut key = Vec::new();
        sort_key_into(value, &mut key);
        let list = entries.entry(path.clone()).or_default();
        list.push(Entry { value: key.into(), item: item.clone() });
    }
    for element in value.elements().into_iter().flatten() {
        index(&element, &path.then(PathStep::Elements), item, entries);
    }
    for (name, member) in value.members().into_iter().flatten() {
        index(&member, &path.then(PathStep::Member(name.into_owned())), item, entries);
    }
}

/// How many bodies are given at once.
const FETCHED: usize = 3;

impl Source for Memory {
    fn covers(&self, _: &IndexPath) -> bool {
        self.indexed
    }

    fn composites(&self) -> &[Composite] {
        &self.composites
    }

    fn covers_spatial(&self, _: &IndexPath) -> bool {
        false
    }

    fn covers_text(&self, _: &IndexPath) -> bool {
        false
    }

    fn sorts(&self) -> bool {
        true
    }

    async fn complete(&self, path: &IndexPath) -> Result<bool> {
        Ok(self.entries.get(path).is_some_and(|list| list.len() == self.documents.len()))
    }

    fn documents_estimate(&self) -> u64 {
        // Small sets would never be worth an index.
        self.documents.len() as u64 * 1_000 + 1_000
    }

    async fn estimate(&self, scan: &Scan) -> Result<u64> {
        Ok(self.found(scan).len() as u64 * 40)
    }

    async fn count(&self, scan: &Scan) -> Result<Option<u64>> {
        Ok(Some(self.found(scan).len() as u64))
    }

    async fn scan(&self, scan: &Scan, after: Option<&Entry>, limit: usize) -> Result<Chunk<Entry>> {
        let reverse = matches!(
            scan,
            Scan::Range { reverse: true, .. } | Scan::Composite { reverse: true, .. }
        );
        let mut rows = self.found(scan);
        rows.retain(|entry| match after {
            None => true,
            Some(after) if reverse => entry < after,
            Some(after) => entry > after,
        });
        let more = rows.len() > limit;
        rows.truncate(limit);
        Ok(Chunk { rows, more })
    }

    async fn fetch(&self, keys: &[Bytes]) -> Result<Vec<Option<Bytes>>> {
        // A few at a time, as it is with large ones.
        let first = keys.iter().take(FETCHED);
        Ok(first.map(|key| self.documents.get(key).cloned()).collect())
    }

    async fn documents(&self, after: Option<&[u8]>, limit: usize) -> Result<Chunk<Document>> {
        let from =
            after.map_or(Bound::Unbounded, |after| Bound::Excluded(Bytes::copy_from_slice(after)));
        let mut all = self.documents.range((from, Bound::Unbounded));
        let rows = all
            .by_ref()
            .take(limit)
            .map(|(key, body)| Document { key: key.clone(), body: body.clone() })
            .collect();
        Ok(Chunk { rows, more: all.next().is_some() })
    }

    async fn nearest(&self, _: &IndexPath, _: &[f64], _: usize) -> Result<Option<Vec<Bytes>>> {
        Ok(None)
    }

    async fn breathe(&self) -> Result<Breath> {
        // Now and then the time of a page is over.
        let breaths = self.breaths.fetch_add(1, Ordering::Relaxed) + 1;
        let over = self.page_breaths > 0 && breaths.is_multiple_of(self.page_breaths);
        Ok(if over { Breath::EndPage } else { Breath::GoOn })
    }
}
