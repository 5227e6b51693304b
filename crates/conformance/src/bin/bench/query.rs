//! Queries over many documents, beside PostgreSQL with a `jsonb` column and fitting indexes.
//!
//! Both sides hold the same documents and are asked the same by one client at a time. Pages are
//! followed to the end, so what is measured is the whole answer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use conformance::random::Random;
use conformance::wire::signed;

use crate::load::{self, Measure, fill, run};
use crate::postgres::Postgres;
use crate::table::{Line, Target};
use crate::{Arguments, DOCUMENTS, Ours, memory, path};

/// Documents that are asked for.
pub const QUERIED: u64 = 1_000_000;
/// What a scan without an index should read in a second, of stored JSON, in MB.
const SCAN_MB: f64 = 300.0;

/// A question, to us and to PostgreSQL.
struct Question {
    name: &'static str,
    /// With `@n` for the number that is drawn.
    ours: &'static str,
    /// With `:n` for it.
    theirs: &'static str,
    /// Numbers that are drawn lie below this.
    below: fn(u64) -> u64,
    /// Rows of the answer.
    rows: usize,
    by: By,
}

/// What of the answers is held against the other side.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// How long half of them take at most.
    Time,
    /// How many there are in a second.
    Rate,
}

const QUESTIONS: &[Question] = &[
    Question {
        name: "one document by an indexed property, p50",
        ours: "SELECT * FROM c WHERE c.number = @n",
        theirs: "select body from queried where (body->>'number')::bigint = :n;",
        below: |documents| documents,
        rows: 1,
        by: By::Time,
    },
    Question {
        name: "a range of 1,000 documents",
        ours: "SELECT * FROM c WHERE c.number >= @n AND c.number < @n + 1000",
        theirs: "select body from queried where (body->>'number')::bigint >= :n \
                 and (body->>'number')::bigint < :n + 1000;",
        below: |documents| documents - 1000,
        rows: 1000,
        by: By::Rate,
    },
    Question {
        name: "ORDER BY with LIMIT 100",
        ours: "SELECT * FROM c ORDER BY c.number OFFSET 0 LIMIT 100",
        theirs: "select body from queried order by (body->>'number')::bigint limit 100;",
        below: |documents| documents,
        rows: 100,
        by: By::Rate,
    },
    Question {
        name: "COUNT over a tenth",
        ours: "SELECT VALUE COUNT(1) FROM c WHERE c.tenth = @n % 10",
        theirs: "select count(*) from queried where (body->>'tenth')::bigint = :n % 10;",
        below: |documents| documents,
        rows: 1,
        by: By::Rate,
    },
    Question {
        name: "GROUP BY with 100 groups",
        ours: "SELECT c.grp, COUNT(1) AS n FROM c GROUP BY c.grp",
        theirs: "select body->>'grp', count(*) from queried group by 1;",
        below: |documents| documents,
        rows: 100,
        by: By::Rate,
    },
];

/// All questions, the scan, and what indexes cost writers.
pub fn lines(arguments: &Arguments) -> io::Result<Vec<Line>> {
    let documents = arguments.documents.unwrap_or(QUERIED);
    let ours = Ours::start(DOCUMENTS.min(documents))?;
    let mut lines = vec![write_cost(arguments, &ours)?];
    let start = Instant::now();
    fill(ours.address, &path("d"), &ours.next[1], documents)?;
    eprintln!("{documents} documents after {:.0} s", start.elapsed().as_secs_f64());
    let postgres = match Postgres::for_queries(documents) {
        Ok(postgres) => Some(postgres),
        Err(why) => {
            eprintln!("PostgreSQL is left out: {why}");
            None
        }
    };
    let mut asker = Asker::new(ours.address)?;
    for question in QUESTIONS {
        lines.push(ask(arguments, &mut asker, postgres.as_ref(), question, documents)?);
    }
    lines.push(scan(arguments, &mut asker, documents)?);
    Ok(lines)
}

/// Creates with all paths indexed, beside creates with none.
fn write_cost(arguments: &Arguments, ours: &Ours) -> io::Result<Line> {
    let mut best = [Measure::default(); 2];
    for _ in 0..arguments.rounds {
        for (best, container) in best.iter_mut().zip([1, 0]) {
            memory::touch()?;
            let found = run(ours.address, &ours.creates(container), 64, arguments.round())?;
            if found.per_second > best.per_second {
                *best = found;
            }
        }
    }
    let name = "create with all paths indexed, beside none";
    Ok(crate::line(name, 64, best[0], best[1], Target::Share(0.5)))
}

fn ask(
    arguments: &Arguments,
    asker: &mut Asker,
    postgres: Option<&Postgres>,
    question: &Question,
    documents: u64,
) -> io::Result<Line> {
    let below = (question.below)(documents).max(1);
    let (mut best, mut other) = (Measure::default(), None::<Measure>);
    for round in 0..arguments.rounds.min(3) {
        let mut random = Random::new(round as u64 + 1);
        let found = measured(arguments.round(), || {
            let (text, number) = (question.ours, random.below(below));
            let rows = asker.ask(text, number)?;
            if rows == question.rows {
                return Ok(());
            }
            Err(io::Error::other(format!("{text}: {rows} rows of {number}, not {}", question.rows)))
        })?;
        if found.per_second > best.per_second {
            best = found;
        }
        if let Some(postgres) = postgres {
            let seconds = (arguments.seconds.round() as u64).max(1);
            let found = postgres.ask(question.theirs, below, seconds).map_err(io::Error::other)?;
            if other.is_none_or(|best| found.per_second > best.per_second) {
                other = Some(found);
            }
        }
    }
    Ok(question.line(best, other))
}

impl Question {
    fn line(&self, best: Measure, other: Option<Measure>) -> Line {
        let (rate, p50) = (other.map(|other| other.per_second), other.map(|other| other.p50));
        let p99 = (best.p99, other.map_or(0.0, |other| other.p99));
        let name = self.name.to_owned();
        match self.by {
            By::Time => {
                let rates = (best.per_second, rate.unwrap_or(0.0));
                let note = format!(
                    " {:.0} /s, p99 {:.0} µs (other {:.0} /s, {:.0})",
                    rates.0, p99.0, rates.1, p99.1
                );
                let target = p50.map_or(Target::Told, Target::AtMost);
                Line { name, ours: best.p50, other: p50, unit: "µs", target, note }
            }
            By::Rate => {
                let p50 = (best.p50, p50.unwrap_or(0.0));
                let note = format!(
                    " p50 {:.0} p99 {:.0} µs (other {:.0} {:.0})",
                    p50.0, p99.0, p50.1, p99.1
                );
                let target = Target::Share(1.0);
                Line { name, ours: best.per_second, other: rate, unit: "/s", target, note }
            }
        }
    }
}

/// A filter that no index serves, over everything.
fn scan(arguments: &Arguments, asker: &mut Asker, documents: u64) -> io::Result<Line> {
    let text = "SELECT VALUE COUNT(1) FROM c WHERE c.note || c.kind = 'nobody'";
    let mut best = Measure::default();
    for _ in 0..arguments.rounds.min(3) {
        let found = measured(Duration::ZERO, || asker.ask(text, 0).map(drop))?;
        if found.per_second > best.per_second {
            best = found;
        }
    }
    let mb = documents as f64 * load::DOCUMENT_BYTES as f64 / 1e6;
    Ok(Line {
        name: "scan without an index".to_owned(),
        ours: best.per_second * mb,
        other: Some(SCAN_MB),
        unit: "MB/s",
        target: Target::Share(1.0),
        note: String::new(),
    })
}

/// Asks queries over one connection. Heads are signed beforehand, and answers are only looked at for
/// their rows and for whether there are more: PostgreSQL's client does no more than that either.
struct Asker {
    stream: TcpStream,
    head: Vec<u8>,
    body: Vec<u8>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Asker {
    fn new(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let headers = [
            ("content-type", "application/query+json"),
            ("x-ms-documentdb-isquery", "True"),
            ("x-ms-documentdb-query-enablecrosspartition", "True"),
            ("x-ms-max-item-count", "1000"),
        ];
        let path = format!("{}/docs", path("d"));
        let mut head = signed("POST", &path, &headers, &[]).bytes(&address.to_string());
        // Length and continuation come last, with the end of the head.
        let length = load::find(&head, b"content-length").unwrap_or(head.len() - 2);
        head.truncate(length);
        Ok(Self { stream, head, body: Vec::new(), request: Vec::new(), answer: Vec::new() })
    }

    /// Rows of a whole answer.
    fn ask(&mut self, text: &str, number: u64) -> io::Result<usize> {
        let (mut rows, mut continuation) = (0, None);
        loop {
            self.send(text, number, continuation.as_deref())?;
            let head = self.receive()?;
            let head = &self.answer[..head];
            if head.get(9..12) != Some(b"200") {
                let said = String::from_utf8_lossy(head);
                return Err(io::Error::other(format!("{text}: {said}")));
            }
            let count = header(head, b"\nx-ms-item-count: ").and_then(|count| count.parse().ok());
            rows += count.unwrap_or(0_usize);
            continuation = header(head, b"\nx-ms-continuation: ").map(str::to_owned);
            if continuation.is_none() {
                return Ok(rows);
            }
        }
    }

    fn send(&mut self, text: &str, number: u64, continuation: Option<&str>) -> io::Result<()> {
        self.body.clear();
        write!(
            self.body,
            r#"{{"query":"{text}","parameters":[{{"name":"@n","value":{number}}}]}}"#
        )?;
        self.request.clear();
        self.request.extend_from_slice(&self.head);
        if let Some(continuation) = continuation {
            write!(self.request, "x-ms-continuation: {continuation}\r\n")?;
        }
        write!(self.request, "content-length: {}\r\n\r\n", self.body.len())?;
        self.request.extend_from_slice(&self.body);
        self.stream.write_all(&self.request)
    }

    /// Reads an answer, and says where its head ends.
    fn receive(&mut self) -> io::Result<usize> {
        let mut filled = 0;
        let mut whole = None;
        while whole.is_none_or(|whole| filled < whole) {
            if self.answer.len() < filled + (64 << 10) {
                self.answer.resize(filled + (1 << 20), 0);
            }
            let read = self.stream.read(&mut self.answer[filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
            whole = match whole {
                None => load::answer_length(&self.answer[..filled])?,
                known => known,
            };
        }
        Ok(load::find(&self.answer[..filled], b"\r\n\r\n").unwrap_or(filled))
    }
}

fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let value = &head[load::find(head, name)? + name.len()..];
    let end = value.iter().position(|byte| *byte == b'\r').unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).ok()
}

/// Does something over and over for so long, at least once.
fn measured(time: Duration, mut work: impl FnMut() -> io::Result<()>) -> io::Result<Measure> {
    let start = Instant::now();
    let mut latencies = Vec::new();
    while latencies.is_empty() || start.elapsed() < time {
        let begun = Instant::now();
        work()?;
        latencies.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(load::measure(latencies, start.elapsed()))
}
