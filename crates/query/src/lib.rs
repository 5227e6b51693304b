//! The query language: text → syntax tree → plan → values over a [`source::Source`].
//!
//! - [`value`] — values, `undefined` included; those of documents stay slices of their text.
//! - [`ast`] — what a text says; places in the text are kept for refusals.
//! - [`function`] — one table of all built-in functions, a family a file.
//! - [`source`] — what a query reads: documents by key, index entries by value.
//! - [`world`] — what else it may know: time, chance, scripts, policies; and what it may cost.
//! - [`error`] — what can be wrong with a text, in the protocol's own shape.
//!
//! **Invariants:** this crate never touches storage, clock or chance. Evaluation cannot fail on
//! data: what is missing is undefined. It fails on texts, on limits ([`limits`]), and when its
//! source does. Nothing recurses deeper than the limits allow.

pub mod ast;
pub mod error;
pub mod function;
mod lexer;
pub mod limits;
mod parse;
mod print;
pub mod source;
pub mod value;
pub mod world;

mod subset;

pub use parse::parse as parse_text;
pub use subset::{Select, parse};
