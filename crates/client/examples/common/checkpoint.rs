//! A text in a file, replaced as a whole or not at all: where a reader of changes goes on.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Where a reader goes on.
pub struct Checkpoint(PathBuf);

impl Checkpoint {
    /// One that is kept in a file, whether it is there yet or not.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self(path.as_ref().to_owned())
    }

    /// What was kept last; none before the first time.
    pub fn load(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(&self.0) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a text. When this returns, a crash does not bring back the one before.
    pub fn save(&self, text: &str) -> io::Result<()> {
        let beside = self.0.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &self.0)
    }
}
