//! Pages of rows: a statement, a source and a place to go on from in; rows and the next place out.
//!
//! Nothing is kept between pages. A place says where the last row stood, so pages put together are
//! the rows that one large page would have had, and no page holds more than it gives.

use std::sync::Arc;

use bytes::Bytes;
use model::Result;

use crate::bound::Block;
use crate::eval::{Context, Frame};
use crate::limits;
use crate::plan::{Access, BestWords, Nearest, Plan};
use crate::source::{Scan, Source};
use crate::statement::Statement;
use crate::world::{Budget, World};

mod ahead;
mod cursor;
mod derived;
mod group;
mod keys;
mod nearest;
mod place;
mod postings;
mod rank;
mod sort;
mod stream;
mod words;

use cursor::Cursor;
pub(crate) use place::{Place, Resume};

/// How much a page may have.
#[derive(Debug, Clone, Copy)]
pub struct Want {
    /// Rows, at least one.
    pub rows: usize,
    /// The page ends once its rows have this many bytes.
    pub bytes: usize,
}

/// A page of rows.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The rows, as JSON.
    pub rows: Vec<Bytes>,
    /// Where the next page goes on; none at the end.
    pub resume: Option<Bytes>,
    /// What it took.
    pub metrics: Metrics,
}

/// What a page took.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Documents read.
    pub documents: u64,
    /// Their bytes.
    pub document_bytes: u64,
    /// Entries read from indexes.
    pub entries: u64,
    /// Documents that an index found and the filter kept, to tell how well indexes served.
    pub kept: u64,
    /// Bytes of the rows given.
    pub output_bytes: u64,
    /// What was read, and in other words where that was not what was planned.
    plan: Option<Arc<Plan>>,
    instead: Option<String>,
}

impl Metrics {
    /// What was read, for people.
    pub fn plan(&self) -> String {
        let planned = || self.plan.as_ref().map(ToString::to_string).unwrap_or_default();
        self.instead.clone().unwrap_or_else(planned)
    }

    /// The indexes that were read.
    pub fn used(&self) -> Vec<Scan> {
        self.plan.as_ref().map(|plan| plan.used()).unwrap_or_default()
    }
}

impl Statement {
    /// The next page.
    ///
    /// The work is done between awaits of the source; dropping the future cancels it.
    pub async fn page<S: Source>(
        &self,
        source: &S,
        world: &dyn World,
        want: Want,
        resume: Option<&[u8]>,
    ) -> Result<Page> {
        let want = Want { rows: want.rows.clamp(1, limits::PAGE_ROWS), bytes: want.bytes };
        self.page_of(source, world, want, resume).await
    }

    /// A page of any size.
    async fn page_of<S: Source>(
        &self,
        source: &S,
        world: &dyn World,
        want: Want,
        resume: Option<&[u8]>,
    ) -> Result<Page> {
        if let Some(derived) = &self.derived {
            return derived.page(source, world, want, resume).await;
        }
        let resume = match resume {
            Some(bytes) => Some(Resume::decode(bytes)?),
            None => None,
        };
        let budget = Budget::default();
        let context = Context {
            world,
            started_ticks: world.now_ticks(),
            settings: &self.settings,
            budget: &budget,
            fields: &self.bound.fields,
        };
        let mut sheet = Sheet::new(self, want, resume.as_ref());
        if sheet.take == Some(0) {
            return Ok(sheet.finish(None));
        }
        let place = resume.map_or(Place::Start, |resume| resume.place);
        if !self.bound.reads {
            return self.without_source(&context, sheet, place);
        }
        let plan = Arc::new(Plan::of(self, source, &place).await?);
        let mut run = Run { statement: self, source, context: &context, plan };
        run.ask_vectors(&mut sheet.metrics).await?;
        run.ask_words(&mut sheet).await?;
        sheet.metrics.plan = Some(run.plan.clone());
        if run.bound().order.rank.is_some() {
            run.ranked(sheet, place).await
        } else if run.bound().block.grouping.is_some() {
            run.grouped(sheet, place).await
        } else if !run.bound().order.keys.is_empty() {
            run.ordered(sheet, place).await
        } else {
            run.streamed(sheet, place).await
        }
    }

    /// How the query would be answered from its beginning, for people: what is read, what is checked
    /// on it, and what is made of it.
    pub async fn explain<S: Source>(&self, source: &S) -> Result<String> {
        if let Some(derived) = &self.derived {
            let inner = Box::pin(derived.inner.explain(source)).await?;
            return Ok(format!("{inner}\nquery: {} over those rows", derived.outer.query.output));
        }
        if !self.bound.reads {
            return Ok("nothing is read".to_owned());
        }
        let plan = Plan::of(self, source, &Place::Start).await?;
        let mut lines = vec![format!("read: {plan}")];
        if let Some(nearest) = &plan.nearest {
            let Nearest { path, count, .. } = nearest;
            lines.push(format!("instead: the {count} nearest by a vector index on {path}, if any"));
        }
        if let Some(BestWords { path, count, .. }) = &plan.words {
            lines.push(format!("instead: the {count} best by a full-text index on {path}, if any"));
        }
        let answered = plan.count.is_some() || plan.extremes.is_some() || plan.groups.is_some();
        if let Some(filter) = self.query.filter.as_ref().filter(|_| !answered) {
            lines.push(format!("filter: {filter}"));
        }
        if self.query.order_by.is_some() && plan.order.is_none() {
            lines.push("sort: the best rows of each pass".to_owned());
        }
        if self.bound.block.grouping.is_some() {
            lines.push("group: in memory, in the order of keys".to_owned());
        }
        if self.bound.block.distinct {
            lines.push("distinct: in memory".to_owned());
        }
        Ok(lines.join("\n"))
    }

    /// What a query without `FROM` gives: it runs once, over nothing.
    fn without_source<'a>(
        &'a self,
        context: &'a Context<'a>,
        mut sheet: Sheet,
        place: Place,
    ) -> Result<Page> {
        if place != Place::Start {
            return Err(place::foreign());
        }
        let mut frame = Frame::empty(context, self.bound.slots);
        for value in self.bound.block.all(&mut frame)? {
            sheet.put(&value)?;
        }
        Ok(sheet.finish(None))
    }
}

/// One execution of a page.
pub(crate) struct Run<'r, S> {
    pub statement: &'r Statement,
    pub source: &'r S,
    pub context: &'r Context<'r>,
    pub plan: Arc<Plan>,
}

impl<'r, S: Source> Run<'r, S> {
    fn bound(&self) -> &'r crate::bind::Bound {
        &self.statement.bound
    }

    fn block(&self) -> &'r Block {
        &self.statement.bound.block
    }

    /// Documents in the order of the plan, or where an order is made here, in any.
    fn cursor(&self, access: &Access) -> Cursor<'r, S> {
        let tests = self.plan.tests.clone().filter(|_| *access == self.plan.access);
        Cursor::new(self.source, access.clone(), tests)
    }

    /// A cursor for who reads all documents and does not care in which order.
    fn heap(&self, access: &Access) -> Cursor<'r, S> {
        self.cursor(access).in_any_order()
    }

    /// Whether everything that is read passes the filter.
    fn is_filtered(&self, access: &Access) -> bool {
        match access {
            Access::Stream(scan) => self.plan.is_filtered(scan, self.statement),
            _ => self.block().filter.is_none(),
        }
    }

    /// Whether each document that is read becomes a row.
    fn is_row_each(&self, access: &Access) -> bool {
        self.is_filtered(access) && self.block().from.is_empty() && !self.block().distinct
    }

    /// The next of some items with their bodies, those that are gone left out. Of large ones fewer come
    /// than were asked for; the others stay in the rest.
    async fn fetch_next<'i>(
        &self,
        rest: &mut &'i [Bytes],
        most: usize,
    ) -> Result<Vec<(&'i Bytes, Bytes)>> {
        let bodies = self.source.fetch(&rest[..most.min(rest.len())]).await?;
        let (fetched, others) = rest.split_at(bodies.len());
        *rest = others;
        let found = fetched.iter().zip(bodies);
        Ok(found.filter_map(|(item, body)| Some((item, body?))).collect())
    }

    /// Lets others go on where it is time; true where the page should end.
    async fn breathe(&self) -> Result<bool> {
        if !self.context.budget.is_due() {
            return Ok(false);
        }
        Ok(self.source.breathe().await? == crate::source::Breath::EndPage)
    }
}

/// A page being filled.
pub(crate) struct Sheet {
    want: Want,
    rows: Vec<Bytes>,
    bytes: usize,
    /// Rows still to be passed over for `OFFSET`.
    skip: u64,
    /// Rows still to be given for `TOP` and `LIMIT`.
    take: Option<u64>,
    pub metrics: Metrics,
}

impl Sheet {
    fn new(statement: &Statement, want: Want, resume: Option<&Resume>) -> Self {
        let bound = &statement.bound;
        let (skip, take) = match resume {
            Some(resume) => (resume.skip, resume.take),
            None => {
                let limit = bound.offset_limit.map(|(_, limit)| limit);
                let take = match (bound.top, limit) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                (bound.offset_limit.map_or(0, |(offset, _)| offset), take)
            }
        };
        Self { want, rows: Vec::new(), bytes: 0, skip, take, metrics: Metrics::default() }
    }

    /// Takes a row: passes it over, or writes it down. A value that JSON cannot say is no row.
    fn put(&mut self, value: &crate::value::Value<'_>) -> Result<()> {
        let mut out = Vec::new();
        if value.write_into(&mut out) { self.put_row(out.into()) } else { Ok(()) }
    }

    fn put_row(&mut self, row: Bytes) -> Result<()> {
        if row.len() > limits::ROW_BYTES {
            return Err(crate::error::too_much("bytes of one row", limits::ROW_BYTES));
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(());
        }
        self.take = self.take.map(|take| take.saturating_sub(1));
        self.bytes += row.len();
        self.rows.push(row);
        Ok(())
    }

    /// Whether it has what it may have.
    fn is_full(&self) -> bool {
        self.rows.len() >= self.want.rows || self.bytes >= self.want.bytes || self.is_satisfied()
    }

    /// Whether the query wants no more at all.
    fn is_satisfied(&self) -> bool {
        self.take == Some(0)
    }

    /// How many more rows it can use, those passed over included.
    fn room(&self) -> usize {
        let rows = self.want.rows - self.rows.len().min(self.want.rows);
        let rows = self.take.map_or(rows, |take| rows.min(usize::try_from(take).unwrap_or(rows)));
        rows.saturating_add(usize::try_from(self.skip).unwrap_or(usize::MAX))
    }

    /// Rows to look for: one more than there is room for tells whether the page is the last one.
    fn expects(&self) -> usize {
        let room = self.room();
        let asked = self.take.is_some_and(|take| take <= self.want.rows as u64);
        if asked { room } else { room.saturating_add(1) }
    }

    /// The page, with the place where the next one begins unless nothing more is wanted.
    fn finish(mut self, next: Option<Place>) -> Page {
        self.metrics.output_bytes = self.bytes as u64;
        let next = next.filter(|_| !self.is_satisfied());
        let resume = next.map(|place| Resume { place, skip: self.skip, take: self.take }.encode());
        Page { rows: self.rows, resume, metrics: self.metrics }
    }
}
