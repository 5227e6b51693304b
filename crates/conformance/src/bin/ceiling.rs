//! What the machine can do at best: the server's HTTP stack with almost nothing behind it.
//!
//! `ceiling read` verifies the signature and answers with 1 KB, `ceiling page BYTES` with as many
//! bytes as that, from memory. `ceiling log DIR` verifies it, appends the body to a log and answers once the disk has it: one thread writes and syncs for
//! all who wait, while the next group gathers. Both print the ready line that the server prints.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use conformance::{WELL_KNOWN_KEY, sign};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use ring::hmac;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// What a read answers.
const BODY_BYTES: usize = 1024;

/// The log is written over from the start when it is full: it stands for one that is long enough.
const LOG_BYTES: u64 = 512 * 1024 * 1024;

struct Ceiling {
    key: hmac::Key,
    body: Bytes,
    log: Option<Log>,
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (bytes, log) = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["read"] => (BODY_BYTES, None),
        ["page", bytes] => (bytes.parse().map_err(io::Error::other)?, None),
        ["log", folder] => (BODY_BYTES, Some(Log::create(Path::new(folder))?)),
        _ => {
            eprintln!("usage: ceiling read | ceiling page BYTES | ceiling log DIR");
            std::process::exit(2);
        }
    };
    let key = STANDARD.decode(WELL_KNOWN_KEY).expect("the well-known key is base64");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let ceiling = Arc::new(Ceiling { key, body: Bytes::from(vec![b'x'; bytes]), log });
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(ceiling))
}

async fn serve(ceiling: Arc<Ceiling>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let pid = std::process::id();
    println!(
        r#"{{"event":"ready","endpoint":"http://127.0.0.1:{port}","port":{port},"pid":{pid}}}"#
    );
    io::stdout().flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, Arc::clone(&ceiling)));
    }
}

async fn connection(stream: TcpStream, ceiling: Arc<Ceiling>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(request, Arc::clone(&ceiling)));
    // A connection that breaks is the client's business.
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    ceiling: Arc<Ceiling>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if !is_signed(&request, &ceiling.key) {
        return Ok(respond(StatusCode::UNAUTHORIZED, Bytes::new()));
    }
    let Some(log) = &ceiling.log else { return Ok(respond(StatusCode::OK, ceiling.body.clone())) };
    let Ok(body) = request.into_body().collect().await else {
        return Ok(respond(StatusCode::BAD_REQUEST, Bytes::new()));
    };
    let body = body.to_bytes();
    match log.append(&body).await {
        Ok(()) => Ok(respond(StatusCode::CREATED, body)),
        Err(_) => Ok(respond(StatusCode::SERVICE_UNAVAILABLE, Bytes::new())),
    }
}

fn respond(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    response
}

fn is_signed(request: &Request<Incoming>, key: &hmac::Key) -> bool {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let (Some(authorization), Some(date)) = (header(AUTHORIZATION.as_str()), header("x-ms-date"))
    else {
        return false;
    };
    let token = sign::percent_decode(authorization);
    let Some(signature) = token.strip_prefix("type=master&ver=1.0&sig=") else { return false };
    let Ok(signature) = STANDARD.decode(signature) else { return false };
    let (kind, link) = sign::resource(request.uri().path());
    let mut text = request.method().as_str().to_ascii_lowercase();
    for part in ["\n", &kind, "\n", &link, "\n", &date.to_ascii_lowercase(), "\n\n"] {
        text.push_str(part);
    }
    hmac::verify(key, text.as_bytes(), &signature).is_ok()
}

/// A log that groups commits.
struct Log {
    queue: Arc<(Mutex<Group>, Condvar)>,
}

#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Log {
    /// Makes the file, all of it written and synced, so that appending changes no metadata.
    fn create(folder: &Path) -> io::Result<Self> {
        let mut file = File::create(folder.join("log"))?;
        let zeros = vec![0; 1024 * 1024];
        for _ in 0..LOG_BYTES / zeros.len() as u64 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        let queue = Arc::<(Mutex<Group>, Condvar)>::default();
        let theirs = Arc::clone(&queue);
        std::thread::spawn(move || commit(&file, &theirs));
        Ok(Self { queue })
    }

    /// Returns once the bytes are on disk.
    async fn append(&self, bytes: &[u8]) -> Result<(), oneshot::error::RecvError> {
        let (sender, receiver) = oneshot::channel();
        let (group, filled) = &*self.queue;
        {
            let mut group = group.lock().expect("no holder panics");
            group.bytes.extend_from_slice(bytes);
            group.waiting.push(sender);
        }
        filled.notify_one();
        receiver.await
    }
}

/// Writes and syncs one group after the other, for ever.
fn commit(file: &File, queue: &(Mutex<Group>, Condvar)) {
    let (group, filled) = queue;
    let mut offset = 0;
    let mut taken = Group::default();
    loop {
        {
            let mut group = group.lock().expect("no holder panics");
            while group.waiting.is_empty() {
                group = filled.wait(group).expect("no holder panics");
            }
            std::mem::swap(&mut *group, &mut taken);
        }
        if offset + taken.bytes.len() as u64 > LOG_BYTES {
            offset = 0;
        }
        file.write_all_at(&taken.bytes, offset).expect("the disk takes what was reserved");
        file.sync_data().expect("the disk syncs");
        offset += taken.bytes.len() as u64;
        for waiting in taken.waiting.drain(..) {
            let _ = waiting.send(());
        }
        taken.bytes.clear();
    }
}
