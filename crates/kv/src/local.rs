//! The embedded adapter: a journal of our own on disk, and a fjall database derived from it.
//!
//! A batch becomes one record of the journal. The committer writes and syncs everything that
//! waits as one group ([`commit`]), then brings it into memory ([`apply`], [`recent`]) and
//! publishes the new state. Whole layers of rows go from memory into the tree behind the commits
//! ([`flush`]). Large values (Feed, Log) stay where the journal wrote them; rows point to them.
//! After a crash the tree comes back as it was at some earlier commit, and the journal's tail is
//! applied again ([`recover`]).
//!
//! A directory looks like this:
//!
//! ```text
//! FORMAT          the version of this layout
//! LOCK            held by the process that has the store open
//! 0000002a.seg    segments: journal, or values moved by compaction
//! index/          the fjall database
//! ```
//!
//! The directory stays locked until the store, its owners and its views are dropped.

mod apply;
mod chores;
mod commit;
mod count;
mod file;
mod filter;
mod flush;
mod format;
mod hands;
mod journal;
mod keys;
mod queue;
mod recent;
mod reclaim;
mod recover;
mod repair;
mod rows;
mod runs;
mod scan;
mod segment;
mod shelf;
mod spare;
mod stems;
mod tree;
mod trim;
mod view;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio::sync::watch;

use self::apply::{Applier, Published};
use self::chores::Chores;
use self::commit::{Finish, at_path, lock};
use self::count::Count;
use self::flush::Flusher;
use self::journal::{Ground, Journal};
use self::keys::Survey;
use self::queue::{Partition, Queue};
use self::reclaim::Reclaimer;
use self::segment::{OpenFiles, sync_dir};
use self::spare::Spares;
use self::tree::Tree;
use self::trim::Trim;
use self::view::LocalView;
use crate::{
    Claim, CommitNo, Epoch, Error, Keyspace, Limits, Op, Owner, PartitionId, Pending, Result,
    Stores, Then, Ticket, View,
};

pub use self::file::Faults;

/// The layout that this build reads and writes.
const FORMAT: &str = "astrarium store, format 4\n";

const LIMITS: Limits = Limits { key_bytes: 8 << 10, value_bytes: 5 << 20, batch_bytes: 64 << 20 };

/// When a batch counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once the disk has it: survives a loss of power.
    Synced,
    /// Once the operating system has it: survives a crash of the process only.
    Os,
}

/// How a local store is opened.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// When a batch counts as durable.
    pub durability: Durability,
    /// Memory for blocks of the tree.
    pub cache_bytes: u64,
    /// Bytes that may wait to be written before [`Error::Busy`].
    pub queue_bytes: usize,
    /// Size at which a new segment is begun.
    pub segment_bytes: u32,
    /// Bytes of rows that are gathered in memory before they go into the tree. Up to four times
    /// as much is held when the disk is slow.
    pub layer_bytes: usize,
    /// Faults for tests.
    #[doc(hidden)]
    pub faults: Option<Arc<Faults>>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Synced,
            cache_bytes: 128 << 20,
            queue_bytes: 64 << 20,
            segment_bytes: 64 << 20,
            layer_bytes: 40 << 20,
            faults: None,
        }
    }
}

/// Opens the store in a directory, which is made if need be.
pub fn open_local(dir: &Path, options: LocalOptions) -> Result<Arc<dyn Stores>> {
    Ok(Local::open(dir, options)?)
}

/// A store on disk.
pub struct Local {
    shared: Arc<Shared>,
    finish: Arc<Finish>,
    spares: Arc<Spares>,
    ground: Arc<Ground>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What owners and views need of the store.
struct Shared {
    queue: Arc<Queue>,
    tree: Arc<Tree>,
    published: Arc<ArcSwap<Published>>,
    applier: Arc<Mutex<Applier>>,
    chores: Arc<Chores>,
    partitions: Mutex<HashMap<PartitionId, Arc<Partition>>>,
    replayed: u64,
    /// Declared last: released after the tree has closed its files.
    _lock: File,
}

impl Shared {
    fn view(&self, partition: PartitionId) -> LocalView {
        LocalView { published: self.published.load_full(), partition }
    }

    fn partition(&self, id: PartitionId) -> Result<Arc<Partition>> {
        let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(partition) = partitions.get(&id) {
            return Ok(partition.clone());
        }
        let epoch = lock(&self.applier).epoch(id)?;
        let partition = Arc::new(Partition::new(id, epoch));
        partitions.insert(id, partition.clone());
        Ok(partition)
    }
}

impl Local {
    /// Opens the store in a directory, which is made if need be.
    pub fn open(dir: &Path, options: LocalOptions) -> Result<Arc<Self>> {
        at_path(dir, std::fs::create_dir_all(dir))?;
        let held = hold(dir)?;
        check_format(dir)?;
        let tree = Arc::new(Tree::open(&dir.join("index"), options.cache_bytes)?);
        let ground = Arc::new(Ground {
            dir: dir.to_path_buf(),
            segment_bytes: options.segment_bytes,
            durability: options.durability,
            faults: options.faults,
            opened: Arc::new(OpenFiles::default()),
            next_id: AtomicU32::new(recover::last_id(dir)? + 1),
        });
        let recovered = recover::recover(&ground, &tree, options.layer_bytes)?;
        let last = recovered.applier.applied().map_or(0, |applied| applied.commit);
        let queue = Arc::new(Queue::new(CommitNo(last), options.queue_bytes));
        let published = recovered.applier.published();
        let applier = Arc::new(Mutex::new(recovered.applier));
        let flusher = Arc::new(Flusher::new(tree.clone(), applier.clone()));
        let spares = Arc::new(Spares::default());
        let journal = Journal::new(ground.clone(), spares.clone(), recovered.current);
        let reclaimer = Reclaimer {
            ground: ground.clone(),
            tree: tree.clone(),
            applier: applier.clone(),
            published: published.clone(),
            flusher: flusher.clone(),
            damaged: HashSet::new(),
        };
        let survey = Survey::new(tree.clone(), published.clone());
        let count = Count::new(tree.clone(), applier.clone(), flusher.clone());
        let chores = Arc::new(Chores::new(reclaimer, survey, count));
        let looked = look_at_times(&chores);
        let finish = Finish::new(queue.clone(), applier.clone(), flusher, looked);
        let shared = Shared {
            queue,
            tree,
            published,
            applier,
            chores,
            partitions: Mutex::default(),
            replayed: recovered.replayed,
            _lock: held,
        };
        Self::start(shared, Arc::new(finish), journal, spares, ground)
    }

    /// Gives back space now instead of in the background. Returns the segments given back.
    pub fn reclaim(&self) -> Result<usize> {
        self.shared.chores.reclaim()
    }

    /// Goes through all keys now instead of in the background, so that it is known which are not there.
    pub fn survey(&self) {
        while self.shared.chores.survey() {}
    }

    fn start(
        shared: Shared,
        finish: Arc<Finish>,
        journal: Journal,
        spares: Arc<Spares>,
        ground: Arc<Ground>,
    ) -> Result<Arc<Self>> {
        let spawn = || {
            std::io::Result::Ok(vec![
                commit::spawn(journal, finish.clone())?,
                flush::spawn(finish.flusher.clone())?,
                spare::spawn(spares.clone(), ground.clone())?,
                chores::spawn(shared.chores.clone())?,
            ])
        };
        let threads = at_path(&ground.dir, spawn())?;
        let shared = Arc::new(shared);
        shared.chores.look();
        Ok(Arc::new(Self { shared, finish, spares, ground, threads: Mutex::new(threads) }))
    }

    /// Lets the committer finish what is queued, then ends all threads.
    fn stop(&self) {
        self.shared.queue.close();
        self.spares.close();
        self.shared.chores.close();
        self.finish.flusher.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a storage thread has panicked");
            }
        }
    }

    /// Leaves nothing to be replayed.
    fn settle(&self) -> Result<()> {
        self.finish.flusher.flush_all()?;
        self.shared.tree.sync()
    }

    async fn destroy_rows(&self, partition: PartitionId) -> Result<()> {
        let partition = self.shared.partition(partition)?;
        let (epoch, ticket) = self.shared.queue.claim(&partition, Claim::Take)?;
        ticket.durable().await?;
        for keyspace in Keyspace::ALL {
            loop {
                let to = Bound::Unbounded;
                let (ops, _) = trim::deletes(&self.shared, &partition, keyspace, to)?;
                if ops.is_empty() {
                    break;
                }
                self.shared.queue.submit(&partition, epoch, &ops, None)?.durable().await?;
            }
        }
        self.shared.chores.look();
        Ok(())
    }
}

impl Stores for Local {
    fn open_owner(&self, partition: PartitionId, claim: Claim) -> Pending<'_, Arc<dyn Owner>> {
        Pending::later(async move {
            let partition = self.shared.partition(partition)?;
            let (epoch, ticket) = self.shared.queue.claim(&partition, claim)?;
            ticket.durable().await?;
            let shared = self.shared.clone();
            Ok(Arc::new(LocalOwner { shared, partition, epoch }) as Arc<dyn Owner>)
        })
    }

    fn destroy(&self, partition: PartitionId) -> Pending<'_, ()> {
        Pending::later(self.destroy_rows(partition))
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn close(&self) -> Pending<'_, ()> {
        Pending::later(async move {
            self.stop();
            self.settle()
        })
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let applier = lock(&self.shared.applier);
        let accounts = applier.accounts().values();
        let (used, live) = accounts.fold((0, 0), |(used, live), account| {
            (used + u64::from(account.used), live + account.live)
        });
        let segments = applier.accounts().len() as u64;
        let uncounted = if applier.is_settled() { 0 } else { segments };
        let layer_bytes = applier.layer_bytes() as u64;
        drop(applier);
        vec![
            ("commits", self.finish.commits.load(Ordering::Relaxed)),
            ("groups", self.finish.groups.load(Ordering::Relaxed)),
            ("queue_bytes", self.shared.queue.bytes() as u64),
            ("segments", segments),
            ("segment_bytes", used),
            ("segment_live_bytes", live),
            ("segments_uncounted", uncounted),
            ("index_bytes", self.shared.tree.disk_bytes()),
            ("layer_bytes", layer_bytes),
            ("known_keys", self.shared.published.load().keys.told() as u64),
            ("replayed_records", self.shared.replayed),
        ]
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.stop();
        if let Err(error) = self.settle() {
            tracing::warn!(%error, dir = %self.ground.dir.display(), "the index was not flushed");
        }
    }
}

/// See [`Owner`].
struct LocalOwner {
    shared: Arc<Shared>,
    partition: Arc<Partition>,
    epoch: Epoch,
}

impl Owner for LocalOwner {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn submit_then(&self, batch: Vec<Op>, then: Option<Then<'_>>) -> Result<Ticket> {
        LIMITS.check(&batch)?;
        self.shared.queue.submit(&self.partition, self.epoch, &batch, then)
    }

    fn published(&self) -> Arc<dyn View> {
        Arc::new(self.shared.view(self.partition.id))
    }

    fn lacks(&self, keyspace: Keyspace, key: &[u8]) -> Option<CommitNo> {
        let published = self.shared.published.load();
        published.lacks(keyspace, self.partition.id, key).then_some(published.commit)
    }

    fn durable(&self) -> watch::Receiver<CommitNo> {
        self.partition.durable.subscribe()
    }

    fn trim(&self, keyspace: Keyspace, below: Bytes) -> Result<()> {
        if self.partition.epoch() != self.epoch {
            return Err(Error::Fenced);
        }
        self.shared.chores.trim(Trim {
            shared: self.shared.clone(),
            partition: self.partition.clone(),
            epoch: self.epoch,
            keyspace,
            below,
        });
        Ok(())
    }
}

/// Has segments looked at from time to time; each look costs next to nothing.
fn look_at_times(chores: &Arc<Chores>) -> Box<dyn Fn() + Send + Sync> {
    const GROUPS_BETWEEN: u64 = 512;
    let chores = chores.clone();
    let groups = AtomicU64::new(0);
    Box::new(move || {
        if groups.fetch_add(1, Ordering::Relaxed) % GROUPS_BETWEEN == GROUPS_BETWEEN - 1 {
            chores.look();
        }
    })
}

fn hold(dir: &Path) -> Result<File> {
    let path = dir.join("LOCK");
    let mut options = OpenOptions::new();
    let file = at_path(&path, options.create(true).truncate(false).write(true).open(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Refused(format!(
            "the directory {} is in use by another process; stop that process, or name another directory",
            dir.display()
        ))),
        Err(TryLockError::Error(error)) => Err(commit::io_failed(&path, &error)),
    }
}

fn check_format(dir: &Path) -> Result<()> {
    let path = dir.join("FORMAT");
    match std::fs::read_to_string(&path) {
        Ok(found) if found == FORMAT => Ok(()),
        Ok(found) => Err(Error::Refused(format!(
            "the directory {} holds \"{}\", but this build reads \"{}\"; use the build that wrote it, or another directory",
            dir.display(),
            found.trim_end(),
            FORMAT.trim_end()
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => write_format(dir, &path),
        Err(error) => Err(commit::io_failed(&path, &error)),
    }
}

fn write_format(dir: &Path, path: &Path) -> Result<()> {
    let new = path.with_extension("new");
    at_path(&new, std::fs::write(&new, FORMAT))?;
    at_path(&new, File::open(&new).and_then(|file| file.sync_all()))?;
    at_path(path, std::fs::rename(&new, path))?;
    at_path(dir, sync_dir(dir))
}
