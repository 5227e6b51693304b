//! The adapter without a disk: for tests, and for data that may be lost.

use std::sync::Arc;

use crate::{Crashing, Stores};

/// Opens an empty store in memory. A batch is durable, as far as memory can be, at once.
///
/// It is the simulated store in its plainest mode: one that syncs by itself and never crashes.
pub fn open_memory() -> Arc<dyn Stores> {
    Arc::new(Crashing::auto())
}
