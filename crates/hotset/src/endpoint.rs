//! Where something listens: `unix:PATH` or `tcp:ADDRESS:PORT`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use hotset_block::{InheritedListener, has_address};

/// The longest path of a unix socket: `sun_path` has 108 bytes, the last one is zero (unix(7)).
pub(crate) const SOCKET_PATH_BYTES_MAX: usize = 107;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Endpoint {
    /// No two sockets of a process can listen at both. Port 0 is another one each time.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(path), Self::Unix(other)) => path == other,
            (Self::Tcp(one), Self::Tcp(other)) => {
                let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
                let same_ip = one.ip() == other.ip() || (is_any && one.is_ipv4() == other.is_ipv4());
                one.port() == other.port() && one.port() != 0 && same_ip
            }
            (Self::Unix(_), Self::Tcp(_)) | (Self::Tcp(_), Self::Unix(_)) => false,
        }
    }

    /// Says that nobody can come to an address that no interface has: it may be about to get it, or be written wrong.
    pub(crate) fn warn_if_nowhere(&self, of: &str) {
        if let Self::Tcp(address) = self
            && !has_address(address.ip())
        {
            let ip = address.ip();
            tracing::warn!(
                "{of} {self}: no interface of this machine has {ip} now; clients can connect as soon as one has"
            );
        }
    }
}

/// An address to listen on, and the socket for that, if it is there already.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) endpoint: Endpoint,
    pub(crate) inherited: Option<InheritedListener>,
}

impl From<Endpoint> for Socket {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint, inherited: None }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) => unix(path),
            Some(("tcp", address)) => tcp(address),
            _ => Err(format!(
                "{text:?} is not an address: write unix:PATH or tcp:ADDRESS:PORT, as unix:/run/hotset.sock or tcp:127.0.0.1:10809"
            )),
        }
    }
}

fn unix(path: &str) -> Result<Endpoint, String> {
    if path.is_empty() {
        return Err("unix: needs the path of a socket, as unix:/run/hotset.sock".to_owned());
    }
    let path = std::path::absolute(path).map_err(|error| format!("unix:{path}: {error}"))?;
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(format!(
            "unix:{}: the path of a socket has at most {SOCKET_PATH_BYTES_MAX} bytes; choose a shorter one",
            path.display()
        ));
    }
    Ok(Endpoint::Unix(path))
}

fn tcp(address: &str) -> Result<Endpoint, String> {
    let numeric = match address.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => address.to_owned(),
    };
    let parsed = numeric.parse().map_err(|_| {
        format!("tcp:{address}: write a numeric address and a port, as tcp:127.0.0.1:10809 or tcp:[::1]:10809")
    })?;
    Ok(Endpoint::Tcp(parsed))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_written_alike() {
        for text in ["unix:/run/a.sock", "tcp:127.0.0.1:10809", "tcp:[::1]:80"] {
            assert_eq!(text.parse::<Endpoint>().expect("a valid value of the test").to_string(), text);
        }
        assert_eq!(
            "tcp:localhost:9".parse::<Endpoint>().expect("a valid value of the test").to_string(),
            "tcp:127.0.0.1:9"
        );
    }

    #[test]
    fn other_forms_are_refused_with_an_example() {
        for text in ["", "/run/a.sock", "unix:", "tcp:", "tcp:example.org:80", "tcp:1.2.3.4", "http://x"] {
            let message = text.parse::<Endpoint>().expect_err(text);
            assert!(message.contains(", as "), "{message}");
        }
        let long = format!("unix:/{}", "x".repeat(120));
        assert!(long.parse::<Endpoint>().expect_err("too long").contains("shorter"));
    }
}
