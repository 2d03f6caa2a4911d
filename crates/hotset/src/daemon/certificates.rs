//! The certificates of the daemon: read again without a restart, and watched for their end.
//!
//! A file that cannot be used changes nothing: what was read before goes on, and a condition says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hotset_api::ConditionKind;
use hotset_serve::{PemFile, TlsAcceptor};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::blocking::blocking;
use super::config::{Config, TlsFiles};
use super::http::ApiTls;
use super::register::ConditionRegister;
use crate::clock::unix_ms;
use crate::given_file::{self, UnusableFile};
use hotset_cache::{DateTime, date_and_time};

/// How long before its end a certificate is told of: 30 days.
const TOLD_BEFORE_S: u64 = 30 * 24 * 3600;

/// How often they are looked at.
pub(super) const INTERVAL: Duration = Duration::from_secs(3600);

/// See the file's summary.
pub(super) struct Certificates {
    pub(super) api: Option<ApiTls>,
    /// How hosts are met, if with TLS.
    pub(super) hosts: Option<TlsAcceptor>,
    pub(super) register: ConditionRegister,
    /// The files, as the configuration names them.
    pub(super) paths: Vec<PathBuf>,
    /// Why what is there cannot be used.
    pub(super) unusable: Vec<String>,
}

/// Files of certificates that a configuration names.
pub(super) fn paths(config: &Config) -> Vec<PathBuf> {
    let api = config.api_tls.iter().map(|files| files.certificate.clone());
    let nbd = config.tls.iter().flat_map(|files| [files.certificate.clone(), files.client_ca.clone()]);
    api.chain(nbd).collect()
}

impl Certificates {
    /// Takes over what the files hold now.
    pub(super) async fn reload(&mut self, config: &Config) {
        self.unusable.clear();
        if let (Some(tls), Some(files)) = (&self.api, &config.api_tls) {
            let (tls, files) = (tls.clone(), files.clone());
            let read = blocking(move || tls.reload(&files.certificate, &files.key)).await;
            self.note("the API", read.map_err(|error| error.to_string()).and_then(|read| Ok(read?)));
        }
        if let Some(files) = config.tls.clone() {
            let reloaded = self.reload_for_hosts(files).await;
            self.note("hosts", reloaded);
        }
        self.paths = paths(config);
        self.look().await;
    }

    async fn reload_for_hosts(&self, files: TlsFiles) -> Result<(), String> {
        let hosts = self.hosts.as_ref().ok_or("there was no TLS for hosts at the start")?;
        let read = blocking(move || for_hosts(&files)).await;
        hosts.take_over(&read.map_err(|error| error.to_string())??);
        Ok(())
    }

    fn note(&mut self, whom: &str, reloaded: Result<(), String>) {
        match reloaded {
            Ok(()) => tracing::info!("HUP: the certificates for {whom} were read again"),
            Err(error) => {
                tracing::error!("HUP: certificates for {whom}: {error}; those from before go on");
                self.unusable.push(format!("{error}; what was read before goes on"));
            }
        }
    }

    /// Tells of those that end soon.
    pub(super) async fn look(&self) {
        let (paths, now_s) = (self.paths.clone(), unix_ms() / 1000);
        let ending = blocking(move || paths.iter().filter_map(|path| said_of(path, now_s)).collect::<Vec<_>>()).await;
        let all: Vec<String> = self.unusable.iter().cloned().chain(ending.into_iter().flatten()).collect();
        match all.is_empty() {
            true => self.register.clear(ConditionKind::Certificate),
            false => self.register.raise(ConditionKind::Certificate, all.join("; ")),
        }
    }
}

fn said_of(path: &Path, now_s: u64) -> Option<String> {
    let end_s = first_end(path)?;
    let shown = path.display();
    let date = date_and_time(end_s);
    match end_s.checked_sub(now_s) {
        None => Some(format!("certificate {shown}: it is not valid any more since {date}")),
        Some(left) if left < TOLD_BEFORE_S => {
            Some(format!("certificate {shown}: it is valid for {} days more, until {date}", left / (24 * 3600)))
        }
        Some(_) => None,
    }
}

/// When the first of the certificates of a file ends, in seconds since 1970. What cannot be read is told where it is used.
fn first_end(path: &Path) -> Option<u64> {
    let content = given_file::read(path).ok()?;
    let certificates = CertificateDer::pem_slice_iter(&content);
    certificates.filter_map(Result::ok).filter_map(|certificate| end_of(&certificate)).min()
}

/// `notAfter` of an X.509 certificate (RFC 5280, 4.1), in seconds since 1970.
fn end_of(certificate: &[u8]) -> Option<u64> {
    let (_, signed, _) = element(certificate)?;
    let (_, mut rest, _) = element(signed)?;
    // The version, which may be left out, the serial number, the algorithm, the issuer.
    let skipped = if element(rest)?.0 == 0xa0 { 4 } else { 3 };
    for _ in 0..skipped {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, after) = element(validity)?;
    let (tag, time, _) = element(after)?;
    seconds_of(tag, time)
}

/// Tag, content and what follows of the first element of DER (X.690, 8.1).
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, bytes) = bytes.split_first()?;
    let (first, bytes) = bytes.split_first()?;
    let (length, bytes) = match first {
        0..=0x7f => (usize::from(*first), bytes),
        0x81..=0x84 => {
            let (length, rest) = bytes.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// UTCTime has two digits of the year, GeneralizedTime four; both are in UTC (RFC 5280, 4.1.2.5).
fn seconds_of(tag: u8, time: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        0x17 => {
            let year: u64 = text.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
        }
        0x18 => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    DateTime { year, month, day, hour, minute, second }.unix_seconds()
}

/// How hosts are met with what these files hold. Blocks, for a limited time.
///
/// # Errors
/// One of the files cannot be used.
pub(super) fn for_hosts(files: &TlsFiles) -> Result<TlsAcceptor, UnusableFile> {
    let read = |path: &PathBuf| match given_file::read(path) {
        Ok(content) => Ok(PemFile { path: path.clone(), content }),
        Err(error) => {
            Err(UnusableFile { file: path.clone(), message: format!("TLS file {}: {error}", path.display()) })
        }
    };
    let (certificate, key, client_ca) = (read(&files.certificate)?, read(&files.key)?, read(&files.client_ca)?);
    TlsAcceptor::of(&hotset_serve::TlsFiles { certificate, key, client_ca })
        .map_err(|error| UnusableFile { message: error.to_string(), file: error.file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_certificates_are_those_of_the_calendar() {
        for (tag, time, date) in [
            (0x17, "000228235959Z", "2000-02-28T23:59:59Z"),
            (0x17, "491231235959Z", "2049-12-31T23:59:59Z"),
            (0x17, "700101000000Z", "1970-01-01T00:00:00Z"),
            (0x18, "20500301000000Z", "2050-03-01T00:00:00Z"),
            (0x18, "21000301000000Z", "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(seconds_of(tag, time.as_bytes()).map(date_and_time).as_deref(), Some(date), "{time}");
        }
        for (tag, time) in [(0x17, "001"), (0x17, "001301000000Z"), (0x18, "x"), (0x02, "000228235959Z")] {
            assert_eq!(seconds_of(tag, time.as_bytes()), None);
        }
    }

    #[test]
    fn no_bytes_make_the_search_for_an_end_panic() {
        for bytes in [&[][..], &[0x30], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0x30, 0x02, 0x30, 0x00], &[0xff; 64]] {
            assert_eq!(end_of(bytes), None);
        }
    }
}
