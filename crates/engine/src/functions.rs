//! User-defined functions of a container, as its queries call them.
//!
//! They are loaded into a worker with the first call of a page, and answer one call after the
//! other. A call blocks the thread for as long as the function runs, which has a limit.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use model::{Error, Result};
use query::value::Value;
use query::world::World;
use serde_json::Value as Tree;

use crate::api::{Link, Page};
use crate::procedure::failed;
use crate::select::Here;
use crate::{Engine, Env, Kind, Scripts};

/// The functions that a query may call.
#[derive(Clone)]
pub struct QueryFunctions {
    scripts: Arc<dyn Scripts>,
    /// Ids and texts.
    sources: Vec<(String, String)>,
}

impl fmt::Debug for QueryFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sources.iter().map(|(id, _)| id)).finish()
    }
}

impl Engine {
    /// The functions that a query may call; none where its text speaks of none.
    pub fn query_functions(&self, container: &Link, text: &str) -> Result<Option<QueryFunctions>> {
        let speaks = text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"udf."));
        let Some(scripts) = self.options().scripts.clone().filter(|_| speaks) else {
            return Ok(None);
        };
        let mut sources = Vec::new();
        let mut page = Page { items: None, continuation: None };
        loop {
            let found = self.list(container, Kind::UserDefinedFunction, &page)?;
            let named = found.resources.iter().filter(|resource| text.contains(&resource.id));
            sources.extend(named.map(|resource| {
                let body = resource.body.get("body").and_then(Tree::as_str).unwrap_or_default();
                (resource.id.clone(), body.to_owned())
            }));
            match found.continuation {
                Some(continuation) => page.continuation = Some(continuation),
                None => return Ok(Some(QueryFunctions { scripts, sources })),
            }
        }
    }
}

/// Time, chance and functions, as a query sees them.
pub(crate) struct Around<'a> {
    here: Here<'a>,
    functions: Option<&'a QueryFunctions>,
    loaded: Mutex<Option<script::Functions<'a>>>,
}

impl<'a> Around<'a> {
    pub fn new(env: &'a Env, functions: Option<&'a QueryFunctions>) -> Self {
        Self { here: Here(env), functions, loaded: Mutex::new(None) }
    }

    fn run(
        &self,
        functions: &'a QueryFunctions,
        at: usize,
        arguments: &[script::Value],
    ) -> script::Result<script::Value> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_none() {
            let scripts: Vec<script::Script<'_>> = functions
                .sources
                .iter()
                .map(|(id, source)| script::Script { id, source })
                .collect();
            *loaded = Some(functions.scripts.functions(&scripts)?);
        }
        let Some(ready) = loaded.as_mut() else { return Ok(script::Value::Undefined) };
        let answer = ready.call(at, 1, arguments);
        if answer.is_err() {
            // What is left of it is not to be relied on.
            *loaded = None;
        }
        Ok(answer?.pop().unwrap_or(script::Value::Undefined))
    }
}

impl World for Around<'_> {
    fn now_ticks(&self) -> i64 {
        self.here.now_ticks()
    }

    fn random(&self) -> f64 {
        self.here.random()
    }

    fn call(&self, name: &str, arguments: &[Value<'_>]) -> Result<Value<'static>> {
        let unknown = || Error::bad_request(format!("there is no user-defined function '{name}'"));
        let functions = self.functions.ok_or_else(unknown)?;
        let at = functions.sources.iter().position(|(id, _)| id == name).ok_or_else(unknown)?;
        let arguments: Vec<script::Value> = arguments.iter().map(given).collect();
        let answer = blocking(|| self.run(functions, at, &arguments));
        returned(answer.map_err(failed)?)
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

fn given(value: &Value<'_>) -> script::Value {
    if let Some(flag) = value.as_bool() {
        return script::Value::Bool(flag);
    }
    if let Some(number) = value.as_f64() {
        return script::Value::Number(number);
    }
    if let Some(text) = value.as_str() {
        return script::Value::Text(text.to_owned());
    }
    let mut out = Vec::new();
    if matches!(value, Value::Null) {
        return script::Value::Null;
    }
    if !value.write_into(&mut out) {
        return script::Value::Undefined;
    }
    script::Value::Json(String::from_utf8_lossy(&out).into_owned())
}

fn returned(value: script::Value) -> Result<Value<'static>> {
    Ok(match value {
        script::Value::Undefined => Value::Undefined,
        script::Value::Null => Value::Null,
        script::Value::Bool(flag) => Value::Bool(flag),
        script::Value::Number(number) => Value::number(number),
        script::Value::Text(text) => Value::String(Cow::Owned(text)),
        script::Value::Json(text) => {
            model::json::check(text.as_bytes())?;
            let tree: Tree = serde_json::from_str(&text).map_err(|error| {
                Error::bad_request(format!("a user-defined function gave no JSON: {error}"))
            })?;
            Value::from_tree(&tree)
        }
    })
}
