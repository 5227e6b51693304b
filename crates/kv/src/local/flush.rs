//! Brings sealed layers into the tree, behind the commits.
//!
//! A layer goes in by itself: nobody waits for it, unless the committer has sealed more layers
//! than memory should hold. Then the committer lends a hand, and that is how a slow disk is felt.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::apply::{Applier, Sealed};
use super::commit::lock;
use super::tree::{Tree, failed};
use crate::{Keyspace, Result};

/// Layers that may wait to be flushed.
const WAITING_MAX: usize = 2;
/// How often it is looked whether compaction has made new tables.
const COMPACTION_LOOK: Duration = Duration::from_millis(500);

/// See the top of this file.
pub(crate) struct Flusher {
    tree: Arc<Tree>,
    applier: Arc<Mutex<Applier>>,
    /// Held by whoever flushes: layers go in one after the other.
    flushing: Mutex<()>,
    call: Mutex<Call>,
    called: Condvar,
}

#[derive(Default)]
struct Call {
    wanted: bool,
    closed: bool,
}

impl Flusher {
    pub(crate) fn new(tree: Arc<Tree>, applier: Arc<Mutex<Applier>>) -> Self {
        Self {
            tree,
            applier,
            flushing: Mutex::default(),
            call: Mutex::default(),
            called: Condvar::new(),
        }
    }

    /// Seals the newest layer if it is full. Called with each group, by the committer.
    pub(crate) fn look(&self) -> Result<()> {
        let mut applier = lock(&self.applier);
        if !applier.is_full() {
            return Ok(());
        }
        applier.seal();
        let waiting = applier.sealed_layers();
        drop(applier);
        self.call.lock().unwrap_or_else(PoisonError::into_inner).wanted = true;
        self.called.notify_one();
        if waiting > WAITING_MAX {
            self.flush_next()?;
        }
        Ok(())
    }

    /// Brings everything that has been applied into the tree.
    pub(crate) fn flush_all(&self) -> Result<()> {
        lock(&self.applier).seal();
        while self.flush_next()? {}
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.call.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.called.notify_all();
    }

    fn flush_next(&self) -> Result<bool> {
        let _flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sealed) = lock(&self.applier).next_sealed() else { return Ok(false) };
        write(&self.tree, &sealed)?;
        lock(&self.applier).flushed();
        Ok(true)
    }

    fn run(&self) {
        while let Some(wanted) = self.wait() {
            if !wanted {
                self.follow_compaction();
                continue;
            }
            loop {
                match self.flush_next() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        // The layer stays; the committer meets the same error when it must flush.
                        tracing::error!(%error, "rows could not be flushed");
                        break;
                    }
                }
            }
        }
    }

    fn follow_compaction(&self) {
        let _flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        lock(&self.applier).follow_compaction();
    }

    /// Whether a layer is to be flushed, or it is time to look for new tables; none at the end.
    fn wait(&self) -> Option<bool> {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |call: &mut Call| !call.wanted && !call.closed;
        let waited = self.called.wait_timeout_while(call, COMPACTION_LOOK, idle);
        let (mut call, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!call.closed).then(|| std::mem::take(&mut call.wanted))
    }
}

/// Starts the thread.
pub(crate) fn spawn(flusher: Arc<Flusher>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("kv-flush".into()).spawn(move || flusher.run())
}

/// Writes a layer, and all that belongs to it, to the tree.
pub(crate) fn write(tree: &Tree, sealed: &Sealed) -> Result<()> {
    for keyspace in [Keyspace::Docs, Keyspace::Index, Keyspace::Meta, Keyspace::Terms] {
        tree.take_in(keyspace, &sealed.layer)?;
    }
    let pointed = [Keyspace::Feed, Keyspace::Log];
    let pointed = pointed.into_iter().filter(|keyspace| !sealed.layer.is_empty_space(*keyspace));
    let pointed: Vec<_> = pointed.collect();
    if !pointed.is_empty() || !sealed.settled {
        tree.begin_pointers()?;
    }
    for keyspace in pointed {
        tree.take_in(keyspace, &sealed.layer)?;
    }
    let mut batch = tree.batch(sealed.accounts.len() + sealed.epochs.len() + 2);
    if sealed.settled {
        tree.end_pointers(&mut batch);
    }
    for (partition, epoch) in &sealed.epochs {
        tree.put_epoch(&mut batch, *partition, *epoch);
    }
    for (id, account) in &sealed.accounts {
        match account {
            Some(account) => tree.put_account(&mut batch, *id, *account),
            None => tree.remove_account(&mut batch, *id),
        }
    }
    if let Some(applied) = sealed.applied {
        tree.put_applied(&mut batch, applied);
    }
    batch.commit().map_err(|error| failed(&error))?;
    tree.hand_over()
}
