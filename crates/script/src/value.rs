//! What goes into a user-defined function, and what comes out.

/// A value between a query and a function. Scalars travel as they are, the rest as JSON text.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Undefined,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// JSON text of an array or object.
    Json(String),
}
