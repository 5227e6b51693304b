//! What the user of the library brings: a handler of changes.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::change::Change;
use crate::env::Later;
use crate::range::{Gate, Note};
use crate::span::Span;

/// Any error of a handler.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// Why an observer is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CloseReason {
    /// The processor was stopped.
    Shutdown,
    /// The lease was handed to another host, its position saved.
    HandedOff,
    /// Another host has taken the lease, or it was deleted.
    LeaseLost,
    /// The range was split or merged; its children go on.
    LeaseGone,
    /// This host was cut off from the lease container for so long that others may have its leases,
    /// or another process has its name.
    Fenced,
    /// The handler failed and the policy is to stop.
    ObserverError,
    /// The monitored container is gone.
    ResourceGone,
    /// The fleet was told to seek.
    Sought,
    /// The service refused for good.
    Refused,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Identifies a tenure to a sink: whoever comes with a smaller pair is from the past.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fencing {
    /// The lease's token.
    pub lease: String,
    /// Grows with each change of ownership.
    pub epoch: u64,
    /// The newest commit of the batch.
    pub lsn: u64,
}

/// What a handler is told beside the changes.
#[derive(Debug, Clone)]
pub struct Context {
    pub(crate) lease: String,
    pub(crate) span: Option<Span>,
    pub(crate) owner: String,
    pub(crate) epoch: u64,
    pub(crate) lsn: u64,
    pub(crate) continuation: String,
    pub(crate) headers: Arc<Vec<(String, String)>>,
    pub(crate) sequence: u64,
    pub(crate) notes: mpsc::UnboundedSender<Note>,
    pub(crate) gate: watch::Receiver<Gate>,
}

/// The position could not be saved: the lease is no longer ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease is no longer held; another host goes on from the last saved position")]
pub struct LeaseLost;

impl Context {
    /// The lease's token: the id of a range, or the bounds of a span.
    pub fn lease_token(&self) -> &str {
        &self.lease
    }

    /// The keys it covers.
    pub fn span(&self) -> Option<&Span> {
        self.span.as_ref()
    }

    /// As whom this process holds the lease.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The newest commit of the batch.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The position after the batch's page.
    pub fn continuation(&self) -> &str {
        &self.continuation
    }

    /// A header of the answer that brought the page.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(each, _)| each.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// For sinks that refuse writers of the past.
    pub fn fencing(&self) -> Fencing {
        Fencing { lease: self.lease.clone(), epoch: self.epoch, lsn: self.lsn }
    }

    /// Saves the position after this batch and all before it of the same lane. Returns when it is
    /// saved. May be called later, from elsewhere, and out of order.
    pub async fn checkpoint(&self) -> Result<(), LeaseLost> {
        let (reply, answer) = oneshot::channel();
        let note = Note::Acknowledged { sequence: self.sequence, reply };
        self.notes.send(note).map_err(|_| LeaseLost)?;
        answer.await.map_err(|_| LeaseLost)?
    }

    /// Whether this lease is about to move: a long handler may finish early.
    pub fn is_draining(&self) -> bool {
        *self.gate.borrow() == Gate::Draining
    }
}

/// Handles the changes of one lease. `open` comes first, `close` last and once; `process` is
/// called for one batch at a time, or with lanes for one batch per lane.
pub trait Observer: Send + Sync + 'static {
    /// A lease was acquired.
    fn open(&self, _context: &Context) -> impl Future<Output = Result<(), HandlerError>> + Send {
        async { Ok(()) }
    }

    /// Changes, in order. Success means that they never need to come again.
    fn process(
        &self,
        context: &Context,
        changes: &[Change],
    ) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// The lease has gone.
    fn close(&self, _context: &Context, _reason: CloseReason) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// An [`Observer`] behind a pointer.
pub(crate) trait AnyObserver: Send + Sync {
    fn open<'a>(&'a self, context: &'a Context) -> Later<'a, Result<(), HandlerError>>;
    fn process<'a>(
        &'a self,
        context: &'a Context,
        changes: &'a [Change],
    ) -> Later<'a, Result<(), HandlerError>>;
    fn close<'a>(&'a self, context: &'a Context, reason: CloseReason) -> Later<'a, ()>;
}

impl<O: Observer> AnyObserver for O {
    fn open<'a>(&'a self, context: &'a Context) -> Later<'a, Result<(), HandlerError>> {
        Box::pin(Observer::open(self, context))
    }

    fn process<'a>(
        &'a self,
        context: &'a Context,
        changes: &'a [Change],
    ) -> Later<'a, Result<(), HandlerError>> {
        Box::pin(Observer::process(self, context, changes))
    }

    fn close<'a>(&'a self, context: &'a Context, reason: CloseReason) -> Later<'a, ()> {
        Box::pin(Observer::close(self, context, reason))
    }
}

/// Makes an observer for each lease that is acquired.
#[derive(Clone)]
pub struct Factory(Arc<dyn Fn() -> Arc<dyn AnyObserver> + Send + Sync>);

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Factory")
    }
}

impl Factory {
    /// A new observer for each lease.
    pub fn new<O: Observer>(make: impl Fn() -> O + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Arc::new(make())))
    }

    /// A function for the changes of all leases.
    pub fn function<F, T>(handle: F) -> Self
    where
        F: Fn(Context, Vec<Change>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let handle = Arc::new(handle);
        Self::new(move || Function { handle: Arc::clone(&handle) })
    }

    pub(crate) fn make(&self) -> Arc<dyn AnyObserver> {
        (self.0)()
    }
}

struct Function<F> {
    handle: Arc<F>,
}

impl<F, T> Observer for Function<F>
where
    F: Fn(Context, Vec<Change>) -> T + Send + Sync + 'static,
    T: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    async fn process(&self, context: &Context, changes: &[Change]) -> Result<(), HandlerError> {
        (self.handle)(context.clone(), changes.to_vec()).await
    }
}
