//! What goes into a user-defined function, and what comes out.

use std::borrow::Cow;

/// A value between a query and a function. Scalars travel as they are, the rest as JSON text.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Undefined,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// JSON text of an array or object.
    Json(Cow<'a, str>),
}

impl Value<'_> {
    /// The same value, on its own.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Undefined => Value::Undefined,
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(flag),
            Self::Number(number) => Value::Number(number),
            Self::Text(text) => Value::Text(text.into_owned().into()),
            Self::Json(text) => Value::Json(text.into_owned().into()),
        }
    }
}
