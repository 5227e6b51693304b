//! TLS: whose certificates are believed, and tokens that only travel over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use client::{Account, BearerToken, Client, Credential, Kind, Options, Retry, Trust};
use conformance::WELL_KNOWN_KEY;
use conformance::server::Scratch;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::support::{Home, client_of, soon};

fn options(trust: Trust) -> Options {
    Options { trust, retry: Retry::NONE, ..Options::default() }
}

fn secure(home: &Home, host: &str) -> String {
    format!("https://{host}:{}", home.server.port)
}

#[tokio::test]
async fn a_certificate_of_ones_own() {
    let home = Home::with(&[]);
    let pem = std::fs::read(home.scratch.path().join("tls/certificate.pem")).unwrap();
    for host in ["localhost", "127.0.0.1"] {
        let client = client_of(&secure(&home, host), options(Trust::Certificates(pem.clone())));
        assert_eq!(soon(client.databases()).await.unwrap(), [""; 0]);
        let client = client_of(&secure(&home, host), options(Trust::AnyOnLoopback));
        assert_eq!(soon(client.databases()).await.unwrap(), [""; 0]);
    }
    // Another server's certificate proves nothing.
    let other = Home::with(&[]);
    let client = client_of(&secure(&other, "localhost"), options(Trust::Certificates(pem)));
    let error = soon(client.databases()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.message().contains("certificate"), "{error}");
}

#[tokio::test]
async fn an_authority_of_ones_own() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap();
    let files = Scratch::new("client-tls").unwrap();
    let write = |name: &str, text: String| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let certificate = write("certificate.pem", certificate.pem());
    let key = write("key.pem", own.serialize_pem());
    let home = Home::with(&["--memory", "--tls-certificate", &certificate, "--tls-key", &key]);
    let trust = || options(Trust::Certificates(authority.pem().into_bytes()));
    let client = client_of(&secure(&home, "localhost"), trust());
    assert_eq!(soon(client.databases()).await.unwrap(), [""; 0]);
    // The certificate is for a name, and this is another.
    let client = client_of(&secure(&home, "127.0.0.1"), trust());
    assert_eq!(soon(client.databases()).await.unwrap_err().kind(), Kind::Unreachable);
}

#[tokio::test]
async fn bearer_tokens_are_asked_for_again_when_refused() {
    let home = Home::new();
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let credential = Credential::bearer(move || {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(BearerToken { text: "a.b.c".into(), valid_for: Duration::from_secs(3600) }) }
    });
    let account = Account::new(&secure(&home, "localhost"), credential).unwrap();
    let patient = Options { trust: Trust::AnyOnLoopback, ..Options::default() };
    let client = Client::new(account, patient).unwrap();
    // This server knows no such tokens; the client has tried a second one before it says so.
    let error = soon(client.databases()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Unauthorized, 2));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_source_of_tokens_that_fails() {
    let home = Home::new();
    let credential = Credential::bearer(|| async { Err("the directory is closed".into()) });
    let account = Account::new(&secure(&home, "localhost"), credential).unwrap();
    let client = Client::new(account, options(Trust::AnyOnLoopback)).unwrap();
    let error = soon(client.databases()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unauthorized);
    assert!(error.message().contains("the directory is closed"), "{error}");
}

#[test]
fn trust_that_cannot_be_had_is_told_when_the_client_is_made() {
    let key = Credential::key(WELL_KNOWN_KEY).unwrap();
    let account = Account::new("https://localhost:1", key).unwrap();
    let error =
        Client::new(account, options(Trust::Certificates(b"nothing".to_vec()))).unwrap_err();
    assert_eq!(error.kind(), Kind::Setting);
}
