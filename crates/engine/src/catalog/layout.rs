//! Splits and merges: partitions take the place of others, while readers and writers go on.
//!
//! The new partitions are on record as garbage before they have a row, so a crash leaves them to
//! the cleanup. Rows are copied while writers go on ([`Transfer`]); then writers wait for the
//! moment in which the last few are copied, and one batch of the catalog exchanges the partitions:
//! what is a partition and what is garbage changes in the same instant, before and after a crash.
//!
//! LSNs, etags and rids go with the rows. A new partition counts on from the newest LSN of those it
//! came from, so positions in their feeds and LSNs of sessions hold in it.

use std::sync::Arc;

use model::epk::EpkRange;
use model::{Error, Fault, Result};

use crate::api::Link;
use crate::catalog::record::{self, Counters, PartitionRecord};
use crate::catalog::state::Entry;
use crate::catalog::{Engine, owner_missing};
use crate::container::range_gone;
use crate::gate::Hold;
use crate::partition::Partition;
use crate::transfer::Transfer;
use crate::{Container, Kind, cut};

/// Notes that are few enough to be worked off while writers wait.
const NOTES_FEW: usize = 500;
/// Rounds in which notes are worked off beside the writers. Each is shorter than the one before
/// unless they write faster than we copy; then they have to wait for the rest.
const ROUNDS: usize = 10;

/// What to do with a partition whose items do not tell where to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// Leave it.
    Refuse,
    /// Cut its span in the middle, whatever lies where.
    Middle,
}

impl Engine {
    /// Splits a partition key range in two, so that each has about half of the items.
    pub async fn split(self: &Arc<Self>, container: &Link, range: &str) -> Result<()> {
        let container = self.container_at(container)?;
        let (engine, range) = (self.clone(), range.to_owned());
        uninterrupted(async move {
            let _only = container.laying_out.lock().await;
            let parent = find(&container, &range)?;
            engine.split_partition(&container, parent, Otherwise::Refuse).await
        })
        .await
    }

    /// Makes one range of several that lie beside each other.
    pub async fn merge(self: &Arc<Self>, container: &Link, ranges: &[&str]) -> Result<()> {
        let container = self.container_at(container)?;
        let engine = self.clone();
        let ranges: Vec<String> = ranges.iter().map(|range| (*range).to_owned()).collect();
        uninterrupted(async move {
            let _only = container.laying_out.lock().await;
            let (parents, span) = adjacent(&container, &ranges)?;
            engine.exchange(&container, parents, vec![span]).await
        })
        .await
    }

    /// Splits a partition. The caller holds [`Container::laying_out`].
    pub(super) async fn split_partition(
        &self,
        container: &Arc<Container>,
        parent: Arc<Partition>,
        otherwise: Otherwise,
    ) -> Result<()> {
        let definition = &container.definition().partition_key;
        let median = cut::median(&parent, definition).await?;
        let middle = || {
            let free = otherwise == Otherwise::Middle || parent.head().items == 0;
            cut::middle(&parent.span, definition).filter(|_| free)
        };
        let cut = median.or_else(middle).ok_or_else(|| cut::refusal(&parent.range))?;
        let sides = cut::sides(&parent.span, cut);
        self.exchange(container, vec![parent], sides).await
    }

    fn container_at(&self, link: &Link) -> Result<Arc<Container>> {
        let missing = || owner_missing(Kind::Container, link.0.last().map_or("", |step| &step.1));
        self.find(link)?.container.clone().ok_or_else(missing)
    }

    /// Puts new partitions over the spans given in the place of others.
    async fn exchange(
        &self,
        container: &Arc<Container>,
        parents: Vec<Arc<Partition>>,
        spans: Vec<EpkRange>,
    ) -> Result<()> {
        let records = self.allot(container, &parents, spans).await?;
        let numbers: Vec<u32> = records.iter().map(|record| record.number).collect();
        let done = self.hand_over(container, &parents, records).await;
        if let Err(error) = &done {
            tracing::warn!(%error, container = container.link(), "a layout stays as it was");
            self.cleanup.add(numbers);
            container.check_alive()?;
        }
        done
    }

    /// Numbers and ids for new partitions, on record as garbage until they are more.
    async fn allot(
        &self,
        container: &Container,
        parents: &[Arc<Partition>],
        spans: Vec<EpkRange>,
    ) -> Result<Vec<PartitionRecord>> {
        let mut counters = self.changing.lock().await;
        container.check_alive()?;
        let ancestors = ancestors(parents);
        let mut records = Vec::with_capacity(spans.len());
        for (id, span) in (unused_id(container)..).zip(spans) {
            let (number, range) = (counters.partition, id.to_string());
            records.push(PartitionRecord { number, range, span, parents: ancestors.clone() });
            counters.partition += 1;
        }
        let mut batch = vec![record::put_counters(*counters)];
        batch.extend(records.iter().map(|record| record::put_garbage(record.number)));
        self.submit(batch).await?;
        Ok(records)
    }

    /// Copies the rows and exchanges the partitions.
    async fn hand_over(
        &self,
        container: &Arc<Container>,
        parents: &[Arc<Partition>],
        records: Vec<PartitionRecord>,
    ) -> Result<()> {
        let mut transfer = Transfer::open(&*self.stores, records.clone()).await?;
        let mut hold = Hold::new(parents);
        transfer.copy(parents).await?;
        for _ in 0..ROUNDS {
            if parents.iter().map(|parent| parent.touched()).sum::<usize>() <= NOTES_FEW {
                break;
            }
            transfer.catch_up(parents).await?;
        }
        // Taken before writers are made to wait, so that they wait for nobody else's change.
        let counters = self.changing.lock().await;
        container.check_alive()?;
        hold.close();
        transfer.catch_up(parents).await?;
        let children = transfer.finish(parents, &self.cache).await?;
        hold.seal();
        // Storage that has failed a batch takes no other, so after an error nothing can be written
        // to the old partitions either, whether or not the exchange has reached the disk.
        if let Err(error) = self.record_exchange(&counters, container, parents, records).await {
            hold.reopen();
            return Err(error);
        }
        container.lay_out(parents, children);
        hold.gone();
        for parent in parents {
            self.cleanup.remove_when_dropped(parent);
        }
        Ok(())
    }

    /// Makes the exchange durable, then shows it. The counters are borrowed to prove the lock.
    async fn record_exchange(
        &self,
        _counters: &Counters,
        container: &Container,
        parents: &[Arc<Partition>],
        children: Vec<PartitionRecord>,
    ) -> Result<()> {
        let entry = self.state().by_rid(container.rid()).cloned();
        let entry = entry.ok_or_else(|| owner_missing(Kind::Container, container.rid()))?;
        let gone = |number: u32| parents.iter().any(|parent| parent.number == number);
        let mut partitions = entry.partitions.clone();
        partitions.retain(|record| !gone(record.number));
        let mut batch: Vec<_> =
            children.iter().map(|child| record::remove_garbage(child.number)).collect();
        batch.extend(parents.iter().map(|parent| record::put_garbage(parent.number)));
        partitions.extend(children);
        partitions.sort_by(|a, b| a.span.min.cmp(&b.span.min));
        let entry = Entry { partitions, ..entry.duplicate() };
        batch.push(record::put(&entry.record()));
        self.submit(batch).await?;
        self.change_state(|state| state.put(Arc::new(entry)));
        Ok(())
    }
}

/// Runs to its end even when nobody waits for it any more: an exchange that is left in the middle
/// would leave its writers waiting.
pub(super) async fn uninterrupted<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let stopped = |_| Error::new(Fault::Unavailable, "the change of partitions was stopped");
    tokio::spawn(work).await.map_err(stopped)?
}

fn find(container: &Container, range: &str) -> Result<Arc<Partition>> {
    let partitions = container.partitions();
    let found = partitions.iter().find(|partition| *partition.range == *range);
    found.cloned().ok_or_else(|| range_gone(range))
}

/// The partitions of some ranges, lowest first, and the span that they cover together.
fn adjacent(container: &Container, ranges: &[String]) -> Result<(Vec<Arc<Partition>>, EpkRange)> {
    let mut parents: Vec<Arc<Partition>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        parents.push(find(container, range)?);
    }
    parents.sort_by(|a, b| a.span.min.cmp(&b.span.min));
    let meet = |pair: &[Arc<Partition>]| pair[0].span.max == pair[1].span.min;
    let [first, .., last] = &parents[..] else {
        return Err(Error::bad_request("a merge takes at least two ranges; name those to merge"));
    };
    if !parents.windows(2).all(meet) {
        return Err(Error::bad_request(
            "the ranges to merge must lie beside each other, and be named once; read the ranges for \
             their bounds",
        ));
    }
    let span = EpkRange::new(first.span.min.clone(), last.span.max.clone());
    Ok((parents, span))
}

/// The ids of partitions and of all they came from, oldest first.
fn ancestors(parents: &[Arc<Partition>]) -> Vec<String> {
    let older = parents.iter().flat_map(|parent| parent.parents.iter().cloned());
    let mut ids: Vec<String> =
        older.chain(parents.iter().map(|parent| parent.range.to_string())).collect();
    // Ids grow, so their order is that of their making.
    ids.sort_by_key(|id| id.parse::<u64>().unwrap_or(u64::MAX));
    ids.dedup();
    ids
}

/// An id above every one that the container ever had: each of them names a partition, or stands
/// among the ancestors of one.
fn unused_id(container: &Container) -> u64 {
    let partitions = container.partitions();
    let ids = partitions.iter().flat_map(|partition| {
        partition.parents.iter().map(String::as_str).chain([&*partition.range])
    });
    ids.filter_map(|id| id.parse::<u64>().ok()).max().map_or(0, |highest| highest + 1)
}
