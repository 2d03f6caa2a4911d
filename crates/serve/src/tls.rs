//! TLS for servers: what an administrator configures, and a stream that encrypts.
//!
//! Only the rustls connection keeps bytes, and it is told how many at most.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use hotset_block::{Buf, DetachedStream, HostEnv, Stream};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Encrypted bytes that wait for the socket at most, and plain bytes that wait for encryption.
const BUFFERED_BYTES_MAX: usize = 1 << 20;

/// A file of PEM, as it was read: who reads it may wait for it, and here nobody does.
#[derive(Clone)]
pub struct PemFile {
    /// For words.
    pub path: PathBuf,
    /// What it holds.
    pub content: Vec<u8>,
}

/// The files of a server that talks TLS to clients with a certificate of `client_ca` only.
#[derive(Clone)]
pub struct TlsFiles {
    /// The server's certificate, then those of intermediate authorities.
    pub certificate: PemFile,
    /// Its private key.
    pub key: PemFile,
    /// The authorities whose clients are let in.
    pub client_ca: PemFile,
}

/// A TLS file that cannot be used: which, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// As it was named.
    pub file: PathBuf,
    message: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TlsError {}

/// A server's TLS identity and whom it trusts. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct TlsAcceptor {
    config: Arc<Mutex<Arc<ServerConfig>>>,
}

impl TlsAcceptor {
    /// Takes what the files hold.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn of(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self { config: Arc::new(Mutex::new(config_of(files)?)) })
    }

    /// Connections from now on are accepted as by `other`; those there are go on.
    pub fn take_over(&self, other: &Self) {
        let config = Arc::clone(&other.config());
        *self.config() = config;
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn config(&self) -> MutexGuard<'_, Arc<ServerConfig>> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's side of the TLS handshake; fails if the client has no certificate that is trusted here.
    pub(crate) async fn accept(&self, stream: Stream) -> io::Result<TlsStream> {
        let config = Arc::clone(&self.config());
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        connection.set_buffer_limit(Some(BUFFERED_BYTES_MAX));
        let tls = TlsStream { stream, connection: RefCell::new(Box::new(connection)) };
        while tls.connection.borrow().is_handshaking() {
            let received = tls.receive_now();
            // Also after an error: the alert tells the client why.
            tls.flush(|_| ()).await?;
            match received {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tls.stream.readable().await?,
                Err(error) => return Err(error),
            }
        }
        tls.flush(|_| ()).await?;
        Ok(tls)
    }
}

fn config_of(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&files.key.content).map_err(|error| unusable(&files.key, &error))?;
    let mut authorities = RootCertStore::empty();
    for authority in certificates(&files.client_ca)? {
        authorities.add(authority).map_err(|error| unusable(&files.client_ca, &error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(&provider))
        .build()
        .map_err(|error| unusable(&files.client_ca, &error))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, &error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&files.certificate, &error))?;
    Ok(Arc::new(config))
}

fn certificates(file: &PemFile) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file.content).collect();
    let found = found.map_err(|error| unusable(file, &error))?;
    if found.is_empty() {
        return Err(unusable(file, &"it contains no certificate"));
    }
    Ok(found)
}

fn unusable(file: &PemFile, why: &dyn fmt::Display) -> TlsError {
    TlsError { file: file.path.clone(), message: format!("TLS file {}: {why}", file.path.display()) }
}

/// An encrypted stream. Both directions share the TLS state, never across an await.
pub(crate) struct TlsStream {
    stream: Stream,
    connection: RefCell<Box<ServerConnection>>,
}

/// One on its way from one thread to another, with what TLS knows and keeps of it.
pub(crate) struct DetachedTls {
    stream: DetachedStream,
    connection: Box<ServerConnection>,
}

impl TlsStream {
    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }

    pub(crate) fn detach(self) -> io::Result<DetachedTls> {
        Ok(DetachedTls { stream: self.stream.detach()?, connection: self.connection.into_inner() })
    }

    pub(crate) fn attach(env: &HostEnv, detached: DetachedTls) -> Self {
        let DetachedTls { stream, connection } = detached;
        Self { stream: Stream::attach(env, stream), connection: RefCell::new(connection) }
    }

    pub(crate) async fn recv_until(
        &self,
        mut buf: Buf,
        stop: impl Future<Output = ()>,
    ) -> (Buf, Option<io::Result<usize>>) {
        let mut stop = pin!(stop);
        loop {
            if let Some(received) = self.take_plain(&mut buf) {
                return (buf, Some(received));
            }
            // A wait that is cancelled has taken nothing.
            match select(pin!(self.receive_more()), stop.as_mut()).await {
                Either::Left((Ok(()), _)) => {}
                Either::Left((Err(error), _)) => return (buf, Some(Err(error))),
                Either::Right(((), _)) => return (buf, None),
            }
        }
    }

    /// What is decrypted already, or the end; `None` if nothing is.
    fn take_plain(&self, buf: &mut Buf) -> Option<io::Result<usize>> {
        match self.connection.borrow_mut().reader().read(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            done => Some(done),
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) async fn recv(&self, mut buf: Buf) -> (Buf, io::Result<usize>) {
        loop {
            if let Some(received) = self.take_plain(&mut buf) {
                return (buf, received);
            }
            if let Err(error) = self.receive_more().await {
                return (buf, Err(error));
            }
        }
    }

    async fn receive_more(&self) -> io::Result<()> {
        match self.receive_now() {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.readable().await,
            Err(error) => Err(error),
        }
    }

    /// Takes what the socket has; `Ok(0)` is its end, which `reader` then reports.
    fn receive_now(&self) -> io::Result<usize> {
        let mut connection = self.connection.borrow_mut();
        let received = connection.read_tls(&mut Raw(&self.stream))?;
        connection.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(received)
    }

    pub(crate) fn try_send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush_now(&|_| ())?;
        let taken = self.connection.borrow_mut().writer().write_vectored(pieces)?;
        match self.flush_now(&|_| ()) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            Ok(()) | Err(_) => Ok(taken),
        }
    }

    pub(crate) async fn flush(&self, taken: impl Fn(usize)) -> io::Result<()> {
        loop {
            match self.flush_now(&taken) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                done => return done,
            }
        }
    }

    fn flush_now(&self, taken: &impl Fn(usize)) -> io::Result<()> {
        let mut connection = self.connection.borrow_mut();
        while connection.wants_write() {
            taken(connection.write_tls(&mut Raw(&self.stream))?);
        }
        Ok(())
    }
}

/// The socket as rustls sees it: `WouldBlock` where nothing can be done now.
struct Raw<'a>(&'a Stream);

impl Read for Raw<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_recv(buf)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_send(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_send(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
