//! Paths of indexes: `/a/b/[]/c/?`.

use std::fmt;

/// A path from the root of an item to an indexed value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexPath(pub Vec<PathStep>);

/// One step of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathStep {
    /// A member by its name.
    Member(String),
    /// Every element of an array.
    Elements,
}

impl IndexPath {
    /// The path of these members.
    pub fn members(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathStep::Member((*name).to_owned())).collect())
    }

    /// The path one step further.
    pub fn then(&self, step: PathStep) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    /// Whether it goes through elements of arrays, so that one item may have many values.
    pub fn is_plural(&self) -> bool {
        self.0.contains(&PathStep::Elements)
    }
}

impl fmt::Display for IndexPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                PathStep::Elements => f.write_str("/[]")?,
                PathStep::Member(name) if is_plain(name) => write!(f, "/{name}")?,
                PathStep::Member(name) => write!(f, "/{name:?}")?,
            }
        }
        f.write_str("/?")
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}
