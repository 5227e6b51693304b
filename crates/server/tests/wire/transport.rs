//! TLS and HTTP/2 beside plain HTTP/1.1, many connections, and the end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use server::Options;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{Client, Request, Running, Signer, many_files, soon, start, start_with};

/// `GET /` over HTTP/2, and the endpoint that the answer names.
async fn account_by_http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> String {
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = hyper::Request::get("http://db.example:9/");
    for (name, value) in Request::new("GET /").signed_headers() {
        request = request.header(name, value);
    }
    let response =
        soon(sender.send_request(request.body(Full::<Bytes>::default()).unwrap())).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let account: serde_json::Value = serde_json::from_slice(&body).unwrap();
    account["writableLocations"][0]["databaseAccountEndpoint"].as_str().unwrap().to_owned()
}

async fn tls(running: &Running, protocols: &[&str]) -> TlsStream<TcpStream> {
    let pem =
        running.send(Request::new("GET /_explorer/emulator.pem").signer(Signer::Nobody)).await.body;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(running.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    soon(TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap()
}

#[tokio::test]
async fn every_protocol_on_one_port() {
    let running = start().await;
    running.ask("GET /", "").await.is(200);
    let plain = TcpStream::connect(running.address).await.unwrap();
    assert_eq!(account_by_http2(plain).await, "http://db.example:9/");
    let stream = tls(&running, &["h2", "http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(account_by_http2(stream).await, "https://db.example:9/");
    let mut stream = tls(&running, &["http/1.1"]).await;
    let request = Request::new("GET /ready").signer(Signer::Nobody).bytes();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &request).await.unwrap();
    let mut answer = [0; 12];
    soon(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_handshake_that_never_ends() {
    let options = Options { header_timeout: Duration::from_millis(100), ..Options::default() };
    let running = start_with(options).await;
    let mut client = running.connect().await;
    client.write(b"\x16\x03\x01").await;
    assert!(client.answer().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_idle_connections() {
    many_files();
    let running = start().await;
    let mut clients = Vec::new();
    for _ in 0..2000 {
        clients.push(running.connect().await);
    }
    running.ask("GET /dbs", "").await.is(200);
    for client in clients.iter_mut().step_by(97) {
        client.send(Request::new("GET /dbs")).await.is(200);
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let running = start_with(Options { connections_max: 1, ..Options::default() }).await;
    let mut first = running.connect().await;
    first.send(Request::new("GET /dbs")).await.is(200);
    let mut second = running.connect().await;
    second.write(&Request::new("GET /dbs").bytes()).await;
    drop(first);
    second.answer().await.expect("an answer").is(200);
}

#[tokio::test]
async fn who_has_said_all_is_answered() {
    let running = start().await.with_container().await;
    let mut client = running.connect().await;
    client.write(&Request::new("POST /dbs/d/colls/c/docs").pk("a").body(ITEM).bytes()).await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
    client.answer().await.expect("an answer").is(201);
    assert!(client.answer().await.is_none());
}

const ITEM: &[u8] = br#"{"id":"1","pk":"a"}"#;

/// A request that the server waits for the body of.
async fn begun(running: &Running) -> Client {
    let mut client = running.connect().await;
    let request = Request::new("POST /dbs/d/colls/c/docs").pk("a").header("expect", "100-continue");
    client.write(request.head(&format!("content-length: {}", ITEM.len())).as_bytes()).await;
    assert_eq!(client.answer().await.expect("consent").status, 100);
    client
}

#[tokio::test]
async fn a_shutdown_finishes_what_was_begun() {
    let running = start().await.with_container().await;
    let address = running.address;
    let mut idle = running.connect().await;
    idle.send(Request::new("GET /dbs")).await.is(200);
    let untouched = running.connect().await;
    let mut busy = begun(&running).await;
    let stopped = running.stop();
    assert!(idle.answer().await.is_none());
    assert!(TcpStream::connect(address).await.is_err());
    assert!(!stopped.is_finished());
    busy.write(ITEM).await;
    busy.answer().await.expect("an answer").is(201);
    assert!(busy.answer().await.is_none());
    soon(stopped).await.unwrap();
    drop(untouched);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let options = Options { shutdown_timeout: Duration::from_millis(100), ..Options::default() };
    let running = start_with(options).await.with_container().await;
    let _busy = begun(&running).await;
    soon(running.stop()).await.unwrap();
}
