//! Segment files as readers see them: values by place, records in order.
//!
//! Invariants:
//! - Bytes that a published row points to are never written again.
//! - A segment that is given up is unlinked when the last view that may read it is gone.
//! - No more than [`OPEN_FILES_MAX`] segments hold a file descriptor at a time.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::format::{
    RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentId, record_mark,
};
use crate::{Error, Result};

/// Most segments with an open descriptor.
const OPEN_FILES_MAX: usize = 256;
/// How much of a file is read at once when its records are walked.
const WINDOW_BYTES: usize = 1 << 20;

/// The segments that a published state may read.
pub(crate) type SegmentSet = HashMap<SegmentId, Arc<Segment>>;

/// A segment file, open for reading when need be.
#[derive(Debug)]
pub(crate) struct Segment {
    pub header: SegmentHeader,
    path: PathBuf,
    file: ArcSwapOption<File>,
    opened: Arc<OpenFiles>,
    doomed: AtomicBool,
}

/// Segments with an open descriptor, the longest open first.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(Mutex<VecDeque<Weak<Segment>>>);

impl OpenFiles {
    fn add(&self, segment: &Arc<Segment>) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(Arc::downgrade(segment));
        if open.len() > OPEN_FILES_MAX
            && let Some(oldest) = open.pop_front().and_then(|segment| segment.upgrade())
        {
            oldest.file.store(None);
        }
    }
}

impl Segment {
    pub(crate) fn new(header: SegmentHeader, dir: &Path, opened: Arc<OpenFiles>) -> Arc<Self> {
        let path = dir.join(file_name(header.id));
        let doomed = AtomicBool::new(false);
        Arc::new(Self { header, path, file: ArcSwapOption::empty(), opened, doomed })
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.header.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Has the file unlinked once nobody holds the segment any more.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// Reads a run of bytes.
    pub(crate) fn read(self: &Arc<Self>, at: u64, bytes: usize) -> Result<Bytes> {
        // Not zeroed before it is read into: that shows where whole pages of a feed are read.
        let mut out: Vec<u8> = Vec::with_capacity(bytes);
        let file = self.file().map_err(|error| self.failed(&error))?;
        while out.len() < bytes {
            let from = at + out.len() as u64;
            match rustix::io::pread(&*file, rustix::buffer::spare_capacity(&mut out), from) {
                Ok(0) => return Err(self.corrupt(at, "ends before a value does")),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.failed(&error.into())),
            }
        }
        out.truncate(bytes);
        Ok(Bytes::from(out))
    }

    /// Walks the records from an offset on.
    pub(crate) fn walk(self: &Arc<Self>, from: u64) -> Result<Walk> {
        let file = self.file().map_err(|error| self.failed(&error))?;
        let file_bytes = file.metadata().map_err(|error| self.failed(&error))?.len();
        let at = from.max(SEGMENT_HEADER_BYTES as u64);
        Ok(Walk { segment: self.clone(), at, file_bytes, window: Bytes::new(), window_at: at })
    }

    pub(crate) fn corrupt(&self, at: u64, what: &str) -> Error {
        Error::Corrupt(format!("{} {what} (offset {at})", self.path.display()))
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::Io(format!("{}: {error}", self.path.display()))
    }

    fn file(self: &Arc<Self>) -> io::Result<Arc<File>> {
        if let Some(file) = self.file.load_full() {
            return Ok(file);
        }
        let file = Arc::new(File::open(&self.path)?);
        self.file.store(Some(file.clone()));
        self.opened.add(self);
        Ok(file)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Acquire)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a dead segment could not be removed");
        }
    }
}

/// A record and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Placed<B = Bytes> {
    pub header: RecordHeader,
    pub at: u32,
    pub body: B,
}

impl<B> Placed<B> {
    /// The offset behind this record.
    pub(crate) fn end(&self) -> u32 {
        self.at + RECORD_HEADER_BYTES as u32 + self.header.body_bytes
    }
}

/// Reads records one after the other.
pub(crate) struct Walk {
    segment: Arc<Segment>,
    at: u64,
    file_bytes: u64,
    window: Bytes,
    window_at: u64,
}

impl Walk {
    /// The next record, or `None` where no valid one stands.
    pub(crate) fn next(&mut self) -> Result<Option<Placed>> {
        let Some(head) = self.bytes(self.at, RECORD_HEADER_BYTES)? else { return Ok(None) };
        let Some(header) = RecordHeader::decode(&head, self.segment.header.salt) else {
            return Ok(None);
        };
        let body_at = self.at + RECORD_HEADER_BYTES as u64;
        let Some(body) = self.bytes(body_at, header.body_bytes as usize)? else { return Ok(None) };
        let Ok(at) = u32::try_from(self.at) else { return Ok(None) };
        if crc32fast::hash(&body) != header.body_crc {
            return Ok(None);
        }
        self.at = body_at + u64::from(header.body_bytes);
        Ok(Some(Placed { header, at, body }))
    }

    /// Where the walk stands.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// How long the file was when the walk began.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Whether the file holds a record of a group that began behind the place where the walk
    /// stopped. Such a group was only written after everything before it had been synced.
    pub(crate) fn later_group(&mut self) -> Result<bool> {
        let stopped = self.at;
        let mark = record_mark();
        let mut at = stopped;
        while at + (RECORD_HEADER_BYTES as u64) <= self.file_bytes {
            let bytes = (self.file_bytes - at).min(WINDOW_BYTES as u64) as usize;
            let window = self.segment.read(at, bytes)?;
            // Zeros written ahead are the usual case: pass them quickly.
            if window.iter().any(|byte| *byte != 0) && self.group_within(&window, &mark, stopped) {
                return Ok(true);
            }
            if bytes < WINDOW_BYTES {
                break;
            }
            at += (bytes - RECORD_HEADER_BYTES) as u64;
        }
        Ok(false)
    }

    fn group_within(&self, window: &[u8], mark: &[u8; 4], stopped: u64) -> bool {
        window.windows(RECORD_HEADER_BYTES).any(|head| {
            head.starts_with(mark)
                && RecordHeader::decode(head, self.segment.header.salt)
                    .is_some_and(|header| u64::from(header.group_at) > stopped)
        })
    }

    fn bytes(&mut self, at: u64, bytes: usize) -> Result<Option<Bytes>> {
        if at + bytes as u64 > self.file_bytes {
            return Ok(None);
        }
        let skip = (at - self.window_at) as usize;
        if skip + bytes > self.window.len() {
            let ahead = (self.file_bytes - at).min(bytes.max(WINDOW_BYTES) as u64) as usize;
            self.window = self.segment.read(at, ahead)?;
            self.window_at = at;
            return Ok(Some(self.window.slice(..bytes)));
        }
        Ok(Some(self.window.slice(skip..skip + bytes)))
    }
}

/// What the file of a segment is called.
pub(crate) fn file_name(id: SegmentId) -> String {
    format!("{:08x}.seg", id.0)
}

/// The segment that a file name stands for.
pub(crate) fn id_of(name: &str) -> Option<SegmentId> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 8).then_some(())?;
    u32::from_str_radix(digits, 16).ok().map(SegmentId)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
