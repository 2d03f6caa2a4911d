//! Where a daemon is, and how it is reached there: over its socket, over loopback, or from elsewhere by TLS with a token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::endpoint::Endpoint;

/// The authorities that Debian's ca-certificates gathers; others link to the same place.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The longest token file that is read.
const TOKEN_BYTES_MAX: u64 = 4096;

/// What `--api` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// Of this machine.
    Here(Endpoint),
    /// `https://HOST:PORT`
    Elsewhere { host: String, port: u16 },
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("https://") else { return text.parse().map(Self::Here) };
        let wrong =
            || format!("{text:?}: write https://HOST:PORT, as https://cache.example:7780 or https://[::1]:7780");
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().map_err(|_| wrong())?;
        if ServerName::try_from(host).is_err() {
            return Err(wrong());
        }
        Ok(Self::Elsewhere { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(endpoint) => endpoint.fmt(f),
            Self::Elsewhere { host, port } if host.contains(':') => write!(f, "https://[{host}]:{port}"),
            Self::Elsewhere { host, port } => write!(f, "https://{host}:{port}"),
        }
    }
}

/// How a daemon elsewhere is recognised, and what it is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    /// Authorities, or the daemon's own certificate; `None`: those of the system.
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) token: Option<String>,
}

impl Credentials {
    /// The token of the environment wins over that of a file.
    ///
    /// # Errors
    /// A token file that cannot be read.
    pub(crate) fn new(
        authorities: Option<PathBuf>,
        token: Option<String>,
        token_file: Option<&Path>,
    ) -> Result<Self, ApiError> {
        let token = match (token.filter(|token| !token.is_empty()), token_file) {
            (Some(token), _) => Some(token),
            (None, Some(path)) => Some(token_of(path)?),
            (None, None) => None,
        };
        Ok(Self { authorities, token })
    }
}

fn token_of(path: &Path) -> Result<String, ApiError> {
    let invalid = |why: String| ApiError::new(ApiErrorKind::Invalid, format!("token file {}: {why}", path.display()));
    let size_bytes = std::fs::metadata(path).map_err(|error| invalid(error.to_string()))?.len();
    if size_bytes > TOKEN_BYTES_MAX {
        return Err(invalid(format!("it has {size_bytes} bytes, which is no token")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
    Ok(text.trim().to_owned())
}

/// How connections to daemons elsewhere are made.
///
/// # Errors
/// Authorities that cannot be read, or none.
pub(super) fn tls(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, ApiError> {
    let path = authorities.unwrap_or(Path::new(SYSTEM_AUTHORITIES));
    let invalid = |why: &dyn fmt::Display| {
        ApiError::new(ApiErrorKind::Invalid, format!("authorities {}: {why}", path.display()))
            .with_hint("--api-ca or HOTSET_API_CA names a file with the daemon's certificate or that of its authority")
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| invalid(&error))?;
    let mut roots = RootCertStore::empty();
    let (known, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    if known == 0 {
        return Err(invalid(&"it contains no certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let chain = chain.build().map_err(|error| invalid(&error))?;
    // Of the system's authorities none is a daemon.
    let own = if authorities.is_some() { certificates } else { Vec::new() };
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { chain, own, provider }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Trusts what the authorities vouch for under the name that was called, and the very certificates that were given: one
/// that a daemon made for itself is often its own authority, which the usual rules do not allow.
#[derive(Debug)]
struct Verifier {
    chain: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.own.iter().any(|own| own == end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        self.chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_elsewhere_are_read_and_written_alike() {
        for text in ["unix:/run/a.sock", "tcp:127.0.0.1:7780", "https://cache.example:7780", "https://[::1]:443"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["https://cache.example", "https://:80", "https://a b:80", "https://x:99999", "https://x:80/y"] {
            let message = text.parse::<Address>().unwrap_err();
            assert!(message.contains("https://HOST:PORT"), "{text}: {message}");
        }
        assert!("http://x:80".parse::<Address>().unwrap_err().contains("unix:PATH"));
    }

    #[test]
    fn a_token_comes_from_the_environment_or_from_a_file_without_its_line_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "hotset_abc\n").unwrap();
        let token = |given: Option<&str>, file: Option<&Path>| {
            Credentials::new(None, given.map(str::to_owned), file).map(|credentials| credentials.token)
        };
        assert_eq!(token(None, Some(&path)).unwrap().as_deref(), Some("hotset_abc"));
        assert_eq!(token(Some("mine"), Some(&path)).unwrap().as_deref(), Some("mine"));
        assert_eq!(token(Some(""), None).unwrap(), None);
        assert!(token(None, Some(Path::new("/nowhere"))).unwrap_err().message.contains("/nowhere"));
        std::fs::write(&path, vec![b'x'; 5000]).unwrap();
        assert!(token(None, Some(&path)).is_err());
    }

    #[test]
    fn without_a_certificate_nobody_can_be_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("empty.pem");
        std::fs::write(&path, "").unwrap();
        assert!(tls(Some(&path)).unwrap_err().message.contains("no certificate"));
        assert!(tls(Some(Path::new("/nowhere.pem"))).unwrap_err().message.contains("/nowhere.pem"));
    }
}
