//! Prepares the next segment: a file of zeros, written and synced ahead of its use.
//!
//! A sync of bytes that overwrite written blocks changes no metadata, and so does not wait for
//! the file system's own journal. Blocks that are merely reserved do not have this effect: the
//! first write into them is a change of metadata again (measured: 6.7 k syncs a second into a
//! growing file, 9.5 k into a reserved one, 10.9 k into zeros). The zeros go to a file of their
//! own, never ahead into the current one: a sync there would have to wait for them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::format::SegmentId;
use super::journal::{Ground, PAGE_BYTES};
use super::segment::file_name;

/// Zeros are written in steps, with commits in between: each of their syncs has the disk take the step
/// before it as well. A sync after each step would be one more that commits have to wait for.
const STEP_BYTES: usize = 1 << 20;

/// A prepared segment file.
pub(crate) struct Spare {
    pub id: SegmentId,
    pub file: File,
}

/// Where the committer finds the next segment, if it is ready.
#[derive(Default)]
pub(crate) struct Spares {
    shelf: Mutex<Shelf>,
    changed: Condvar,
}

#[derive(Default)]
struct Shelf {
    wanted: bool,
    ready: Option<Spare>,
    closed: bool,
}

impl Spares {
    pub(crate) fn is_ready(&self) -> bool {
        self.shelf().ready.is_some()
    }

    pub(crate) fn take(&self) -> Option<Spare> {
        self.shelf().ready.take()
    }

    /// Asks for a spare, if there is none.
    pub(crate) fn want(&self) {
        let mut shelf = self.shelf();
        if shelf.ready.is_none() && !shelf.wanted {
            shelf.wanted = true;
            self.changed.notify_all();
        }
    }

    pub(crate) fn close(&self) {
        self.shelf().closed = true;
        self.changed.notify_all();
    }

    /// Prepares spares until closed. A spare that fails is not missed: files can grow.
    pub(crate) fn run(&self, ground: &Ground) {
        while self.wait_wanted() {
            match self.prepare(ground) {
                Ok(spare) => self.put(spare),
                Err(error) => {
                    tracing::warn!(%error, "no segment could be prepared; the journal grows from now on");
                    return;
                }
            }
        }
        if let Some(unused) = self.take() {
            let _ = std::fs::remove_file(ground.dir.join(file_name(unused.id)));
        }
    }

    fn wait_wanted(&self) -> bool {
        let mut shelf = self.shelf();
        while !shelf.wanted && !shelf.closed {
            shelf = self.changed.wait(shelf).unwrap_or_else(PoisonError::into_inner);
        }
        !shelf.closed
    }

    fn prepare(&self, ground: &Ground) -> io::Result<Option<Spare>> {
        let id = ground.new_id();
        let file = ground.create(id)?;
        let path = ground.dir.join(file_name(id));
        let zeros = vec![0; STEP_BYTES.min(ground.segment_bytes as usize) + PAGE_BYTES];
        let aligned = zeros.as_ptr().align_offset(PAGE_BYTES);
        let zeros = &zeros[aligned..aligned + zeros.len() - PAGE_BYTES];
        // Past the page cache where the file system allows it: copying zeros into memory costs
        // as much as copying the documents that will overwrite them.
        let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path);
        let (writer, is_direct) = (direct.as_ref().unwrap_or(&file), direct.is_ok());
        let mut at = 0;
        while at < u64::from(ground.segment_bytes) {
            let began = Instant::now();
            writer.write_all_at(zeros, at)?;
            if !is_direct {
                // Else all of it would gather in memory and go to the disk at once.
                writer.sync_data()?;
            }
            at += zeros.len() as u64;
            // Half of the time belongs to the commits.
            if self.pause(began) {
                std::fs::remove_file(&path)?;
                return Ok(None);
            }
        }
        file.sync_all()?;
        Ok(Some(Spare { id, file }))
    }

    fn pause(&self, since: Instant) -> bool {
        let shelf = self.shelf();
        if shelf.closed {
            return true;
        }
        let waited = self.changed.wait_timeout(shelf, since.elapsed());
        waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    fn put(&self, spare: Option<Spare>) {
        let mut shelf = self.shelf();
        shelf.wanted = false;
        shelf.ready = spare;
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs [`Spares::run`] on a thread of its own.
pub(crate) fn spawn(
    spares: Arc<Spares>,
    ground: Arc<Ground>,
) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("kv-spare".into()).spawn(move || spares.run(&ground))
}
