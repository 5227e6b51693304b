//! A small HTTP/1.1 client: one connection, one request at a time.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A server that does not answer for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is sent.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The verb.
    pub method: String,
    /// Path and query, as they go on the wire.
    pub path: String,
    /// Headers; `host` and `content-length` are added where they are missing.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// Sets a header, in place of one of the same name.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.into()));
    }

    /// Takes a header away.
    pub fn remove(&mut self, name: &str) {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
    }

    /// Whether it has that header.
    pub fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
    }

    /// The bytes that go on the wire.
    pub fn bytes(&self, host: &str) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.has("host") {
            out.push_str(&format!("host: {host}\r\n"));
        }
        for (name, value) in &self.headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.has("content-length") {
            out.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        out.push_str("\r\n");
        let mut bytes = out.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// What came back.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text, whatever it holds.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A client of one server; connects when needed.
#[derive(Debug)]
pub struct Client {
    host: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    /// A client of `http://host:port`.
    pub fn new(endpoint: &str) -> Self {
        let host = endpoint.trim_start_matches("http://").trim_end_matches('/');
        Self { host: host.to_owned(), stream: None }
    }

    /// `host:port`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Sends a request and waits for its answer.
    ///
    /// A connection that the server closed while it was idle is opened again, once.
    pub fn send(&mut self, request: &Request) -> io::Result<Response> {
        let bytes = request.bytes(&self.host);
        let reused = self.stream.is_some();
        match self.exchange(&bytes, request.method == "HEAD") {
            Err(error) if reused && is_closed(&error) => {
                self.exchange(&bytes, request.method == "HEAD")
            }
            other => other,
        }
    }

    fn exchange(&mut self, bytes: &[u8], is_head: bool) -> io::Result<Response> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => BufReader::new(connect(&self.host)?),
        };
        // A server may refuse before it has read everything: its answer counts, not our broken pipe.
        let sent = stream.get_mut().write_all(bytes);
        let response = match read_response(&mut stream, is_head) {
            Ok(response) => response,
            Err(error) => return Err(sent.err().unwrap_or(error)),
        };
        let closes =
            response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if !closes && sent.is_ok() {
            self.stream = Some(stream);
        }
        Ok(response)
    }
}

/// An open connection with patience set.
pub fn connect(host: &str) -> io::Result<TcpStream> {
    let address = host.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such host"))?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Reads one whole answer.
pub fn read_response(stream: &mut impl BufRead, is_head: bool) -> io::Result<Response> {
    let status = loop {
        let status = read_status(stream)?;
        if status >= 200 {
            break status;
        }
        // An interim answer (100 Continue) has headers of its own, which say nothing.
        read_headers(stream)?;
    };
    let mut response = Response { status, headers: read_headers(stream)?, body: Vec::new() };
    if is_head || status == 204 || status == 304 {
        return Ok(response);
    }
    if response.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        response.body = read_chunks(stream)?;
    } else if let Some(length) = response.header("content-length") {
        let length = length.parse().map_err(|_| io::Error::other("content-length is no number"))?;
        response.body = vec![0; length];
        stream.read_exact(&mut response.body)?;
    } else {
        stream.read_to_end(&mut response.body)?;
    }
    Ok(response)
}

fn read_status(stream: &mut impl BufRead) -> io::Result<u16> {
    let line = read_line(stream)?;
    let status = line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|code| code.parse().ok());
    status.ok_or_else(|| io::Error::other(format!("not an answer: {line:?}")))
}

fn read_headers(stream: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            return Ok(headers);
        }
        let (name, value) =
            line.split_once(':').ok_or_else(|| io::Error::other("a header without a colon"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn read_chunks(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(stream)?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16);
        let size =
            size.map_err(|_| io::Error::other(format!("not the size of a chunk: {line:?}")))?;
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..])?;
        read_line(stream)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    // Headers may hold any byte above 0x7f; as text they must only not be lost.
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wire: &str, status: u16, body: &str) {
        let response = read_response(&mut wire.as_bytes(), false).expect("a whole answer");
        assert_eq!((response.status, response.text().as_str()), (status, body));
    }

    #[test]
    fn bodies_end_by_length_by_chunks_or_by_the_end() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}rest", 200, "{}");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
            200,
            "abc",
        );
        check("HTTP/1.1 400 Bad\r\n\r\nall of it", 400, "all of it");
        check("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, "");
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
            201,
            "",
        );
    }

    #[test]
    fn a_cut_answer_is_an_error() {
        assert!(
            read_response(&mut "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}".as_bytes(), false)
                .is_err()
        );
        assert!(read_response(&mut "HTTP/1.1 200".as_bytes(), false).is_err());
    }
}
