//! The load: connections that send one request after the other, and how long each took.
//!
//! Requests are made and signed beforehand, answers are only looked at for their status and
//! length, and all connections share one thread: what is measured should be the server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use conformance::wire::signed;
pub use memchr::memmem::find;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

/// The size of a document.
pub const DOCUMENT_BYTES: usize = 1024;

/// Partition keys that documents are spread over.
const KEYS: u64 = 1000;

/// What one run gave.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measure {
    /// Answers per second.
    pub per_second: f64,
    /// Half of them took no longer than this, in microseconds.
    pub p50: f64,
    /// All but a hundredth took no longer than this, in microseconds.
    pub p99: f64,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub enum Work {
    /// Point reads of documents that exist, chosen as the numbers say.
    Read {
        /// `/dbs/b/colls/c`
        container: String,
        /// Numbers of documents.
        numbers: Vec<u64>,
    },
    /// Creates with numbers from the counter on.
    Create {
        /// `/dbs/b/colls/c`
        container: String,
        /// The next number.
        next: Arc<AtomicU64>,
    },
    /// Batches of creates.
    Batch {
        /// `/dbs/b/colls/c`
        container: String,
        /// The number of the next batch.
        next: Arc<AtomicU64>,
    },
    /// Runs of a stored procedure, whose argument is a number as text.
    Execute {
        /// `/dbs/b/colls/c/sprocs/s`
        procedure: String,
        /// The next number.
        next: Arc<AtomicU64>,
    },
}

/// Documents of one batch.
pub const BATCH_DOCUMENTS: u64 = 100;

impl Work {
    /// The same work for another server: what is created there does not count here.
    pub fn apart(&self) -> Self {
        match self {
            Self::Read { .. } => self.clone(),
            Self::Create { container, .. } => {
                Self::Create { container: container.clone(), next: Arc::default() }
            }
            Self::Batch { container, .. } => {
                Self::Batch { container: container.clone(), next: Arc::default() }
            }
            Self::Execute { procedure, .. } => {
                Self::Execute { procedure: procedure.clone(), next: Arc::default() }
            }
        }
    }
}

/// Requests ready to be sent.
enum Requests {
    Fixed { all: Vec<Vec<u8>>, next: AtomicU64 },
    Numbered { heads: Vec<Vec<u8>>, next: Arc<AtomicU64>, body: fn(u64) -> String },
}

/// Runs the work on so many connections for so long.
pub fn run(
    address: SocketAddr,
    work: &Work,
    connections: usize,
    time: Duration,
) -> io::Result<Measure> {
    let requests = Arc::new(Requests::prepare(work, &address.to_string()));
    let status = if matches!(work, Work::Create { .. }) { b"201" } else { b"200" };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let start = Instant::now();
        let tasks: Vec<_> = streams
            .into_iter()
            .map(|stream| tokio::spawn(drive(stream, Arc::clone(&requests), status, start + time)))
            .collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.map_err(io::Error::other)??);
        }
        Ok(measure(latencies, start.elapsed()))
    })
}

/// Creates documents until the counter reaches the number.
pub fn fill(
    address: SocketAddr,
    container: &str,
    next: &Arc<AtomicU64>,
    until: u64,
) -> io::Result<()> {
    while next.load(Ordering::Relaxed) < until {
        let work = Work::Create { container: container.to_owned(), next: Arc::clone(next) };
        let left = until - next.load(Ordering::Relaxed);
        // Short runs near the end, so that not much more is made than was asked for.
        let time = if left > 200_000 { Duration::from_secs(5) } else { Duration::from_millis(100) };
        run(address, &work, 64, time)?;
    }
    Ok(())
}

impl Requests {
    fn prepare(work: &Work, host: &str) -> Self {
        match work {
            Work::Read { container, numbers } => {
                let all =
                    numbers.iter().map(|&number| read_request(container, number, host)).collect();
                Self::Fixed { all, next: AtomicU64::new(0) }
            }
            Work::Create { container, next } => {
                let heads = (0..KEYS).map(|key| create_request(container, key, host)).collect();
                Self::Numbered { heads, next: Arc::clone(next), body: document }
            }
            Work::Batch { container, next } => {
                let heads = (0..KEYS).map(|key| batch_request(container, key, host)).collect();
                Self::Numbered { heads, next: Arc::clone(next), body: batch }
            }
            Work::Execute { procedure, next } => {
                let heads = vec![execute_request(procedure, host)];
                Self::Numbered { heads, next: Arc::clone(next), body: argument }
            }
        }
    }

    /// Puts the next request into the buffer.
    fn next(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        match self {
            Self::Fixed { all, next } => {
                let n = next.fetch_add(1, Ordering::Relaxed) as usize % all.len();
                buffer.extend_from_slice(&all[n]);
            }
            Self::Numbered { heads, next, body } => {
                let n = next.fetch_add(1, Ordering::Relaxed);
                buffer.extend_from_slice(&heads[n as usize % heads.len()]);
                buffer.extend_from_slice(body(n).as_bytes());
            }
        }
    }
}

fn id(number: u64) -> String {
    format!("{number:012}")
}

/// A document of exactly the size, of the sort that applications keep.
pub fn document(number: u64) -> String {
    let mut text = String::with_capacity(DOCUMENT_BYTES);
    push_document(&mut text, number, number % KEYS);
    text
}

/// What documents are filled up with.
const FILLING: &str = match std::str::from_utf8(&[b'n'; DOCUMENT_BYTES]) {
    Ok(text) => text,
    Err(_) => "",
};

/// Put together from pieces: to make documents must cost next to nothing beside sending them.
fn push_document(text: &mut String, number: u64, key: u64) {
    let start = text.len();
    text.push_str("{\"id\":\"");
    push_digits(text, number, 12);
    text.push_str("\",\"pk\":\"");
    push_digits(text, key, 4);
    text.push_str(
        r#"","kind":"order","customer":{"name":"Ann Example","city":"Zürich","since":2019},"total":1"#,
    );
    push_digits(text, number % 1_000_000, 6);
    text.push_str(".25,\"paid\":true,\"number\":");
    push_digits(text, number, 1);
    text.push_str(",\"tenth\":");
    push_digits(text, number % 10, 1);
    text.push_str(",\"grp\":\"group ");
    push_digits(text, number % 100, 2);
    text.push_str(r#"","lines":[{"sku":"A-100","count":2},{"sku":"B-200","count":1}],"note":""#);
    let filling = DOCUMENT_BYTES - (text.len() - start) - 2;
    text.push_str(&FILLING[..filling]);
    text.push_str("\"}");
}

/// A number, with zeros before it where it is shorter.
fn push_digits(text: &mut String, mut number: u64, at_least: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 || digits.len() - at < at_least {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    text.extend(digits[at..].iter().map(|digit| char::from(*digit)));
}

/// A batch of creates under one key; all are of one size.
fn batch(number: u64) -> String {
    let mut text = String::with_capacity(BATCH_DOCUMENTS as usize * (DOCUMENT_BYTES + 64));
    for n in 0..BATCH_DOCUMENTS {
        text.push(if n == 0 { '[' } else { ',' });
        text.push_str("{\"operationType\":\"Create\",\"resourceBody\":");
        push_document(&mut text, number * BATCH_DOCUMENTS + n, number % KEYS);
        text.push('}');
    }
    text.push(']');
    text
}

/// The argument of a procedure; all are of one size.
fn argument(number: u64) -> String {
    format!("[\"{}\"]", id(number))
}

fn batch_request(container: &str, key: u64, host: &str) -> Vec<u8> {
    let header = format!("[\"{key:04}\"]");
    let headers = [
        ("x-ms-documentdb-partitionkey", header.as_str()),
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "True"),
        ("prefer", "return=minimal"),
    ];
    head("POST", &format!("{container}/docs"), &headers, &batch(key), host)
}

fn execute_request(procedure: &str, host: &str) -> Vec<u8> {
    head("POST", procedure, &[("x-ms-documentdb-partitionkey", "[\"0000\"]")], &argument(0), host)
}

/// The head of a request with a body of this size.
fn head(verb: &str, path: &str, headers: &[(&str, &str)], body: &str, host: &str) -> Vec<u8> {
    let bytes = signed(verb, path, headers, body.as_bytes()).bytes(host);
    bytes[..bytes.len() - body.len()].to_vec()
}

fn read_request(container: &str, number: u64, host: &str) -> Vec<u8> {
    let key = format!("[\"{:04}\"]", number % KEYS);
    let path = format!("{container}/docs/{}", id(number));
    signed("GET", &path, &[("x-ms-documentdb-partitionkey", &key)], &[]).bytes(host)
}

/// The head of a create; bodies are all of one size.
fn create_request(container: &str, key: u64, host: &str) -> Vec<u8> {
    let header = format!("[\"{key:04}\"]");
    let path = format!("{container}/docs");
    head("POST", &path, &[("x-ms-documentdb-partitionkey", &header)], &document(key), host)
}

/// Sends and waits, over and over; the latencies in nanoseconds.
async fn drive(
    mut stream: TcpStream,
    requests: Arc<Requests>,
    status: &[u8],
    end: Instant,
) -> io::Result<Vec<u32>> {
    let mut latencies = Vec::with_capacity(1 << 16);
    let (mut request, mut answer) = (Vec::new(), Vec::with_capacity(8192));
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok(latencies);
        }
        requests.next(&mut request);
        stream.write_all(&request).await?;
        receive(&mut stream, &mut answer, status).await?;
        latencies.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
}

async fn receive(stream: &mut TcpStream, answer: &mut Vec<u8>, status: &[u8]) -> io::Result<()> {
    answer.clear();
    let mut whole = None;
    loop {
        if stream.read_buf(answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if whole.is_none() {
            whole = answer_length(answer)?;
        }
        if whole.is_some_and(|length| answer.len() >= length) {
            break;
        }
    }
    if answer.get(9..12) == Some(status) {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(answer).into_owned()))
}

/// How long head and body are together, once the head is there.
pub fn answer_length(answer: &[u8]) -> io::Result<Option<usize>> {
    let Some(head) = find(answer, b"\r\n\r\n") else { return Ok(None) };
    let name = b"content-length: ";
    let at = find(&answer[..head], name)
        .ok_or_else(|| io::Error::other("an answer without content-length"))?;
    let digits = answer[at + name.len()..head].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    Ok(Some(head + 4 + length))
}

/// What latencies in nanoseconds come to.
pub fn measure(mut latencies: Vec<u32>, took: Duration) -> Measure {
    latencies.sort_unstable();
    let at = |share: f64| {
        let index = (latencies.len().saturating_sub(1)) as f64 * share;
        latencies.get(index as usize).map_or(0.0, |&nanos| f64::from(nanos) / 1000.0)
    };
    Measure { per_second: latencies.len() as f64 / took.as_secs_f64(), p50: at(0.5), p99: at(0.99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_of_one_size() {
        for number in [0, 1, 999, 123_456_789_012] {
            assert_eq!(document(number).len(), DOCUMENT_BYTES);
        }
        assert!(document(7).starts_with(r#"{"id":"000000000007","pk":"0007","kind""#));
        assert!(document(7).contains(r#""total":1000007.25,"paid":true,"number":7,"tenth":7,"#));
        assert_eq!(batch(0).len(), batch(9_999_999).len());
        assert_eq!(argument(0).len(), argument(9_999_999).len());
    }

    #[test]
    fn an_answer_is_as_long_as_its_head_says() {
        assert_eq!(answer_length(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n").expect("fine"), None);
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        assert_eq!(answer_length(whole).expect("fine"), Some(whole.len()));
    }
}
