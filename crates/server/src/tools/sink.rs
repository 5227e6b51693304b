//! Where `processor run` puts changes: a command's stdin, or an HTTP endpoint.

use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use client::Trust;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use processor::{Change, Context};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio_rustls::TlsConnector;

/// Most of a refusal's body that is looked at.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// A POST that has no answer by then has failed, and is tried again.
const POST_TIMEOUT: Duration = Duration::from_secs(100);

/// A place for changes.
pub enum Sink {
    /// A command line for the shell.
    Command(String),
    /// An address.
    Post(Address),
}

/// An HTTP endpoint, and how its certificate is checked if it has one.
pub struct Address {
    uri: Uri,
    tls: Option<TlsConnector>,
}

impl Sink {
    /// A command line for the shell, run for each batch.
    pub fn command(line: &str) -> Self {
        Self::Command(line.to_owned())
    }

    /// An HTTP endpoint.
    pub fn post(url: &str, trust: &Trust) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("--post {url}: {error}"))?;
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => Some(client::tls_config(trust)?.into()),
            _ => return Err(format!("--post {url}: it must begin with http:// or https://")),
        };
        Ok(Self::Post(Address { uri, tls }))
    }

    /// Hands a batch over; success means that it never needs to come again.
    pub async fn take(&self, context: &Context, changes: &[Change]) -> Result<(), String> {
        let lines = lines(changes);
        match self {
            Self::Command(line) => pipe(line, context, &lines).await,
            Self::Post(address) => {
                let posting = address.post(context, lines);
                let answered = tokio::time::timeout(POST_TIMEOUT, posting).await;
                answered.map_err(|_| format!("no answer within {POST_TIMEOUT:?}"))?
            }
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

impl Address {
    /// Opens a connection, with TLS around it where the address says so.
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.uri.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let tcp = TcpStream::connect((host, port)).await;
        let tcp = tcp.map_err(|error| format!("{host}:{port} is not reached: {error}"))?;
        let Some(tls) = &self.tls else { return handshake(tcp).await };
        let name = rustls::pki_types::ServerName::try_from(host.to_owned())
            .map_err(|error| format!("{host}: {error}"))?;
        let stream = tls.connect(name, tcp).await;
        handshake(stream.map_err(|error| format!("{host}:{port}: {error}"))?).await
    }

    async fn post(&self, context: &Context, lines: Bytes) -> Result<(), String> {
        let mut sender = self.connect().await?;
        let fencing = context.fencing();
        let authority = self.uri.authority().map(ToString::to_string).unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority.as_str(), |(_, host)| host);
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::post(path)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/x-ndjson")
            .header("x-astrarium-lease", &fencing.lease)
            .header("x-astrarium-epoch", fencing.epoch)
            .header("x-astrarium-lsn", fencing.lsn)
            .body(Full::new(lines))
            .map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let body = http_body_util::Limited::new(answer.into_body(), BODY_BYTES_MAX).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        Err(format!("{status}: {}", String::from_utf8_lossy(&body)))
    }
}

/// The connection lives as long as its sender, and ends with it.
async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(sender)
}
