//! The nearest items by a vector index: more and more of them, until enough pass the filter.

use std::sync::Arc;

use bytes::Bytes;
use model::Result;

use super::{Metrics, Run};
use crate::eval::Frame;
use crate::limits;
use crate::plan::{Access, NEIGHBOURS};
use crate::source::Source;

/// How many times more are asked for where the filter left too few.
const MORE: usize = 4;

impl<S: Source> Run<'_, S> {
    /// Reads what a vector index finds instead of what was planned, where it finds enough.
    /// Otherwise items without a vector have their place too, or the filter passes so few that all
    /// it passes are looked at.
    pub(super) async fn ask_vectors(&mut self, metrics: &mut Metrics) -> Result<()> {
        let Some(nearest) = self.plan.nearest.clone() else { return Ok(()) };
        let (mut ask, mut looked_at) = (nearest.count.max(1), 0);
        let mut passed = Vec::new();
        loop {
            let found = self.source.nearest(&nearest.path, &nearest.vector, ask).await?;
            let Some(found) = found else { return Ok(()) };
            // More neighbours begin with those that were found before.
            let fresh = found.get(looked_at..).unwrap_or_default();
            metrics.entries += fresh.len() as u64;
            self.passing(fresh, &mut passed, metrics).await?;
            looked_at = found.len();
            if passed.len() >= nearest.count {
                passed.sort_unstable();
                passed.dedup();
                Arc::make_mut(&mut self.plan).access = Access::Items(passed.into());
                return Ok(());
            }
            if looked_at < ask || ask >= NEIGHBOURS {
                return Ok(());
            }
            ask = ask.saturating_mul(MORE).min(NEIGHBOURS);
        }
    }

    /// Adds those of some items that pass the filter.
    pub(super) async fn passing(
        &self,
        items: &[Bytes],
        passed: &mut Vec<Bytes>,
        metrics: &mut Metrics,
    ) -> Result<()> {
        let block = self.block();
        if block.filter.is_none() {
            passed.extend_from_slice(items);
            return Ok(());
        }
        let mut rest = items;
        while !rest.is_empty() {
            for (item, body) in self.fetch_next(&mut rest, limits::CHUNK_DOCUMENTS).await? {
                metrics.documents += 1;
                metrics.document_bytes += body.len() as u64;
                self.context.budget.begin_row();
                let mut frame = Frame::new(self.context, self.bound().slots, &body);
                if block.passes(&mut frame)? {
                    passed.push(item.clone());
                }
                self.breathe().await?;
            }
        }
        Ok(())
    }
}
