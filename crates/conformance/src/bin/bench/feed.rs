//! The change feed: draining it, waiting at its end, and items that all expire at once.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use conformance::wire::{Wire, signed};

use crate::load::{Measure, answer_length, document, fill, find, measure, run};
use crate::side::Ceiling;
use crate::table::{Line, Target};
use crate::{Arguments, Ours, memory, path};

/// Documents that are drained.
const DRAINED: u64 = 200_000;

/// Documents on a page.
const PAGE: u64 = 1_000;

/// Writes that a waiting reader is told of.
const PUSHES: u64 = 1_000;

/// Readers that wait while others write.
const WAITING: usize = 1_000;

/// Reads of the feed's end.
const TAIL_READS: u64 = 5_000;

/// Items that expire in the same second.
const EXPIRING: u64 = 1_000_000;

/// How long a reader waits at most; longer than any run.
const WAIT: (&str, &str) = ("prefer", "wait=60");

const FEED: (&str, &str) = ("a-im", "Incremental feed");

/// All lines of this topic that are wanted.
pub fn lines(arguments: &Arguments, ours: &Ours) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    if arguments.wants("push") {
        lines.extend(push(ours)?);
    }
    if arguments.wants("waiting") {
        lines.push(waiting(arguments, ours)?);
    }
    if arguments.wants("drain") {
        lines.extend(drain(arguments, ours)?);
    }
    // A million items take their time: only by name.
    if arguments.filters.iter().any(|filter| filter == "expire") {
        lines.extend(expire(ours)?);
    }
    Ok(lines)
}

/// A reader: one connection, one request after the other.
struct Reader {
    stream: TcpStream,
    head: Vec<u8>,
    answer: Vec<u8>,
    filled: usize,
}

impl Reader {
    /// A reader of a container's feed.
    fn new(address: SocketAddr, container: &str, headers: &[(&str, &str)]) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let path = format!("{container}/docs");
        let mut head = signed("GET", &path, headers, &[]).bytes(&address.to_string());
        // The position comes last, with the end of the head.
        head.truncate(head.len() - 2);
        Ok(Self { stream, head, answer: vec![0; 4 << 20], filled: 0 })
    }

    fn ask(&mut self, position: Option<&str>) -> io::Result<()> {
        let mut request = self.head.clone();
        if let Some(position) = position {
            request.extend_from_slice(format!("if-none-match: {position}\r\n").as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        self.filled = 0;
        self.stream.write_all(&request)
    }

    /// Reads an answer: its status and where the reader is then.
    fn hear(&mut self) -> io::Result<(u16, String)> {
        let mut whole = None;
        while whole.is_none_or(|length| self.filled < length) {
            let read = self.stream.read(&mut self.answer[self.filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.filled += read;
            if whole.is_none() {
                whole = self.length()?;
            }
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let status = text(&self.answer[9..12]).parse().map_err(io::Error::other)?;
        if status != 200 && status != 304 {
            return Err(io::Error::other(text(&self.answer[..self.filled])));
        }
        let head = find(&self.answer[..self.filled], b"\r\n\r\n").unwrap_or(0);
        let etag = find(&self.answer[..head], b"\netag: ").map_or(String::new(), |at| {
            let value = self.answer[at + 7..head].iter().take_while(|byte| **byte != b'\r');
            text(&value.copied().collect::<Vec<_>>())
        });
        Ok((status, etag))
    }

    /// An answer that says nothing has changed has no body and may have no length.
    fn length(&self) -> io::Result<Option<usize>> {
        let so_far = &self.answer[..self.filled];
        if so_far.starts_with(b"HTTP/1.1 304") {
            return Ok(find(so_far, b"\r\n\r\n").map(|head| head + 4));
        }
        answer_length(so_far)
    }
}

/// One reader from the beginning to the end, beside the same pages from memory.
fn drain(arguments: &Arguments, ours: &Ours) -> io::Result<Vec<Line>> {
    let container = path("c");
    fill(ours.address, &container, &ours.next[0], DRAINED)?;
    let items = PAGE.to_string();
    let headers = [FEED, ("x-ms-max-item-count", items.as_str())];
    let mut reader = Reader::new(ours.address, &container, &headers)?;
    reader.ask(None)?;
    reader.hear()?;
    let page_bytes = reader.filled;
    let before = ours.server.resident_kib().unwrap_or(0);
    let ceiling = Ceiling::page(page_bytes)?;
    let (mut best, mut other, mut held) = (0.0_f64, 0.0_f64, before);
    for round in 0..arguments.rounds {
        let start = Instant::now();
        let (mut position, mut pages, mut bytes) = (None, 0_u64, 0);
        loop {
            reader.ask(position.as_deref())?;
            let (status, etag) = reader.hear()?;
            if status == 304 {
                break;
            }
            position = Some(etag);
            pages += 1;
            bytes += reader.filled;
            if pages % 32 == 0 {
                held = held.max(ours.server.resident_kib().unwrap_or(0));
            }
        }
        let found = ours.next[0].load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
        let mut theirs = Reader::new(ceiling.address, &container, &headers)?;
        let start = Instant::now();
        for _ in 0..pages {
            theirs.ask(None)?;
            theirs.hear()?;
        }
        let documents = bytes as f64 / (page_bytes as f64 / PAGE as f64);
        let ceiling = documents / start.elapsed().as_secs_f64();
        eprintln!("round {}: drained {found:.0}/s, from memory {ceiling:.0}/s", round + 1);
        (best, other) = (best.max(found), other.max(ceiling));
    }
    let above = held.saturating_sub(before) as f64 / 1024.0;
    Ok(vec![
        Line {
            name: format!("drain of {DRAINED} documents, 1 reader"),
            ours: best,
            other: Some(other),
            unit: "/s",
            target: Target::Share(0.45),
            note: String::new(),
        },
        told("memory above idle while draining", above, "MB", Target::AtMost(64.0)),
    ])
}

/// From the writer's answer to the bytes at a reader that waits.
fn push(ours: &Ours) -> io::Result<Vec<Line>> {
    let container = path("c");
    let (asked, next) = channel::<()>();
    let (tells, heard) = channel::<Instant>();
    let mut reader = Reader::new(ours.address, &container, &[FEED, WAIT])?;
    let mut position = {
        let mut at = Reader::new(ours.address, &container, &[FEED])?;
        at.ask(Some("*"))?;
        at.hear()?.1
    };
    let thread = std::thread::spawn(move || -> io::Result<()> {
        while next.recv().is_ok() {
            reader.ask(Some(&position))?;
            let (status, etag) = reader.hear()?;
            let at = Instant::now();
            position = etag;
            if status == 200 {
                let _ = tells.send(at);
            }
        }
        Ok(())
    });
    let mut wire = Wire::new(&ours.server.endpoint);
    let mut latencies = Vec::new();
    for _ in 0..PUSHES {
        let _ = asked.send(());
        // Time for the reader to get there and wait.
        std::thread::sleep(Duration::from_millis(2));
        let number = ours.next[0].fetch_add(1, Ordering::Relaxed);
        create(&mut wire, &container, &document(number), number)?;
        let answered = Instant::now();
        let heard = heard.recv().map_err(io::Error::other)?;
        // Zero where the reader had it before the writer had its answer.
        latencies.push(heard.saturating_duration_since(answered).as_nanos() as u32);
    }
    drop(asked);
    thread.join().map_err(|_| io::Error::other("the reader panicked"))??;
    let found = measure(latencies, Duration::from_secs(1));
    Ok(vec![
        told("push, half of all within", found.p50, "µs", Target::AtMost(50.0)),
        told("push, all but a hundredth within", found.p99, "µs", Target::AtMost(1000.0)),
    ])
}

fn create(wire: &mut Wire, container: &str, body: &str, number: u64) -> io::Result<()> {
    let key = format!("[\"{:04}\"]", number % 1000);
    let headers = [("x-ms-documentdb-partitionkey", key.as_str())];
    let made = wire.send("POST", &format!("{container}/docs"), &headers, body.as_bytes())?;
    if made.status == 201 {
        return Ok(());
    }
    Err(io::Error::other(format!("{} {}", made.status, made.text())))
}

/// Creates while many readers wait for other keys of the same partition, beside creates alone.
fn waiting(arguments: &Arguments, ours: &Ours) -> io::Result<Line> {
    let container = path("c");
    let work = ours.creates(0);
    let mut best = [Measure::default(); 2];
    for _ in 0..arguments.rounds {
        memory::touch()?;
        let alone = run(ours.address, &work, 64, arguments.round())?;
        let mut readers = Vec::new();
        for n in 0..WAITING {
            let key = format!("[\"waiting {n}\"]");
            let headers = [FEED, WAIT, ("x-ms-documentdb-partitionkey", key.as_str())];
            let mut reader = Reader::new(ours.address, &container, &headers)?;
            reader.answer = vec![0; 1024];
            reader.ask(Some("*"))?;
            readers.push(reader);
        }
        // All of them are waiting once the server has read what they sent.
        std::thread::sleep(Duration::from_millis(300));
        memory::touch()?;
        let beside = run(ours.address, &work, 64, arguments.round())?;
        eprintln!("creates {:.0}/s alone, {:.0}/s", alone.per_second, beside.per_second);
        for (best, found) in best.iter_mut().zip([beside, alone]) {
            if found.per_second > best.per_second {
                *best = found;
            }
        }
    }
    let name = format!("create, beside {WAITING} waiting readers");
    Ok(crate::line(&name, 64, best[0], best[1], Target::Share(0.5)))
}

/// How fast the end of a feed is read, over and over.
pub fn tail(ours: &Ours, container: &str) -> io::Result<Measure> {
    let mut reader = Reader::new(ours.address, &path(container), &[FEED])?;
    reader.ask(Some("*"))?;
    let mut position = reader.hear()?.1;
    let mut latencies = Vec::new();
    let began = Instant::now();
    for _ in 0..TAIL_READS {
        let start = Instant::now();
        reader.ask(Some(&position))?;
        position = reader.hear()?.1;
        latencies.push(start.elapsed().as_nanos() as u32);
    }
    Ok(measure(latencies, began.elapsed()))
}

/// Creates and reads before and while a million items expire in one second.
fn expire(ours: &Ours) -> io::Result<Vec<Line>> {
    let mut wire = Wire::new(&ours.server.endpoint);
    let body = r#"{"id":"x","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1,
        "indexingPolicy":{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}}"#;
    let made = wire.send("POST", "/dbs/b/colls", &[], body.as_bytes())?;
    if made.status != 201 {
        return Err(io::Error::other(made.text()));
    }
    let end = Instant::now() + Duration::from_secs(EXPIRING / 8_000);
    let next = Arc::new(AtomicU64::new(0));
    let loaders: Vec<_> = (0..16)
        .map(|_| {
            let (next, endpoint) = (Arc::clone(&next), ours.server.endpoint.clone());
            std::thread::spawn(move || load_expiring(&endpoint, &next, end))
        })
        .collect();
    for loader in loaders {
        loader.join().map_err(|_| io::Error::other("a loader panicked"))??;
    }
    if next.load(Ordering::Relaxed) < EXPIRING {
        return Err(io::Error::other("too slow: some would expire before the last one is there"));
    }
    let round = Duration::from_secs(3);
    let before = [
        run(ours.address, &ours.creates(0), 16, round)?,
        run(ours.address, &ours.reads(1), 16, round)?,
    ];
    std::thread::sleep((end + Duration::from_secs(1)).saturating_duration_since(Instant::now()));
    let during = [
        run(ours.address, &ours.creates(0), 16, round)?,
        run(ours.address, &ours.reads(1), 16, round)?,
    ];
    Ok(vec![
        crate::line("create while 1 M items expire", 16, during[0], before[0], Target::Share(0.5)),
        crate::line("read while 1 M items expire", 16, during[1], before[1], Target::Share(0.5)),
    ])
}

fn load_expiring(endpoint: &str, next: &AtomicU64, end: Instant) -> io::Result<()> {
    let mut wire = Wire::new(endpoint);
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let left = end.saturating_duration_since(Instant::now()).as_secs();
        if number >= EXPIRING || left == 0 {
            return Ok(());
        }
        let text = document(number);
        let body = format!("{},\"ttl\":{left}}}", &text[..text.len() - 1]);
        create(&mut wire, "/dbs/b/colls/x", &body, number)?;
    }
}

fn told(name: &str, ours: f64, unit: &'static str, target: Target) -> Line {
    Line { name: name.to_owned(), ours, other: None, unit, target, note: String::new() }
}
