//! A patch: changes to parts of an item, as clients send them.
//!
//! Applying one cuts and joins text: what it does not name keeps its bytes, numbers with all
//! their digits and members in their order.

mod path;
mod text;

use std::borrow::Cow;

use crate::item::is_system_property;
use crate::json::{self, Document, Kind};
use crate::limits::PATCH_OPERATIONS;
use crate::{Error, Result};

use path::Path;
use text::Text;

/// A checked patch.
#[derive(Debug, Clone)]
pub struct Patch<'a> {
    /// What the item must be for the patch to be applied: `from c where …`.
    pub condition: Option<Cow<'a, str>>,
    operations: Vec<Operation<'a>>,
}

#[derive(Debug, Clone)]
struct Operation<'a> {
    change: Change<'a>,
    path: Path,
}

/// What an operation does at its path.
#[derive(Debug, Clone)]
enum Change<'a> {
    Add(&'a [u8]),
    Set(&'a [u8]),
    Replace(&'a [u8]),
    Remove,
    Increment(&'a [u8]),
    Move(Path),
}

impl<'a> Patch<'a> {
    /// Checks the body of a patch: an object with `operations`, or these alone.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let raw = json::check(body)?;
        let (operations, condition) = match json::kind(raw) {
            Kind::Array => (Some(raw), None),
            _ => {
                let document = Document::parse(raw)?;
                (document.get("operations"), document.get("condition"))
            }
        };
        let operations = operations.filter(|raw| json::kind(raw) == Kind::Array);
        let operations = operations.ok_or_else(|| {
            Error::bad_request("the body of a patch needs the array 'operations'")
        })?;
        let count = json::elements(operations).take(PATCH_OPERATIONS + 1).count();
        if count == 0 || count > PATCH_OPERATIONS {
            return Err(Error::bad_request(format!(
                "a patch has from 1 to {PATCH_OPERATIONS} operations; send more in a second patch"
            )));
        }
        let operations = json::elements(operations).enumerate();
        let operations =
            operations.map(|(n, raw)| Operation::parse(raw).map_err(|e| numbered(n, e)));
        Ok(Self {
            condition: condition_text(condition)?,
            operations: operations.collect::<Result<_>>()?,
        })
    }

    /// Whether an operation names a place at or below the path.
    pub fn touches(&self, path: &[impl AsRef<str>]) -> bool {
        self.operations.iter().any(|operation| {
            let from = match &operation.change {
                Change::Move(from) => Some(from),
                _ => None,
            };
            std::iter::once(&operation.path).chain(from).any(|named| named.is_within(path))
        })
    }

    /// The text of an object with the patch applied: all of it or an error. The text must have
    /// been checked; whether the result is an item is still to be asked.
    pub fn apply(&self, object: &[u8]) -> Result<Vec<u8>> {
        let mut text = Text::new(object);
        for (n, operation) in self.operations.iter().enumerate() {
            operation.apply(&mut text).map_err(|error| numbered(n, error))?;
        }
        Ok(text.into_bytes())
    }
}

impl<'a> Operation<'a> {
    fn parse(raw: &'a [u8]) -> Result<Self> {
        let member = |name: &str| json::at_path(raw, &[name]);
        let text = |name: &str| {
            member(name).and_then(json::unescape).ok_or_else(|| {
                Error::bad_request(format!("an operation of a patch needs the text '{name}'"))
            })
        };
        let value =
            || member("value").ok_or_else(|| Error::bad_request("the operation needs a 'value'"));
        let path = changeable(&text("path")?)?;
        let change = match &*text("op")? {
            "add" => Change::Add(value()?),
            "set" => Change::Set(value()?),
            "replace" => Change::Replace(value()?),
            "remove" => Change::Remove,
            "incr" => Change::Increment(number(value()?)?),
            "move" => Change::Move(source(&text("from")?, &path)?),
            other => {
                let shown: String = other.chars().take(32).collect();
                return Err(Error::bad_request(format!(
                    "'{shown}' is no operation; there are add, set, replace, remove, incr and move"
                )));
            }
        };
        Ok(Self { change, path })
    }

    fn apply(&self, text: &mut Text) -> Result<()> {
        match &self.change {
            Change::Add(value) => text.insert(&self.path, value),
            Change::Set(value) => text.set(&self.path, value),
            Change::Replace(value) => text.replace(&self.path, value),
            Change::Remove => text.remove(&self.path).map(drop),
            Change::Increment(by) => text.increment(&self.path, by),
            Change::Move(from) => {
                let value = text.remove(from)?;
                text.insert(&self.path, &value)
            }
        }
    }
}

/// Errors name the operation that they are about, counted from 1.
fn numbered(n: usize, error: Error) -> Error {
    Error { message: format!("For Operation({}): {}", n + 1, error.message), ..error }
}

fn condition_text(raw: Option<&[u8]>) -> Result<Option<Cow<'_, str>>> {
    match raw.filter(|raw| json::kind(raw) != Kind::Null) {
        None => Ok(None),
        Some(raw) => json::unescape(raw)
            .map(Some)
            .ok_or_else(|| Error::bad_request("the 'condition' of a patch must be a text")),
    }
}

/// A path to what a client may change.
fn changeable(pointer: &str) -> Result<Path> {
    let path = Path::parse(pointer)?;
    let name = path.first();
    if name == "id" || is_system_property(name) {
        return Err(Error::bad_request(format!("'{name}' cannot be changed by a patch")));
    }
    Ok(path)
}

fn source(pointer: &str, target: &Path) -> Result<Path> {
    let from = changeable(pointer)?;
    if target.is_within(from.names()) && target.names() != from.names() {
        return Err(Error::bad_request(
            "'path' lies inside of 'from': nothing can be moved into itself",
        ));
    }
    Ok(from)
}

fn number(raw: &[u8]) -> Result<&[u8]> {
    match json::kind(raw) {
        Kind::Number => Ok(raw),
        _ => Err(Error::bad_request("the 'value' of an increment must be a number")),
    }
}

#[cfg(test)]
mod tests;
