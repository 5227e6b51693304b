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

use engine::{Answer, ChangesMark, ChangesMode, ChangesPage, ChangesRead, ChangesStart, Container};
use model::Result;
use model::token::Session;
use tokio::task::JoinHandle;

use crate::Server;

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

/// A page on its way.
struct Page {
    number: u64,
    container: Arc<Container>,
    read: ChangesRead,
    session: Option<Session>,
    mark: ChangesMark,
    reading: JoinHandle<Result<Answer<ChangesPage>>>,
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
        read: &ChangesRead,
        session: Option<&Session>,
    ) -> Option<Answer<ChangesPage>> {
        let mut page = {
            let mut pages = self.pages();
            let fits = |page: &Page| {
                Arc::ptr_eq(&page.container, container)
                    && page.read == *read
                    && page.session.as_ref() == session
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

/// Begins to read what follows a page, where that is worth while.
pub fn read(
    server: &Arc<Server>,
    container: &Arc<Container>,
    read: &ChangesRead,
    session: Option<&Session>,
    page: &ChangesPage,
) {
    let ahead = &server.ahead;
    let latest = read.mode == ChangesMode::Latest { deletes: false };
    if !page.more || page.changes.len() < CHANGES_MIN || !latest {
        return;
    }
    if ahead.resting.load(Ordering::Relaxed) > 0 {
        ahead.resting.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    // Before the read begins: what is acknowledged from here on makes the page void.
    let Some(mark) = container.changes_mark() else { return };
    let number = ahead.begun.fetch_add(1, Ordering::Relaxed);
    let next = ChangesRead { start: ChangesStart::After(page.position.clone()), ..read.clone() };
    let reading = tokio::spawn({
        let (container, read, session) = (container.clone(), next.clone(), session.cloned());
        async move { container.read_changes(&read, session.as_ref()).await }
    });
    let page = Page {
        number,
        container: container.clone(),
        read: next,
        session: session.cloned(),
        mark,
        reading,
    };
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
