//! What all simulations share: dice, seeds, lives over a store that crashes, and their end.

#![allow(dead_code)] // Each simulation uses its share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use astrarium_engine::{CreateOptions, Engine, Env, Kind, Link, Options, Scripts};
use kv::Crashing;
use model::throughput::Throughput;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

/// splitmix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Runs all seeds, or the one in `ASTRARIUM_SEED`, and says how to replay one that fails.
pub fn for_each_seed(test: &str, seeds: u64, mut live: impl AsyncFnMut(u64)) {
    let seeds: Vec<u64> = match std::env::var("ASTRARIUM_SEED") {
        Ok(seed) => vec![seed.parse().expect("ASTRARIUM_SEED is a number")],
        Err(_) => (0..seeds).collect(),
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(live(seed)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!(
                "replay with ASTRARIUM_SEED={seed} cargo test -p astrarium-engine --test {test}"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

/// A store and a clock that outlive the engines over them.
pub struct Disk {
    pub store: Crashing,
    pub clock: Arc<AtomicU64>,
    pub scripts: Option<Arc<dyn Scripts>>,
}

impl Disk {
    pub fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(1_700_000_000_000));
        Self { store: Crashing::manual(), clock, scripts: None }
    }

    pub async fn open(&self) -> Arc<Engine> {
        let scripts = self.scripts.clone();
        let options = Options { housekeeping: None, scripts, ..Options::default() };
        let opened = Engine::open(Arc::new(self.store.clone()), env(&self.clock), options);
        with_sync(&self.store, opened).await.expect("the account opens after a crash")
    }

    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    /// Lets a few batches become durable, in between of whoever has something to do.
    pub async fn sync_some(&self, dice: &mut Dice, turns: u64) {
        for _ in 0..dice.below(turns) {
            tokio::task::yield_now().await;
            self.store.sync(dice.below(8) as usize);
        }
    }

    /// Crashes somewhere in what is waiting to be written.
    pub fn crash(&self, dice: &mut Dice) {
        self.store.crash(dice.below(self.store.queued() as u64 + 1) as usize);
    }
}

/// Runs something that waits for durability, with nobody else around to bring it about.
pub async fn with_sync<T>(store: &Crashing, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::task::yield_now() => { store.sync(usize::MAX); }
        }
    }
}

/// After a crash everybody comes to an end, and nobody in panic.
pub async fn end(tasks: Vec<JoinHandle<()>>) {
    let mut patience = 10_000;
    for task in tasks {
        while !task.is_finished() {
            tokio::task::yield_now().await;
            patience -= 1;
            assert!(patience > 0, "somebody waits for ever");
        }
        if let Err(panic) = task.await {
            std::panic::resume_unwind(panic.into_panic());
        }
    }
}

pub fn env(clock: &Arc<AtomicU64>) -> Env {
    let clock = clock.clone();
    Env::new(move || clock.load(Ordering::Relaxed), || 4)
}

pub fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("an object is expected") };
    map
}

/// The container that simulations are about.
pub fn link() -> Link {
    Link(vec![(Kind::Database, "db".into()), (Kind::Container, "c".into())])
}

/// Creates it, with the throughput given.
pub async fn create(engine: &Engine, container: Value, throughput: Option<u32>) {
    let (account, none) = (Link::default(), CreateOptions::default());
    let database = object(json!({"id": "db"}));
    engine.create(&account, Kind::Database, database, none).await.unwrap();
    let throughput = throughput.map(Throughput::Manual);
    let database = Link(vec![(Kind::Database, "db".into())]);
    let options = CreateOptions { throughput, upsert: false };
    engine.create(&database, Kind::Container, object(container), options).await.unwrap();
}
