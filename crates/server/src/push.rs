//! Bodies that are made while they are sent: the change feed as server-sent events.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use engine::{Answer, ChangesFilter, ChangesPage, ChangesRead, ChangesStart, Container};
use model::Result;
use tokio::time::{sleep, timeout};

use crate::Server;
use crate::http::watch::Busy;
use crate::request::changes::{ChangesRequest, Form};
use crate::wire::changes::{self, Writer};

/// How long to leave a container in peace that has no throughput left and does not say for how
/// long.
const PAUSE: Duration = Duration::from_millis(100);

/// The next piece of a body, and what makes the ones after it.
type Making = Pin<Box<dyn Future<Output = Option<(Bytes, Events)>> + Send>>;

/// A body in the making. It waits only while somebody reads it.
pub struct Flow {
    making: Option<Making>,
    /// Its connection is not idle.
    busy: Option<Busy>,
}

impl Flow {
    /// The body that events make up.
    pub fn new(events: Events) -> Self {
        Self { making: Some(Box::pin(events.next())), busy: None }
    }

    /// Takes over the request that it answers, which is under way until the body ends.
    pub fn hold(&mut self, busy: Busy) {
        self.busy = Some(busy);
    }

    /// The next piece.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(making) = &mut self.making else { return Poll::Ready(None) };
        let Poll::Ready(made) = making.as_mut().poll(cx) else { return Poll::Pending };
        let (piece, rest) = made.unzip();
        self.making = rest.map(|events| -> Making { Box::pin(events.next()) });
        Poll::Ready(piece)
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").finish_non_exhaustive()
    }
}

/// The changes of a container from some position on, for as long as somebody listens.
pub struct Events {
    server: Arc<Server>,
    container: Arc<Container>,
    form: Form,
    /// What to ask for next.
    read: ChangesRead,
    filter: Option<ChangesFilter>,
    /// The page that was read to see that the request can be served.
    first: Option<ChangesPage>,
    ended: bool,
}

/// What happened while waiting.
enum Heard {
    Answer(Result<Answer<ChangesPage>>),
    Silence(Result<Answer<ChangesPage>>),
    Stop,
}

impl Events {
    /// The events that follow a page, and before them those of the page.
    pub fn new(
        server: Arc<Server>,
        container: Arc<Container>,
        wanted: ChangesRequest,
        first: ChangesPage,
    ) -> Self {
        let ChangesRequest { read, filter, form, .. } = wanted;
        Self { server, container, form, read, filter, first: Some(first), ended: false }
    }

    async fn next(mut self) -> Option<(Bytes, Self)> {
        if let Some(page) = self.first.take() {
            return Some((self.page(page), self));
        }
        while !self.ended {
            let (answer, silent) = match self.listen().await {
                Heard::Answer(answer) => (answer, false),
                Heard::Silence(answer) => (answer, true),
                Heard::Stop => return None,
            };
            let answer = match answer {
                Ok(Answer { result: Err(_), retry_after_ms: Some(ms), .. }) => {
                    sleep(Duration::from_millis(ms).max(PAUSE)).await;
                    continue;
                }
                Ok(answer) => answer.result,
                Err(error) => Err(error),
            };
            let piece = match answer {
                Ok(page) if page.changes.is_empty() && silent && !self.moves(&page) => {
                    changes::heartbeat()
                }
                Ok(page) => self.page(page),
                Err(error) => {
                    self.ended = true;
                    changes::error_event(&error)
                }
            };
            return Some((piece, self));
        }
        None
    }

    /// Waits for changes. After a while without any it looks how far the feed has come, so that
    /// the position does not fall behind where much happens that this reader does not want.
    async fn listen(&self) -> Heard {
        let Self { container, read, server, .. } = self;
        let filter = self.filter.as_ref();
        tokio::select! {
            waited = timeout(server.options.heartbeat, container.await_changes(read, filter, None)) => {
                match waited {
                    Ok(answer) => Heard::Answer(answer),
                    Err(_) => Heard::Silence(container.read_changes_where(read, filter, None).await),
                }
            }
            () = server.stopped() => Heard::Stop,
        }
    }

    fn moves(&self, page: &ChangesPage) -> bool {
        !matches!(&self.read.start, ChangesStart::After(position) if *position == page.position)
    }

    fn page(&mut self, page: ChangesPage) -> Bytes {
        let definition = self.container.definition();
        let events = Writer { form: self.form, key: &definition.partition_key }.events(&page);
        self.read.start = ChangesStart::After(page.position);
        events
    }
}
