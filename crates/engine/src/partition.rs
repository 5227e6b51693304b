//! One partition: a span of the key space, its owner in storage, and its single writer.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use kv::{Claim, CommitNo, Follow, Keyspace, Owner, PartitionId, Stores, View};
use model::Result;
use model::epk::EpkRange;
use model::token::Session;
use model::{Error, Fault};

use crate::api::{At, storage};
use crate::cache::Cache;
use crate::commit::{Outlook, Writer};
use crate::doomed::Doomed;
use crate::gate::{Remover, State};
use crate::history::History;
use crate::housekeep::Chores;
use crate::index::Indexing;
use crate::keys::{self, Head, Seam};
use crate::listen::Listeners;
use crate::pieces::Piece;
use crate::signal::Signal;

/// A partition that is open.
pub(crate) struct Partition {
    /// Its name in storage; part of the etags and rids made here, so never used twice.
    pub number: u32,
    /// Its name for clients, unique within the container.
    pub range: Arc<str>,
    /// The keys it owns.
    pub span: EpkRange,
    /// The ranges it came from.
    pub parents: Vec<String>,
    pub(crate) owner: Arc<dyn Owner>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) outlook: Arc<ArcSwap<Outlook>>,
    pub(crate) cache: Arc<Cache>,
    /// Decisions that wait for bodies they have to read.
    pub(crate) wants_bodies: AtomicUsize,
    /// Deletes of whole partition keys that were ever submitted, and those that were carried out.
    pub(crate) dooms: AtomicU64,
    pub(crate) absolved: AtomicU64,
    /// How far background work has come; held while it works.
    pub(crate) chores: tokio::sync::Mutex<Chores>,
    /// Up to where the feed is that of merged partitions.
    pub(crate) seam: Option<Seam>,
    /// From where on history is kept for the keys of merged partitions, where that differs.
    pub(crate) pieces: Vec<Piece>,
    /// The state of indexes that was last read from a view, as it is stored.
    indexing: ArcSwapOption<(Bytes, Arc<Indexing>)>,
    /// What the view says of itself that was looked at last.
    looked: ArcSwapOption<Looked>,
    /// What the gate is, for those who wait at it.
    pub(crate) gate: Signal<State>,
    /// Who waits for changes.
    pub(crate) listeners: Arc<Listeners>,
    /// The same, for storage.
    pub(crate) follower: Arc<dyn Follow>,
    /// Set when a transaction has ended.
    pub(crate) released: Signal<()>,
    /// Present once others own the keys: whoever lets go of the partition last has its rows removed.
    pub(crate) remover: OnceLock<Remover>,
}

/// The head of a partition and the state of its indexes, in the view of a commit.
pub(crate) struct Looked {
    commit: CommitNo,
    pub head: Head,
    pub indexing: Arc<Indexing>,
}

impl Partition {
    /// Opens a partition and takes it from any former owner.
    pub async fn open(
        stores: &dyn Stores,
        cache: Arc<Cache>,
        number: u32,
        range: Arc<str>,
        span: EpkRange,
        parents: Vec<String>,
    ) -> Result<Arc<Self>> {
        let owner = stores
            .open_owner(PartitionId(u64::from(number)), Claim::Take)
            .await
            .map_err(storage)?;
        Self::over(owner, cache, number, range, span, parents).await
    }

    /// The partition that an owner holds.
    pub async fn over(
        owner: Arc<dyn Owner>,
        cache: Arc<Cache>,
        number: u32,
        range: Arc<str>,
        span: EpkRange,
        parents: Vec<String>,
    ) -> Result<Arc<Self>> {
        let view = owner.published();
        let head = head_of(&*view).await?;
        let seam = view.get(Keyspace::Meta, &keys::SEAM).await.map_err(storage)?;
        let seam = seam.map(|stored| Seam::decode(&stored)).transpose()?;
        let pieces = view.get(Keyspace::Meta, &keys::PIECES).await.map_err(storage)?;
        let pieces = pieces.map(|stored| Piece::decode(&stored)).transpose()?.unwrap_or_default();
        let history = match view.get(Keyspace::Meta, &keys::HISTORY).await.map_err(storage)? {
            Some(stored) => History::decode(&stored)?,
            // Nothing is kept until a container says so; what was before is below the floor.
            None => History::default(),
        };
        let indexing = match view.get(Keyspace::Meta, &keys::INDEXING).await.map_err(storage)? {
            Some(stored) => Indexing::decode(&stored)?,
            None => Indexing::unknown(),
        };
        let doomed = Doomed::read(&*view).await?;
        let dooms = AtomicU64::new(doomed.len() as u64);
        let listeners = Arc::new(Listeners::since(head.lsn));
        let (writer, outlook) = Writer::new(head, history, doomed, indexing, view.commit());
        Ok(Arc::new(Self {
            number,
            range,
            span,
            parents,
            owner,
            writer,
            outlook,
            cache,
            wants_bodies: AtomicUsize::new(0),
            dooms,
            absolved: AtomicU64::new(0),
            chores: tokio::sync::Mutex::default(),
            seam,
            pieces,
            indexing: ArcSwapOption::empty(),
            looked: ArcSwapOption::empty(),
            gate: Signal::new(State::Open),
            follower: listeners.clone(),
            listeners,
            released: Signal::new(()),
            remover: OnceLock::new(),
        }))
    }

    /// The newest acknowledged LSN, and a view that has it.
    pub fn view(&self) -> (u64, Arc<dyn View>) {
        // In this order: an LSN read after the view could be newer than the view.
        let lsn = self.lsn();
        (lsn, self.owner.published())
    }

    /// The same, with the partition keys whose items are gone in that view.
    pub async fn look(&self) -> Result<(u64, Arc<dyn View>, Doomed)> {
        let peace = self.peace();
        let (lsn, view) = self.view();
        let doomed = self.doomed_in(&*view, peace).await?;
        Ok((lsn, view, doomed))
    }

    /// The newest acknowledged LSN.
    pub fn lsn(&self) -> u64 {
        self.listeners.lsn()
    }

    /// What the partition holds, writes under way included.
    pub fn head(&self) -> Head {
        self.writer().head()
    }

    /// What a view says of itself.
    pub(crate) async fn state_of(&self, view: &dyn View) -> Result<Arc<Looked>> {
        let commit = view.commit();
        let known = self.looked.load_full();
        if let Some(looked) = known.filter(|looked| looked.commit == commit) {
            return Ok(looked);
        }
        let head = head_of(view).await?;
        let indexing = self.indexing_of(view).await?;
        let looked = Arc::new(Looked { commit, head, indexing });
        self.looked.store(Some(looked.clone()));
        Ok(looked)
    }

    /// From which policies the index rows of a view are.
    pub(crate) async fn indexing_of(&self, view: &dyn View) -> Result<Arc<Indexing>> {
        let stored = view.get(Keyspace::Meta, &keys::INDEXING).await.map_err(storage)?;
        let Some(stored) = stored else { return Ok(Arc::new(Indexing::unknown())) };
        let known = self.indexing.load_full();
        if let Some((_, indexing)) = known.as_deref().filter(|(known, _)| *known == stored) {
            return Ok(indexing.clone());
        }
        let indexing = Arc::new(Indexing::decode(&stored)?);
        self.indexing.store(Some(Arc::new((stored, indexing.clone()))));
        Ok(indexing)
    }

    /// What is kept for readers of changes.
    pub fn history(&self) -> History {
        self.writer().history()
    }

    /// Where an answer was served.
    pub fn at(&self, lsn: u64, item_lsn: Option<u64>) -> At {
        At { range: self.range.clone(), lsn, item_lsn }
    }

    /// Refuses a read that could see less than the session has seen.
    pub fn check_session(&self, session: Option<&Session>) -> Result<()> {
        let wanted = session.and_then(|session| session.lsn_of(&self.range));
        match wanted {
            Some(wanted) if wanted > self.lsn() => Err(Error::new(
                Fault::SessionNotAvailable,
                format!(
                    "the session token asks for LSN {wanted} of range {}, which is at {}; \
                     the token is from another server or from data that was reset",
                    self.range,
                    self.lsn()
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// What a view holds.
pub(crate) async fn head_of(view: &dyn View) -> Result<Head> {
    let stored = view.get(Keyspace::Meta, &keys::HEAD).await.map_err(storage)?;
    Ok(stored.map(|stored| Head::decode(&stored)).transpose()?.unwrap_or_default())
}
