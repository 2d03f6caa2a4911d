//! The API's certificate.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::given_file::{self, UnusableFile};

/// How administrators elsewhere are met. A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct ApiTls {
    acceptor: Arc<Mutex<TlsAcceptor>>,
}

impl ApiTls {
    /// # Errors
    /// One of the files cannot be used.
    pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Self, UnusableFile> {
        Ok(Self { acceptor: Arc::new(Mutex::new(acceptor(certificate, key)?)) })
    }

    /// Connections from now on are met with what these files hold. If they cannot be used, nothing changes.
    ///
    /// # Errors
    /// One of the files cannot be used.
    pub(crate) fn reload(&self, certificate: &Path, key: &Path) -> Result<(), UnusableFile> {
        let acceptor = acceptor(certificate, key)?;
        *self.lock() = acceptor;
        Ok(())
    }

    /// As of now.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.lock().clone()
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn lock(&self) -> MutexGuard<'_, TlsAcceptor> {
        self.acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the certificate chain and the key; blocks, for a limited time. Clients show no certificate: they have tokens.
///
/// # Errors
/// One of the files cannot be used.
fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, UnusableFile> {
    let read = |path: &Path| given_file::read(path).map_err(|error| unusable(path, &error));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.map_err(|error| unusable(certificate, &error))?;
    if chain.is_empty() {
        return Err(unusable(certificate, &"it contains no certificate"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unusable(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(certificate, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| unusable(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unusable(path: &Path, why: &dyn Display) -> UnusableFile {
    UnusableFile { file: path.to_owned(), message: format!("api_tls file {}: {why}", path.display()) }
}
