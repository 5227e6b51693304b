//! The file that the journal writes, with a door for faults.
//!
//! A store that was given [`Faults`] asks it before each write and each sync. Tests use this
//! to fail them, or to hold a sync back until they have looked at what is not yet durable.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// As many slices as the kernel takes at once.
const SLICES_MAX: usize = 1024;

/// Faults that a test asks for.
#[derive(Debug, Default)]
pub struct Faults {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    fail_writes: bool,
    fail_syncs: bool,
    hold_syncs: bool,
    waiting: usize,
}

impl Faults {
    /// Makes every later write fail.
    pub fn fail_writes(&self) {
        self.asked().fail_writes = true;
    }

    /// Makes every later sync fail.
    pub fn fail_syncs(&self) {
        self.asked().fail_syncs = true;
    }

    /// Makes every later sync wait for [`Faults::release`].
    pub fn hold_syncs(&self) {
        self.asked().hold_syncs = true;
    }

    /// Lets held syncs go on.
    pub fn release(&self) {
        self.asked().hold_syncs = false;
        self.changed.notify_all();
    }

    /// Waits until a sync is being held.
    pub fn held(&self) {
        let mut asked = self.asked();
        while asked.waiting == 0 {
            asked = self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn before_write(&self) -> io::Result<()> {
        if self.asked().fail_writes {
            Err(io::Error::other("a write was made to fail"))
        } else {
            Ok(())
        }
    }

    fn before_sync(&self) -> io::Result<()> {
        let mut asked = self.asked();
        asked.waiting += 1;
        self.changed.notify_all();
        while asked.hold_syncs {
            asked = self.changed.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
        asked.waiting -= 1;
        if asked.fail_syncs { Err(io::Error::other("a sync was made to fail")) } else { Ok(()) }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A segment that is being written.
#[derive(Debug)]
pub(crate) struct JournalFile {
    file: File,
    faults: Option<Arc<Faults>>,
}

impl JournalFile {
    pub(crate) fn new(file: File, faults: Option<Arc<Faults>>) -> Self {
        Self { file, faults }
    }

    /// Writes slices one behind the other.
    pub(crate) fn write(&self, mut slices: &mut [IoSlice<'_>], mut at: u64) -> io::Result<()> {
        if let Some(faults) = &self.faults {
            faults.before_write()?;
        }
        if let [bytes] = slices {
            return self.file.write_all_at(bytes, at);
        }
        while !slices.is_empty() {
            let some = slices.len().min(SLICES_MAX);
            match rustix::io::pwritev(&self.file, &slices[..some], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut slices, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        if let Some(faults) = &self.faults {
            faults.before_sync()?;
        }
        self.file.sync_data()
    }

    /// Gives back what lies behind the last record.
    pub(crate) fn cut(&self, end: u64) -> io::Result<()> {
        self.file.set_len(end)
    }
}
