//! A page of changes while it is filled: when it is full, and what it gives back.

use bytes::Bytes;
use model::limits;

use crate::api::Changed;

/// Rows looked at for one page; a narrow scope ends its page here with a position further on.
const ROWS_EXAMINED: usize = 20_000;

/// A page being filled.
pub(super) struct Gathered {
    pub changes: Vec<Changed>,
    pub bytes: usize,
    wanted: usize,
    pub examined: usize,
    pub last_lsn: u64,
    /// There is more than it has room for.
    pub full: bool,
}

/// How far a page had come before the transaction that is being read.
pub(super) struct Reach {
    changes: usize,
    bytes: usize,
    lsn: u64,
}

impl Gathered {
    pub fn new(items: Option<usize>) -> Self {
        let wanted = items.unwrap_or(limits::PAGE_ITEMS_DEFAULT).clamp(1, limits::PAGE_ITEMS);
        Self { changes: Vec::new(), bytes: 0, wanted, examined: 0, last_lsn: 0, full: false }
    }

    /// Rows worth asking for: one more tells whether the last transaction has ended.
    pub fn room(&self) -> usize {
        (self.wanted + 1).saturating_sub(self.changes.len()).max(16)
    }

    /// Whether a row of this LSN is for the next page.
    pub fn ends_before(&self, lsn: u64) -> bool {
        let enough = self.changes.len() >= self.wanted
            || self.bytes >= limits::PAGE_BYTES
            || self.examined >= ROWS_EXAMINED;
        enough && lsn != self.last_lsn
    }

    /// LSNs of another part of the key space are of other transactions.
    pub fn begin_part(&mut self, lsn: u64) -> Reach {
        self.last_lsn = 0;
        self.reach(lsn)
    }

    pub fn reach(&self, lsn: u64) -> Reach {
        Reach { changes: self.changes.len(), bytes: self.bytes, lsn }
    }

    /// Whether the transaction that is being read has made the page too large. One that is by itself
    /// is not cut.
    pub fn overflows(&self, before: &Reach) -> bool {
        self.bytes > limits::PAGE_BYTES && before.changes > 0
    }

    /// Ends the page before a transaction that it has no room for. Returns the LSN it ends with.
    pub fn go_back(&mut self, to: &Reach) -> u64 {
        self.changes.truncate(to.changes);
        self.bytes = to.bytes;
        self.full = true;
        to.lsn
    }

    pub fn add(&mut self, change: Changed) {
        self.bytes += change.body.len();
        self.bytes +=
            change.detail.as_ref().and_then(|d| d.previous.as_ref()).map_or(0, Bytes::len);
        self.changes.push(change);
    }
}
