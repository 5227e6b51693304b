//! `ORDER BY`: by an index that has the order, or by keeping the best rows of a pass over all.
//!
//! A pass keeps no more rows than the page can use, so memory does not grow with the data. The
//! place of a row is its order key, whichever way it was found.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use bytes::Bytes;
use model::Result;

use super::ahead::Ahead;
use super::cursor::Found;
use super::place::{ALL_ROWS, KEY_BYTES, foreign, is_shortened, shortened};
use super::{Page, Place, Run, Sheet};
use crate::bind::Order;
use crate::error::too_much;
use crate::eval::Frame;
use crate::eval::rows::Rows;
use crate::limits;
use crate::plan::{Access, OrderScan};
use crate::source::Source;
use crate::value::{Value, identity_into, sort_key_into};

/// Where a row stands in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rank {
    key: Bytes,
    item: Bytes,
    row: u32,
    /// Ties are broken by item, or backwards.
    backwards: bool,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let tie = self.item.cmp(&other.item).then(self.row.cmp(&other.row));
        let tie = if self.backwards { tie.reverse() } else { tie };
        self.key.cmp(&other.key).then(tie)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A row kept by a pass.
#[derive(PartialEq, Eq)]
struct Kept {
    rank: Rank,
    row: Bytes,
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Which rows a pass looks for.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    All,
    /// Those without a value for the first key, which the index does not have.
    Missing,
}

impl<S: Source> Run<'_, S> {
    pub(super) async fn ordered(&self, mut sheet: Sheet, place: Place) -> Result<Page> {
        let descends = self.descends();
        let order_scan = self.plan.order.as_ref();
        let (mut after, backwards) = match place {
            Place::Start => (None, order_scan.map_or(descends, OrderScan::is_backwards)),
            Place::Ordered { key, item, row, backwards } => {
                let key = self.whole_key(key, &item).await?;
                (Some(Rank { key, item, row, backwards }), backwards)
            }
            _ => return Err(foreign()),
        };
        if self.block().distinct {
            return self.distinct_ordered(sheet, after, backwards).await;
        }
        // An index that has ties the other way round cannot go on from here.
        let Some(order_scan) = order_scan.filter(|scan| scan.is_backwards() == backwards) else {
            let more = self.passes(&mut sheet, &mut after, (Part::All, backwards)).await?;
            return Ok(self.finish_ordered(sheet, after, more));
        };
        // Ascending, what is missing comes first; descending, last.
        let is_missing = |rank: &Rank| is_missing_key(&rank.key, descends);
        let missing = (Part::Missing, backwards);
        let in_missing = after.as_ref().is_none_or(is_missing);
        let mut more = false;
        if order_scan.missing && !descends && in_missing {
            more = self.passes(&mut sheet, &mut after, missing).await? || sheet.is_full();
        }
        // An index of several keys has entries for what is missing too.
        let in_entries =
            !order_scan.missing || !descends || after.as_ref().is_none_or(|rank| !is_missing(rank));
        if !more && in_entries {
            more = self.by_index(order_scan, &mut sheet, &mut after).await?;
        }
        if !more && order_scan.missing && descends {
            more = self.passes(&mut sheet, &mut after, missing).await?;
        }
        Ok(self.finish_ordered(sheet, after, more))
    }

    fn finish_ordered(&self, sheet: Sheet, after: Option<Rank>, more: bool) -> Page {
        let next = after.filter(|_| more);
        let place = |Rank { key, item, row, backwards }| {
            let key = shortened(key);
            Place::Ordered { key, item, row, backwards }
        };
        sheet.finish(next.map(place))
    }

    /// Whether the first key descends.
    fn descends(&self) -> bool {
        self.bound().order.keys.first().is_some_and(|key| key.descending)
    }

    /// The order key of a place. The rest of a long one is in its item; where that has changed, the
    /// beginning has to do.
    async fn whole_key(&self, key: Bytes, item: &Bytes) -> Result<Bytes> {
        if !is_shortened(&key) {
            return Ok(key);
        }
        let body = self.source.fetch(std::slice::from_ref(item)).await?.pop().flatten();
        let body = body.unwrap_or_default();
        let mut frame = Frame::new(self.context, self.bound().slots, &body);
        let whole = order_key(&self.bound().order, &mut frame)?;
        let same = shortened(whole.clone()) == key;
        Ok(if same { whole } else { key.slice(..KEY_BYTES) })
    }

    /// Rows in the order of an index. True where the page is full before the end.
    async fn by_index(
        &self,
        order_scan: &OrderScan,
        sheet: &mut Sheet,
        after: &mut Option<Rank>,
    ) -> Result<bool> {
        let access = Access::Stream(order_scan.scan.clone());
        let mut cursor = self.cursor(&access);
        if self.is_row_each(&access) {
            cursor = cursor.expecting(sheet.expects());
        }
        let filtered = self.is_filtered(&access);
        let mut begun = None;
        let descends = self.descends();
        let in_entries = |rank: &&Rank| !order_scan.missing || !is_missing_key(&rank.key, descends);
        if let Some(rank) = after.as_ref().filter(in_entries) {
            let value = order_scan.entry_value(&rank.key);
            cursor.seek(value.clone(), rank.item.clone());
            if rank.row != ALL_ROWS && !self.block().from.is_empty() {
                let document = cursor.document(&rank.item, &mut sheet.metrics).await?;
                begun = document.map(|document| Found { document, value });
            }
        }
        loop {
            let chunk = match begun.take() {
                Some(found) => vec![found],
                None => cursor.next(&mut sheet.metrics).await?,
            };
            let mut ahead = self.ahead(&chunk);
            for (at, found) in chunk.iter().enumerate() {
                ahead.item(at);
                let item = (found, filtered);
                let full = self.indexed_rows(order_scan, item, &mut ahead, sheet, after).await?;
                if full {
                    let last =
                        self.block().from.is_empty() && cursor.has_ended() && at + 1 == chunk.len();
                    return Ok(!last || order_scan.missing);
                }
            }
            if cursor.has_ended() {
                return Ok(false);
            }
        }
    }

    async fn indexed_rows(
        &self,
        order_scan: &OrderScan,
        (found, filtered): (&Found, bool),
        ahead: &mut Ahead<'_, S>,
        sheet: &mut Sheet,
        after: &mut Option<Rank>,
    ) -> Result<bool> {
        let block = self.block();
        let backwards = order_scan.is_backwards();
        let key = order_scan.order_key(&found.value);
        self.context.budget.begin_row();
        let mut frame = Frame::new(self.context, self.bound().slots, &found.document.body);
        // An item that changed since its entry was read has its place elsewhere.
        if order_key(&self.bound().order, &mut frame)? != key {
            return Ok(false);
        }
        let in_order = rows_in_order(block, &mut frame, ahead, (filtered, backwards))?;
        for (number, value) in in_order {
            let rank =
                Rank { key: key.clone(), item: found.document.key.clone(), row: number, backwards };
            if after.as_ref().is_some_and(|after| rank <= *after) {
                continue;
            }
            *after = Some(rank);
            sheet.metrics.kept += 1;
            super::stream::put(sheet, &value, &found.document)?;
            let over = self.breathe().await?;
            if sheet.is_full() || over {
                return Ok(true);
            }
        }
        let over = self.breathe().await?;
        if over {
            // Whatever has become of the item, the next page begins behind it.
            let item = found.document.key.clone();
            *after = Some(Rank { key, item, row: ALL_ROWS, backwards });
        }
        Ok(over)
    }

    /// Passes over all items, each keeping the best rows after those given, of the part and with ties
    /// backwards or not. True where the page is full before the end.
    async fn passes(
        &self,
        sheet: &mut Sheet,
        after: &mut Option<Rank>,
        part: (Part, bool),
    ) -> Result<bool> {
        loop {
            let room = sheet.room().clamp(1, PASS_ROWS);
            let (kept, cut) = self.pass(room, after.as_ref(), part, sheet).await?;
            let found = kept.len();
            for (at, kept) in kept.into_iter().enumerate() {
                *after = Some(kept.rank);
                sheet.put_row(kept.row)?;
                if sheet.is_full() {
                    return Ok(cut || at + 1 < found);
                }
            }
            if !cut {
                return Ok(false);
            }
        }
    }

    /// The best rows of one pass in their order, and whether there were more.
    async fn pass(
        &self,
        room: usize,
        after: Option<&Rank>,
        part: (Part, bool),
        sheet: &mut Sheet,
    ) -> Result<(Vec<Kept>, bool)> {
        let mut best: BinaryHeap<Kept> = BinaryHeap::new();
        // From the best that was given up on, all are left to later passes: behind it nothing is kept.
        let (mut bytes, mut cut) = (0, None::<Rank>);
        let mut more = false;
        let mut cursor = self.heap(&self.plan.access);
        while !cursor.has_ended() {
            let chunk = cursor.next(&mut sheet.metrics).await?;
            let mut ahead = self.ahead(&chunk);
            for (at, found) in chunk.iter().enumerate() {
                ahead.item(at);
                self.candidates(found, part, &mut ahead, |rank, value| {
                    if after.is_some_and(|after| rank <= *after) {
                        return Ok(());
                    }
                    let full = best.len() >= room;
                    if cut.as_ref().is_some_and(|cut| rank >= *cut)
                        || full && best.peek().is_some_and(|worst| rank > worst.rank)
                    {
                        more = true;
                        return Ok(());
                    }
                    let mut row = Vec::new();
                    if value.write_into(&mut row) {
                        bytes += row.len() + rank.key.len() + KEPT_BYTES;
                        best.push(Kept { rank, row: row.into() });
                    }
                    // The worst goes while there are too many, or they take too much; one stays.
                    while best.len() > room || (bytes > limits::MEMORY_BYTES && best.len() > 1) {
                        more = true;
                        if let Some(worst) = best.pop() {
                            bytes -= worst.row.len() + worst.rank.key.len() + KEPT_BYTES;
                            cut = Some(worst.rank);
                        }
                    }
                    Ok(())
                })?;
                self.breathe().await?;
            }
        }
        Ok((best.into_sorted_vec(), more))
    }

    /// The rows of an item that pass the filter, each with its place in the order.
    fn candidates(
        &self,
        found: &Found,
        (part, backwards): (Part, bool),
        ahead: &mut Ahead<'_, S>,
        mut take: impl FnMut(Rank, Value<'_>) -> Result<()>,
    ) -> Result<()> {
        let (block, order) = (self.block(), &self.bound().order);
        self.context.budget.begin_row();
        let mut frame = Frame::new(self.context, self.bound().slots, &found.document.body);
        let mut rows = Rows::new(block);
        let mut number = 0;
        while rows.next(&mut frame)? {
            ahead.row();
            number += 1;
            if !block.passes(&mut frame)? {
                continue;
            }
            let key = order_key(order, &mut frame)?;
            if part == Part::Missing && !is_missing_key(&key, self.descends()) {
                continue;
            }
            let value = block.output(&mut frame)?;
            if value.is_defined() {
                let item = found.document.key.clone();
                take(Rank { key, item, row: number, backwards }, value)?;
            }
        }
        Ok(())
    }

    /// `DISTINCT` with `ORDER BY`: every value stands where its first row does. All different
    /// values are held, up to the limit.
    async fn distinct_ordered(
        &self,
        mut sheet: Sheet,
        after: Option<Rank>,
        backwards: bool,
    ) -> Result<Page> {
        let mut firsts: HashMap<Vec<u8>, Kept> = HashMap::new();
        let mut bytes = 0;
        let mut cursor = self.heap(&self.plan.access);
        while !cursor.has_ended() {
            let chunk = cursor.next(&mut sheet.metrics).await?;
            let mut ahead = self.ahead(&chunk);
            for (at, found) in chunk.iter().enumerate() {
                ahead.item(at);
                self.candidates(found, (Part::All, backwards), &mut ahead, |rank, value| {
                    let mut row = Vec::new();
                    if !value.write_into(&mut row) {
                        return Ok(());
                    }
                    let mut identity = Vec::new();
                    identity_into(&value, &mut identity);
                    let size = identity.len() + row.len() + rank.key.len() + KEPT_BYTES;
                    let kept = Kept { rank, row: row.into() };
                    match firsts.get_mut(&identity) {
                        Some(first) if kept.rank < first.rank => *first = kept,
                        Some(_) => {}
                        None => {
                            bytes += size;
                            firsts.insert(identity, kept);
                        }
                    }
                    if bytes > limits::MEMORY_BYTES {
                        return Err(too_much("bytes of different values", limits::MEMORY_BYTES));
                    }
                    Ok(())
                })?;
                self.breathe().await?;
            }
        }
        let mut rows: Vec<Kept> = firsts.into_values().collect();
        rows.retain(|kept| after.as_ref().is_none_or(|after| kept.rank > *after));
        rows.sort_unstable();
        let count = rows.len();
        let mut reached = after;
        for (at, kept) in rows.into_iter().enumerate() {
            reached = Some(kept.rank);
            sheet.put_row(kept.row)?;
            if sheet.is_full() {
                return Ok(self.finish_ordered(sheet, reached, at + 1 < count));
            }
        }
        Ok(self.finish_ordered(sheet, reached, false))
    }
}

/// Rows that one pass keeps at most.
const PASS_ROWS: usize = 20_000;
/// About what a kept row takes beside its bytes.
const KEPT_BYTES: usize = 160;

/// The rows of one item in the order that ties have.
fn rows_in_order<'a, S: Source>(
    block: &'a crate::bound::Block,
    frame: &mut Frame<'a>,
    ahead: &mut Ahead<'_, S>,
    (filtered, backwards): (bool, bool),
) -> Result<std::vec::IntoIter<(u32, Value<'a>)>> {
    let mut all = Vec::new();
    let mut rows = Rows::new(block);
    let (mut number, mut weight) = (0, 0);
    while rows.next(frame)? {
        ahead.row();
        number += 1;
        if filtered || block.passes(frame)? {
            let value = block.output(frame)?;
            weight += value.weight();
            if weight > limits::MEMORY_BYTES {
                return Err(too_much("bytes of the rows of one item", limits::MEMORY_BYTES));
            }
            if value.is_defined() {
                all.push((number, value));
            }
        }
    }
    if backwards {
        all.reverse();
    }
    Ok(all.into_iter())
}

/// The order key of the current row: bytes that compare as the keys of `ORDER BY` say.
fn order_key<'a>(order: &'a Order, frame: &mut Frame<'a>) -> Result<Bytes> {
    let mut out = Vec::new();
    for key in &order.keys {
        let value = key.node.eval(frame)?;
        let start = out.len();
        if key.path.is_none() && value.is_undefined() {
            // What has no distance comes after everything that has one.
            out.push(0xFF);
            continue;
        }
        sort_key_into(&value, &mut out);
        if key.descending {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    Ok(out.into())
}

/// Whether an order key begins with a value that is missing, the first key descending or not.
fn is_missing_key(key: &Bytes, descends: bool) -> bool {
    let mut missing = Vec::new();
    sort_key_into(&Value::Undefined, &mut missing);
    let byte = if descends { !missing[0] } else { missing[0] };
    key.first() == Some(&byte)
}
