//! Partition keys: their values, the paths they are taken from, and where they lie.

use serde_json::Value;
use smallvec::SmallVec;

use crate::epk::{self, Epk, EpkRange};
use crate::json::{self, Document};
use crate::limits::{PARTITION_KEY_BYTES, PARTITION_KEY_LEVELS};
use crate::{Error, Result, item};

mod bytes;
mod version1;

/// The value of one level of a partition key.
///
/// Numbers are equal where their bits are, as they hash: `0` and `-0` are two keys.
#[derive(Debug, Clone)]
pub enum Component {
    /// The item has no such member.
    Undefined,
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number
    Number(f64),
    /// A string
    String(String),
}

/// A partition key: a value for each level, or fewer for a prefix. Without values it is the
/// key of items that were there before their container had one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PartitionKey(pub Vec<Component>);

/// How levels become hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One path, one hash.
    Hash,
    /// A hash for each of up to three paths.
    MultiHash,
}

/// The partition key of a container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Definition {
    /// Where the values are, one path a level.
    pub paths: Vec<Path>,
    /// How levels become hashes.
    pub kind: Kind,
    /// The version of the hash, 1 or 2.
    pub version: u8,
    /// Whether the service chose the path: then items may go without a key.
    pub system_key: bool,
}

/// A path of member names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    /// As it was written.
    pub text: String,
    /// The names, without quotes and escapes.
    pub segments: Vec<String>,
}

impl PartitionKey {
    /// Reads the value of the partition key header.
    pub fn parse_header(text: &str) -> Result<Self> {
        if let Some(plain) = plain_text(text) {
            return Ok(Self(vec![Component::String(plain.to_owned())]));
        }
        let refusal = |what: &str| {
            Error::bad_request(format!(
                "the partition key header is invalid: {what}; send a JSON array with one value \
                 for each path, such as [\"a\"]"
            ))
        };
        let raw = json::check(text.as_bytes()).map_err(|_| refusal("it is not JSON"))?;
        if json::kind(raw) != json::Kind::Array {
            return Err(refusal("it is not an array"));
        }
        let component = |raw| Component::of_header(raw).map_err(refusal);
        json::elements(raw).map(component).collect::<Result<_>>().map(Self)
    }

    /// The value of the partition key header, in ASCII.
    pub fn to_header(&self) -> String {
        let mut out = Vec::new();
        for component in &self.0 {
            out.push(if out.is_empty() { b'[' } else { b',' });
            component.write_json(&mut out);
        }
        if out.is_empty() {
            out.push(b'[');
        }
        out.push(b']');
        ascii(&String::from_utf8_lossy(&out))
    }

    /// Appends bytes that end by themselves and sort as the keys do, level by level.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_prefix(out);
        out.push(bytes::END);
    }

    /// Appends what the bytes of all keys with these first levels begin with.
    pub fn encode_prefix(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|component| bytes::encode(component, out));
    }

    /// Reads what [`Self::encode`] wrote, and returns what follows it.
    pub fn decode(mut bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut components = Vec::new();
        loop {
            if let Some(rest) = bytes.strip_prefix(&[bytes::END]) {
                return Some((Self(components), rest));
            }
            let (component, rest) = bytes::decode(bytes)?;
            components.push(component);
            bytes = rest;
        }
    }

    /// Refuses keys whose strings are longer, all together, than a key may be.
    fn check_size(&self) -> Result<()> {
        let length = |component: &Component| match component {
            Component::String(text) => text.len(),
            _ => 0,
        };
        let bytes: usize = self.0.iter().map(length).sum();
        if bytes > PARTITION_KEY_BYTES {
            return Err(Error::bad_request(format!(
                "the partition key value has {bytes} bytes, the limit is {PARTITION_KEY_BYTES}; \
                 choose a shorter value"
            )));
        }
        Ok(())
    }
}

/// The one text of a header such as `["a"]`, where it is spelled as it is: most are.
fn plain_text(header: &str) -> Option<&str> {
    let text = header.strip_prefix("[\"")?.strip_suffix("\"]")?;
    let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    text.bytes().all(plain).then_some(text)
}

impl Definition {
    /// Reads the `partitionKey` of a container. `default_version` stands in for a missing one.
    pub fn from_json(value: &Value, default_version: u8) -> Result<Self> {
        let Value::Object(members) = value else {
            return Err(definition_refusal("it is not an object"));
        };
        let kind = definition_kind(members.get("kind"))?;
        let version = definition_version(members.get("version"), kind, default_version)?;
        let paths = definition_paths(members.get("paths"))?;
        let levels_max = if kind == Kind::Hash { 1 } else { PARTITION_KEY_LEVELS };
        if paths.is_empty() || paths.len() > levels_max {
            return Err(definition_refusal(match kind {
                Kind::Hash => "kind Hash takes exactly one path",
                Kind::MultiHash => "kind MultiHash takes one to three paths",
            }));
        }
        let system_key = match members.get("systemKey") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => return Err(definition_refusal("systemKey is not true or false")),
        };
        Ok(Self { paths, kind, version, system_key })
    }

    /// The `partitionKey` of a container. Clients guess kind and version wrongly where they
    /// are left out, so they never are.
    pub fn to_json(&self) -> Value {
        let paths: Vec<&str> = self.paths.iter().map(|path| path.text.as_str()).collect();
        let kind = match self.kind {
            Kind::Hash => "Hash",
            Kind::MultiHash => "MultiHash",
        };
        let mut value =
            serde_json::json!({ "paths": paths, "kind": kind, "version": self.version });
        if self.system_key {
            value["systemKey"] = Value::Bool(true);
        }
        value
    }

    /// The partition key of an item.
    pub fn extract(&self, document: &Document<'_>) -> Result<PartitionKey> {
        let mut components = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let twice = |name: &&String| document.duplicate(name);
            if let Some(name) = path.segments.first().filter(twice) {
                return Err(Error::bad_request(format!(
                    "the input content is invalid: it has '{name}' of the partition key more \
                     than once"
                )));
            }
            components.push(match document.at_path(&path.segments) {
                None => Component::Undefined,
                Some(raw) => Component::of_raw(raw).ok_or_else(|| {
                    Error::bad_request(format!(
                        "the value at the partition key path {} is an array or object; make it a \
                         string, number, boolean or null",
                        path.text
                    ))
                })?,
            });
        }
        if self.system_key && components.iter().all(|one| *one == Component::Undefined) {
            components.clear();
        }
        let key = PartitionKey(components);
        key.check_size()?;
        Ok(key)
    }

    /// Whether an item has this key, where a look at its text is enough to see that; where not, nothing
    /// is known yet. Most keys are strings that are spelled as they are.
    pub fn plainly_has(&self, document: &Document<'_>, key: &PartitionKey) -> bool {
        let mut levels = self.paths.iter().zip(&key.0);
        key.0.len() == self.paths.len()
            && levels.all(|(path, component)| {
                let Component::String(text) = component else { return false };
                let once = path.segments.first().is_none_or(|name| !document.duplicate(name));
                let raw = document.at_path(&path.segments).and_then(|raw| raw.strip_prefix(b"\""));
                let raw = raw.and_then(|raw| raw.strip_suffix(b"\""));
                // A text without escapes is spelled as it is.
                once && raw == Some(text.as_bytes()) && !text.contains('\\')
            })
    }

    /// Whether the key has a value for each level, and so names one logical partition.
    pub fn is_full(&self, key: &PartitionKey) -> bool {
        key.0.len() == self.paths.len() || self.system_key && key.0.is_empty()
    }

    /// Refuses a key that cannot be one of this container. A prefix of a hierarchical key can;
    /// operations on single items use [`Self::check_full`].
    pub fn check(&self, key: &PartitionKey) -> Result<()> {
        let prefix = self.kind == Kind::MultiHash && (1..self.paths.len()).contains(&key.0.len());
        if prefix { key.check_size() } else { self.check_full(key) }
    }

    /// Refuses a key that does not have a value for each level.
    pub fn check_full(&self, key: &PartitionKey) -> Result<()> {
        if !self.is_full(key) {
            return Err(Error::bad_request(format!(
                "the partition key has {} values, the container has {} paths; send one value for \
                 each path",
                key.0.len(),
                self.paths.len()
            )));
        }
        key.check_size()
    }

    /// Where a key, or the beginning of what a prefix covers, lies.
    pub fn epk(&self, key: &PartitionKey) -> Epk {
        match (self.kind, self.version) {
            _ if key.0.is_empty() => Epk::MIN,
            (Kind::Hash, 1) => version1::epk(&key.0),
            (Kind::Hash, _) => Epk::from_bytes(&hash(&key.0)),
            (Kind::MultiHash, _) => {
                let mut levels = Vec::with_capacity(48);
                key.0.chunks(1).for_each(|level| levels.extend_from_slice(&hash(level)));
                Epk::from_bytes(&levels)
            }
        }
    }

    /// Where all items of a key, or of a prefix, lie.
    pub fn range_of(&self, key: &PartitionKey) -> EpkRange {
        let min = self.epk(key);
        let max = match (self.is_full(key), key.0.is_empty()) {
            (true, _) => min.successor(),
            (false, true) => Epk::max(),
            (false, false) => min.followed_by(&[0xFF]),
        };
        EpkRange::new(min, max)
    }
}

impl Path {
    /// Reads a path such as `/a/b` or `/"odd name"/c`.
    pub fn parse(text: &str) -> Result<Self> {
        let refusal = |what: &str| {
            Error::bad_request(format!(
                "the partition key path {text:?} is invalid: {what}; write it like /a/b"
            ))
        };
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let Some(tail) = rest.strip_prefix('/') else {
                return Err(refusal("each name must follow a '/'"));
            };
            let (segment, tail) = segment(tail).map_err(refusal)?;
            segments.push(segment);
            rest = tail;
        }
        match segments.first() {
            None => Err(refusal("it is empty")),
            Some(first) if item::is_system_property(first) => {
                Err(refusal("system properties cannot be keys"))
            }
            Some(_) => Ok(Self { text: text.to_owned(), segments }),
        }
    }
}

impl Component {
    /// The component of a raw JSON scalar.
    pub fn of_raw(raw: &[u8]) -> Option<Self> {
        match json::kind(raw) {
            json::Kind::Null => Some(Self::Null),
            json::Kind::Bool => Some(Self::Bool(raw == b"true")),
            json::Kind::Number => json::number(raw).map(Self::Number),
            json::Kind::String => json::unescape(raw).map(|text| Self::String(text.into_owned())),
            json::Kind::Array | json::Kind::Object => None,
        }
    }

    fn of_header(raw: &[u8]) -> std::result::Result<Self, &'static str> {
        // The empty object is how clients spell the missing value.
        if json::kind(raw) == json::Kind::Object && json::members(raw).next().is_none() {
            return Ok(Self::Undefined);
        }
        Self::of_raw(raw).ok_or("its values are not strings, numbers, booleans, null or {}")
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Undefined => out.extend_from_slice(b"{}"),
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(number) => json::number_into(out, *number),
            Self::String(text) => json::escape_into(out, text),
        }
    }
}

impl PartialEq for Component {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Undefined, Self::Undefined) | (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Number(one), Self::Number(other)) => one.to_bits() == other.to_bits(),
            (Self::String(one), Self::String(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Component {}

impl std::hash::Hash for Component {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Undefined | Self::Null => {}
            Self::Bool(flag) => flag.hash(state),
            Self::Number(number) => number.to_bits().hash(state),
            Self::String(text) => text.hash(state),
        }
    }
}

/// The byte that says which type a component is, wherever components are hashed.
fn type_byte(component: &Component) -> u8 {
    match component {
        Component::Undefined => 0,
        Component::Null => 1,
        Component::Bool(false) => 2,
        Component::Bool(true) => 3,
        Component::Number(_) => 5,
        Component::String(_) => 8,
    }
}

/// What is hashed of a key. Most are short.
type Hashed = SmallVec<[u8; 64]>;

/// The hash of version 2 of components taken together.
fn hash(components: &[Component]) -> [u8; 16] {
    let mut bytes = Hashed::new();
    components.iter().for_each(|component| write_for_hash(component, 0xFF, &mut bytes));
    epk::hash_v2(&bytes)
}

/// The bytes that are hashed; the two versions end strings differently.
fn write_for_hash(component: &Component, string_end: u8, out: &mut Hashed) {
    out.push(type_byte(component));
    match component {
        Component::Number(number) => out.extend_from_slice(&number.to_le_bytes()),
        Component::String(text) => {
            out.extend_from_slice(text.as_bytes());
            out.push(string_end);
        }
        _ => {}
    }
}

fn definition_refusal(what: &str) -> Error {
    Error::bad_request(format!(
        "the partition key definition is invalid: {what}; send one like \
         {{\"paths\":[\"/pk\"],\"kind\":\"Hash\",\"version\":2}}"
    ))
}

fn definition_kind(value: Option<&Value>) -> Result<Kind> {
    match value {
        None | Some(Value::Null) => Ok(Kind::Hash),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("Hash") => Ok(Kind::Hash),
        Some(Value::String(word)) if word.eq_ignore_ascii_case("MultiHash") => Ok(Kind::MultiHash),
        Some(_) => Err(definition_refusal("kind is not Hash or MultiHash")),
    }
}

fn definition_version(value: Option<&Value>, kind: Kind, default_version: u8) -> Result<u8> {
    let version = match (value, kind) {
        (None | Some(Value::Null), Kind::MultiHash) => 2,
        (None | Some(Value::Null), Kind::Hash) => default_version,
        (Some(value), _) => match value.as_u64() {
            Some(version @ (1 | 2)) => version as u8,
            _ => return Err(definition_refusal("version is not 1 or 2")),
        },
    };
    if kind == Kind::MultiHash && version == 1 {
        return Err(definition_refusal("kind MultiHash has version 2 only"));
    }
    Ok(version)
}

fn definition_paths(value: Option<&Value>) -> Result<Vec<Path>> {
    let Some(Value::Array(texts)) = value else {
        return Err(definition_refusal("paths is not an array"));
    };
    let mut paths: Vec<Path> = Vec::new();
    for text in texts {
        let Value::String(text) = text else {
            return Err(definition_refusal("a path is not a string"));
        };
        let path = Path::parse(text)?;
        if paths.iter().any(|other| other.segments == path.segments) {
            return Err(definition_refusal("a path occurs twice"));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// The first segment of a path behind its slash, and what follows it.
fn segment(text: &str) -> std::result::Result<(String, &str), &'static str> {
    if text.starts_with('"') {
        return quoted_segment(text);
    }
    let (name, rest) = text.split_at(text.find('/').unwrap_or(text.len()));
    if name.is_empty() {
        return Err("a name is empty");
    }
    if name.contains(['[', ']', '*', '?', '"']) {
        return Err("it may only name members, without arrays and wildcards");
    }
    Ok((name.to_owned(), rest))
}

fn quoted_segment(text: &str) -> std::result::Result<(String, &str), &'static str> {
    let mut escaped = false;
    let closes = |(_, byte): &(usize, u8)| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    };
    let (end, _) = text.bytes().enumerate().skip(1).find(closes).ok_or("a quote is not closed")?;
    let (raw, rest) = text.split_at(end + 1);
    match json::unescape(raw.as_bytes()) {
        Some(name) if !name.is_empty() => Ok((name.into_owned(), rest)),
        _ => Err("a name in quotes is not a JSON string with characters in it"),
    }
}

/// JSON text with everything beyond ASCII as escapes, which is possible inside of strings only.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
