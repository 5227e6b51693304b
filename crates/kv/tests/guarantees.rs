//! Every adapter keeps the guarantees.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use astrarium_kv::suite::{self, Subject};
use astrarium_kv::{Crashing, Durability, Local, LocalOptions, Stores, open_memory};
use tempfile::TempDir;

struct Memory(Arc<dyn Stores>);

impl Subject for Memory {
    fn stores(&self) -> Arc<dyn Stores> {
        self.0.clone()
    }

    fn crash(&mut self) -> bool {
        false
    }
}

struct Simulated(Crashing);

impl Subject for Simulated {
    fn stores(&self) -> Arc<dyn Stores> {
        Arc::new(self.0.clone())
    }

    fn crash(&mut self) -> bool {
        self.0.crash(0);
        self.0.reopen();
        true
    }
}

/// Comes back without having been closed. Loss of what is in flight has tests of its own.
struct OnDisk {
    options: LocalOptions,
    dir: TempDir,
    store: Option<Arc<Local>>,
}

impl OnDisk {
    fn new(options: LocalOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Local::open(dir.path(), options.clone()).unwrap();
        Self { options, dir, store: Some(store) }
    }
}

impl Subject for OnDisk {
    fn stores(&self) -> Arc<dyn Stores> {
        self.store.clone().unwrap()
    }

    fn crash(&mut self) -> bool {
        self.store = None;
        self.store = Some(Local::open(self.dir.path(), self.options.clone()).unwrap());
        true
    }
}

#[tokio::test]
async fn memory() {
    suite::all(|| Box::new(Memory(open_memory()))).await;
}

#[tokio::test]
async fn simulated() {
    suite::all(|| Box::new(Simulated(Crashing::auto()))).await;
}

#[tokio::test]
async fn local() {
    suite::all(|| Box::new(OnDisk::new(LocalOptions::default()))).await;
}

#[tokio::test]
async fn local_with_tiny_segments() {
    let options =
        LocalOptions { segment_bytes: 4096, durability: Durability::Os, ..LocalOptions::default() };
    suite::all(|| Box::new(OnDisk::new(options.clone()))).await;
}

#[tokio::test]
async fn local_with_tiny_layers() {
    let durability = Durability::Os;
    let options = LocalOptions { layer_bytes: 300, durability, ..LocalOptions::default() };
    suite::all(|| Box::new(OnDisk::new(options.clone()))).await;
}
