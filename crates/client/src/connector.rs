//! Connections: TCP, with TLS around it where the address says so.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use crate::options::Trust;
use crate::tls;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections.
#[derive(Debug, Clone)]
pub struct Connector {
    tcp: HttpConnector,
    tls: Arc<Tls>,
    timeout: Duration,
}

/// The settings of handshakes, made when first needed: reading a system's certificates takes a while.
#[derive(Debug)]
struct Tls {
    trust: Trust,
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Connector {
    pub fn new(trust: Trust, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        Self { tcp, tls: Arc::new(Tls { trust, config: OnceLock::new() }), timeout }
    }

    /// The settings of handshakes, or why there are none.
    pub fn tls_config(&self) -> Result<Arc<ClientConfig>, String> {
        self.tls.config.get_or_init(|| tls::config(&self.tls.trust)).clone()
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Failure>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.tcp.poll_ready(cx).map_err(Failure::from)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let is_secure = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or("").trim_matches(['[', ']']).to_owned();
        let connecting = self.tcp.call(uri);
        let this = self.clone();
        Box::pin(async move {
            let connect = async {
                let tcp = connecting.await?;
                if is_secure { this.handshake(tcp, host).await } else { Ok(Stream::Plain(tcp)) }
            };
            tokio::time::timeout(this.timeout, connect)
                .await
                .map_err(|_| Failure::from("no connection in time"))?
        })
    }
}

impl Connector {
    async fn handshake(&self, tcp: TokioIo<TcpStream>, host: String) -> Result<Stream, Failure> {
        let connector = TlsConnector::from(self.tls_config()?);
        let name = ServerName::try_from(host)?;
        let stream = connector.connect(name, tcp.into_inner()).await?;
        Ok(Stream::Tls(Box::new(TokioIo::new(stream))))
    }
}

/// A connection.
pub enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl Write for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
