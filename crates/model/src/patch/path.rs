//! Paths of a patch: JSON pointers.

use crate::limits::JSON_DEPTH;
use crate::{Error, Result};

/// A path with at least one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

impl Path {
    pub fn parse(pointer: &str) -> Result<Self> {
        let Some(names) = pointer.strip_prefix('/') else {
            return Err(Error::bad_request(format!(
                "the path '{}' must begin with '/' and name something inside of the item",
                shown(pointer)
            )));
        };
        if names.split('/').count() > JSON_DEPTH {
            return Err(Error::bad_request(format!("a path has at most {JSON_DEPTH} names")));
        }
        names.split('/').map(unescape).collect::<Option<_>>().map(Self).ok_or_else(|| {
            Error::bad_request(format!(
                "the path '{}' is malformed: '~' is written '~0' and '/' in a name '~1'",
                shown(pointer)
            ))
        })
    }

    pub fn names(&self) -> &[String] {
        &self.0
    }

    pub fn first(&self) -> &str {
        &self.0[0]
    }

    /// The names of what holds the place, and the name of the place in it.
    pub fn parent(&self) -> (&[String], &str) {
        let (last, above) = self.0.split_last().expect("a path has at least one name");
        (above, last)
    }

    /// Whether it is the path given, or leads further.
    pub fn is_within(&self, path: &[impl AsRef<str>]) -> bool {
        self.0.len() >= path.len() && self.0.iter().zip(path).all(|(a, b)| a == b.as_ref())
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text: String = self.0.iter().flat_map(|name| ["/", name]).collect();
        f.write_str(&shown(&text))
    }
}

/// As much of a path as belongs into a message.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

fn unescape(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        out.push(match (character, character == '~') {
            (_, true) => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            (plain, false) => plain,
        });
    }
    Some(out)
}
