//! The certificate that the server shows: the operator's, or one made once and kept.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate and its key, ready for handshakes.
pub struct Identity {
    acceptor: TlsAcceptor,
    certificate: Bytes,
}

impl Identity {
    /// Reads a certificate chain and its key from PEM files.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, String> {
        let read =
            |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
        Self::from_pem(&read(certificate)?, &read(key)?)
    }

    /// The certificate kept in a directory; made for these names if there is none yet.
    pub fn kept_in(dir: &Path, names: Vec<String>) -> Result<Self, String> {
        let (certificate, key) = (dir.join("certificate.pem"), dir.join("key.pem"));
        if !(certificate.exists() && key.exists()) {
            let (certificate_pem, key_pem) = make(names)?;
            fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
            // The certificate last: without it both are made anew.
            write_secret(&key, &key_pem).map_err(|e| format!("{}: {e}", key.display()))?;
            fs::write(&certificate, certificate_pem)
                .map_err(|e| format!("{}: {e}", certificate.display()))?;
        }
        Self::from_files(&certificate, &key)
    }

    /// A certificate that nobody keeps.
    pub fn passing(names: Vec<String>) -> Result<Self, String> {
        let (certificate, key) = make(names)?;
        Self::from_pem(&certificate, &key)
    }

    fn from_pem(certificate: &str, key: &str) -> Result<Self, String> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|e| format!("the certificate is not PEM: {e}"))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|e| format!("the key of the certificate is not PEM: {e}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|e| format!("the certificate and its key do not fit: {e}"))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { acceptor, certificate: Bytes::copy_from_slice(certificate.as_bytes()) })
    }

    /// What makes handshakes, and the certificate for clients to trust.
    pub(crate) fn into_parts(self) -> (TlsAcceptor, Bytes) {
        (self.acceptor, self.certificate)
    }
}

/// A self-signed certificate and its key, as PEM.
fn make(names: Vec<String>) -> Result<(String, String), String> {
    let broken = |e: rcgen::Error| format!("cannot make a certificate: {e}");
    let mut params = CertificateParams::new(names).map_err(broken)?;
    params.distinguished_name.push(DnType::CommonName, "astrarium");
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    params.not_before = rcgen::date_time_ymd(2024, 1, 1);
    params.not_after = rcgen::date_time_ymd(2049, 12, 31);
    let key = KeyPair::generate().map_err(broken)?;
    let certificate = params.self_signed(&key).map_err(broken)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}
