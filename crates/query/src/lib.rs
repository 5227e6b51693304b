//! The query language: text → syntax tree → plan → values over a [`source::Source`].
//!
//! - [`value`] — values, `undefined` included; those of documents stay slices of their text.
//! - [`ast`], `lexer`, `parse`, `print` — texts to syntax trees and back, with places for refusals.
//! - [`function`] — one table of all built-in functions, a family a file.
//! - `bind`, `bound` — names become places; what is wrong with a query is found here.
//! - `eval` — a bound tree and an item in, values out.
//! - `plan` — what is read from which index, in which order.
//! - [`source`] — what a query reads: documents by key, index entries by value.
//! - `run` — pages of rows over a source; [`Statement`] is the door to all of it.
//! - [`fan_out`] — plans for clients that ask every partition and put the answers together.
//! - [`world`] — what else it may know: time, chance, scripts, policies; and what it may cost.
//! - [`error`] — what can be wrong with a text, in the protocol's own shape.
//!
//! **Invariants:** this crate never touches storage, clock or chance. Evaluation cannot fail on
//! data: what is missing is undefined. It fails on texts, on limits ([`limits`]), and when its
//! source does. Nothing recurses deeper than the limits allow.

pub mod ast;
mod bind;
mod bound;
pub mod error;
mod eval;
pub mod fan_out;
mod filter;
pub mod function;
mod lexer;
pub mod limits;
mod parse;
mod plan;
mod print;
mod run;
pub mod source;
mod statement;
pub mod value;
pub mod world;

pub use filter::Filter;
pub use parse::parse;
pub use plan::Advice;
pub use run::{Metrics, Page, Want};
pub use statement::Statement;
