//! Building, starting and stopping a processor.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot, watch};

use crate::admin::Fleet;
use crate::change::Change;
use crate::env::{Env, Machine, Task};
use crate::feed::Feed;
use crate::host::{Host, Report, StartError, Stop};
use crate::monitor::{Log, Monitor};
use crate::names::Names;
use crate::observer::{Context, Factory, HandlerError, Observer};
use crate::options::{Contradiction, Options};
use crate::shared::Shared;
use crate::store::LeaseStore;

/// What is monitored; leases are named after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The host name of the account's endpoint.
    pub account_host: String,
    /// The resource id of the database.
    pub database_rid: String,
    /// The resource id of the container.
    pub container_rid: String,
}

impl Subject {
    /// The ids of the documents of the processor with this lease prefix.
    pub fn names(&self, lease_prefix: &str) -> Names {
        Names::new(lease_prefix, &self.account_host, &self.database_rid, &self.container_rid)
    }
}

/// Puts a processor together.
pub struct Builder {
    feed: Arc<dyn Feed>,
    store: Arc<dyn LeaseStore>,
    letters: Option<Arc<dyn LeaseStore>>,
    subject: Subject,
    options: Options,
    observers: Option<Factory>,
    monitors: Vec<Arc<dyn Monitor>>,
    env: Option<Arc<dyn Env>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Why a processor was not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Options that cannot be meant so.
    #[error(transparent)]
    Options(#[from] Contradiction),
    /// There is nothing to hand changes to.
    #[error("no observer: use observer, factory, handler or typed_handler")]
    NoObserver,
}

impl Builder {
    /// Over a feed and a lease container.
    pub fn new(feed: Arc<dyn Feed>, store: Arc<dyn LeaseStore>, subject: Subject) -> Self {
        Self {
            feed,
            store,
            letters: None,
            subject,
            options: Options::default(),
            observers: None,
            monitors: vec![Arc::new(Log)],
            env: None,
        }
    }

    /// How it works.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Where changes go that are set aside.
    pub fn dead_letters(mut self, letters: Arc<dyn LeaseStore>) -> Self {
        self.letters = Some(letters);
        self
    }

    /// Who hears of everything, beside the log.
    pub fn monitor(mut self, monitor: Arc<dyn Monitor>) -> Self {
        self.monitors.push(monitor);
        self
    }

    /// The machine it runs on; a simulation brings its own.
    pub fn env(mut self, env: Arc<dyn Env>) -> Self {
        self.env = Some(env);
        self
    }

    /// A new observer for each lease.
    pub fn factory(mut self, factory: Factory) -> Self {
        self.observers = Some(factory);
        self
    }

    /// A new observer for each lease.
    pub fn observer<O: Observer>(self, make: impl Fn() -> O + Send + Sync + 'static) -> Self {
        self.factory(Factory::new(make))
    }

    /// A function for changes as bytes.
    pub fn handler<F, T>(self, handle: F) -> Self
    where
        F: Fn(Context, Vec<Change>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.factory(Factory::function(handle))
    }

    /// A function for changes as a type. What does not fit the type is an error of the batch, and
    /// treated as the error policy says.
    pub fn typed_handler<V, F, T>(self, handle: F) -> Self
    where
        V: DeserializeOwned + Send + 'static,
        F: Fn(Context, Vec<V>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let handle = Arc::new(handle);
        self.handler(move |context, changes| {
            let handle = Arc::clone(&handle);
            async move {
                let values: Result<Vec<V>, _> = changes.iter().map(Change::parse).collect();
                handle(context, values?).await
            }
        })
    }

    /// The same fleet, seen from outside.
    pub fn fleet(&self) -> Fleet {
        Fleet::new(
            Arc::clone(&self.store),
            Arc::clone(&self.feed),
            self.letters.clone(),
            self.subject.names(&self.options.lease_prefix),
        )
    }

    /// Checks everything that can be checked without asking anybody.
    pub fn build(self) -> Result<Processor, BuildError> {
        self.options.check(self.letters.is_some())?;
        let observers = self.observers.ok_or(BuildError::NoObserver)?;
        let env = self.env.unwrap_or_else(|| Arc::new(Machine::default()));
        let names = self.subject.names(&self.options.lease_prefix);
        let make = move || {
            Shared::new(
                Arc::clone(&env),
                Arc::clone(&self.store),
                Arc::clone(&self.feed),
                self.letters.clone(),
                observers.clone(),
                self.monitors.clone(),
                self.options.clone(),
                names.clone(),
            )
        };
        Ok(Processor { make: Box::new(make), running: None })
    }
}

struct Running {
    stops: mpsc::Sender<Stop>,
    ended: watch::Receiver<Option<Report>>,
    env: Arc<dyn Env>,
    _task: Task,
}

/// A host of a processor. Dropping it without [`Self::stop`] is a crash: its leases expire.
pub struct Processor {
    make: Box<dyn Fn() -> Shared + Send + Sync>,
    running: Option<Running>,
}

impl std::fmt::Debug for Processor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processor")
            .field("running", &self.running.is_some())
            .finish_non_exhaustive()
    }
}

impl Processor {
    /// Starts; returns when the leases exist and this host has joined. From then on every change
    /// is delivered. A processor that was stopped may be started again.
    pub async fn start(&mut self) -> Result<(), StartError> {
        if self.running.as_ref().is_some_and(|running| running.ended.borrow().is_none()) {
            return Err(StartError::Leases("the processor is running already".into()));
        }
        let shared = Arc::new((self.make)());
        let env = Arc::clone(&shared.env);
        let host = Host::begin(shared).await?;
        let (stops, heard) = mpsc::channel(1);
        let (ended_in, ended) = watch::channel(None);
        let work = async move {
            let report = host.run(heard).await;
            ended_in.send_replace(Some(report));
        };
        let task = env.spawn(Box::pin(work));
        self.running = Some(Running { stops, ended, env, _task: task });
        Ok(())
    }

    /// Stops: handlers finish, positions are saved, leases go to other hosts. After the time is up
    /// it stops in any case, and reports what was left.
    pub async fn stop(&mut self, within: Duration) -> Report {
        let Some(running) = self.running.take() else { return Report::default() };
        let (done, report) = oneshot::channel();
        let deadline = running.env.now() + within;
        if running.stops.send(Stop { deadline, done }).await.is_err() {
            return running.ended.borrow().clone().unwrap_or_default();
        }
        match report.await {
            Ok(report) => report,
            Err(_) => running.ended.borrow().clone().unwrap_or_default(),
        }
    }

    /// Waits until it has ended by itself, because it could not go on.
    pub async fn ended(&self) -> Report {
        let Some(running) = &self.running else { return Report::default() };
        let mut ended = running.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(report) => report.clone().unwrap_or_default(),
            Err(_) => Report::default(),
        }
    }
}
