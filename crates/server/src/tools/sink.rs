//! Where `processor run` puts changes: a command's stdin, or an HTTP endpoint.

use std::process::Stdio;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use processor::{Change, Context};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::Command;

/// Most of a refusal's body that is looked at.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// A place for changes.
#[derive(Debug)]
pub enum Sink {
    /// A command line for the shell.
    Command(String),
    /// An address.
    Post(Uri),
}

impl Sink {
    /// A command line for the shell, run for each batch.
    pub fn command(line: &str) -> Self {
        Self::Command(line.to_owned())
    }

    /// An HTTP endpoint.
    pub fn post(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("--post {url}: {error}"))?;
        match uri.scheme_str() {
            Some("http") if uri.authority().is_some() => Ok(Self::Post(uri)),
            _ => Err(format!(
                "--post {url}: only http:// is spoken; put a proxy before https endpoints"
            )),
        }
    }

    /// Hands a batch over; success means that it never needs to come again.
    pub async fn take(&self, context: &Context, changes: &[Change]) -> Result<(), String> {
        let lines = lines(changes);
        match self {
            Self::Command(line) => pipe(line, context, &lines).await,
            Self::Post(uri) => post(uri, context, lines).await,
        }
    }
}

/// One change per line. Bodies may hold line breaks between their members; lines may not.
fn lines(changes: &[Change]) -> Bytes {
    let mut lines = Vec::new();
    for change in changes {
        let flat = change.raw().iter().map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            other => *other,
        });
        lines.extend(flat);
        lines.push(b'\n');
    }
    lines.into()
}

async fn pipe(line: &str, context: &Context, lines: &[u8]) -> Result<(), String> {
    let fencing = context.fencing();
    let mut child = Command::new("sh")
        .args(["-c", line])
        .env("ASTRARIUM_LEASE", &fencing.lease)
        .env("ASTRARIUM_EPOCH", fencing.epoch.to_string())
        .env("ASTRARIUM_LSN", fencing.lsn.to_string())
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the command does not start: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read everything may still succeed.
        let _ = stdin.write_all(lines).await;
        let _ = stdin.shutdown().await;
    }
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the command ended with {status}")) }
}

async fn post(uri: &Uri, context: &Context, lines: Bytes) -> Result<(), String> {
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let address = if uri.port().is_some() { authority.clone() } else { format!("{authority}:80") };
    let stream = TcpStream::connect(&address).await;
    let stream = stream.map_err(|error| format!("{address} is not reached: {error}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let driver = tokio::spawn(connection);
    let fencing = context.fencing();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(HOST, &authority)
        .header(CONTENT_TYPE, "application/x-ndjson")
        .header("x-astrarium-lease", &fencing.lease)
        .header("x-astrarium-epoch", fencing.epoch)
        .header("x-astrarium-lsn", fencing.lsn)
        .body(Full::new(lines))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    if status.is_success() {
        driver.abort();
        return Ok(());
    }
    let body = http_body_util::Limited::new(answer.into_body(), BODY_BYTES_MAX).collect().await;
    driver.abort();
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    Err(format!("{status}: {}", String::from_utf8_lossy(&body)))
}
