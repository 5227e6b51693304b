//! Pages on their way: what was read, what is being handled, and up to where all is done.
//!
//! The low watermark is the position of the last page before which nothing is open. Only that may
//! become a checkpoint, whatever finishes first behind it.

use std::collections::VecDeque;

/// A page that was read.
#[derive(Debug, Clone, PartialEq)]
struct Page {
    sequence: u64,
    mark: Mark,
    /// Batches not yet acknowledged.
    open: usize,
}

/// What is known of a position.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mark {
    /// The etag after the page.
    pub continuation: String,
    /// How many changes it had.
    pub items: u64,
    /// How many commits these came from.
    pub commits: u64,
    /// When its newest change was made, in seconds since 1970; 0 if it had none.
    pub newest_at: i64,
}

/// The pages of one range, in order.
#[derive(Debug, Default)]
pub struct Window {
    pages: VecDeque<Page>,
    next: u64,
    /// The newest position below which all is done and which was not yet taken.
    reached: Option<Mark>,
}

impl Window {
    /// A page that was read, to be acknowledged in so many batches. Returns its number.
    pub fn push(&mut self, mark: Mark, batches: usize) -> u64 {
        let sequence = self.next;
        self.next += 1;
        self.pages.push_back(Page { sequence, mark, open: batches });
        self.advance();
        sequence
    }

    /// One batch of a page is done. Pages that are not open any more are ignored: an older
    /// acknowledgement never takes the watermark back.
    pub fn done(&mut self, sequence: u64) {
        if let Some(page) = self.pages.iter_mut().find(|page| page.sequence == sequence) {
            page.open = page.open.saturating_sub(1);
        }
        self.advance();
    }

    /// A page and all before it are done, whatever is still open.
    pub fn done_through(&mut self, sequence: u64) {
        for page in self.pages.iter_mut().filter(|page| page.sequence <= sequence) {
            page.open = 0;
        }
        self.advance();
    }

    fn advance(&mut self) {
        while self.pages.front().is_some_and(|page| page.open == 0) {
            let Some(page) = self.pages.pop_front() else { return };
            let before = self.reached.take().unwrap_or_default();
            self.reached = Some(Mark {
                continuation: page.mark.continuation,
                items: before.items + page.mark.items,
                commits: before.commits + page.mark.commits,
                newest_at: before.newest_at.max(page.mark.newest_at),
            });
        }
    }

    /// The watermark, if it has moved since it was last taken.
    pub fn reached(&self) -> Option<&Mark> {
        self.reached.as_ref()
    }

    /// Takes the watermark, to be written.
    pub fn take(&mut self) -> Option<Mark> {
        self.reached.take()
    }

    /// How many pages are open.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether all that was read is done.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// Batches waiting for their lane. A lane handles one at a time, in order; lanes do not wait for
/// each other.
#[derive(Debug)]
pub struct Lanes<B> {
    waiting: Vec<VecDeque<B>>,
    busy: Vec<bool>,
}

impl<B> Lanes<B> {
    /// So many lanes.
    pub fn new(lanes: usize) -> Self {
        let lanes = lanes.max(1);
        Self { waiting: (0..lanes).map(|_| VecDeque::new()).collect(), busy: vec![false; lanes] }
    }

    /// Puts a batch behind the others of its lane.
    pub fn push(&mut self, lane: usize, batch: B) {
        self.waiting[lane].push_back(batch);
    }

    /// The next batch of a lane that is free; the lane is busy until [`Self::free`].
    pub fn begin(&mut self) -> Option<(usize, B)> {
        let ready = |lane: &usize| !self.busy[*lane] && !self.waiting[*lane].is_empty();
        let lane = (0..self.busy.len()).find(ready)?;
        let batch = self.waiting[lane].pop_front()?;
        self.busy[lane] = true;
        Some((lane, batch))
    }

    /// A lane's batch was cut short: what waits behind it must not overtake it.
    pub fn abandon(&mut self, lane: usize) {
        self.waiting[lane].clear();
        self.busy[lane] = false;
    }

    /// A lane has finished its batch.
    pub fn free(&mut self, lane: usize) {
        self.busy[lane] = false;
    }

    /// Lanes at work.
    pub fn busy(&self) -> usize {
        self.busy.iter().filter(|busy| **busy).count()
    }

    /// Batches that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    /// Forgets those that wait, except some.
    pub fn retain(&mut self, keep: impl Fn(&B) -> bool) {
        self.waiting.iter_mut().for_each(|batches| batches.retain(&keep));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(etag: &str) -> Mark {
        Mark { continuation: etag.into(), items: 1, commits: 1, newest_at: 0 }
    }

    #[test]
    fn the_watermark_waits_for_the_slowest() {
        let mut window = Window::default();
        let (a, b) = (window.push(mark("a"), 2), window.push(mark("b"), 1));
        window.done(b);
        window.done(a);
        assert_eq!(window.reached(), None);
        window.done(a);
        let reached = window.take().expect("both");
        assert_eq!((reached.continuation.as_str(), reached.items), ("b", 2));
        assert!(window.is_empty());
    }

    #[test]
    fn checkpoint_never_rewinds() {
        let mut window = Window::default();
        let (first, second) = (window.push(mark("1"), 1), window.push(mark("2"), 1));
        window.done_through(second);
        window.done_through(first);
        assert_eq!(window.take().map(|mark| mark.continuation), Some("2".into()));
        window.done(first);
        assert_eq!(window.take(), None);
    }

    #[test]
    fn an_empty_page_moves_on_by_itself() {
        let mut window = Window::default();
        window.push(mark("x"), 0);
        assert_eq!(window.take().map(|mark| mark.continuation), Some("x".into()));
        window.push(mark("y"), 1);
        window.push(mark("z"), 0);
        assert_eq!(window.take(), None);
    }

    #[test]
    fn nothing_overtakes_what_was_cut_short() {
        let mut lanes = Lanes::new(2);
        for (lane, batch) in [(0, "a"), (0, "b"), (1, "c")] {
            lanes.push(lane, batch);
        }
        assert_eq!((lanes.begin(), lanes.begin()), (Some((0, "a")), Some((1, "c"))));
        lanes.abandon(0);
        assert_eq!((lanes.begin(), lanes.waiting(), lanes.busy()), (None, 0, 1));
    }

    #[test]
    fn lanes_keep_order_and_run_beside_each_other() {
        let mut lanes = Lanes::new(2);
        lanes.push(0, "a1");
        lanes.push(0, "a2");
        lanes.push(1, "b1");
        assert_eq!(lanes.begin(), Some((0, "a1")));
        assert_eq!(lanes.begin(), Some((1, "b1")));
        assert_eq!(lanes.begin(), None);
        lanes.free(0);
        assert_eq!(lanes.begin(), Some((0, "a2")));
        assert_eq!((lanes.busy(), lanes.waiting()), (2, 0));
    }
}
