//! Where hosts connect.

use std::rc::Rc;

use hotset_cache::{Error, ErrorKind};
use hotset_serve::{TlsAcceptor, TlsFiles};

use super::Plane;
use crate::endpoint::Endpoint;

impl Plane {
    /// Begins to accept hosts on all `endpoints`; on TCP with TLS, if there are files for it.
    pub(crate) async fn listen(self: Rc<Self>, endpoints: Vec<Endpoint>, tls: Option<TlsFiles>) -> Result<(), Error> {
        let invalid = |message: String| Error::new(ErrorKind::Invalid, message);
        let acceptor =
            tls.map(|files| TlsAcceptor::load(&files)).transpose().map_err(|error| invalid(error.to_string()))?;
        for endpoint in endpoints {
            let listening = match &endpoint {
                Endpoint::Unix(path) => self.server.listen_unix(path, acceptor.clone()),
                Endpoint::Tcp(address) => self.server.listen_tcp(*address, acceptor.clone()),
            };
            let address = listening.map_err(|error| invalid(format!("nbd {endpoint}: {error}")))?;
            tracing::info!("hosts may connect to {address}");
        }
        Ok(())
    }
}
