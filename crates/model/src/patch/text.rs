//! Text under a patch: finds places in it, and cuts and joins there.

use std::ops::Range;

use crate::json::{self, Kind};
use crate::{Error, Result};

use super::path::Path;

/// The text of a JSON object that was checked.
pub(super) struct Text(Vec<u8>);

/// A member or element that is there.
struct Found {
    /// From its name, where it has one, to the end of its value.
    entry: Range<usize>,
    value: Range<usize>,
    /// Where the one before it ends.
    before: Option<usize>,
    /// Where the one after it begins.
    after: Option<usize>,
}

/// What a name leads to in the array or object that holds it.
enum Spot {
    Found(Found),
    /// Nothing; a new one goes behind the last, which ends here.
    Free {
        last: Option<usize>,
        start: usize,
    },
}

impl Text {
    pub fn new(object: &[u8]) -> Self {
        Self(object.to_vec())
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Puts a value: over a member that is there, before an element that is there.
    pub fn insert(&mut self, path: &Path, value: &[u8]) -> Result<()> {
        let (kind, spot) = self.spot(path)?;
        match (kind, spot) {
            (Kind::Array, Spot::Found(found)) => {
                let at = found.entry.start;
                self.splice(at..at, &[value, b","]);
            }
            (_, Spot::Found(found)) => self.splice(found.value, &[value]),
            (_, Spot::Free { last, start }) => self.append(kind, path, last, start, value),
        }
        Ok(())
    }

    /// Puts a value over what is there, or where nothing is.
    pub fn set(&mut self, path: &Path, value: &[u8]) -> Result<()> {
        let (kind, spot) = self.spot(path)?;
        match spot {
            Spot::Found(found) => self.splice(found.value, &[value]),
            Spot::Free { last, start } => self.append(kind, path, last, start, value),
        }
        Ok(())
    }

    /// Puts a value over what is there.
    pub fn replace(&mut self, path: &Path, value: &[u8]) -> Result<()> {
        let found = self.found(path)?;
        self.splice(found.value, &[value]);
        Ok(())
    }

    /// Takes out what is there, and returns its value.
    pub fn remove(&mut self, path: &Path) -> Result<Vec<u8>> {
        let found = self.found(path)?;
        let value = self.0[found.value.clone()].to_vec();
        let cut = match (found.before, found.after) {
            (_, Some(after)) => found.entry.start..after,
            (Some(before), None) => before..found.entry.end,
            (None, None) => found.entry,
        };
        self.splice(cut, &[]);
        if let (Kind::Object, Spot::Found(_)) = self.spot(path)? {
            self.remove_twins(path)?;
        }
        Ok(value)
    }

    /// A name may stand more than once in a text: the earlier ones must not come to light. All of
    /// them go in one pass, however many there are.
    fn remove_twins(&mut self, path: &Path) -> Result<()> {
        let (holder, name) = (self.holder(path)?, path.parent().1);
        let raw = &self.0[holder.clone()];
        let mut spans = json::spans(raw);
        let mut kept = b"{".to_vec();
        while let Some(key) = spans.next()
            && let Some(value) = spans.next()
        {
            if json::key_is(&raw[key.clone()], name) {
                continue;
            }
            if kept.len() > 1 {
                kept.push(b',');
            }
            kept.extend_from_slice(&raw[key.start..value.end]);
        }
        kept.push(b'}');
        drop(spans);
        self.splice(holder, &[&kept]);
        Ok(())
    }

    /// Adds to the number that is there, or puts one where nothing is.
    pub fn increment(&mut self, path: &Path, by: &[u8]) -> Result<()> {
        let (kind, spot) = self.spot(path)?;
        match spot {
            Spot::Found(found) => {
                let sum = sum(&self.0[found.value.clone()], by)?;
                self.splice(found.value, &[&sum]);
            }
            Spot::Free { last, start } if kind == Kind::Object => {
                self.append(kind, path, last, start, by);
            }
            Spot::Free { .. } => return Err(missing(path)),
        }
        Ok(())
    }

    fn found(&self, path: &Path) -> Result<Found> {
        match self.spot(path)?.1 {
            Spot::Found(found) => Ok(found),
            Spot::Free { .. } => Err(missing(path)),
        }
    }

    /// What holds the place that a path names, and what is there.
    fn spot(&self, path: &Path) -> Result<(Kind, Spot)> {
        let holder = self.holder(path)?;
        let spot = self.look(&holder, path.parent().1, path)?;
        Ok((json::kind(&self.0[holder]), spot))
    }

    fn holder(&self, path: &Path) -> Result<Range<usize>> {
        path.parent().0.iter().try_fold(0..self.0.len(), |holder, name| {
            match self.look(&holder, name, path)? {
                Spot::Found(found) => Ok(found.value),
                Spot::Free { .. } => Err(no_parent(path)),
            }
        })
    }

    fn look(&self, holder: &Range<usize>, name: &str, path: &Path) -> Result<Spot> {
        let raw = &self.0[holder.clone()];
        match json::kind(raw) {
            Kind::Object => Ok(member(raw, holder.start, name)),
            Kind::Array => element(raw, holder.start, index(name, path)?, path),
            _ => Err(no_parent(path)),
        }
    }

    /// Adds a member or element behind the last.
    fn append(&mut self, kind: Kind, path: &Path, last: Option<usize>, start: usize, value: &[u8]) {
        let mut name = Vec::new();
        if kind == Kind::Object {
            json::escape_into(&mut name, path.parent().1);
            name.push(b':');
        }
        match last {
            Some(end) => self.splice(end..end, &[b",", &name, value]),
            None => self.splice(start + 1..start + 1, &[&name, value]),
        }
    }

    fn splice(&mut self, place: Range<usize>, pieces: &[&[u8]]) {
        let tail = self.0.split_off(place.end);
        self.0.truncate(place.start);
        for piece in pieces {
            self.0.extend_from_slice(piece);
        }
        self.0.extend_from_slice(&tail);
    }
}

/// The last member of a name, which is the one that counts.
fn member(raw: &[u8], start: usize, name: &str) -> Spot {
    let mut spans = json::spans(raw);
    let (mut found, mut before): (Option<Found>, Option<usize>) = (None, None);
    while let Some(key) = spans.next()
        && let Some(value) = spans.next()
    {
        if let Some(found) = &mut found
            && found.after.is_none()
        {
            found.after = Some(start + key.start);
        }
        let entry = start + key.start..start + value.end;
        let end = entry.end;
        if json::key_is(&raw[key], name) {
            let value = start + value.start..end;
            found = Some(Found { entry, value, before, after: None });
        }
        before = Some(end);
    }
    found.map_or(Spot::Free { last: before, start }, Spot::Found)
}

fn element(raw: &[u8], start: usize, index: Option<usize>, path: &Path) -> Result<Spot> {
    let (mut before, mut count) = (None, 0);
    let mut spans = json::spans(raw).map(|span| start + span.start..start + span.end);
    while let Some(value) = spans.next() {
        if index == Some(count) {
            let after = spans.next().map(|next| next.start);
            return Ok(Spot::Found(Found { entry: value.clone(), value, before, after }));
        }
        before = Some(value.end);
        count += 1;
    }
    match index {
        Some(index) if index > count => Err(Error::bad_request(format!(
            "the path '{path}' names element {index} of an array that has {count}"
        ))),
        _ => Ok(Spot::Free { last: before, start }),
    }
}

/// The index that a name stands for in an array; `None` is the place behind the last.
fn index(name: &str, path: &Path) -> Result<Option<usize>> {
    if name == "-" {
        return Ok(None);
    }
    let plain = name == "0" || !name.starts_with('0');
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    let index = if plain && digits { name.parse().ok() } else { None };
    index.map(Some).ok_or_else(|| {
        Error::bad_request(format!(
            "the path '{path}' leads into an array, where only numbers and '-' do"
        ))
    })
}

/// Whole numbers add up exactly as long as they have 64 bits; all others as doubles.
fn sum(a: &[u8], b: &[u8]) -> Result<Vec<u8>> {
    if json::kind(a) != Kind::Number {
        return Err(Error::bad_request("what is to be incremented is not a number"));
    }
    let whole = |raw: &[u8]| std::str::from_utf8(raw).ok()?.parse::<i64>().ok();
    if let (Some(a), Some(b)) = (whole(a), whole(b))
        && let Some(sum) = a.checked_add(b)
    {
        return Ok(sum.to_string().into_bytes());
    }
    let double = |raw| json::number(raw).unwrap_or(f64::NAN);
    let sum = double(a) + double(b);
    if !sum.is_finite() {
        return Err(Error::bad_request("the sum of the increment is beyond what a number can be"));
    }
    let mut out = Vec::new();
    json::number_into(&mut out, sum);
    Ok(out)
}

fn missing(path: &Path) -> Error {
    Error::bad_request(format!("there is nothing at the path '{path}'"))
}

fn no_parent(path: &Path) -> Error {
    Error::bad_request(format!(
        "the path '{path}' leads through something that is not there; add what holds it first"
    ))
}
