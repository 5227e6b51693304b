//! Opening the storage: the one place of this crate that knows there is any.

use std::path::Path;
use std::sync::Arc;

use engine::{Engine, Env, Options, Scripts};
use kv::{Durability, LocalOptions};

/// Where the data is, and how careful to be with it.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// Gone when the process is.
    Memory,
    /// In files.
    Directory {
        /// The data directory.
        path: &'a Path,
        /// Whether a write is answered only after the disk has it.
        sync: bool,
    },
}

/// Opens an engine. Of the memory for what was read lately, half goes to whole items and to guesses
/// of where others are, and the rest to blocks of files.
pub async fn open(
    place: Place<'_>,
    enforce_throughput: bool,
    cache_bytes: usize,
    scripts: Option<Arc<dyn Scripts>>,
) -> model::Result<Arc<Engine>> {
    let items_bytes = cache_bytes / 2;
    let stores = match place {
        Place::Memory => kv::open_memory(),
        Place::Directory { path, sync } => {
            let durability = if sync { Durability::Synced } else { Durability::Os };
            let cache_bytes = (cache_bytes - items_bytes) as u64;
            let options = LocalOptions { durability, cache_bytes, ..LocalOptions::default() };
            kv::open_local(&path.join("store"), options).map_err(refused)?
        }
    };
    let cache_bytes = items_bytes;
    let options = Options { enforce_throughput, cache_bytes, scripts, ..Options::default() };
    Engine::open(stores, Env::system(), options).await
}

fn refused(error: kv::Error) -> model::Error {
    model::Error::new(model::Fault::Unavailable, error.to_string())
}
