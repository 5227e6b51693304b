//! Queries over the rows of another query: `FROM (SELECT DISTINCT … FROM c)`, with groups and
//! aggregates of all items.
//!
//! The inner query is answered as a whole, up to a limit of memory; its rows are the items of the
//! outer one. They are known by what they are, so that pages go on where they were although
//! nothing is kept between them.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use model::Result;

use super::place::{Place, shortened};
use super::stream::Seen;
use super::{Metrics, Page, Run, Sheet, Want};
use crate::error::too_much;
use crate::eval::rows::Rows;
use crate::eval::{Context, Frame};
use crate::limits;
use crate::plan::Plan;
use crate::source::{Breath, Chunk, Composite, Document, Entry, IndexPath, Scan, Source};
use crate::statement::{Derived, Statement};
use crate::value::{Value, identity_into};
use crate::world::World;

/// About what a row takes beside its bytes.
const ROW_BYTES: usize = 100;

impl Derived {
    /// The next page of the outer query. Queries below each other are futures in boxes: a type for
    /// each depth would never end.
    pub(super) fn page<'f, S: Source>(
        &'f self,
        source: &'f S,
        world: &'f dyn World,
        want: Want,
        resume: Option<&'f [u8]>,
    ) -> Pin<Box<dyn Future<Output = Result<Page>> + Send + 'f>> {
        Box::pin(async move {
            let whole = Want { rows: usize::MAX, bytes: limits::MEMORY_BYTES };
            let inner = self.inner.whole(source, world, whole).await?;
            if inner.resume.is_some() {
                return Err(too_much("bytes of the rows of a subquery", limits::MEMORY_BYTES));
            }
            let breathing = Breathing(source);
            let rows = InnerRows::new(inner.rows, &breathing)?;
            let mut page = self.outer.page_of(&rows, world, want, resume).await?;
            // What was read is what the inner query read.
            let (kept, output_bytes) = (page.metrics.kept, page.metrics.output_bytes);
            page.metrics = Metrics { kept, output_bytes, ..inner.metrics };
            Ok(page)
        })
    }
}

impl Statement {
    /// All rows of a query of different rows, groups or aggregates.
    async fn whole<S: Source>(&self, source: &S, world: &dyn World, want: Want) -> Result<Page> {
        if self.derived.is_some() || self.bound.block.grouping.is_some() {
            return self.page_of(source, world, want, None).await;
        }
        let budget = crate::world::Budget::default();
        let context = Context {
            world,
            started_ticks: world.now_ticks(),
            settings: &self.settings,
            budget: &budget,
            fields: &self.bound.fields,
        };
        let plan = Arc::new(Plan::of(self, source, &Place::Start).await?);
        let mut sheet = Sheet::new(self, want, None);
        sheet.metrics.plan = Some(plan.clone());
        let run = Run { statement: self, source, context: &context, plan };
        run.different_rows(sheet).await
    }
}

impl<S: Source> Run<'_, S> {
    /// All different rows, in the order of items.
    async fn different_rows(&self, mut sheet: Sheet) -> Result<Page> {
        let block = self.block();
        let mut seen = Seen::default();
        let mut cursor = self.cursor(&self.plan.access);
        while !cursor.has_ended() {
            let chunk = cursor.next(&mut sheet.metrics).await?;
            let mut ahead = self.ahead(&chunk);
            for (at, found) in chunk.iter().enumerate() {
                ahead.item(at);
                self.context.budget.begin_row();
                let mut frame = Frame::new(self.context, self.bound().slots, &found.document.body);
                let mut rows = Rows::new(block);
                while rows.next(&mut frame)? {
                    ahead.row();
                    if block.passes(&mut frame)? {
                        sheet.metrics.kept += 1;
                        let value = block.output(&mut frame)?;
                        if value.is_defined() && seen.is_new(&value)? {
                            sheet.put(&value)?;
                        }
                    }
                }
                self.breathe().await?;
            }
            if sheet.is_full() {
                return Err(too_much("bytes of the rows of a subquery", limits::MEMORY_BYTES));
            }
        }
        Ok(sheet.finish(None))
    }
}

/// What lets others go on, whatever the source is.
trait Breathe: Sync {
    fn breathe(&self) -> Pin<Box<dyn Future<Output = Result<Breath>> + Send + '_>>;
}

struct Breathing<'s, S>(&'s S);

impl<S: Source> Breathe for Breathing<'_, S> {
    fn breathe(&self) -> Pin<Box<dyn Future<Output = Result<Breath>> + Send + '_>> {
        Box::pin(self.0.breathe())
    }
}

/// The rows of the inner query, by what they are.
struct InnerRows<'s> {
    rows: BTreeMap<Bytes, Bytes>,
    source: &'s dyn Breathe,
}

impl<'s> InnerRows<'s> {
    fn new(all: Vec<Bytes>, source: &'s dyn Breathe) -> Result<Self> {
        let mut rows = BTreeMap::new();
        let mut bytes = 0;
        for row in all {
            let mut identity = Vec::new();
            identity_into(&Value::from_raw(&row), &mut identity);
            let identity = shortened(identity.into());
            // Groups may look the same without their keys: they are told apart by a number.
            let same = |key: &Bytes| key.len() == identity.len() + 4 && key.starts_with(&identity);
            let last = rows.range(..=following(&identity, u32::MAX)).next_back();
            let number = last.map(|(key, _)| key).filter(|key| same(key)).map_or(0, number_of);
            bytes += row.len() + identity.len() + ROW_BYTES;
            if bytes > limits::MEMORY_BYTES {
                return Err(too_much("bytes of the rows of a subquery", limits::MEMORY_BYTES));
            }
            rows.insert(following(&identity, number), row);
        }
        Ok(Self { rows, source })
    }
}

fn following(identity: &[u8], number: u32) -> Bytes {
    [identity, &number.to_be_bytes()].concat().into()
}

/// The number behind that of a row.
fn number_of(key: &Bytes) -> u32 {
    key.last_chunk().map_or(0, |number| u32::from_be_bytes(*number).saturating_add(1))
}

impl Source for InnerRows<'_> {
    fn covers(&self, _path: &IndexPath) -> bool {
        false
    }

    fn composites(&self) -> &[Composite] {
        &[]
    }

    fn covers_spatial(&self, _path: &IndexPath) -> bool {
        false
    }

    fn covers_text(&self, _path: &IndexPath) -> bool {
        false
    }

    fn sorts(&self) -> bool {
        true
    }

    fn documents_estimate(&self) -> u64 {
        self.rows.len() as u64
    }

    async fn estimate(&self, _scan: &Scan) -> Result<u64> {
        Ok(0)
    }

    async fn count(&self, _scan: &Scan) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn scan(
        &self,
        _scan: &Scan,
        _after: Option<&Entry>,
        _limit: usize,
    ) -> Result<Chunk<Entry>> {
        Ok(Chunk { rows: Vec::new(), more: false })
    }

    async fn fetch(&self, keys: &[Bytes]) -> Result<Vec<Option<Bytes>>> {
        Ok(keys.iter().map(|key| self.rows.get(key).cloned()).collect())
    }

    async fn documents(&self, after: Option<&[u8]>, limit: usize) -> Result<Chunk<Document>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.rows.range::<[u8], _>((from, Bound::Unbounded));
        let document =
            |(key, body): (&Bytes, &Bytes)| Document { key: key.clone(), body: body.clone() };
        let rows = rest.by_ref().take(limit).map(document).collect();
        Ok(Chunk { rows, more: rest.next().is_some() })
    }

    async fn nearest(&self, _: &IndexPath, _: &[f64], _: usize) -> Result<Option<Vec<Bytes>>> {
        Ok(None)
    }

    async fn breathe(&self) -> Result<Breath> {
        self.source.breathe().await
    }
}
