//! A proxy that does to each request what a test tells it to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What happens to a request.
pub enum Fate {
    /// It reaches the server, and the answer comes back.
    Pass,
    /// The server never sees it; this is the answer.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// The connection is cut before the server sees it.
    CutBefore,
    /// The server does what it is asked, and the connection is cut before the answer.
    CutAfter,
    /// The connection is cut in the middle of the answer.
    CutWithin,
    /// The server does what it is asked, and the answer comes when the test says so.
    Hold(Arc<Notify>),
    /// It waits for a while, then passes.
    Delay(Duration),
    /// Bytes that are no answer.
    Noise,
}

/// The head of a request.
#[derive(Debug, Clone)]
pub struct Head {
    pub method: String,
    pub path: String,
    text: String,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.text.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Whether it is about items: not the account, and not the ranges.
    pub fn is_item(&self) -> bool {
        self.path.contains("/docs")
    }
}

type Script = Box<dyn FnMut(&Head) -> Fate + Send>;

/// A running proxy; it stops when dropped.
pub struct Proxy {
    pub endpoint: String,
    script: Arc<Mutex<Script>>,
    seen: Arc<Mutex<Vec<Head>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Before a server at `http://host:port`; everything passes.
    pub async fn before(server: &str) -> Self {
        let upstream = server.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(|_| Fate::Pass)));
        let seen = Arc::<Mutex<Vec<Head>>>::default();
        let (told, noted) = (script.clone(), seen.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let decide = {
                    let (told, noted) = (told.clone(), noted.clone());
                    move |head: &Head| {
                        noted.lock().unwrap().push(head.clone());
                        (*told.lock().unwrap())(head)
                    }
                };
                connections.spawn(serve(stream, upstream.clone(), decide));
            }
        });
        Self { endpoint, script, seen, _tasks: tasks }
    }

    /// From here on requests have the fate that the function says.
    pub fn script(&self, script: impl FnMut(&Head) -> Fate + Send + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    /// The first requests about items have these fates, all others pass.
    pub fn fates(&self, fates: Vec<Fate>) {
        let mut fates = fates.into_iter();
        self.script(move |head| match head.is_item() {
            true => fates.next().unwrap_or(Fate::Pass),
            false => Fate::Pass,
        });
    }

    /// The requests about items that came since it was asked last.
    pub fn seen(&self) -> Vec<Head> {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        seen.into_iter().filter(Head::is_item).collect()
    }
}

async fn serve(mut stream: TcpStream, upstream: String, mut decide: impl FnMut(&Head) -> Fate) {
    let mut unread = Vec::new();
    while let Some((text, whole)) = message(&mut stream, &mut unread, true).await {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or("").to_owned();
        let head = Head { method: word(), path: word(), text: text.clone() };
        let fate = decide(&head);
        match &fate {
            Fate::CutBefore => return,
            Fate::Answer(status, headers, body) => {
                let mut answer =
                    format!("HTTP/1.1 {status} Told\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    answer += &format!("{name}: {value}\r\n");
                }
                if stream.write_all(format!("{answer}\r\n{body}").as_bytes()).await.is_err() {
                    return;
                }
                continue;
            }
            Fate::Noise => {
                let _ = stream.write_all(b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n").await;
                return;
            }
            Fate::Delay(time) => tokio::time::sleep(*time).await,
            _ => {}
        }
        let Some(answer) = ask(&upstream, &whole).await else { return };
        let sent = match &fate {
            Fate::CutAfter => return,
            Fate::CutWithin => {
                let _ = stream.write_all(&answer[..answer.len() - 5]).await;
                return;
            }
            Fate::Hold(until) => {
                until.notified().await;
                stream.write_all(&answer).await
            }
            _ => stream.write_all(&answer).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn ask(upstream: &str, request: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(upstream).await.ok()?;
    stream.write_all(request).await.ok()?;
    Some(message(&mut stream, &mut Vec::new(), false).await?.1)
}

/// The head of the next message and all of its bytes.
async fn message(
    stream: &mut TcpStream,
    unread: &mut Vec<u8>,
    is_request: bool,
) -> Option<(String, Vec<u8>)> {
    let head = loop {
        match unread.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(end) => break end + 4,
            None => fill(stream, unread).await?,
        }
    };
    let text = String::from_utf8_lossy(&unread[..head]).into_owned();
    let lengths = text.lines().filter_map(|line| line.split_once(':'));
    let length = lengths
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .find_map(|(_, value)| value.trim().parse::<usize>().ok())
        .unwrap_or(0);
    let bodiless = !is_request
        && [" 304 ", " 204 "].iter().any(|code| text.lines().next().unwrap_or("").contains(code));
    let end = if bodiless { head } else { head + length };
    while unread.len() < end {
        fill(stream, unread).await?;
    }
    Some((text, unread.drain(..end).collect()))
}

async fn fill(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 8192];
    let read = stream.read(&mut chunk).await.ok()?;
    unread.extend_from_slice(&chunk[..read]);
    (read > 0).then_some(())
}
