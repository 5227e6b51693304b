//! User-defined functions of a container, as its queries call them.
//!
//! They are loaded into a worker with the first call of a page. Calls are gathered and made
//! together where the query can say beforehand what it will ask; they block the thread for as long
//! as functions run, which has a limit. What a call gave is remembered for the page: the same
//! function with the same arguments is not called twice.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Error, Fault, Result};
use query::value::Value;
use query::world::{Rehearsal, World};
use script::Calls;
use serde_json::Value as Tree;

use crate::api::{Link, Page, Resource};
use crate::procedure::failed;
use crate::select::Here;
use crate::{Engine, Env, Kind, Scripts};

mod known;
mod value;

use known::{Answer, Known, Noted};
use value::{given, returned};

/// Calls gathered at once at first, and at most. Few in the beginning: the query may want one row.
const FEW_CALLS: usize = 32;
const MANY_CALLS: usize = 16 * 1024;
/// By how much more are gathered each time.
const GROWTH: usize = 4;
/// Bytes of calls gathered at once.
const CALLS_BYTES: usize = 1024 * 1024;
/// How long functions may run for one page, all their calls together.
const PAGE_MS: u64 = 60_000;

/// The functions that a query may call.
#[derive(Clone)]
pub struct QueryFunctions {
    scripts: Arc<dyn Scripts>,
    functions: Vec<Arc<Resource>>,
}

impl fmt::Debug for QueryFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.functions.iter().map(|function| &function.id)).finish()
    }
}

impl Engine {
    /// The functions that a query may call; none where its text speaks of none.
    pub fn query_functions(&self, container: &Link, text: &str) -> Result<Option<QueryFunctions>> {
        if !speaks_of_functions(text) {
            return Ok(None);
        }
        Ok(self.functions_of(container)?.and_then(|all| all.named_in(text)))
    }

    /// All functions of a container; none where no scripts are run.
    pub(crate) fn functions_of(&self, container: &Link) -> Result<Option<QueryFunctions>> {
        let Some(scripts) = self.options().scripts.clone() else { return Ok(None) };
        let mut functions = Vec::new();
        let mut page = Page { items: None, continuation: None };
        loop {
            let found = self.list(container, Kind::UserDefinedFunction, &page)?;
            functions.extend(found.resources);
            match found.continuation {
                Some(continuation) => page.continuation = Some(continuation),
                None => return Ok(Some(QueryFunctions { scripts, functions })),
            }
        }
    }
}

fn speaks_of_functions(text: &str) -> bool {
    text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"udf."))
}

/// Whether a text has a name after a dot. What is not called is not loaded: it may be broken.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        before.trim_end().ends_with('.') && !after.starts_with(is_part)
    })
}

impl QueryFunctions {
    /// Those of which a query may speak; none where it speaks of none.
    pub(crate) fn named_in(&self, text: &str) -> Option<Self> {
        let named = |function: &&Arc<Resource>| names(text, &function.id);
        speaks_of_functions(text).then(|| Self {
            scripts: self.scripts.clone(),
            functions: self.functions.iter().filter(named).cloned().collect(),
        })
    }

    fn load(&self) -> script::Result<script::Functions<'_>> {
        let mut scripts = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            let source = function.body.get("body").and_then(Tree::as_str).unwrap_or_default();
            scripts.push(script::Script { id: &function.id, source });
        }
        self.scripts.functions(&scripts)
    }
}

/// Time, chance and functions, as a query sees them.
pub(crate) struct Around<'a> {
    here: Here<'a>,
    functions: Option<&'a QueryFunctions>,
    state: Mutex<State<'a>>,
}

/// What a page knows of its functions.
struct State<'a> {
    loaded: Option<script::Functions<'a>>,
    /// Why they could not be loaded.
    refused: Option<script::Error>,
    known: Known,
    /// Whether calls are noted, and not made.
    rehearsing: bool,
    /// How many calls are gathered at once.
    window: usize,
    /// How long functions have run.
    ran_ms: u64,
    /// The call that is looked at, as it travels.
    call: Vec<u8>,
}

impl<'a> Around<'a> {
    pub fn new(env: &'a Env, functions: Option<&'a QueryFunctions>) -> Self {
        let state = State {
            loaded: None,
            refused: None,
            known: Known::default(),
            rehearsing: false,
            window: FEW_CALLS,
            ran_ms: 0,
            call: Vec::new(),
        };
        Self { here: Here(env), functions, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes calls. Fails where it cannot be said which of them is to blame.
    fn make(&self, state: &mut State<'a>, calls: &Calls) -> Result<script::Answers> {
        let Some(functions) = self.functions else { return Err(none("")) };
        if let Some(refused) = &state.refused {
            return Err(failed(refused.clone()));
        }
        if state.ran_ms > PAGE_MS {
            let message = "The functions of this query ran longer than they may for one page.";
            return Err(Error::new(Fault::RequestTimeout, message));
        }
        let env = self.here.0;
        let began_ms = env.now_ms();
        let answers = blocking(|| {
            let ready = match &mut state.loaded {
                Some(ready) => ready,
                none => none.insert(functions.load().inspect_err(|error| {
                    state.refused = Some(error.clone());
                })?),
            };
            ready.call(calls)
        });
        if !state.loaded.as_ref().is_some_and(script::Functions::are_loaded) {
            state.loaded = None;
        }
        state.ran_ms += env.now_ms().saturating_sub(began_ms);
        answers.map_err(failed)
    }

    /// Makes one call.
    fn make_one(&self, state: &mut State<'a>, call: &[u8]) -> Answer {
        let mut calls = Calls::default();
        calls.add(call);
        let answers = self.make(state, &calls)?;
        match (answers.values.into_iter().next(), answers.failed) {
            (Some(value), _) => returned(value),
            (None, Some(error)) => Err(failed(error)),
            (None, None) => Err(Error::new(Fault::Internal, "a function gave no value")),
        }
    }

    /// Makes the calls noted, one by one: together they broke the worker, or were too much, and it
    /// is not known which of them did.
    fn make_each(&self, state: &mut State<'a>, noted: &[Noted]) -> usize {
        state.window = FEW_CALLS;
        // What comes after a failure would take long, and may never be asked for.
        for (at, one) in noted.iter().enumerate().take(FEW_CALLS) {
            let answer = self.make_one(state, &one.call);
            let failed = answer.is_err();
            state.known.answer_noted(one, answer);
            if failed {
                return at + 1;
            }
        }
        noted.len().min(FEW_CALLS)
    }
}

fn none(name: &str) -> Error {
    Error::bad_request(format!("there is no user-defined function '{name}'"))
}

impl World for Around<'_> {
    fn now_ticks(&self) -> i64 {
        self.here.now_ticks()
    }

    fn random(&self) -> f64 {
        self.here.random()
    }

    fn call(&self, name: &str, arguments: &[Value<'_>]) -> Result<Value<'static>> {
        let functions = self.functions.ok_or_else(|| none(name))?;
        let at = functions.functions.iter().position(|function| function.id == name);
        let at = at.ok_or_else(|| none(name))?;
        let mut state = self.state();
        let state = &mut *state;
        state.call.clear();
        given(&mut state.call, at, arguments);
        if let Some(answer) = state.known.find(&state.call) {
            return answer.clone();
        }
        if state.rehearsing {
            if !state.known.is_full() && state.known.noted_bytes() < CALLS_BYTES {
                state.known.note(&state.call);
            }
            return Ok(Value::Undefined);
        }
        let call = std::mem::take(&mut state.call);
        let answer = self.make_one(state, &call);
        state.known.put(&call, &answer);
        answer
    }

    fn rehearsal(&self) -> Option<&dyn Rehearsal> {
        self.functions.map(|_| self as &dyn Rehearsal)
    }
}

impl Rehearsal for Around<'_> {
    fn begin(&self, again: bool) {
        let mut state = self.state();
        if !again {
            state.known.make_room();
        }
        state.rehearsing = true;
    }

    fn noted(&self) -> usize {
        self.state().known.noted()
    }

    fn is_full(&self) -> bool {
        let state = self.state();
        state.known.is_full()
            || state.known.noted() >= state.window
            || state.known.noted_bytes() >= CALLS_BYTES
    }

    fn finish(&self) -> usize {
        let mut state = self.state();
        let state = &mut *state;
        state.rehearsing = false;
        let noted = state.known.take_noted();
        if noted.is_empty() {
            return 0;
        }
        let mut calls = Calls::default();
        noted.iter().for_each(|one| calls.add(&one.call));
        let Ok(answers) = self.make(state, &calls) else { return self.make_each(state, &noted) };
        state.window = (state.window * GROWTH).min(MANY_CALLS);
        let values = answers.values.into_iter().map(returned);
        let answers = values.chain(answers.failed.map(|error| Err(failed(error))));
        let mut answered = 0;
        for (one, answer) in noted.iter().zip(answers) {
            state.known.answer_noted(one, answer);
            answered += 1;
        }
        answered
    }
}

/// Lets others have the other threads while this one waits for a function.
fn blocking<T>(run: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_that_a_text_calls_are_named_in_it() {
        for (text, name, expected) in [
            ("SELECT VALUE udf.tax(c.n) FROM c", "tax", true),
            ("SELECT VALUE UDF . tax (c.n) FROM c", "tax", true),
            ("SELECT VALUE udf.taxes(c.n) FROM c", "tax", false),
            ("SELECT VALUE udf.tax(c.n) FROM c", "c", false),
            ("SELECT VALUE udf.tax(c.n) FROM c", "x", false),
            ("SELECT VALUE udf.é(c.n), udf.ée(1) FROM c", "é", true),
        ] {
            assert_eq!(names(text, name), expected, "{text} {name}");
        }
    }
}
