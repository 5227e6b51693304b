//! Rows as they come: filter, projection, `DISTINCT`, without `ORDER BY` and groups.

use std::collections::HashSet;

use bytes::Bytes;
use model::Result;

use super::ahead::Ahead;
use super::cursor::Found;
use super::place::{ALL_ROWS, KEY_BYTES, foreign, is_shortened, shortened};
use super::{Page, Place, Run, Sheet};
use crate::error::too_much;
use crate::eval::Frame;
use crate::eval::rows::Rows;
use crate::limits;
use crate::plan::Access;
use crate::source::{Document, Scan, Source};
use crate::value::{Value, identity_into};

/// The values that `DISTINCT` has seen.
#[derive(Default)]
pub(super) struct Seen {
    identities: HashSet<Vec<u8>>,
    bytes: usize,
}

impl Seen {
    /// Whether a value is the first of its kind.
    pub(super) fn is_new(&mut self, value: &Value<'_>) -> Result<bool> {
        let mut identity = Vec::new();
        identity_into(value, &mut identity);
        let size = identity.len() + 64;
        let new = self.identities.insert(identity);
        self.bytes += if new { size } else { 0 };
        if self.bytes > limits::MEMORY_BYTES {
            return Err(too_much("bytes of different values", limits::MEMORY_BYTES));
        }
        Ok(new)
    }
}

/// A document, how many of its rows earlier pages have given, and whether it is known to pass the
/// filter.
struct Item<'d> {
    document: &'d Document,
    passed: u32,
    filtered: bool,
}

/// Where in the stream a row stands: value of the index, key of the item, number of the row.
type At = (Bytes, Bytes, u32);

impl<S: Source> Run<'_, S> {
    pub(super) async fn streamed(&self, mut sheet: Sheet, place: Place) -> Result<Page> {
        let access = &self.plan.access;
        let after = self.stream_place(place).await?;
        let mut cursor = self.cursor(access);
        if self.is_row_each(access) {
            cursor = cursor.expecting(sheet.expects());
        }
        let filtered = self.is_filtered(access);
        let mut seen = self.block().distinct.then(Seen::default);
        // What was given before is not known but by reading it again; otherwise it is left out.
        let replay = after.clone().filter(|_| seen.is_some());
        let mut begun = None;
        if let (Some((value, item, row)), None) = (&after, &replay) {
            cursor.seek(value.clone(), item.clone());
            if *row != ALL_ROWS {
                let document = cursor.document(item, &mut sheet.metrics).await?;
                begun = document.map(|document| Found { document, value: value.clone() });
            }
        }
        let mut position = after.clone();
        loop {
            let chunk = match begun.take() {
                Some(found) => vec![found],
                None => cursor.next(&mut sheet.metrics).await?,
            };
            let mut ahead = self.ahead(&chunk);
            for (at, found) in chunk.iter().enumerate() {
                ahead.item(at);
                let bound = replay.as_ref().or(after.as_ref());
                let passed = self.rows_passed(found, bound, replay.is_some());
                let item = Item { document: &found.document, passed, filtered };
                let mut reached = None;
                let ended = self
                    .item_rows(item, &mut ahead, &mut seen, &mut sheet, |row| reached = Some(row))
                    .await?;
                if let Some(row) = reached {
                    position = Some((found.value.clone(), found.document.key.clone(), row));
                }
                let nothing_left = cursor.has_ended() && at + 1 == chunk.len();
                if let Stop::Page(finished) = ended {
                    let last = finished && nothing_left;
                    return Ok(sheet.finish(position.filter(|_| !last).map(|at| self.place(at))));
                }
            }
            if cursor.has_ended() {
                return Ok(sheet.finish(None));
            }
        }
    }

    /// The rows of an item: how the page stands after them.
    async fn item_rows(
        &self,
        Item { document, passed, filtered }: Item<'_>,
        ahead: &mut Ahead<'_, S>,
        seen: &mut Option<Seen>,
        sheet: &mut Sheet,
        mut reached: impl FnMut(u32),
    ) -> Result<Stop> {
        let block = self.block();
        self.context.budget.begin_row();
        let mut frame = Frame::new(self.context, self.bound().slots, &document.body);
        let mut rows = Rows::new(block);
        let mut number = 0;
        // A page may end within an item, but only where a row has been looked at.
        while rows.next(&mut frame)? {
            self.context.budget.begin_row();
            ahead.row();
            number += 1;
            if filtered || block.passes(&mut frame)? {
                sheet.metrics.kept += 1;
                let value = block.output(&mut frame)?;
                let wanted = value.is_defined()
                    && match seen {
                        Some(seen) => seen.is_new(&value)?,
                        None => true,
                    };
                if wanted && number > passed {
                    put(sheet, &value, document)?;
                }
            }
            let over = self.breathe().await? && number > passed;
            if (sheet.is_full() && number > passed) || over {
                reached(number);
                let finished = block.from.is_empty();
                if finished {
                    reached(ALL_ROWS);
                }
                return Ok(Stop::Page(finished));
            }
        }
        if passed != ALL_ROWS {
            reached(ALL_ROWS);
        }
        Ok(Stop::Item)
    }

    /// How many rows of an item earlier pages have given.
    fn rows_passed(&self, found: &Found, bound: Option<&At>, replaying: bool) -> u32 {
        let Some((value, item, row)) = bound else { return 0 };
        let order = self.stream_order((&found.value, &found.document.key), (value, item));
        match order {
            std::cmp::Ordering::Less if replaying => ALL_ROWS,
            std::cmp::Ordering::Equal => *row,
            _ => 0,
        }
    }

    fn stream_order(&self, a: (&Bytes, &Bytes), b: (&Bytes, &Bytes)) -> std::cmp::Ordering {
        if matches!(self.plan.access, Access::Stream(_)) { a.cmp(&b) } else { a.1.cmp(b.1) }
    }

    fn place(&self, (value, item, row): At) -> Place {
        match &self.plan.access {
            Access::Stream(scan) => {
                Place::Entry { scan: scan.name(), value: shortened(value), item, row }
            }
            _ => Place::Item { item, row },
        }
    }

    async fn stream_place(&self, place: Place) -> Result<Option<At>> {
        match (place, &self.plan.access) {
            (Place::Start, _) => Ok(None),
            (Place::Entry { value, item, row, .. }, Access::Stream(scan)) => {
                let value = self.whole_value(value, &item, scan).await?;
                Ok(Some((value, item, row)))
            }
            (Place::Item { item, row }, access) if !matches!(access, Access::Stream(_)) => {
                Ok(Some((Bytes::new(), item, row)))
            }
            _ => Err(foreign()),
        }
    }
}

impl<S: Source> Run<'_, S> {
    /// The value of a place's entry. The rest of a long one is in its item; where that has changed,
    /// the beginning has to do.
    async fn whole_value(&self, value: Bytes, item: &Bytes, scan: &Scan) -> Result<Bytes> {
        if !is_shortened(&value) {
            return Ok(value);
        }
        let body = self.source.fetch(std::slice::from_ref(item)).await?.pop().flatten();
        let body = body.unwrap_or_default();
        let whole = Bytes::from(scan.value_in(&Value::from_raw(&body)));
        let same = shortened(whole.clone()) == value;
        Ok(if same { whole } else { value.slice(..KEY_BYTES) })
    }
}

/// Why the rows of an item ended.
enum Stop {
    /// There are no more.
    Item,
    /// The page ends; whether the item has nothing more.
    Page(bool),
}

/// Writes a row down. A whole document is passed on without a copy.
pub(super) fn put(sheet: &mut Sheet, value: &Value<'_>, document: &Document) -> Result<()> {
    match value {
        Value::Raw(raw) if raw.len() == document.body.len() => sheet.put_row(document.body.clone()),
        value => sheet.put(value),
    }
}
