//! Scripts: stored procedures, and triggers around the write of an item.
//!
//! A script runs in a worker process, and its host on a thread that may block. What it did is
//! committed when it has ended well; when somebody else got in between, it runs once more, with
//! the partition key to itself. A script has no effect but through its transaction, so running it
//! again is as good as running it once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::partition_key::PartitionKey;
use model::{Error, Fault, Result, charge, json};
use script::{Call, ErrorKind, Outcome, Script, Task, Verb};
use serde_json::Value;

use crate::api::{Answer, Conditions, ItemWrite, Link, Resource};
use crate::item::Mode;
use crate::partition::Partition;
use crate::transaction::{Committed, Transaction};
use crate::{Container, Engine, Kind, QueryFunctions, keys};

/// What runs scripts.
pub trait Scripts: std::fmt::Debug + Send + Sync {
    /// Runs one to its end; blocks the thread meanwhile.
    fn run(&self, call: &Call<'_>, host: &mut dyn script::Host) -> script::Result<Outcome>;

    /// Loads functions for one page of a query.
    fn functions<'p>(&'p self, _scripts: &[Script<'_>]) -> script::Result<script::Functions<'p>> {
        Err(script::Error::new(ErrorKind::Worker, "functions cannot be called here"))
    }
}

impl Scripts for script::Pool {
    fn run(&self, call: &Call<'_>, host: &mut dyn script::Host) -> script::Result<Outcome> {
        Self::run(self, call, host)
    }

    fn functions<'p>(&'p self, scripts: &[Script<'_>]) -> script::Result<script::Functions<'p>> {
        Self::functions(self, scripts)
    }
}

/// How scripts are run by worker processes.
#[derive(Debug, Clone)]
pub struct ScriptWorkers {
    /// The program that is a worker when started with the argument below: it calls `script_worker`.
    pub program: PathBuf,
    /// What tells it to be one.
    pub argument: &'static str,
    /// How many run at once.
    pub workers: usize,
    /// How long a script may run.
    pub time: Duration,
}

impl ScriptWorkers {
    /// Callers that may wait for a worker.
    const WAITING: usize = 1_000;

    /// Starts the first; the others when they are needed.
    pub fn start(&self) -> Arc<dyn Scripts> {
        let arguments = vec![self.argument.into()];
        Arc::new(script::Pool::new(&script::Settings {
            program: script::Program { path: self.program.clone(), arguments },
            workers: self.workers,
            function_workers: self.workers,
            ahead: 1,
            waiting: Self::WAITING,
            limits: script::Limits { time: self.time, ..script::Limits::default() },
        }))
    }
}

/// An answer, and what was logged on the way to it.
#[derive(Debug)]
pub struct Logged<T> {
    /// The answer.
    pub answer: Answer<T>,
    /// What scripts logged, if that was asked for.
    pub log: String,
}

/// A write of an item, with the triggers around it.
#[derive(Debug, Clone)]
pub struct TriggeredWrite {
    /// What it does.
    pub verb: WriteVerb,
    /// The item, where the body does not name it.
    pub id: Option<String>,
    /// The item; empty for a delete.
    pub body: Bytes,
    /// Etag conditions.
    pub conditions: Conditions,
    /// Id of the trigger that runs before it.
    pub before: Option<String>,
    /// Id of the trigger that runs after it.
    pub after: Option<String>,
    /// Whether `console.log` is kept.
    pub log: bool,
}

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteVerb {
    /// Stores a new item.
    Create,
    /// Stores an item, new or not.
    Upsert,
    /// Stores a new version of an item.
    Replace,
    /// Removes an item.
    Delete,
}

impl WriteVerb {
    fn verb(self) -> Verb {
        match self {
            Self::Create => Verb::Create,
            Self::Upsert => Verb::Upsert,
            Self::Replace => Verb::Replace,
            Self::Delete => Verb::Delete,
        }
    }
}

impl Engine {
    /// Runs a stored procedure under a partition key. The arguments are a JSON array; the result is
    /// JSON text.
    pub async fn execute(
        &self,
        procedure: &Link,
        key: Option<PartitionKey>,
        arguments: &[u8],
        log: bool,
    ) -> Result<Logged<String>> {
        let container = self.container_of(procedure)?;
        let source = source_of(&*self.read(procedure)?);
        let arguments = arguments_text(arguments)?;
        let work = Arc::new(Work {
            scripts: self.scripts()?,
            container: script_container(&container),
            functions: self.script_functions(&procedure.0)?,
            log,
            seed: seed(&container),
        });
        let run = move |work: &Work, transaction: &mut Transaction, log: &mut String| {
            let task = Task::Procedure { arguments: &arguments };
            let outcome = work.run(&source, task, transaction, log)?;
            Ok(outcome.body.unwrap_or_default())
        };
        let settle = |body: String, committed: &Committed| committed.settle(body);
        container.transact(key, work, run, settle).await
    }

    /// Writes an item with triggers before and after it, all in one transaction.
    pub async fn write_with_triggers(
        &self,
        container: &Arc<Container>,
        link: &Link,
        key: Option<PartitionKey>,
        write: TriggeredWrite,
    ) -> Result<Logged<ItemWrite>> {
        let trigger = |id: &Option<String>, kind: &str| {
            id.as_ref().map(|id| self.trigger(link, id, kind, write.verb)).transpose()
        };
        let (before, after) = (trigger(&write.before, "Pre")?, trigger(&write.after, "Post")?);
        let work = Arc::new(Work {
            scripts: self.scripts()?,
            container: script_container(container),
            functions: self.script_functions(&link.0)?,
            log: write.log,
            seed: seed(container),
        });
        let run = move |work: &Work, transaction: &mut Transaction, log: &mut String| {
            triggered(work, &write, (before.as_ref(), after.as_ref()), transaction, log)
        };
        let settle = |item: ItemWrite, committed: &Committed| committed.settle_item(item);
        container.transact(key, work, run, settle).await
    }

    /// The functions that queries of a container's scripts may call.
    fn script_functions(&self, link: &[(Kind, String)]) -> Result<Option<Arc<QueryFunctions>>> {
        let container = Link(link.iter().take(2).cloned().collect());
        Ok(self.functions_of(&container)?.map(Arc::new))
    }

    fn container_of(&self, link: &Link) -> Result<Arc<Container>> {
        match &link.0[..] {
            [(_, database), (_, container), ..] => self.container(database, container),
            _ => Err(Error::bad_request("a script belongs to a container")),
        }
    }

    fn scripts(&self) -> Result<Arc<dyn Scripts>> {
        self.options().scripts.clone().ok_or_else(|| {
            Error::bad_request(
                "scripts are switched off on this server: start it with script workers",
            )
        })
    }

    /// A trigger that fits a write.
    fn trigger(&self, container: &Link, id: &str, kind: &str, verb: WriteVerb) -> Result<Source> {
        let mut link = container.clone();
        link.0.push((Kind::Trigger, id.to_owned()));
        let resource = self.read(&link).map_err(|error| match error.fault {
            Fault::NotFound => Error::bad_request(format!("there is no trigger with id '{id}'")),
            _ => error,
        })?;
        let text = |name: &str| resource.body.get(name).and_then(Value::as_str).unwrap_or("");
        if text("triggerType") != kind {
            return Err(Error::bad_request(format!("trigger '{id}' is no {kind}-trigger")));
        }
        let operation = text("triggerOperation");
        let fits = operation == "All"
            || operation == verb.verb().name()
            || (operation == "Update" && verb == WriteVerb::Replace);
        if !fits {
            return Err(Error::bad_request(format!(
                "trigger '{id}' is for {operation}, not for {}",
                verb.verb().name()
            )));
        }
        Ok(source_of(&resource))
    }
}

/// A script's id and text.
struct Source {
    id: String,
    text: String,
}

fn source_of(resource: &Resource) -> Source {
    let text = resource.body.get("body").and_then(Value::as_str).unwrap_or_default();
    Source { id: resource.id.clone(), text: text.to_owned() }
}

/// A script's error as the client is told it.
pub(crate) fn failed(error: script::Error) -> Error {
    let own = Some(error.substatus()).filter(|substatus| *substatus != 0);
    Error { own_substatus: own, ..Error::new(error.fault(), error.message) }
}

/// What all scripts of a request share.
struct Work {
    scripts: Arc<dyn Scripts>,
    container: script::Container,
    functions: Option<Arc<QueryFunctions>>,
    log: bool,
    seed: u128,
}

impl Work {
    fn run(
        &self,
        source: &Source,
        task: Task<'_>,
        transaction: &mut Transaction,
        log: &mut String,
    ) -> Result<Outcome> {
        let call = Call {
            script: Script { id: &source.id, source: &source.text },
            container: &self.container,
            task,
            log: self.log,
            seed: self.seed,
        };
        match self.scripts.run(&call, transaction) {
            Ok(outcome) => {
                log.push_str(&outcome.log);
                Ok(outcome)
            }
            Err(error) => {
                log.push_str(&error.log);
                if error.kind == ErrorKind::Worker {
                    tracing::error!(script = source.id, %error, "a script's worker");
                }
                Err(failed(error))
            }
        }
    }
}

fn script_container(container: &Container) -> script::Container {
    let bytes: u64 = container.partitions().iter().map(|partition| partition.head().bytes).sum();
    script::Container {
        self_link: container.self_link.clone(),
        alt_link: container.link().to_owned(),
        size_mb: bytes >> 20,
        // A container grows as long as there is room on the disk.
        max_size_mb: u64::from(u32::MAX),
    }
}

fn seed(container: &Container) -> u128 {
    let secret = container.env.secret();
    let (low, _) = secret.split_first_chunk().expect("32 bytes are more than 16");
    u128::from_le_bytes(*low)
}

fn arguments_text(arguments: &[u8]) -> Result<String> {
    let wrong = || Error::bad_request("the arguments of a stored procedure are a JSON array");
    if arguments.is_empty() {
        return Ok("[]".to_owned());
    }
    let raw = json::check(arguments)?;
    if json::kind(raw) != json::Kind::Array {
        return Err(wrong());
    }
    String::from_utf8(raw.to_vec()).map_err(|_| wrong())
}

/// A write and its triggers.
fn triggered(
    work: &Work,
    write: &TriggeredWrite,
    (before, after): (Option<&Source>, Option<&Source>),
    transaction: &mut Transaction,
    log: &mut String,
) -> Result<ItemWrite> {
    let verb = write.verb.verb();
    let sent = std::str::from_utf8(&write.body)
        .map_err(|_| Error::bad_request("the body is not valid JSON: it is not UTF-8"))?;
    let sent = (write.verb != WriteVerb::Delete).then_some(sent);
    let mut body = sent.map(str::to_owned);
    if let Some(before) = before {
        // What is no JSON is refused here, not by the script's engine.
        sent.map(|sent| json::check(sent.as_bytes())).transpose()?;
        let task = Task::Before { verb, body: body.as_deref() };
        if let Some(changed) = work.run(before, task, transaction, log)?.body {
            body = sent.map(|_| changed);
        }
    }
    let bytes = Bytes::from(body.clone().unwrap_or_default());
    let (id, conditions) = (write.id.as_deref(), &write.conditions);
    let mut item = match write.verb {
        WriteVerb::Create => transaction.write(Mode::Create, None, bytes, conditions)?,
        WriteVerb::Upsert => transaction.write(Mode::Upsert, None, bytes, conditions)?,
        WriteVerb::Replace => transaction.write(Mode::Replace, id, bytes, conditions)?,
        WriteVerb::Delete => {
            let row = transaction.delete(id.unwrap_or_default(), conditions)?;
            transaction.charge += charge::delete(row.body_bytes as usize, 0);
            ItemWrite { body: Bytes::new(), etag: row.etag, created: false }
        }
    };
    if let Some(after) = after {
        let stored =
            std::str::from_utf8(&item.body).map_err(|_| keys::corrupt("an item's body"))?;
        let stored = sent.map(|_| stored);
        let task = Task::After { verb, body: body.as_deref(), stored };
        if let Some(shown) = work.run(after, task, transaction, log)?.body {
            item.body = Bytes::from(shown);
        }
    }
    Ok(item)
}

impl Container {
    /// Runs something in a transaction under a partition key, and commits it.
    async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        key: Option<PartitionKey>,
        work: Arc<Work>,
        run: impl Fn(&Work, &mut Transaction, &mut String) -> Result<T> + Send + Sync + 'static,
        settle: impl Fn(T, &Committed) -> T,
    ) -> Result<Logged<T>> {
        self.check_alive()?;
        let definition = self.definition();
        let key = self.item_partition_key(key)?;
        let epk = definition.partition_key.epk(&key);
        if let Some(answer) = self.throttle(&self.partition_of(&epk)) {
            return Ok(Logged { answer, log: String::new() });
        }
        let prefix =
            Bytes::copy_from_slice(&keys::key_prefix_at(&definition.partition_key, &key, &epk));
        let run = Arc::new(run);
        let _turn = self.turns.take(&prefix).await?;
        let (mut done, mut log, mut charge) = (Err(clash()), String::new(), 0.0);
        for holds in [false, true] {
            let (run, work) = (run.clone(), work.clone());
            let mut transaction =
                Transaction::new(self.clone(), key.clone(), holds, work.functions.clone());
            let ran = tokio::task::spawn_blocking(move || {
                let mut log = String::new();
                let result = run(&work, &mut transaction, &mut log);
                (transaction, result, log)
            });
            let (transaction, result, logged) =
                ran.await.map_err(|_| Error::new(Fault::Internal, "a script's host panicked"))?;
            log = logged;
            charge += transaction.charge;
            done = match result {
                Ok(result) => transaction.commit().await.map(|committed| (result, committed)),
                Err(error) => Err(error),
            };
            let again = [Fault::RetryWith, Fault::RangeGone];
            if !done.as_ref().is_err_and(|error| again.contains(&error.fault)) {
                break;
            }
        }
        let partition = self.partition_of(&epk);
        let answer = self.answer_of(&partition, charge, done, settle);
        Ok(Logged { answer, log })
    }

    fn answer_of<T>(
        &self,
        partition: &Partition,
        charge: f64,
        done: Result<(T, Option<Committed>)>,
        settle: impl Fn(T, &Committed) -> T,
    ) -> Answer<T> {
        let lsn = match &done {
            Ok((_, Some(committed))) => committed.lsn(),
            _ => partition.lsn(),
        };
        let result = done.map(|(result, committed)| match &committed {
            Some(committed) => settle(result, committed),
            None => result,
        });
        let result = result.map_err(|error| match error.fault {
            Fault::RangeGone => clash(),
            _ => error,
        });
        let charge = charge + charge::metadata();
        let charge = (charge * 100.0).round() / 100.0;
        self.charged(Answer { at: partition.at(lsn, None), charge, retry_after_ms: None, result })
    }
}

fn clash() -> Error {
    Error::new(
        Fault::RetryWith,
        "another transaction came in between, more than once; the same request may succeed at once",
    )
}
