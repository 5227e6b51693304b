//! Conditions on texts that index entries are checked against before any document is read.
//!
//! `CONTAINS` and its kin hold for texts that stand anywhere in an index. The entries have the texts,
//! those of one text follow each other, and a text is checked once: documents are read only where
//! it passes.

use std::fmt;
use std::sync::Arc;

use model::Result;

use super::lookup::{Covers, Lookup, Reader};
use crate::bound::{LikePattern, Node};
use crate::eval::like::Pattern;
use crate::function::{Call, Function, Memo, Run};
use crate::source::{Entry, IndexPath, Scan};
use crate::statement::Statement;
use crate::value::{Value, text_of_key};
use crate::world::{Budget, Settings, World};

/// What a text must be.
enum Test {
    /// A call is true of it, with these further arguments.
    Call {
        function: &'static Function,
        arguments: Vec<Value<'static>>,
        memo: Memo,
    },
    Like(Pattern),
}

/// What texts at a path must be.
#[derive(Clone)]
pub(crate) struct Tests {
    path: IndexPath,
    tests: Arc<Vec<Test>>,
}

impl fmt::Debug for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tests of {}", self.tests.len(), self.path)
    }
}

/// What a filter says of texts, by path.
pub(super) fn of(statement: &Statement) -> Vec<Tests> {
    let covers = Covers { range: &|_| true, text: &|_| false, spatial: &|_| false };
    let reader = Reader::new(statement, covers);
    let mut all: Vec<(IndexPath, Vec<Test>)> = Vec::new();
    let parts = match &statement.bound.block.filter {
        Some(Node::And(parts)) => &parts[..],
        Some(part) => std::slice::from_ref(part),
        None => &[],
    };
    for part in parts {
        let Some(test) = test_of(part) else { continue };
        let Some(path) = path_of(&reader, part) else { continue };
        match all.iter_mut().find(|(known, _)| *known == path) {
            Some((_, tests)) => tests.push(test),
            None => all.push((path, vec![test])),
        }
    }
    all.into_iter().map(|(path, tests)| Tests { path, tests: Arc::new(tests) }).collect()
}

fn path_of(reader: &Reader<'_>, part: &Node) -> Option<IndexPath> {
    match reader.condition(part) {
        Some(Lookup::Scan(Scan::Range { path, .. })) if !path.is_plural() => Some(path),
        _ => None,
    }
}

fn test_of(part: &Node) -> Option<Test> {
    match part {
        Node::Like(_, LikePattern::Fixed(pattern), false) => Some(Test::Like(pattern.clone())),
        Node::Call(call) => {
            let name = call.function.name;
            let ignores_case = call.arguments.len() > 2;
            let anywhere = matches!(name, "CONTAINS" | "ENDSWITH" | "REGEXMATCH")
                || (ignores_case && matches!(name, "STARTSWITH" | "STRINGEQUALS"));
            let constants = call.arguments.get(1..)?.iter().map(|node| node.constant().cloned());
            let arguments = constants.collect::<Option<Vec<_>>>()?;
            let typed = arguments
                .iter()
                .enumerate()
                .all(|(at, value)| call.function.param(at + 1).accepts(value));
            (anywhere && typed).then(|| Test::Call {
                function: call.function,
                arguments,
                memo: Memo::new(),
            })
        }
        _ => None,
    }
}

impl Tests {
    /// Those of a scan's path.
    pub(super) fn of_scan<'t>(all: &'t [Self], scan: &Scan) -> Option<&'t Self> {
        let Scan::Range { path, .. } = scan else { return None };
        all.iter().find(|tests| tests.path == *path)
    }

    /// Leaves out the entries whose texts do not pass.
    pub(crate) fn retain(&self, entries: &mut Vec<Entry>) -> Result<()> {
        let mut kept = Vec::new();
        for run in entries.chunk_by(|a, b| a.value == b.value) {
            if self.holds(&run[0].value)? {
                kept.extend_from_slice(run);
            }
        }
        *entries = kept;
        Ok(())
    }

    fn holds(&self, key: &[u8]) -> Result<bool> {
        let Some(text) = text_of_key(key) else { return Ok(false) };
        // What one text may cost is limited as what one item may cost.
        let budget = Budget::default();
        for test in self.tests.iter() {
            if !test.holds(&text, &budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Test {
    fn holds(&self, text: &str, budget: &Budget) -> Result<bool> {
        match self {
            Self::Like(pattern) => pattern.matches(text, budget),
            Self::Call { function, arguments, memo } => {
                let Run::Scalar(run) = function.run else { return Ok(true) };
                let mut all = Vec::with_capacity(arguments.len() + 1);
                all.push(Value::String(text.into()));
                all.extend(arguments.iter().map(Value::borrowed));
                let settings = Settings::default();
                let call = Call {
                    world: &Nowhere,
                    started_ticks: 0,
                    settings: &settings,
                    budget,
                    paths: &[],
                    memo,
                };
                Ok(run(&call, &all)?.is_true())
            }
        }
    }
}

/// Texts are compared without a look at clock or chance.
struct Nowhere;

impl World for Nowhere {
    fn now_ticks(&self) -> i64 {
        0
    }

    fn random(&self) -> f64 {
        0.0
    }
}
