//! Pages of the change feed that are read before they are asked for.
//!
//! Whoever has got a large page with more behind it mostly asks for the next one at once. That is
//! read while the first is on its way and looked at, so that reading and sending take turns no
//! longer. A page read ahead is given out only if it is what reading it now would give: nothing
//! was acknowledged in the container since it was begun, and time alone changes nothing in it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Answer, ChangesMark, ChangesMode, ChangesRead, ChangesStart, Container};
use model::Result;
use model::token::{Position, Session};
use tokio::task::JoinHandle;

use crate::Server;
use crate::request::changes::Form;
use crate::wire::changes::Written;

/// Pages that may be held, of all readers together: each has 4 MB at most, save that a
/// transaction is never cut.
const PAGES_MAX: usize = 8;
/// How long a page is held for the reader who should ask for it.
const KEPT: Duration = Duration::from_millis(500);
/// Smaller pages are read as fast as they are handed over.
const CHANGES_MIN: usize = 128;
/// Pages that are not read ahead after one was read in vain: others write meanwhile.
const REST: u32 = 64;

/// See the top of this file.
#[derive(Default)]
pub struct Ahead {
    pages: Mutex<VecDeque<Page>>,
    begun: AtomicU64,
    resting: AtomicU32,
}

/// What a page is asked for by.
pub struct Request<'a> {
    /// What is read.
    pub read: &'a ChangesRead,
    /// How it is written.
    pub form: Form,
    /// What the reader has seen.
    pub session: Option<&'a Session>,
}

/// A page on its way.
struct Page {
    number: u64,
    container: Arc<Container>,
    read: ChangesRead,
    form: Form,
    session: Option<Session>,
    mark: ChangesMark,
    reading: JoinHandle<Result<Answer<Written>>>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Ahead {
    /// The page that was read ahead for such a request, if it still holds.
    pub async fn take(
        &self,
        container: &Arc<Container>,
        request: &Request<'_>,
    ) -> Option<Answer<Written>> {
        let mut page = {
            let mut pages = self.pages();
            let fits = |page: &Page| {
                Arc::ptr_eq(&page.container, container)
                    && page.read == *request.read
                    && page.form == request.form
                    && page.session.as_ref() == request.session
            };
            let at = pages.iter().position(fits)?;
            pages.remove(at)?
        };
        let answer = match container.changes_mark() {
            Some(now) if now == page.mark => (&mut page.reading).await.ok()?.ok()?,
            _ => {
                self.resting.store(REST, Ordering::Relaxed);
                return None;
            }
        };
        // Again: it may have been on its way for a while.
        (answer.result.is_ok() && container.changes_mark()? == page.mark).then_some(answer)
    }
}

/// Begins to read what follows a page of so many changes, where that is worth while.
pub fn read(
    server: &Arc<Server>,
    container: &Arc<Container>,
    request: &Request<'_>,
    changes: usize,
    more: bool,
    position: &Position,
) {
    let ahead = &server.ahead;
    let latest = request.read.mode == ChangesMode::Latest { deletes: false };
    if !more || changes < CHANGES_MIN || !latest {
        return;
    }
    // Never below zero, however many count down at once: it would rest for ever.
    let rested = |left: u32| left.checked_sub(1);
    if ahead.resting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rested).is_ok() {
        return;
    }
    // Before the read begins: what is acknowledged from here on makes the page void.
    let Some(mark) = container.changes_mark() else { return };
    let number = ahead.begun.fetch_add(1, Ordering::Relaxed);
    let start = ChangesStart::After(position.clone());
    let next = ChangesRead { start, ..request.read.clone() };
    let (form, session) = (request.form, request.session.cloned());
    let reading = tokio::spawn({
        let (container, read, session) = (container.clone(), next.clone(), session.clone());
        async move {
            let answer = container.read_changes(&read, session.as_ref()).await?;
            Ok(answer.map(|page| Written::new(&container, form, page)))
        }
    });
    let page =
        Page { number, container: container.clone(), read: next, form, session, mark, reading };
    let mut pages = ahead.pages();
    if pages.len() >= PAGES_MAX {
        pages.pop_front();
    }
    pages.push_back(page);
    drop(pages);
    let server = server.clone();
    tokio::spawn(async move {
        tokio::time::sleep(KEPT).await;
        server.ahead.pages().retain(|page| page.number != number);
    });
}

impl Ahead {
    fn pages(&self) -> MutexGuard<'_, VecDeque<Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
