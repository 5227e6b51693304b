//! A server in this process, and a client that sends exactly what it is told.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::Value;
use server::settings::WELL_KNOWN_KEY;
use server::{Options, Server, auth, date, path::Path, store, tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const READ_ONLY_KEY: &[u8] = b"a key that only reads, 32 bytes.";
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub struct Running {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

pub async fn start() -> Running {
    start_with(Options::default()).await
}

pub async fn start_with(options: Options) -> Running {
    let engine = store::open(store::Place::Memory, false, 1 << 20, None).await.unwrap();
    let keys =
        auth::Keys::new(&[STANDARD.decode(WELL_KNOWN_KEY).unwrap()], &[READ_ONLY_KEY.to_vec()]);
    let identity = tls::Identity::passing(vec!["localhost".into()]).unwrap();
    let server: Arc<Server> = Server::new(engine, keys, Some(identity), options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async {
        let _ = stopped.await;
    };
    let served = tokio::spawn(server::serve(listener, server, shutdown));
    Running { address, stop, served }
}

impl Running {
    pub async fn connect(&self) -> Client {
        Client { stream: soon(TcpStream::connect(self.address)).await.unwrap(), unread: Vec::new() }
    }

    /// One signed request on a connection of its own.
    pub async fn send(&self, request: Request) -> Answer {
        self.connect().await.send(request).await
    }

    pub async fn ask(&self, line: &str, body: &str) -> Answer {
        self.send(Request::new(line).body(body)).await
    }

    /// Tells the server to stop; the result is done when it has.
    pub fn stop(self) -> JoinHandle<()> {
        self.stop.send(()).unwrap();
        self.served
    }

    /// A database `d` with a container `c`, partitioned by `/pk`.
    pub async fn with_container(self) -> Self {
        self.ask("POST /dbs", r#"{"id":"d"}"#).await.is(201);
        let container = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
        self.ask("POST /dbs/d/colls", container).await.is(201);
        self
    }
}

/// Lets this process have as many connections as the system allows.
pub fn many_files() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

/// Waits, but not for ever.
pub async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("took too long")
}

/// Who signs, if anybody.
#[derive(Clone)]
pub enum Signer {
    Key(Vec<u8>),
    Header(String),
    Nobody,
}

/// A request to be written out.
#[derive(Clone)]
pub struct Request {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    signer: Signer,
    now: u64,
}

impl Request {
    /// `METHOD path`, then headers as `name=value`, all separated by spaces.
    pub fn new(line: &str) -> Self {
        let mut words = line.split(' ');
        let method = words.next().unwrap().parse().unwrap();
        let path = words.next().unwrap().to_owned();
        let headers = words.map(|word| word.split_once('=').unwrap());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let signer = Signer::Key(STANDARD.decode(WELL_KNOWN_KEY).unwrap());
        Self { method, path, headers, body: Vec::new(), signer, now: date::now() }
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn pk(self, key: &str) -> Self {
        self.header("x-ms-documentdb-partitionkey", format!("[\"{key}\"]"))
    }

    pub fn signer(mut self, signer: Signer) -> Self {
        self.signer = signer;
        self
    }

    pub fn at(mut self, now: u64) -> Self {
        self.now = now;
        self
    }

    /// The headers that a client adds, in the form `name: value`.
    pub fn signed_headers(&self) -> Vec<(String, String)> {
        let date = date::format(self.now);
        let mut headers = self.headers.clone();
        let authorization = match &self.signer {
            Signer::Nobody => return headers,
            Signer::Header(text) => text.clone(),
            Signer::Key(key) => {
                let path = Path::parse(&self.path).unwrap();
                let (kind, link) = path.signed();
                let signature = auth::sign(key, &self.method, kind, &link.join("/"), &date);
                format!("type=master&ver=1.0&sig={signature}")
            }
        };
        headers.push(("authorization".into(), encoded(&authorization)));
        headers.push(("x-ms-date".into(), date));
        headers
    }

    /// The bytes up to the body.
    pub fn head(&self, length: &str) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: db.example:7\r\n", self.method, self.path);
        for (name, value) in self.signed_headers() {
            head += &format!("{name}: {value}\r\n");
        }
        head + length + "\r\n\r\n"
    }

    pub fn bytes(&self) -> Vec<u8> {
        let head = self.head(&format!("content-length: {}", self.body.len()));
        [head.as_bytes(), &self.body].concat()
    }
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes()
        .map(|b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// A connection.
pub struct Client {
    pub stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    pub async fn send(&mut self, request: Request) -> Answer {
        let head_only = request.method == Method::HEAD;
        self.write(&request.bytes()).await;
        self.read_answer(head_only).await.expect("no answer")
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.unwrap();
    }

    /// The next answer, or `None` if the server has closed the connection.
    pub async fn answer(&mut self) -> Option<Answer> {
        self.read_answer(false).await
    }

    async fn read_answer(&mut self, head_only: bool) -> Option<Answer> {
        let end = loop {
            match self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => self.fill().await?,
            }
        };
        let head = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        let mut answer = Answer::parse(&head);
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        if !head_only {
            while self.unread.len() < length {
                self.fill().await?;
            }
            answer.body = self.unread.drain(..length).collect();
        }
        Some(answer)
    }

    /// Reads what comes, whatever it is; false at the end.
    pub async fn has_more(&mut self) -> bool {
        self.fill().await.is_some()
    }

    /// Reads until some words have come, and gives what came up to their end.
    pub async fn text_to(&mut self, words: &str) -> String {
        loop {
            let found = self.unread.windows(words.len()).position(|text| text == words.as_bytes());
            match found {
                Some(at) => {
                    let text = self.unread.drain(..at + words.len()).collect();
                    return String::from_utf8(text).unwrap();
                }
                None => self.fill().await.expect("the stream ended"),
            }
        }
    }

    async fn fill(&mut self) -> Option<()> {
        let mut chunk = [0; 4096];
        let read = soon(self.stream.read(&mut chunk)).await.unwrap_or(0);
        self.unread.extend_from_slice(&chunk[..read]);
        (read > 0).then_some(())
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    fn parse(head: &str) -> Self {
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { status, headers, body: Vec::new() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?} {}", String::from_utf8_lossy(&self.body));
        assert!(self.header("x-ms-activity-id").is_some());
        if status >= 400 {
            let body = self.json();
            assert!(body["code"].is_string() && body["message"].is_string(), "{body}");
        }
        self
    }

    /// A refusal whose message contains some words.
    #[track_caller]
    pub fn refused(self, status: u16, words: &str) -> Self {
        let answer = self.is(status);
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{message}");
        answer
    }
}
