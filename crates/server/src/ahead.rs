//! Pages of the change feed that are read before they are asked for.
//!
//! Whoever has got a large page with more behind it mostly asks for the next one at once. That is
//! read while the first is on its way and looked at, and the one behind it as soon as it is known
//! where it begins: reading, writing and sending take turns no longer. A page read ahead is given
//! out only if it is what reading it now would give: nothing was acknowledged in the container
//! since it was begun, and time alone changes nothing in it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Answer, ChangesMark, ChangesMode, ChangesPage, ChangesRead, ChangesStart, Container};
use model::Result;
use model::token::{Position, Session};
use tokio::task::JoinHandle;

use crate::Server;
use crate::request::changes::Form;
use crate::wire::changes::Written;

/// Pages that may be held, of all readers together: each has 4 MB at most, save that a
/// transaction is never cut.
const PAGES_MAX: usize = 8;
/// Pages that are read ahead of one reader, once it has come for the first.
const DEPTH: usize = 2;
/// How long a page is held for the reader who should ask for it.
const KEPT: Duration = Duration::from_millis(500);
/// Smaller pages are read as fast as they are handed over.
const CHANGES_MIN: usize = 128;
/// Pages that are not read ahead after one was read in vain: others write meanwhile.
const REST: u32 = 64;

/// See the top of this file.
#[derive(Default)]
pub struct Ahead {
    pages: Mutex<Vec<Page>>,
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
    asked: Arc<Asked>,
    read: ChangesRead,
    mark: ChangesMark,
    reading: JoinHandle<Result<Answer<Written>>>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// What one reader asks for, page after page.
struct Asked {
    container: Arc<Container>,
    /// Its start is that of the first page.
    read: ChangesRead,
    form: Form,
    session: Option<Session>,
    next: Mutex<Next>,
}

/// How the pages of a reader go on.
#[derive(Default)]
struct Next {
    /// It has come for a page that was read ahead.
    came: bool,
    /// Pages that may be begun before the reader takes another one.
    room: usize,
    /// Where the next page begins, while there was no room for it.
    after: Option<Position>,
}

impl Next {
    /// Takes room for the page after a position, or keeps that for later.
    fn has_room_for(&mut self, after: &Position) -> bool {
        match self.room.checked_sub(1) {
            Some(room) => self.room = room,
            None => self.after = Some(after.clone()),
        }
        self.after.is_none()
    }
}

impl Asked {
    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ahead {
    /// The page that was read ahead for such a request, if it still holds.
    pub async fn take(
        &self,
        server: &Arc<Server>,
        container: &Arc<Container>,
        request: &Request<'_>,
    ) -> Option<Answer<Written>> {
        let mut page = {
            let mut pages = self.pages();
            let fits = |page: &Page| {
                Arc::ptr_eq(&page.asked.container, container)
                    && page.read == *request.read
                    && page.asked.form == request.form
                    && page.asked.session.as_ref() == request.session
            };
            let at = pages.iter().position(fits)?;
            pages.swap_remove(at)
        };
        let now = container.changes_mark();
        if now.is_none_or(|now| now != page.mark) {
            self.resting.store(REST, Ordering::Relaxed);
            return None;
        }
        go_on(server, &page.asked);
        let answer = (&mut page.reading).await.ok()?.ok()?;
        // Again: it may have been on its way for a while.
        (answer.result.is_ok() && container.changes_mark()? == page.mark).then_some(answer)
    }

    fn pages(&self) -> MutexGuard<'_, Vec<Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins to read what follows a page, where that is worth while.
pub fn read(
    server: &Arc<Server>,
    container: &Arc<Container>,
    request: &Request<'_>,
    page: &ChangesPage,
) {
    let latest = request.read.mode == ChangesMode::Latest { deletes: false };
    if !latest || !is_worth_while(page) {
        return;
    }
    // Never below zero, however many count down at once: it would rest for ever.
    let rested = |left: u32| left.checked_sub(1);
    let resting = &server.ahead.resting;
    if resting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rested).is_ok() {
        return;
    }
    let asked = Arc::new(Asked {
        container: container.clone(),
        read: request.read.clone(),
        form: request.form,
        session: request.session.cloned(),
        next: Mutex::default(),
    });
    begin(server, &asked, page.position.clone());
}

/// Whether there is more behind a page that is wanted soon.
fn is_worth_while(page: &ChangesPage) -> bool {
    page.more && page.changes.len() >= CHANGES_MIN
}

/// A reader has taken a page, so there is room for another.
fn go_on(server: &Arc<Server>, asked: &Arc<Asked>) {
    let after = {
        let mut next = asked.next();
        next.room += if next.came { 1 } else { DEPTH };
        next.came = true;
        let Some(after) = next.after.take() else { return };
        next.room -= 1;
        after
    };
    begin(server, asked, after);
}

/// Begins to read the page after a position.
fn begin(server: &Arc<Server>, asked: &Arc<Asked>, after: Position) {
    // Before the read begins: what is acknowledged from here on makes the page void.
    let Some(mark) = asked.container.changes_mark() else { return };
    let ahead = &server.ahead;
    let mut pages = ahead.pages();
    // Those of others are not given up for it: they were read in vain then.
    if pages.len() >= PAGES_MAX {
        return;
    }
    let number = ahead.begun.fetch_add(1, Ordering::Relaxed);
    let read = ChangesRead { start: ChangesStart::After(after), ..asked.read.clone() };
    let reading = tokio::spawn(page(server.clone(), asked.clone(), read.clone()));
    pages.push(Page { number, asked: asked.clone(), read, mark, reading });
    drop(pages);
    let server = server.clone();
    tokio::spawn(async move {
        tokio::time::sleep(KEPT).await;
        server.ahead.pages().retain(|page| page.number != number);
    });
}

/// Reads a page, has the next one begun, and writes it.
async fn page(
    server: Arc<Server>,
    asked: Arc<Asked>,
    read: ChangesRead,
) -> Result<Answer<Written>> {
    let answer = asked.container.read_changes(&read, asked.session.as_ref()).await?;
    if let Ok(page) = &answer.result
        && is_worth_while(page)
    {
        let after = page.position.clone();
        if asked.next().has_room_for(&after) {
            begin(&server, &asked, after);
        }
    }
    Ok(answer.map(|page| Written::new(&asked.container, asked.form, page)))
}
