//! Whose certificates are trusted: the system's authorities, or those that the configuration names.

use std::path::Path;

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::given_file;

/// Where distributions keep the system's.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Those that can be used; one at least. Blocks, for a limited time.
///
/// # Errors
/// A message that names the file.
pub(super) fn authorities(named: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    let system = || SYSTEM.map(Path::new).into_iter().find(|path| given_file::is_there(path).unwrap_or(false));
    let missing = || format!("{}: the system has no authorities (package ca-certificates)", SYSTEM[0]);
    let path = named.or_else(system).ok_or_else(missing)?;
    let failed = |why: &dyn std::fmt::Display| format!("authorities {}: {why}", path.display());
    let content = given_file::read(path).map_err(|error| failed(&error))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    let mut usable = all.map_err(|error| failed(&error))?;
    usable.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    if usable.is_empty() { Err(failed(&"it contains no certificate of an authority")) } else { Ok(usable) }
}
