//! `GROUP BY` and aggregates.
//!
//! Groups are given in the order of their keys. Where they take more memory than allowed, the
//! last in that order are given up for this page, and a later one computes them: no group is ever
//! wrong, and none is held that the page cannot use.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::Result;

use super::ahead::Ahead;
use super::place::{foreign, shortened};
use super::stream::Seen;
use super::{Page, Place, Run, Sheet};
use crate::bound::Grouping;
use crate::error::too_much;
use crate::eval::Frame;
use crate::eval::block::{GROUP_BYTES, Group};
use crate::eval::rows::Rows;
use crate::limits;
use crate::source::{Document, Entry, Scan, Source, Tally};
use crate::value::Value;

/// The groups of a page so far.
struct Groups {
    groups: BTreeMap<Vec<u8>, Group>,
    bytes: usize,
    /// Groups up to here were given before.
    after: Option<Bytes>,
    /// From here on groups were given up.
    cut: Option<Vec<u8>>,
}

impl<S: Source> Run<'_, S> {
    pub(super) async fn grouped(&self, mut sheet: Sheet, place: Place) -> Result<Page> {
        let Some(grouping) = &self.block().grouping else { return Err(foreign()) };
        let after = match place {
            Place::Start => None,
            Place::Group { identity } => Some(identity),
            _ => return Err(foreign()),
        };
        // Whether an output came before is only known by making the earlier ones again.
        let remake = self.block().distinct;
        let known = after.clone().filter(|_| !remake);
        let mut groups = Groups { groups: BTreeMap::new(), bytes: 0, after: known, cut: None };
        if grouping.keys.is_empty() && after.is_none() {
            groups.groups.insert(Vec::new(), grouping.begin(Vec::new()));
        }
        let known = self.counted(grouping, &mut groups, &mut sheet).await?
            || self.extremes(grouping, &mut groups, &mut sheet).await?
            || self.by_entries(grouping, &mut groups, &mut sheet).await?;
        if !known {
            let mut cursor = match grouping.is_blind() {
                true => self.heap(&self.plan.access),
                false => self.cursor(&self.plan.access),
            };
            let filtered = self.is_filtered(&self.plan.access);
            while !cursor.has_ended() {
                let chunk = cursor.next(&mut sheet.metrics).await?;
                let mut ahead = self.ahead(&chunk);
                for (at, found) in chunk.iter().enumerate() {
                    ahead.item(at);
                    let item = (&found.document, filtered);
                    sheet.metrics.kept +=
                        self.group_item(grouping, item, &mut ahead, &mut groups)?;
                    self.breathe().await?;
                }
            }
        }
        if remake && groups.cut.is_some() {
            return Err(too_much("bytes of groups that are to be DISTINCT", limits::MEMORY_BYTES));
        }
        self.give(grouping, groups, after.filter(|_| remake), sheet)
    }

    /// A count by an index alone: one that it knows, or of its entries.
    async fn counted(
        &self,
        grouping: &Grouping,
        groups: &mut Groups,
        sheet: &mut Sheet,
    ) -> Result<bool> {
        let Some(scan) = &self.plan.count else { return Ok(false) };
        let count = match self.source.count(scan).await? {
            Some(count) => count,
            None => self.entries(scan).await?,
        };
        let Some(group) = groups.groups.get_mut(&Vec::new()) else { return Ok(false) };
        debug_assert!(grouping.keys.is_empty());
        group.accumulators.iter_mut().for_each(|accumulator| accumulator.add_count(count));
        sheet.metrics.kept += count;
        sheet.metrics.entries += count;
        Ok(true)
    }

    /// How many entries a scan has.
    async fn entries(&self, scan: &Scan) -> Result<u64> {
        let mut count = 0;
        let mut after = None;
        loop {
            let chunk = self.source.scan(scan, after.as_ref(), COUNTED_ENTRIES).await?;
            count += chunk.rows.len() as u64;
            self.context.budget.spend(chunk.rows.len() as u64)?;
            self.context.budget.begin_row();
            self.breathe().await?;
            after = chunk.rows.into_iter().next_back();
            if !chunk.more || after.is_none() {
                return Ok(count);
            }
        }
    }

    /// Smallest and largest values, from the ends of indexes. The last entries are looked at in any
    /// case: arrays and objects, of which there is no smallest, are there.
    async fn extremes(
        &self,
        grouping: &Grouping,
        groups: &mut Groups,
        sheet: &mut Sheet,
    ) -> Result<bool> {
        let Some(scans) = &self.plan.extremes else { return Ok(false) };
        let Some(group) = groups.groups.get_mut(&Vec::new()) else { return Ok(false) };
        let aggregates = grouping.aggregates.iter().zip(&mut group.accumulators);
        for ((node, accumulator), scan) in aggregates.zip(scans) {
            for scan in [scan.backwards(), scan.clone()] {
                let entries = self.source.scan(&scan, None, 1).await?.rows;
                let keys: Vec<Bytes> = entries.into_iter().map(|entry| entry.item).collect();
                sheet.metrics.entries += keys.len() as u64;
                for body in self.source.fetch(&keys).await?.into_iter().flatten() {
                    sheet.metrics.documents += 1;
                    sheet.metrics.document_bytes += body.len() as u64;
                    let mut frame = Frame::new(self.context, self.bound().slots, &body);
                    accumulator.add(node.argument.eval(&mut frame)?)?;
                }
            }
        }
        Ok(true)
    }

    /// Groups that only count, by the entries of an index: those of a value follow each other, and
    /// one item of each says how the value is spelled.
    async fn by_entries(
        &self,
        grouping: &Grouping,
        groups: &mut Groups,
        sheet: &mut Sheet,
    ) -> Result<bool> {
        let Some(scan) = &self.plan.groups else { return Ok(false) };
        if let Some(tallies) = self.source.tally(scan).await? {
            for Tally { value, item, entries } in tallies {
                let first = Entry { value, item };
                let identity = self.begin_group(grouping, &first, groups, sheet).await?;
                groups.count(&identity, entries);
                sheet.metrics.entries += entries;
                self.context.budget.begin_row();
            }
            return Ok(true);
        }
        let mut after: Option<Entry> = None;
        // The identity of the value that entries have at present.
        let mut current: Option<(Bytes, Vec<u8>)> = None;
        loop {
            let chunk = self.source.scan(scan, after.as_ref(), COUNTED_ENTRIES).await?;
            sheet.metrics.entries += chunk.rows.len() as u64;
            self.context.budget.begin_row();
            self.context.budget.spend(chunk.rows.len() as u64)?;
            for run in chunk.rows.chunk_by(|a, b| a.value == b.value) {
                let known = current.as_ref().filter(|(value, _)| *value == run[0].value);
                let identity = match known {
                    Some((_, identity)) => identity.clone(),
                    None => self.begin_group(grouping, &run[0], groups, sheet).await?,
                };
                groups.count(&identity, run.len() as u64);
                current = Some((run[0].value.clone(), identity));
            }
            self.breathe().await?;
            after = chunk.rows.into_iter().next_back();
            if !chunk.more || after.is_none() {
                return Ok(true);
            }
        }
    }

    /// Begins the group of an entry's value; its identity.
    async fn begin_group(
        &self,
        grouping: &Grouping,
        entry: &Entry,
        groups: &mut Groups,
        sheet: &mut Sheet,
    ) -> Result<Vec<u8>> {
        let body = self.source.fetch(std::slice::from_ref(&entry.item)).await?.pop().flatten();
        let body = body.unwrap_or_default();
        sheet.metrics.documents += 1;
        sheet.metrics.document_bytes += body.len() as u64;
        let mut frame = Frame::new(self.context, self.bound().slots, &body);
        let (identity, keys) = grouping.keys_of(&mut frame)?;
        let identity = shortened(identity.into()).to_vec();
        groups.begin(grouping, identity.clone(), keys);
        Ok(identity)
    }

    /// Adds the rows of an item to their groups: how many passed the filter.
    fn group_item<'a>(
        &'a self,
        grouping: &'a Grouping,
        (document, filtered): (&Document, bool),
        ahead: &mut Ahead<'_, S>,
        groups: &mut Groups,
    ) -> Result<u64> {
        let block = self.block();
        self.context.budget.begin_row();
        let mut frame = Frame::new(self.context, self.bound().slots, &document.body);
        let mut rows = Rows::new(block);
        let mut kept = 0;
        while rows.next(&mut frame)? {
            ahead.row();
            if filtered || block.passes(&mut frame)? {
                kept += 1;
                groups.add(grouping, &mut frame)?;
            }
        }
        Ok(kept)
    }

    fn give(
        &self,
        grouping: &Grouping,
        groups: Groups,
        given: Option<Bytes>,
        mut sheet: Sheet,
    ) -> Result<Page> {
        let block = self.block();
        let mut seen = block.distinct.then(Seen::default);
        let mut frame = Frame::empty(self.context, self.bound().slots);
        let mut last: Option<Bytes> = given.clone();
        let count = groups.groups.len();
        let cut = groups.cut.is_some();
        for (at, (identity, group)) in groups.groups.into_iter().enumerate() {
            self.context.budget.begin_row();
            grouping.place(group, &mut frame);
            let value = block.output(&mut frame)?;
            let new = match &mut seen {
                Some(seen) if value.is_defined() => seen.is_new(&value)?,
                _ => value.is_defined(),
            };
            let before = given.as_ref().is_some_and(|given| identity <= given.to_vec());
            if new && !before {
                sheet.put(&value)?;
            }
            last = Some(identity.into());
            if sheet.is_full() && !before {
                let more = cut || at + 1 < count;
                return Ok(sheet.finish(last.filter(|_| more).map(group_place)));
            }
        }
        Ok(sheet.finish(last.filter(|_| cut).map(group_place)))
    }
}

/// Entries counted at once.
const COUNTED_ENTRIES: usize = 4_096;

fn group_place(identity: Bytes) -> Place {
    Place::Group { identity }
}

impl Groups {
    fn add<'a>(&mut self, grouping: &'a Grouping, frame: &mut Frame<'a>) -> Result<()> {
        let (identity, keys) = grouping.keys_of(frame)?;
        let identity = shortened(identity.into()).to_vec();
        if let Some(group) = self.begin(grouping, identity, keys) {
            let grown = grouping.add(group, frame)?;
            self.bytes += grown;
            self.shrink();
        }
        Ok(())
    }

    /// The group of a key, made where it is new; none where this page has no use for it.
    fn begin(
        &mut self,
        grouping: &Grouping,
        identity: Vec<u8>,
        keys: Vec<Value<'static>>,
    ) -> Option<&mut Group> {
        let given = self.after.as_ref().is_some_and(|after| identity[..] <= after[..]);
        let given_up = self.cut.as_ref().is_some_and(|cut| identity >= *cut);
        if given || given_up {
            return None;
        }
        let size = held(&identity, &keys);
        Some(self.groups.entry(identity).or_insert_with(|| {
            self.bytes += size;
            grouping.begin(keys)
        }))
    }

    /// Counts rows of a group, where this page has it.
    fn count(&mut self, identity: &[u8], rows: u64) {
        if let Some(group) = self.groups.get_mut(identity) {
            group.accumulators.iter_mut().for_each(|accumulator| accumulator.add_count(rows));
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > limits::MEMORY_BYTES && self.groups.len() > 1 {
            self.give_up_last();
        }
    }

    fn give_up_last(&mut self) {
        let Some((identity, group)) = self.groups.pop_last() else { return };
        let grown: usize = group.accumulators.iter().map(|a| a.weight()).sum();
        self.bytes = self.bytes.saturating_sub(held(&identity, &group.keys) + grown);
        self.cut = Some(identity);
    }
}

/// What a group takes before anything is added to it.
fn held(identity: &[u8], keys: &[Value<'static>]) -> usize {
    let keys: usize = keys.iter().map(Value::weight).sum();
    identity.len() * 2 + keys + GROUP_BYTES
}
