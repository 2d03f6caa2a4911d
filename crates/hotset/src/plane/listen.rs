//! Where hosts connect.

use std::rc::Rc;

use hotset_cache::{Error, ErrorKind};
use hotset_serve::{TlsAcceptor, TlsFiles};

use super::Plane;
use crate::endpoint::Endpoint;

impl Plane {
    /// Begins to accept hosts on all `endpoints`; on TCP with TLS, if there are files for it (who may use a unix socket
    /// is decided by its permissions). Answers where it listens, with the ports that the kernel chose.
    pub(crate) async fn listen(
        self: Rc<Self>,
        endpoints: Vec<Endpoint>,
        tls: Option<TlsFiles>,
    ) -> Result<Vec<Endpoint>, Error> {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let acceptor =
            tls.map(|files| TlsAcceptor::load(&files)).transpose().map_err(|error| invalid(error.to_string()))?;
        let mut listening = Vec::new();
        for endpoint in endpoints {
            let bound = match &endpoint {
                Endpoint::Unix(path) => self.server.listen_unix(path, None),
                Endpoint::Tcp(address) => self.server.listen_tcp(*address, acceptor.clone()),
            };
            let address = bound.map_err(|error| invalid(format!("nbd {endpoint}: {error}")))?;
            tracing::info!("hosts may connect to {address}");
            listening.push(address.parse().map_err(invalid)?);
        }
        Ok(listening)
    }
}
