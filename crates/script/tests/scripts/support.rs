//! A host in memory, a pool, and one line to run a script.

use std::collections::BTreeMap;
use std::time::Duration;

use astrarium_script::{
    Call, Calls, Container, Error, ErrorKind, Functions, Host, Item, Limits, Outcome, Page,
    PageRequest, Pool, Program, Query, Script, Settings, Task, Value as Given, WriteOptions,
};
use bytes::Bytes;
use model::{Error as Refusal, Fault, Result};
use serde_json::{Value, json};

pub const SELF: &str = "dbs/AAAAAA==/colls/AAAAAAAAAAA=/";
pub const ALT: &str = "dbs/shop/colls/orders";

/// Items by id; what was asked, in order.
#[derive(Default)]
pub struct Memory {
    pub items: BTreeMap<String, Value>,
    pub asked: Vec<String>,
    pub version: u32,
    pub closed: bool,
    /// Called before each operation.
    pub before: Option<Box<dyn FnMut() + Send>>,
}

impl Memory {
    pub fn with(items: impl IntoIterator<Item = Value>) -> Self {
        let mut memory = Self::default();
        for item in items {
            memory.create(&item.to_string(), &WriteOptions::default()).unwrap();
        }
        memory.asked.clear();
        memory
    }

    fn note(&mut self, asked: String) {
        self.asked.push(asked);
        if let Some(before) = &mut self.before {
            before();
        }
    }

    fn store(&mut self, body: &str) -> Result<Bytes> {
        let parsed = serde_json::from_str::<Value>(body);
        let mut item = parsed.map_err(|e| Refusal::bad_request(e.to_string()))?;
        let id = item["id"].as_str().ok_or_else(|| Refusal::bad_request("no id"))?.to_owned();
        self.version += 1;
        let rid = self
            .items
            .get(&id)
            .map_or(json!(format!("rid{}", self.version)), |old| old["_rid"].clone());
        item["_self"] = json!(format!("{SELF}docs/{}/", rid.as_str().unwrap()));
        item["_rid"] = rid;
        item["_etag"] = json!(format!("\"{}\"", self.version));
        let bytes = Bytes::from(item.to_string());
        self.items.insert(id, item);
        Ok(bytes)
    }

    fn find(&self, item: &Item, if_match: Option<&str>) -> Result<&Value> {
        let found = match item {
            Item::Id(id) => self.items.get(id),
            Item::Rid { rid, id: Some(id) } => {
                self.items.get(id).filter(|item| item["_rid"] == rid.as_str())
            }
            Item::Rid { rid, id: None } => {
                self.items.values().find(|item| item["_rid"] == rid.as_str())
            }
        };
        let found = found.ok_or_else(|| Refusal::new(Fault::NotFound, "no such item"))?;
        match if_match {
            Some(etag) if found["_etag"] != etag => {
                Err(Refusal::new(Fault::PreconditionFailed, "another etag"))
            }
            _ => Ok(found),
        }
    }
}

impl Host for Memory {
    fn create(&mut self, body: &str, options: &WriteOptions) -> Result<Bytes> {
        self.note(format!("create {body} {:?}", options.indexing));
        let id = serde_json::from_str::<Value>(body).ok().map(|item| item["id"].clone());
        if id.as_ref().and_then(Value::as_str).is_some_and(|id| self.items.contains_key(id)) {
            return Err(Refusal::new(Fault::Conflict, "it exists"));
        }
        self.store(body)
    }

    fn upsert(&mut self, body: &str, options: &WriteOptions) -> Result<(Bytes, bool)> {
        self.note(format!("upsert {body} {:?}", options.if_match));
        let before = self.items.len();
        let bytes = self.store(body)?;
        Ok((bytes, self.items.len() > before))
    }

    fn replace(&mut self, item: &Item, body: &str, options: &WriteOptions) -> Result<Bytes> {
        self.note(format!("replace {item:?}"));
        self.find(item, options.if_match.as_deref())?;
        self.store(body)
    }

    fn delete(&mut self, item: &Item, if_match: Option<&str>) -> Result<()> {
        self.note(format!("delete {item:?} {if_match:?}"));
        let id = self.find(item, if_match)?["id"].as_str().unwrap().to_owned();
        self.items.remove(&id);
        Ok(())
    }

    fn read(&mut self, item: &Item, if_none_match: Option<&str>) -> Result<Option<Bytes>> {
        self.note(format!("read {item:?} {if_none_match:?}"));
        let found = self.find(item, None)?;
        let same = if_none_match.is_some_and(|etag| found["_etag"] == etag);
        Ok((!same).then(|| Bytes::from(found.to_string())))
    }

    fn list(&mut self, page: &PageRequest) -> Result<Page> {
        self.note(format!("list {} from {:?}", page.size, page.continuation));
        let skip = page.continuation.parse().unwrap_or(0);
        let items = self.items.values().skip(skip).take(page.size as usize);
        let items: Vec<Bytes> = items.map(|item| Bytes::from(item.to_string())).collect();
        let next = skip + items.len();
        let continuation = (next < self.items.len()).then(|| next.to_string());
        Ok(Page { items, continuation })
    }

    /// Knows no SQL: everything, or what a test expects of a distance.
    fn query(&mut self, query: &Query, page: &PageRequest) -> Result<Page> {
        let parameters = query.parameters.as_deref().unwrap_or("none");
        self.note(format!("query {} with {parameters}", query.text));
        match query.text.as_str() {
            "SELECT * FROM c" => self.list(page),
            "SELECT VALUE ST_DISTANCE(@p0, @p1)" => {
                Ok(Page { items: vec![Bytes::from("7.5")], continuation: None })
            }
            _ => Err(Refusal::bad_request("Syntax error")),
        }
    }

    fn accepts(&self) -> bool {
        !self.closed
    }
}

pub fn program() -> Program {
    Program { path: env!("CARGO_BIN_EXE_script-worker").into(), arguments: Vec::new() }
}

/// Generous with time where nothing should run into it: the machine may be busy.
pub fn settings() -> Settings {
    Settings {
        program: program(),
        workers: 1,
        function_workers: 1,
        ahead: 1,
        waiting: 8,
        limits: Limits { time: Duration::from_secs(60), ..Limits::default() },
    }
}

pub fn container() -> Container {
    Container { self_link: SELF.into(), alt_link: ALT.into(), size_mb: 3, max_size_mb: 20_480 }
}

/// Runs a script in a role.
pub fn run(
    pool: &Pool,
    host: &mut dyn Host,
    source: &str,
    task: Task<'_>,
) -> std::result::Result<Outcome, Error> {
    let script = Script { id: "test", source };
    pool.run(&Call { script, container: &container(), task, log: true, seed: 7 }, host)
}

/// Runs a procedure; gives what it answers, or how it failed.
pub fn procedure(pool: &Pool, host: &mut dyn Host, source: &str, arguments: &str) -> String {
    shown(run(pool, host, source, Task::Procedure { arguments }))
}

/// The body, or the kind and the first line of the message.
pub fn shown(ended: std::result::Result<Outcome, Error>) -> String {
    match ended {
        Ok(outcome) => outcome.body.unwrap_or_else(|| "nothing".to_owned()),
        Err(Error { kind, message, .. }) => {
            let first = message.lines().next().unwrap_or_default();
            let first =
                first.strip_prefix("Encountered exception while executing function. Exception = ");
            match (kind, first) {
                (ErrorKind::Thrown(Some(number)), Some(first)) => {
                    format!("throws {number} {first}")
                }
                (ErrorKind::Thrown(None), Some(first)) => format!("throws {first}"),
                _ => format!("{kind:?}: {message}"),
            }
        }
    }
}

/// The most bytes of calls that are sent together here.
const CALLS_BYTES: usize = 1024 * 1024;

/// The values of one function over rows of arguments, however many exchanges that takes.
pub fn call_all(
    functions: &mut Functions<'_>,
    function: usize,
    rows: &[&[Given<'_>]],
) -> std::result::Result<Vec<Given<'static>>, Error> {
    let mut values = Vec::new();
    while values.len() < rows.len() {
        let mut calls = Calls::default();
        for row in &rows[values.len()..] {
            let mut call = Vec::new();
            Calls::encode(&mut call, function, row);
            if !calls.is_empty() && calls.bytes() + call.len() > CALLS_BYTES {
                break;
            }
            calls.add(&call);
        }
        let answers = functions.call(&calls)?;
        values.extend(answers.values);
        if let Some(failed) = answers.failed {
            return Err(failed);
        }
    }
    Ok(values)
}
