//! Opens the fjall database after a loss of power.
//!
//! fjall's journal is not synced on the way of a commit, so after a loss of power its tail may
//! hold pages that arrived out of order. fjall discards a tail that merely ends early, refuses
//! one with a wrong checksum in it, and panics at lengths that cannot be. Everything behind
//! fjall's last own sync can be made again from our journal, so the broken tail is cut off: at
//! the longest prefix that opens.
//!
//! What was cut may have said that pointers were being taken in. So the whole journal is kept beside
//! the other until somebody has said so again ([`settled`]); where it is found, a crash came before.

use std::fs::{self, OpenOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fjall::Database;

use super::commit::at_path;
use super::segment::sync_dir;
use crate::{Error, Result};

const JOURNAL: &str = "jnl";
const BROKEN: &str = "broken";

/// Opens the database; cuts the tail of its journal if that is what it takes. Returns whether it did.
pub(crate) fn open_database(
    dir: &Path,
    open: impl Fn() -> fjall::Result<Database>,
) -> Result<(Database, bool)> {
    let kept = kept(dir);
    if let Some(whole) = &kept {
        restore(whole, &whole.with_extension(JOURNAL), None)?;
    }
    match attempt(&open) {
        Attempt::Opened(db) => Ok((db, kept.is_some())),
        Attempt::BrokenTail(error) => {
            tracing::warn!(error, "the index's journal has a broken tail; it is cut");
            Ok((cut_tail(dir, open)?, true))
        }
        Attempt::Failed(fjall::Error::Locked) => Err(Error::Refused(format!(
            "{} is in use by this or another process; close it first",
            dir.display()
        ))),
        Attempt::Failed(error) => Err(Error::Corrupt(format!(
            "the index in {} cannot be opened: {error}; if all segments since the first are \
             there, it is made again once that directory is moved away",
            dir.display()
        ))),
    }
}

/// How an attempt to open ended.
enum Attempt {
    Opened(Database),
    BrokenTail(String),
    Failed(fjall::Error),
}

fn attempt(open: &impl Fn() -> fjall::Result<Database>) -> Attempt {
    // What it has built so far is gone with the panic, and nothing else was touched.
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(db)) => Attempt::Opened(db),
        Ok(Err(fjall::Error::JournalRecovery(error))) => Attempt::BrokenTail(format!("{error:?}")),
        Ok(Err(error)) => Attempt::Failed(error),
        Err(_) => Attempt::BrokenTail("a length that cannot be".into()),
    }
}

/// Finds by halving the longest prefix of the active journal that opens.
fn cut_tail(dir: &Path, open: impl Fn() -> fjall::Result<Database>) -> Result<Database> {
    let journal = active_journal(dir)?;
    let whole = journal.with_extension(BROKEN);
    if !whole.exists() {
        let copied = whole.with_extension("copied");
        restore(&journal, &copied, None)?;
        at_path(&whole, fs::rename(&copied, &whole))?;
        at_path(dir, sync_dir(dir))?;
    }
    let (mut good, mut bad) = (0, at_path(&whole, whole.metadata())?.len());
    while good + 1 < bad {
        let middle = good.midpoint(bad);
        restore(&whole, &journal, Some(middle))?;
        match attempt(&open) {
            Attempt::Opened(_) => good = middle,
            Attempt::BrokenTail(_) => bad = middle,
            Attempt::Failed(error) => return Err(super::tree::failed(&error)),
        }
    }
    restore(&whole, &journal, Some(good))?;
    open().map_err(|error| super::tree::failed(&error))
}

/// Says that the journal that was cut is not needed any more. It must not come back after a loss of
/// power: it would take the place of one that has gone on since.
pub(crate) fn settled(dir: &Path) -> Result<()> {
    if let Some(whole) = kept(dir) {
        at_path(&whole, fs::remove_file(&whole))?;
        at_path(dir, sync_dir(dir))?;
    }
    Ok(())
}

/// A journal that was to be cut.
fn kept(dir: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    names.filter(|path| path.extension().is_some_and(|extension| extension == BROKEN)).max()
}

fn active_journal(dir: &Path) -> Result<PathBuf> {
    let names = at_path(dir, fs::read_dir(dir))?;
    let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
    names
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == JOURNAL))
        .max_by_key(number)
        .ok_or_else(|| Error::Corrupt(format!("{} has no journal", dir.display())))
}

/// Copies a journal, or its first bytes.
fn restore(whole: &Path, journal: &Path, bytes: Option<u64>) -> Result<()> {
    at_path(journal, fs::copy(whole, journal))?;
    let file = at_path(journal, OpenOptions::new().write(true).open(journal))?;
    if let Some(bytes) = bytes {
        at_path(journal, file.set_len(bytes))?;
    }
    at_path(journal, file.sync_all())
}
