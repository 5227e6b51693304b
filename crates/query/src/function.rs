//! The built-in functions: ONE table, a line each, from which the documentation is made.
//!
//! A function gets values of the types it asked for and answers with a value. The table does the
//! rest: a wrong number of arguments is refused when the query is bound, an undefined argument or
//! one of a wrong type makes the answer undefined without a call. To add a function is to add a
//! line to the table of its family; its example is its first test.

use std::any::Any;
use std::sync::OnceLock;

use model::Result;

use crate::value::{Type, Value};
use crate::world::{Budget, Settings, World};

mod aggregate;
mod array;
mod conditional;
mod date;
mod full_text;
mod item;
mod math;
pub mod spatial;
mod string;
pub mod text;
mod type_check;
pub(crate) mod vector;

pub use aggregate::Aggregate;
pub(crate) use vector::Metric;

/// A line of the table.
pub struct Function {
    /// The name, in upper case.
    pub name: &'static str,
    /// Other spellings, in upper case.
    pub aliases: &'static [&'static str],
    /// The arguments.
    pub params: &'static [Param],
    /// How many of the last arguments may be left out.
    pub optional: usize,
    /// Whether the last argument may be repeated.
    pub repeats: bool,
    /// Whether it wants to see undefined arguments and those of other types.
    pub sees_all: bool,
    /// Whether equal arguments always give equal answers.
    pub stable: bool,
    /// What it does.
    pub run: Run,
    /// What it does, in a sentence.
    pub doc: &'static str,
    /// A call and its answer as JSON; empty where the answer is undefined.
    pub example: (&'static str, &'static str),
}

/// What a function takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param {
    /// Any value
    Any,
    /// `true` or `false`
    Bool,
    /// A number
    Number,
    /// A number without a fraction, within 64 bits
    Integer,
    /// A text
    String,
    /// An array
    Array,
    /// An object
    Object,
}

/// What a function does.
pub enum Run {
    /// Values in, a value out.
    Scalar(for<'a> fn(&Call<'_>, &[Value<'a>]) -> Result<Value<'a>>),
    /// Many rows in, a value out.
    Aggregate(Aggregate),
    /// Only in `ORDER BY RANK`.
    Rank,
}

/// The surroundings of a call.
pub struct Call<'c> {
    /// Time, chance and user-defined functions.
    pub world: &'c dyn World,
    /// When the query began, in ticks of 100 ns since 1970.
    pub started_ticks: i64,
    /// What the container says about geometry, vectors and languages.
    pub settings: &'c Settings,
    /// Counts what the call costs.
    pub budget: &'c Budget,
    /// The paths of the arguments that are properties of the item (`/a/b`), to look up in policies.
    pub paths: &'c [Option<String>],
    /// What this place in the query remembers between rows, such as a compiled pattern.
    pub memo: &'c Memo,
}

/// A value of any type that is made once for a place in the query.
pub type Memo = OnceLock<Box<dyn Any + Send + Sync>>;

impl Function {
    const fn scalar(
        name: &'static str,
        params: &'static [Param],
        run: for<'a> fn(&Call<'_>, &[Value<'a>]) -> Result<Value<'a>>,
        doc: &'static str,
        example: (&'static str, &'static str),
    ) -> Self {
        Self {
            name,
            aliases: &[],
            params,
            optional: 0,
            repeats: false,
            sees_all: false,
            stable: true,
            run: Run::Scalar(run),
            doc,
            example,
        }
    }

    const fn optional(self, optional: usize) -> Self {
        Self { optional, ..self }
    }

    const fn repeating(self) -> Self {
        Self { repeats: true, ..self }
    }

    const fn seeing_all(self) -> Self {
        Self { sees_all: true, ..self }
    }

    const fn unstable(self) -> Self {
        Self { stable: false, ..self }
    }

    const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// The fewest arguments.
    pub fn arguments_min(&self) -> usize {
        self.params.len() - self.optional
    }

    /// The most arguments, if there is a most.
    pub fn arguments_max(&self) -> Option<usize> {
        (!self.repeats).then_some(self.params.len())
    }

    /// Whether this many arguments will do.
    pub fn takes(&self, count: usize) -> bool {
        count >= self.arguments_min() && self.arguments_max().is_none_or(|max| count <= max)
    }

    /// What it takes, as the refusal of a wrong number says it.
    pub fn arity(&self) -> String {
        let min = self.arguments_min();
        match self.arguments_max() {
            Some(max) if max == min => format!("requires {min} argument(s)"),
            Some(max) => format!("requires {min} to {max} argument(s)"),
            None => format!("requires at least {min} argument(s)"),
        }
    }

    /// The parameter that the argument at a place is for.
    pub fn param(&self, at: usize) -> Param {
        self.params.get(at).or(self.params.last()).copied().unwrap_or(Param::Any)
    }

    /// Whether the arguments are such that it can be called.
    pub fn accepts(&self, arguments: &[Value<'_>]) -> bool {
        self.sees_all
            || arguments.iter().enumerate().all(|(at, value)| self.param(at).accepts(value))
    }
}

impl Param {
    /// Whether a value will do.
    pub fn accepts(self, value: &Value<'_>) -> bool {
        let kind = value.kind();
        match self {
            Self::Any => kind != Type::Undefined,
            Self::Bool => kind == Type::Bool,
            Self::Number => kind == Type::Number,
            Self::Integer => value.as_int().is_some(),
            Self::String => kind == Type::String,
            Self::Array => kind == Type::Array,
            Self::Object => kind == Type::Object,
        }
    }

    /// What it is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Bool => "boolean",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// The families, in the order of the documentation.
pub const FAMILIES: &[(&str, &[Function])] = &[
    ("Aggregates", aggregate::TABLE),
    ("Arrays and sets", array::TABLE),
    ("Conditions", conditional::TABLE),
    ("Dates and times", date::TABLE),
    ("Full text", full_text::TABLE),
    ("Items", item::TABLE),
    ("Numbers", math::TABLE),
    ("Places", spatial::TABLE),
    ("Strings", string::TABLE),
    ("Types", type_check::TABLE),
    ("Vectors", vector::TABLE),
];

/// The function of a name, whatever its case.
pub fn find(name: &str) -> Option<&'static Function> {
    let all = FAMILIES.iter().flat_map(|(_, table)| table.iter());
    let mut named = all.filter(|function| {
        let mut names = std::iter::once(&function.name).chain(function.aliases);
        names.any(|known| known.eq_ignore_ascii_case(name))
    });
    named.next()
}
