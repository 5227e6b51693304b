//! Values of the language, `undefined` included.
//!
//! Values of documents stay slices of their text: an array or object is parsed only as far as an
//! expression walks into it, and a number keeps the spelling it was sent with, so that what a
//! query passes through comes back digit by digit. Numbers compare as doubles.

use std::borrow::Cow;
use std::sync::Arc;

use model::json::{self, Kind};

mod identity;
mod number;
mod order;
mod walk;
mod write;

pub use identity::{digest_into, identity_into};
pub use number::Number;
pub use order::{
    DIGEST_BYTES, compare, compare_text, content_digest, equal, member_key_into, sort_key_into,
    text_key_into, text_of_key,
};
pub use walk::{Elements, Members};

/// A value.
#[derive(Debug, Clone, Default)]
pub enum Value<'a> {
    /// What is missing. Never stored, never written.
    #[default]
    Undefined,
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number
    Number(Number<'a>),
    /// A text
    String(Cow<'a, str>),
    /// An array that an expression built; it holds nothing undefined.
    Array(Arc<[Value<'a>]>),
    /// An object that an expression built; it holds nothing undefined and no name twice.
    Object(Arc<[(Cow<'a, str>, Value<'a>)]>),
    /// An array or object of a document, as checked JSON text without whitespace around it.
    Raw(&'a [u8]),
}

/// The types of values, in the order in which `ORDER BY` puts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// Missing
    Undefined,
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number
    Number,
    /// A text
    String,
    /// An array
    Array,
    /// An object
    Object,
}

impl<'a> Value<'a> {
    /// The value that a slice of checked JSON text spells. Anything else is undefined.
    pub fn from_raw(raw: &'a [u8]) -> Self {
        match json::kind(raw) {
            Kind::Null if raw == b"null" => Self::Null,
            Kind::Null => Self::Undefined,
            Kind::Bool => Self::Bool(raw == b"true"),
            Kind::Number => Number::from_raw(raw).map_or(Self::Undefined, Self::Number),
            Kind::String => json::unescape(raw).map_or(Self::Undefined, Self::String),
            Kind::Array | Kind::Object => Self::Raw(raw),
        }
    }

    /// A whole number.
    pub fn int(value: i64) -> Self {
        Self::Number(Number::Int(value))
    }

    /// A number that was computed; whole ones lose their fraction.
    pub fn number(value: f64) -> Self {
        Self::Number(Number::computed(value))
    }

    /// A text of our own.
    pub fn text(value: impl Into<String>) -> Self {
        Self::String(Cow::Owned(value.into()))
    }

    /// An array; what is undefined falls out of it.
    pub fn array(mut elements: Vec<Self>) -> Self {
        elements.retain(Self::is_defined);
        Self::Array(elements.into())
    }

    /// An object; what is undefined falls out, and of equal names the last one counts.
    pub fn object(members: Vec<(Cow<'a, str>, Self)>) -> Self {
        let mut kept: Vec<(Cow<'a, str>, Self)> = Vec::with_capacity(members.len());
        for (name, value) in members {
            match kept.iter_mut().find(|(known, _)| *known == name) {
                Some(slot) => slot.1 = value,
                None => kept.push((name, value)),
            }
        }
        kept.retain(|(_, value)| value.is_defined());
        Self::Object(kept.into())
    }

    /// The value of a tree, as parameters come in.
    pub fn from_tree(tree: &serde_json::Value) -> Value<'static> {
        match tree {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(*value),
            serde_json::Value::Number(number) => {
                Number::from_spelling(&number.to_string()).map_or(Value::Undefined, Value::Number)
            }
            serde_json::Value::String(text) => Value::text(text.as_str()),
            serde_json::Value::Array(elements) => {
                Value::array(elements.iter().map(Value::from_tree).collect())
            }
            serde_json::Value::Object(members) => Value::Object(
                members.iter().map(|(k, v)| (Cow::Owned(k.clone()), Value::from_tree(v))).collect(),
            ),
        }
    }

    /// The type.
    pub fn kind(&self) -> Type {
        match self {
            Self::Undefined => Type::Undefined,
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Number(_) => Type::Number,
            Self::String(_) => Type::String,
            Self::Array(_) => Type::Array,
            Self::Object(_) => Type::Object,
            Self::Raw(raw) if raw.first() == Some(&b'[') => Type::Array,
            Self::Raw(_) => Type::Object,
        }
    }

    /// Whether it is anything but undefined.
    pub fn is_defined(&self) -> bool {
        !matches!(self, Self::Undefined)
    }

    /// Whether it is undefined.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    /// Whether it is exactly `true`: what a filter asks.
    pub fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number as a double, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number.as_f64()),
            _ => None,
        }
    }

    /// The number as an integer, if it is one and has no fraction.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.as_int(),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub fn elements(&self) -> Option<Elements<'_, 'a>> {
        Elements::of(self)
    }

    /// The members, if it is an object. A name that the text repeats comes once, with the value
    /// that counts.
    pub fn members(&self) -> Option<Members<'_, 'a>> {
        Members::of(self)
    }

    /// The member of an object; undefined where there is none.
    pub fn member(&self, name: &str) -> Value<'a> {
        match self {
            Self::Object(members) => members
                .iter()
                .find(|(known, _)| known == name)
                .map_or(Value::Undefined, |(_, value)| value.clone()),
            Self::Raw(raw) => json::at_path(raw, &[name]).map_or(Value::Undefined, Value::from_raw),
            _ => Value::Undefined,
        }
    }

    /// The element of an array; undefined where there is none.
    pub fn element(&self, at: usize) -> Value<'a> {
        match self {
            Self::Array(elements) => elements.get(at).cloned().unwrap_or_default(),
            Self::Raw(raw) => json::elements(raw).nth(at).map_or(Value::Undefined, Value::from_raw),
            _ => Value::Undefined,
        }
    }

    /// The same value, without a copy, for as long as this one lives.
    pub fn borrowed<'b>(&'b self) -> Value<'b>
    where
        'a: 'b,
    {
        match self {
            Self::String(text) => Value::String(Cow::Borrowed(text)),
            Self::Number(number) => Value::Number(number.borrowed()),
            other => other.clone(),
        }
    }

    /// The same value, on its own.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Undefined => Value::Undefined,
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number.into_owned()),
            Self::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Self::Array(_) | Self::Object(_) | Self::Raw(_) => self.tree(),
        }
    }

    fn tree(&self) -> Value<'static> {
        if let Some(elements) = self.elements() {
            return Value::Array(elements.map(Value::into_owned).collect());
        }
        match self.members() {
            Some(members) => Value::Object(
                members.map(|(k, v)| (Cow::Owned(k.into_owned()), v.into_owned())).collect(),
            ),
            None => Value::Undefined,
        }
    }

    /// About what it takes in memory.
    pub fn weight(&self) -> usize {
        let own = size_of::<Self>();
        own + match self {
            Self::String(text) => text.len(),
            Self::Raw(raw) => raw.len(),
            Self::Array(elements) => elements.iter().map(Self::weight).sum(),
            Self::Object(members) => {
                members.iter().map(|(name, value)| own + name.len() + value.weight()).sum()
            }
            _ => 0,
        }
    }

    /// Writes it as JSON. What JSON cannot say (undefined, infinite numbers) writes nothing and
    /// answers false.
    pub fn write_into(&self, out: &mut Vec<u8>) -> bool {
        write::value(self, out)
    }

    /// It as JSON text; empty where [`Value::write_into`] writes nothing.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.write_into(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// A truth that may be unknown: unknown is undefined.
impl From<Option<bool>> for Value<'_> {
    fn from(value: Option<bool>) -> Self {
        value.map_or(Self::Undefined, Self::Bool)
    }
}

#[cfg(test)]
mod tests;
