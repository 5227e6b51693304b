//! The index rows of an item: one walk over its text.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use bytes::Bytes;
use model::item::is_system_property;
use model::json::{self, Cursor, Kind};
use model::policy::{IndexRules, Place};
use model::{Error, Fault, Result};
use query::function::text;
use query::value::{DIGEST_BYTES, Type, Value, content_digest, member_key_into, sort_key_into};
use query::world::World;

use super::geo::Frame;
use super::key::{self, PathId};
use super::{Indexes, vector};

/// Most index rows of one item.
const ROWS_MAX: usize = 100_000;
/// Most bytes of one item's index rows.
const ROW_BYTES_MAX: usize = 24 << 20;
/// Room for keys to begin with: the rows of most items, while large ones are mostly long texts.
const KEYS_BYTES_FIRST: usize = 16 << 10;
/// Members of an object that are compared one by one to find a name that stands there twice.
const MEMBERS_FEW: usize = 32;

type Digest = [u8; DIGEST_BYTES];

/// A row: key and value.
pub(crate) type Row = (Bytes, Bytes);

/// The index rows of an item, in order, each once.
pub(crate) fn rows(indexes: &Indexes, item_key: &[u8], body: &[u8]) -> Result<Vec<Row>> {
    walk(indexes, item_key, body, false)
}

/// The same for an item as it was sent, without the members that the server sets.
pub(super) fn own_rows(indexes: &Indexes, item_key: &[u8], sent: &[u8]) -> Result<Vec<Row>> {
    walk(indexes, item_key, sent, true)
}

fn walk(indexes: &Indexes, item_key: &[u8], body: &[u8], own: bool) -> Result<Vec<Row>> {
    if indexes.rules.none {
        return Ok(Vec::new());
    }
    let computed = computed_values(indexes, body)?;
    let mut walk = Walk {
        rules: &indexes.rules,
        item_key,
        own,
        keys: Vec::with_capacity((2 * body.len()).min(KEYS_BYTES_FIRST)),
        ends: Vec::with_capacity(32),
        values: Vec::new(),
        cells: Vec::new(),
        wanted: Vec::new(),
        members: Vec::new(),
        sorts: Vec::new(),
    };
    walk.value(&mut Cursor::new(body), indexes.rules.root(), PathId::ROOT, false)?;
    for (name, raw) in &computed {
        let place = indexes.rules.member(indexes.rules.root(), name);
        walk.value(&mut Cursor::new(raw), place, PathId::ROOT.member(name), false)?;
    }
    walk.composites(indexes)?;
    walk.vectors(indexes)?;
    walk.spatial()?;
    walk.words(indexes)?;
    Ok(walk.finish())
}

/// The names and values of computed properties that are indexed, as JSON.
pub(super) fn computed_values(indexes: &Indexes, body: &[u8]) -> Result<Vec<(String, Bytes)>> {
    let mut values = Vec::new();
    for (name, statement) in &indexes.computed {
        // They depend on nothing but the item, so neither time nor chance is asked.
        let mut rows = statement.rows_of(body, &Timeless)?;
        values.extend(rows.pop().map(|row| (name.clone(), row)));
    }
    Ok(values)
}

struct Timeless;

impl World for Timeless {
    fn now_ticks(&self) -> i64 {
        0
    }

    fn random(&self) -> f64 {
        0.0
    }
}

struct Walk<'a> {
    rules: &'a IndexRules,
    item_key: &'a [u8],
    /// Members that the server sets are passed over.
    own: bool,
    /// The keys so far, one behind the other.
    keys: Vec<u8>,
    ends: Vec<usize>,
    /// The values of rows that have one, by the number of their key.
    values: Vec<(usize, Bytes)>,
    /// Cells of geometries.
    cells: Vec<(PathId, u64)>,
    /// Values that other indexes than the range index want.
    wanted: Vec<(PathId, &'a [u8])>,
    /// Members of the objects that the walk is in.
    members: Vec<PathId>,
    /// Sort keys of values that stand in an array or object whose digest is wanted.
    sorts: Vec<u8>,
}

/// How much of a walk was there at some point.
#[derive(Clone, Copy)]
struct Mark {
    ends: usize,
    wanted: usize,
    cells: usize,
    members: usize,
    sorts: usize,
}

impl<'a> Walk<'a> {
    /// Takes the value ahead. Its sort key is left behind where `sorted`.
    fn value(
        &mut self,
        cursor: &mut Cursor<'a>,
        place: Place,
        path: PathId,
        sorted: bool,
    ) -> Result<()> {
        if place.is_dead() {
            let raw = cursor.take();
            if sorted {
                sort_key_into(&Value::from_raw(raw), &mut self.sorts);
            }
            return Ok(());
        }
        if self.rules.wanted(place) {
            self.wanted.push((path, cursor.clone().take()));
        }
        match cursor.kind() {
            Kind::Array => self.array(cursor, place, path, sorted),
            Kind::Object => self.object(cursor, place, path, sorted),
            _ => self.scalar(cursor.take(), place, path, sorted),
        }
    }

    fn scalar(&mut self, raw: &[u8], place: Place, path: PathId, sorted: bool) -> Result<()> {
        if !place.is_indexed() && !sorted {
            return Ok(());
        }
        let value = Value::from_raw(raw);
        if sorted {
            sort_key_into(&value, &mut self.sorts);
        }
        // Numbers beyond all doubles are undefined to queries.
        if !place.is_indexed() || value.is_undefined() {
            return Ok(());
        }
        key::put_head(key::RANGE, path, &mut self.keys);
        key::put_value(&value, &mut self.keys);
        self.end()
    }

    fn array(
        &mut self,
        cursor: &mut Cursor<'a>,
        place: Place,
        path: PathId,
        sorted: bool,
    ) -> Result<()> {
        let mark = self.mark();
        let digested = sorted || place.is_indexed();
        let (elements, element) = (self.rules.element(place), path.element());
        if elements.is_dead() && !digested {
            cursor.take();
            return Ok(());
        }
        cursor.enter();
        while cursor.element() {
            self.value(cursor, elements, element, digested)?;
        }
        let digest = content_digest(&self.sorts[mark.sorts..]);
        self.contents(Type::Array, digest, mark, place, path, sorted)
    }

    fn object(
        &mut self,
        cursor: &mut Cursor<'a>,
        place: Place,
        path: PathId,
        sorted: bool,
    ) -> Result<()> {
        let (begin, mark) = (cursor.clone(), self.mark());
        self.geometry(cursor, place, path);
        // The item itself is no value of its own.
        let digested = sorted || (place.is_indexed() && path != PathId::ROOT);
        let mut names: Vec<(Cow<'a, str>, Range<usize>)> = Vec::new();
        let mut many = HashSet::new();
        cursor.enter();
        while let Some(name) = cursor.member() {
            let name = json::unescape(name).unwrap_or_default();
            let member = path.member(&name);
            if self.seen(member, mark.members, &mut many) {
                // Of equal names the last one counts: begin again, knowing so.
                self.forget(mark);
                *cursor = begin;
                return self.object_with_doubles(cursor, place, path, sorted);
            }
            if path == PathId::ROOT && self.is_passed_over(&name) {
                cursor.take();
                continue;
            }
            let from = self.sorts.len();
            self.value(cursor, self.rules.member(place, &name), member, digested)?;
            if digested {
                names.push((name, from..self.sorts.len()));
            }
        }
        let digest = self.object_digest(names);
        self.contents(Type::Object, digest, mark, place, path, sorted)
    }

    fn object_with_doubles(
        &mut self,
        cursor: &mut Cursor<'a>,
        place: Place,
        path: PathId,
        sorted: bool,
    ) -> Result<()> {
        let mark = self.mark();
        self.geometry(cursor, place, path);
        let digested = sorted || (place.is_indexed() && path != PathId::ROOT);
        let mut last: HashMap<Cow<'a, str>, Cursor<'a>> = HashMap::new();
        cursor.enter();
        while let Some(name) = cursor.member() {
            last.insert(json::unescape(name).unwrap_or_default(), cursor.clone());
            cursor.take();
        }
        let mut names = Vec::with_capacity(last.len());
        for (name, mut value) in last {
            if path == PathId::ROOT && self.is_passed_over(&name) {
                continue;
            }
            let from = self.sorts.len();
            let (member, place) = (path.member(&name), self.rules.member(place, &name));
            self.value(&mut value, place, member, digested)?;
            if digested {
                names.push((name, from..self.sorts.len()));
            }
        }
        let digest = self.object_digest(names);
        self.contents(Type::Object, digest, mark, place, path, sorted)
    }

    /// Whether a member of the item itself has another meaning than the value it has here.
    fn is_passed_over(&self, name: &str) -> bool {
        (self.own && is_system_property(name)) || self.rules.computed_named(name).is_some()
    }

    /// The digest of an object whose members left their sort keys behind.
    fn object_digest(&self, mut names: Vec<(Cow<'a, str>, Range<usize>)>) -> Digest {
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut keys = Vec::new();
        for (name, sort) in names {
            member_key_into(&name, &mut keys);
            keys.extend_from_slice(&self.sorts[sort]);
        }
        content_digest(&keys)
    }

    /// Ends an array or object: the digest takes the place of what was in it.
    fn contents(
        &mut self,
        kind: Type,
        digest: Digest,
        mark: Mark,
        place: Place,
        path: PathId,
        sorted: bool,
    ) -> Result<()> {
        self.sorts.truncate(mark.sorts);
        self.members.truncate(mark.members);
        if sorted {
            self.sorts.push(key::tag(kind));
            self.sorts.extend_from_slice(&digest);
        }
        if !place.is_indexed() || path == PathId::ROOT {
            return Ok(());
        }
        key::put_head(key::RANGE, path, &mut self.keys);
        self.keys.push(key::tag(kind));
        self.keys.extend_from_slice(&digest);
        self.end()
    }

    fn seen(&mut self, member: PathId, from: usize, many: &mut HashSet<PathId>) -> bool {
        let siblings = &self.members[from..];
        let seen = if siblings.len() < MEMBERS_FEW {
            siblings.contains(&member)
        } else {
            if many.is_empty() {
                many.extend(siblings);
            }
            !many.insert(member)
        };
        self.members.push(member);
        seen
    }

    fn mark(&self) -> Mark {
        Mark {
            ends: self.ends.len(),
            wanted: self.wanted.len(),
            cells: self.cells.len(),
            members: self.members.len(),
            sorts: self.sorts.len(),
        }
    }

    fn forget(&mut self, mark: Mark) {
        self.ends.truncate(mark.ends);
        self.keys.truncate(self.ends.last().copied().unwrap_or(0));
        self.wanted.truncate(mark.wanted);
        self.cells.truncate(mark.cells);
        self.members.truncate(mark.members);
        self.sorts.truncate(mark.sorts);
    }

    fn end(&mut self) -> Result<()> {
        self.keys.extend_from_slice(self.item_key);
        self.ends.push(self.keys.len());
        if self.ends.len() > ROWS_MAX || self.keys.len() > ROW_BYTES_MAX {
            return Err(Error::new(
                Fault::TooLarge,
                format!(
                    "the item has more than {ROWS_MAX} values to index, or {ROW_BYTES_MAX} bytes \
                     of them: exclude the paths of its large arrays in the indexing policy"
                ),
            ));
        }
        Ok(())
    }

    /// The cells of a geometry, where the object ahead is one and such are indexed.
    fn geometry(&mut self, cursor: &Cursor<'a>, place: Place, path: PathId) {
        if let Some(index) = self.rules.spatial_of(place) {
            let cells = Frame::of(index).geometry_cells(cursor.clone().take());
            self.cells.extend(cells.into_iter().map(|cell| (path, cell)));
        }
    }

    /// A row for each cell of the geometries at a path. All of them are said in each, so that a
    /// search that meets several knows which one comes first.
    fn spatial(&mut self) -> Result<()> {
        let mut cells = std::mem::take(&mut self.cells);
        cells.sort_unstable();
        cells.dedup();
        for run in cells.chunk_by(|a, b| a.0 == b.0) {
            let all: Bytes = run.iter().flat_map(|(_, cell)| cell.to_be_bytes()).collect();
            for (path, cell) in run {
                key::put_head(key::SPATIAL, *path, &mut self.keys);
                self.keys.extend_from_slice(&cell.to_be_bytes());
                self.values.push((self.ends.len(), all.clone()));
                self.end()?;
            }
        }
        Ok(())
    }

    /// A row for each different word of the texts that are indexed so, which says how often the text
    /// has it and how long the text is; and one without a word for the text itself.
    fn words(&mut self, indexes: &Indexes) -> Result<()> {
        for (path, language) in &indexes.full_text {
            let raw = self.wanted.iter().rev().find(|(wanted, _)| wanted == path);
            let Some(text) = raw.and_then(|(_, raw)| json::unescape(raw)) else { continue };
            let mut words: Vec<String> = text::words(&text, *language).collect();
            let length = words.len() as u32;
            words.sort_unstable();
            self.word(*path, "", 0, length)?;
            for run in words.chunk_by(|a, b| a == b) {
                self.word(*path, &run[0], run.len() as u32, length)?;
            }
        }
        Ok(())
    }

    fn word(&mut self, path: PathId, word: &str, count: u32, length: u32) -> Result<()> {
        key::put_head(key::WORD, path, &mut self.keys);
        key::put_word(word, &mut self.keys);
        self.values.push((self.ends.len(), key::word_value(count, length)));
        self.end()
    }

    fn vectors(&mut self, indexes: &Indexes) -> Result<()> {
        for (path, index) in &indexes.vectors {
            let raw = self.wanted.iter().rev().find(|(wanted, _)| wanted == path);
            let vector = raw.and_then(|(_, raw)| vector::read(raw, index.dimensions));
            let Some(vector) = vector else { continue };
            key::put_head(key::VECTOR, *path, &mut self.keys);
            self.keys.extend_from_slice(&vector::side(&vector).to_be_bytes());
            self.values.push((self.ends.len(), vector::encode(&vector, index.kind == "flat")));
            self.end()?;
        }
        Ok(())
    }

    fn composites(&mut self, indexes: &Indexes) -> Result<()> {
        for composite in &indexes.composites {
            composite.put_head(&mut self.keys);
            for (path, descending) in &composite.paths {
                let at = self.keys.len();
                let raw = self.wanted.iter().rev().find(|(wanted, _)| wanted == path);
                let value = raw.map_or(Value::Undefined, |(_, raw)| Value::from_raw(raw));
                key::put_value(&value, &mut self.keys);
                if *descending {
                    self.keys[at..].iter_mut().for_each(|byte| *byte = !*byte);
                }
            }
            self.end()?;
        }
        Ok(())
    }

    fn finish(self) -> Vec<Row> {
        let keys = Bytes::from(self.keys);
        let mut start = 0;
        let mut rows: Vec<Row> = Vec::with_capacity(self.ends.len());
        for end in self.ends {
            rows.push((keys.slice(start..end), Bytes::new()));
            start = end;
        }
        for (number, value) in self.values {
            rows[number].1 = value;
        }
        rows.sort_unstable();
        // Elements of an array may be equal.
        rows.dedup_by(|a, b| a.0 == b.0);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::RowKey;
    use super::*;
    use model::policy::ContainerDefinition;
    use serde_json::json;
    use std::sync::Arc;

    fn indexes(policy: serde_json::Value) -> Indexes {
        let body = json!({"id": "c", "partitionKey": {"paths": ["/pk"]}, "indexingPolicy": policy});
        let definition = ContainerDefinition::create(body.as_object().unwrap()).unwrap();
        Indexes::new(definition.index_rules)
    }

    fn names(paths: &[&str]) -> Vec<(PathId, String)> {
        let id = |path: &str| {
            path.split('/').fold(PathId::ROOT, |id, step| match step {
                "" => id,
                "[]" => id.element(),
                name => id.member(name),
            })
        };
        paths.iter().map(|path| (id(path), (*path).to_owned())).collect()
    }

    /// The rows of a body, with paths by name and values as bytes.
    #[track_caller]
    fn check(body: &str, expect: &[(&str, &str)]) {
        let all = [
            "/a",
            "/a/b",
            "/a/[]",
            "/a/[]/x",
            "/a/[]/x/[]",
            "/b",
            "/c",
            "/c/a",
            "/c/b",
            "/c/b/[]",
            "/c/b/[]/c",
            "/id",
        ];
        let rows = rows(&indexes(json!({})), b"KEY", body.as_bytes()).unwrap();
        let mut got: Vec<(String, Vec<u8>)> = Vec::new();
        for (key, _) in &rows {
            let parts = RowKey::read(key).unwrap();
            assert_eq!(&key[parts.item_at..], b"KEY");
            let path = PathId(u64::from_be_bytes(key[1..9].try_into().unwrap()));
            let path = names(&all).into_iter().find(|(id, _)| *id == path).unwrap().1;
            got.push((path, key[parts.values_at..parts.item_at].to_vec()));
        }
        got.sort();
        let encode = |json: &str| {
            let mut out = Vec::new();
            key::put_value(&Value::from_raw(json.as_bytes()), &mut out);
            out
        };
        let mut expect: Vec<(String, Vec<u8>)> =
            expect.iter().map(|(path, json)| ((*path).to_owned(), encode(json))).collect();
        expect.sort();
        assert_eq!(got, expect, "{body}");
    }

    #[test]
    fn every_value_has_a_row() {
        check(r#"{"id":"1"}"#, &[("/id", "\"1\"")]);
        check(
            r#"{"a":{"b":1.0},"b":null,"c":[]}"#,
            &[("/a", r#"{"b":1}"#), ("/a/b", "1"), ("/b", "null"), ("/c", "[]")],
        );
        check(
            r#"{"a":[1,1.0,{"x":["y"]}]}"#,
            &[
                ("/a", r#"[1,1,{"x":["y"]}]"#),
                ("/a/[]", "1"),
                ("/a/[]", r#"{"x" : ["y"]}"#),
                ("/a/[]/x", r#"["y"]"#),
                ("/a/[]/x/[]", "\"y\""),
            ],
        );
    }

    #[test]
    fn of_equal_names_the_last_one_counts() {
        check(r#"{"a":{"b":1},"b":1,"a":2}"#, &[("/a", "2"), ("/b", "1")]);
        check(
            r#"{"c":[0],"c":{"b":[{"c":1,"c":2}],"a":true}}"#,
            &[
                ("/c", r#"{"a":true,"b":[{"c":2}]}"#),
                ("/c/a", "true"),
                ("/c/b", r#"[{"c":2}]"#),
                ("/c/b/[]", r#"{"c":2}"#),
                ("/c/b/[]/c", "2"),
            ],
        );
    }

    #[test]
    fn what_the_policy_leaves_out_has_none() {
        let indexes = indexes(json!({
            "includedPaths": [{"path": "/a/b/?"}], "excludedPaths": [{"path": "/*"}],
        }));
        let found = rows(&indexes, b"k", br#"{"a":{"b":1,"c":2},"d":[1,2,3]}"#).unwrap();
        assert_eq!(found.len(), 1);
        let nothing = Indexes::new(Arc::new(IndexRules::nothing()));
        assert!(rows(&nothing, b"k", br#"{"id":"1"}"#).unwrap().is_empty());
    }

    #[test]
    fn a_composite_row_stands_for_every_item_missing_values_included() {
        let indexes = indexes(json!({
            "excludedPaths": [{"path": "/*"}],
            "compositeIndexes": [[{"path": "/a"}, {"path": "/b/c", "order": "descending"}]],
        }));
        let row = |body: &str| {
            let rows = rows(&indexes, b"k", body.as_bytes()).unwrap();
            let [(key, _)] = &rows[..] else { panic!("one row: {rows:?}") };
            let parts = RowKey::read(key).unwrap();
            assert_eq!(&key[parts.item_at..], b"k");
            key.clone()
        };
        let ordered = [
            r#"{"b":{"c":2}}"#,
            r#"{"b":{"c":1}}"#,
            "{}",
            r#"{"a":1,"b":{"c":"x"}}"#,
            r#"{"a":1,"b":{"c":1}}"#,
            r#"{"a":1}"#,
            r#"{"a":2,"b":{"c":9}}"#,
        ];
        let keys: Vec<Bytes> = ordered.iter().map(|body| row(body)).collect();
        assert!(keys.is_sorted());
    }

    #[test]
    fn an_item_with_too_many_values_is_refused() {
        let values: Vec<String> = (0..=ROWS_MAX).map(|n| n.to_string()).collect();
        let body = format!("{{\"a\":[{}]}}", values.join(","));
        let refused = rows(&indexes(json!({})), b"k", body.as_bytes()).unwrap_err();
        assert_eq!(refused.fault, Fault::TooLarge);
    }
}
